/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MVDR the plain way, in double: form R, load it, solve with LAPACK. And a fixture that runs the
 * stage beside it on a scene. Matrices are column by column, n x n. */
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
/* Weights of `count` snapshots when the newest has just been taken in with forgetting; they sum to
 * 1. */
void mvdr_oracle_fading(double alpha, size_t count, double *weight);
/* r becomes (R + J R* J)/2 for n sensors in order along a symmetric line. */
void mvdr_oracle_average_backward(size_t n, cplx *r);
/* Eigenvalues, largest first. */
void mvdr_oracle_eigenvalues(size_t n, const cplx *r, double *d);
/* The loading rules, from the eigenvalues. */
double mvdr_oracle_delta(const sonar_mvdr_spec *spec, size_t n, const double *d, double snapshots);
/* 1 / a^H (R + delta I)^-1 a for each of `count` steering vectors a[i * n ..]. */
void mvdr_oracle_power(size_t n, const cplx *r, double delta, size_t count, const cplx *a,
                       double *power);

/* ---- fixture --------------------------------------------------------------------------------- */

enum { FIXTURE_SENSORS = 320 };

/* A line of half-wavelength spacing at 500 Hz, scanned 0..180 deg; bins around 500 Hz. */
typedef struct mvdr_fixture {
    sonar_mvdr_spec spec;
    sonar_params params;
    const sonar_host *host;
    void *stage;
    double position_m[3 * FIXTURE_SENSORS];
    uint8_t used[FIXTURE_SENSORS];
    uint64_t *turns;
    sonar_c32 *arrival; /* [max_new][bin][sensor] */
    float *azimuth, *spectrum, *info;
} mvdr_fixture;

/* A spec to start from: trace rule, eps 0.01, one bin, blocks of `snapshots`. */
sonar_mvdr_spec mvdr_fixture_spec(size_t sensors, size_t directions, size_t snapshots);
void mvdr_fixture_open(mvdr_fixture *f, const sonar_mvdr_spec *spec, const sonar_host *host);
void mvdr_fixture_close(mvdr_fixture *f);
/* Makes the turns again and counts the version up: after changing positions or masks. */
void mvdr_fixture_renew(mvdr_fixture *f);
double mvdr_fixture_azimuth_deg(const mvdr_fixture *f, size_t direction);
/* Seconds by which sensor k hears a wave from az_deg earlier than the origin. */
double mvdr_fixture_delay(const mvdr_fixture *f, size_t sensor, double az_deg);
/* Steering vector of the used sensors at that azimuth and input bin. */
void mvdr_fixture_steering(const mvdr_fixture *f, size_t bin, double az_deg, cplx *a);
/* Runs `count` snapshots x[snapshot][bin][sensor] through the stage. */
sonar_code mvdr_fixture_run(mvdr_fixture *f, size_t count, const sonar_c32 *x);
float mvdr_fixture_info(const mvdr_fixture *f, size_t bin, int field);
/* Largest |10 log10(P/oracle)| over the scan of one bin, with R of the used sensors, which the
 * stage sees as coming from `snapshots`. Not finite or not positive counts as 1000 dB. */
double mvdr_fixture_error_db(const mvdr_fixture *f, size_t bin, const cplx *r, double snapshots);

/* The covariance of a bin of `count` snapshots x[snapshot][bin][sensor] over the used sensors;
 * malloc'ed. weight as in mvdr_oracle_covariance. */
cplx *mvdr_fixture_covariance(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x,
                              const double *weight);

/* A scene: plane waves of given levels (dB re noise per sensor) on unit noise. */
typedef struct mvdr_wave {
    double az_deg, level_db;
} mvdr_wave;
/* One snapshot [bin][sensor], float32 as the stage gets it. */
void mvdr_scene(const mvdr_fixture *f, const mvdr_wave *waves, size_t count, uint64_t *state,
                sonar_c32 *x);
/* `count` of them, x[snapshot][bin][sensor]; malloc'ed. */
sonar_c32 *mvdr_record(const mvdr_fixture *f, size_t count, const mvdr_wave *waves, size_t n,
                       uint64_t seed);

#endif
