/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The MVDR stage as a neighbour sees it: physics it must show, faults it must survive, and results
 * that do not depend on the number of workers. */
#include "mvdr_oracle.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static unsigned flags_of(const mvdr_fixture *f, size_t bin) {
    return (unsigned)mvdr_fixture_info(f, bin, SONAR_MVDR_FLAGS);
}

/* ---- physics --------------------------------------------------------------------------------- */

/* Peaks of p that stand within 6 dB of the highest. */
static size_t peaks(const float *p, size_t count) {
    float most = 0;
    size_t found = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, p[i]);
    for (size_t i = 1; i + 1 < count; i++)
        found += p[i] > p[i - 1] && p[i] >= p[i + 1] && p[i] > most / 4;
    return found;
}

/* Two equal sources 0.6 beam widths apart at 25 dB array SNR: two for MVDR, one for the CBF. */
Test(mvdr_stage, resolves_what_the_cbf_cannot) {
    enum { B = 32, L = 256, T = 1800 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(B, T, L);
    spec.loading = SONAR_LOADING_NOISE;
    spec.eps = 0.01;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    double width_deg = 0.886 * 2 / B * 180 / M_PI, level = 25 - 10 * log10(B);
    mvdr_wave waves[] = {{90 - 0.3 * width_deg, level}, {90 + 0.3 * width_deg, level}};
    sonar_c32 *x = mvdr_record(&f, L, waves, 2, 2);
    cr_assert_eq(mvdr_fixture_run(&f, L, x), SONAR_OK);
    cplx *r = mvdr_fixture_covariance(&f, 0, L, x, NULL), a[B];
    float conventional[T];
    for (size_t t = 0; t < T; t++) {
        cplx sum = 0;
        mvdr_fixture_steering(&f, 0, mvdr_fixture_azimuth_deg(&f, t), a);
        for (size_t j = 0; j < B; j++)
            for (size_t i = 0; i < B; i++)
                sum += conj(a[i]) * r[j * B + i] * a[j];
        conventional[t] = (float)(creal(sum) / (B * B));
    }
    cr_expect_eq(peaks(conventional, T), 1);
    cr_expect_eq(peaks(f.spectrum, T), 2);
    free(r);
    free(x);
    mvdr_fixture_close(&f);
}

/* Levels far from 1: squares of the samples would leave float32's range. */
Test(mvdr_stage, extreme_levels) {
    for (int exponent = -18; exponent <= 16; exponent += 34)
        for (size_t l = 6; l < 40; l += 30) {
            mvdr_fixture f;
            sonar_mvdr_spec spec = mvdr_fixture_spec(12, 30, l);
            mvdr_fixture_open(&f, &spec, sonar_host_serial());
            sonar_c32 *x = mvdr_record(&f, l, (mvdr_wave[]){{70, 20}}, 1, 4);
            for (size_t i = 0; i < 12 * l; i++) {
                x[i].re *= (float)pow(10, exponent);
                x[i].im *= (float)pow(10, exponent);
            }
            cr_assert_eq(mvdr_fixture_run(&f, l, x), SONAR_OK);
            cplx *r = mvdr_fixture_covariance(&f, 0, l, x, NULL);
            cr_expect_lt(mvdr_fixture_error_db(&f, 0, r, (double)l), 0.05, "1e%d", exponent);
            free(r);
            free(x);
            mvdr_fixture_close(&f);
        }
}

/* Beyond float32's range the power saturates, and stays a number. */
Test(mvdr_stage, overflow_saturates) {
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(4, 10, 8);
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, 8, NULL, 0, 4);
    for (size_t i = 0; i < 32; i++)
        x[i].re = copysignf(FLT_MAX, x[i].re), x[i].im = copysignf(FLT_MAX, x[i].im);
    cr_assert_eq(mvdr_fixture_run(&f, 8, x), SONAR_OK);
    for (size_t t = 0; t < 10; t++)
        cr_expect(isfinite(f.spectrum[t]) && isfinite(f.azimuth[t]) && f.spectrum[t] > 1e38f);
    cr_expect(isfinite(mvdr_fixture_info(&f, 0, SONAR_MVDR_DELTA)));
    free(x);
    mvdr_fixture_close(&f);
}

