/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The streaming inverse on the CPU (inverse.h): declarations that its files share. hermitian.c has
 * the products, inverse.c updates M, inverse_spectrum.c computes the spectrum and the probe. */
#ifndef SONAR_MVDR_JACOBI_CPU_INVERSE_H
#define SONAR_MVDR_JACOBI_CPU_INVERSE_H

#include "mvdr_jacobi/cpu/internal.h"

/* In all these functions M has `ld` rows, a multiple of the lanes, and vectors are planar, [re,
 * im][ld]. */

/* y = M x of `count` vectors, two at a time: x and y have room for one vector more. back: scratch,
 * [ld][4][lane]. */
void mvdr_apply(double *m, size_t ld, const double *x, double *y, size_t count, double *back);
/* M -= sum over k of over_k y_k y_k^H, for at most MVDR_MOST_MOVED vectors. Returns the sum of
 * |M_ij|^2. Diagonal blocks stay Hermitian except for rounding. */
double mvdr_subtract_products(double *m, size_t ld, const double *y, const double *over,
                              size_t count);
/* Makes the diagonal blocks exactly Hermitian from their lower triangles. */
void mvdr_symmetrise(double *m, size_t ld);
/* p = a^H M a and q = |M a|^2 in eight directions. `vectors` has the vectors a, [row][re,
 * im][lane]; y is scratch of the same size. */
void mvdr_moments(double *m, size_t ld, const double *vectors, double *y, double *p, double *q);
/* x^H y: returns the real part. */
double mvdr_dot(const double *x, const double *y, size_t ld, double *im);
/* y = J x*, the mirror image that forward-backward averaging uses as another snapshot. */
void mvdr_reflect(const mvdr_stage *stage, const double *x, double *y);

#endif
