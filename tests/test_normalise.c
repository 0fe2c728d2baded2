/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The normaliser compared with its definition, and with what it is for. */
#include <criterion/criterion.h>
#include <math.h>

#include "analysis/normalise/normalise.h"
#include "core/core.h"
#include "core/random.h"
#include "normalise_oracle.h"

enum { MOST = NORMALISE_ORACLE_MOST };

static double decibel(double power) {
    return 10 * log10(power);
}

static sonar_normalise *made(const sonar_normalise_spec *spec) {
    sonar_normalise *n = NULL;
    sonar_error err = {0};
    cr_assert_eq(sonar_normalise_create(spec, &n, &err), SONAR_OK, "%s", err.text);
    return n;
}

/* ---- the definition ---------------------------------------------------------------------------
 */

Test(normalise, agrees_with_its_definition) {
    uint64_t seed = 1;
    for (int trial = 0; trial < 150; trial++) {
        double at[MOST], expected[MOST];
        float power[MOST], ratio[MOST];
        sonar_normalise_spec s = {.directions = 40 + sonar_random_bits(&seed) % 200,
                                  .at_beams = at,
                                  .gap_beams = 1.5 + sonar_random_uniform(&seed),
                                  .window_beams = 2 + 9 * sonar_random_uniform(&seed)};
        const double averages = 1 + 200 * sonar_random_uniform(&seed);
        for (size_t i = 0; i < s.directions; i++) {
            at[i] = (i ? at[i - 1] : -3) + 0.1 + 0.4 * sonar_random_uniform(&seed);
            power[i] = (float)exp(3 * sonar_random_normal(&seed));
        }
        s.turn_beams = trial % 2 ? at[s.directions - 1] - at[0] + 0.3 : 0;
        sonar_normalise *n = made(&s);
        sonar_normalise_run(n, averages, power, ratio);
        normalise_oracle(&s, averages, power, expected);
        for (size_t i = 0; i < s.directions; i++)
            cr_assert(fabs((double)ratio[i] / expected[i] - 1) < 1e-6, "%d: %zu: %g, not %g", trial,
                      i, (double)ratio[i], expected[i]);
        sonar_normalise_destroy(n);
    }
}

/* ---- what it is for -------------------------------------------------------------------------- */

/* Mean of `averages` powers of noise, each of a sum over neighbours, so that beams overlap. */
static void noise(uint64_t *seed, size_t n, int averages, double step, float *power) {
    const ptrdiff_t half = (ptrdiff_t)(0.5 / step);
    double sum[MOST] = {0};
    for (int a = 0; a < 2 * averages; a++) {
        double white[3 * MOST];
        for (size_t i = 0; i < n + 2 * (size_t)half; i++)
            white[i] = sonar_random_normal(seed);
        for (size_t i = 0; i < n; i++) {
            double beam = 0;
            for (ptrdiff_t k = 0; k <= 2 * half; k++)
                beam += white[i + (size_t)k];
            sum[i] += beam * beam / (double)(2 * half + 1);
        }
    }
    for (size_t i = 0; i < n; i++)
        power[i] = (float)(sum[i] / (2 * averages));
}

static sonar_normalise_spec even(size_t n, double step, double *at, bool circle) {
    for (size_t i = 0; i < n; i++)
        at[i] = (double)i * step;
    return (sonar_normalise_spec){.directions = n,
                                  .at_beams = at,
                                  .turn_beams = circle ? (double)n * step : 0,
                                  .gap_beams = 1.5,
                                  .window_beams = 8};
}

Test(normalise, noise_reads_0_db_at_every_angle) {
    enum { N = 120, RUNS = 7500 };
    static const int averages[] = {8, 30, 100};
    uint64_t seed = 5;
    for (size_t k = 0; k < 3; k++) {
        double at[MOST], mean[N] = {0};
        float power[MOST], ratio[MOST];
        const int runs = RUNS * 8 / averages[k]; /* the error of a mean is 0.018 dB */
        const sonar_normalise_spec s = even(N, 0.25, at, false);
        sonar_normalise *n = made(&s);
        for (int r = 0; r < runs; r++) {
            noise(&seed, N, averages[k], 0.25, power);
            sonar_normalise_run(n, averages[k], power, ratio);
            for (size_t i = 0; i < N; i++)
                mean[i] += (double)ratio[i] / runs;
        }
        for (size_t i = 0; i < N; i++)
            cr_expect(fabs(decibel(mean[i])) < 0.1, "%d averages, %zu: %.3f dB", averages[k], i,
                      decibel(mean[i]));
        double all = 0;
        for (size_t i = 0; i < N; i++)
            all += mean[i] / N;
        cr_log_info("%d averages: %.3f dB over all angles", averages[k], decibel(all));
        cr_expect(fabs(decibel(all)) < 0.02);
        sonar_normalise_destroy(n);
    }
}

/* The most that a neighbour takes from a direction outside the gap, or from itself, at every place
 * of the scan. Shaded: without side lobes. */
