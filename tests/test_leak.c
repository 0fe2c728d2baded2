/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Side lobes of a single source are not listed as contacts, for any set of sensors; and the pattern
 * used for this, compared with the direct sum. */
#include <complex.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "bins.h"
#include "oracle.h"

static const double radians = M_PI / 180;

/* The line of 33 sensors of a towed array, with gaps and tapers, and arrays that are not lines. */
#define TOWED "geometry: {line: {sensors: 33, spacing_m: 0.858}}"

static const struct {
    const char *array, *cbf;
} arrays[] = {
    {TOWED, ""},
    {TOWED ", mask: [5, 9, 12]", ""},
    {TOWED ", mask: [12, 16, 20]", ""},
    {TOWED ", mask: [3, 4, 5, 6, 17, 20, 21, 30]", ""},
    {TOWED ", mask: [10, 21]", ", shading: hann"},
    {"geometry: {circle: {sensors: 32, radius_m: 5}}, mask: [3, 8, 9, 20]", ""},
    {"geometry: {planar: {rows: 4, columns: 16, row_spacing_m: 1, column_spacing_m: 1}}, "
     "mask: [5, 9, 12, 13, 40, 41]",
     ""},
};
enum { ARRAYS = sizeof arrays / sizeof *arrays };

static bins open_array(size_t i) {
    char text[800];
    snprintf(text, sizeof text,
             "schema: 1\narray: {%s}\nfs_hz: 2000\ndft: {length: 4096, hop: 4096}\n"
             "cbf: {length: 256, hop: 128, band_hz: [300, 600]%s}\nmvdr: {enabled: false}\n",
             arrays[i].array, arrays[i].cbf);
    return bins_open(text);
}

static double random_az(const bins *b, uint64_t *random) {
    const double u = sonar_random_symmetric(random);
    return b->config->cbf_scan.cone ? acos(0.9 * u) / radians : 180 + 180 * u;
}

static double beams_apart(const bins *b, double a_deg, double b_deg) {
    const sonar_scan *scan = &b->config->cbf_scan;
    return scan->cone ? fabs(cos(a_deg * radians) - cos(b_deg * radians)) /
                            (scan->beam_width_deg * radians)
                      : fabs(remainder(a_deg - b_deg, 360)) / scan->beam_width_deg;
}

/* ---- contacts -------------------------------------------------------------------------------- */

/* Expects only the source. */
static void expect_alone(bins *b, size_t array, bins_source source) {
    sonar_detection d[SONAR_DETECTIONS_MOST];
    bins_window(b, &source, 1);
    const size_t count = bins_detect(b, d);
    cr_expect_eq(count, 1, "%s, %g Hz at %g deg, %g dB: %zu contacts, the second at %g deg, %g m",
                 arrays[array].array, source.tone_hz, source.az_deg, source.level_db, count,
                 count > 1 ? d[1].az_deg : NAN, count > 1 ? d[1].range_m : NAN);
    if (count)
        cr_expect_lt(beams_apart(b, d[0].az_deg, source.az_deg), 0.5);
}

/* With a uniform line's side lobes instead of the pattern's these had 16, 37, 82, 65, 0, 32 and 23
 * false contacts. */
Test(leak, one_source_is_one_contact, .timeout = 600) {
    for (size_t i = 0; i < ARRAYS; i++) {
        bins b = open_array(i);
        uint64_t random = 3;
        for (int w = 0; w < 120; w++) {
            const double az_deg = random_az(&b, &random);
            const double hz = 310 + 280 * sonar_random_uniform(&random);
            expect_alone(&b, i,
                         (bins_source){.az_deg = az_deg,
                                       .level_db = 30 + 15 * (w % 2),
                                       .tone_hz = w % 4 == 3 ? 0 : hz});
        }
        bins_close(&b);
    }
}

Test(leak, tones_that_a_mask_made_near_contacts_of) {
    static const bins_source tones[] = {{.tone_hz = 420, .az_deg = 134.75, .level_db = 43},
                                        {.tone_hz = 450, .az_deg = 60, .level_db = 43},
                                        {.tone_hz = 357, .az_deg = 120, .level_db = 43},
                                        {.tone_hz = 520, .az_deg = 45, .level_db = 43}};
    for (size_t i = 1; i < 3; i++) {
        bins b = open_array(i);
        for (size_t k = 0; k < sizeof tones / sizeof *tones; k++)
            expect_alone(&b, i, tones[k]);
        bins_close(&b);
    }
}

