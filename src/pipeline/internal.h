/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the pipeline's own files share. create.c makes a pipeline, with ends.c for what meets
 * others, and pipeline.c starts, watches and stops it (progress.c for a watchdog). The data thread
 * is in data.c; it takes results from results.c, headings from navigate.c, contacts from
 * detections.c, measures elements (mask.c), tells where its time goes (latency.c) and makes the
 * engine anew (recover.c, train.c). live.c has the versions of the values that change, record.c
 * fills the recorder. With several ranks, ranks.c has the data thread's rounds and propose.c what
 * stands in the letters by which all take over a change; what they exchange and by which rules is
 * in src/ranks.
 */
#ifndef SONAR_PIPELINE_INTERNAL_H
#define SONAR_PIPELINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ranks/agree.h"
#include "ranks/letters.h"
#include "core/core.h"
#include "detect/detect.h"
#include "detect/sides.h"
#include "elements/elements.h"
#include "ingest/ingest.h"
#include "net/net.h"
#include "output/output.h"
#include "train/train.h"
#include "engine/engine.h"
#include "exporter/exporter.h"
#include "health/health.h"
#include "nav/nav.h"
#include "record/record.h"
#include "pipeline/pipeline.h"
#include "core/histogram.h"

/* Which backend works now and how it came to that; the data thread writes, control reads. */
struct change {
    pthread_mutex_t lock;
    char backend[24];         /* the engine's name */
    char text[240];           /* "" as long as nothing has failed */
    double device_free_bytes; /* NaN: there is none */
};

/* What the data thread tells the control thread: single values, each exact. */
struct progress {
    atomic_uint_fast64_t windows_processed, windows_failed, results_dropped, busy_ns;
    atomic_uint_fast64_t mvdr_bins, mvdr_bins_not_converged, mvdr_most_sweeps;
    _Atomic int64_t busy_since_ns; /* when the window in work was taken; 0: none is */
    atomic_uint_fast64_t rounds;   /* times it looked for a window */
    atomic_bool window_given_up;   /* the last one, because of stop */
    atomic_bool failed_new; /* failure holds a new message the control thread has not logged */
    sonar_error failure; /* data thread writes while !failed_new, control reads while it is set */
};

/* One window's way, for where its time goes (latency.c). */
struct trip {
    int64_t arrival_ns, posted_ns;
    uint64_t part_ns[SONAR_LATENCY_PARTS]; /* until `posted` ENGINE is the whole run */
};

/* Threads whose progress a watchdog goes by (progress.c); control thread. */
enum { SONAR_MARK_DATA = 0, SONAR_MARK_INGEST, SONAR_MARK_OUTPUT, SONAR_MARKS };

struct mark {
    uint64_t seen; /* a count of what the thread has done */
    bool moved;    /* it has done more since the watchdog was fed */
};

/* What follows from one configuration; all versions that differ in the mask alone share it. Control
 * thread makes and frees, others read. */
struct plan {
    size_t references;          /* of versions */
    const sonar_config *config; /* with ranks, this one's part */
    const sonar_config *whole;  /* of the array; that, without */
    sonar_config *owned;        /* the whole one, or NULL: the caller's */
    sonar_config_part *part;    /* NULL: without ranks, and at first, when it is the pipeline's */
    sonar_output_form *form;
    sonar_detect_spec cbf_detect, mvdr_detect;
};

/* One version of all that may change while running, immutable but for where it stands. The control
 * thread makes it, the data thread adopts it between two windows, and the control thread frees it
 * when the data thread has a newer one and all results that refer to it have come back: nobody
 * waits, and the data thread neither allocates nor frees (live.c). */