/* ---- faults ---------------------------------------------------------------------------------- */

Test(mvdr_stage, too_few_sweeps_are_flagged) {
    for (int method = 0; method < 2; method++) {
        mvdr_fixture f;
        sonar_mvdr_spec spec = mvdr_fixture_spec(24, 30, 60);
        spec.method = method ? SONAR_MVDR_TWO_SIDED : SONAR_MVDR_ONE_SIDED;
        spec.max_sweeps = 1;
        mvdr_fixture_open(&f, &spec, sonar_host_serial());
        sonar_c32 *x = mvdr_record(&f, 60, (mvdr_wave[]){{70, 20}}, 1, 4);
        cr_assert_eq(mvdr_fixture_run(&f, 60, x), SONAR_OK);
        cr_expect(flags_of(&f, 0) & SONAR_MVDR_FLAG_NOT_CONVERGED);
        cr_expect_eq(mvdr_fixture_info(&f, 0, SONAR_MVDR_SWEEPS), 1);
        cr_expect_gt(mvdr_fixture_info(&f, 0, SONAR_MVDR_RESIDUAL), 1e-6f);
        free(x);
        mvdr_fixture_close(&f);
    }
}

/* A snapshot with one bad value in one bin counts for the other bins only, and for this one not
 * even as a zero. */
static void bad_value(double alpha, float bad) {
    enum { B = 9, L = 20, BINS = 3 };
    double weight[L];
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(B, 30, alpha > 0 ? 0 : L);
    spec.alpha = alpha;
    spec.max_new = L;
    spec.bins = BINS;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 *x = mvdr_record(&f, L, (mvdr_wave[]){{70, 20}}, 1, 4);
    sonar_c32 *good = calloc(L * B * BINS, sizeof *good);
    for (size_t s = 0; s < L; s++)
        memcpy(good + s * B * BINS,
               x + (s < 7       ? s
                    : s + 1 < L ? s + 1
                                : s) *
                       B * BINS,
               B * BINS * sizeof *x);
    x[7 * B * BINS + B + 4].im = bad;
    cr_assert_eq(mvdr_fixture_run(&f, L, x), SONAR_OK);
    for (size_t bin = 0; bin < BINS; bin++) {
        size_t count = bin == 1 ? L - 1 : L;
        for (size_t i = 0; i < count; i++)
            weight[i] = alpha > 0 ? (1 - alpha) * pow(alpha, (double)(count - 1 - i)) /
                                        (1 - pow(alpha, (double)count))
                                  : 1 / (double)count;
        cplx *r = mvdr_fixture_covariance(&f, bin, count, bin == 1 ? good : x, weight);
        cr_expect_lt(mvdr_fixture_error_db(&f, bin, r, (double)count), 0.01, "bin %zu", bin);
        free(r);
    }
    for (size_t t = 0; t < 30; t++)
        cr_expect(isfinite(f.azimuth[t]));
    free(x);
    free(good);
    mvdr_fixture_close(&f);
}

Test(mvdr_stage, non_finite_snapshots) {
    bad_value(0, NAN);
    bad_value(0, INFINITY);
    bad_value(0.9, NAN);
    bad_value(0.9, -INFINITY);
}

static void expect_silence(const mvdr_fixture *f) {
    for (size_t t = 0; t < f->spec.directions; t++)
        cr_expect_eq(f->azimuth[t], 0);
    for (size_t t = 0; t < f->spec.directions * f->spec.bins; t++)
        cr_expect_eq(f->spectrum[t], 0);
    for (size_t i = 0; i < f->spec.bins * SONAR_MVDR_INFO_FIELDS; i++)
        cr_expect(isfinite(f->info[i]));
}

