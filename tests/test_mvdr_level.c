/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What MVDR's levels mean: a lone plane wave of power s on unit noise ought to read s + 1/B, and
 * directions without one 1/B. Few snapshots and loading spoil both by an amount that the stage
 * foretells and, with correct_level, takes out. The truth here is the scene's own. */
#include "mvdr_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

enum { TRIALS = 90, T = 36, WAVE = 13, QUIET = 27 };

typedef struct levels {
    double source_db, floor_db; /* of the mean over the bins, beside the truth */
    double share, delta;        /* means of what INFO says */
    unsigned flags;             /* of any bin */
} levels;

static double in_db(double ratio) {
    return 10 * log10(ratio);
}

/* Every bin is a trial: noise and wave are independent from bin to bin. */
static levels measure(sonar_mvdr_spec spec, size_t snapshots, double level_db, uint64_t seed) {
    mvdr_fixture f;
    levels result = {0};
    spec.bins = TRIALS;
    spec.first_bin = 40;
    spec.max_new = snapshots;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    const mvdr_wave wave = {mvdr_fixture_azimuth_deg(&f, WAVE), level_db};
    sonar_c32 *x = mvdr_record(&f, snapshots, &wave, 1, seed);
    cr_assert_eq(mvdr_fixture_run(&f, snapshots, x), SONAR_OK);
    double source = 0, quiet = 0, n = (double)spec.sensors;
    for (size_t bin = 0; bin < TRIALS; bin++) {
        source += (double)f.spectrum[bin * T + WAVE] / TRIALS;
        quiet += (double)f.spectrum[bin * T + QUIET] / TRIALS;
        result.share += (double)mvdr_fixture_info(&f, bin, SONAR_MVDR_LEVEL) / TRIALS;
        result.delta += (double)mvdr_fixture_info(&f, bin, SONAR_MVDR_DELTA) / TRIALS;
        result.flags |= (unsigned)mvdr_fixture_info(&f, bin, SONAR_MVDR_FLAGS);
    }
    result.source_db = in_db(source / (pow(10, level_db / 10) + 1 / n));
    result.floor_db = in_db(quiet * n);
    free(x);
    mvdr_fixture_close(&f);
    return result;
}

static sonar_mvdr_spec spec_of(size_t sensors, size_t snapshots, sonar_loading rule, double eps) {
    sonar_mvdr_spec spec = mvdr_fixture_spec(sensors, T, snapshots);
    spec.loading = rule;
    spec.eps = eps;
    return spec;
}

/* Both promises at once: what is foretold without correction, and what is left with it. */
static void check(sonar_mvdr_spec spec, size_t snapshots, double level_db, double limit_db) {
    const double n = (double)spec.sensors, truth = pow(10, level_db / 10) + 1 / n;
    const levels plain = measure(spec, snapshots, level_db, 77);
    const double source_db = in_db(plain.share + plain.delta / n / truth);
    const double floor_db = in_db(plain.share + plain.delta);
    cr_expect_lt(fabs(plain.source_db - source_db), limit_db,
                 "B %g, L %zu, eps %g: a source reads %.2f dB, foretold %.2f", n, snapshots,
                 spec.eps, plain.source_db, source_db);
    cr_expect_lt(fabs(plain.floor_db - floor_db), limit_db,
                 "B %g, L %zu, eps %g: the floor reads %.2f dB, foretold %.2f", n, snapshots,
                 spec.eps, plain.floor_db, floor_db);
    spec.correct_level = true;
    const levels corrected = measure(spec, snapshots, level_db, 77);
    cr_expect_lt(fabs(corrected.source_db), limit_db, "B %g, L %zu, eps %g: corrected source %.2f",
                 n, snapshots, spec.eps, corrected.source_db);
    cr_expect_lt(fabs(corrected.floor_db), limit_db, "B %g, L %zu, eps %g: corrected floor %.2f", n,
                 snapshots, spec.eps, corrected.floor_db);
    cr_expect_float_eq(corrected.share, plain.share, 1e-6);
}

Test(mvdr_level, few_and_many_snapshots_with_any_loading) {
    static const size_t size[][2] = {{24, 12}, {24, 24}, {24, 48}, {24, 96}, {64, 32}};
    static const double eps[] = {0.01, 1, 10};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++)
        for (size_t j = 0; j < sizeof eps / sizeof *eps; j++) {
            sonar_mvdr_spec spec = spec_of(size[i][0], size[i][1], SONAR_LOADING_NOISE, eps[j]);
            check(spec, size[i][1], 3, 0.6);
        }
}

/* As loud as a ship: the trace rule loads by it, the noise rule does not. */
Test(mvdr_level, a_loud_source) {
    check(spec_of(24, 48, SONAR_LOADING_NOISE, 1), 48, 40, 0.6);
    check(spec_of(24, 48, SONAR_LOADING_TRACE, 0.01), 48, 20, 0.6);
    check(spec_of(24, 48, SONAR_LOADING_ABSOLUTE, 0.3), 48, 20, 0.6);
}

Test(mvdr_level, forgetting_while_it_fills_and_after) {
    static const size_t seen[] = {10, 40, 150};
    for (size_t i = 0; i < 3; i++) {
        sonar_mvdr_spec spec = spec_of(16, 0, SONAR_LOADING_NOISE, 1);
        spec.alpha = 0.95;
        check(spec, seen[i], 3, 0.6);
    }
}

Test(mvdr_level, forward_backward_counts_twice) {
    sonar_mvdr_spec spec = spec_of(24, 24, SONAR_LOADING_NOISE, 1);
    spec.forward_backward = true;
    check(spec, 24, 3, 0.6);
    spec.snapshots = 0;
    spec.alpha = 0.9;
    check(spec, 100, 3, 0.7);
}

