/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the pipeline's own files share. */
#ifndef SONAR_PIPELINE_INTERNAL_H
#define SONAR_PIPELINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/core.h"
#include "detect/detect.h"
#include "elements/elements.h"
#include "ingest/ingest.h"
#include "output/output.h"
#include "pipeline/choices.h"
#include "engine/engine.h"
#include "pipeline/health.h"
#include "pipeline/pipeline.h"
#include "core/histogram.h"

/* Which backend works now and how it came to that; the data thread writes, control reads. */
struct change {
    pthread_mutex_t lock;
    char backend[24]; /* the engine's name */
    char text[240];   /* "" as long as nothing has failed */
};

/* Where the snapshots behind the MVDR spectrum begin: those of the sliding block, or with
 * forgetting the first one since the reset. */
struct history {
    size_t length; /* snapshots of the block, 1 with forgetting */
    bool forgets;
    uint64_t *first_sample; /* [length], a ring */
    uint64_t count;         /* snapshots since the reset */
    uint64_t end_sample;    /* of the newest */
    uint64_t next;          /* first sample of the next snapshot */
};

/* One window on its way through the engine. */
struct job {
    const sonar_window *window;
    sonar_window seen; /* the window as the DFT is to read it */
    struct plan plan;
    sonar_work work;
    sonar_result *result; /* NULL: nobody wants one */
    bool released;        /* the window's samples are ingest's again */
};

/* What the data thread tells the control thread: single values, each exact. */
struct progress {
    atomic_uint_fast64_t windows_processed, windows_failed, results_dropped, busy_ns;
    _Atomic int64_t busy_since_ns; /* when the window in work was taken; 0: none is */
    atomic_uint_fast64_t stage_ns[STAGES];
    atomic_bool failed_new; /* failure holds a new message the control thread has not logged */
    sonar_error failure; /* data thread writes while !failed_new, control reads while it is set */
};

/* Parameters on their way between the threads (mask.c). */
struct mask {
    _Atomic(sonar_params *) fresh;    /* made by control, for the data thread to adopt */
    _Atomic(sonar_params *) replaced; /* by those, for control to destroy */
    const sonar_params *latest;       /* control: those made last, adopted or not */
    bool wanted;                      /* control: they do not have the mask that should be */
    bool changed;                     /* data thread: no result has said so yet */
};

/* Where everything is, at start. */
struct layout {
    const sonar_backend *place[STAGE_DETECT]; /* which backend each stage runs on */
    sonar_space samples, surfaces, points; /* host memory of the ring, the results, the detector */
};

struct sonar_pipeline {
    const sonar_config *config;
    void (*log)(void *ctx, sonar_level level, const char *where, const char *text);
    void *log_ctx;
    sonar_host host; /* its ctx is this pipeline */
    sonar_pool *pool;
    sonar_specs specs;
    sonar_choices *choices;
    sonar_backend_choice choice; /* at start; its backend owns the ring and the results */
    struct layout layout;
    char run_uuid[37], version[80];
    void *zmq;
    sonar_buffer ring; /* the samples, lent to ingest; of the backend at start */
    sonar_ingest *ingest;
    sonar_output *output;
    sonar_params *params; /* the data thread's while it runs */
    struct mask mask;
    sonar_elements *elements;

    size_t first_bin, bins; /* kept by the main DFT */
    bool own_mvdr_dft;
    struct engine engine;
    bool rebuilt;               /* the engine was made again... */
    uint64_t rebuilt_at_window; /* ...after so many windows, good and failed */
    struct change change;
    struct history history;
    float *delta; /* [bin] loading of each of the MVDR's bins, for their median */

    size_t results;
    sonar_result *result;       /* [results], lent to the output and back */
    sonar_result **free_result; /* stack of those not lent */
    size_t free_results;

    sonar_detect_spec cbf_detect, mvdr_detect;
    float *detect_scratch;
    double *tau_s; /* [sensor] of a place the detector looks at */

    pthread_t thread;
    bool thread_started;
    atomic_bool draining, stopping; /* drain: no more samples come; stop: leave now */
    atomic_bool drained;
    atomic_bool gave_up; /* the backend failed and nothing may or can take its place */
    struct progress progress;
    sonar_histogram timing[STAGES][SONAR_STAGE_PARTS]; /* data thread adds, control reads */
    sonar_histogram_seen timing_seen[STAGES][SONAR_STAGE_PARTS];

    /* control thread */
    int64_t started_ns, ticked_ns;
    uint64_t ticked_busy_ns;
    sonar_health health;
    sonar_ingest_report stream;
};

/* data.c: the data thread; what the stages have to compute for what subscribers want. */
void *sonar_data_thread(void *pipeline);
uint32_t sonar_pipeline_needed(const sonar_pipeline *pipeline, uint32_t wanted);
/* mask.c: element health. Needs parameters. Destroy before these. */
sonar_code sonar_mask_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_mask_destroy(sonar_pipeline *pipeline);
/* Judges what was measured, fills status->elements and offers parameters with another mask if there
 * has to be one. Control thread. */