/* No snapshot yet, zeros only, and all masked: P is 0; afterwards it works as if nothing was. */
Test(mvdr_stage, nothing_and_zeros) {
    for (int kind = 0; kind < 3; kind++) {
        enum { B = 6, L = 10 };
        mvdr_fixture f;
        sonar_mvdr_spec spec = mvdr_fixture_spec(B, 30, kind == 1 ? 0 : L);
        spec.alpha = kind == 1 ? 0.8 : 0;
        spec.max_new = L;
        spec.method = kind == 2 ? SONAR_MVDR_TWO_SIDED : SONAR_MVDR_ONE_SIDED;
        mvdr_fixture_open(&f, &spec, sonar_host_serial());
        sonar_c32 zeros[B * L] = {0}, *x = mvdr_record(&f, L, NULL, 0, 4);
        memset(f.azimuth, 0x7f, 30 * sizeof *f.azimuth);
        cr_assert_eq(mvdr_fixture_run(&f, 0, NULL), SONAR_OK);
        expect_silence(&f);
        cr_assert_eq(mvdr_fixture_run(&f, L, zeros), SONAR_OK);
        expect_silence(&f);
        cr_assert_eq(mvdr_fixture_run(&f, L, x), SONAR_OK);
        for (size_t t = 0; t < 30; t++)
            cr_expect(isfinite(f.azimuth[t]) && f.azimuth[t] > 0);
        free(x);
        mvdr_fixture_close(&f);
    }
}

/* One plane wave without any noise: R has rank one, nothing to average over. */
Test(mvdr_stage, no_noise_at_all) {
    enum { B = 10, L = 25 };
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(B, 45, L);
    spec.loading = SONAR_LOADING_NOISE;
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 x[B * L];
    cplx a[B];
    mvdr_fixture_steering(&f, 0, mvdr_fixture_azimuth_deg(&f, 12), a);
    for (size_t i = 0; i < B * L; i++)
        x[i] = (sonar_c32){(float)creal(a[i % B]), (float)cimag(a[i % B])};
    cr_assert_eq(mvdr_fixture_run(&f, L, x), SONAR_OK);
    for (size_t t = 0; t < 45; t++) {
        cr_expect(isfinite(f.spectrum[t]) && f.spectrum[t] >= 0);
        cr_expect(t == 12 || f.spectrum[t] < f.spectrum[12]);
    }
    cr_expect_float_eq(f.spectrum[12], 1, 0.02, "%g", (double)f.spectrum[12]);
    mvdr_fixture_close(&f);
}

Test(mvdr_stage, reset_forgets) {
    for (int forget = 0; forget < 2; forget++) {
        enum { B = 11, L = 15, T = 30 };
        mvdr_fixture f;
        float first[T];
        sonar_mvdr_spec spec = mvdr_fixture_spec(B, T, forget ? 0 : L);
        spec.alpha = forget ? 0.9 : 0;
        spec.max_new = 8;
        mvdr_fixture_open(&f, &spec, sonar_host_serial());
        sonar_c32 *x = mvdr_record(&f, 24, (mvdr_wave[]){{70, 20}}, 1, 4);
        cr_assert_eq(mvdr_fixture_run(&f, 8, x), SONAR_OK);
        memcpy(first, f.spectrum, sizeof first);
        cr_assert_eq(mvdr_fixture_run(&f, 8, x + 8 * B), SONAR_OK);
        cr_assert_eq(mvdr_fixture_run(&f, 3, x + 16 * B), SONAR_OK);
        cr_expect_neq(memcmp(first, f.spectrum, sizeof first), 0);
        sonar_mvdr_jacobi_cpu.reset(f.stage);
        cr_assert_eq(mvdr_fixture_run(&f, 8, x), SONAR_OK);
        cr_expect_eq(memcmp(first, f.spectrum, sizeof first), 0);
        free(x);
        mvdr_fixture_close(&f);
    }
}

/* ---- workers --------------------------------------------------------------------------------- */

enum { W_SENSORS = 21, W_BINS = 7, W_T = 50, W_L = 18 };