/* Loading beyond everything leaves the conventional beam's power, which has no bias to take out. */
Test(mvdr_level, overwhelming_loading_is_conventional) {
    enum { B = 20, L = 30 };
    sonar_mvdr_spec spec = spec_of(B, L, SONAR_LOADING_ABSOLUTE, 1e12);
    spec.correct_level = true;
    mvdr_fixture f;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, L, (mvdr_wave[]){{70, 10}}, 1, 5);
    cr_assert_eq(mvdr_fixture_run(&f, L, x), SONAR_OK);
    cplx *r = mvdr_fixture_covariance(&f, 0, L, x, NULL), a[B];
    for (size_t t = 0; t < T; t++) {
        cplx sum = 0;
        mvdr_fixture_steering(&f, 0, mvdr_fixture_azimuth_deg(&f, t), a);
        for (size_t j = 0; j < B; j++)
            for (size_t i = 0; i < B; i++)
                sum += conj(a[i]) * r[j * B + i] * a[j];
        cr_expect_float_eq((double)f.spectrum[t], creal(sum) / (B * B),
                           1e-4 * creal(sum) / (B * B));
    }
    free(r);
    free(x);
    mvdr_fixture_close(&f);
}

/* Capon and Goodman's exact (L - B + 1)/L where hardly anything is loaded. */
Test(mvdr_level, without_loading_it_is_capon_and_goodman) {
    const levels plain = measure(spec_of(24, 48, SONAR_LOADING_ABSOLUTE, 1e-6), 48, 3, 9);
    cr_expect_float_eq(plain.share, 25 / 48.0, 1e-4);
}

Test(mvdr_level, flagged_where_it_matters) {
    sonar_mvdr_spec spec = spec_of(24, 24, SONAR_LOADING_NOISE, 1);
    cr_expect_eq(measure(spec, 24, 3, 1).flags & SONAR_MVDR_FLAG_LEVEL_BIASED, 0, "2.4 dB");
    spec.eps = 0.01;
    cr_expect(measure(spec, 24, 3, 1).flags & SONAR_MVDR_FLAG_LEVEL_BIASED, "10 dB");
    spec.correct_level = true;
    cr_expect_eq(measure(spec, 24, 3, 1).flags & SONAR_MVDR_FLAG_LEVEL_BIASED, 0, "taken out");
    spec.eps = 1e-4;
    cr_expect(measure(spec, 24, 3, 1).flags & SONAR_MVDR_FLAG_LEVEL_BIASED, "too much to take out");
}

/* eps is the noise rule's: as a share of the trace, which holds the loudest ship, it means less. */
Test(mvdr_level, the_trace_stands_in_with_an_eps_of_its_own) {
    const levels few = measure(spec_of(24, 2, SONAR_LOADING_NOISE, 1), 2, 20, 3);
    cr_expect(few.flags & SONAR_MVDR_FLAG_TRACE_FALLBACK);
    cr_expect_float_eq(few.delta, 0.01 * 101, 0.25 * 0.01 * 101);
}

Test(mvdr_level, a_loading_under_the_least_is_flagged) {
    sonar_mvdr_spec spec = spec_of(24, 12, SONAR_LOADING_NOISE, 1e-4);
    cr_expect_eq(measure(spec, 12, 60, 3).flags & SONAR_MVDR_FLAG_LOADING_FLOOR, 0);
    const levels loud = measure(spec, 12, 80, 3);
    cr_expect(loud.flags & SONAR_MVDR_FLAG_LOADING_FLOOR);
    cr_expect_float_eq(loud.delta, 24e8 * 1.42e-12, 0.5 * 24e8 * 1.42e-12);
}

/* The noise rule beside the true noise, single bins, with two loud sources and without: what
 * docs/mvdr.md promises. */
static void noise_estimate(size_t sensors, size_t snapshots, double level_db, double *least,
                           double *most) {
    mvdr_fixture f;
    sonar_mvdr_spec spec = spec_of(sensors, snapshots, SONAR_LOADING_NOISE, 1);
    spec.bins = TRIALS;
    spec.first_bin = 40;
    spec.max_new = snapshots;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    const mvdr_wave waves[] = {{60, level_db}, {100, level_db - 10}};
    sonar_c32 *x = mvdr_record(&f, snapshots, waves, level_db > -100 ? 2 : 0, sensors + snapshots);
    cr_assert_eq(mvdr_fixture_run(&f, snapshots, x), SONAR_OK);
    for (size_t bin = 0; bin < TRIALS; bin++) {
        const double delta = (double)mvdr_fixture_info(&f, bin, SONAR_MVDR_DELTA);
        *least = fmin(*least, delta);
        *most = fmax(*most, delta);
    }
    free(x);
    mvdr_fixture_close(&f);
}

Test(mvdr_level, the_noise_rule_is_as_good_as_documented) {
    static const struct {
        size_t snapshots;
        double least, most;
    } promised[] = {{8, 0.35, 1.65}, {16, 0.5, 1.45}, {64, 0.7, 1.3}};
    for (size_t i = 0; i < 3; i++) {
        double least = 10, most = 0;
        for (size_t sensors = 8; sensors <= 128; sensors *= 4) {
            noise_estimate(sensors, promised[i].snapshots, -300, &least, &most);
            noise_estimate(sensors, promised[i].snapshots, 40, &least, &most);
        }
        cr_expect(least > promised[i].least && most < promised[i].most, "L %zu: %.2f to %.2f",
                  promised[i].snapshots, least, most);
        cr_expect(least < 1.3 * promised[i].least && most > promised[i].most / 1.3,
                  "L %zu: the document may promise more: %.2f to %.2f", promised[i].snapshots,
                  least, most);
    }
}
