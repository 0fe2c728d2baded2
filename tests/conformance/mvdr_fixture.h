/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The MVDR stage at a site, on a line of sensors in a scene, compared with the double-precision
 * oracle and, on other sites than the CPU, with the CPU's stage: all their results are compared
 * after every run. */
#ifndef SONAR_TEST_MVDR_FIXTURE_H
#define SONAR_TEST_MVDR_FIXTURE_H

#include "mvdr_oracle.h"
#include "site.h"

/* A line of half-wavelength spacing at 500 Hz, scanned 0..180 deg. */
typedef struct mvdr_fixture {
    site *site;
    sonar_mvdr_spec spec;
    sonar_params params;
    const sonar_stage_ops *ops;
    void *stage;
    double *position_m; /* [sensor][3] */
    uint8_t *used;
    uint64_t *turns;                          /* [direction][sensor] */
    double *range_m;                          /* [range] of the near field, from beyond the array */
    uint64_t *near_turns;                     /* [range][direction][sensor] */
    sonar_buffer in, out[SONAR_MVDR_OUTPUTS]; /* the site's */
    float *output[SONAR_MVDR_OUTPUTS];        /* of the last run, fetched */
    float *azimuth, *spectrum, *near, *info;  /* the same by name; near: [range][direction] */
    float *eigenvalues;                       /* [bin][mode] */
    float *music;                             /* [direction] where spec.music */
    bool without_music;        /* do not request MUSIC in spite of spec.music; false after open */
    bool wants_eigenvalues;    /* request eigenvalues of every window; false after open */
    struct mvdr_fixture *twin; /* the CPU's, NULL where this is the CPU's */
    double loudest;            /* largest |x|^2 of a snapshot in a bin */
    double apart_db; /* largest allowed difference of the twins' spectra; INFINITY: no comparison */
} mvdr_fixture;

/* A spec to start from: bins around 500 Hz, trace rule, eps 0.01, one bin, blocks of `snapshots`.
 * alpha > 0: forgetting instead, `snapshots` at a time. */
sonar_mvdr_spec mvdr_spec(size_t sensors, size_t directions, size_t snapshots, double alpha);
void mvdr_open(mvdr_fixture *f, site *site, const sonar_mvdr_spec *spec);
/* The same without a twin. */
void mvdr_open_alone(mvdr_fixture *f, site *site, const sonar_mvdr_spec *spec);
void mvdr_close(mvdr_fixture *f);
/* Expects that create refuses this specification; `what` describes why. */
void mvdr_refused(site *site, const char *what, const sonar_mvdr_spec *spec);
/* Computes the turns again and increments the version, after positions or masks have changed. */
void mvdr_renew(mvdr_fixture *f);
double mvdr_azimuth_deg(const mvdr_fixture *f, size_t direction);
/* Time in s by which a wave from az_deg reaches sensor k before the origin. */
double mvdr_delay(const mvdr_fixture *f, size_t sensor, double az_deg);
/* The same of a source at a range; 0: far away. */
double mvdr_delay_from(const mvdr_fixture *f, size_t sensor, double az_deg, double range_m);
/* Steering vector of the used sensors at that azimuth and input bin. */
void mvdr_steering(const mvdr_fixture *f, size_t bin, double az_deg, cplx *a);
/* To a point. */
void mvdr_steering_to(const mvdr_fixture *f, size_t bin, double az_deg, double range_m, cplx *a);

/* ---- runs ------------------------------------------------------------------------------------ */

sonar_work mvdr_work(const mvdr_fixture *f);
/* Runs `count` snapshots x[snapshot][bin][sensor] through the stage and fetches the outputs. The
 * outputs are first filled with invalid values to detect values that are not written. */
void mvdr_run(mvdr_fixture *f, size_t count, const sonar_c32 *x);
/* Evaluates the power of the last run at points with turns[point][sensor]. */
void mvdr_evaluate(mvdr_fixture *f, size_t points, const uint64_t *turns, float *power);
void mvdr_reset(mvdr_fixture *f);
float mvdr_info(const mvdr_fixture *f, size_t bin, int field);
unsigned mvdr_flags(const mvdr_fixture *f, size_t bin);

/* ---- judging --------------------------------------------------------------------------------- */

/* The covariance of a bin of `count` snapshots x[snapshot][bin][sensor] over the used sensors, as
 * the spec weights and averages them; malloc'ed. */
cplx *mvdr_covariance(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x);
/* L_eff of `count` snapshots. */
double mvdr_looks(const mvdr_fixture *f, size_t count);
/* Largest |10 log10(P/oracle)| of a bin that has seen these snapshots. Not finite or not positive
 * counts as 1000 dB. */
double mvdr_error_db(const mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x);
/* Expects of the near field, over all bins, an error of no more than limit_db. */
void mvdr_expect_near(mvdr_fixture *f, size_t count, const sonar_c32 *x, double limit_db);
/* Expects that evaluate gives the results of the last run at the grid's directions. */
void mvdr_expect_evaluated(mvdr_fixture *f);
/* Expects that error, and correct INFO: loading, snapshots, convergence. */
void mvdr_expect(mvdr_fixture *f, size_t bin, size_t count, const sonar_c32 *x, double limit_db);

/* ---- scenes ---------------------------------------------------------------------------------- */

/* Plane waves of given levels (dB re noise per sensor) on unit noise. */
typedef struct mvdr_wave {
    double az_deg, level_db;
} mvdr_wave;
/* `count` snapshots x[snapshot][bin][sensor], float32 as the stage gets them; malloc'ed. */
sonar_c32 *mvdr_record(const mvdr_fixture *f, size_t count, const mvdr_wave *waves, size_t n,
                       uint64_t seed);
/* Blocks of several lengths in place of the spec's, beside ships 60 and 80 dB above the noise;
 * `expect` judges each run. apart_db as the fixture's. */
void mvdr_beside_loud_ships(site *site, const sonar_mvdr_spec *spec, double apart_db,
                            void (*expect)(const mvdr_fixture *f, size_t count, const sonar_c32 *x,
                                           double limit_db));

#endif
