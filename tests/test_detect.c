/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Detections compared with beam patterns in closed form, or with a dense search. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"
#include "manifold/angle.h"
#include "detect/detect.h"
#include "manifold/directions.h"

enum { MOST_DIRECTIONS = 4096, MOST_SOURCES = 8 };

static const double radians = M_PI / 180.0;

/* ---- a scene: sources on a uniform half-wavelength line, or on a ring's idealised beam ------- */

typedef struct scene {
    sonar_scan scan;
    size_t sensors;
    double period; /* of the pattern sin(n x)/sin(x) in the cosine: wavelength over spacing */
    size_t sources;
    double az[MOST_SOURCES], power[MOST_SOURCES];
    double noise;
    bool adaptive; /* narrow MVDR-like peaks instead of beams */
    size_t calls, points;
    sonar_code fail_with;
    bool answer_nan, first_nan;
    const sonar_detection *hint; /* of another spectrum */
    size_t hints;
} scene;

static double az_grid[MOST_DIRECTIONS];
static float spectrum[MOST_DIRECTIONS], scratch[4 * MOST_DIRECTIONS];

/* A cone's cosine, or an angle that wraps. */
static double coordinate(const scene *s, double az_deg, double source_deg) {
    if (s->scan.cone)
        return cos(az_deg * radians) - cos(source_deg * radians);
    return remainder(az_deg - source_deg, 360.0) / 180.0;
}

/* `beside` side lobes from there. */
static double pattern_beside(const scene *s, double az_deg, double source_deg, double beside) {
    const double n = (double)s->sensors;
    const double half =
        0.5 * M_PI * coordinate(s, az_deg, source_deg) * (s->scan.cone ? 2 / s->period : 1) +
        beside * M_PI / n;
    if (fabs(sin(half)) < 1e-12)
        return 1;
    return pow(sin(n * half) / (n * sin(half)), 2);
}

static double pattern(const scene *s, double az_deg, double source_deg) {
    return pattern_beside(s, az_deg, source_deg, 0);
}

/* The same at all frequencies. */
static void shares(void *ctx, sonar_point of, sonar_point at, double blur,
                   double share[SONAR_PATTERN_PARTS]) {
    const scene *s = ctx;
    double most = 0;
    for (int i = -4; i <= 4; i++)
        most = fmax(most, pattern_beside(s, at.az_deg, of.az_deg, blur * i / 4));
    for (size_t part = 0; part < SONAR_PATTERN_PARTS; part++)
        share[part] = most;
}

static double power_in(const scene *s, double az_deg) {
    double power = s->noise;
    for (size_t i = 0; i < s->sources; i++) {
        const double match = pattern(s, az_deg, s->az[i]);
        /* MVDR of one source in white noise (exact): 1 / (n/noise' (1 - match share)). */
        const double snr = s->power[i] / s->noise;
        power +=
            s->adaptive ? s->noise * (1 / (1 - match * snr / (1 + snr)) - 1) : s->power[i] * match;
    }
    return power;
}

static sonar_code power_at(void *ctx, size_t n, const double *az_deg, const double *range_m,
                           float *power, sonar_error *err) {
    scene *s = ctx;
    for (size_t i = 0; i < n; i++)
        cr_assert(isinf(range_m[i]));
    cr_assert_leq(n, (size_t)SONAR_DETECT_POINTS);
    s->calls++;
    s->points += n;
    if (s->fail_with != SONAR_OK)
        return sonar_fail(err, s->fail_with, "test", "refused");
    for (size_t i = 0; i < n; i++) {
        cr_assert(!s->scan.cone || (az_deg[i] >= 0 && az_deg[i] <= 180));
        power[i] = s->answer_nan || (s->first_nan && i == 0) ? NAN : (float)power_in(s, az_deg[i]);
    }
    return SONAR_OK;
}

static scene make_cone(size_t sensors) {
    scene s = {.sensors = sensors, .noise = 1, .period = 2.2};
    s.scan.cone = true;
    s.scan.beam_width_deg = 0.886 * s.period / (double)sensors / radians;
    const size_t steps = (size_t)ceil(2.0 / (0.3 * s.scan.beam_width_deg * radians));
    s.scan.count = steps + 1;
    cr_assert_leq(s.scan.count, (size_t)MOST_DIRECTIONS);
    for (size_t i = 0; i <= steps; i++)
        az_grid[i] = acos(1.0 - 2.0 * (double)i / (double)steps) / radians;
    s.scan.az_deg = az_grid;
    return s;
}

static scene make_ring(size_t sensors, size_t directions) {
    scene s = {.sensors = sensors, .noise = 1};
    s.scan.wraps = true;
    s.scan.beam_width_deg = 0.886 * 360.0 / (double)sensors;
    s.scan.count = directions;
    for (size_t i = 0; i < directions; i++)
        az_grid[i] = 360.0 * (double)i / (double)directions;
    s.scan.az_deg = az_grid;
    return s;
}

static void make_sector(scene *s, double start_deg, double step_deg, size_t directions) {
    s->scan.count = directions;
    s->scan.wraps = false;
    for (size_t i = 0; i < directions; i++)
        az_grid[i] = start_deg + step_deg * (double)i;
}

static void add_source(scene *s, double az_deg, double power) {
    s->az[s->sources] = az_deg;
    s->power[s->sources++] = power;
}

static void fill(const scene *s) {
    for (size_t i = 0; i < s->scan.count; i++)
        spectrum[i] = (float)power_in(s, s->scan.az_deg[i]);
}

/* The scan's windows, until the next call. */
static const sonar_split *split_of(const sonar_scan *scan) {
    static sonar_split *split;
    sonar_split_destroy(split);
    cr_assert_eq(sonar_split_create(scan, &split, NULL), SONAR_OK);
    return split;
}

static sonar_detect_spec spec_of(scene *s) {
    return (sonar_detect_spec){.scan = &s->scan,
                               .split = split_of(&s->scan),
                               .threshold_db = 6,
                               .most = 16,
                               .pattern = shares,
                               .pattern_ctx = s,
                               .hint = s->hint,
                               .hints = s->hints};
}

static size_t detect_by(const sonar_detect_spec *spec, scene *s, bool off_grid,
                        sonar_detection *found) {
    sonar_error err = {0};
    size_t count = 99;
    const sonar_code code =
        sonar_detect(spec, s->adaptive ? SONAR_FROM_MVDR : SONAR_FROM_CBF, spectrum, NULL, scratch,
                     off_grid ? power_at : NULL, s, found, &count, &err);
    cr_assert_eq(code, SONAR_OK, "%s", err.text);
    return count;
}

static size_t detect(scene *s, bool off_grid, sonar_detection *found) {
    const sonar_detect_spec spec = spec_of(s);
    return detect_by(&spec, s, off_grid, found);
}

