/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Each stage of the beamformer separately, on a scene's data, for comparison with peers and with
 * double precision. */
#ifndef BENCH_STAGES_H
#define BENCH_STAGES_H

#include "core/window.h"
#include "manifold/manifold.h"
#include "scene.h"

enum { BENCH_BIN_SETS_MOST = 128 };
/* Snapshots per call while a block is filled. */
enum { BENCH_NEW_MOST = 64 };

typedef struct bench_stage {
    const sonar_stage_ops *ops;
    void *self;
} bench_stage;

/* Directions of one round of detections, with two or three peaks. */
enum { BENCH_FEW = 12 };

/* Owns the stages and all their buffers. Stages that a case leaves out stay empty. */
typedef struct bench_stages {
    const bench_scene *scene;
    const sonar_backend *b;
    sonar_queue *queue;
    sonar_event *done;
    sonar_buffer on_device; /* the scene's ring there; f32 */
    size_t bin_sets, turn;  /* turn: the set of bins and the window of samples in use */
    sonar_buffer bins[BENCH_BIN_SETS_MOST]; /* c32 [bin][sensor] */
    sonar_buffer several;                   /* c32 [snapshot][bin][sensor], with cbf_alone */
    sonar_buffer snapshots;                 /* c32 [snapshots + 1][bin][sensor], for MVDR */
    size_t fresh;                           /* the next snapshot */
    sonar_buffer cbf_out[SONAR_CBF_OUTPUTS], mvdr_out[SONAR_MVDR_OUTPUTS];
    sonar_buffer looks, look_power;    /* u64 [direction][sensor], f32 [direction] */
    bench_stage dft, cbf, mvdr, trace; /* trace: MVDR whose loading needs no eigenvalues */
} bench_stages;

/* All inputs are filled on return, MVDR's block too. */
sonar_code bench_stages_create(const bench_scene *scene, bench_stages *stages, sonar_error *err);
/* Also for stages whose create failed. */
void bench_stages_destroy(bench_stages *stages);

/* ---- bench_step, ctx a bench_stages: each enqueues one execution ----------------------------- */

sonar_code bench_stages_dft(void *ctx, sonar_error *err);        /* from host memory */
sonar_code bench_stages_dft_device(void *ctx, sonar_error *err); /* from the device's */
sonar_code bench_stages_far(void *ctx, sonar_error *err);        /* broadband far field */
sonar_code bench_stages_near(void *ctx, sonar_error *err);       /* broadband near field */
sonar_code bench_stages_lofar(void *ctx, sonar_error *err);      /* with the far field */
sonar_code bench_stages_all_beams(void *ctx, sonar_error *err);  /* all three */
sonar_code bench_stages_few(void *ctx, sonar_error *err);     /* CBF's first BENCH_FEW directions */
sonar_code bench_stages_several(void *ctx, sonar_error *err); /* of several snapshots */
sonar_code bench_stages_mvdr(void *ctx, sonar_error *err);    /* one more snapshot */
sonar_code bench_stages_looks(void *ctx, sonar_error *err);   /* MVDR's directions, all solved */
sonar_code bench_stages_trace(void *ctx, sonar_error *err);   /* as mvdr, with the rule trace */
sonar_code bench_stages_refill(void *ctx, sonar_error *err);  /* a whole block after a reset */
sonar_code bench_stages_settle(void *ctx, sonar_error *err);  /* waits for all of them */

/* ---- on the processors, whatever the backend is ---------------------------------------------- */

typedef struct bench_host_stage {
    const char *name;
    double flop, bytes; /* nominal, of one run */
    bench_step run;
} bench_host_stage;

/* Times the stage with its prepared ctx, and keeps the result. */
sonar_code bench_time_host(const bench_scene *scene, const bench_host_stage *stage, void *ctx,
                           bench_report *report, sonar_error *err);
/* A circle with three directions in a beam, or 16 beams. az_deg: [directions], filled here and
 * borrowed by the result. */
sonar_scan bench_circle(size_t directions, double *az_deg);

/* Times one beam's time series of a window, with a steady heading and with one that turns by a
 * degree a second. */
sonar_code bench_run_beams(const bench_scene *scene, bench_report *report, sonar_error *err);
/* Times one spectrum of the scene's angles over the noise around each. */
sonar_code bench_run_normalise(const bench_scene *scene, bench_report *report, sonar_error *err);
/* Times the peaks of each bin of the scene's CBF band, over its angles; less than three angles:
 * none.
 */
sonar_code bench_run_sped(const bench_scene *scene, bench_report *report, sonar_error *err);
/* Times the delays of the scene's angles for another shape of the array. */
sonar_code bench_run_shape(const bench_scene *scene, bench_report *report, sonar_error *err);
/* Times a window of 16 contacts with as many tracks, two by two near each other, and the search of
 * a spectrum of 360 directions for contacts below the threshold. */
sonar_code bench_run_tracks(const bench_scene *scene, bench_report *report, sonar_error *err);

/* ---- accuracy -------------------------------------------------------------------------------- */

/* Runs `step`, which computes the Lofar surface, and compares the surface with double precision:
 * the worst error at random points within 60 dB of the bin's strongest beam. */
sonar_code bench_stages_cbf_error(bench_stages *stages, bench_step step, double *error_db,
                                  sonar_error *err);
/* Fills the block of an MVDR stage with the scene's snapshots. */
sonar_code bench_stages_fill_block(bench_stages *stages, const bench_stage *mvdr, sonar_error *err);
/* Fills the block and compares the middle bin's spectrum with a direct Cholesky solution: the worst
 * error, NaN for arrays that are too large. */
sonar_code bench_stages_mvdr_error(bench_stages *stages, const bench_stage *mvdr, double *error_db,
                                   sonar_error *err);
/* Mean number of sweeps in the last run of MVDR; 0: no eigenvectors were computed. */
sonar_code bench_stages_sweeps(bench_stages *stages, double *sweeps, sonar_error *err);
/* The same error of the middle bin's spectrum, float [direction], with loading delta. */
double bench_mvdr_worst_db(const bench_scene *scene, double delta, const float *spectrum);
/* Copies the loading of each bin in the last run of MVDR to delta[bin]. */
sonar_code bench_stages_mvdr_delta(bench_stages *stages, float *delta, sonar_error *err);
/* Mean over info, f32 [bin][SONAR_MVDR_INFO_FIELDS]. */
double bench_mean_sweeps(size_t bins, const float *info);

#endif
