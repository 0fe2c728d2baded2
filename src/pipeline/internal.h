/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the pipeline's own files. create.c creates a pipeline, with ends.c for its connections;
 * pipeline.c starts, watches and stops it (progress.c serves a watchdog). data.c is the data
 * thread: it takes results from results.c, headings from navigate.c, those of a towed array and its
 * shape from tow.c, time series from beams.c, ratios from normalised.c and sped.c, contacts from
 * detections.c and tracks from tracks.c, measures elements (mask.c), records where its time goes
 * (latency.c) and remakes the engine (recover.c, train.c). live.c has the versions of the values
 * that change; record.c feeds the recorder. With several ranks, ranks.c has the data thread's
 * rounds and src/ranks the exchange and its rules; propose.c makes changes, with ranks on all. */
#ifndef SONAR_PIPELINE_INTERNAL_H
#define SONAR_PIPELINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "ranks/agree.h"
#include "ranks/letters.h"
#include "core/core.h"
#include "detect/detect.h"
#include "detect/sides.h"
#include "analysis/beam/beam.h"
#include "analysis/faint/faint.h"
#include "analysis/normalise/normalise.h"
#include "analysis/sped/sped.h"
#include "analysis/tones/tones.h"
#include "analysis/tracks/tracks.h"
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

/* The backend in use and why it was chosen; the data thread writes, control reads. */
struct change {
    pthread_mutex_t lock;
    char backend[24];         /* the engine's name */
    char text[240];           /* "" as long as nothing has failed */
    double device_free_bytes; /* NaN: there is none */
};

/* Single values, each exact, that the data thread passes to the control thread. */
struct progress {
    atomic_uint_fast64_t windows_processed, windows_failed, results_dropped, busy_ns;
    atomic_uint_fast64_t mvdr_bins, mvdr_bins_not_converged, mvdr_most_sweeps;
    _Atomic uint32_t mvdr_path;    /* sonar_mvdr_path_by */
    _Atomic int64_t busy_since_ns; /* when the current window was taken; 0: none */
    atomic_uint_fast64_t rounds;   /* how often it looked for a window */
    atomic_bool window_given_up;   /* the last window was discarded because of stop */
    atomic_bool failed_new; /* failure holds a new message the control thread has not logged */
    sonar_error failure; /* data thread writes while !failed_new, control reads while it is set */
};

/* One window's times, for the parts of latency (latency.c). */
struct trip {
    int64_t arrival_ns, posted_ns;
    uint64_t part_ns[SONAR_LATENCY_PARTS]; /* until it is posted, ENGINE is the whole run */
};

/* Threads whose progress a watchdog checks (progress.c); control thread. */
enum { SONAR_MARK_DATA = 0, SONAR_MARK_INGEST, SONAR_MARK_OUTPUT, SONAR_MARKS };

struct mark {
    uint64_t seen; /* a counter of the thread's work */
    bool moved;    /* the counter has changed since the watchdog was fed */
};

/* Everything derived from one configuration; versions that differ only in the mask share it. The
 * control thread makes and frees it, others read. */
struct plan {
    size_t references;          /* number of versions that refer to it */
    const sonar_config *config; /* with ranks, the configuration of this rank's part */
    const sonar_config *whole;  /* configuration of the array; without ranks the same */
    sonar_config *owned;        /* the whole array's, to be freed; NULL: the caller owns it */
    sonar_config_part
        *part; /* NULL: without ranks, and for the first plan, whose part belongs to the pipeline */
    sonar_output_form *form;
    sonar_detect_spec cbf_detect, mvdr_detect;
    sonar_split *split[2];      /* by sonar_detect_source; of their scans */
    sonar_averages averages[2]; /* by sonar_detect_source; MVDR's of a full block */
    /* By sonar_detect_source; their scratch belongs to the data thread. NULL: the topic is not in
     * output.topics, or the scan too short. */
    sonar_normalise *normalise[2];
    sonar_sped *sped; /* as those, of the CBF */
    sonar_tones
        *tones; /* NULL: not detections.tones, or there are too few bins; the data thread's */
    /* Contacts below the threshold; the data thread's. NULL: no tracks, or the scan too short. */
    struct faint_plan {
        sonar_normalise *normalise;
        float *ratio; /* [direction] */
        sonar_faint *faint;
    } faint;
};