static size_t detect_knowing(scene *s, const sonar_tops *tops, sonar_detection *found) {
    sonar_detect_spec spec = spec_of(s);
    spec.tops = tops;
    return detect_by(&spec, s, true, found);
}

/* ---- oracles: dense search ------------------------------------------------------------------- */

/* Highest power within `reach_deg` of az_deg, by three nested grids of 4001 points. */
static double dense_peak(const scene *s, double az_deg, double reach_deg, double *power) {
    double best = az_deg;
    for (int level = 0; level < 3; level++, reach_deg /= 1000) {
        const double centre = best;
        *power = 0;
        for (int i = -2000; i <= 2000; i++) {
            double az = centre + reach_deg * i / 2000;
            if (s->scan.cone)
                az = fmin(fmax(az, 0), 180);
            if (power_in(s, az) > *power) {
                *power = power_in(s, az);
                best = az;
            }
        }
    }
    return best;
}

static double dense_edge(const scene *s, double az_deg, double way, double half) {
    double low = 0, high = 1e-7;
    while (power_in(s, az_deg + way * high) > half && high < 90)
        high *= 1.1;
    for (int i = 0; i < 60; i++) {
        const double middle = 0.5 * (low + high);
        *(power_in(s, az_deg + way * middle) > half ? &low : &high) = middle;
    }
    return az_deg + way * low;
}

static double level_error_db(double a, double b) {
    return fabs(10 * log10(a / b));
}

static uint64_t random_state; /* set at the start of each test that draws */

static double uniform(void) {
    return sonar_random_uniform(&random_state);
}

static double normal(void) {
    return sonar_random_normal(&random_state);
}

/* ---- off the grid ---------------------------------------------------------------------------- */

Test(detect, finds_beams_at_random_bearings_with_level_and_width) {
    random_state = 1;
    const size_t sensors[] = {8, 13, 32, 61, 128, 509};
    for (size_t k = 0; k < 6; k++)
        for (int trial = 0; trial < 20; trial++) {
            scene s = make_cone(sensors[k]);
            const double beam = s.scan.beam_width_deg;
            add_source(&s, 35 + 110 * uniform(), 100);
            fill(&s);
            sonar_detection d[16];
            cr_assert_eq(detect(&s, true, d), 1, "%zu sensors", sensors[k]);
            double power;
            const double az = dense_peak(&s, s.az[0], beam, &power);
            cr_assert_lt(fabs(d[0].az_deg - az), 1e-3 * beam, "%g off %g", d[0].az_deg, az);
            cr_assert_lt(level_error_db(d[0].power, power), 1e-3);
            const double width =
                dense_edge(&s, az, 1, power / 2) - dense_edge(&s, az, -1, power / 2);
            cr_assert_lt(fabs(d[0].width_deg - width), 5e-3 * width);
            cr_assert_lt(fabs(d[0].snr_db - 10 * log10(d[0].power / d[0].background)), 1e-9);
            cr_assert(isnan(d[0].range_m));
        }
}

Test(detect, recovers_the_level_of_needles_between_directions) {
    random_state = 2;
    for (double snr_db = 10; snr_db <= 60; snr_db += 10)
        for (int trial = 0; trial < 20; trial++) {
            scene s = make_cone(128);
            make_sector(&s, 10, 1, 160); /* coarser than the beam */
            s.adaptive = true;
            add_source(&s, 30 + 120 * uniform(), pow(10, snr_db / 10));
            fill(&s);
            sonar_detection d[16];
            const size_t count = detect(&s, true, d);
            if (count == 0) { /* lost only where the grid itself hardly sees it */
                double most = 0;
                for (size_t i = 0; i < s.scan.count; i++)
                    most = fmax(most, (double)spectrum[i]);
                cr_assert_lt(most, 2.1);
                continue;
            }
            cr_assert_eq(count, 1);
            cr_assert_lt(fabs(d[0].az_deg - s.az[0]), 1e-3);
            cr_assert_lt(level_error_db(d[0].power, s.power[0] + 1), 0.02, "%g dB: %g", snr_db,
                         level_error_db(d[0].power, s.power[0] + 1));
            const double half = (s.power[0] + 1) / 2;
            const double width =
                dense_edge(&s, s.az[0], 1, half) - dense_edge(&s, s.az[0], -1, half);
            cr_assert_lt(fabs(d[0].width_deg - width), 0.05 * width + 2e-5);
            cr_assert_leq(s.calls, 18);
            cr_assert_leq(s.points, 96, "%zu points at %g dB", s.points, snr_db);
        }
}

/* The grid's direction of a detection and its lower neighbours, between which its top lies. */
static bool bracket_of(const scene *s, double az_deg, double *low, double *high) {
    const ptrdiff_t n = (ptrdiff_t)s->scan.count;
    ptrdiff_t at = sonar_scan_first(&s->scan, az_deg);
    const ptrdiff_t below = at - 1;
    if (!s->scan.wraps && (below < 1 || at > n - 2))
        return false;
    if (spectrum[sonar_scan_index(&s->scan, below)] > spectrum[sonar_scan_index(&s->scan, at)])
        at = below;
    *low = sonar_scan_az(&s->scan, at - 1);
    *high = sonar_scan_az(&s->scan, at + 1);
    return true;
}

/* Compares place and level of every detection with a search between the neighbours of its grid
 * direction. If two tops lie there, either may be found, so these are skipped. */
static size_t compare_with_dense_search(scene *s) {
    sonar_detection d[16];
    fill(s);
    const size_t count = detect(s, true, d);
    size_t compared = 0;
    for (size_t i = 0; i < count; i++) {
        double low, high, power;
        const double az = d[i].az_deg, beam = s->scan.beam_width_deg;
        const double local = s->scan.cone ? beam / fmax(sin(az * radians), 0.05) : beam;
        if (!bracket_of(s, az, &low, &high))
            continue;
        const double best = dense_peak(s, (low + high) / 2, (high - low) / 2, &power);
        if (fabs(best - az) > 0.2 * local && level_error_db(power_in(s, az), d[i].power) < 0.01)
            continue;
        cr_assert_lt(level_error_db(d[i].power, power), 0.01, "%zu sensors, %g deg: %g dB",
                     s->sensors, az, level_error_db(d[i].power, power));
        cr_assert_lt(fabs(best - az), 0.01 * local, "%zu sensors, %g deg: off by %g beam widths",
                     s->sensors, az, (best - az) / local);
        compared++;
    }
    return compared;
}

static void add_random_sources(scene *s) {
    const size_t sources = 1 + (size_t)(6 * uniform());
    for (size_t i = 0; i < sources; i++) {
        const double az = s->scan.wraps ? 360 * uniform() : 12 + 156 * uniform();
        const double power = pow(10, 1 + 5 * uniform());
        bool beside = false; /* narrow peaks this near to each other do not add up */
        for (size_t k = 0; k < s->sources; k++)
            beside |= s->adaptive && sonar_beams_apart(&s->scan, az, s->az[k]) < 2;
        if (!beside)
            add_source(s, az, power);
    }
}

