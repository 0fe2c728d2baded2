/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MVDR by the direct method in double precision: form R, load it, solve with LAPACK. Matrices are n
 * x n, column-major. */
#ifndef MVDR_ORACLE_H
#define MVDR_ORACLE_H

#include <complex.h>

#include "core/core.h"
#include "mvdr_jacobi/mvdr_jacobi.h"

typedef double complex cplx;

/* ---- random numbers: the same on every machine ----------------------------------------------- */

double test_uniform(uint64_t *state); /* in (0, 1) */
cplx test_gauss(uint64_t *state);     /* circular, E|z|^2 = 1 */

/* ---- oracle ---------------------------------------------------------------------------------- */

/* r = sum_i weight_i x_i x_i^H of `count` snapshots x[i * n ..]; weight NULL: 1/count each. */
void mvdr_oracle_covariance(size_t n, size_t count, const cplx *x, const double *weight, cplx *r);
/* Weights of `count` snapshots, with forgetting, just after the newest was taken; they sum to 1. */
void mvdr_oracle_fading(double alpha, size_t count, double *weight);
/* r becomes (R + J R* J)/2 for n sensors in order along a symmetric line. */
void mvdr_oracle_average_backward(size_t n, cplx *r);
/* Eigenvalues, largest first. */
void mvdr_oracle_eigenvalues(size_t n, const cplx *r, double *d);
/* The loading rules, from the eigenvalues. */
double mvdr_oracle_delta(const sonar_mvdr_spec *spec, size_t n, const double *d, double snapshots);
/* Number of sources by the published rules, trying one number after the other. `real`: from
 * forward-backward averages, `snapshots` counting twice then. */
size_t mvdr_oracle_sources(sonar_source_count rule, size_t n, const double *d, double snapshots,
                           bool real);
/* Noise per sensor beyond the K largest eigenvalues: their median, by a Marchenko-Pastur law that
 * is integrated numerically. */
double mvdr_oracle_noise(size_t n, const double *d, double snapshots, size_t modes);
/* Dominant mode rejection with that noise, for each of `count` steering vectors a[i * n ..]. */
void mvdr_oracle_dominant(size_t n, const cplx *r, size_t modes, double noise, size_t count,
                          const cplx *a, double *power);
/* MVDR with at least a white noise gain of gain_db re that of equal weights, by the least
 * additional loading, found by bisection, for each of `count` steering vectors: w^H (R + delta I)
 * w; had_db: the gain without additional loading. */
void mvdr_oracle_limited(size_t n, const cplx *r, double delta, double gain_db, size_t count,
                         const cplx *a, double *power, double *had_db);
/* MUSIC of one bin: the share of each of `count` steering vectors a[i * n ..] that lies in the span
 * of the n - K eigenvectors beyond the K largest eigenvalues. */
void mvdr_oracle_music(size_t n, const cplx *r, size_t sources, size_t count, const cplx *a,
                       double *share);
/* 1 / a^H (R + delta I)^-1 a for each of `count` steering vectors a[i * n ..]. */
void mvdr_oracle_power(size_t n, const cplx *r, double delta, size_t count, const cplx *a,
                       double *power);
/* The conventional beam's a^H R a / n^2. */
double mvdr_oracle_conventional(size_t n, const cplx *r, const cplx *a);

#endif