/* One version of everything that may change during the run; immutable except its progress. The
 * control thread makes it, and the data thread adopts it between two windows. The control thread
 * frees it when the data thread has a newer one and all results that refer to it have been
 * returned. No thread waits, and the data thread neither allocates nor frees (live.c). */
struct live {
    sonar_params *params; /* with ranks, of this rank's part */
    sonar_params *whole;  /* with ranks, of the array; else NULL */
    struct plan *plan;
    sonar_pattern *pattern;     /* of the sensors in use; its scratch belongs to the data thread */
    double spread_m2[9];        /* from sonar_detect_spread */
    sonar_aperture aperture[2]; /* by sonar_detect_source */
    double own_share;           /* from sonar_own_share */
    uint64_t first_sample; /* first sample of the first window under it; written before `adopted` */
    bool reconfigured;     /* its configuration differs from that of the version before */
    bool logged;           /* control thread: its adoption has been logged */
    atomic_bool adopted, retired; /* data thread: in use; no longer in use */
    atomic_size_t lent;           /* results lent to the output that refer to it */
    struct live *older;           /* control thread: list of all versions that are not freed yet */
};

/* Versions passed between the threads. */
struct versions {
    _Atomic(struct live *) fresh; /* made by the control thread, for the data thread to adopt */
    struct live *latest;          /* control thread: the newest version, adopted or not */
    bool mask_wanted;             /* control thread: it does not have the wanted mask yet */
    /* data thread: changes that no result has reported yet */
    bool mask_changed, config_changed, mvdr_restarted;
    uint64_t config_sample; /* first sample under the configuration in use */
};

/* Tracks, and the window that they are of; the data thread's. */
struct tracking {
    sonar_tracks *tracks;              /* NULL: the topic is not in output.topics */
    double middle_sample, heading_deg; /* heading_deg: of that window, NaN: unknown */
    uint32_t epoch;                    /* 0: no window yet */
    int64_t utc_ns;                    /* of that middle; 0: unknown */
    bool restored; /* they are those of an earlier run, until its first window */

    char *text; /* as in the file, for the control thread to write; NULL: there is no file */
    size_t bytes;
    double text_sample; /* middle_sample of `text` */
    atomic_bool ready;  /* text is the control thread's, else the data thread's */
    bool complained;    /* the control thread's: the file cannot be written */
};

/* Which backend each stage runs on, at start. */
struct layout {
    const sonar_backend *place[SONAR_ENGINE_STAGES];
};

/* A change on its way to all ranks (propose.c). Belongs to the control thread. */
struct proposal {
    sonar_letters *letters; /* NULL: no other ranks */
    struct live *made; /* the version that the letter asks for, or NULL; the data thread puts it
                          into effect */
    uint8_t *mask;     /* [sensor] of the array: the sensors that the letter removes... */
    bool masks;        /* ...if it has a mask */
    bool logs_mask;    /* the root: no caller waits for the outcome, so it is logged */
};

/* A rank's additional state (ranks.c). Belongs to the data thread, except what is atomic or
 * constant. */
