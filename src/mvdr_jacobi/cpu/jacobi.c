/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The eigendecomposition in double: Jacobi's rotations as in the thesis (6.5), with round-robin
 * pairing, but of the columns of the Cholesky factor L alone (Veselic and Hari, Numer. Math. 56,
 * 1989). Once all columns are orthogonal, L = V Sigma W^H, they are the eigenvectors of A = L L^H
 * times the square roots of the eigenvalues. This takes a third of the operations of rotations of
 * A and V, and each eigenvalue of a positive definite matrix is right relative to itself, so that a
 * quiet source beside a loud one is resolved.
 */
#include "mvdr_jacobi/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Copies the factor's columns from its panels. */
static void take_columns(double *factor, mvdr_square l) {
    memset(l.re, 0, l.n * l.ld * sizeof *l.re);
    memset(l.im, 0, l.n * l.ld * sizeof *l.im);
    for (size_t j = 0; j < l.n; j++) {
        l.re[j * l.ld + j] = 1 / *mvdr_at(factor, j, j);
        for (size_t i = j + 1; i < l.n; i++) {
            const double *from = mvdr_at(factor, i, j);
            l.re[j * l.ld + i] = from[0];
            l.im[j * l.ld + i] = from[MVDR_LANES];
        }
    }
}

/* |a|_F */
static double size_of(double *a, size_t n) {
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n; i++) {
            const double *x = mvdr_at(a, i, j);
            sum += i > j ? 2 * (x[0] * x[0] + x[MVDR_LANES] * x[MVDR_LANES]) : x[0] * x[0];
        }
    return sqrt(sum);
}

static double energy_of(const double *re, const double *im, size_t n) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += re[i] * re[i] + im[i] * im[i];
    return sum;
}

/* Makes the columns unit vectors. energy: their squared lengths. */
static void normalise(mvdr_square v, double *energy) {
    for (size_t j = 0; j < v.n; j++) {
        energy[j] = energy_of(v.re + j * v.ld, v.im + j * v.ld, v.n);
        const double over = 1 / sqrt(energy[j]);
        for (size_t i = 0; i < v.n; i++) {
            v.re[j * v.ld + i] *= over;
            v.im[j * v.ld + i] *= over;
        }
    }
}

/* For a matrix that has no factor. */
static void set_identity(mvdr_square v, double *d) {
    memset(v.re, 0, v.n * v.ld * sizeof *v.re);
    memset(v.im, 0, v.n * v.ld * sizeof *v.im);
    for (size_t j = 0; j < v.n; j++) {
        v.re[j * v.ld + j] = 1;
        d[j] = 0;
    }
}

mvdr_sweeps mvdr_jacobi(const mvdr_kernels *kernels, double *a, double tolerance, size_t most,
                        const mvdr_start *start, double *factor, mvdr_square v, double *d) {
    const double nothing = DBL_EPSILON * sqrt((double)v.n); /* rounding of a product */
    mvdr_sweeps sweeps = {.converged = false};
    double shift = 0, turned;
    if (!start || !mvdr_begin_from_rows(kernels, a, start, factor, v)) {
        const double size = size_of(a, v.n);
        if (!mvdr_factor_raised(kernels, a, v.n, size, &shift, factor)) {
            set_identity(v, d);
            sweeps.converged = size <= 0;
            return sweeps;
        }
        take_columns(factor, v);
    }
    while (!sweeps.converged && sweeps.count < most) {
        sweeps.residual = kernels->sweep(v, nothing, d, &turned);
        sweeps.count++;
        /* a rotation mixes the angles of its columns with all others */
        sweeps.converged = sweeps.residual <= tolerance && sweeps.residual * turned <= 4 * nothing;
    }
    normalise(v, d);
    for (size_t j = 0; j < v.n; j++)
        d[j] -= shift;
    return sweeps;
}