Test(detect, tops_are_those_of_a_dense_search_in_random_scenes, .timeout = 600) {
    static const size_t sensors[] = {8, 24, 61, 128, 400};
    random_state = 22;
    size_t compared = 0;
    for (int trial = 0; trial < 200; trial++) {
        scene s = trial % 4 == 3 ? make_ring(sensors[trial % 5], 2 * sensors[trial % 5] + 40)
                                 : make_cone(sensors[trial % 5]);
        if (trial % 4 == 2)
            make_sector(&s, 2, 1.1, 160); /* coarser than most of the beams */
        s.adaptive = trial % 8 >= 4;
        add_random_sources(&s);
        compared += compare_with_dense_search(&s);
    }
    cr_assert_gt(compared, 300, "%zu", compared);
}

static bool are_same(const sonar_detection *a, const sonar_detection *b, size_t n) {
    bool same = true;
    for (size_t i = 0; i < n; i++)
        same = same && a[i].az_deg == b[i].az_deg && a[i].power == b[i].power &&
               memcmp(&a[i].width_deg, &b[i].width_deg, sizeof a[i].width_deg) == 0 &&
               memcmp(&a[i].shape, &b[i].shape, sizeof a[i].shape) == 0;
    return same;
}

/* A contact of the other spectrum saves the search through a coarse grid's cell; a wrong one costs
 * only one round. */
Test(detect, looks_first_where_another_spectrum_has_a_contact) {
    random_state = 24;
    for (int trial = 0; trial < 60; trial++) {
        scene s = make_cone(128), plain;
        make_sector(&s, 10, 1, 160);
        s.adaptive = true;
        add_source(&s, 30 + 120 * uniform(), pow(10, 1.5 + 3 * uniform()));
        fill(&s);
        sonar_detection without[16], d[16], hint[2] = {{.az_deg = 20}, {.az_deg = s.az[0]}};
        const size_t count = detect(&s, true, without);
        plain = s;
        s.calls = s.points = 0;
        s.hint = hint;
        s.hints = 2;
        hint[1].az_deg += trial % 3 == 2 ? 0.4 : 0.004 * s.scan.beam_width_deg;
        const size_t hinted = detect(&s, true, d);
        if (!count) { /* the grid hardly sees it; the other spectrum does */
            cr_assert_leq(hinted, 1);
            cr_assert(!hinted || fabs(d[0].az_deg - s.az[0]) < 1e-3);
            continue;
        }
        cr_assert_eq(hinted, count);
        cr_assert_lt(level_error_db(d[0].power, s.power[0] + 1), 0.02);
        cr_assert_lt(fabs(d[0].az_deg - without[0].az_deg), 1e-3 * s.scan.beam_width_deg);
        cr_assert_leq(s.calls, trial % 3 == 2 ? plain.calls + 2 : 3, "%zu calls", s.calls);
    }
}

/* Detections are the same bytes whichever tops of the spectrum are known, and those are not
 * searched again. Contacts of another spectrum then matter only where the grid has no peak. */
Test(detect, known_tops_change_no_detection) {
    random_state = 25;
    size_t found = 0;
    for (int trial = 0; trial < 40; trial++) {
        scene s = make_cone(trial % 2 ? 128 : 40);
        s.adaptive = true;
        add_random_sources(&s);
        fill(&s);
        sonar_tops none = {.count = 0}, tops;
        sonar_detection without[16], d[16], hint = {.az_deg = s.az[0] + 0.01};
        const size_t count = detect_knowing(&s, &none, without), calls = s.calls;
        const sonar_detect_spec spec = spec_of(&s);
        cr_assert_eq(sonar_detect_tops(&spec, spectrum, scratch, power_at, &s, &tops, NULL),
                     SONAR_OK);
        cr_assert_geq(tops.count, count);
        s.hint = &hint;
        s.hints = 1;
        s.calls = 0;
        cr_assert_eq(detect_knowing(&s, &tops, d), count);
        cr_assert(are_same(d, without, count));
        cr_assert(s.calls < calls || !calls, "%zu calls, %zu before", s.calls, calls);
        found += count;
    }
    cr_assert_gt(found, 60, "%zu", found);
}

/* A narrow peak between two directions that do not show it: the other spectrum's contact does. */
Test(detect, finds_a_needle_where_only_another_spectrum_has_a_contact) {
    for (int beside = 0; beside < 2; beside++) {
        scene s = make_cone(1000);
        make_sector(&s, 10, 2, 80);
        s.adaptive = true;
        add_source(&s, 91, 1e5);
        fill(&s);
        sonar_detection d[16];
        cr_assert_eq(detect(&s, true, d), 0, "the grid shows it");
        const sonar_detection hint[] = {{.az_deg = 91.002}, {.az_deg = 60.7}, {.az_deg = 179}};
        s.hint = hint + beside;
        s.hints = (size_t)(3 - beside);
        cr_assert_eq(detect(&s, true, d), beside ? 0 : 1, "a contact is only where one is heard");
        if (beside)
            continue;
        cr_assert_lt(fabs(d[0].az_deg - 91), 1e-4, "%g", d[0].az_deg);
        cr_assert_lt(level_error_db(d[0].power, 1e5 + 1), 0.02, "%g", d[0].power);
    }
}

/* A narrow peak at a direction of a grid so coarse that no other point shows it. */
Test(detect, keeps_a_needle_that_only_the_grid_shows) {
    for (int hinted = 0; hinted < 2; hinted++) {
        scene s = make_cone(1000);
        make_sector(&s, 10, 2, 80);
        s.adaptive = true;
        add_source(&s, 90, 1e5);
        fill(&s);
        const sonar_detection hint = {.az_deg = 90.003};
        s.hint = &hint;
        s.hints = (size_t)hinted;
        sonar_detection d[16];
        cr_assert_eq(detect(&s, true, d), 1);
        cr_assert_lt(fabs(d[0].az_deg - 90), 1e-4, "%g", d[0].az_deg);
        cr_assert_lt(level_error_db(d[0].power, 1e5 + 1), 0.02, "%g", d[0].power);
    }
}

/* A window waits for the device only a few times, for any scene. */
Test(detect, asks_for_all_peaks_at_once) {
    random_state = 23;
    for (int trial = 0; trial < 20; trial++) {
        scene s = make_cone(400);
        s.adaptive = trial % 2;
        for (int i = 0; i < MOST_SOURCES; i++)
            add_source(&s, 20 + 18 * i + 5 * uniform(), 100);
        fill(&s);
        sonar_detection d[16];
        cr_assert_geq(detect(&s, true, d), (size_t)MOST_SOURCES);
        cr_assert_leq(s.calls, 4, "%zu calls", s.calls);
        cr_assert_leq(s.points, 20 * (size_t)MOST_SOURCES, "%zu points", s.points);
    }
}