struct live {
    sonar_params *params; /* with ranks, of this one's part */
    sonar_params *whole;  /* with ranks, of the array; else NULL */
    struct plan *plan;
    sonar_pattern *pattern;       /* of the sensors in use; its scratch is the data thread's */
    double spread_m2[9];          /* by sonar_detect_spread */
    uint64_t first_sample;        /* of the first window under it; written before `adopted` */
    bool anew;                    /* its configuration is another one than the version's before */
    bool told;                    /* control: the log has it */
    atomic_bool adopted, retired; /* data thread: works with it; does so no more */
    atomic_size_t lent;           /* results with the output that refer to it */
    struct live *older;           /* control: all that are not freed yet */
};

/* Versions on their way between the threads. */
struct versions {
    _Atomic(struct live *) fresh; /* made by control, for the data thread to adopt */
    struct live *latest;          /* control: the one made last, adopted or not */
    bool mask_wanted;             /* control: it does not have the mask that should be */
    /* data thread: what no result has said yet */
    bool mask_changed, config_changed, mvdr_restarted;
    uint64_t config_sample; /* first sample under the configuration at work */
};

/* Which backend each stage runs on, at start. */
struct layout {
    const sonar_backend *place[SONAR_ENGINE_STAGES];
};

/* A change on its way to all ranks (propose.c). Control thread's. */
struct proposal {
    sonar_letters *letters; /* NULL: there is no other rank */
    struct live *made;      /* the version that the letter asks for, or NULL; data: to hold it */
    uint8_t *mask;          /* [sensor] of the array, that the letter takes out... */
    bool masks;             /* ...if it does */
    bool tells_mask;        /* the root: no caller waits for it, the log tells it */
};

/* What a rank has besides (ranks.c). The data thread's, but for what is atomic or never changes. */
struct ranks {
    sonar_split split;       /* the engine's; no cluster: there is no other rank */
    sonar_config_part *part; /* whose configuration is the pipeline's */
    size_t first_channel;    /* of it, in the array */
    size_t sensors[SONAR_RANKS_MOST], channels[SONAR_RANKS_MOST]; /* of each rank */
    size_t sensors_used[SONAR_RANKS_MOST], channels_used;         /* the latter this rank's */
    uint32_t *sensor;                                             /* the split's, owned */
    sonar_agree_spec agree;
    sonar_timeline timeline;
    sonar_offer offer[SONAR_RANKS_MOST];
    sonar_window window;         /* taken from ingest and not worked on yet, */
    bool has;                    /* if so */
    uint32_t timeline_of_ingest; /* how many it has begun before the one of the last window */
    int64_t worked_ns;           /* when a window was worked on last, or the start; 0: now */
    sonar_result *result;        /* root: for the next window; NULL: none is free */
    float *missing, *lost;       /* root: [channel] of the array; [channel] of this rank, all 1 */
    void *measures; /* root: [sensor] of the ranks' elements, one rank's behind the other's */
    struct proposal change;
    int64_t told_ns;                           /* root: when the ranks told of themselves last */
    uint64_t windows_foreign, windows_missing; /* dropped; by this rank, by all */
    uint64_t absent[SONAR_RANKS_MOST];         /* windows that the rank had nothing of */
    bool present[SONAR_RANKS_MOST];            /* in the last window */
    pthread_mutex_t lock;                      /* of all below but `left`: control reads it */
    bool told;
    sonar_ingest_counters counters; /* of the whole array */
    sonar_rank_status status[SONAR_RANKS_MOST];
    atomic_bool left; /* all have left together */
};

/* A window as the data thread works on it. */
struct turn {
    sonar_window window;         /* as the whole array has it */
    const sonar_window *samples; /* this rank's; NULL: it has none of it */
    uint32_t wanted;             /* SONAR_WANT bits of what is to be published */
    sonar_result *result;        /* NULL: none is free, or another rank is the root */
};

enum next { SONAR_NEXT_LOOK = 0, SONAR_NEXT_WORK, SONAR_NEXT_LEAVE };

/* What a window's work does otherwise where ranks share the array: data.c has the table of one
 * process, ranks.c that of ranks, whose functions are collective. Data thread. */
