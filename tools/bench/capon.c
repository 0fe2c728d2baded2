/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MVDR power in double precision by the direct method: covariance, loading, Cholesky. */
#include "bench.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>

typedef double complex cplx;

/* Lower triangle of X X^H / L + delta I, row by row; x is [snapshot][sensor]. */
static void covariance(size_t n, size_t snapshots, const sonar_c32 *x, double delta, cplx *r) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            cplx sum = 0;
            for (size_t l = 0; l < snapshots; l++) {
                const sonar_c32 p = x[l * n + i], q = x[l * n + j];
                sum += ((double)p.re + I * (double)p.im) * ((double)q.re - I * (double)q.im);
            }
            r[i * n + j] = sum / (double)snapshots + (i == j ? delta : 0);
        }
}

/* R = G G^H in place; false if R is not positive definite. */
static bool factor(size_t n, cplx *r) {
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j <= i; j++) {
            cplx sum = r[i * n + j];
            for (size_t k = 0; k < j; k++)
                sum -= r[i * n + k] * conj(r[j * n + k]);
            if (i == j && !(creal(sum) > 0))
                return false;
            r[i * n + j] = i == j ? sqrt(creal(sum)) : sum / creal(r[j * n + j]);
        }
    return true;
}

/* a^H R^-1 a = |G^-1 a|^2; a is overwritten. */
static double form(size_t n, const cplx *g, cplx *a) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < i; k++)
            a[i] -= g[i * n + k] * a[k];
        a[i] /= creal(g[i * n + i]);
        sum += creal(a[i]) * creal(a[i]) + cimag(a[i]) * cimag(a[i]);
    }
    return sum;
}

bool bench_capon(size_t n, size_t snapshots, const sonar_c32 *x, double delta, size_t bin,
                 const uint64_t *turns, size_t directions, double *power) {
    cplx *r = sonar_alloc(n * n, sizeof *r), *a = sonar_alloc(n, sizeof *a);
    bool solved = r && a;
    if (solved) {
        covariance(n, snapshots, x, delta, r);
        solved = factor(n, r);
    }
    for (size_t t = 0; solved && t < directions; t++) {
        for (size_t k = 0; k < n; k++)
            a[k] = cexp(I * ldexp((double)(bin * turns[t * n + k]), -63) * M_PI);
        power[t] = 1 / form(n, r, a);
    }
    free(r);
    free(a);
    return solved;
}