Test(detect, interpolates_the_grid_without_a_beamformer) {
    random_state = 3;
    for (int trial = 0; trial < 100; trial++) {
        scene s = make_cone(64);
        add_source(&s, 40 + 100 * uniform(), 1000);
        fill(&s);
        sonar_detection d[16];
        cr_assert_eq(detect(&s, false, d), 1);
        cr_assert_eq(s.calls, 0);
        cr_assert_lt(fabs(d[0].az_deg - s.az[0]),
                     0.02 * s.scan.beam_width_deg / sin(s.az[0] * radians));
        cr_assert_lt(level_error_db(d[0].power, 1001), 0.05);
        const double expected = s.scan.beam_width_deg / sin(s.az[0] * radians);
        cr_assert_lt(fabs(d[0].width_deg - expected), 0.15 * expected);
    }
}

/* ---- which peaks ----------------------------------------------------------------------------- */

Test(detect, separates_two_peaks_a_little_over_a_beam_apart) {
    for (int k = 0; k < 40; k++) {
        scene s = make_cone(64);
        const double a = 60 + k * 0.7;
        const double b = acos(cos(a * radians) - 1.2 * s.scan.beam_width_deg * radians) / radians;
        add_source(&s, a, 100);
        add_source(&s, b, 100);
        fill(&s);
        sonar_detection d[16];
        cr_assert_eq(detect(&s, true, d), 2, "from %g deg", a);
        const double low = fmin(d[0].az_deg, d[1].az_deg), high = fmax(d[0].az_deg, d[1].az_deg);
        cr_assert_lt(fabs(low - a), 0.15 * s.scan.beam_width_deg);
        cr_assert_lt(fabs(high - b), 0.15 * s.scan.beam_width_deg / sin(b * radians));
        cr_assert_geq(d[0].power, d[1].power);
    }
}

Test(detect, merges_what_is_nearer_than_the_separation_asked_for) {
    scene s = make_cone(64);
    add_source(&s, 88, 100);
    add_source(&s, 92, 90);
    fill(&s);
    sonar_detection d[16];
    sonar_detect_spec spec = spec_of(&s);
    size_t count;
    spec.min_separation_deg = 5;
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_CBF, spectrum, NULL, scratch, power_at, &s, d, &count, NULL),
        SONAR_OK);
    cr_assert_eq(count, 1);
    cr_assert_lt(fabs(d[0].az_deg - 88), 0.1);
    spec.min_separation_deg = 3;
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_CBF, spectrum, NULL, scratch, power_at, &s, d, &count, NULL),
        SONAR_OK);
    cr_assert_eq(count, 2);
}

Test(detect, lists_no_side_lobe_of_a_loud_contact) {
    const size_t sensors[] = {6, 8, 16, 33, 128, 400};
    for (size_t k = 0; k < 6; k++)
        for (double az = 0; az <= 180; az += 7.3) {
            scene s = make_cone(sensors[k]);
            const double beams_to_grating =
                (s.period - 1 - fabs(cos(az * radians))) / (s.scan.beam_width_deg * radians);
            if (beams_to_grating < 1.7) /* its flank is in the scan */
                continue;
            add_source(&s, az, 1e6); /* 60 dB: every side lobe exceeds the noise */
            fill(&s);
            sonar_detection d[16];
            cr_assert_eq(detect(&s, true, d), 1, "%zu sensors, %g deg: a side lobe at %g",
                         sensors[k], az, d[1].az_deg);
        }
}

Test(detect, lists_the_side_lobes_if_the_rule_is_off) {
    scene s = make_cone(32);
    add_source(&s, 90, 1e6);
    fill(&s);
    sonar_detect_spec spec = spec_of(&s);
    sonar_detection d[16];
    size_t count;
    spec.pattern = NULL;
    spec.threshold_db = 3;
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_CBF, spectrum, NULL, scratch, power_at, &s, d, &count, NULL),
        SONAR_OK);
    cr_assert_gt(count, 1);
    cr_assert_lt(fabs(level_error_db(d[0].power, d[1].power) - 13.2), 0.2);
}

Test(detect, keeps_a_quiet_contact_that_stands_over_the_side_lobes) {
    scene s = make_cone(128);
    add_source(&s, 60, 1e6);
    add_source(&s, 110, 3e3); /* 25 dB under the loud one, 63 beams away */
    fill(&s);
    sonar_detection d[16];
    cr_assert_eq(detect(&s, true, d), 2);
    cr_assert_lt(fabs(d[1].az_deg - 110), 0.1);
}

/* Side lobes of equal height. */
static void flat(void *ctx, sonar_point of, sonar_point at, double blur,
                 double share[SONAR_PATTERN_PARTS]) {
    const double *level = ctx;
    (void)blur;
    for (size_t part = 0; part < SONAR_PATTERN_PARTS; part++)
        share[part] = fabs(of.az_deg - at.az_deg) < 1 ? 1 : *level;
}

Test(detect, obeys_the_array_s_own_side_lobe_level) {
    scene s = make_cone(128);
    add_source(&s, 60, 1e4);
    add_source(&s, 75, 30); /* 25 dB under: a side lobe at 20 dB flat, a contact at 40 */
    fill(&s);
    sonar_detect_spec spec = spec_of(&s);
    sonar_detection d[16];
    size_t count;
    for (int pass = 0; pass < 2; pass++) {
        double level = pass ? 1e-4 : 1e-2;
        spec.pattern = flat;
        spec.pattern_ctx = &level;
        cr_assert_eq(sonar_detect(&spec, SONAR_FROM_MVDR, spectrum, NULL, scratch, power_at, &s, d,
                                  &count, NULL),
                     SONAR_OK);
        bool seen = false;
        for (size_t i = 0; i < count; i++)
            seen = seen || fabs(d[i].az_deg - 75) < 0.3;
        cr_assert(seen, "the rule is not for MVDR");
        cr_assert_eq(sonar_detect(&spec, SONAR_FROM_CBF, spectrum, NULL, scratch, power_at, &s, d,
                                  &count, NULL),
                     SONAR_OK);
        seen = false;
        for (size_t i = 0; i < count; i++)
            seen = seen || fabs(d[i].az_deg - 75) < 0.3;
        cr_assert_eq(seen, pass == 1);
    }
}

Test(detect, strongest_first_and_no_more_than_asked) {
    scene s = make_ring(64, 240);
    for (size_t i = 0; i < 8; i++)
        add_source(&s, 20.3 + 41 * (double)i, 100 + 10 * (double)((i * 5) % 8));
    fill(&s);
    sonar_detect_spec spec = spec_of(&s);
    sonar_detection d[8];
    size_t count;
    for (spec.most = 0; spec.most <= 8; spec.most++) {
        cr_assert_eq(sonar_detect(&spec, SONAR_FROM_CBF, spectrum, NULL, scratch, power_at, &s, d,
                                  &count, NULL),
                     SONAR_OK);
        cr_assert_eq(count, spec.most);
        for (size_t i = 1; i < count; i++)
            cr_assert_geq(d[i - 1].power, d[i].power);
        if (count > 0)
            cr_assert_lt(level_error_db(d[0].power, 171), 0.1);
    }
}