struct crossing {
    /* Takes the next window, or waits a moment for it (LOOK), or ends the thread (LEAVE). */
    enum next (*next)(sonar_pipeline *pipeline, struct turn *turn);
    /* A free result and what is wanted of it; NULL: none. */
    sonar_result *(*result)(sonar_pipeline *pipeline, uint32_t *wanted);
    /* turn->window.missing becomes that of the whole array; NULL: it is. */
    sonar_code (*missing)(sonar_pipeline *pipeline, const struct turn *turn, sonar_error *err);
    /* After the stages, of which `code` is the outcome: has stop come in the middle of the window,
     * on any rank? */
    sonar_code (*cancelled)(sonar_pipeline *pipeline, sonar_code code, bool *cancelled,
                            sonar_error *err);
    /* Before an evaluation of n directions; NULL: it takes no other rank. */
    sonar_code (*ask)(sonar_pipeline *pipeline, sonar_engine_stage beamformer, size_t n,
                      const sonar_look *look, sonar_error *err);
    /* The same after the last evaluation of the window. */
    sonar_code (*end)(sonar_pipeline *pipeline, sonar_code code, bool *cancelled, sonar_error *err);
    /* After a failed window. False: the thread ends. */
    bool (*recover)(sonar_pipeline *pipeline, const sonar_error *why);
};
extern const struct crossing sonar_crossing_none, sonar_crossing_ranks;

struct sonar_pipeline {
    const sonar_config *config; /* with ranks, this one's part */
    const sonar_config *whole;  /* of the array; that, without */
    sonar_rank_place place;     /* of one process: rank 0 of 1 */
    const struct crossing *crossing;
    struct ranks ranks;
    void (*log)(void *ctx, sonar_level level, const char *where, const char *text);
    void *log_ctx;
    sonar_host host; /* its ctx is this pipeline */
    sonar_pool *pool;
    sonar_choices *choices;
    sonar_choices *retrained;          /* data thread: what holds in its place since; or NULL */
    _Atomic int64_t training_since_ns; /* asked for then, and not ended yet; 0: no */
    sonar_backend_choice choice;       /* at start; its backend owns the ring and the results */
    struct layout layout;
    char run_uuid[37];
    void *zmq;
    sonar_zap *zap; /* who may connect */
    sonar_gate *readers, *controllers;
    sonar_memory *memory; /* what the sockets' peers hold */
    sonar_buffer ring;    /* the samples, lent to ingest; of the backend at start */
    sonar_ingest *ingest;
    struct sonar_segments *segments; /* NULL: samples come over the sockets alone */
    sonar_output *output;
    sonar_exporter *exporter; /* NULL: metrics.listen is not set */
    sonar_recorder *recorder; /* NULL: record.what is off */
    struct live *live;        /* the data thread's while it runs */
    struct versions versions;
    atomic_int log_level;
    sonar_elements *elements; /* measured here */
    const sonar_window *kept; /* data thread: samples still to be measured are its; or NULL */
    sonar_elements *judged;   /* those, or of the root the whole array's; NULL: of other ranks */
    sonar_nav *nav;
    int64_t window_middle_ns; /* UTC of the window in work, data thread */

    sonar_engine *engine;       /* NULL only after a failure that nothing could take the place of */
    bool rebuilt;               /* the engine was made again... */
    uint64_t rebuilt_at_window; /* ...after so many windows, good and failed */
    struct change change;
    float *column; /* [bin] one number of each of the MVDR's bins, for the median */

    size_t results;
    sonar_result *result;       /* [results], lent to the output and back */
    sonar_result **free_result; /* stack of those not lent */
    size_t free_results;
    struct live **lent_under; /* [results] the version that one refers to, or NULL */
    struct trip *trips;       /* [results] of those that are lent */
    struct trip trip;         /* of the window in work */

    float *detect_scratch;
    sonar_sides *sides[2]; /* of each sonar_detect_source's contacts */

