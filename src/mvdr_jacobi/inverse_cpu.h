/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The streaming inverse on the CPU (inverse.h), what its files share: hermitian.c has the products,
 * inverse.c lets M follow the snapshots, inverse_spectrum.c looks with it and tries it. */
#ifndef SONAR_MVDR_JACOBI_INVERSE_CPU_H
#define SONAR_MVDR_JACOBI_INVERSE_CPU_H

#include "mvdr_jacobi/internal.h"

/* In all of these M has `ld` rows, a multiple of the lanes, and vectors are planar, [re, im][ld].
 */

/* y = M x of `count` vectors, two at a time: there is room for one more. back: [ld][4][lane],
 * scratch. */
void mvdr_apply(double *m, size_t ld, const double *x, double *y, size_t count, double *back);
/* M less over_k y_k y_k^H of at most MVDR_MOST_MOVED vectors; returns the sum of |M_ij|^2. Diagonal
 * blocks stay Hermitian but for rounding. */
double mvdr_take_away(double *m, size_t ld, const double *y, const double *over, size_t count);
/* The diagonal blocks exactly Hermitian, by their lower triangles. */
void mvdr_symmetrise(double *m, size_t ld);
/* p = a^H M a and q = |M a|^2 in eight directions, a in `vectors`, [row][re, im][lane]; y is
 * scratch of as much. */
void mvdr_moments(double *m, size_t ld, const double *vectors, double *y, double *p, double *q);
/* x^H y, the real part returned. */
double mvdr_dot(const double *x, const double *y, size_t ld, double *im);
/* y = J x*, which forward-backward averaging takes for another snapshot. */
void mvdr_reflect(const mvdr_stage *stage, const double *x, double *y);

#endif
