/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * LAPACK's test ratios for the solvers of a bin, in units of float64's eps:
 *   ||A - V D V^H||_F / (n eps ||A||_F)  and  ||V^H V - I||_F / (n eps) of Jacobi,
 *   |d - d of LAPACK| / (n eps ||A||_F)  of the eigenvalues without vectors,
 *   ||A - L L^H||_F / (n eps ||A||_F)    of Cholesky's factor, all at most 30; and values that are
 * computed without eigenvalues, compared with those from eigenvalues. Matrices as in LAPACK's
 * zdrvst and zlatms: prescribed spectra turned by random unitary matrices.
 */
#include "mvdr_jacobi/cpu/kernels.h"
#include "mvdr_oracle.h"
#include "oracle.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ULP   DBL_EPSILON
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
    return oracle_worse(fit, sqrt(skew)) / ((double)n * ULP);
}

/* ---- LAPACK's matrices ----------------------------------------------------------------------- */

/* Even passes of random rotations of neighbours: a diagonal becomes a band of half-width 2 passes.
 */
static void widen_band(size_t n, cplx *a, size_t passes, uint64_t *state) {
    for (size_t pass = 0; pass < passes; pass++)
        for (size_t x = pass % 2; x + 1 < n; x += 2) {
            double angle = 2 * M_PI * test_uniform(state), c = cos(angle);
            cplx w = sin(angle) * cexp(2 * M_PI * I * test_uniform(state));
            for (size_t i = 0; i < n; i++) {
                cplx p = a[x * n + i], q = a[(x + 1) * n + i];
                a[x * n + i] = c * p - conj(w) * q;
                a[(x + 1) * n + i] = w * p + c * q;
            }
            for (size_t j = 0; j < n; j++) {
                cplx p = a[j * n + x], q = a[j * n + x + 1];
                a[j * n + x] = c * p - w * q;
                a[j * n + x + 1] = conj(w) * p + c * q;
            }
        }
}

enum { WEAK = 19, TYPES = WEAK };

/*
 * LAPACK's symmetric test types (zdrvst): 1 zero; 2 identity; diagonal 3 even, 4 geometric,
 * 5 clustered at ULP; 6, 7 as 4 near overflow, underflow; full 8 even, 9 geometric, 10 clustered;
 * 11, 12 as 8 near overflow, underflow; 13 random entries; 14, 15 as 13 near overflow, underflow;
 * band 16 even, 17 geometric, 18 clustered. Signs of prescribed values are random. "Near" is what
 * products of floats can be. And 19: as 13, all but two sensors nearly dead.
 */
static cplx *lapack_type(int type, size_t n, uint64_t *state) {
    static const spectrum of[] = {EQUAL,     EQUAL,     EQUAL,     EVEN,      GEOMETRIC,
                                  CLUSTERED, GEOMETRIC, GEOMETRIC, EVEN,      GEOMETRIC,
                                  CLUSTERED, EVEN,      EVEN,      GAUSS,     GAUSS,
                                  GAUSS,     EVEN,      GEOMETRIC, CLUSTERED, GAUSS};
    static const int scaled[] = {0, 0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 1, -1, 0, 1, -1, 0, 0, 0, 0};
    double *d = calloc(n, sizeof *d);
    for (size_t i = 0; i < n; i++) {
        double sign = type > 2 && test_uniform(state) < 0.5 ? -1 : 1;
        d[i] = type == 1 ? 0 : sign * prescribed(of[type], i, n, state);
    }
    const bool full = type >= 8 && type <= 12;
    const bool entries = (type >= 13 && type <= 15) || type == WEAK;
    cplx *u = full ? random_unitary(n, n, state) : calloc(n * n, sizeof *u);
    for (size_t i = 0; i < n && !full; i++)
        u[i * n + i] = 1;
    cplx *a = compose(n, n, n, u, d, u);
    for (size_t j = 0; entries && j < n; j++)
        for (size_t i = 0; i <= j; i++) {
            a[j * n + i] = i == j ? creal(test_gauss(state)) : test_gauss(state);
            a[i * n + j] = conj(a[j * n + i]);
        }
    for (size_t i = 0; type == WEAK && i < n * n; i++)
        a[i] *= (i % n < 2 ? 1 : (double)FLT_TRUE_MIN) * (i / n < 2 ? 1 : (double)FLT_TRUE_MIN);
    if (type >= 16 && type < WEAK)
        widen_band(n, a, 1 + (size_t)(test_uniform(state) * (double)n / 2), state);
    const double limit = scaled[type] > 0 ? (double)FLT_MAX : (double)FLT_TRUE_MIN;
    const double scale = scaled[type] ? limit * limit : 1;
    for (size_t i = 0; i < n * n; i++)
        a[i] *= scale;
    free(d);
    free(u);
    return a;
}