/* ---- ends, wrapping, plateaus ---------------------------------------------------------------- */

Test(detect, wraps_where_the_scan_does) {
    for (double az = 350; az < 370; az += 0.37) {
        scene s = make_ring(64, 240);
        add_source(&s, fmod(az, 360), 100);
        fill(&s);
        sonar_detection d[16];
        cr_assert_eq(detect(&s, true, d), 1, "%g", az);
        cr_assert_lt(fabs(remainder(d[0].az_deg - az, 360)), 1e-3 * s.scan.beam_width_deg);
        cr_assert(d[0].az_deg >= 0 && d[0].az_deg < 360);
        cr_assert_lt(fabs(d[0].width_deg - s.scan.beam_width_deg), 0.03 * s.scan.beam_width_deg);
        cr_assert_eq(detect(&s, false, d), 1);
        cr_assert_lt(fabs(remainder(d[0].az_deg - az, 360)), 0.03 * s.scan.beam_width_deg);
    }
}

Test(detect, sees_both_endfires) {
    for (int end = 0; end < 2; end++)
        for (int off_grid = 0; off_grid < 2; off_grid++) {
            scene s = make_cone(32);
            add_source(&s, end ? 180 : 0, 100);
            fill(&s);
            sonar_detection d[16];
            cr_assert_eq(detect(&s, off_grid, d), 1);
            cr_assert_float_eq(d[0].az_deg, end ? 180 : 0, 1e-9);
            cr_assert_lt(level_error_db(d[0].power, 101), 0.01);
            cr_assert(isnan(d[0].width_deg));
        }
}

Test(detect, does_not_take_the_end_of_a_scan_for_a_peak) {
    sonar_detection d[16];
    scene s = make_cone(64);
    make_sector(&s, 30, 0.5, 200);
    add_source(&s, 29, 1000); /* outside: its slope ends on the first direction */
    fill(&s);
    cr_assert_eq(detect(&s, true, d), 0);
    cr_assert_eq(detect(&s, false, d), 0);
    s.az[0] = 29.8; /* less than one step outside */
    fill(&s);
    cr_assert_eq(detect(&s, true, d), 1);
    cr_assert_lt(fabs(d[0].az_deg - 29.8), 0.01);
    s.az[0] = 129.6; /* beyond the last direction, 129.5 */
    fill(&s);
    cr_assert_eq(detect(&s, true, d), 1);
    cr_assert_lt(fabs(d[0].az_deg - 129.6), 0.01);
}

Test(detect, takes_the_middle_of_a_plateau) {
    for (int wraps = 0; wraps < 2; wraps++)
        for (size_t first = wraps ? 0 : 1; first < (wraps ? 100u : 96u); first++) {
            scene s = make_ring(50, 100);
            s.scan.wraps = wraps;
            for (size_t i = 0; i < 100; i++)
                spectrum[i] = 1;
            for (size_t i = first; i < first + 3; i++)
                spectrum[i % 100] = 100;
            sonar_detection d[16];
            cr_assert_eq(detect(&s, false, d), 1);
            cr_assert_lt(fabs(remainder(d[0].az_deg - 3.6 * (double)(first + 1), 360)), 1e-6);
        }
}

/* ---- faults ---------------------------------------------------------------------------------- */

Test(detect, says_nothing_of_flat_empty_or_broken_spectra) {
    const float values[] = {0, 1, 1e30f, 1e-38f, NAN, INFINITY, -1};
    sonar_detection d[16];
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (int wraps = 0; wraps < 2; wraps++)
            for (size_t n = 0; n <= 240; n = n < 5 ? n + 1 : n * 2) {
                scene s = make_ring(64, n);
                s.scan.wraps = wraps;
                for (size_t i = 0; i < n; i++)
                    spectrum[i] = values[v];
                cr_assert_eq(detect(&s, false, d), 0);
                cr_assert_eq(detect(&s, true, d), 0);
            }
    scene s = make_cone(64);
    add_source(&s, 77, 1000);
    fill(&s);
    spectrum[3] = NAN;
    cr_assert_eq(detect(&s, true, d), 0);
    spectrum[3] = INFINITY;
    cr_assert_eq(detect(&s, true, d), 0);
    cr_assert_eq(detect(&s, false, d), 0);
}

Test(detect, a_flat_cone_has_no_peak_however_low_the_threshold) {
    scene s = make_cone(64);
    for (size_t i = 0; i < s.scan.count; i++)
        spectrum[i] = 3;
    sonar_detect_spec spec = spec_of(&s);
    sonar_detection d[16];
    size_t count;
    spec.threshold_db = -10;
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_MVDR, spectrum, NULL, scratch, NULL, NULL, d, &count, NULL),
        SONAR_OK);
    cr_assert_eq(count, 0);
}

Test(detect, the_grid_s_parabola_does_not_overshoot_a_needle) {
    scene s = make_ring(64, 240);
    for (size_t i = 0; i < s.scan.count; i++)
        spectrum[i] = 1e-12f;
    spectrum[100] = 1;
    spectrum[101] = 0.95f;
    sonar_detection d[16];
    cr_assert_eq(detect(&s, false, d), 1);
    cr_assert_lt(d[0].power, 2.0);
    cr_assert(d[0].az_deg > 150 && d[0].az_deg < 151.5);
}

Test(detect, a_peak_on_a_stronger_one_s_shoulder_has_no_width) {
    scene s = make_cone(64);
    add_source(&s, 88, 100);
    add_source(&s, acos(cos(88 * radians) - 1.2 * s.scan.beam_width_deg * radians) / radians, 85);
    fill(&s);
    sonar_detection d[16];
    cr_assert_eq(detect(&s, true, d), 2);
    cr_assert_gt(d[0].width_deg, s.scan.beam_width_deg);
    cr_assert(isnan(d[1].width_deg));
}

Test(detect, a_lone_peak_in_silence_has_a_finite_level) {
    scene s = make_ring(64, 240);
    memset(spectrum, 0, sizeof spectrum);
    spectrum[100] = 1;
    sonar_detection d[16];
    cr_assert_eq(detect(&s, false, d), 1);
    cr_assert(isfinite(d[0].snr_db) && isfinite(d[0].power) && d[0].background > 0);
    cr_assert_float_eq(d[0].az_deg, 150, 1e-9);
}

