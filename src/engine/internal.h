/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the engine's own files, in the order in which a window passes them: samples.c copies it
 * to the device, snapshots.c chooses its snapshots, enqueue.c puts the stages' work into queues,
 * graphs.c launches a recording instead, run.c is the whole sequence; timing.c measures. stages.c
 * has the sides and makes stages. Where ranks share the array, parts.c has the steps between their
 * exchanges (ranks/exchange.h). */
#ifndef SONAR_ENGINE_INTERNAL_H
#define SONAR_ENGINE_INTERNAL_H

#include "core/core.h"
#include "engine/engine.h"

/* The two sides of an engine, by the memory in which their stages read and write. */
enum { HOST_SIDE = 0, DEVICE_SIDE, SIDES };

/* The DFTs' results as one side has them. */
struct spectra {
    sonar_buffer all;  /* c32 [snapshot][bin][sensor] of the main DFT; owned */
    sonar_buffer cbf;  /* `all`, or a view of the CBF's rows where the MVDR shares the DFT */
    sonar_buffer mvdr; /* c32 [snapshot][bin][sensor]: such a view, or the MVDR's own, owned */
};

struct side;

struct stage {
    const sonar_stage_ops *ops;
    void *self;
    struct side *side;
};

/* Looks off the grid on their way to a beamformer. They are steered at and evaluated slab by slab,
 * so that the turns need memory for one slab only. */
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
    /* Where the CBF's surfaces are fetched and points off the grid evaluated; `queue` itself unless
     * the engine overlaps. */
    sonar_queue *beside;
    /* Of all enqueued work; of the copies that the other side reads; of the stages before the
     * MVDR. */
    sonar_event *done, *transferred, *beams;
    struct spectra spectra;
    struct aim aim; /* for steering at the engine's own sensors */
};

/* Buffers that exist once, not on each side. */
struct buffers {
    sonar_buffer cbf[SONAR_CBF_OUTPUTS], mvdr[SONAR_MVDR_OUTPUTS]; /* on the stages' sides */
    sonar_buffer host_info;               /* f32 [bin][SONAR_MVDR_INFO_FIELDS] */
    sonar_buffer host_looks, host_powers; /* as an aim's */
    sonar_buffer ring; /* the copy of the sample ring on a device, or the ring itself */
    sonar_buffer column, host_column; /* u64: the window's column in it, read by recorded work */
};

/* Events around the stages, for their times; NULL if the backend has no timestamps. The time
 * between two stages counts for the later one. */
struct timestamps {
    sonar_event *window, *edge[SONAR_ENGINE_STAGES + 1], *copy_begin; /* edge: before each stage,
                                                                         after the last */
    int64_t window_ns, began_ns[SONAR_ENGINE_STAGES];
    unsigned recorded, timed; /* of this window: edges, stages; a bit each */
    bool copy_recorded;
    uint64_t copy_ns, last_ns[SONAR_ENGINE_STAGES]; /* of this window; 0: the stage was not run, or
                                                       was not timed */
};

/* The new snapshots that a window brings for the MVDR, one MVDR hop apart; those that touch a gap
 * are removed later. */
struct plan {
    int64_t offset; /* samples from the window's first to the first snapshot's; negative if the
                       snapshot begins before the window */
    size_t count;
};

/* First samples of the snapshots behind the MVDR spectrum: those of the sliding block, or with
 * forgetting the first one since the reset. */
struct history {
    size_t length; /* snapshots of the block, 1 with forgetting */
    bool forgets;
    uint64_t *first_sample; /* [length], a ring */
    uint64_t count;         /* snapshots since the reset */
    uint64_t end_sample;    /* of the newest */
    uint64_t next;          /* first sample of the next snapshot */
};

