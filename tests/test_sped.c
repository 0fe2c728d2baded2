/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The record of the peaks of each bin compared with its definition, and with what it is for. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "core/core.h"
#include "core/random.h"
#include "manifold/angle.h"
#include "sped_oracle.h"

enum { MOST = 400, BINS = 9 };

static sonar_sped *made(const sonar_sped_spec *spec) {
    sonar_sped *s = NULL;
    sonar_error err = {0};
    cr_assert_eq(sonar_sped_create(spec, &s, &err), SONAR_OK, "%s", err.text);
    return s;
}

/* ---- the definition -------------------------------------------------------------------------- */

enum { LINE, SECTOR, CIRCLE, KINDS };

/* An uneven scan, from three directions on. */
static sonar_scan random_scan(uint64_t *seed, int kind, double *az_deg) {
    const size_t n = 3 + sonar_random_bits(seed) % (kind == CIRCLE ? 150 : 200);
    double step[MOST], all = 0;
    for (size_t i = 0; i < n; i++)
        all += step[i] = 0.2 + sonar_random_uniform(seed);
    const double first_deg = kind == LINE ? 0 : 300 * sonar_random_uniform(seed) - 200,
                 span_deg = kind == LINE     ? 180
                            : kind == SECTOR ? 20 + 200 * sonar_random_uniform(seed)
                                             : 360;
    all -= kind == CIRCLE ? 0 : step[n - 1];
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        az_deg[i] = first_deg + span_deg * sum / all;
        sum += step[i];
    }
    return (sonar_scan){.count = n,
                        .az_deg = az_deg,
                        .cone = kind == LINE,
                        .wraps = kind == CIRCLE,
                        .beam_width_deg = 1 + 30 * sonar_random_uniform(seed)};
}

/* Smooth enough to have peaks over several directions, with flat stretches among them. */
static void random_rows(uint64_t *seed, size_t n, float *power) {
    for (size_t b = 0; b < BINS; b++) {
        double level = 0;
        const double pull = sonar_random_uniform(seed);
        for (size_t i = 0; i < n; i++) {
            level = pull * level + 2 * sonar_random_normal(seed);
            const bool flat = i && sonar_random_bits(seed) % 8 == 0;
            power[b * n + i] = flat ? power[b * n + i - 1] : (float)exp(level);
        }
    }
}

Test(sped, agrees_with_its_definition) {
    static float power[BINS * MOST], record[MOST];
    double az_deg[MOST], expected[MOST];
    uint64_t seed = 1;
    size_t peaks[KINDS] = {0};
    for (int trial = 0; trial < 1200; trial++) {
        const int kind = trial % KINDS;
        const sonar_scan scan = random_scan(&seed, kind, az_deg);
        const sonar_sped_spec spec = {&scan, 1 + sonar_random_bits(&seed) % 20, BINS};
        random_rows(&seed, scan.count, power);
        if (trial % 5 == 0)
            power[3 * scan.count + scan.count / 2] = trial % 2 ? NAN : INFINITY;
        if (trial % 7 == 0)
            memset(power, 0, scan.count * sizeof *power);
        sonar_sped *s = made(&spec);
        sonar_sped_run(s, power, record);
        sped_oracle(&spec, power, expected);
        for (size_t i = 0; i < scan.count; i++) {
            cr_assert(fabs((double)record[i] - expected[i]) < 1e-6 * (1 + expected[i]),
                      "%d: %zu of %zu: %g, not %g", trial, i, scan.count, (double)record[i],
                      expected[i], scan.beam_width_deg, az_deg[scan.count - 1] - az_deg[0]);
            peaks[kind] += expected[i] > 0;
        }
        sonar_sped_destroy(s);
    }
    for (int kind = 0; kind < KINDS; kind++)
        cr_expect_gt(peaks[kind], 10000);
}

/* ---- what it is for -------------------------------------------------------------------------- */

/* A line's scan even in the cosine, with `step` beam widths at the top of bins 9 to 27. */
static const sonar_sped_spec LINE_BINS = {.first_bin = 9, .bins = 19};

static sonar_scan line(double beams, double step, double *az_deg) {
    const size_t n = (size_t)lrint(beams / step) + 1;
    for (size_t i = 0; i < n; i++)
        az_deg[i] = acos(1 - 2 * (double)i / (double)(n - 1)) * 180 / M_PI;
    return (sonar_scan){.count = n,
                        .az_deg = az_deg,
                        .cone = true,
                        .beam_width_deg = 2 / ((double)(n - 1) * step) * 180 / M_PI};
}

/* The pattern of an unshaded line towards a source at that place, in beam widths at the top, in
 * noise of power 1 that does not vary. */