static const size_t sizes[] = {1, 2, 3, 8, 17, 40, 64};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* ---- Jacobi ---------------------------------------------------------------------------------- */

static mvdr_square square_of(size_t n) {
    const size_t ld = mvdr_pad(n, MVDR_LANES);
    return (mvdr_square){sonar_alloc(n * ld, sizeof(double)), sonar_alloc(n * ld, sizeof(double)),
                         n, ld};
}

/* What is above the diagonal is not to be read. */
static void load(mvdr_square h, const cplx *a) {
    for (size_t j = 0; j < h.n; j++)
        for (size_t i = 0; i < h.n; i++) {
            h.re[j * h.ld + i] = i < j ? NAN : creal(a[j * h.n + i]);
            h.im[j * h.ld + i] = i < j ? NAN : i == j ? 0 : cimag(a[j * h.n + i]);
        }
}

static void drop(mvdr_square h) {
    free(h.re);
    free(h.im);
}

/* As a triangle with the identity beyond. */
static double *triangle_of(size_t n, const cplx *a) {
    double *l = sonar_alloc(mvdr_triangle(n), sizeof *l);
    for (size_t i = 0; i < mvdr_pad(n, MVDR_LANES); i++)
        for (size_t j = 0; j <= i; j++) {
            mvdr_at(l, i, j)[0] = i < n ? creal(a[j * n + i]) : i == j;
            mvdr_at(l, i, j)[MVDR_LANES] = i < n && i > j ? cimag(a[j * n + i]) : 0;
        }
    return l;
}

typedef struct judged {
    double ratio;
    size_t sweeps;
} judged;

/* rows: V^H to begin from, or NULL. */
static judged judge_jacobi(size_t n, const cplx *a, const cplx *rows, const char *what) {
    const mvdr_square v = square_of(n);
    const size_t whole = 2 * v.ld * v.ld;
    double *d = calloc(n, sizeof *d), *triangle = triangle_of(n, a);
    double *factor = sonar_alloc(mvdr_triangle(n), sizeof *factor);
    cplx *w = calloc(n * n, sizeof *w);
    const mvdr_start start = {
        sonar_alloc(whole, sizeof(double)), sonar_alloc(whole, sizeof(double)),
        sonar_alloc(whole, sizeof(double)), sonar_alloc(mvdr_triangle(n), sizeof(double))};
    for (size_t i = 0; rows && i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double *to = start.rows + i / MVDR_LANES * v.ld * 2 * MVDR_LANES + i % MVDR_LANES +
                         j * 2 * MVDR_LANES;
            to[0] = creal(rows[i * n + j]), to[MVDR_LANES] = cimag(rows[i * n + j]);
        }
    const mvdr_sweeps sweeps =
        mvdr_jacobi(mvdr_kernels_here(), triangle, 1e-9, 30, rows ? &start : NULL, factor, v, d);
    cr_expect(sweeps.converged, "%s, n %zu: residual %g", what, n, sweeps.residual);
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < n; i++)
            w[j * n + i] = v.re[j * v.ld + i] + I * v.im[j * v.ld + i];
    const judged found = {worst_ratio(n, a, n, w, d), sweeps.count};
    drop(v);
    free(start.rows), free(start.left), free(start.right), free(start.turned);
    free(triangle), free(factor), free(d), free(w);
    return found;
}

Test(mvdr_eigen, jacobi_on_lapack_types) {
    for (int type = 1; type <= TYPES; type++)
        for (size_t i = 0; i < SIZES; i++) {
            uint64_t seed = (uint64_t)type * 10 + i;
            char what[32];
            snprintf(what, sizeof what, "type %d", type);
            cplx *a = lapack_type(type, sizes[i], &seed);
            const judged found = judge_jacobi(sizes[i], a, NULL, what);
            cr_expect_leq(found.ratio, RATIO, "%s, n %zu: ratio %g", what, sizes[i], found.ratio);
            free(a);
        }
}

/* u^H, the columns of u as rows. */
static cplx *rows_of(size_t n, const cplx *u) {
    cplx *rows = calloc(n * n, sizeof *rows);
    for (size_t i = 0; i < n * n; i++)
        rows[i] = conj(u[i]);
    return rows;
}

