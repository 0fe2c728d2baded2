/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * LAPACK's test ratios of both eigensolvers, in units of float32's eps:
 *   ||A - V D V^H||_F / (n eps ||A||_F)  and  ||V^H V - I||_F / (n eps), both at most 30.
 * Matrices as in LAPACK's zdrvst and zlatms: prescribed spectra turned by random unitary matrices.
 */
#include "mvdr_jacobi/internal.h"
#include "mvdr_oracle.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ULP   ((double)FLT_EPSILON)
#define RATIO 30

/* ---- making matrices ------------------------------------------------------------------------- */

/* k orthonormal columns of length n: Gaussian columns, each orthogonalised twice. */
static cplx *random_unitary(size_t n, size_t k, uint64_t *state) {
    cplx *u = calloc(n * k, sizeof *u);
    for (size_t j = 0; j < k; j++) {
        double norm = 0;
        for (size_t i = 0; i < n; i++)
            u[j * n + i] = test_gauss(state);
        for (size_t pass = 0; pass < 2 * j; pass++) {
            const cplx *before = u + pass % j * n;
            cplx inner = 0;
            for (size_t i = 0; i < n; i++)
                inner += conj(before[i]) * u[j * n + i];
            for (size_t i = 0; i < n; i++)
                u[j * n + i] -= inner * before[i];
        }
        for (size_t i = 0; i < n; i++)
            norm += creal(u[j * n + i] * conj(u[j * n + i]));
        for (size_t i = 0; i < n; i++)
            u[j * n + i] /= sqrt(norm);
    }
    return u;
}

typedef enum { EVEN, GEOMETRIC, CLUSTERED, ONE_SMALL, RANDOM_LOG, GAUSS, EQUAL, SPECTRA } spectrum;

/* Prescribed values from 1 down to ULP (zlatms modes 4, 3, 1, 2, 5, 6; EQUAL: all 1). */
static double prescribed(spectrum kind, size_t i, size_t n, uint64_t *state) {
    double x = n > 1 ? (double)i / (double)(n - 1) : 0;
    switch (kind) {
    case EVEN:
        return 1 - x * (1 - ULP);
    case GEOMETRIC:
        return pow(ULP, x);
    case CLUSTERED:
        return i ? ULP : 1;
    case ONE_SMALL:
        return i + 1 < n ? 1 : ULP;
    case RANDOM_LOG:
        return pow(ULP, test_uniform(state));
    case GAUSS:
        return fabs(creal(test_gauss(state)));
    default:
        return 1;
    }
}

/* sum_k d_k u_k v_k^H, u n x c and v m x c. */
static cplx *compose(size_t n, size_t m, size_t c, const cplx *u, const double *d, const cplx *v) {
    cplx *a = calloc(n * m, sizeof *a);
    for (size_t k = 0; k < c; k++)
        for (size_t j = 0; j < m; j++)
            for (size_t i = 0; i < n; i++)
                a[j * n + i] += d[k] * u[k * n + i] * conj(v[k * m + j]);
    return a;
}

/* ---- judging --------------------------------------------------------------------------------- */

/* The larger of the two ratios for k eigenpairs of the Hermitian A. */
static double worst_ratio(size_t n, const cplx *a, size_t k, const cplx *v, const double *d) {
    double away = 0, size = 0, skew = 0;
    cplx *again = compose(n, n, k, v, d, v);
    for (size_t i = 0; i < n * n; i++) {
        away += pow(cabs(a[i] - again[i]), 2);
        size += pow(cabs(a[i]), 2);
    }
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            cplx inner = i == j ? -1 : 0;
            for (size_t r = 0; r < n; r++)
                inner += conj(v[i * n + r]) * v[j * n + r];
            skew += pow(cabs(inner), 2);
        }
    free(again);
    double fit = size > 0 ? sqrt(away / size) : sqrt(away);
    return fmax(fit, sqrt(skew)) / ((double)n * ULP);
}

static cplx *widen(size_t n, size_t k, size_t ld, const float *re, const float *im) {
    cplx *v = calloc(n * k + 1, sizeof *v);
    for (size_t j = 0; j < k; j++)
        for (size_t i = 0; i < n; i++)
            v[j * n + i] = (double)re[j * ld + i] + I * (double)im[j * ld + i];
    return v;
}

/* ---- the factor method ----------------------------------------------------------------------- */

