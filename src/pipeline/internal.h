/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the pipeline's own files share. */
#ifndef SONAR_PIPELINE_INTERNAL_H
#define SONAR_PIPELINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/core.h"
#include "detect/detect.h"
#include "ingest/ingest.h"
#include "output/output.h"
#include "pipeline/choices.h"
#include "pipeline/pipeline.h"

/* The stages whose time is kept, in the order of sonar_status.stage_us. */
enum { STAGE_DFT = 0, STAGE_CBF, STAGE_MVDR, STAGE_DETECT, STAGES };

/* One stage of the chosen backend. */
struct stage {
    const sonar_stage_ops *ops;
    void *self;
};

/* The buffers between stages, in the backend's space, made once. `bins` is the result of the main
 * DFT; cbf_bins is a view of it, mvdr_bins too when both share one DFT (own_mvdr_dft false). */
struct buffers {
    sonar_buffer bins, cbf_bins; /* c32 [bin][sensor] */
    sonar_buffer mvdr_bins;      /* c32 [snapshot][bin][sensor] */
    sonar_buffer cbf[SONAR_CBF_OUTPUTS];
    sonar_buffer mvdr[SONAR_MVDR_OUTPUTS];
    sonar_buffer host_bins;           /* for element.psd; the same memory where host is native */
    sonar_buffer host_info;           /* f32 [bin][SONAR_MVDR_INFO_FIELDS] */
    sonar_buffer points, point_power; /* u64 [SONAR_DETECT_POINTS][sensor], f32 [point] */
    sonar_buffer host_points, host_point_power;
};

/* What the data thread tells the control thread: single values, each exact. */
struct progress {
    atomic_uint_fast64_t windows_processed, windows_failed, results_dropped, busy_ns;
    atomic_uint_fast64_t stage_ns[STAGES];
    atomic_bool failed_new; /* failure holds a new message the control thread has not logged */
    sonar_error failure; /* data thread writes while !failed_new, control reads while it is set */
};

struct sonar_pipeline {
    const sonar_config *config;
    void (*log)(void *ctx, sonar_level level, const char *where, const char *text);
    void *log_ctx;
    sonar_host host; /* its ctx is this pipeline */
    sonar_pool *pool;
    sonar_specs specs;
    sonar_choices *choices;
    sonar_backend_choice choice;
    char run_uuid[37], version[80];
    void *zmq;
    sonar_ingest *ingest;
    sonar_output *output;
    sonar_params *params;
    sonar_queue *queue;
    sonar_event *event;

    size_t first_bin, bins; /* kept by the main DFT */
    bool own_mvdr_dft;
    struct stage dft, mvdr_dft, cbf, mvdr;
    struct buffers buffers;
    uint64_t mvdr_next;     /* first sample of the next sub-window */
    uint64_t mvdr_last_end; /* end of the newest sub-window taken in */

    size_t results;
    sonar_result *result;       /* [results], lent to the output and back */
    sonar_result **free_result; /* stack of those not lent */
    size_t free_results;

    sonar_detect_spec cbf_detect, mvdr_detect;
    float *detect_scratch, *detect_power;
    size_t *strongest_range; /* [direction] rung of the ladder, `ranges` = far field */
    double *tau_s;

    pthread_t thread;
    bool thread_started;
    atomic_bool draining, stopping; /* drain: no more samples come; stop: leave now */
    atomic_bool drained;
    struct progress progress;

    /* control thread */
    int64_t started_ns, ticked_ns;
    uint64_t ticked_busy_ns;
    uint64_t ticked_lost;
    char health[16];
};

/* data.c: the data thread. */
void *sonar_data_thread(void *pipeline);
/* buffers.c */
sonar_code sonar_pipeline_make_buffers(sonar_pipeline *pipeline, sonar_error *err);
void sonar_pipeline_free_buffers(sonar_pipeline *pipeline);
/* contacts.c: fills result->detection from its surfaces. Data thread. */
sonar_code sonar_pipeline_detect(sonar_pipeline *pipeline, const sonar_work *work,
                                 sonar_result *result, sonar_error *err);
#endif