/* From the vectors of the matrix itself, of one that differs by a snapshot of a loud source, and
 * from any others. */
Test(mvdr_eigen, jacobi_from_other_vectors) {
    for (spectrum kind = EVEN; kind < SPECTRA; kind++)
        for (size_t i = 0; i < SIZES; i++) {
            const size_t n = sizes[i];
            uint64_t seed = 70 + i;
            double *d = calloc(n, sizeof *d);
            for (size_t k = 0; k < n; k++)
                d[k] = 1e-8 + prescribed(kind, k, n, &seed);
            cplx *u = random_unitary(n, n, &seed), *any = random_unitary(n, n, &seed);
            cplx *a = compose(n, n, n, u, d, u), *own = rows_of(n, u), *others = rows_of(n, any);
            const judged itself = judge_jacobi(n, a, own, "its own"),
                         from_any = judge_jacobi(n, a, others, "others"),
                         first = judge_jacobi(n, a, NULL, "from nothing");
            for (size_t j = 0; j < n; j++) /* a + x x^H / n, x along the first vector and noise */
                any[j] = sqrt(d[0]) * u[j] * test_gauss(&seed) + 1e-4 * test_gauss(&seed);
            for (size_t j = 0; j < n; j++)
                for (size_t k = 0; k < n; k++)
                    a[j * n + k] += any[k] * conj(any[j]) / (double)n;
            const judged changed = judge_jacobi(n, a, own, "changed"),
                         again = judge_jacobi(n, a, NULL, "from nothing");
            cr_expect_leq(itself.ratio, RATIO, "%d, n %zu: %g", (int)kind, n, itself.ratio);
            cr_expect_leq(from_any.ratio, RATIO, "%d, n %zu: %g", (int)kind, n, from_any.ratio);
            cr_expect_leq(changed.ratio, RATIO, "%d, n %zu: %g", (int)kind, n, changed.ratio);
            cr_expect_leq(itself.sweeps, kind == EVEN ? 2 : first.sweeps, "%d, n %zu: %zu",
                          (int)kind, n, itself.sweeps);
            cr_expect_leq(changed.sweeps, again.sweeps, "%d, n %zu: %zu", (int)kind, n,
                          changed.sweeps);
            free(d), free(u), free(any), free(a), free(own), free(others);
        }
}

/* Each eigenvalue of a graded matrix D S D is right relative to itself (Demmel and Veselic, SIAM J.
 * Matrix Anal. Appl. 13, 1992): those of D^-1 (D S D)^-1 D^-1 = S^-1 tell nothing of D. Here S is
 * [1 1/2; 1/2 1] in pairs of sensors, the second of which has `quiet` times the first one's
 * amplitude. */
Test(mvdr_eigen, small_eigenvalues_of_graded_matrices) {
    const size_t n = 16;
    const double quiet = 1e-9;
    cplx *a = calloc(n * n, sizeof *a);
    for (size_t j = 0; j < n; j += 2) {
        const double loud = 1 + (double)j;
        a[j * n + j] = loud;
        a[(j + 1) * n + j + 1] = loud * quiet * quiet;
        a[j * n + j + 1] = 0.5 * loud * quiet * cexp(I * (double)j);
        a[(j + 1) * n + j] = conj(a[j * n + j + 1]);
    }
    const mvdr_square v = square_of(n);
    double *d = calloc(n, sizeof *d), *triangle = triangle_of(n, a);
    double *factor = sonar_alloc(mvdr_triangle(n), sizeof *factor);
    size_t order[16];
    mvdr_jacobi(mvdr_kernels_here(), triangle, 1e-9, 30, NULL, factor, v, d);
    mvdr_descending(d, n, order);
    for (size_t k = 0; k < n / 2; k++) { /* determinant / loud, as quiet^2 is far below eps */
        const double want = 0.75 * quiet * quiet * (double)(n - 1 - 2 * k);
        cr_expect_float_eq(d[order[n / 2 + k]] / want, 1, 1e-13, "%zu: %g, not %g", k,
                           d[order[n / 2 + k]], want);
    }
    drop(v);
    free(a), free(d), free(triangle), free(factor);
}

/* ---- eigenvalues without eigenvectors -------------------------------------------------------- */