Test(detect, passes_on_what_the_beamformer_refuses) {
    scene s = make_cone(64);
    add_source(&s, 77, 1000);
    fill(&s);
    const sonar_detect_spec spec = spec_of(&s);
    sonar_detection d[16];
    sonar_error err = {0};
    size_t count = 5;
    s.fail_with = SONAR_EUNAVAILABLE;
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_CBF, spectrum, NULL, scratch, power_at, &s, d, &count, &err),
        SONAR_EUNAVAILABLE);
    cr_assert_eq(count, 0);
    cr_assert_str_eq(err.text, "refused");
    s.fail_with = SONAR_OK;
    s.first_nan = true; /* a single answer must not lose the peak */
    cr_assert_eq(detect(&s, true, d), 1);
    cr_assert_lt(fabs(d[0].az_deg - 77), 0.01);
    s.answer_nan = true;
    cr_assert_eq(detect(&s, true, d), 0);
}

Test(detect, refuses_a_list_longer_than_the_most) {
    scene s = make_cone(8);
    sonar_detect_spec spec = spec_of(&s);
    sonar_detection d[1];
    size_t count;
    spec.most = SONAR_DETECTIONS_MOST + 1;
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_CBF, spectrum, NULL, scratch, NULL, NULL, d, &count, NULL),
        SONAR_EINVAL);
}

/* ---- background ------------------------------------------------------------------------------ */

Test(detect, noise_alone_is_no_contact) {
    random_state = 4;
    for (int trial = 0; trial < 200; trial++) {
        scene s = make_cone(128);
        for (size_t i = 0; i < s.scan.count; i++) { /* 32 bin-snapshots averaged: chi^2, 64 */
            double sum = 0;
            for (int k = 0; k < 64; k++)
                sum += pow(normal(), 2);
            spectrum[i] = (float)(sum / 64);
        }
        sonar_detection d[16];
        cr_assert_eq(detect(&s, false, d), 0);
    }
}

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

Test(detect, background_is_the_median_of_the_split_window) {
    random_state = 5;
    scene s = make_ring(97, 350);
    float background[350], work[350], cell[350];
    for (size_t i = 0; i < 350; i++)
        spectrum[i] = (float)uniform();
    sonar_detect_background(split_of(&s.scan), spectrum, background, work);
    for (size_t i = 0; i < 350; i++) {
        size_t n = 0;
        for (size_t j = 0; j < 350; j++) {
            const double apart =
                fabs(remainder(az_grid[i] - az_grid[j], 360)) / s.scan.beam_width_deg;
            if (apart > 1.5 && apart < 11.5)
                cell[n++] = spectrum[j];
        }
        qsort(cell, n, sizeof *cell, by_value);
        cr_assert_eq(background[i], (cell[(n - 1) / 2] + cell[n / 2]) / 2,
                     "direction %zu, %zu cells", i, n);
    }
}

Test(detect, background_of_a_cone_counts_beams_in_the_cosine) {
    random_state = 7;
    scene s = make_cone(128);
    static float background[MOST_DIRECTIONS], cell[MOST_DIRECTIONS];
    for (size_t i = 0; i < s.scan.count; i++)
        spectrum[i] = (float)uniform();
    sonar_detect_background(split_of(&s.scan), spectrum, background, scratch);
    for (size_t i = 0; i < s.scan.count; i++) {
        size_t n = 0;
        for (size_t j = 0; j < s.scan.count; j++) {
            const double apart = fabs(cos(az_grid[i] * radians) - cos(az_grid[j] * radians)) /
                                 (s.scan.beam_width_deg * radians);
            if (apart > 1.5 && apart < 11.5)
                cell[n++] = spectrum[j];
        }
        qsort(cell, n, sizeof *cell, by_value);
        cr_assert_eq(background[i], (cell[(n - 1) / 2] + cell[n / 2]) / 2,
                     "direction %zu, %zu cells", i, n);
    }
}

Test(detect, background_ignores_peaks_and_follows_the_noise) {
    scene s = make_cone(128);
    for (size_t i = 0; i < s.scan.count; i++)
        spectrum[i] = az_grid[i] < 90 ? 1 : 10;
    for (size_t i = 10; i < s.scan.count; i += 11)
        spectrum[i] = 1e6f;
    float background[MOST_DIRECTIONS];
    sonar_detect_background(split_of(&s.scan), spectrum, background, scratch);
    for (size_t i = 0; i < s.scan.count; i++)
        if (fabs(az_grid[i] - 90) > 10)
            cr_assert_float_eq(background[i], az_grid[i] < 90 ? 1 : 10, 0, "%g deg", az_grid[i]);
}

Test(detect, background_of_a_beam_as_wide_as_the_scan_is_the_whole_median) {
    scene s = make_ring(2, 5);
    const float power[] = {1, 9, 2, 7, 3};
    float background[5], work[5];
    sonar_detect_background(split_of(&s.scan), power, background, work);
    for (size_t i = 0; i < 5; i++)
        cr_assert_eq(background[i], 3);
}

/* ---- bearing and range ----------------------------------------------------------------------- */

Test(detect, bearings_of_a_cone_and_of_a_turn) {
    sonar_scan scan = {.cone = true, .axis_az_deg = 10};
    double bearing, mirror;
    sonar_detect_bearing(&scan, 30, 100, true, &bearing, &mirror);
    cr_assert_float_eq(bearing, 140, 1e-9);
    cr_assert_float_eq(mirror, 80, 1e-9);
    sonar_detect_bearing(&scan, 30, 100, false, &bearing, &mirror);
    cr_assert_float_eq(bearing, 40, 1e-9);
    cr_assert_float_eq(mirror, 340, 1e-9);
    scan = (sonar_scan){.wraps = true};
    sonar_detect_bearing(&scan, 300, 100, true, &bearing, &mirror);
    cr_assert_float_eq(bearing, 40, 1e-9);
    cr_assert(isnan(mirror));
    sonar_detect_bearing(&scan, -1e-14, 0, true, &bearing, &mirror);
    cr_assert(bearing >= 0 && bearing < 360);
    sonar_detect_bearing(&scan, 10, -380, true, &bearing, &mirror);
    cr_assert_float_eq(bearing, 350, 1e-9);
}

/* Sources in the horizontal plane all around: a tilted line measures the angle between axis and
 * source, and one of the two bearings of that angle must be the source's. */
