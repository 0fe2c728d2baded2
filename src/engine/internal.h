/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the engine's own files share. In the order of a window's way: samples.c brings it to the
 * device, snapshots.c says which snapshots it brings, enqueue.c puts the stages' work into queues,
 * graphs.c does so at once from a recording, run.c is the whole order; timing.c measures. Where
 * ranks share the array, parts.c has the steps between their exchanges (ranks/exchange.h). */
#ifndef SONAR_ENGINE_INTERNAL_H
#define SONAR_ENGINE_INTERNAL_H

#include "core/core.h"
#include "engine/engine.h"

/* Sides, by the memory in which their stages read and write. */
enum { HOST_SIDE = 0, DEVICE_SIDE, SIDES };

/* The DFTs' results as one side has them. */
struct spectra {
    sonar_buffer all;  /* c32 [snapshot][bin][sensor] of the main DFT; owned */
    sonar_buffer cbf;  /* all of that, or a view of rows where the MVDR shares it */
    sonar_buffer mvdr; /* c32 [snapshot][bin][sensor]: such a view, or the MVDR's own, owned */
};

struct side;

struct stage {
    const sonar_stage_ops *ops;
    void *self;
    struct side *side;
};

/* Looks off the grid on their way to a beamformer: a slab of them is steered at and evaluated, then
 * the next, so that turns need room for no more. */
enum { SLAB = SONAR_EXCHANGE_POINTS };
struct aim {
    struct stage steer;
    sonar_buffer looks;  /* f64 [SONAR_ENGINE_POINTS][SONAR_LOOK_FIELDS] */
    sonar_buffer turns;  /* u64 [SLAB][sensor] */
    sonar_buffer powers; /* f32 [SONAR_ENGINE_POINTS] */
};

struct side {
    const sonar_backend *backend; /* NULL: no stage is here */
    sonar_queue *queue;
    sonar_event *done, *transferred; /* all enqueued work; what the other side is to read */
    struct spectra spectra;
    struct aim aim; /* of the engine's sensors */
};

/* What is not the same on both sides, made once. */
struct buffers {
    sonar_buffer cbf[SONAR_CBF_OUTPUTS], mvdr[SONAR_MVDR_OUTPUTS]; /* on the stages' sides */
    sonar_buffer host_info;               /* f32 [bin][SONAR_MVDR_INFO_FIELDS] */
    sonar_buffer host_looks, host_powers; /* as an aim's */
    sonar_buffer ring;                    /* the sample ring's twin on a device, or that itself */
    sonar_buffer column, host_column;     /* u64: where the window lies in it, for recorded work */
};

/* Events around the stages, for their times; none where the backend cannot tell. What lies between
 * two stages counts for the later one. */
struct timestamps {
    sonar_event *window, *edge[SONAR_ENGINE_STAGES + 1], *copy_begin; /* edge: before each stage,
                                                                         after the last */
    int64_t window_ns, began_ns[SONAR_ENGINE_STAGES];
    unsigned recorded, timed; /* of this window: edges, stages; a bit each */
    bool copy_recorded;
    uint64_t copy_ns, last_ns[SONAR_ENGINE_STAGES]; /* of this window; 0: not done, or not told */
};

/* Snapshots that a window brings for the MVDR, its hop apart; those that touch a gap are left out
 * later. */
struct plan {
    int64_t offset; /* samples from the window's first to that of the first snapshot: some begin
                       before the window */
    size_t count;
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
    sonar_window seen; /* the window as the DFT is to read it */
    struct plan plan;
    const uint8_t *keep; /* [plan.count] snapshots without gaps; NULL: all are */
    size_t taken;        /* these: the MVDR's new ones */
    sonar_work work;
    sonar_buffer *surface;    /* NULL: none are wanted, or another rank has them */
    bool absent;              /* this rank has no samples of it */
    const sonar_window *held; /* ingest's; NULL once its samples are ingest's again */
};

static inline bool sonar_job_wants(const struct job *job, sonar_surface surface) {
    return job->work.outputs & SONAR_WANT(surface);
}

/* The work of a window as one graph. */
struct recording {
    uint32_t outputs; /* the surfaces it makes */
    unsigned timed;   /* the stages in it, a bit each */
    sonar_graph *graph;
};

/* Windows in a row that a graph could have been run for, of one version and of the same surfaces,
 * and there was none. */
struct missed {
    uint64_t version; /* of the parameters */
    uint32_t outputs;
    size_t windows;
};

/* A stage's input or output that the host sends or gets: in host memory and, where the stage is on
 * a device, there as well. */
struct both {
    sonar_buffer host, native; /* the same memory on the host's side */
};