/* One window in the engine. */
struct job {
    sonar_window seen; /* the window as the DFT is to read it */
    struct plan plan;
    const uint8_t *keep; /* [plan.count] 1: snapshot without gaps; NULL: all are */
    size_t taken;        /* number of these snapshots, which are new to the MVDR */
    sonar_work work;
    sonar_buffer *surface;    /* NULL: none are wanted, or this rank is not the root */
    bool absent;              /* this rank has no samples of it */
    const sonar_window *held; /* to be released to ingest; NULL: released already */
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

/* Consecutive windows of one version and with the same surfaces that could have run as a graph, if
 * it had been recorded. */
struct missed {
    uint64_t version; /* of the parameters */
    uint32_t outputs;
    size_t windows;
};

/* A stage's input or output that the host sends or receives: in host memory and, where the stage is
 * on a device, on the device too. */
struct both {
    sonar_buffer host, native; /* the same memory where the stage is on the host's side */
};

/* Additional state with ranks. Buffers have the largest size that is used. */
struct parts {
    uint64_t version;          /* version of the parameters of the last sums */
    struct both products;      /* f64 [row][bin][SONAR_MVDR_PRODUCTS] */
    struct both plan, of_bins; /* f64 [bin][SONAR_MVDR_PLAN], [bin][sonar_mvdr_sums_most] */
    struct both share_plan,
        added; /* the same for this rank's share of the bins, added over ranks */
    struct both of_points, added_points; /* f64 [bin][point of a slab][1 + 2 slots], of the share */
    struct both far, near; /* c32 [snapshot][bin][direction], [snapshot][bin][range, direction] */
    struct both input;     /* c32 [snapshot][bin][sensor] of the whole array: the MVDR's */
    struct both spectrum, info; /* f32 [bin][direction], [bin][info field] of the share */
    struct both eigenvalues;    /* f32 [bin][sonar_mvdr_modes] of the share */
    struct both close;          /* f32 [range][direction] of the share: the MVDR's near field */
    struct both music;          /* f32 [direction] of the share */
    struct aim whole; /* for steering at all sensors of the array; used if sums are not added */
    struct both point_parts; /* c32 [snapshot][bin][point of a slab] */
    struct both point_power; /* f32 [point of a slab] */
    float *psd;              /* [channel][bin] */
    bool absent;             /* this rank had no samples in the last run */
};

/* What a window does where sums cross from rank to rank; run.c has the table of one process, which
 * exchanges nothing, parts.c that of ranks. */
struct crossing {
    bool host_transforms; /* the host reads the transforms, whichever stages it has */
    bool records;         /* a window's work can be recorded: nothing in it waits for others */
    /* The stages, steering and buffers that follow from the stages that are made already. */
    sonar_code (*make)(sonar_engine *engine, sonar_error *err);
    /* Clears in engine->keep[snapshots] those that are not to be taken. */
    sonar_code (*keep)(sonar_engine *engine, size_t snapshots, sonar_error *err);
    /* The buffers that the CBF writes to; `part` has room for them. */
    sonar_buffer *(*beams)(sonar_engine *engine, const struct job *job,
                           sonar_buffer part[SONAR_CBF_OUTPUTS]);
    /* The MVDR's turn among the stages of its side. */
    sonar_code (*mvdr)(sonar_engine *engine, const struct job *job, sonar_error *err);
    /* Copies to host memory what was made on this side. */
    sonar_code (*fetch)(sonar_engine *engine, const struct job *job, const struct side *side,
                        sonar_error *err);
    /* Completes a window whose enqueued work is done. */
    sonar_code (*finish)(sonar_engine *engine, const struct job *job, sonar_error *err);
    /* As sonar_engine_evaluate, of the n looks in buffers.host_looks. */
    sonar_code (*evaluate)(sonar_engine *engine, sonar_engine_stage which, size_t n, float *power,
                           sonar_error *err);
};
extern const struct crossing sonar_crossing_alone, sonar_crossing_of_ranks;

struct sonar_engine {
    sonar_engine_spec spec;
    const struct crossing *crossing;
    bool overlaps;            /* the MVDR may run beside what follows the CBF */
    sonar_exchange *exchange; /* NULL: no other ranks */
    struct parts parts;       /* with ranks */
    sonar_mvdr_spec solves;   /* the spec of stage mvdr; 0 bins: the stage does not exist */
    const sonar_host *host;
    char name[24]; /* names of its backends */
    struct side side[SIDES];
    struct stage dft, mvdr_dft, cbf, mvdr;
    struct stage sums; /* with ranks whose sums are added: computes this rank's sums, from which
                          mvdr solves */
    struct side *reads_snapshots; /* the side that reads new snapshots for the MVDR; NULL: none */
    struct buffers buffers;
    struct timestamps timestamps;
    struct history history;
    uint8_t *keep;     /* [snapshot] of a window: 1 for those without gaps */
    struct job job;    /* the window that was begun last */
    sonar_buffer info; /* rows of buffers.host_info: the live band's in the last run */
    /* only with a DFT on a device: */
    sonar_queue *copies; /* copies of samples run here, beside the stages' queue */
    sonar_event *copied;
    uint64_t uploaded;         /* positions below are on the device already */
    struct plan usual;         /* the plan that a window must have to run as a graph */
    bool recording;            /* work is being recorded and not executed */
    bool not_as_recorded;      /* the next window finds the stages in another state than recorded */
    uint64_t recorded_version; /* version of the parameters at the last recording; other versions
                                  need other launches */
    size_t recordings;
    struct recording *recorded; /* [sets of surfaces]; NULL: nothing can be recorded */
    struct missed missed;
};

/* samples.c: releases the window's samples to ingest, unless that was done. */
void sonar_job_release(const struct sonar_engine *engine, struct job *job);
/* look.c: crossing.evaluate of one process. */
sonar_code sonar_look_evaluate(struct sonar_engine *engine, sonar_engine_stage which, size_t n,
                               float *power, sonar_error *err);
/* Copies the first n looks to the side of the steering. */
sonar_code sonar_look_send(struct sonar_engine *engine, struct aim *aim, size_t n,
                           sonar_error *err);
/* Computes the turns of looks [first, first + n), n <= SLAB, for a stage's evaluate. */
sonar_code sonar_look_steer(const struct aim *aim, size_t first, size_t n, const sonar_work *work,
                            sonar_buffer *turns, sonar_error *err);
/* parts_buffers.c: crossing.make of ranks, and its end. */
sonar_code sonar_parts_make(struct sonar_engine *engine, sonar_error *err);
void sonar_parts_free_buffers(struct sonar_engine *engine);
/* The live specifications. */
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
/* psd.c: the mean over the snapshots in the live band's bins, to psd [channel][bin]; channels
 * without a sensor keep what they have. */
void sonar_engine_make_psd(const struct sonar_engine *engine, const sonar_params *params,
                           sonar_buffer *psd);
/* stages.c: opens the side of the place's backend if it is not open yet. */
sonar_code sonar_engine_make_stage(struct sonar_engine *engine, sonar_engine_stage place,
                                   const char *name, const void *spec, struct stage *to,
                                   sonar_error *err);
struct side *sonar_engine_device(struct sonar_engine *engine); /* its side, or NULL */
/* buffers.c: the backend that allocates host memory: the device's if there is one. */
const sonar_backend *sonar_engine_owner(const struct sonar_engine *engine);
sonar_code sonar_engine_make_buffers(struct sonar_engine *engine, sonar_error *err);
/* crossing.make of one process: the surfaces, and the steering beside the MVDR. */
sonar_code sonar_engine_make_surfaces(struct sonar_engine *engine, sonar_error *err);
/* Makes the steering on the side of a place's stage, and its buffers. */
sonar_code sonar_engine_make_aim(struct sonar_engine *engine, sonar_engine_stage place,
                                 size_t sensors, struct aim *aim, sonar_error *err);
void sonar_engine_free_aim(struct aim *aim);
void sonar_engine_free_buffers(struct sonar_engine *engine);
/* samples.c: copies the rest of the job's window, makes the DFT's queue wait for the copy and sets
 * job->seen. */
sonar_code sonar_samples_upload(struct sonar_engine *engine, struct job *job, sonar_error *err);
/* snapshots.c */
sonar_code sonar_snapshots_create(struct sonar_engine *engine, sonar_error *err);
/* Chooses the snapshots that a window brings and that the MVDR has not seen: sets job->plan, keep
 * and taken, and adds them to the history. */
sonar_code sonar_snapshots_choose(struct sonar_engine *engine, const sonar_engine_job *given,
                                  struct job *job, sonar_error *err);
/* The plan of a window in mid-stream; false if it varies from window to window. */
bool sonar_snapshots_usual(const sonar_specs *specs, struct plan *plan);
void sonar_snapshots_forget(struct history *history);
/* First sample of one of the plan's snapshots. */
uint64_t sonar_snapshots_first(const sonar_specs *specs, const sonar_window *window,
                               const struct plan *plan, size_t index);
/* enqueue.c: enqueues everything up to the device's surfaces, stage by stage. Graphs record
 * this. */
sonar_code sonar_enqueue(struct sonar_engine *engine, struct job *job, sonar_error *err);
/* crossing.mvdr of one process. */
sonar_code sonar_enqueue_mvdr(struct sonar_engine *engine, const struct job *job, sonar_error *err);
/* Enqueues the beamformers of one side. */
sonar_code sonar_enqueue_beamformers(struct sonar_engine *engine, const struct job *job,
                                     const struct side *side, sonar_error *err);
/* Copies those results of the DFT that the other side reads, with `taken` snapshots for the
 * MVDR. */
sonar_code sonar_enqueue_transfer(struct sonar_engine *engine, const struct job *job, size_t taken,
                                  sonar_error *err);
/* graphs.c: records the engine's graphs if the device can record. Needs buffers and parameters. */
sonar_code sonar_graphs_create(struct sonar_engine *engine, sonar_error *err);
void sonar_graphs_destroy(struct sonar_engine *engine);
/* The graph of a window; NULL: it must be enqueued stage by stage. Call it once per window. */
const struct recording *sonar_graphs_find(struct sonar_engine *engine, const struct job *job);
/* timing.c: timestamps of a window and of the stages in it. */
sonar_code sonar_timing_create(struct sonar_engine *engine, sonar_error *err);
void sonar_timing_destroy(struct sonar_engine *engine);
sonar_code sonar_timing_window(struct sonar_engine *engine, sonar_error *err);
sonar_code sonar_timing_begin(struct sonar_engine *engine, int stage, sonar_error *err);
sonar_code sonar_timing_end(struct sonar_engine *engine, int stage, sonar_error *err);
/* Replaces begin and end for a window that ran as a graph. */
void sonar_timing_replayed(struct sonar_engine *engine, unsigned timed);

#endif