/* Windows of 40 in which the quieter of two ships, anywhere, is listed. */
static int count_quieter(bins *b, double under_db, bool tone) {
    uint64_t random = 9;
    int found = 0;
    for (int w = 0; w < 40; w++) {
        bins_source ship[2] = {{.level_db = 30, .tone_hz = tone ? 310 + 7 * w : 0},
                               {.level_db = 30 - under_db}};
        do {
            ship[0].az_deg = random_az(b, &random);
            ship[1].az_deg = random_az(b, &random);
        } while (beams_apart(b, ship[0].az_deg, ship[1].az_deg) < 2);
        sonar_detection d[SONAR_DETECTIONS_MOST];
        bool seen = false;
        bins_window(b, ship, 2);
        for (size_t k = 0, count = bins_detect(b, d); k < count; k++)
            seen = seen || beams_apart(b, d[k].az_deg, ship[1].az_deg) < 0.5;
        found += seen;
    }
    return found;
}

/* The rule is not so broad that it hides ships. */
Test(leak, a_quieter_ship_is_listed_beside_a_louder_one, .timeout = 600) {
    for (size_t i = 0; i < ARRAYS; i++) {
        const bool circle = i == 5; /* 8 dB side lobes */
        bins b = open_array(i);
        int found = count_quieter(&b, circle ? 4 : 8, false);
        cr_expect_geq(found, 32, "%s: %d of 40", arrays[i].array, found);
        found = count_quieter(&b, 16, true); /* in the whole band, beside a tone */
        cr_expect_geq(found, 36, "%s: %d of 40 beside a tone", arrays[i].array, found);
        bins_close(&b);
    }
}

/* A towed line that hangs through by `sag_m` in the middle. */
static bins open_bent(double sag_m) {
    enum { SENSORS = 33 };
    char text[2400];
    size_t used =
        (size_t)snprintf(text, sizeof text, "schema: 1\narray: {geometry: {positions: {list: [");
    for (int k = 0; k < SENSORS; k++) {
        const double along = 2.0 * k / (SENSORS - 1) - 1;
        used += (size_t)snprintf(text + used, sizeof text - used, "%s[%g, %g, 0]", k ? ", " : "",
                                 1.1 * k, sag_m * along * along);
    }
    snprintf(
        text + used, sizeof text - used,
        "]}}}\nfs_hz: 2000\ndft: {length: 4096, hop: 4096}\n"
        "cbf: {length: 256, hop: 128, band_hz: [300, 600], ranges_m: [50, 100, 200, 400, 800]}\n"
        "mvdr: {enabled: false}\n");
    return bins_open(text);
}

/* The source comes first, and its image near the mirror is marked or not listed. */
Test(leak, a_bent_line_s_mirror_image_is_marked, .timeout = 600) {
    static const double sags_m[] = {0.5, 1, 2, 4};
    size_t images = 0;
    for (size_t i = 0; i < 4; i++) {
        bins b = open_bent(sags_m[i]);
        uint64_t random = 5;
        for (int w = 0; w < 20; w++) {
            const bins_source source = {
                .az_deg = 20 + 140 * sonar_random_uniform(&random) + 180 * (w % 2), .level_db = 35};
            sonar_detection d[SONAR_DETECTIONS_MOST];
            size_t plain = 0;
            bins_window(&b, &source, 1);
            const size_t count = bins_detect(&b, d);
            for (size_t k = 0; k < count; k++) {
                images += d[k].image;
                plain += !d[k].image;
            }
            cr_expect_eq(plain, 1, "sag %g m, %g deg: %zu of %zu contacts are no images", sags_m[i],
                         source.az_deg, plain, count);
            if (count && sags_m[i] > 1.5)
                cr_expect_lt(beams_apart(&b, d[0].az_deg, source.az_deg), 1, "sag %g m: %g deg",
                             sags_m[i], d[0].az_deg);
        }
        bins_close(&b);
    }
    cr_expect_gt(images, 10, "%zu images", images);
}

/* ---- the pattern ----------------------------------------------------------------------------- */

static void steer(const bins *b, sonar_point at, double *tau_s) {
    const sonar_config *c = b->config;
    double u[3];
    sonar_scan_unit(&c->cbf_scan, at.az_deg, u);
    for (size_t k = 0; k < c->sensors; k++) {
        const double *p = b->params->position_m + 3 * k;
        tau_s[k] = isfinite(at.range_m) ? oracle_delay_near(p, u, at.range_m, c->sound_speed_mps)
                                        : oracle_delay_far(p, u, c->sound_speed_mps);
    }
}

