/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An engine: the backends at work, the stages on them and the buffers between these. Stages on two
 * backends make it a mixed one: what the DFT made is then copied to the other side. Replaced as a
 * whole when a device fails. */
#ifndef SONAR_ENGINE_H
#define SONAR_ENGINE_H

#include "backend/open.h"
#include "dft/dft.h"
#include "engine/specs.h"

/* The stages whose time is kept, in the order of sonar_status.stage_us; the first three run on a
 * backend. */
enum { STAGE_DFT = 0, STAGE_CBF, STAGE_MVDR, STAGE_DETECT, STAGES };

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
    sonar_event *done, *crossed; /* all enqueued work; what the other side is to read */
    struct spectra spectra;
    sonar_buffer points, point_power; /* u64 [SONAR_DETECT_POINTS][sensor], f32 [point] */
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
struct marks {
    sonar_event *window, *edge[STAGES], *copy_begin; /* edge: before each stage, after the last */
    int64_t window_ns, began_ns[STAGES];
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

/* The work of a window as one graph. */
struct recording {
    uint32_t outputs; /* the surfaces it makes */
    unsigned timed;   /* the stages in it, a bit each */
    sonar_graph *graph;
};

struct engine {
    char name[24]; /* of its backends */
    struct side side[SIDES];
    struct stage dft, mvdr_dft, cbf, mvdr;
    struct buffers buffers;
    struct marks marks;
    /* only with a DFT on a device: */
    bool reads_in_place; /* the sample ring is mapped: nothing has to go over */
    sonar_queue *copies; /* samples go over here, beside the stages' queue */
    sonar_event *copied;
    uint64_t uploaded;         /* places below need no copying */
    struct plan usual;         /* what windows must have in order to be run as a graph */
    bool recording;            /* now: nothing happens yet */
    bool not_as_recorded;      /* the next window finds the stages in another state */
    uint64_t recorded_version; /* of the parameters: another mask makes other launches */
    size_t recordings;
    struct recording *recorded;
};

/* The device's side, or NULL. */
struct side *sonar_engine_device(struct engine *engine);

#endif
