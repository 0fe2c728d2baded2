/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Engine: the stages dft, cbf and mvdr_jacobi, each on the backend it was placed on, and the
 * buffers between them. It processes one window at a time and returns its surfaces. It has no
 * thread and no socket and reads no configuration: the caller passes the stages' specifications,
 * their backends and the source of the samples.
 *
 * An engine with stages on the host and on a device is a mixed one: it copies the DFT's results to
 * the other side. An engine whose stages are all on a device that can record work runs windows
 * without gaps as one graph. After an error an engine must be destroyed and created again.
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

/* The stages that are placed, in the order of sonar_timed_stage. The MVDR's own DFT is placed with
 * the DFT. */
typedef enum sonar_engine_stage {
    SONAR_ENGINE_DFT = 0,
    SONAR_ENGINE_CBF,
    SONAR_ENGINE_MVDR,
    SONAR_ENGINE_STAGES
} sonar_engine_stage;

/* Directions off the grid per evaluation, at most. */
enum { SONAR_ENGINE_POINTS = 256 };

/* The source of the samples. The functions are called by the engine's thread. */
typedef struct sonar_engine_source {
    sonar_buffer ring; /* f32 or s16 [channel][capacity] in host memory, borrowed */
    void *ctx;
    /* All samples at positions below are present and stay as long as the ring holds them: they may
     * be copied to a device before their window is complete. */
    uint64_t (*ready)(void *ctx);
    /* The engine has read the window's samples. Called once for every window that is begun, before
     * begin returns. */
    void (*release)(void *ctx, const sonar_window *window);
} sonar_engine_source;

/* Times of the stages. One engine at a time adds to them; another thread may read. */
typedef struct sonar_engine_times {
    sonar_histogram part[SONAR_TIMED_STAGES][SONAR_STAGE_PARTS];
    _Atomic uint64_t last_ns[SONAR_TIMED_STAGES]; /* of the last window */
} sonar_engine_times;

/* All pointers are borrowed until destroy, except params, which are borrowed until a run brings
 * other ones. */
typedef struct sonar_engine_spec {
    const sonar_specs *specs;
    const sonar_params *params;
    const sonar_backend
        *place[SONAR_ENGINE_STAGES]; /* at most the CPU's backend and that of one device */
    sonar_planning planning;
    uint32_t surfaces; /* SONAR_WANT bits of all surfaces that may ever be wanted */
    sonar_engine_source source;
    sonar_engine_times *times;
    /* NULL: there are no other ranks. Otherwise each rank has an engine for its part, and runs and
     * evaluations are collective: all ranks call the same ones. specs are then the part's, those of
     * the CBF with `parts`, and the engine makes its share of the MVDR from ranks->specs. */
    const sonar_split *ranks;
} sonar_engine_spec;

/* One window's work. */
typedef struct sonar_engine_job {
    const sonar_window *window;
    const sonar_params *params;
    uint32_t outputs;      /* SONAR_WANT bits of the surfaces to be made */
    sonar_buffer *surface; /* [SONAR_SURFACES] host memory where outputs has the bit, of the shapes
                              of sonar_specs_surface with the bins of the live bands. NULL: outputs
                              is 0 and only the covariance is updated, or this rank is not the root,
                              which has the surfaces of the whole array */
    size_t lookback;       /* samples before the window: the window's own, or with ranks as many as
                              all present ranks have */
    /* With ranks, the window as all ranks have agreed on it; outputs is the same on all. */
    bool absent; /* this rank has no samples of it: only first_sample of `window` is valid */
} sonar_engine_job;

/* The snapshots behind the MVDR's spectrum. */
typedef struct sonar_engine_snapshots {
    uint64_t count;        /* since the last reset; 0: no snapshot yet */
    uint64_t first_sample; /* of the oldest snapshot that still counts, */
    uint64_t end_sample;   /* end of the newest */
} sonar_engine_snapshots;

typedef struct sonar_engine sonar_engine;

/* Creates stages and buffers, plans and records. host is borrowed until destroy. Errors: those of
 * the stages and of their backends; SONAR_EINVAL for two devices of different kinds. */
sonar_code sonar_engine_create(const sonar_engine_spec *spec, const sonar_host *host,
                               sonar_engine **engine, sonar_error *err);
/* Waits for running work; NULL is allowed. */
void sonar_engine_destroy(sonar_engine *engine);
/* Must be called before the first run on a thread. */
sonar_code sonar_engine_use(sonar_engine *engine, sonar_error *err);

/* Copies samples that are ready to the device; call it when there is nothing else to do. */
void sonar_engine_prefetch(sonar_engine *engine);
/* Re-records the work of windows if live values have changed and enough windows with the same
 * surfaces have since run stage by stage. Backends allocate for it, so it is called while no window
 * waits. */
enum { SONAR_GRAPHS_STEADY = 16 };
void sonar_engine_rest(sonar_engine *engine);
/* Begins the window. On return the CBF's surfaces are made and the window is released; a device may
 * still work on the MVDR, while the caller uses these surfaces and evaluates the CBF. Without an
 * error, finish follows. */
sonar_code sonar_engine_begin(sonar_engine *engine, const sonar_engine_job *job, sonar_error *err);
/* On return all work on the window is done. */
sonar_code sonar_engine_finish(sonar_engine *engine, sonar_error *err);
/* Both. */
sonar_code sonar_engine_run(sonar_engine *engine, const sonar_engine_job *job, sonar_error *err);
/* Resets the MVDR at the next run, because the samples that follow do not continue the earlier
 * ones. */
void sonar_engine_forget(sonar_engine *engine);

/* Broadband power of the CBF or the MVDR in the directions of n <= SONAR_ENGINE_POINTS looks, for
 * the window that was begun last, to power[n]; of the MVDR once that is finished. With ranks the
 * root gets it, and power is NULL on the others. Uses the beamformer's bins. Waits for the device
 * once. */
sonar_code sonar_engine_evaluate(sonar_engine *engine, sonar_engine_stage beamformer, size_t n,
                                 const sonar_look *look, float *power, sonar_error *err);

/* f32 [bin][SONAR_MVDR_INFO_FIELDS] of the live band, from the last run that fetched surfaces;
 * empty without MVDR. */
const sonar_buffer *sonar_engine_mvdr_info(const sonar_engine *engine);
sonar_engine_snapshots sonar_engine_read_snapshots(const sonar_engine *engine);
/* Adds the last run's times on the device to spec.times. Call it after the result is posted. */
void sonar_engine_collect_times(sonar_engine *engine);
/* Call it after sonar_engine_collect_times. For the last run: how long each stage took (on the
 * device, if it was timed there), and how long the copy of the window's last samples took. 0: not
 * done. */
void sonar_engine_last_times(const sonar_engine *engine, uint64_t stage_ns[SONAR_ENGINE_STAGES],
                             uint64_t *copy_ns);

/* "cpu", "cuda", "cuda+cpu": the backends in use. Lives as long as the engine. */
const char *sonar_engine_name(const sonar_engine *engine);
bool sonar_engine_has_device(const sonar_engine *engine);

#endif
