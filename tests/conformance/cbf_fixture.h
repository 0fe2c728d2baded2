/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The beamformer at a site with an array and its input, compared with double precision and with the
 * CPU's stage. */
#ifndef SONAR_TEST_CBF_FIXTURE_H
#define SONAR_TEST_CBF_FIXTURE_H

#include "cbf/cbf.h"
#include "site.h"

#define CBF_SPEED_MPS 1500.0
/* The contract's limit, wherever the reference is within 60 dB of its peak. */
#define CBF_MOST_DB 0.01

enum {
    CBF_AZIMUTH = SONAR_WANT(SONAR_CBF_AZIMUTH),
    CBF_NEARFIELD = SONAR_WANT(SONAR_CBF_NEARFIELD),
    CBF_LOFAR = SONAR_WANT(SONAR_CBF_LOFAR),
    CBF_ALL = CBF_AZIMUTH | CBF_NEARFIELD | CBF_LOFAR
};

typedef struct cbf_fixture {
    site *site;
    sonar_cbf_spec spec;
    sonar_params params;
    double *position, *az, *u, range[64];
    float *shading;
    sonar_c32 *x;     /* [snapshot][bin][sensor] */
    size_t snapshots; /* snapshots of a run; at first spec.max_snapshots */
    uint64_t *far_turns, *near_turns;
    sonar_buffer input, out[SONAR_CBF_OUTPUTS]; /* the site's */
    float *azimuth, *near, *lofar;              /* of the last run, fetched */
    const sonar_stage_ops *ops;
    void *stage;
} cbf_fixture;

/* Sets everything but the tables and the stage: directions are 10 to 170 degrees, the sensors
 * unshaded at the origin. 0 snapshots mean one. */
void cbf_alloc(cbf_fixture *f, site *site, sonar_cbf_spec spec);
/* Makes the tables and the stage from the current positions, directions, ranges and shading. */
void cbf_start(cbf_fixture *f);
/* Makes the tables again, as another version of the parameters. */
void cbf_renew(cbf_fixture *f);
void cbf_close(cbf_fixture *f);
double cbf_bin_hz(const cbf_fixture *f);
/* Delay of a wave from a direction (and range; 0: far field) at a sensor. */
double cbf_delay(const cbf_fixture *f, size_t sensor, const double u[3], double range_m);

/* ---- arrays and waves ------------------------------------------------------------------------ */

void cbf_line(cbf_fixture *f, double spacing_m);
void cbf_plane(cbf_fixture *f, size_t columns, double spacing_m);
void cbf_circle(cbf_fixture *f, double radius_m);
void cbf_volume(cbf_fixture *f, double size_m, uint64_t *seed);
void cbf_scan(cbf_fixture *f, double first_deg, double step_deg);
void cbf_clear(cbf_fixture *f);
/* Adds amplitude e^{+j 2 pi f tau} from az (and range; 0: far field) to every bin, louder from
 * snapshot to snapshot. */
void cbf_add_wave(cbf_fixture *f, double az_deg, double range_m, double amplitude);
/* Complex Gaussian noise of mean square `power` per bin and sensor. */
void cbf_add_noise(cbf_fixture *f, double power, uint64_t *seed);
/* Random arrays and waves: lines, irregular, uneven and even, and volumes; masks and shading. */
void cbf_fill(cbf_fixture *f, uint64_t *seed);

/* ---- runs ------------------------------------------------------------------------------------ */

void cbf_upload(cbf_fixture *f);
sonar_code cbf_execute(cbf_fixture *f, uint32_t outputs, sonar_error *err);
/* Fills the surfaces with 7s, uploads, executes and fetches all. */
void cbf_run(cbf_fixture *f, uint32_t outputs);
void cbf_fetch(cbf_fixture *f);
/* A surface after the last run. */
const float *cbf_surface(const cbf_fixture *f, int which);
size_t cbf_values(const cbf_fixture *f, int which);

/* ---- judging --------------------------------------------------------------------------------- */

size_t cbf_peak(const float *power, size_t count);
/* Power of one look point at all bins, `row` apart (NULL: none; then only bins of the band are
 * computed). Returns the band energy. */
double cbf_look(const cbf_fixture *f, const double u[3], double range_m, double *power, size_t row);
void cbf_expect_db(cbf_fixture *f, const char *what, const float *have, const double *want,
                   size_t count);
/* Compares all surfaces with the oracle. */
void cbf_expect(cbf_fixture *f);
/* Compares the requested surfaces with the CPU's stage; the others hold 7s. */
void cbf_expect_as_cpu(cbf_fixture *f, uint32_t outputs);
/* Compares a few look points with the oracle, including those around az_deg. */
void cbf_expect_some(cbf_fixture *f, size_t points, double az_deg, uint64_t *seed);

#endif
