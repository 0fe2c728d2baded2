/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Engine: the stages dft, cbf and mvdr_jacobi, each on the backend it was placed on, and the
 * buffers between them. It runs one window and returns its surfaces. It knows no thread, no socket
 * and no configuration: the caller passes the stages' specifications, their backends and the source
 * of the samples.
 *
 * Stages on the host and on a device make it a mixed one: what the DFT made is then copied to the
 * other side. An engine whose stages are all on a device that can record work runs windows without
 * gaps as one graph. After an error an engine is destroyed and made anew.
 *
 * One thread at a time. create and destroy may run on another thread than the rest, which then
 * begins with use.
 */
#ifndef SONAR_ENGINE_H
#define SONAR_ENGINE_H

#include "ranks/exchange.h"
#include "status/result.h"
#include "core/window.h"
#include "status/specs.h"
#include "sonar/backend.h"
#include "sonar/stages.h"

/* The stages that are placed, in the order of sonar_timed_stage. The MVDR's own DFT goes with the
 * DFT. */
typedef enum sonar_engine_stage {
    SONAR_ENGINE_DFT = 0,
    SONAR_ENGINE_CBF,
    SONAR_ENGINE_MVDR,
    SONAR_ENGINE_STAGES
} sonar_engine_stage;

/* Directions off the grid that one evaluation takes at most. */
enum { SONAR_ENGINE_POINTS = 256 };

/* Where the samples come from. The functions are called by the engine's thread. */
typedef struct sonar_engine_source {
    sonar_buffer ring; /* f32 or s16 [channel][capacity] in host memory, borrowed */
    void *ctx;
    /* All samples at positions below are there and stay for as long as the ring holds them: they
     * may be sent to a device before their window is complete. */
    uint64_t (*ready)(void *ctx);
    /* The engine has read the window's samples. Called once by every run, before it returns. */
    void (*release)(void *ctx, const sonar_window *window);
} sonar_engine_source;

/* Times of the stages. One engine at a time adds; another thread may read. */
typedef struct sonar_engine_times {
    sonar_histogram part[SONAR_TIMED_STAGES][SONAR_STAGE_PARTS];
    _Atomic uint64_t last_ns[SONAR_TIMED_STAGES]; /* of the last window */
} sonar_engine_times;

/* All pointers are borrowed until destroy, but params: only until another run brings others. */
typedef struct sonar_engine_spec {
    const sonar_specs *specs;
    const sonar_params *params;
    const sonar_backend *place[SONAR_ENGINE_STAGES]; /* at most the CPU's and one device's */
    sonar_planning planning;
    uint32_t surfaces; /* SONAR_WANT bits of all that may ever be wanted */
    sonar_engine_source source;
    sonar_engine_times *times;
    /* NULL: there is no other rank. With ranks, each with an engine for its part, runs and
     * evaluations are collective: all ranks do the same ones. specs are then the part's, those of
     * the CBF with `parts`, and the engine makes its share of the MVDR from ranks->specs. */
    const sonar_split *ranks;
} sonar_engine_spec;

/* One window's work. */
typedef struct sonar_engine_job {
    const sonar_window *window;
    const sonar_params *params;
    uint32_t outputs;      /* SONAR_WANT bits of the surfaces to be made */
    sonar_buffer *surface; /* [SONAR_SURFACES] host memory of the shapes of sonar_specs_surface,
                              with the bins of the bands that are live, where outputs has the bit;
                              NULL: outputs is 0 and only the covariance goes on, or with ranks
                              this is not the root, which has them, of the whole array */
    /* With ranks, the window as all have agreed on it, with the outputs of all. */
    bool absent;     /* this rank takes part with nothing: of `window` only first_sample means
                        anything */
    size_t lookback; /* what all that take part have before the window */
} sonar_engine_job;

/* What lies behind the MVDR's spectrum. */
typedef struct sonar_engine_snapshots {
    uint64_t count;        /* since the MVDR began with nothing; 0: no samples yet */
    uint64_t first_sample; /* of the oldest snapshot that still counts, */
    uint64_t end_sample;   /* to behind the newest */
} sonar_engine_snapshots;

typedef struct sonar_engine sonar_engine;

/* Makes stages and buffers, plans and records. host is borrowed until destroy. Errors are those of
 * the stages and of their backends, SONAR_EINVAL for two devices of different kinds. */
sonar_code sonar_engine_create(const sonar_engine_spec *spec, const sonar_host *host,
                               sonar_engine **engine, sonar_error *err);
/* Waits for what is still at work; a NULL engine is allowed. */
void sonar_engine_destroy(sonar_engine *engine);
/* Before the first run on a thread. */
sonar_code sonar_engine_use(sonar_engine *engine, sonar_error *err);

/* Sends samples that are ready to the device; while nothing else is to be done. */
void sonar_engine_prefetch(sonar_engine *engine);
/* Records the work of windows anew where live values have changed and since then so many windows of
 * the same surfaces have gone stage by stage, for which backends allocate; while no window waits.
 */
enum { SONAR_GRAPHS_STEADY = 16 };
void sonar_engine_rest(sonar_engine *engine);
/* Runs the window; all is done on return, and the window released. */
sonar_code sonar_engine_run(sonar_engine *engine, const sonar_engine_job *job, sonar_error *err);
/* The MVDR begins with nothing at the next run: what came before has nothing to do with it. */
void sonar_engine_forget(sonar_engine *engine);

/* Broadband power of the CBF or the MVDR where these n <= SONAR_ENGINE_POINTS looks go, for the
 * window of the last run, to power[n]; with ranks, on the root, and NULL on the others. The looks'
 * bins are the beamformer's. Waits for the device once. */
sonar_code sonar_engine_evaluate(sonar_engine *engine, sonar_engine_stage beamformer, size_t n,
                                 const sonar_look *look, float *power, sonar_error *err);

/* Of the last run that fetched surfaces: f32 [bin][SONAR_MVDR_INFO_FIELDS] of the live band, empty
 * without MVDR. */
const sonar_buffer *sonar_engine_mvdr_info(const sonar_engine *engine);
sonar_engine_snapshots sonar_engine_read_snapshots(const sonar_engine *engine);
/* Adds the last run's times on the device to spec.times; when nobody waits for anything. */
void sonar_engine_collect_times(sonar_engine *engine);
/* After that, of the last run: how long each stage took, on the device where it was timed there,
 * and copying what was left of the samples. 0: it was not done. */
void sonar_engine_last_times(const sonar_engine *engine, uint64_t stage_ns[SONAR_ENGINE_STAGES],
                             uint64_t *copy_ns);

/* "cpu", "cuda", "cuda+cpu": the backends at work. Lives as long as the engine. */
const char *sonar_engine_name(const sonar_engine *engine);
bool sonar_engine_has_device(const sonar_engine *engine);

#endif