static double cost_db(const sonar_normalise_spec *s, double level_db, bool shaded) {
    sonar_normalise *n = made(s);
    double worst = 0;
    for (size_t ship = 0; ship < s->directions; ship++) {
        float power[MOST], ratio[MOST];
        double away[MOST];
        for (size_t i = 0; i < s->directions; i++) {
            const double x = s->at_beams[i] - s->at_beams[ship];
            away[i] = fabs(s->turn_beams > 0 ? remainder(x, s->turn_beams) : x);
            const double turns = M_PI * 0.886 * away[i];
            const double open = turns > 0 ? sin(turns) / turns : 1;
            const double lobe = !shaded         ? open * open
                                : away[i] < 1.2 ? pow(cos(M_PI * away[i] / 2.4), 5.6)
                                                : 0;
            power[i] = (float)(1 + lobe * pow(10, level_db / 10));
        }
        sonar_normalise_run(n, 100, power, ratio);
        for (size_t i = 0; i < s->directions; i++)
            if (i == ship || away[i] > 1.5)
                worst = fmin(worst, decibel((double)ratio[i] / (double)power[i]));
    }
    sonar_normalise_destroy(n);
    return -worst;
}

/* A line's ends are the hard case: beside them a ship sees its own mirror image. */
Test(normalise, a_neighbour_costs_less_than_1_db) {
    for (int circle = 0; circle < 2; circle++)
        for (int level_db = 3; level_db <= 30; level_db += 3) {
            double at[MOST];
            const sonar_normalise_spec s = even(240, 0.25, at, circle);
            const double cost = cost_db(&s, level_db, true);
            cr_log_info("%s, %d dB: %.2f dB", circle ? "circle" : "line", level_db, cost);
            cr_expect(cost < 1, "%s, %d dB: %.2f dB", circle ? "circle" : "line", level_db, cost);
        }
}

/* Without shading a ship's side lobes, from -13 dB on, are noise to their neighbours: what
 * docs/normalised.md says of it. */
Test(normalise, side_lobes_cost_what_the_page_says) {
    static const double said_db[2][3] = {{0.6, 2.0, 7.0}, {0.2, 0.8, 3.5}};
    for (int circle = 0; circle < 2; circle++)
        for (int i = 0; i < 3; i++) {
            double at[MOST];
            const sonar_normalise_spec s = even(240, 0.25, at, circle);
            const double cost = cost_db(&s, 10 * (i + 1), false);
            cr_expect_float_eq(cost, said_db[circle][i], 0.06, "%s, %d dB: %.2f dB",
                               circle ? "circle" : "line", 10 * (i + 1), cost);
        }
}

Test(normalise, refuses_what_has_no_noise_beside_it) {
    double at[MOST];
    sonar_normalise *n = NULL;
    sonar_error err = {0};
    sonar_normalise_spec s = even(10, 0.25, at, true);
    cr_expect_eq(sonar_normalise_create(&s, &n, &err), SONAR_EINVAL);
    cr_expect_null(n);
    s = even(100, 0.25, at, true);
    s.gap_beams = 1.4;
    cr_expect_eq(sonar_normalise_create(&s, &n, &err), SONAR_EINVAL);
    s = even(100, 0.25, at, false);
    at[4] = at[3];
    cr_expect_eq(sonar_normalise_create(&s, &n, &err), SONAR_EINVAL);
}

/* The mean of clipped gamma noise, by sums over its density. */
Test(normalise, bias_is_the_mean_of_clipped_noise) {
    for (double a = 1; a < 3000; a *= 1.7) {
        const double clip = sonar_normalise_clip(a), step = 1e-4 / sqrt(a);
        double all = 0, kept = 0;
        for (double x = step / 2; x < 1 + 30 / sqrt(a); x += step) {
            const double density = exp(a * (log(x) + 1 - x)) / x;
            all += density;
            kept += density * (x > clip ? 1 : x);
        }
        cr_expect_float_eq(decibel(sonar_normalise_bias(a)), decibel(kept / all), 1e-3,
                           "%g averages", a);
    }
}

/* All ratios are finite, and a power over silence is as large as can be told. */
Test(normalise, silence_has_no_level) {
    double at[MOST];
    float power[MOST] = {0}, ratio[MOST];
    const sonar_normalise_spec s = even(100, 0.25, at, false);
    sonar_normalise *n = made(&s);
    sonar_normalise_run(n, 10, power, ratio);
    for (size_t i = 0; i < 100; i++)
        cr_expect_eq(ratio[i], 0, "%zu: %g", i, (double)ratio[i]);
    power[50] = 3e38F;
    sonar_normalise_run(n, 10, power, ratio);
    for (size_t i = 0; i < 100; i++)
        cr_expect(isfinite(ratio[i]), "%zu: %g", i, (double)ratio[i]);
    cr_expect_gt(ratio[50], 1e30);
    sonar_normalise_destroy(n);
}