struct ranks {
    sonar_split split;       /* of the engine */
    sonar_config_part *part; /* its configuration is the pipeline's */
    size_t first_channel;    /* its first channel, numbered in the array */
    size_t sensors[SONAR_RANKS_MOST], channels[SONAR_RANKS_MOST]; /* of each rank */
    size_t sensors_used[SONAR_RANKS_MOST], channels_used;         /* channels_used: this rank's */
    uint32_t *sensor;                                             /* owned, part of `split` */
    sonar_agree_spec agree;
    sonar_timeline timeline;
    sonar_offer offer[SONAR_RANKS_MOST];
    sonar_window window;         /* taken from ingest and not yet processed, */
    bool has;                    /* if this is set */
    uint32_t timeline_of_ingest; /* timelines of ingest, up to that of the last window */
    int64_t worked_ns;           /* time of the last processed window, or of the start; 0: now */
    sonar_result *result;        /* root: for the next window; NULL: all results are lent */
    float *missing, *lost;       /* root: [channel] of the array; [channel] of this rank, all 1 */
    void *measures;              /* root: [sensor] measures of all ranks' elements, rank by rank */
    float *beams, *all_beams;    /* [beam][hop] of this rank; root: [rank][beam][hop] */
    struct proposal change;
    int64_t reported_ns;                       /* root: when the ranks last reported their status */
    uint64_t windows_foreign, windows_missing; /* windows dropped by this rank, by all */
    uint64_t absent[SONAR_RANKS_MOST];         /* windows of which the rank had no samples */
    bool present[SONAR_RANKS_MOST];            /* in the last window */
    pthread_mutex_t lock; /* protects all below except `left`; the control thread reads them */
    bool reported;
    sonar_ingest_counters counters; /* of the whole array */
    sonar_rank_status status[SONAR_RANKS_MOST];
    atomic_bool left; /* all ranks have ended together */
};

/* A window in the data thread. */
struct turn {
    sonar_window window;         /* of the whole array */
    const sonar_window *samples; /* of this rank; NULL: it has no samples of the window */
    uint32_t wanted;             /* SONAR_WANT bits of what is to be published */
    sonar_result *result;        /* NULL: no result is free, or another rank is the root */
};

enum next { SONAR_NEXT_LOOK = 0, SONAR_NEXT_WORK, SONAR_NEXT_LEAVE };

/* The steps of a window that differ if ranks share the array. data.c has the table for one process;
 * ranks.c has the one for ranks, whose functions are collective. Data thread. */
struct sharing {
    /* Takes the next window, waits briefly for one (LOOK), or ends the thread (LEAVE). */
    enum next (*next)(sonar_pipeline *pipeline, struct turn *turn);
    /* A free result, or NULL, and the topics that are wanted. */
    sonar_result *(*result)(sonar_pipeline *pipeline, uint32_t *wanted);
    /* Replaces turn->window.missing by that of the whole array; NULL: it already is. */
    sonar_code (*missing)(sonar_pipeline *pipeline, const struct turn *turn, sonar_error *err);
    /* Sends `size` bytes of the root to the other ranks; NULL: there are none. */
    sonar_code (*tell)(sonar_pipeline *pipeline, void *data, size_t size, sonar_error *err);
    /* Adds the ranks' n values in the order of ranks, to the root's sum[n] (NULL on other ranks);
     * NULL: there are none. */
    sonar_code (*add)(sonar_pipeline *pipeline, const float *mine, size_t n, float *sum,
                      sonar_error *err);
    /* After the stages, with their outcome `code`: sets whether any rank was stopped during the
     * window. */
    sonar_code (*cancelled)(sonar_pipeline *pipeline, sonar_code code, bool *cancelled,
                            sonar_error *err);
    /* Called before an evaluation of n directions; NULL: no other rank takes part. */
    sonar_code (*ask)(sonar_pipeline *pipeline, sonar_engine_stage beamformer, size_t n,
                      const sonar_look *look, sonar_error *err);
    /* Called after the last evaluation of the window. */
    sonar_code (*end)(sonar_pipeline *pipeline, sonar_code code, bool *cancelled, sonar_error *err);
    /* After a failed window. False: the thread ends. */
    bool (*recover)(sonar_pipeline *pipeline, const sonar_error *why);
};
extern const struct sharing sonar_sharing_none, sonar_sharing_ranks;

/* Where a towed array's sensors are, [sensor] of the array. */
struct places {
    double *behind_m; /* as sonar_nav_places wants it */
    sonar_nav_places_m at_m;
};