/* What a rank has besides. Buffers are of the largest size that is asked for. */
struct parts {
    uint64_t version;              /* of the parameters that the last sums are of */
    struct both products;          /* f64 [snapshot][bin][SONAR_MVDR_PRODUCTS] */
    struct both plan, of_bins;     /* f64 [bin][SONAR_MVDR_PLAN], [bin][sonar_mvdr_sums_most] */
    struct both share_plan, added; /* the same of the share, added */
    struct both of_points, added_points; /* f64 [bin][point of a slab][1 + 2 slots], of the share */
    struct both far, near; /* c32 [snapshot][bin][direction], [snapshot][bin][range, direction] */
    struct both input;     /* c32 [snapshot][bin][sensor] of the whole array: the MVDR's */
    struct both spectrum, info; /* f32 [bin][direction], [bin][info field] of the share */
    struct both eigenvalues;    /* f32 [bin][sonar_mvdr_modes] of it */
    struct both close;          /* f32 [range][direction] of it: the MVDR's near field */
    struct both music;          /* f32 [direction] of it */
    struct aim whole;           /* of all sensors, where no sums are added */
    struct both point_parts;    /* c32 [snapshot][bin][point of a slab] */
    struct both point_power;    /* f32 [point of a slab] */
    float *psd;                 /* [channel][bin] */
    bool absent;                /* from the last run */
};

struct sonar_engine {
    sonar_engine_spec spec;
    sonar_exchange *exchange; /* NULL: no other rank */
    struct parts parts;       /* with ranks */
    sonar_mvdr_spec solves;   /* of the stage mvdr; no bins: there is none */
    const sonar_host *host;
    char name[24]; /* of its backends */
    struct side side[SIDES];
    struct stage dft, mvdr_dft, cbf, mvdr;
    struct stage sums; /* with ranks whose sums are added: makes this one's, which mvdr solves */
    struct buffers buffers;
    struct timestamps timestamps;
    struct history history;
    uint8_t *keep;     /* [snapshot] of a window's: those without gaps */
    sonar_work last;   /* of the last run, for evaluate */
    sonar_buffer info; /* rows of buffers.host_info: the live band's in the last run */
    /* only with a DFT on a device: */
    sonar_queue *copies; /* samples go over here, beside the stages' queue */
    sonar_event *copied;
    uint64_t uploaded;         /* positions below need no copying */
    struct plan usual;         /* what windows must have in order to be run as a graph */
    bool recording;            /* now: nothing happens yet */
    bool not_as_recorded;      /* the next window finds the stages in another state */
    uint64_t recorded_version; /* of the parameters: others make other launches */
    size_t recordings;
    struct recording *recorded; /* [sets of surfaces]; NULL: nothing can be recorded */
    struct missed missed;
};

/* samples.c: the samples are ingest's again, if they are not yet. */
void sonar_job_release(const struct sonar_engine *engine, struct job *job);
/* parts.c: where the CBF puts this rank's part of the beams; from there to where the ranks exchange
 * it, zeros for a rank that is absent. */
sonar_buffer *sonar_parts_beams(const struct sonar_engine *engine, const struct job *job,
                                sonar_buffer out[SONAR_CBF_OUTPUTS]);
sonar_code sonar_parts_fetch_beams(struct sonar_engine *engine, const struct job *job,
                                   sonar_error *err);
/* The rest of a window when the rank's part is made: all exchanges, and the adaptive spectrum
 * between them. */
sonar_code sonar_parts_join(struct sonar_engine *engine, const struct job *job, sonar_error *err);
/* An evaluation where there are other ranks. */
sonar_code sonar_parts_evaluate(struct sonar_engine *engine, sonar_engine_stage which, size_t n,
                                float *power, sonar_error *err);
/* look.c: the first n looks of the host's go where the steering is. */
sonar_code sonar_look_send(struct sonar_engine *engine, struct aim *aim, size_t n,
                           sonar_error *err);
/* Turns of looks [first, first + n) of these, n <= SLAB, for a stage's evaluate. */
sonar_code sonar_look_steer(const struct aim *aim, size_t first, size_t n, const sonar_work *work,
                            sonar_buffer *turns, sonar_error *err);