static void put_ship(const sonar_scan *scan, const sonar_sped_spec *spec, double at, double snr,
                     float *power) {
    for (size_t b = 0; b < spec->bins; b++)
        for (size_t i = 0; i < scan->count; i++) {
            const double away = sonar_beams_at(scan, scan->az_deg[i]) - at,
                         x = M_PI * 0.886 * away * (double)(spec->first_bin + b) /
                             (double)(spec->first_bin + spec->bins - 1);
            const double lobe = fabs(x) > 1e-9 ? sin(x) / x : 1;
            power[b * scan->count + i] += (float)(snr * lobe * lobe);
        }
}

static void put_noise(const sonar_scan *scan, const sonar_sped_spec *spec, float *power) {
    for (size_t i = 0; i < spec->bins * scan->count; i++)
        power[i] = 1;
}

/* The centre of all that is in the record, and its largest value. */
static double centre(const sonar_scan *scan, const float *record, double *most) {
    double moment = 0, all = 0;
    *most = 0;
    for (size_t i = 0; i < scan->count; i++) {
        moment += (double)record[i] * sonar_beams_at(scan, scan->az_deg[i]);
        all += (double)record[i];
        *most = fmax(*most, (double)record[i]);
    }
    return moment / all;
}

/* Whatever its level and its place between directions, a ship has one peak, where it is, and its
 * side lobes none. Near the ends of the scan, reflected and cut lobes would be the hard case. */
Test(sped, a_ship_has_no_side_lobes_and_stands_between_directions) {
    static float power[19 * MOST], record[MOST];
    double az_deg[MOST], worst = 0, least = INFINITY, greatest = 0;
    const sonar_scan scan = line(60, 0.3, az_deg);
    sonar_sped_spec spec = LINE_BINS;
    spec.scan = &scan;
    sonar_sped *s = made(&spec);
    for (double level_db = 10; level_db <= 90; level_db += 20)
        for (double at = -30; at <= 30; at += 0.0971) {
            put_noise(&scan, &spec, power);
            put_ship(&scan, &spec, at, pow(10, level_db / 10), power);
            sonar_sped_run(s, power, record);
            double most;
            const double off = centre(&scan, record, &most) - at;
            if (fabs(at) < 29)
                worst = fmax(worst, fabs(off));
            for (size_t i = 0; i < scan.count; i++)
                if (fabs(sonar_beams_at(&scan, az_deg[i]) - at) > 0.55)
                    cr_assert_eq(record[i], 0, "%g dB at %g: %g at direction %zu", level_db, at,
                                 (double)record[i], i);
            if (level_db > 20 && fabs(at) < 29) {
                least = fmin(least, most);
                greatest = fmax(greatest, most);
            }
        }
    cr_log_info("centre off by %.4f beam widths at most; values %.2f to %.2f", worst, least,
                greatest);
    cr_expect_lt(worst, 0.03);
    cr_expect(least > 4 && greatest < 11, "%g to %g", least, greatest);
    sonar_sped_destroy(s);
}

/* Side lobes of a circle fall as the inverse of the distance only. They are peaks, at places that
 * differ from bin to bin. */
Test(sped, side_lobes_of_a_circle_are_lower_than_noise) {
    enum { LOOKS = 181, FIRST = 20, COUNT = 52 };
    static float power[COUNT * LOOKS], record[LOOKS];
    double az_deg[LOOKS];
    for (size_t i = 0; i < LOOKS; i++)
        az_deg[i] = (double)i * 360 / LOOKS;
    const sonar_scan scan = {
        .count = LOOKS, .az_deg = az_deg, .wraps = true, .beam_width_deg = 12.4};
    const sonar_sped_spec spec = {&scan, FIRST, COUNT};
    sonar_sped *s = made(&spec);
    for (double level_db = 10; level_db <= 60; level_db += 10) {
        double ship = 0, most = 0;
        for (size_t b = 0; b < COUNT; b++)
            for (size_t i = 0; i < LOOKS; i++) {
                const double k = 2 * M_PI * (double)(FIRST + b) * 8000 / 512 / 1500,
                             lobe = j0(2 * 2.2 * k * sin((az_deg[i] - 90) * M_PI / 360));
                power[b * LOOKS + i] = (float)(1 + pow(10, level_db / 10) * lobe * lobe);
            }
        sonar_sped_run(s, power, record);
        for (size_t i = 0; i < LOOKS; i++)
            if (fabs(az_deg[i] - 90) < 8)
                ship = fmax(ship, (double)record[i]);
            else
                most = fmax(most, (double)record[i]);
        cr_expect(ship > 3 && most < ship / 63, "%g dB: %g and %g", level_db, ship, most);
    }
    sonar_sped_destroy(s);
}

/* A scan coarser than the reach has each peak in the two directions that it is between, in shares
 * that say where. */
Test(sped, a_coarse_scan_loses_no_peak) {
    static float power[19 * MOST], record[MOST];
    double az_deg[MOST];
    const sonar_scan scan = line(60, 0.75, az_deg);
    sonar_sped_spec spec = LINE_BINS;
    spec.scan = &scan;
    sonar_sped *s = made(&spec);
    for (double at = -20; at <= 20; at += 0.11) {
        double most;
        put_noise(&scan, &spec, power);
        put_ship(&scan, &spec, at, 1000, power);
        sonar_sped_run(s, power, record);
        cr_expect_lt(fabs(centre(&scan, record, &most) - at), 0.1, "%g", at);
        cr_expect_gt(most, 2.5, "%g: %g", at, most);
    }
    sonar_sped_destroy(s);
}