/* A towed array (tow.c). Belongs to the data thread, except of_control. */
struct tow {
    struct places of_data, of_control;
    bool known;               /* of_data has the places at the middle of the window in work */
    sonar_params *bent;       /* steers by the shape in use; NULL: the array is straight */
    double *shape_m;          /* [sensor][3] of the window */
    double *tau_s;            /* scratch */
    const struct live *under; /* the version that `bent` is made of; NULL: the straight array is in
                                 use */
    uint64_t shapes;          /* so far, for the versions' numbers */
    uint64_t first_sample;    /* of the first window that was steered by the shape in use */
};

struct sonar_pipeline {
    const sonar_config *config; /* with ranks, this one's part */
    const sonar_config *whole;  /* configuration of the array; without ranks the same */
    sonar_rank_place place;     /* a single process is rank 0 of 1 */
    const struct sharing *sharing;
    struct ranks ranks;
    void (*log)(void *ctx, sonar_level level, const char *where, const char *text);
    void *log_ctx;
    sonar_host host; /* its ctx is this pipeline */
    sonar_pool *pool;
    sonar_choices *choices;
    sonar_choices *retrained; /* data thread: choices of a training during the run, which replace
                                 those; or NULL */
    _Atomic int64_t
        training_since_ns;       /* when training was requested, until it ends; 0: not requested */
    sonar_backend_choice choice; /* at start; its backend owns the ring and the results */
    struct layout layout;
    char run_uuid[37];
    void *zmq;
    sonar_zap *zap; /* admits peers */
    sonar_gate *readers, *controllers;
    sonar_memory *memory; /* memory held for the sockets' peers */
    sonar_buffer ring;    /* the samples, lent to ingest; allocated by the backend at start */
    sonar_ingest *ingest;
    struct sonar_segments *segments; /* NULL: samples come only over the sockets */
    sonar_output *output;
    sonar_exporter *exporter; /* NULL: metrics.listen is not set */
    sonar_recorder *recorder; /* NULL: record.what is off */
    struct live *live;        /* owned by the data thread during the run */
    struct versions versions;
    atomic_int log_level;
    sonar_elements *elements; /* of the sensors measured here */
    const sonar_window
        *kept; /* data thread: the window whose samples are still to be measured; or NULL */
    sonar_elements *judged; /* `elements`, or on the root of several ranks those of the whole array;
                               NULL: on other ranks */
    sonar_beam *beam;       /* NULL: no beam has a time series */
    sonar_nav *nav;
    struct tow *tow;          /* NULL: no array is towed */
    int64_t window_middle_ns; /* UTC of the middle of the window in work, data thread */

    sonar_engine *engine;       /* NULL only after a failure that could not be recovered */
    bool rebuilt;               /* the engine was created again... */
    uint64_t rebuilt_at_window; /* ...after this many windows, processed and failed */
    struct change change;
    float *column; /* [bin] one column of the MVDR's info, for the median */

    size_t results;
    sonar_result *result;       /* [results], lent to the output and back */
    sonar_result **free_result; /* stack of results that are not lent */
    size_t free_results;
    struct live **lent_under; /* [results] the version that each result refers to, or NULL */
    struct trip *trips;       /* [results] of the lent results */
    struct trip trip;         /* of the current window */

    float *detect_scratch;
    sonar_tops tops;       /* of the window's mvdr.azimuth, if it is raised to them */
    sonar_sides *sides[2]; /* of each sonar_detect_source's contacts */
    struct tracking tracking;

    pthread_t thread;
    bool thread_started;
    atomic_bool draining, stopping; /* drain: no more samples come; stop: leave at once */
    atomic_bool drained;
    atomic_bool gave_up; /* the backend failed and cannot, or must not, be replaced */
    struct progress progress;
    sonar_engine_times times; /* data thread adds, control reads */
    sonar_histogram_seen times_seen[SONAR_TIMED_STAGES][SONAR_STAGE_PARTS];
    sonar_histogram latency[SONAR_LATENCY_PARTS]; /* data thread adds, control reads */
    sonar_histogram_seen latency_seen[SONAR_LATENCY_PARTS];