static double frobenius(size_t n, const cplx *a) {
    double sum = 0;
    for (size_t i = 0; i < n * n; i++)
        sum += pow(cabs(a[i]), 2);
    return sqrt(sum);
}

static double eigenvalue_ratio(int type, size_t n, uint64_t seed) {
    const mvdr_square h = square_of(n);
    double *v = sonar_alloc(8 * h.ld, sizeof *v), *d = calloc(3 * n, sizeof *d), worst = 0;
    size_t *order = calloc(n, sizeof *order);
    cplx *a = lapack_type(type, n, &seed);
    load(h, a);
    cr_expect(mvdr_eigenvalues(mvdr_kernels_here(), h, v, v + 4 * h.ld, d, d + n), "type %d, n %zu",
              type, n);
    mvdr_oracle_eigenvalues(n, a, d + 2 * n);
    mvdr_descending(d, n, order);
    for (size_t i = 0; i < n; i++)
        worst = oracle_worse(worst, fabs(d[order[i]] - d[2 * n + i]));
    const double size = frobenius(n, a);
    drop(h);
    free(v), free(d), free(order), free(a);
    return worst / ((double)n * ULP * (size > 0 ? size : 1));
}

Test(mvdr_eigen, eigenvalues_of_lapack_types) {
    for (int type = 1; type <= TYPES; type++)
        for (size_t i = 0; i < SIZES; i++) {
            double ratio = eigenvalue_ratio(type, sizes[i], (uint64_t)type * 10 + i);
            cr_expect_leq(ratio, RATIO, "type %d, n %zu: ratio %g", type, sizes[i], ratio);
        }
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* A with that spectrum, the smallest eigenvalues well above rounding. */
static double factor_ratio(size_t n, spectrum kind, uint64_t seed) {
    double *d = calloc(n, sizeof *d), away = 0;
    for (size_t i = 0; i < n; i++)
        d[i] = 1e-12 + prescribed(kind, i, n, &seed);
    cplx *u = random_unitary(n, n, &seed), *a = compose(n, n, n, u, d, u);
    double *l = triangle_of(n, a);
    cr_expect(mvdr_factor(mvdr_kernels_here(), l, n), "n %zu, spectrum %d", n, (int)kind);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            cplx sum = -a[j * n + i];
            for (size_t k = 0; k <= j; k++) {
                const double *x = mvdr_at(l, i, k), *y = mvdr_at(l, j, k);
                const cplx p = i == k ? 1 / x[0] : x[0] + I * x[MVDR_LANES];
                const cplx q = j == k ? 1 / y[0] : y[0] + I * y[MVDR_LANES];
                sum += p * conj(q);
            }
            away += (i == j ? 1 : 2) * pow(cabs(sum), 2);
        }
    const double ratio = sqrt(away) / ((double)n * ULP * frobenius(n, a));
    free(l), free(d), free(u), free(a);
    return ratio;
}

Test(mvdr_eigen, factor_of_every_spectrum) {
    for (spectrum kind = EVEN; kind < SPECTRA; kind++)
        for (size_t i = 0; i < SIZES; i++) {
            double ratio = factor_ratio(sizes[i], kind, 7 + i);
            cr_expect_leq(ratio, RATIO, "n %zu, spectrum %d: ratio %g", sizes[i], (int)kind, ratio);
        }
}

Test(mvdr_eigen, no_factor_of_an_indefinite_matrix) {
    double *l = sonar_alloc(mvdr_triangle(20), sizeof *l);
    for (size_t i = 0; i < 24; i++)
        *mvdr_at(l, i, i) = i == 13 ? -1e-9 : 1;
    cr_expect(!mvdr_factor(mvdr_kernels_here(), l, 20));
    free(l);
}

/* ---- without eigenvalues --------------------------------------------------------------------- */

static int falling(const void *x, const void *y) {
    const double a = *(const double *)x, b = *(const double *)y;
    return (a < b) - (a > b);
}

/* With eigenvalues d, in falling order. */
static cplx *prescribed_matrix(size_t n, spectrum kind, double least, uint64_t seed, double *d) {
    for (size_t i = 0; i < n; i++)
        d[i] = least + prescribed(kind, i, n, &seed);
    qsort(d, n, sizeof *d, falling);
    cplx *u = random_unitary(n, n, &seed), *a = compose(n, n, n, u, d, u);
    free(u);
    return a;
}

static void expect_near(double have, double want, double relative, const char *what, size_t n,
                        spectrum kind) {
    cr_expect(fabs(have - want) <= relative * fabs(want),
              "%s, n %zu, spectrum %d: %.15g, not %.15g", what, n, (int)kind, have, want);
}