void sonar_mask_tick(sonar_pipeline *pipeline, sonar_status *status);
/* Measures what is due of the window's samples. Data thread. */
void sonar_mask_measure(sonar_pipeline *pipeline, const sonar_window *window);
/* Takes over parameters that are offered, between two windows. True: a sensor is used that was not
 * before, and what the MVDR holds of it are zeros. Data thread. */
bool sonar_mask_adopt(sonar_pipeline *pipeline);
/* engine.c: make pipeline->engine (empty on error) with each stage on the backend of `place`, and
 * take it down after its queues have come to rest. */
sonar_code sonar_engine_create(sonar_pipeline *pipeline,
                               const sonar_backend *const place[STAGE_DETECT],
                               sonar_planning planning, sonar_error *err);
void sonar_engine_destroy(sonar_pipeline *pipeline);
/* window.c: runs the stages on one window and brings the surfaces that work.outputs names to
 * job->result; returns when all is done. Data thread. */
sonar_code sonar_window_run(sonar_pipeline *pipeline, struct job *job, sonar_error *err);
/* Everything up to the surfaces of the device, stage by stage: what graphs record. *taken: the
 * MVDR's new snapshots. */
sonar_code sonar_window_enqueue(sonar_pipeline *pipeline, struct job *job, size_t *taken,
                                sonar_error *err);
/* graphs.c: records the engine's graphs, where it can have any. Needs buffers and parameters. */
sonar_code sonar_graphs_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_graphs_destroy(sonar_pipeline *pipeline);
/* The graph of a window, or NULL: it has to be enqueued stage by stage. */
const struct recording *sonar_graphs_find(const sonar_pipeline *pipeline, const struct job *job);
/* snapshots.c: which snapshots a window brings that the MVDR has not seen; takes them as seen. */
struct plan sonar_snapshots_plan(sonar_pipeline *pipeline, const sonar_window *window);
/* The plan of a window in mid-stream, if all windows have the same. */
bool sonar_snapshots_usual(const sonar_config *config, bool own_dft, struct plan *plan);
void sonar_snapshots_forget(struct history *history);
/* First sample of one of the plan's snapshots. */
uint64_t sonar_snapshots_first(const sonar_config *config, const sonar_window *window,
                               const struct plan *plan, size_t index);
/* First sample of the oldest snapshot that still counts. */
uint64_t sonar_snapshots_oldest(const struct history *history);
/* timing.c: marks of a window and of the stages in it (data thread); collect when all is done. */
sonar_code sonar_timing_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_timing_destroy(sonar_pipeline *pipeline);
sonar_code sonar_timing_window(sonar_pipeline *pipeline, sonar_error *err);
sonar_code sonar_timing_begin(sonar_pipeline *pipeline, int stage, sonar_error *err);
sonar_code sonar_timing_end(sonar_pipeline *pipeline, int stage, sonar_error *err);
/* In place of begin and end for a window whose stages were enqueued as a graph. */
void sonar_timing_replayed(sonar_pipeline *pipeline, unsigned timed);
void sonar_timing_collect(sonar_pipeline *pipeline);
void sonar_timing_read(sonar_pipeline *pipeline, sonar_status *status); /* control thread */
/* upload.c: sends what is ready of the samples to come; copies what is left of the job's window,
 * lets the DFT's queue wait for it and sets job->seen. Data thread. */
void sonar_pipeline_upload_early(sonar_pipeline *pipeline);
sonar_code sonar_pipeline_upload(sonar_pipeline *pipeline, struct job *job, sonar_error *err);
/* recover.c: after a failed window. False: the data thread has to leave. Data thread. */
bool sonar_pipeline_recover(sonar_pipeline *pipeline, const sonar_error *why);
/* For tests: sonar_pipeline_create with a layout of their own (NULL: as configured). */
sonar_code sonar_pipeline_create_with(const struct layout *given, const sonar_config *config,
                                      void (*log)(void *ctx, sonar_level level, const char *where,
                                                  const char *text),
                                      void *log_ctx, sonar_pipeline **pipeline, sonar_error *err);
/* buffers.c: those of the engine, and those of the pipeline. */
sonar_code sonar_engine_make_buffers(sonar_pipeline *pipeline, sonar_error *err);
void sonar_engine_free_buffers(sonar_pipeline *pipeline);
sonar_code sonar_pipeline_make_buffers(sonar_pipeline *pipeline, sonar_error *err);
void sonar_pipeline_free_buffers(sonar_pipeline *pipeline);
/* contacts.c: fills result->detection from its surfaces. Data thread. */
sonar_code sonar_pipeline_detect(sonar_pipeline *pipeline, const sonar_work *work,
                                 sonar_result *result, sonar_error *err);
/* contacts.c: publishes the largest power of each cell around the peaks of mvdr.azimuth. */
sonar_code sonar_pipeline_raise(sonar_pipeline *pipeline, const sonar_work *work,
                                sonar_result *result, sonar_error *err);
#endif