static double share_at(const bins *b, double hz, const double *of_s, const double *at_s) {
    double complex sum = 0;
    double weight = 0;
    for (size_t k = 0; k < b->config->sensors; k++) {
        sum += (double)b->params->shading[k] * cexp(-2 * M_PI * I * hz * (at_s[k] - of_s[k]));
        weight += (double)b->params->shading[k];
    }
    return creal(sum * conj(sum)) / (weight * weight);
}

/* Largest share in a part of the band, at 400 frequencies. */
static double share_in(const bins *b, int part, const double *of_s, const double *at_s) {
    const double ratio =
        pow(b->config->cbf_band.high_hz / b->config->cbf_band.low_hz, 1.0 / SONAR_PATTERN_PARTS);
    const double low_hz = b->config->cbf_band.low_hz * pow(ratio, part);
    double most = 0;
    for (int i = 0; i <= 400; i++)
        most = fmax(most, share_at(b, low_hz * (1 + (ratio - 1) * i / 400), of_s, at_s));
    return most;
}

Test(leak, the_pattern_is_the_sum_over_the_sensors_in_use, .timeout = 600) {
    for (size_t i = 0; i < ARRAYS; i++) {
        bins b = open_array(i);
        uint64_t random = 11;
        double of_s[64], at_s[64], share[SONAR_PATTERN_PARTS], wide[SONAR_PATTERN_PARTS];
        for (int trial = 0; trial < 40; trial++) {
            const bool near[2] = {trial % 4 > 1, trial % 2};
            const sonar_point of = {random_az(&b, &random), near[0] ? 60 : INFINITY},
                              at = {random_az(&b, &random), near[1] ? 150 : INFINITY};
            steer(&b, of, of_s);
            steer(&b, at, at_s);
            sonar_pattern_shares(b.pattern, of, at, 0, share);
            sonar_pattern_shares(b.pattern, of, at, 0.15, wide);
            for (int part = 0; part < SONAR_PATTERN_PARTS; part++) {
                const double want = share_in(&b, part, of_s, at_s);
                cr_expect(fabs(sqrt(share[part]) - sqrt(want)) < 0.05,
                          "%s, part %d of %g deg to %g deg: %g, not %g", arrays[i].array, part,
                          of.az_deg, at.az_deg, share[part], want);
                cr_expect_geq(wide[part], share[part]);
                cr_expect_geq(wide[part], 0.9 * want);
            }
        }
        bins_close(&b);
    }
}

/* With many sensors a subset represents all: the shares still agree within these limits. */
Test(leak, a_large_array_has_the_pattern_of_a_share_of_its_sensors, .timeout = 600) {
    enum { SENSORS = 20000, SIDE = 200 };
    static double position_m[3 * SENSORS];
    static float weight[SENSORS];
    for (size_t k = 0; k < SENSORS; k++) {
        position_m[3 * k] = 0.5 * (double)(k % SIDE);
        position_m[3 * k + 1] = 0.5 * (double)(k / SIDE);
        weight[k] = 1;
    }
    const sonar_scan scan = {.wraps = true, .beam_width_deg = 1};
    const sonar_pattern_spec spec = {.sensors = SENSORS,
                                     .position_m = position_m,
                                     .weight = weight,
                                     .scan = &scan,
                                     .c_mps = 1500,
                                     .low_hz = 700,
                                     .high_hz = 700.001};
    sonar_pattern *pattern;
    sonar_error err = {0};
    cr_assert_eq(sonar_pattern_create(&spec, &pattern, &err), SONAR_OK, "%s", err.text);
    for (double at_deg = 0; at_deg < 360; at_deg += 7.7) {
        double share[SONAR_PATTERN_PARTS], u[3], v[3];
        const sonar_point of = {30, INFINITY}, at = {at_deg, INFINITY};
        double complex sum = 0;
        sonar_scan_unit(&scan, 30, u);
        sonar_scan_unit(&scan, at_deg, v);
        for (size_t k = 0; k < SENSORS; k++)
            sum +=
                cexp(2 * M_PI * I * 700 / 1500 *
                     (position_m[3 * k] * (u[0] - v[0]) + position_m[3 * k + 1] * (u[1] - v[1])));
        const double want = creal(sum * conj(sum)) / SENSORS / SENSORS;
        sonar_pattern_shares(pattern, of, at, 0, share);
        cr_expect(fabs(sqrt(share[0]) - sqrt(want)) < 4.0 / sqrt(SONAR_PATTERN_SENSORS),
                  "%g deg: %g, not %g", at_deg, share[0], want);
    }
    sonar_pattern_destroy(pattern);
}

