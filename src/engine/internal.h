/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the engine's own files share. In the order of a window's way: samples.c brings it to the
 * device, snapshots.c says which snapshots it brings, enqueue.c puts the stages' work into queues,
 * graphs.c does so at once from a recording, run.c is the whole order; timing.c measures. */
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

struct side {
    const sonar_backend *backend; /* NULL: no stage is here */
    sonar_queue *queue;
    sonar_event *done, *transferred; /* all enqueued work; what the other side is to read */
    struct spectra spectra;
    sonar_buffer points, point_power; /* u64 [SONAR_ENGINE_POINTS][sensor], f32 [point] */
};

struct stage {
    const sonar_stage_ops *ops;
    void *self;
    struct side *side;
};

/* What is not the same on both sides, made once. */
struct buffers {
    sonar_buffer cbf[SONAR_CBF_OUTPUTS], mvdr[SONAR_MVDR_OUTPUTS]; /* on the stages' sides */
    sonar_buffer host_info;                     /* f32 [bin][SONAR_MVDR_INFO_FIELDS] */
    sonar_buffer host_points, host_point_power; /* as a side's */
    sonar_buffer ring;                /* the sample ring's twin on a device, or that itself */
    sonar_buffer column, host_column; /* u64: where the window lies in it, for recorded work */
};

/* Events around the stages, for their times; none where the backend cannot tell. What lies between
 * two stages counts for the later one. */
struct timestamps {
    sonar_event *window, *edge[SONAR_ENGINE_STAGES + 1], *copy_begin; /* edge: before each stage,
                                                                         after the last */
    int64_t window_ns, began_ns[SONAR_ENGINE_STAGES];
    unsigned recorded, timed; /* of this window: edges, stages; a bit each */
    bool copy_recorded;
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
    size_t taken; /* the MVDR's new snapshots, those with gaps left out */
    sonar_work work;
    sonar_buffer *surface;    /* NULL: nobody wants any */
    const sonar_window *held; /* ingest's; NULL once its samples are ingest's again */
};

static inline bool sonar_job_wants(const struct job *job, sonar_surface surface) {
    return job->surface && job->work.outputs & SONAR_WANT(surface);
}

/* The work of a window as one graph. */
struct recording {
    uint32_t outputs; /* the surfaces it makes */
    unsigned timed;   /* the stages in it, a bit each */
    sonar_graph *graph;
};

struct sonar_engine {
    sonar_engine_spec spec;
    const sonar_host *host;
    char name[24]; /* of its backends */
    struct side side[SIDES];
    struct stage dft, mvdr_dft, cbf, mvdr;
    struct buffers buffers;
    struct timestamps timestamps;
    struct history history;
    sonar_work last; /* of the last run, for evaluate */
    /* only with a DFT on a device: */
    sonar_queue *copies; /* samples go over here, beside the stages' queue */
    sonar_event *copied;
    uint64_t uploaded;         /* positions below need no copying */
    struct plan usual;         /* what windows must have in order to be run as a graph */
    bool recording;            /* now: nothing happens yet */
    bool not_as_recorded;      /* the next window finds the stages in another state */
    uint64_t recorded_version; /* of the parameters: another mask makes other launches */
    size_t recordings;
    struct recording *recorded;
};

/* engine.c */
struct side *sonar_engine_device(struct sonar_engine *engine); /* its side, or NULL */
/* buffers.c */
sonar_code sonar_engine_make_buffers(struct sonar_engine *engine, sonar_error *err);
void sonar_engine_free_buffers(struct sonar_engine *engine);
/* samples.c: copies what is left of the job's window, lets the DFT's queue wait for it and sets
 * job->seen. */
sonar_code sonar_samples_upload(struct sonar_engine *engine, struct job *job, sonar_error *err);
/* snapshots.c */
sonar_code sonar_snapshots_create(struct sonar_engine *engine, sonar_error *err);
/* Which snapshots a window brings that the MVDR has not seen; takes them as seen. */
struct plan sonar_snapshots_take(struct sonar_engine *engine, const sonar_window *window);
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
/* The graph of a window, or NULL: it has to be enqueued stage by stage. */
const struct recording *sonar_graphs_find(const struct sonar_engine *engine, const struct job *job);
/* timing.c: timestamps of a window and of the stages in it. */
sonar_code sonar_timing_create(struct sonar_engine *engine, sonar_error *err);
void sonar_timing_destroy(struct sonar_engine *engine);
sonar_code sonar_timing_window(struct sonar_engine *engine, sonar_error *err);
sonar_code sonar_timing_begin(struct sonar_engine *engine, int stage, sonar_error *err);
sonar_code sonar_timing_end(struct sonar_engine *engine, int stage, sonar_error *err);
/* In place of begin and end for a window whose stages were enqueued as a graph. */
void sonar_timing_replayed(struct sonar_engine *engine, unsigned timed);

#endif