static void with_workers(size_t workers, double alpha, float *spectrum, float *azimuth) {
    sonar_pool *pool;
    cr_assert_eq(sonar_pool_create(workers, NULL, &pool, NULL), SONAR_OK);
    sonar_host host = *sonar_host_serial();
    host.ctx = pool;
    host.parallel = sonar_pool_parallel;
    host.workers = workers;
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(W_SENSORS, W_T, alpha > 0 ? 0 : W_L);
    spec.alpha = alpha;
    spec.bins = W_BINS;
    spec.max_new = W_L;
    mvdr_fixture_open(&f, &spec, &host);
    sonar_c32 *x = mvdr_record(&f, 2 * W_L, (mvdr_wave[]){{70, 60}}, 1, 4);
    cr_assert_eq(mvdr_fixture_run(&f, W_L, x), SONAR_OK);
    cr_assert_eq(mvdr_fixture_run(&f, 5, x + W_L * W_BINS * W_SENSORS), SONAR_OK);
    memcpy(spectrum, f.spectrum, W_BINS * W_T * sizeof *spectrum);
    memcpy(azimuth, f.azimuth, W_T * sizeof *azimuth);
    free(x);
    mvdr_fixture_close(&f);
    sonar_pool_destroy(pool);
}

Test(mvdr_stage, same_bits_for_any_number_of_workers) {
    for (int forget = 0; forget < 2; forget++) {
        float spectrum[3][W_BINS * W_T], azimuth[3][W_T];
        for (size_t workers = 1; workers <= 3; workers++) {
            with_workers(workers, forget ? 0.9 : 0, spectrum[workers - 1], azimuth[workers - 1]);
            cr_expect_eq(memcmp(spectrum[0], spectrum[workers - 1], sizeof spectrum[0]), 0);
            cr_expect_eq(memcmp(azimuth[0], azimuth[workers - 1], sizeof azimuth[0]), 0);
        }
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void refused(sonar_mvdr_spec spec) {
    void *stage = &spec;
    sonar_error err = {0};
    cr_expect_eq(sonar_mvdr_jacobi_cpu.create(&spec, sonar_host_serial(), &stage, &err),
                 SONAR_EINVAL);
    cr_expect_null(stage);
    cr_expect_neq(err.text[0], 0);
}

Test(mvdr_stage, impossible_specs) {
    const sonar_mvdr_spec good = mvdr_fixture_spec(4, 5, 6);
    sonar_mvdr_spec spec = good;
    spec.sensors = 0, refused(spec), spec = good;
    spec.directions = 0, refused(spec), spec = good;
    spec.bins = 0, refused(spec), spec = good;
    spec.fs_hz = NAN, refused(spec), spec = good;
    spec.alpha = 0.5, refused(spec), spec = good;
    spec.snapshots = 0, refused(spec), spec = good;
    spec.snapshots = 0, spec.alpha = 1, refused(spec), spec = good;
    spec.eps = 0, refused(spec), spec = good;
    spec.eps = INFINITY, refused(spec), spec = good;
    spec.tolerance = 0, refused(spec), spec = good;
    spec.max_sweeps = 0, refused(spec);
    sonar_mvdr_jacobi_cpu.destroy(NULL);
}

Test(mvdr_stage, wrong_shapes) {
    mvdr_fixture f;
    sonar_mvdr_spec spec = mvdr_fixture_spec(4, 5, 6);
    mvdr_fixture_open(&f, &spec, sonar_host_serial());
    sonar_c32 x[7 * 4] = {0};
    sonar_work work = {.params = &f.params};
    sonar_buffer out[SONAR_MVDR_OUTPUTS] = {0};
    sonar_buffer narrow = sonar_buffer_view(x, SONAR_C32, 3, (size_t[]){1, 1, 3});
    sonar_buffer many = sonar_buffer_view(x, SONAR_C32, 3, (size_t[]){7, 1, 4});
    sonar_buffer good = sonar_buffer_view(x, SONAR_C32, 3, (size_t[]){1, 1, 4});
    cr_expect_eq(sonar_mvdr_jacobi_cpu.execute(f.stage, NULL, &narrow, out, &work, NULL),
                 SONAR_EINVAL);
    cr_expect_eq(sonar_mvdr_jacobi_cpu.execute(f.stage, NULL, &many, out, &work, NULL),
                 SONAR_EINVAL);
    cr_expect_eq(sonar_mvdr_jacobi_cpu.execute(f.stage, NULL, &good, out, &work, NULL), SONAR_OK);
    f.params.far_mvdr.bin_width_hz *= 2;
    f.params.version++;
    cr_expect_eq(sonar_mvdr_jacobi_cpu.execute(f.stage, NULL, &good, out, &work, NULL),
                 SONAR_EINVAL);
    mvdr_fixture_close(&f);
}
