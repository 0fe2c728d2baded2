/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MVDR spectrum against the double-precision oracle: blocks, sliding, forgetting, masks,
 * forward-backward, loading rules, loud scenes, evaluation off the grid. */
#include "mvdr_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIRECTIONS = 90 };

static double block_error(const sonar_mvdr_spec *spec, const mvdr_wave *waves, size_t count,
                          uint64_t seed) {
    mvdr_fixture f;
    mvdr_fixture_open(&f, spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, spec->snapshots, waves, count, seed);
    cr_assert_eq(mvdr_fixture_run(&f, spec->snapshots, x), SONAR_OK);
    cplx *r = mvdr_fixture_covariance(&f, 0, spec->snapshots, x, NULL);
    double error = mvdr_fixture_error_db(&f, 0, r, (double)spec->snapshots);
    cr_expect_eq(
        (unsigned)mvdr_fixture_info(&f, 0, SONAR_MVDR_FLAGS) & SONAR_MVDR_FLAG_NOT_CONVERGED, 0);
    cr_expect_leq(mvdr_fixture_info(&f, 0, SONAR_MVDR_RESIDUAL), 3e-7f);
    free(x);
    free(r);
    mvdr_fixture_close(&f);
    return error;
}

/* Every combination of sizes below, at, and above L = B, in scenes up to 80 dB loud. */
static void sizes_at(double level_db, double limit_db) {
    static const size_t sizes[] = {1, 2, 3, 7, 16, 31, 64, 128};
    mvdr_wave waves[] = {{50.5, level_db}, {81, level_db - 10}, {120, level_db - 20}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t b = sizes[i], lengths[] = {1, 2, b / 2, b, b + 1, 2 * b};
        for (size_t j = 0; j < sizeof lengths / sizeof *lengths; j++)
            for (int rule = 0; rule < 2 && lengths[j]; rule++) {
                sonar_mvdr_spec spec = mvdr_fixture_spec(b, DIRECTIONS, lengths[j]);
                spec.loading = rule ? SONAR_LOADING_TRACE : SONAR_LOADING_NOISE;
                spec.eps = rule ? 1e-4 : 1;
                double error = block_error(&spec, waves, 3, 1 + i * 100 + j);
                cr_expect_lt(error, limit_db, "B %zu, L %zu, rule %d at %g dB: %g dB off", b,
                             lengths[j], rule, level_db, error);
            }
    }
}

Test(mvdr, oracle_quiet) {
    sizes_at(0, 0.01);
}
Test(mvdr, oracle_40_db) {
    sizes_at(40, 0.05);
}
Test(mvdr, oracle_60_db) {
    sizes_at(60, 0.05);
}
Test(mvdr, oracle_80_db) {
    sizes_at(80, 0.1);
}

Test(mvdr, random_sizes) {
    uint64_t seed = 7;
    for (int i = 0; i < 40; i++) {
        size_t b = 1 + (size_t)(test_uniform(&seed) * 60),
               l = 1 + (size_t)(test_uniform(&seed) * 90);
        sonar_mvdr_spec spec = mvdr_fixture_spec(b, 1 + b % 37, l);
        spec.loading = SONAR_LOADING_NOISE;
        spec.eps = 0.3;
        mvdr_wave waves[] = {{30 + 100 * test_uniform(&seed), 60 * test_uniform(&seed)},
                             {30 + 100 * test_uniform(&seed), 30 * test_uniform(&seed)}};
        double error = block_error(&spec, waves, 2, (uint64_t)i);
        cr_expect_lt(error, 0.05, "B %zu, L %zu: %g dB off", b, l, error);
    }
}

/* The look straight at a source 80 dB above the noise: the residual must not cancel to nothing. */
Test(mvdr, pointing_at_the_loud_source) {
    sonar_mvdr_spec spec = mvdr_fixture_spec(128, 400, 64);
    for (int rule = 0; rule < 2; rule++) {
        spec.loading = rule ? SONAR_LOADING_TRACE : SONAR_LOADING_NOISE;
        spec.eps = rule ? 1e-7 : 1;
        mvdr_wave waves[] = {{180.0 * 150.5 / 400, 80}};
        double error = block_error(&spec, waves, 1, 5);
        cr_expect_lt(error, 0.1, "rule %d: %g dB off", rule, error);
    }
}