    /* control thread */
    int64_t started_ns, ticked_ns;
    uint64_t ticked_busy_ns;
    sonar_health health;
    sonar_rights refused; /* refused at the start */
    sonar_status status;  /* of the last tick */
    sonar_ingest_report stream;
    struct mark mark[SONAR_MARKS];
};

/* ranks.c: if mpirun has started several ranks, becomes one of them and sets pipeline->config. */
sonar_code sonar_ranks_create(sonar_pipeline *pipeline, const sonar_config *config,
                              sonar_error *err);
void sonar_ranks_destroy(sonar_pipeline *pipeline);
/* How the array is split, for the engine; NULL: there are no other ranks. */
const sonar_split *sonar_ranks_split(const sonar_pipeline *pipeline);
/* Updates the parameters of the whole array after new ones came into use. Data thread. */
void sonar_ranks_adopt(sonar_pipeline *pipeline);
/* Returns a window or result that is still held when the data thread ends. */
void sonar_ranks_leave(sonar_pipeline *pipeline);
/* Marks in a result the ranks that are absent from its window. Data thread. */
void sonar_ranks_describe(const sonar_pipeline *pipeline, sonar_result *result);
/* Reads the counters of the whole array and a line for each rank, as last reported. Control thread.
 */
void sonar_ranks_read(sonar_pipeline *pipeline, sonar_status *status);
/* For how long the data thread has waited for other ranks, and on the root for which; 0: not for a
 * second. Any thread. */
int64_t sonar_ranks_wait(const sonar_pipeline *pipeline, bool hangs[SONAR_RANKS_SHOWN]);
static inline bool sonar_is_root(const sonar_pipeline *pipeline) {
    return pipeline->place.rank == 0;
}
/* data.c: the data thread; the outputs that the stages have to compute under a configuration for
 * the wanted topics. */
void *sonar_data_thread(void *pipeline);
/* Between two windows: takes a free result (NULL: all are lent); returns one. */
sonar_result *sonar_result_find(sonar_pipeline *pipeline);
void sonar_result_keep(sonar_pipeline *pipeline, sonar_result *result);
/* Passes the error of a failed window to the control thread, which logs it. */
void sonar_data_note_failure(struct progress *progress, const sonar_error *err);
uint32_t sonar_pipeline_needed(const sonar_config *config, uint32_t wanted);
/* mask.c: element health. Requires a version. */
sonar_code sonar_mask_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_mask_destroy(sonar_pipeline *pipeline);
/* Judges the measures, fills status->elements and offers a version with another mask if needed.
 * Control thread. */
void sonar_mask_tick(sonar_pipeline *pipeline, sonar_status *status);
/* release: the engine has read the window's samples; they are released to ingest, or kept for
 * measuring. finish: measures and releases kept samples. Data thread; finish after each window,
 * once its result is posted. */
void sonar_mask_release(sonar_pipeline *pipeline, const sonar_window *window);
void sonar_mask_finish(sonar_pipeline *pipeline);
/* Logs which sensors are now left out of the beams. Control thread. */
void sonar_mask_log(const sonar_pipeline *pipeline);
/* latency.c, all on the data thread. begin: a window's work begins. add: counts the time since
 * `began` for the part. posted: the result was posted, `posted` being the time just before. count:
 * the result was returned. */
void sonar_latency_begin(sonar_pipeline *pipeline, const sonar_window *window, int64_t began_ns);
void sonar_latency_add(sonar_pipeline *pipeline, sonar_latency_part part, int64_t began_ns);
void sonar_latency_posted(sonar_pipeline *pipeline, const sonar_result *result, int64_t posted_ns);
void sonar_latency_count(sonar_pipeline *pipeline, const sonar_result *result);
/* Limits each measured part to what the parts before it leave of the whole; the rest is OTHER. */
void sonar_latency_split(uint64_t whole_ns, uint64_t part_ns[SONAR_LATENCY_PARTS]);
/* The host's time for a window in a stage outside the engine. */
void sonar_latency_stage(sonar_pipeline *pipeline, sonar_timed_stage stage, uint64_t ns);
/* live.c: makes the first version. */
sonar_code sonar_live_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_live_destroy(sonar_pipeline *pipeline);
/* The steps of sonar_pipeline_reconfigure. make: makes a version. hold: lets the next window adopt
 * it (any thread). tell_others: passes its configuration to other parts of the daemon. drop:
 * discards a version that is never adopted. Control thread, except hold. */