/* Backwards, as threads may come. */
static void backwards(void *ctx, size_t tasks, void (*task)(void *, size_t, size_t), void *arg) {
    size_t *calls = ctx;
    ++*calls;
    for (size_t i = tasks; i-- > 0;)
        task(arg, i, 0);
}

Test(leak, workers_share_a_pattern_and_change_no_bit_of_it, .timeout = 600) {
    enum { SENSORS = 301 };
    size_t calls = 0;
    const sonar_host host = {.ctx = &calls, .parallel = backwards, .workers = 1};
    static double position_m[3 * SENSORS];
    static float weight[SENSORS];
    for (size_t k = 0; k < SENSORS; k++) {
        position_m[3 * k] = (double)k;
        position_m[3 * k + 1] = 5 * sin(0.01 * (double)k);
        weight[k] = 1;
    }
    const sonar_scan scan = {.wraps = true, .beam_width_deg = 1};
    sonar_pattern_spec spec = {.sensors = SENSORS,
                               .position_m = position_m,
                               .weight = weight,
                               .scan = &scan,
                               .c_mps = 1500,
                               .low_hz = 20,
                               .high_hz = 2000};
    sonar_pattern *alone, *shared;
    sonar_error err = {0};
    cr_assert_eq(sonar_pattern_create(&spec, &alone, &err), SONAR_OK, "%s", err.text);
    spec.host = &host;
    cr_assert_eq(sonar_pattern_create(&spec, &shared, &err), SONAR_OK, "%s", err.text);
    for (double at_deg = 0; at_deg < 360; at_deg += 23) {
        double share[2][SONAR_PATTERN_PARTS];
        const sonar_point of = {30, INFINITY}, at = {at_deg, 700};
        sonar_pattern_shares(alone, of, at, 0.15, share[0]);
        sonar_pattern_shares(shared, of, at, 0.15, share[1]);
        cr_expect_eq(memcmp(share[0], share[1], sizeof share[0]), 0, "%g deg", at_deg);
    }
    cr_expect_gt(calls, 0);
    sonar_pattern_destroy(alone);
    sonar_pattern_destroy(shared);
}

/* Patterns are cached for the next window, and replaced by others. */
Test(leak, a_pattern_that_comes_again_is_the_same, .timeout = 600) {
    enum { SENSORS = 33, PAIRS = 3000 };
    static double position_m[3 * SENSORS], share[PAIRS][SONAR_PATTERN_PARTS];
    static float weight[SENSORS];
    for (size_t k = 0; k < SENSORS; k++) {
        position_m[3 * k] = (double)k;
        weight[k] = 1;
    }
    const sonar_scan scan = {.wraps = true, .beam_width_deg = 1};
    const sonar_pattern_spec spec = {.sensors = SENSORS,
                                     .position_m = position_m,
                                     .weight = weight,
                                     .scan = &scan,
                                     .c_mps = 1500,
                                     .low_hz = 20,
                                     .high_hz = 2000};
    sonar_pattern *pattern;
    sonar_error err = {0};
    cr_assert_eq(sonar_pattern_create(&spec, &pattern, &err), SONAR_OK, "%s", err.text);
    for (size_t round = 0; round < 3; round++)
        for (size_t i = 0; i < PAIRS; i++) {
            const size_t pair =
                round == 1 ? i : i / 2; /* each at once again, and after all others */
            const sonar_point of = {(double)(pair % 10), INFINITY};
            const sonar_point at = {0.1 * (double)pair, pair % 3 ? 700 : INFINITY};
            double now[SONAR_PATTERN_PARTS];
            sonar_pattern_shares(pattern, of, at, pair % 2 ? 0.15 : 0, now);
            if (round == 0 && i % 2 == 0)
                memcpy(share[pair], now, sizeof now);
            if (pair < PAIRS / 2)
                cr_assert_eq(memcmp(now, share[pair], sizeof now), 0, "pair %zu", pair);
        }
    sonar_pattern_destroy(pattern);
    for (size_t pair = 1; pair < PAIRS / 2; pair += 97) { /* made for itself */
        const sonar_point of = {(double)(pair % 10), INFINITY};
        const sonar_point at = {0.1 * (double)pair, pair % 3 ? 700 : INFINITY};
        double now[SONAR_PATTERN_PARTS];
        cr_assert_eq(sonar_pattern_create(&spec, &pattern, &err), SONAR_OK, "%s", err.text);
        sonar_pattern_shares(pattern, of, at, pair % 2 ? 0.15 : 0, now);
        cr_expect_eq(memcmp(now, share[pair], sizeof now), 0, "pair %zu", pair);
        sonar_pattern_destroy(pattern);
    }
}