/* Puts the factor into scratch, rounds it to float32 in place, returns A = S S^H of the rounded. */
static cplx *load_factor(mvdr_scratch *scratch, size_t n, size_t m, cplx *s) {
    size_t ld = mvdr_pad(n, MVDR_ALIGN);
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < n; i++) {
            scratch->s_re[j * ld + i] = (float)creal(s[j * n + i]);
            scratch->s_im[j * ld + i] = (float)cimag(s[j * n + i]);
            s[j * n + i] =
                (double)(float)creal(s[j * n + i]) + I * (double)(float)cimag(s[j * n + i]);
        }
    cplx *a = calloc(n * n, sizeof *a);
    double *ones = calloc(m, sizeof *ones);
    for (size_t i = 0; i < m; i++)
        ones[i] = 1;
    mvdr_oracle_covariance(n, m, s, ones, a);
    free(ones);
    return a;
}

static double factor_ratio(size_t n, size_t m, spectrum kind, bool in_double, uint64_t seed) {
    size_t c = n < m ? n : m, ld = mvdr_pad(n, MVDR_ALIGN);
    mvdr_scratch scratch;
    cr_assert_eq(mvdr_scratch_create((mvdr_limits){n, m, mvdr_pad(c, MVDR_GROUP)}, &scratch, NULL),
                 SONAR_OK);
    double *sigma = calloc(c, sizeof *sigma);
    for (size_t i = 0; i < c; i++)
        sigma[i] = sqrt(prescribed(kind, i, c, &seed));
    cplx *u = random_unitary(n, c, &seed), *w = random_unitary(m, c, &seed);
    cplx *s = compose(n, m, c, u, sigma, w), *a = load_factor(&scratch, n, m, s);
    size_t most = mvdr_pad(c, MVDR_GROUP);
    float *re = calloc(most * ld, sizeof *re), *im = calloc(most * ld, sizeof *im);
    mvdr_solution solution = in_double ? mvdr_solve_f64(&scratch, n, m, 3e-10, 30, re, im, ld, most)
                                       : mvdr_solve_f32(&scratch, n, m, 3e-7, 30, re, im, ld, most);
    cr_expect(solution.converged, "n %zu, m %zu, spectrum %d: residual %g", n, m, (int)kind,
              solution.residual);
    cplx *v = widen(n, solution.kept, ld, re, im);
    double ratio = worst_ratio(n, a, solution.kept, v, scratch.d);
    for (size_t i = 1; i < solution.kept; i++)
        cr_expect_geq(scratch.d[i - 1], scratch.d[i], "eigenvalues descend");
    mvdr_scratch_destroy(&scratch);
    free(sigma), free(u), free(w), free(s), free(a), free(re), free(im), free(v);
    return ratio;
}

Test(mvdr_eigen, factor_method) {
    static const size_t shape[][2] = {{1, 1},   {1, 5},   {5, 1},   {2, 2},   {3, 7},
                                      {16, 16}, {31, 17}, {17, 31}, {40, 40}, {64, 48}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (spectrum kind = EVEN; kind < SPECTRA; kind++)
            for (int in_double = 0; in_double < 2; in_double++) {
                double ratio = factor_ratio(shape[i][0], shape[i][1], kind, in_double, i + 1);
                cr_expect_leq(ratio, RATIO, "%zu x %zu, spectrum %d: ratio %g", shape[i][0],
                              shape[i][1], (int)kind, ratio);
            }
}

/* Columns that are copies of one another, and zero columns: rank far below the count. */
Test(mvdr_eigen, deficient_rank) {
    enum { N = 24, M = 30, LD = 32 };
    uint64_t seed = 9;
    mvdr_scratch scratch;
    cr_assert_eq(mvdr_scratch_create((mvdr_limits){N, M, N}, &scratch, NULL), SONAR_OK);
    cplx s[N * M], once[3 * N];
    for (size_t i = 0; i < 3 * N; i++)
        once[i] = test_gauss(&seed);
    for (size_t j = 0; j < M; j++)
        for (size_t i = 0; i < N; i++)
            s[j * N + i] = j % 4 < 3 ? once[j % 4 * N + i] : 0;
    cplx *a = load_factor(&scratch, N, M, s);
    float re[N * LD], im[N * LD];
    for (int in_double = 0; in_double < 2; in_double++) {
        mvdr_solution solution = in_double
                                     ? mvdr_solve_f64(&scratch, N, M, 3e-10, 30, re, im, LD, N)
                                     : mvdr_solve_f32(&scratch, N, M, 3e-7, 30, re, im, LD, N);
        cplx *v = widen(N, solution.kept, LD, re, im);
        cr_expect(solution.converged);
        cr_expect_geq(solution.kept, 3);
        cr_expect_leq(worst_ratio(N, a, solution.kept, v, scratch.d), RATIO);
        free(v);
    }
    free(a);
    mvdr_scratch_destroy(&scratch);
}