/* About as many snapshots as sensors and little loading: R's smallest eigenvalues decide. There,
 * and only there, the stage works in double and says so. */
Test(mvdr, nearly_square_in_double) {
    mvdr_wave waves[] = {{50.5, 60}, {81, 50}, {120, 40}};
    for (size_t l = 30; l <= 80; l += 5) {
        sonar_mvdr_spec spec = mvdr_fixture_spec(48, DIRECTIONS, l);
        mvdr_fixture f;
        spec.loading = SONAR_LOADING_NOISE;
        spec.eps = 0.01;
        mvdr_fixture_open(&f, &spec, sonar_host_serial());
        sonar_c32 *x = mvdr_record(&f, l, waves, 3, l);
        cr_assert_eq(mvdr_fixture_run(&f, l, x), SONAR_OK);
        bool in_double =
            (unsigned)mvdr_fixture_info(&f, 0, SONAR_MVDR_FLAGS) & SONAR_MVDR_FLAG_DOUBLE;
        cr_expect_eq(in_double, l > 36 && l < 72, "L %zu", l);
        cplx *r = mvdr_fixture_covariance(&f, 0, l, x, NULL);
        double error = mvdr_fixture_error_db(&f, 0, r, (double)l);
        if (in_double)
            cr_expect_lt(error, 5e-4, "L %zu: %g dB off", l, error); /* float32: 1e-3 and more */
        free(r);
        free(x);
        mvdr_fixture_close(&f);
    }
}

Test(mvdr, loading_rules) {
    mvdr_wave waves[] = {{60, 30}, {100, 25}};
    for (size_t l = 3; l < 50; l += 9)
        for (size_t known = 0; known < 4; known++) {
            sonar_mvdr_spec spec = mvdr_fixture_spec(24, DIRECTIONS, l);
            spec.loading = SONAR_LOADING_NOISE;
            spec.eps = 0.5;
            spec.known_sources = known;
            cr_expect_lt(block_error(&spec, waves, 2, l), 0.01, "L %zu, K %zu", l, known);
            spec.loading = SONAR_LOADING_ABSOLUTE;
            spec.eps = 0.25;
            cr_expect_lt(block_error(&spec, waves, 2, l), 0.01, "absolute, L %zu", l);
        }
}

/* A single dominant direction can be loaded by trace instead when the noise cannot be known. */
Test(mvdr, trace_fallback_is_flagged) {
    for (size_t l = 5; l < 8; l++) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = mvdr_fixture_spec(12, DIRECTIONS, l);
        spec.loading = SONAR_LOADING_NOISE;
        spec.known_sources = 2;
        mvdr_fixture_open(&f, &spec, sonar_host_serial());
        sonar_c32 *x = mvdr_record(&f, l, NULL, 0, l);
        cr_assert_eq(mvdr_fixture_run(&f, l, x), SONAR_OK);
        unsigned flags = (unsigned)mvdr_fixture_info(&f, 0, SONAR_MVDR_FLAGS);
        cr_expect_eq(!!(flags & SONAR_MVDR_FLAG_TRACE_FALLBACK), l <= 6, "L %zu", l);
        free(x);
        mvdr_fixture_close(&f);
    }
}