Test(detect, bearings_of_a_tilted_line_are_those_in_the_horizontal_plane) {
    for (double tilt_deg = -85; tilt_deg <= 85; tilt_deg += 17)
        for (double source_deg = 0; source_deg < 360; source_deg += 7) {
            const double t = tilt_deg * radians, b = source_deg * radians, axis_deg = 25;
            const double a = axis_deg * radians;
            const double axis[3] = {cos(t) * cos(a), cos(t) * sin(a), sin(t)};
            const double cone_deg = acos(cos(b) * axis[0] + sin(b) * axis[1]) / radians;
            const sonar_scan scan = {.cone = true,
                                     .axis_az_deg = axis_deg,
                                     .axis_depression_deg = tilt_deg,
                                     .beam_width_deg = 1};
            double bearing, mirror;
            sonar_detect_bearing(&scan, cone_deg, 100, true, &bearing, &mirror);
            const double truth = 100 + source_deg;
            const double apart =
                fmin(fabs(remainder(bearing - truth, 360)), fabs(remainder(mirror - truth, 360)));
            cr_assert_lt(apart, 1e-5, "%g deg read as %g or %g, tilt %g", truth, bearing, mirror,
                         tilt_deg);
            const double middle = remainder((bearing + mirror) / 2 - 100 - axis_deg, 180);
            cr_assert_lt(fabs(middle), 1e-5, "the two are not on both sides of the axis");
        }
    double bearing, mirror; /* the case of a reader: 40 deg of tilt, 60 deg off the axis */
    const sonar_scan scan = {.cone = true, .axis_depression_deg = 40, .beam_width_deg = 1};
    sonar_detect_bearing(&scan, acos(cos(40 * radians) * cos(60 * radians)) / radians, 0, true,
                         &bearing, &mirror);
    cr_assert_float_eq(bearing, 60, 1e-9);
    cr_assert_float_eq(mirror, 300, 1e-9);
}

Test(detect, a_cone_that_misses_the_horizontal_plane_has_no_bearing) {
    double bearing, mirror;
    sonar_scan scan = {.cone = true, .axis_depression_deg = 40, .beam_width_deg = 1};
    const double outside_deg[] = {0, 20, 39, 141, 180};
    for (size_t i = 0; i < sizeof outside_deg / sizeof *outside_deg; i++) {
        sonar_detect_bearing(&scan, outside_deg[i], 10, true, &bearing, &mirror);
        cr_assert(isnan(bearing) && isnan(mirror), "%g deg has %g", outside_deg[i], bearing);
    }
    sonar_detect_bearing(&scan, 39.9, 10, true, &bearing, &mirror); /* by a part of a beam */
    cr_assert_float_eq(bearing, 10, 1e-9);
    cr_assert_float_eq(mirror, 10, 1e-9);
    scan = (sonar_scan){
        .cone = true, .axis_az_deg = NAN, .axis_depression_deg = 90, .beam_width_deg = 5};
    for (double cone_deg = 0; cone_deg <= 180; cone_deg += 5) {
        sonar_detect_bearing(&scan, cone_deg, 10, true, &bearing, &mirror);
        cr_assert(isnan(bearing) && isnan(mirror), "vertical: %g deg has %g", cone_deg, bearing);
    }
}

/* A near field whose level is a parabola in 1/r around the source, 3 dB at half a depth of focus.
 */
static void fill_nearfield(const scene *s, size_t ranges, const double *range_m, double source_m,
                           double depth, float *near, float *far) {
    for (size_t i = 0; i <= ranges; i++) {
        const double off = (i < ranges ? 1 / range_m[i] : 0) - 1 / source_m;
        const double gain = pow(10, -1.2 * off * off / (depth * depth));
        for (size_t t = 0; t < s->scan.count; t++)
            (i < ranges ? near + i * s->scan.count : far)[t] =
                (float)(1 + gain * (power_in(s, az_grid[t]) - 1));
    }
}

/* The one contact of that scene, without a beamformer to ask. */
static sonar_detection ranged(scene *s, const float *far, const sonar_nearfield *near,
                              double aperture_m) {
    sonar_detect_spec spec = spec_of(s);
    sonar_detection d[16];
    size_t count;
    spec.aperture_m = aperture_m;
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_CBF, far, near, scratch, NULL, NULL, d, &count, NULL),
        SONAR_OK);
    cr_assert_eq(count, 1);
    cr_assert_lt(fabs(d[0].az_deg - s->az[0]), 0.1 * s->scan.beam_width_deg);
    return d[0];
}

Test(detect, ranges_where_the_near_field_peaks) {
    enum { MOST_RANGES = 64 };
    random_state = 6;
    scene s = make_cone(32);
    static float power[MOST_RANGES * MOST_DIRECTIONS], far[MOST_DIRECTIONS];
    const double aperture = 60, lambda = 2, depth = 7 * lambda / (aperture * aperture);
    double range_m[MOST_RANGES];
    sonar_nearfield near = {.power = power, .range_m = range_m, .lambda_m = lambda, .margin_db = 3};
    for (double inverse = 1 / 30.0; inverse > 1e-4; inverse -= 0.9 * depth)
        range_m[near.ranges++] = 1 / inverse;
    add_source(&s, 75, 100);
    for (int trial = 0; trial < 100; trial++) {
        const double source_m = 1 / (1 / 130.0 + (1 / 35.0 - 1 / 130.0) * uniform());
        fill_nearfield(&s, near.ranges, range_m, source_m, depth, power, far);
        const sonar_detection d = ranged(&s, far, &near, aperture);
        cr_assert_lt(fabs(1 / d.range_m - 1 / source_m), 0.1 * depth, "%g m read as %g", source_m,
                     d.range_m);
        cr_assert_not(d.range_unresolved);
    }
    fill_nearfield(&s, near.ranges, range_m, 1e9, depth, power, far); /* far away */
    cr_assert(isnan(ranged(&s, far, &near, aperture).range_m));
    fill_nearfield(&s, near.ranges, range_m, range_m[0], depth, power, far);
    sonar_detection d = ranged(&s, far, &near, aperture); /* may be nearer still */
    cr_assert(d.range_unresolved);
    cr_assert_float_eq(d.range_m, range_m[0], 1e-9);
    fill_nearfield(&s, near.ranges, range_m, 400, depth, power, far);
    near.margin_db = 0.1;
    cr_assert(isfinite(ranged(&s, far, &near, aperture).range_m));
    near.margin_db = 10; /* not that much over the far field */
    cr_assert(isnan(ranged(&s, far, &near, aperture).range_m));
    near.margin_db = 3;
    fill_nearfield(&s, near.ranges, range_m, 60, depth, power, far);
    near.lambda_m = 0.8 * lambda; /* 0.9 depths of 2 m are 1.1 depths of 1.6 m */
    cr_assert(ranged(&s, far, &near, aperture).range_unresolved);
    near.lambda_m = lambda;
    const double coarse[] = {30, 60, 1000}; /* one rung misses the next by more than the depth */
    near.range_m = coarse;
    near.ranges = 3;
    fill_nearfield(&s, 3, coarse, 61, depth, power, far);
    d = ranged(&s, far, &near, aperture);
    cr_assert(d.range_unresolved);
    cr_assert_gt(d.range_m, 30);
    cr_assert_lt(d.range_m, 1000);
    near.ranges = 1;
    fill_nearfield(&s, 1, coarse, 30, depth, power, far);
    d = ranged(&s, far, &near, aperture);
    cr_assert(d.range_unresolved);
    cr_assert_float_eq(d.range_m, 30, 1e-9);
    near.ranges = 0;
    power[0] = NAN;
    fill_nearfield(&s, 0, coarse, 1e9, depth, power, far);
    cr_assert(isnan(ranged(&s, far, &near, aperture).range_m));
    near.ranges = 1;
    sonar_detect_spec spec = spec_of(&s);
    size_t count = 5;
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_CBF, far, &near, scratch, NULL, NULL, &d, &count, NULL),
        SONAR_OK);
    cr_assert_eq(count, 0, "a broken near field");
}

