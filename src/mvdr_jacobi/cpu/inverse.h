/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The streaming inverse on the CPU (inverse.h): declarations that its files share. inverse.c
 * updates M, inverse_spectrum.c computes the spectrum and the probe. */
#ifndef SONAR_MVDR_JACOBI_CPU_INVERSE_H
#define SONAR_MVDR_JACOBI_CPU_INVERSE_H

#include "mvdr_jacobi/cpu/internal.h"

/* x^H y of vectors of `ld` rows, [re, im][ld]: returns the real part. */
double mvdr_dot(const double *x, const double *y, size_t ld, double *im);
/* y = J x*, the mirror image that forward-backward averaging uses as another snapshot. */
void mvdr_reflect(const mvdr_stage *stage, const double *x, double *y);

#endif