/* Snapshots come one, two, none or many at a time; the block is the last L of them. */
Test(mvdr, sliding_block) {
    enum { L = 20, TOTAL = 130 };
    static const size_t steps[] = {1, 2, 0, 5, 31, 1, 1, 20, 3};
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(17, DIRECTIONS, L);
    spec.max_new = 31;
    spec.bins = 3;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, TOTAL, (mvdr_wave[]){{70, 40}}, 1, 3);
    size_t stride = spec.bins * spec.sensors, end = 0;
    for (size_t i = 0; end + 31 < TOTAL; i++) {
        size_t step = steps[i % (sizeof steps / sizeof *steps)];
        cr_assert_eq(mvdr_fixture_run(&f, step, x + end * stride), SONAR_OK);
        end += step;
        size_t l = end < L ? end : L;
        for (size_t bin = 0; bin < spec.bins; bin++) {
            cplx *r = mvdr_fixture_covariance(&f, bin, l, x + (end - l) * stride, NULL);
            cr_expect_lt(mvdr_fixture_error_db(&f, bin, r, (double)l), 0.05, "after %zu", end);
            cr_expect_eq(mvdr_fixture_info(&f, bin, SONAR_MVDR_SNAPSHOTS), (float)l);
            free(r);
        }
    }
    free(x);
    mvdr_fixture_close(&f);
}

static void forgetting(size_t sensors, double alpha, double level_db, size_t step,
                       double limit_db) {
    enum { UPDATES = 50 };
    double weight[4 * UPDATES];
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(sensors, DIRECTIONS, 0);
    spec.alpha = alpha;
    spec.max_new = step;
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 1;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    mvdr_wave waves[] = {{50.5, level_db}, {81, level_db - 10}, {120, level_db - 20}};
    sonar_c32 *x = mvdr_record(&f, UPDATES * step, waves, 3, sensors);
    for (size_t update = 0; update < UPDATES; update++) {
        size_t seen = (update + 1) * step;
        cr_assert_eq(mvdr_fixture_run(&f, step, x + update * step * sensors), SONAR_OK);
        if (update % 7 && update + 1 < UPDATES)
            continue;
        double faded = pow(alpha, (double)seen);
        double snapshots = (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded);
        mvdr_oracle_fading(alpha, seen, weight);
        cplx *r = mvdr_fixture_covariance(&f, 0, seen, x, weight);
        double error = mvdr_fixture_error_db(&f, 0, r, snapshots);
        cr_expect_lt(error, limit_db, "B %zu, alpha %g, %g dB, after %zu: %g dB off", sensors,
                     alpha, level_db, seen, error);
        cr_expect_float_eq(mvdr_fixture_info(&f, 0, SONAR_MVDR_SNAPSHOTS), snapshots,
                           1e-5 * snapshots);
        free(r);
    }
    free(x);
    mvdr_fixture_close(&f);
}

Test(mvdr, forgetting_60_db) {
    forgetting(8, 0.97, 60, 1, 0.05);
    forgetting(31, 0.9, 60, 2, 0.05);
    forgetting(64, 0.97, 60, 1, 0.05);
    forgetting(5, 0.5, 40, 4, 0.05);
    forgetting(64, 0.9, 60, 2, 0.05); /* long enough to drop faded columns */
    forgetting(64, 0.75, 60, 4, 0.05);
    forgetting(64, 0.4, 60, 4, 0.05); /* fewer columns than sensors are ever kept */
}
Test(mvdr, forgetting_80_db) {
    forgetting(32, 0.97, 80, 1, 0.1);
    forgetting(64, 0.95, 80, 1, 0.1);
}

/* A mask that changes while running: rows leave and come back, R is over the used sensors only. */
Test(mvdr, masks) {
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(24, DIRECTIONS, 40);
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 1;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, 40, (mvdr_wave[]){{70, 50}}, 1, 11);
    cr_assert_eq(mvdr_fixture_run(&f, 40, x), SONAR_OK);
    for (uint64_t trial = 0, seed = 5; trial < 8; trial++) {
        for (size_t k = 0; k < 24; k++)
            f.used[k] = trial == 7 || test_uniform(&seed) < 0.7;
        mvdr_fixture_renew(&f);
        cr_assert_eq(mvdr_fixture_run(&f, 0, NULL), SONAR_OK);
        cplx *r = mvdr_fixture_covariance(&f, 0, 40, x, NULL);
        cr_expect_lt(mvdr_fixture_error_db(&f, 0, r, 40), 0.05, "trial %d", (int)trial);
        free(r);
    }
    memset(f.used, 0, sizeof f.used);
    mvdr_fixture_renew(&f);
    cr_assert_eq(mvdr_fixture_run(&f, 0, NULL), SONAR_OK);
    for (size_t t = 0; t < DIRECTIONS; t++)
        cr_expect_eq(f.azimuth[t], 0);
    free(x);
    mvdr_fixture_close(&f);
}