sonar_code sonar_live_make(sonar_pipeline *pipeline, sonar_config *config, struct live **made,
                           sonar_error *err);
void sonar_live_hold(sonar_pipeline *pipeline, struct live *live);
void sonar_live_tell_others(sonar_pipeline *pipeline, const struct live *live);
void sonar_live_drop(sonar_pipeline *pipeline, struct live *live);
/* The parameters of the whole array. */
static inline const sonar_params *sonar_live_whole(const struct live *live) {
    return live->whole ? live->whole : live->params;
}
/* propose.c: sonar_pipeline_reconfigure, _allow and _record. The root of several ranks waits until
 * all have the change; SONAR_EINVAL has the reason of the first that refused. Only for a change of
 * the mask alone it does not wait: attend handles the outcome. create allocates the memory. */
sonar_code sonar_propose_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_propose_destroy(sonar_pipeline *pipeline);
/* Answers the root's letters on other ranks, and handles outcomes on all. Control thread. */
void sonar_propose_attend(sonar_pipeline *pipeline);
/* Sensors that the current letter removes; NULL: none. Control thread of the other ranks. */
const uint8_t *sonar_propose_mask(const sonar_pipeline *pipeline);
/* Frees versions that are no longer used, and logs those that have been adopted. Control thread. */
void sonar_live_tick(sonar_pipeline *pipeline);
/* Adopts the offered version, between two windows. True: the MVDR's covariance has to be reset.
 * Data thread. */
bool sonar_live_adopt(sonar_pipeline *pipeline, const sonar_window *window);
/* Counts a result lent to the output under its version, and one returned. Data thread. */
void sonar_live_lend(sonar_pipeline *pipeline, sonar_result *result);
void sonar_live_take_back(sonar_pipeline *pipeline, sonar_result *result);
/* ends.c: creates the context of all sockets, the memory account of their peers, and the accepted
 * keys. */
sonar_code sonar_pipeline_make_context(sonar_pipeline *pipeline, sonar_error *err);
/* timeout_ms -1: waits for ever. False: libzmq did not finish in time, and the context is leaked.
 */
bool sonar_pipeline_end_context(sonar_pipeline *pipeline, int timeout_ms);
/* ends.c: creates ingest with the ring of samples. Requires a backend and its placement. */
sonar_code sonar_pipeline_make_ingest(sonar_pipeline *pipeline, sonar_error *err);
/* ends.c: creates the output, on the root only. */
sonar_code sonar_pipeline_make_output(sonar_pipeline *pipeline, sonar_error *err);
/* ends.c: sets the keys that may connect on one side. Control thread. */
sonar_code sonar_pipeline_allow_side(sonar_pipeline *pipeline, sonar_domain side,
                                     const sonar_keyring *allowed, sonar_error *err);
/* create.c: makes an engine with each stage on the backend in `place`, for the pipeline's samples.
 */
sonar_code sonar_pipeline_make_engine(sonar_pipeline *pipeline,
                                      const sonar_backend *const place[SONAR_ENGINE_STAGES],
                                      sonar_planning planning, sonar_error *err);
/* pipeline.c: reads times of the stages, since the start and since the last call. Control thread.
 */
void sonar_pipeline_read_times(sonar_pipeline *pipeline, sonar_status *status);
/* navigate.c: sets the heading at the window's middle, and that of the MVDR's samples once these
 * are known. Data thread. */
void sonar_navigate_window(sonar_pipeline *pipeline, const sonar_window *window,
                           sonar_result *result);
void sonar_navigate_mvdr(sonar_pipeline *pipeline, sonar_result *result);
/* The heading at a sample of the window in work, counted from its first one; NaN: unknown. Data
 * thread; after sonar_navigate_window. */