    pthread_t thread;
    bool thread_started;
    atomic_bool draining, stopping; /* drain: no more samples come; stop: leave now */
    atomic_bool drained;
    atomic_bool gave_up; /* the backend failed and nothing may or can take its place */
    struct progress progress;
    sonar_engine_times times; /* data thread adds, control reads */
    sonar_histogram_seen times_seen[SONAR_TIMED_STAGES][SONAR_STAGE_PARTS];
    sonar_histogram latency[SONAR_LATENCY_PARTS]; /* data thread adds, control reads */
    sonar_histogram_seen latency_seen[SONAR_LATENCY_PARTS];

    /* control thread */
    int64_t started_ns, ticked_ns;
    uint64_t ticked_busy_ns;
    sonar_health health;
    sonar_rights refused; /* at the start */
    sonar_status status;  /* of the last tick */
    sonar_ingest_report stream;
    struct mark mark[SONAR_MARKS];
};

/* ranks.c: becomes one of several ranks, if mpirun has started several: sets pipeline->config. */
sonar_code sonar_ranks_create(sonar_pipeline *pipeline, const sonar_config *config,
                              sonar_error *err);
void sonar_ranks_destroy(sonar_pipeline *pipeline);
/* The parameters are others: so are the whole array's. Data thread. */
void sonar_ranks_adopt(sonar_pipeline *pipeline);
/* The data thread ends: a window or a result that is still held goes back. */
void sonar_ranks_leave(sonar_pipeline *pipeline);
/* What a result says of ranks that are absent from its window. Data thread. */
void sonar_ranks_describe(const sonar_pipeline *pipeline, sonar_result *result);
/* Counters of the whole array and a line for each rank, as they told last. Control thread. */
void sonar_ranks_read(sonar_pipeline *pipeline, sonar_status *status);
static inline bool sonar_is_root(const sonar_pipeline *pipeline) {
    return pipeline->place.rank == 0;
}
/* data.c: the data thread; what the stages have to compute under a configuration, that of the start
 * or a live one, for what subscribers want. */
void *sonar_data_thread(void *pipeline);
/* Results between two windows: one that is free (NULL: all are lent), and back. */
sonar_result *sonar_result_find(sonar_pipeline *pipeline);
void sonar_result_keep(sonar_pipeline *pipeline, sonar_result *result);
/* A window has failed: the control thread logs it. */
void sonar_data_note_failure(struct progress *progress, const sonar_error *err);
uint32_t sonar_pipeline_needed(const sonar_config *config, uint32_t wanted);
/* mask.c: element health. Needs a version. */
sonar_code sonar_mask_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_mask_destroy(sonar_pipeline *pipeline);
/* Judges what was measured, fills status->elements and offers a version with another mask if there
 * has to be one. Control thread. */
void sonar_mask_tick(sonar_pipeline *pipeline, sonar_status *status);
/* The engine has read the window's samples: they go back to ingest, or are kept if some are to be
 * measured, until finish does that and gives them back. Data thread, finish after each window, when
 * its result is on its way. */
void sonar_mask_release(sonar_pipeline *pipeline, const sonar_window *window);
void sonar_mask_finish(sonar_pipeline *pipeline);
/* The beams do without other sensors from now on. Control thread. */
void sonar_mask_tell(const sonar_pipeline *pipeline);
/* The ranks' measures to the root, once all that take part have some. Data thread. */
sonar_code sonar_mask_share(sonar_pipeline *pipeline, sonar_error *err);
/* latency.c, all of it the data thread's: a window begins its work; time since `began` counts for
 * the part; its result is on its way, `posted` being the time just before; the result is back. */