/* With forgetting the carried eigenvectors follow their sensors to other rows. */
Test(mvdr, mask_while_forgetting) {
    enum { COUNT = 60 };
    double weight[COUNT];
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(20, DIRECTIONS, 0);
    spec.alpha = 0.95;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, COUNT, (mvdr_wave[]){{70, 40}}, 1, 17);
    for (size_t s = 0; s < COUNT; s++) {
        if (s == 30) {
            f.used[0] = f.used[7] = f.used[8] = 0;
            mvdr_fixture_renew(&f);
        }
        cr_assert_eq(mvdr_fixture_run(&f, 1, x + s * 20), SONAR_OK);
    }
    mvdr_oracle_fading(0.95, COUNT, weight);
    cplx *r = mvdr_fixture_covariance(&f, 0, COUNT, x, weight);
    double faded = pow(0.95, COUNT);
    cr_expect_lt(mvdr_fixture_error_db(&f, 0, r, 39 * (1 - faded) / (1 + faded)), 0.05);
    free(r);
    free(x);
    mvdr_fixture_close(&f);
}

static void forward_backward(size_t sensors, size_t l, const size_t *masked, size_t count) {
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(sensors, DIRECTIONS, l);
    spec.forward_backward = true;
    spec.eps = 1e-3;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, l, (mvdr_wave[]){{60, 40}, {100, 20}}, 2, 23);
    for (size_t i = 0; i < count; i++)
        f.used[masked[i]] = 0;
    mvdr_fixture_renew(&f);
    cr_assert_eq(mvdr_fixture_run(&f, l, x), SONAR_OK);
    for (size_t i = 0; i < count; i++) { /* the oracle's mask: mirrors are dropped too */
        f.params.sensors_used -= f.used[sensors - 1 - masked[i]];
        f.used[sensors - 1 - masked[i]] = 0;
    }
    cplx *r = mvdr_fixture_covariance(&f, 0, l, x, NULL);
    mvdr_oracle_average_backward(f.params.sensors_used, r);
    double error = mvdr_fixture_error_db(&f, 0, r, 2 * (double)l);
    cr_expect_lt(error, 0.05, "B %zu, L %zu, %zu masked: %g dB off", sensors, l, count, error);
    free(r);
    free(x);
    mvdr_fixture_close(&f);
}

Test(mvdr, forward_backward) {
    static const size_t odd[] = {1, 3, 9};
    forward_backward(16, 5, NULL, 0);
    forward_backward(17, 9, NULL, 0);
    forward_backward(16, 40, NULL, 0);
    forward_backward(32, 12, odd, 3);
    forward_backward(31, 30, odd, 3);
}

Test(mvdr, forward_backward_while_forgetting) {
    enum { COUNT = 40, B = 12 };
    double weight[COUNT];
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(B, DIRECTIONS, 0);
    spec.alpha = 0.9;
    spec.forward_backward = true;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, COUNT, (mvdr_wave[]){{60, 40}}, 1, 29);
    for (size_t s = 0; s < COUNT; s++)
        cr_assert_eq(mvdr_fixture_run(&f, 1, x + s * B), SONAR_OK);
    mvdr_oracle_fading(0.9, COUNT, weight);
    cplx *r = mvdr_fixture_covariance(&f, 0, COUNT, x, weight);
    mvdr_oracle_average_backward(B, r);
    cr_expect_lt(mvdr_fixture_error_db(&f, 0, r, 38), 0.05);
    free(r);
    free(x);
    mvdr_fixture_close(&f);
}