/* What a peak is worth follows from the power around it, so each bin counts alike, however loud. */
Test(sped, levels_of_bins_do_not_matter) {
    static float power[19 * MOST], scaled[19 * MOST], record[MOST], again[MOST];
    double az_deg[MOST];
    uint64_t seed = 3;
    const sonar_scan scan = line(40, 0.3, az_deg);
    sonar_sped_spec spec = LINE_BINS;
    spec.scan = &scan;
    sonar_sped *s = made(&spec);
    for (size_t b = 0; b < spec.bins; b++) {
        const float gain = exp2f((float)(sonar_random_bits(&seed) % 60) - 30);
        for (size_t i = b * scan.count; i < (b + 1) * scan.count; i++) {
            power[i] = (float)-log(1 - 0.999 * sonar_random_uniform(&seed));
            scaled[i] = gain * power[i];
        }
    }
    sonar_sped_run(s, power, record);
    sonar_sped_run(s, scaled, again);
    cr_expect_eq(memcmp(record, again, scan.count * sizeof *record), 0);
    sonar_sped_destroy(s);
}

/* A quiet ship beside a loud one, each in its own part of the band, has a peak of its own. */
Test(sped, separates_ships_of_different_bands) {
    static float power[19 * MOST], record[MOST];
    double az_deg[MOST];
    const sonar_scan scan = line(60, 0.25, az_deg);
    sonar_sped_spec spec = LINE_BINS, loud, quiet;
    spec.scan = &scan;
    loud = quiet = spec;
    loud.bins = 10;
    quiet.first_bin += 10, quiet.bins = 9;
    sonar_sped *s = made(&spec);
    put_noise(&scan, &spec, power);
    loud.bins = 19; /* its pattern is that of the whole band's bins, of which it has some */
    static float whole[19 * MOST];
    memset(whole, 0, sizeof whole);
    put_ship(&scan, &loud, 5, 10000, whole);
    for (size_t i = 0; i < 10 * scan.count; i++)
        power[i] += whole[i];
    memset(whole, 0, sizeof whole);
    put_ship(&scan, &loud, 6.25, 10, whole);
    for (size_t i = 10 * scan.count; i < 19 * scan.count; i++)
        power[i] += whole[i];
    sonar_sped_run(s, power, record);
    const size_t at_loud = 140, at_quiet = 145; /* -30 + 0.25 i */
    cr_expect(record[at_loud] > 3 && record[at_quiet] > 2, "%g and %g", (double)record[at_loud],
              (double)record[at_quiet]);
    cr_expect_lt(record[142], 0.1 * (double)record[at_quiet]);
    sonar_sped_destroy(s);
}

/* ---- what it refuses, and what it bears ------------------------------------------------------ */

Test(sped, refuses_what_has_no_peaks) {
    double az_deg[3] = {0, 90, 180};
    sonar_scan scan = {.count = 2, .az_deg = az_deg, .cone = true, .beam_width_deg = 10};
    sonar_sped *s = NULL;
    sonar_error err = {0};
    cr_expect_eq(sonar_sped_create(&(sonar_sped_spec){&scan, 1, 1}, &s, &err), SONAR_EINVAL);
    cr_expect_null(s);
    scan.count = 3;
    cr_expect_eq(sonar_sped_create(&(sonar_sped_spec){&scan, 1, 0}, &s, &err), SONAR_EINVAL);
    cr_expect_eq(sonar_sped_create(&(sonar_sped_spec){&scan, 1, 1}, &s, &err), SONAR_OK);
    sonar_sped_destroy(s);
    sonar_sped_destroy(NULL);
}

/* Extreme powers, an array without beams, and the transform's first bin give finite values. */
Test(sped, values_are_finite) {
    static float power[BINS * MOST], record[MOST];
    double az_deg[MOST];
    uint64_t seed = 11;
    for (int trial = 0; trial < 300; trial++) {
        sonar_scan scan = random_scan(&seed, trial % KINDS, az_deg);
        scan.beam_width_deg = trial % 4 ? scan.beam_width_deg : 360;
        const sonar_sped_spec spec = {&scan, 0, trial % 6 ? BINS : 1};
        for (size_t i = 0; i < BINS * scan.count; i++)
            power[i] = powf(10, (float)(75 * sonar_random_uniform(&seed) - 37));
        sonar_sped *s = made(&spec);
        sonar_sped_run(s, power, record);
        for (size_t i = 0; i < scan.count; i++)
            cr_assert(isfinite(record[i]) && record[i] >= 0, "%d: %g", trial, (double)record[i]);
        sonar_sped_destroy(s);
    }
}
