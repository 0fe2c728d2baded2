/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The normalisers compared with their definitions, and with what they are for. */
#include <criterion/criterion.h>
#include <math.h>

#include "analysis/normalise/normalise.h"
#include "core/core.h"
#include "core/random.h"
#include "normalise_oracle.h"

enum { MOST = NORMALISE_ORACLE_MOST };

static const char *const word[SONAR_NORMALISERS] = {
    SONAR_NORMALISE_METHODS(SONAR_PICK_WORD, SONAR_COMMA)};

static double decibel(double power) {
    return 10 * log10(power);
}

static sonar_normalise *made(const sonar_normalise_spec *spec) {
    sonar_normalise *n = NULL;
    sonar_error err = {0};
    cr_assert_eq(sonar_normalise_create(spec, &n, &err), SONAR_OK, "%s", err.text);
    return n;
}

/* ---- the definitions --------------------------------------------------------------------------
 */

Test(normalise, each_agrees_with_its_definition) {
    uint64_t seed = 1;
    for (int trial = 0; trial < 240; trial++) {
        double at[MOST], expected[MOST];
        float power[MOST], ratio[MOST];
        sonar_normalise_spec s = {.method = (sonar_normalise_method)(trial / 2 % SONAR_NORMALISERS),
                                  .directions = 40 + sonar_random_bits(&seed) % 200,
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
            cr_assert(fabs((double)ratio[i] / expected[i] - 1) < 1e-6, "%s, %d: %zu: %g, not %g",
                      word[s.method], trial, i, (double)ratio[i], expected[i]);
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

static sonar_normalise_spec even(sonar_normalise_method method, size_t n, double step, double *at,
                                 bool circle) {
    for (size_t i = 0; i < n; i++)
        at[i] = (double)i * step;
    return (sonar_normalise_spec){.method = method,
                                  .directions = n,
                                  .at_beams = at,
                                  .turn_beams = circle ? (double)n * step : 0,
                                  .gap_beams = 1.5,
                                  .window_beams = 8};
}

static void expect_0_db(const char *method, int averages, size_t n, const double *mean) {
    double all = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        cr_expect(fabs(decibel(mean[i])) < 0.1, "%s, %d averages, %zu: %.3f dB", method, averages,
                  i, decibel(mean[i]));
        worst = fmax(worst, fabs(decibel(mean[i])));
        all += mean[i] / (double)n;
    }
    cr_log_info("%s, %d averages: %.3f dB over all angles, at most %.3f", method, averages,
                decibel(all), worst);
    cr_expect(fabs(decibel(all)) < 0.02, "%s, %d averages: %.3f dB", method, averages,
              decibel(all));
}

Test(normalise, noise_reads_0_db_at_every_angle) {
    enum { N = 80, RUNS = 7500 };
    static const int averages[] = {8, 30, 100};
    uint64_t seed = 5;
    for (size_t k = 0; k < 3; k++) {
        double at[MOST], mean[SONAR_NORMALISERS][N] = {{0}};
        float power[MOST], ratio[MOST];
        const int runs = RUNS * 8 / averages[k]; /* the error of a mean is 0.018 dB */
        sonar_normalise *n[SONAR_NORMALISERS];
        for (unsigned m = 0; m < SONAR_NORMALISERS; m++) {
            const sonar_normalise_spec s = even((sonar_normalise_method)m, N, 0.25, at, false);
            n[m] = made(&s);
        }
        for (int r = 0; r < runs; r++) {
            noise(&seed, N, averages[k], 0.25, power);
            for (unsigned m = 0; m < SONAR_NORMALISERS; m++) {
                sonar_normalise_run(n[m], averages[k], power, ratio);
                for (size_t i = 0; i < N; i++)
                    mean[m][i] += (double)ratio[i] / runs;
            }
        }
        for (unsigned m = 0; m < SONAR_NORMALISERS; m++) {
            expect_0_db(word[m], averages[k], N, mean[m]);
            sonar_normalise_destroy(n[m]);
        }
    }
}

/* Of a beam, at this distance from the ship. Shaded: without side lobes. */
static double lobe(double away_beams, bool shaded) {
    const double turns = M_PI * 0.886 * away_beams;
    const double open = turns > 0 ? sin(turns) / turns : 1;
    if (!shaded)
        return open * open;
    return away_beams < 1.2 ? pow(cos(M_PI * away_beams / 2.4), 5.6) : 0;
}

static double away(const sonar_normalise_spec *s, size_t i, double at) {
    const double x = s->at_beams[i] - at;
    return fabs(s->turn_beams > 0 ? remainder(x, s->turn_beams) : x);
}

/* The most that a neighbour takes from a direction outside the gap, or from itself, at every place
 * of the scan. */
static double cost_db(const sonar_normalise_spec *s, double level_db, bool shaded) {
    sonar_normalise *n = made(s);
    double worst = 0;
    for (size_t ship = 0; ship < s->directions; ship++) {
        float power[MOST], ratio[MOST];
        for (size_t i = 0; i < s->directions; i++)
            power[i] =
                (float)(1 + lobe(away(s, i, s->at_beams[ship]), shaded) * pow(10, level_db / 10));
        sonar_normalise_run(n, 100, power, ratio);
        for (size_t i = 0; i < s->directions; i++)
            if (i == ship || away(s, i, s->at_beams[ship]) > 1.5)
                worst = fmin(worst, decibel((double)ratio[i] / (double)power[i]));
    }
    sonar_normalise_destroy(n);
    return -worst;
}

enum { LINE, CIRCLE, KINDS, LEVELS = 3 };
static const char *const kind_word[KINDS] = {"line", "circle"};

/* What docs/normalised.md says that a ship of 10, 20 and 30 dB costs at most. A line's ends are the
 * hard case: beside them a ship sees its own mirror image. */
static void expect_costs(bool shaded, const double said_db[SONAR_NORMALISERS][KINDS][LEVELS]) {
    for (unsigned m = 0; m < SONAR_NORMALISERS; m++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int i = 0; i < LEVELS; i++) {
                double at[MOST];
                const sonar_normalise_spec s =
                    even((sonar_normalise_method)m, 240, 0.25, at, kind == CIRCLE);
                const double cost = cost_db(&s, 10 * (i + 1), shaded);
                cr_expect_float_eq(cost, said_db[m][kind][i], 0.06, "%s, %s, %d dB: %.2f dB",
                                   word[m], kind_word[kind], 10 * (i + 1), cost);
            }
}

Test(normalise, a_neighbour_costs_what_the_page_says) {
    static const double said_db[SONAR_NORMALISERS][KINDS][LEVELS] = {
        [SONAR_TWO_PASS] = {{0.4, 3.0, 10.4}, {0, 0, 0.1}},
        [SONAR_THREE_PASS] = {{0.1, 0.5, 3.3}, {0, 0, 0}},
        [SONAR_FIVE_PASS] = {{0.1, 0.3, 0.3}, {0, 0, 0}},
        [SONAR_ORDER_TRUNCATE_AVERAGE] = {{0, 0, 0}, {0, 0, 0}}};
    expect_costs(true, said_db);
}

/* Without shading a ship's side lobes, from -13 dB on, are noise to their neighbours. */
Test(normalise, side_lobes_cost_what_the_page_says) {
    static const double said_db[SONAR_NORMALISERS][KINDS][LEVELS] = {
        [SONAR_TWO_PASS] = {{1.0, 5.5, 14.3}, {0.3, 2.0, 8.4}},
        [SONAR_THREE_PASS] = {{0.6, 3.1, 10.6}, {0.2, 1.0, 5.3}},
        [SONAR_FIVE_PASS] = {{0.6, 2.0, 7.0}, {0.2, 0.8, 3.5}},
        [SONAR_ORDER_TRUNCATE_AVERAGE] = {{0.6, 2.6, 9.7}, {0.2, 0.6, 3.0}}};
    expect_costs(false, said_db);
}

/* Issue 26 asks for it. The other methods miss it near the ends of a line. */
Test(normalise, a_neighbour_of_up_to_30_db_costs_less_than_1_db) {
    static const sonar_normalise_method methods[] = {SONAR_FIVE_PASS, SONAR_ORDER_TRUNCATE_AVERAGE};
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (int kind = 0; kind < KINDS; kind++)
            for (int level_db = 3; level_db <= 30; level_db += 3) {
                double at[MOST];
                const sonar_normalise_spec s = even(methods[m], 240, 0.25, at, kind == CIRCLE);
                const double cost = cost_db(&s, level_db, true);
                cr_expect(cost < 1, "%s, %s, %d dB: %.2f dB", word[methods[m]], kind_word[kind],
                          level_db, cost);
            }
}

/* ---- noise that changes with the angle, and many ships ----------------------------------------
 */

enum { SLOPE, EDGE, CROWD, SCENES, AROUND = 240 };

/* Over 60 beams: noise that rises by half a decibel a beam; noise that is 10 dB louder in one half;
 * a shaded ship of 20 dB in every fourth beam. */
static double scene(int kind, const sonar_normalise_spec *s, size_t i) {
    double power = 1;
    if (kind == SLOPE)
        return pow(10, 0.05 * (s->at_beams[i] - 30));
    if (kind == EDGE)
        return s->at_beams[i] < 30 ? 1 : 10;
    for (double ship = 0; ship < 60; ship += 4)
        power += 100 * lobe(away(s, i, ship), true);
    return power;
}

/* What the middle of the slope reads, the most that a direction reads at the edge, and the most
 * that the ships take from one. */
static double figure_db(int kind, sonar_normalise_method method) {
    double at[MOST], most = 0;
    float power[MOST], ratio[MOST];
    const sonar_normalise_spec s = even(method, AROUND, 0.25, at, kind == CROWD);
    sonar_normalise *n = made(&s);
    for (size_t i = 0; i < AROUND; i++)
        power[i] = (float)scene(kind, &s, i);
    sonar_normalise_run(n, 100, power, ratio);
    sonar_normalise_destroy(n);
    for (size_t i = 0; i < AROUND; i++)
        most = fmax(most, (double)(kind == CROWD ? power[i] / ratio[i] : ratio[i]));
    return decibel(kind == SLOPE ? (double)ratio[AROUND / 2] : most);
}

Test(normalise, other_noise_reads_what_the_page_says) {
    static const double said_db[SONAR_NORMALISERS][SCENES] = {
        [SONAR_TWO_PASS] = {-0.9, 3.3, 8.8},
        [SONAR_THREE_PASS] = {-0.9, 3.7, 5.5},
        [SONAR_FIVE_PASS] = {-0.9, 3.7, 1.7},
        [SONAR_ORDER_TRUNCATE_AVERAGE] = {1.9, 10.0, 0.1}};
    for (unsigned m = 0; m < SONAR_NORMALISERS; m++)
        for (int kind = 0; kind < SCENES; kind++) {
            const double figure = figure_db(kind, (sonar_normalise_method)m);
            cr_expect_float_eq(figure, said_db[m][kind], 0.06, "%s, scene %d: %.2f dB", word[m],
                               kind, figure);
        }
}

Test(normalise, refuses_what_has_no_noise_beside_it) {
    double at[MOST];
    sonar_normalise *n = NULL;
    sonar_error err = {0};
    sonar_normalise_spec s = even(SONAR_FIVE_PASS, 10, 0.25, at, true);
    cr_expect_eq(sonar_normalise_create(&s, &n, &err), SONAR_EINVAL);
    cr_expect_null(n);
    s = even((sonar_normalise_method)SONAR_NORMALISERS, 100, 0.25, at, true);
    cr_expect_eq(sonar_normalise_create(&s, &n, &err), SONAR_EINVAL);
    s = even(SONAR_FIVE_PASS, 100, 0.25, at, true);
    s.gap_beams = 1.4;
    cr_expect_eq(sonar_normalise_create(&s, &n, &err), SONAR_EINVAL);
    s = even(SONAR_FIVE_PASS, 100, 0.25, at, false);
    at[4] = at[3];
    cr_expect_eq(sonar_normalise_create(&s, &n, &err), SONAR_EINVAL);
}

/* The means of clipped and of truncated gamma noise, by sums over its density. */
Test(normalise, bias_is_the_mean_of_what_is_left_of_noise) {
    for (double a = 1; a < 3000; a *= 1.7) {
        const double clip = sonar_normalise_clip(a), step = 1e-4 / sqrt(a);
        double all = 0, low = 0, kept = 0, truncated = 0;
        for (double x = step / 2; x < 1 + 30 / sqrt(a); x += step) {
            const double density = exp(a * (log(x) + 1 - x)) / x;
            all += density;
            low += x > clip ? 0 : density;
            kept += density * (x > clip ? 1 : x);
            truncated += x > clip ? 0 : density * x;
        }
        const double bias_db = decibel(sonar_normalise_bias(a));
        cr_expect_float_eq(bias_db, decibel(kept / all), 1e-3, "%g averages, clipped", a);
        cr_expect_float_eq(bias_db, decibel(truncated / low), 1e-3, "%g averages, truncated", a);
    }
}

/* All ratios are finite, and a power over silence is as large as can be told. */
Test(normalise, silence_has_no_level) {
    for (unsigned m = 0; m < SONAR_NORMALISERS; m++) {
        double at[MOST];
        float power[MOST] = {0}, ratio[MOST];
        const sonar_normalise_spec s = even((sonar_normalise_method)m, 100, 0.25, at, false);
        sonar_normalise *n = made(&s);
        sonar_normalise_run(n, 10, power, ratio);
        for (size_t i = 0; i < 100; i++)
            cr_expect_eq(ratio[i], 0, "%s, %zu: %g", word[m], i, (double)ratio[i]);
        power[50] = 3e38F;
        sonar_normalise_run(n, 10, power, ratio);
        for (size_t i = 0; i < 100; i++)
            cr_expect(isfinite(ratio[i]), "%s, %zu: %g", word[m], i, (double)ratio[i]);
        cr_expect_gt(ratio[50], 1e30, "%s", word[m]);
        sonar_normalise_destroy(n);
    }
}