/* Off the grid: points that are on the grid must read what execute said, masked or not; broadband
 * is (fs/N) sum_b P. */
Test(mvdr, evaluate_and_azimuth) {
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(19, 23, 30);
    spec.bins = 5;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    f.used[4] = 0;
    mvdr_fixture_renew(&f);
    sonar_c32 *x = mvdr_record(&f, 30, (mvdr_wave[]){{60, 30}}, 1, 31);
    cr_assert_eq(mvdr_fixture_run(&f, 30, x), SONAR_OK);
    float power[23];
    sonar_buffer turns = sonar_buffer_view(f.turns, SONAR_U64, 2, (size_t[]){23, 19});
    sonar_buffer out = sonar_buffer_view(power, SONAR_F32, 1, (size_t[]){23});
    sonar_work work = {.params = &f.params};
    cr_assert_eq(sonar_mvdr_jacobi_cpu.evaluate(f.stage, NULL, &turns, &out, &work, NULL),
                 SONAR_OK);
    for (size_t t = 0; t < 23; t++) {
        double sum = 0;
        for (size_t bin = 0; bin < 5; bin++)
            sum += (double)f.spectrum[bin * 23 + t] * 5; /* fs/N = 5 Hz */
        cr_expect_float_eq((double)f.azimuth[t], sum, 1e-6 * sum);
        cr_expect_eq(power[t], f.azimuth[t], "direction %zu", t);
    }
    free(x);
    mvdr_fixture_close(&f);
}

/* The conformance method agrees where float32 can hold R. */
Test(mvdr, two_sided_in_a_quiet_scene) {
    for (size_t b = 1; b < 40; b = b * 2 + 1) {
        sonar_mvdr_spec spec = mvdr_fixture_spec(b, DIRECTIONS, 2 * b);
        spec.method = SONAR_MVDR_TWO_SIDED;
        mvdr_fixture f;
        mvdr_fixture_open(&f, &spec, sonar_host_serial());
        sonar_c32 *x = mvdr_record(&f, 2 * b, (mvdr_wave[]){{70, 20}}, 1, b);
        cr_assert_eq(mvdr_fixture_run(&f, 2 * b, x), SONAR_OK);
        cplx *r = mvdr_fixture_covariance(&f, 0, 2 * b, x, NULL);
        cr_expect_lt(mvdr_fixture_error_db(&f, 0, r, 2 * (double)b), 0.05, "B %zu", b);
        cr_expect_eq((unsigned)mvdr_fixture_info(&f, 0, SONAR_MVDR_FLAGS) &
                         SONAR_MVDR_FLAG_NOT_CONVERGED,
                     0);
        free(r);
        free(x);
        mvdr_fixture_close(&f);
    }
}

/* What docs/mvdr.md says of it in loud scenes: exempt from the accuracy, and why. */
Test(mvdr, two_sided_is_exempt_in_loud_scenes) {
    for (int method = 0; method < 2; method++) {
        sonar_mvdr_spec spec = mvdr_fixture_spec(64, DIRECTIONS, 128);
        spec.loading = SONAR_LOADING_NOISE, spec.eps = 1;
        spec.method = method ? SONAR_MVDR_TWO_SIDED : SONAR_MVDR_ONE_SIDED;
        mvdr_fixture f;
        mvdr_fixture_open(&f, &spec, sonar_host_serial());
        const mvdr_wave waves[] = {{50.5, 60}, {81, 50}, {120, 40}};
        sonar_c32 *x = mvdr_record(&f, 128, waves, 3, 5);
        cr_assert_eq(mvdr_fixture_run(&f, 128, x), SONAR_OK);
        cplx *r = mvdr_fixture_covariance(&f, 0, 128, x, NULL);
        const double error = mvdr_fixture_error_db(&f, 0, r, 128);
        if (method)
            cr_expect(error > 0.3 && error < 20, "%g dB", error);
        else
            cr_expect_lt(error, 0.05, "%g dB", error);

        free(r);
        free(x);
        mvdr_fixture_close(&f);
    }
}