/* parts_buffers.c */
sonar_code sonar_parts_make_buffers(struct sonar_engine *engine, sonar_error *err);
void sonar_parts_free_buffers(struct sonar_engine *engine);
/* What is live of the specifications. */
static inline const sonar_cbf_spec *sonar_engine_live_cbf(const struct sonar_engine *engine,
                                                          const sonar_params *params) {
    return params->cbf ? params->cbf : &engine->spec.specs->cbf;
}
static inline const sonar_mvdr_spec *sonar_engine_live_mvdr(const struct sonar_engine *engine,
                                                            const sonar_params *params) {
    return params->mvdr ? params->mvdr : &engine->spec.specs->mvdr;
}
/* Rows [first, first + count) of a dense buffer. */
static inline sonar_buffer sonar_engine_rows(const sonar_buffer *all, size_t first, size_t count) {
    const size_t row = (size_t)all->stride[0] * sonar_dtype_size(all->dtype);
    sonar_buffer rows = *all;
    rows.data = (char *)all->data + first * row;
    rows.shape[0] = count;
    rows.bytes = count * row;
    return rows;
}
/* psd.c: element.psd, to the job's surface or, with ranks, to the root's. */
sonar_code sonar_engine_make_psd(struct sonar_engine *engine, const struct job *job,
                                 sonar_error *err);
/* stages.c: opens the side of the place's backend if it is not open yet. */
sonar_code sonar_engine_make_stage(struct sonar_engine *engine, sonar_engine_stage place,
                                   const char *name, const void *spec, struct stage *to,
                                   sonar_error *err);
/* Where new snapshots are wanted. */
static inline struct side *sonar_engine_mvdr_side(const struct sonar_engine *engine) {
    return engine->sums.ops ? engine->sums.side : engine->mvdr.side;
}
struct side *sonar_engine_device(struct sonar_engine *engine); /* its side, or NULL */
/* buffers.c: the backend that host memory comes from, the device's if there is one. */
const sonar_backend *sonar_engine_owner(const struct sonar_engine *engine);
sonar_code sonar_engine_make_buffers(struct sonar_engine *engine, sonar_error *err);
/* Steering beside the stages of a place, and its buffers. */
sonar_code sonar_engine_make_aim(struct sonar_engine *engine, sonar_engine_stage place,
                                 size_t sensors, struct aim *aim, sonar_error *err);
void sonar_engine_free_aim(struct aim *aim);
void sonar_engine_free_buffers(struct sonar_engine *engine);
/* samples.c: copies what is left of the job's window, lets the DFT's queue wait for it and sets
 * job->seen. */
sonar_code sonar_samples_upload(struct sonar_engine *engine, struct job *job, sonar_error *err);
/* snapshots.c */
sonar_code sonar_snapshots_create(struct sonar_engine *engine, sonar_error *err);
/* Chooses those that a window brings and the MVDR has not been offered: job->plan, keep and taken.
 * They enter the history. */
sonar_code sonar_snapshots_choose(struct sonar_engine *engine, const sonar_engine_job *given,
                                  struct job *job, sonar_error *err);
/* The plan of a window in mid-stream, if all windows have the same. */
bool sonar_snapshots_usual(const sonar_specs *specs, struct plan *plan);
void sonar_snapshots_forget(struct history *history);
/* First sample of one of the plan's snapshots. */
uint64_t sonar_snapshots_first(const sonar_specs *specs, const sonar_window *window,
                               const struct plan *plan, size_t index);
/* enqueue.c: everything up to the surfaces of the device, stage by stage: what graphs record. */
sonar_code sonar_enqueue(struct sonar_engine *engine, struct job *job, sonar_error *err);
/* The beamformers of one side. */
sonar_code sonar_enqueue_beamformers(struct sonar_engine *engine, const struct job *job,
                                     const struct side *side, sonar_error *err);
/* What the other side reads of the DFT's results, in `taken` snapshots for the MVDR. */
sonar_code sonar_enqueue_transfer(struct sonar_engine *engine, const struct job *job, size_t taken,
                                  sonar_error *err);
/* graphs.c: records the engine's graphs, where it can have any. Needs buffers and parameters. */
sonar_code sonar_graphs_create(struct sonar_engine *engine, sonar_error *err);
void sonar_graphs_destroy(struct sonar_engine *engine);
/* The graph of a window, or NULL: it has to be enqueued stage by stage. Once for each window. */
const struct recording *sonar_graphs_find(struct sonar_engine *engine, const struct job *job);
/* timing.c: timestamps of a window and of the stages in it. */
sonar_code sonar_timing_create(struct sonar_engine *engine, sonar_error *err);
void sonar_timing_destroy(struct sonar_engine *engine);
sonar_code sonar_timing_window(struct sonar_engine *engine, sonar_error *err);
sonar_code sonar_timing_begin(struct sonar_engine *engine, int stage, sonar_error *err);
sonar_code sonar_timing_end(struct sonar_engine *engine, int stage, sonar_error *err);
/* In place of begin and end for a window whose stages were enqueued as a graph. */
void sonar_timing_replayed(struct sonar_engine *engine, unsigned timed);

#endif