void sonar_latency_begin(sonar_pipeline *pipeline, const sonar_window *window, int64_t began_ns);
void sonar_latency_add(sonar_pipeline *pipeline, sonar_latency_part part, int64_t began_ns);
void sonar_latency_posted(sonar_pipeline *pipeline, const sonar_result *result, int64_t posted_ns);
void sonar_latency_count(sonar_pipeline *pipeline, const sonar_result *result);
/* Parts as measured become parts of the whole: none is longer than what those before it leave, and
 * what all of them leave is OTHER. */
void sonar_latency_split(uint64_t whole_ns, uint64_t part_ns[SONAR_LATENCY_PARTS]);
/* The host's time of a stage that is none of the engine's, since `began`. */
void sonar_latency_stage(sonar_pipeline *pipeline, sonar_timed_stage stage, int64_t began_ns);
/* live.c: the first version. */
sonar_code sonar_live_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_live_destroy(sonar_pipeline *pipeline);
/* The steps of sonar_pipeline_reconfigure: makes a version; the window after this call adopts it
 * (any thread); what other parts of the daemon have to know of its configuration; or it is never to
 * be. Control thread. */
sonar_code sonar_live_make(sonar_pipeline *pipeline, sonar_config *config, struct live **made,
                           sonar_error *err);
void sonar_live_hold(sonar_pipeline *pipeline, struct live *live);
void sonar_live_tell_others(sonar_pipeline *pipeline, const struct live *live);
void sonar_live_drop(sonar_pipeline *pipeline, struct live *live);
/* The parameters of the whole array. */
static inline const sonar_params *sonar_live_whole(const struct live *live) {
    return live->whole ? live->whole : live->params;
}
/* propose.c: changes that all ranks take over, or none. create makes room. */
sonar_code sonar_propose_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_propose_destroy(sonar_pipeline *pipeline);
/* The root's: as sonar_pipeline_reconfigure. With a configuration it waits until all ranks have it,
 * and SONAR_EINVAL tells the reason of the first rank that refused; without one, attend tells what
 * has come of it. Control thread. */
sonar_code sonar_propose(sonar_pipeline *pipeline, sonar_config *config, sonar_error *err);
/* The root's: keys that may connect, and recording. They wait. Control thread. */
sonar_code sonar_propose_keys(sonar_pipeline *pipeline, const sonar_security *security,
                              sonar_error *err);
sonar_code sonar_propose_record(sonar_pipeline *pipeline, bool record, sonar_error *err);
/* Other ranks do what the root asks for, and all look at what has come of it. Control thread. */
void sonar_propose_attend(sonar_pipeline *pipeline);
/* Sensors that the letter in work takes out; NULL: none. Control thread of the others. */
const uint8_t *sonar_propose_mask(const sonar_pipeline *pipeline);
/* Frees versions that nobody needs any more, and logs those that have been adopted. Control
 * thread. */
void sonar_live_tick(sonar_pipeline *pipeline);
/* Takes over the version that is offered, between two windows. True: what the MVDR holds does not
 * go with it. Data thread. */
bool sonar_live_adopt(sonar_pipeline *pipeline, const sonar_window *window);
/* A result goes to the output, or has come back from it. Data thread. */
void sonar_live_lend(sonar_pipeline *pipeline, sonar_result *result);
void sonar_live_take_back(sonar_pipeline *pipeline, sonar_result *result);
/* ends.c: the context of all sockets, the memory that their peers share, whose keys are good. */
sonar_code sonar_pipeline_make_context(sonar_pipeline *pipeline, sonar_error *err);
/* Waits for ever with -1. False: libzmq is not ready to leave, and the context is lost. */
bool sonar_pipeline_end_context(sonar_pipeline *pipeline, int timeout_ms);
/* ends.c: ingest with the ring of samples, once there is a backend and its placement. */
sonar_code sonar_pipeline_make_ingest(sonar_pipeline *pipeline, sonar_error *err);
/* ends.c: the output; the root's alone. */
sonar_code sonar_pipeline_make_output(sonar_pipeline *pipeline, sonar_error *err);
/* ends.c: from now on these keys and no others of one side may connect. Control thread. */
sonar_code sonar_pipeline_allow_side(sonar_pipeline *pipeline, sonar_domain side,
                                     const sonar_keyring *allowed, sonar_error *err);