double sonar_navigate_at(sonar_pipeline *pipeline, const sonar_result *result, ptrdiff_t sample);
/* tow.c: how far behind the tow point the last sensor of a towed array is; 0: none follows its
 * path. */
double sonar_tow_reach(const sonar_config *whole);
sonar_code sonar_tow_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_tow_destroy(sonar_pipeline *pipeline);
/* The heading of a towed array at that time, with its facts; NaN: unknown. The thread of the
 * places.
 */
double sonar_tow_heading(sonar_pipeline *pipeline, const sonar_config *config, int64_t utc_ns,
                         struct places *places, sonar_tow *tow);
/* Renews the shape by which this window is steered, if it has changed by enough, and says in the
 * result (NULL: none) which it is. Data thread; after sonar_navigate_window. */
void sonar_tow_bend(sonar_pipeline *pipeline, const sonar_window *window, sonar_result *result);
/* The parameters by which the window in work is steered. Data thread. */
static inline const sonar_params *sonar_pipeline_params(const sonar_pipeline *pipeline) {
    return pipeline->tow && pipeline->tow->under ? pipeline->tow->bent : pipeline->live->params;
}
/* For status. Control thread. */
void sonar_navigate_tick(sonar_pipeline *pipeline, sonar_status *status);
/* beams.c: the beams' time series, if any are configured; of a window whose facts are there. With
 * ranks, run is collective. Data thread. */
sonar_code sonar_beams_create(sonar_pipeline *pipeline, sonar_error *err);
sonar_code sonar_beams_run(sonar_pipeline *pipeline, const struct turn *turn, sonar_error *err);
/* normalised.c: the plan's normalisers; the ratios that the result is to have, once its spectra and
 * facts are there. Data thread. */
sonar_code sonar_normalised_plan(const sonar_config *config, struct plan *plan, sonar_error *err);
void sonar_normalised_run(sonar_pipeline *pipeline, sonar_result *result);
/* Effective number of independent powers in a direction of the CBF's spectrum. */
double sonar_cbf_averages(const struct plan *plan);
/* sped.c: the same of the peaks of each bin. */
sonar_code sonar_peaks_plan(const sonar_config *config, struct plan *plan, sonar_error *err);
void sonar_peaks_run(sonar_pipeline *pipeline, sonar_result *result);
/* detections.c: what finds the tones of contacts, with detections.tones; and the distance of the
 * bins in which they are sought. */
sonar_code sonar_tones_plan(const sonar_config *config, struct plan *plan, sonar_error *err);
double sonar_cbf_bin_hz(const sonar_config *config);
/* faint.c: contacts below the detector's threshold, for tracks. */
sonar_code sonar_faint_plan(const sonar_config *config, struct plan *plan, sonar_error *err);
void sonar_faint_release(struct plan *plan);
/* Data thread: the odds go on under the new plan if its scan and levels are the same. */
void sonar_faint_adopt(const struct plan *before, struct plan *now);
/* Data thread: the contacts of a window's spectrum that are not in its list; returns their count.
 * turned_deg: by which the array has turned since the last window. */
size_t sonar_faint_contacts(sonar_pipeline *pipeline, const sonar_result *result,
                            const sonar_tracks_window *window, double turned_deg,
                            sonar_faint_contact contact[SONAR_FAINT_MOST]);
/* tracks.c: the tracks of the result, once its detections are there. run: data thread. */
sonar_code sonar_tracking_create(sonar_pipeline *pipeline, sonar_error *err);
void sonar_tracking_run(sonar_pipeline *pipeline, sonar_result *result);
/* Where the track of that number is expected by the windows before the result's, that long after
 * the middle of this one. Data thread. */
sonar_track_place sonar_tracking_expect(const sonar_pipeline *pipeline, const sonar_result *result,
                                        uint64_t number, double from_middle_s);
/* Writes the file of tracks that the data thread has prepared, if it has. Control thread. */
void sonar_tracking_tick(sonar_pipeline *pipeline);
/* Stores them for the next start, once the data thread has ended. Control thread. */
void sonar_tracking_save(sonar_pipeline *pipeline);
/* record.c: creates the recorder if one is configured; where its samples and messages come from;
 * starts its thread. */