/* m a is the identity, within rounding of the largest element of m. */
static void expect_inverse(double *m, const cplx *a, const double *d, size_t n, spectrum kind) {
    const double close = 1e-12 * (double)n * d[0] / d[n - 1];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            cplx sum = i == j ? -1 : 0;
            for (size_t k = 0; k < n; k++) {
                const double *at = i >= k ? mvdr_at(m, i, k) : mvdr_at(m, k, i);
                sum += CMPLX(at[0], i >= k ? at[MVDR_LANES] : -at[MVDR_LANES]) * a[j * n + k];
            }
            cr_expect_lt(cabs(sum), close, "n %zu, spectrum %d, element %zu, %zu: %g", n, (int)kind,
                         i, j, cabs(sum));
        }
}

/* The sums over the inverse's diagonal and over all its elements squared equal those of 1/d and
 * 1/d^2. */
Test(mvdr_eigen, inverse_of_every_spectrum) {
    for (spectrum kind = EVEN; kind < SPECTRA; kind++)
        for (size_t i = 0; i < SIZES; i++) {
            const size_t n = sizes[i];
            double *d = calloc(n, sizeof *d), once = 0, twice = 0, first, second;
            cplx *a = prescribed_matrix(n, kind, 1e-3, 70 + i, d);
            double *l = triangle_of(n, a), *x = sonar_alloc(mvdr_triangle(n), sizeof *x);
            for (size_t k = 0; k < n; k++)
                once += 1 / d[k], twice += 1 / (d[k] * d[k]);
            cr_assert(mvdr_factor(mvdr_kernels_here(), l, n));
            mvdr_invert(mvdr_kernels_here(), l, n, x, &first, &second);
            expect_near(first, once, 1e-10, "trace", n, kind);
            expect_near(mvdr_multiply_out(mvdr_kernels_here(), x, n, NULL), twice, 1e-10, "energy",
                        n, kind);
            mvdr_multiply_out(mvdr_kernels_here(), x, n, l);
            expect_inverse(l, a, d, n, kind);
            cr_expect(second <= twice * (1 + 1e-10) &&
                          second * (double)n >= once * once * (1 - 1e-10),
                      "n %zu, spectrum %d: %g of %g", n, (int)kind, second, twice);
            free(d), free(a), free(l), free(x);
        }
}

/* Two eigenvalues by counts, and the sums of 1/(d + s) and its square, of the reduced matrix. */
Test(mvdr_eigen, few_eigenvalues_of_every_spectrum) {
    for (spectrum kind = EVEN; kind < SPECTRA; kind++)
        for (size_t i = 0; i < SIZES; i++) {
            const size_t n = sizes[i];
            double *d = calloc(n, sizeof *d), *t = calloc(2 * n, sizeof *t), most = 0, first,
                   second;
            cplx *a = prescribed_matrix(n, kind, 0, 700 + i, d);
            for (size_t low = 0; low < n; low += 1 + n / 5) {
                const mvdr_square h = square_of(n);
                double *v = sonar_alloc(8 * h.ld, sizeof *v), once = 0, twice = 0;
                const size_t high = low + (low + 1 < n), rank[2] = {n - 1 - high, n - 1 - low};
                most = 0;
                for (size_t k = 0; k < n; k++) {
                    most += d[k];
                    once += 1 / (d[k] + 1e-3), twice += pow(d[k] + 1e-3, -2);
                }
                load(h, a);
                mvdr_kernels_here()->reduce(h, v, v + 4 * h.ld, t, t + n);
                const double mean = mvdr_ranked_mean(mvdr_kernels_here(), t, t + n, n, rank, most);
                const double away = fabs(mean - (d[low] + d[high]) / 2);
                cr_expect(away <= RATIO * (double)n * ULP * most + 1e-11 * d[low],
                          "n %zu, spectrum %d, rank %zu: %g off", n, (int)kind, low, away);
                cr_assert(mvdr_shifted_inverse(t, t + n, n, 1e-3, &first, &second));
                expect_near(first, once, 1e-9, "shifted trace", n, kind);
                expect_near(second, twice, 1e-9, "shifted energy", n, kind);
                cr_expect(!mvdr_shifted_inverse(t, t + n, n, -2 * most - 1, &first, &second));
                drop(h);
                free(v);
            }
            free(d), free(t), free(a);
        }
}