/* create.c: an engine with each stage on the backend of `place`, for the pipeline's samples. */
sonar_code sonar_pipeline_make_engine(sonar_pipeline *pipeline,
                                      const sonar_backend *const place[SONAR_ENGINE_STAGES],
                                      sonar_planning planning, sonar_error *err);
/* pipeline.c: times of the stages since the start and since the last call. Control thread. */
void sonar_pipeline_read_times(sonar_pipeline *pipeline, sonar_status *status);
/* navigate.c: the heading of the window's middle, and that of the MVDR's samples once these are
 * known. Data thread. */
void sonar_navigate_window(sonar_pipeline *pipeline, const sonar_window *window,
                           sonar_result *result);
void sonar_navigate_mvdr(sonar_pipeline *pipeline, sonar_result *result);
/* For status. Control thread. */
void sonar_navigate_tick(sonar_pipeline *pipeline, sonar_status *status);
/* record.c: makes the recorder, if there is to be one; who fills it; starts its thread. */
sonar_code sonar_record_create(sonar_pipeline *pipeline, sonar_error *err);
const sonar_stretch_sink *sonar_record_sink(const sonar_pipeline *pipeline);
sonar_output_tap sonar_record_tap(const sonar_pipeline *pipeline);
sonar_code sonar_record_start(sonar_pipeline *pipeline, sonar_error *err);
/* Recordings say from now on what this plan's configuration says of the sensors. Control thread. */
void sonar_record_describe(sonar_pipeline *pipeline, const struct plan *plan);
/* ends.c: what headers say under a configuration, of the whole array, and what the output is made
 * from. */
sonar_output_spec sonar_pipeline_output_spec(const sonar_pipeline *pipeline,
                                             const sonar_config *config);
/* train.c: what a node is trained for, or asked for its choices; without parameters. Borrows both.
 */
sonar_train_setup sonar_pipeline_setup(const sonar_config *config, const sonar_host *host);
/* What is processed without loss must come out the same twice. */
static inline sonar_planning sonar_pipeline_planning(const sonar_pipeline *p) {
    return p->config->overload == SONAR_BLOCK ? SONAR_PLAN_STABLE : SONAR_PLAN_MEASURE;
}
/* train.c: trains and goes on with the outcome, as is allowed to recover.c. False: the data thread
 * has to leave. Data thread. */
bool sonar_pipeline_retrain(sonar_pipeline *pipeline);
/* recover.c: an engine in place of none, on the CPU where it has to be. False: the data thread has
 * to leave. Data thread. */
bool sonar_pipeline_renew(sonar_pipeline *pipeline);
/* recover.c: after a failed window. False: the data thread has to leave. Data thread. */
bool sonar_pipeline_recover(sonar_pipeline *pipeline, const sonar_error *why);
/* For tests: sonar_pipeline_create with a layout of their own (NULL: as configured). */
sonar_code sonar_pipeline_create_with(const struct layout *given, const sonar_config *config,
                                      void (*log)(void *ctx, sonar_level level, const char *where,
                                                  const char *text),
                                      void *log_ctx, sonar_pipeline **pipeline, sonar_error *err);
/* results.c */
sonar_code sonar_pipeline_make_buffers(sonar_pipeline *pipeline, sonar_error *err);
void sonar_pipeline_free_buffers(sonar_pipeline *pipeline);
/* detections.c: fills result->detection from its surfaces. Data thread. */
sonar_code sonar_pipeline_detect(sonar_pipeline *pipeline, sonar_result *result, sonar_error *err);
/* detections.c: publishes the largest power of each cell around the peaks of mvdr.azimuth. */
sonar_code sonar_pipeline_raise(sonar_pipeline *pipeline, sonar_result *result, sonar_error *err);
#endif