sonar_code sonar_record_create(sonar_pipeline *pipeline, sonar_error *err);
const sonar_stretch_sink *sonar_record_sink(const sonar_pipeline *pipeline);
sonar_output_tap sonar_record_tap(const sonar_pipeline *pipeline);
sonar_code sonar_record_start(sonar_pipeline *pipeline, sonar_error *err);
/* Recordings describe the sensors by this plan's configuration from now on. Control thread. */
void sonar_record_describe(sonar_pipeline *pipeline, const struct plan *plan);
/* ends.c: the output's spec for a configuration of the whole array; headers follow from it. */
sonar_output_spec sonar_pipeline_output_spec(const sonar_pipeline *pipeline,
                                             const sonar_config *config);
/* train.c: the setup for training a node or looking up its choices; without parameters. Borrows
 * both. */
sonar_train_setup sonar_pipeline_setup(const sonar_config *config, const sonar_host *host);
/* With `block` nothing is lost, and the same input must give the same bytes. */
static inline sonar_planning sonar_pipeline_planning(const sonar_pipeline *p) {
    return p->config->overload == SONAR_BLOCK ? SONAR_PLAN_STABLE : SONAR_PLAN_MEASURE;
}
/* train.c: trains and continues with the outcome; allocates and logs as recover.c does. False: the
 * data thread has to end. Data thread. */
bool sonar_pipeline_retrain(sonar_pipeline *pipeline);
/* recover.c: creates an engine if there is none, on the CPU if necessary. False: the data thread
 * has to end. Data thread. */
bool sonar_pipeline_renew(sonar_pipeline *pipeline);
/* recover.c: after a failed window. False: the data thread has to end. Data thread. */
bool sonar_pipeline_recover(sonar_pipeline *pipeline, const sonar_error *why);
/* For tests: sonar_pipeline_create with a given layout (NULL: as configured). */
sonar_code sonar_pipeline_create_with(const struct layout *given, const sonar_config *config,
                                      void (*log)(void *ctx, sonar_level level, const char *where,
                                                  const char *text),
                                      void *log_ctx, sonar_pipeline **pipeline, sonar_error *err);
/* results.c. put_positions fills element.position; channels that feed no sensor have none. */
void sonar_result_put_positions(const sonar_config *config, const double *position_m,
                                sonar_buffer *to);
sonar_code sonar_pipeline_make_buffers(sonar_pipeline *pipeline, sonar_error *err);
void sonar_pipeline_free_buffers(sonar_pipeline *pipeline);
/* accuracy.c: what the errors of bearings rest on, of a plan and of a version's sensors. With ranks
 * params are the whole array's. */
void sonar_accuracy_plan(const sonar_config *config, struct plan *plan);
sonar_code sonar_accuracy_version(const sonar_params *params, struct live *live, sonar_error *err);
/* Of a window whose spectra and facts are there. The CBF's uses detect_scratch. */
sonar_accuracy sonar_accuracy_cbf(sonar_pipeline *pipeline, const sonar_result *result);
sonar_accuracy sonar_accuracy_mvdr(const sonar_pipeline *pipeline, const sonar_result *result);
/* What declared errors of positions cost, for the status. Control thread. */
void sonar_accuracy_tick(const sonar_pipeline *pipeline, sonar_status *status);
/* detections.c: fills result->detection from its surfaces: with the CBF's contacts; then, once the
 * MVDR's facts are there, with the MVDR's, and with what both need them for. Data thread. */
sonar_code sonar_pipeline_detect_cbf(sonar_pipeline *pipeline, sonar_result *result,
                                     sonar_error *err);
sonar_code sonar_pipeline_detect(sonar_pipeline *pipeline, sonar_result *result, sonar_error *err);
/* detections.c: finds the tops between the directions of mvdr.azimuth, for the detections too. */
sonar_code sonar_pipeline_find_tops(sonar_pipeline *pipeline, const sonar_result *result,
                                    sonar_error *err);
#endif