/* ---- a tone, and bins steered beside it ------------------------------------------------------ */

enum { TOWED = 40 };

/* MVDR's power over white noise of 1, exact, in the bins about a tone: its main lobe's are steered
 * at it, the others at their centres. */
typedef struct tonal {
    sonar_scan scan;
    double position_m[TOWED][3];
    float weight[TOWED];
    double spread_m2[9], tone_hz, az_deg, snr;
    double ship_az_deg, ship_snr; /* broadband; snr 0: none */
} tonal;

static const double tonal_c_mps = 1500, tonal_df_hz = 7.8125;

static double share_of(const tonal *t, double hz, double az_deg, double from_hz, double from_deg) {
    double at[3], from[3], re = 0, im = 0;
    sonar_scan_unit(&t->scan, az_deg, at);
    sonar_scan_unit(&t->scan, from_deg, from);
    for (size_t k = 0; k < TOWED; k++) {
        double turns = 0;
        for (size_t i = 0; i < 3; i++)
            turns += t->position_m[k][i] * (hz * at[i] - from_hz * from[i]) / tonal_c_mps;
        re += cos(2 * M_PI * turns) / TOWED;
        im += sin(2 * M_PI * turns) / TOWED;
    }
    return re * re + im * im;
}

/* Of a source in unit noise. */
static double over_noise(double share, double snr) {
    return 1 / (1 - share * snr / (1 + snr)) - 1;
}

static double tonal_power(const tonal *t, double az_deg) {
    const double bin = floor(t->tone_hz / tonal_df_hz + 0.5);
    double power = 1;
    for (int b = -3; b <= 3; b++) {
        const double centre_hz = (bin + b) * tonal_df_hz,
                     x = (t->tone_hz - centre_hz) / tonal_df_hz;
        const double hann = fabs(x) < 1e-9 ? 1 : sin(M_PI * x) / (M_PI * x) / (1 - x * x);
        const double hz = abs(b) > 1 ? centre_hz : t->tone_hz;
        power += over_noise(share_of(t, hz, az_deg, t->tone_hz, t->az_deg), t->snr * hann * hann);
        power += over_noise(share_of(t, hz, az_deg, centre_hz, t->ship_az_deg), t->ship_snr);
    }
    return power;
}

static sonar_code tonal_at(void *ctx, size_t n, const double *az_deg, const double *range_m,
                           float *power, sonar_error *err) {
    (void)range_m, (void)err;
    for (size_t i = 0; i < n; i++)
        power[i] = (float)tonal_power(ctx, az_deg[i]);
    return SONAR_OK;
}

/* A line of 40 at 1.1 m along x, bent by a parabola; scanned as a cone where it is straight. */
static tonal make_towed(double sag_m) {
    tonal t = {.tone_hz = 564.9, .snr = 1e4};
    t.scan.cone = sag_m == 0;
    t.scan.axis[0] = t.scan.perp[1] = 1;
    t.scan.wraps = !t.scan.cone;
    t.scan.beam_width_deg = 0.886 * tonal_c_mps / t.tone_hz / (1.1 * TOWED) / radians;
    t.scan.count = t.scan.cone ? 721 : 1440;
    for (size_t i = 0; i < t.scan.count; i++)
        az_grid[i] = 0.25 * (double)i;
    t.scan.az_deg = az_grid;
    for (size_t k = 0; k < TOWED; k++) {
        const double x = (double)k / (TOWED - 1) * 2 - 1;
        t.position_m[k][0] = x * 1.1 * (TOWED - 1) / 2;
        t.position_m[k][1] = sag_m * x * x;
        t.weight[k] = 1;
    }
    sonar_detect_spread(TOWED, &t.position_m[0][0], t.weight, t.spread_m2);
    return t;
}

static size_t detect_tonal(tonal *t, bool rule, sonar_detection d[16]) {
    const double at = t->tone_hz / tonal_df_hz, bin = floor(at + 0.5) - 1;
    const sonar_detect_spec spec = {.scan = &t->scan,
                                    .split = split_of(&t->scan),
                                    .threshold_db = 6,
                                    .most = 16,
                                    .tone_reach = rule ? sonar_detect_tone_reach(bin, at - bin) : 0,
                                    .spread_m2 = t->spread_m2,
                                    .lambda_m = tonal_c_mps / t->tone_hz};
    size_t count = 0;
    for (size_t i = 0; i < t->scan.count; i++)
        spectrum[i] = (float)tonal_power(t, t->scan.az_deg[i]);
    cr_assert_eq(
        sonar_detect(&spec, SONAR_FROM_MVDR, spectrum, NULL, scratch, tonal_at, t, d, &count, NULL),
        SONAR_OK);
    return count;
}

Test(detect, bins_steered_beside_a_tone_make_no_contact) {
    const double sag_m[] = {0, 0.3, 1};
    for (size_t i = 0; i < 3; i++) {
        size_t without = 0;
        for (double az = 150; az <= 170; az += 3.7) {
            tonal t = make_towed(sag_m[i]);
            sonar_detection d[16];
            t.az_deg = az;
            without += detect_tonal(&t, false, d) - 1;
            const size_t count = detect_tonal(&t, true, d);
            cr_expect_eq(count, 1, "sag %g m, %g deg: %zu contacts, the second at %g", sag_m[i], az,
                         count, d[1].az_deg);
            cr_expect_lt(fabs(d[0].az_deg - az), 0.1);
        }
        cr_expect_gt(without, 0, "sag %g m", sag_m[i]);
    }
}

/* The rule must not hide what a bin beside the tone cannot show: a ship 12 dB below it,
 * elsewhere. */
Test(detect, a_quieter_ship_is_listed_beside_a_tone) {
    const double sag_m[] = {0, 0.3, 1};
    for (size_t i = 0; i < 3; i++)
        for (double az = 30; az <= 120; az += 10) {
            tonal t = make_towed(sag_m[i]);
            sonar_detection d[16];
            bool seen = false;
            t.az_deg = 160, t.ship_az_deg = az, t.ship_snr = t.snr / 60;
            for (size_t k = 0, count = detect_tonal(&t, true, d); k < count; k++)
                seen = seen || fabs(d[k].az_deg - az) < 1;
            cr_expect(seen, "sag %g m, ship at %g deg", sag_m[i], az);
        }
}
