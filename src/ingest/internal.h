/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the assembler's own files share. A frame's way through them: begin.c checks it and decides
 * about it, timeline.c says where it belongs or begins a timeline with it, booking.c stores it.
 * When a window is over, windows.c offers it, loss.c says what it lacks, and outlet.c hands the
 * samples on to the recorder. assembler.c makes all of it and tells others how it fares.
 *
 * The caller of a function declared here holds assembler->lock.
 */
#ifndef SONAR_INGEST_INTERNAL_H
#define SONAR_INGEST_INTERNAL_H

#include <math.h>
#include <pthread.h>

#include "core/core.h"
#include "core/count.h"
#include "ingest/assembler.h"
#include "ingest/blocks.h"
#include "ingest/coverage.h"
#include "ingest/gaps.h"
#include "ingest/lanes.h"
#include "ingest/shed.h"
#include "ingest/store.h"

#define NO_CAUSE SONAR_FRAME_CAUSES /* to drop the frame */

/* ---- state ----------------------------------------------------------------------------------- */

/* Has a frame or a window been dealt with? */
enum outcome {
    DONE = 0,
    BUSY,    /* overload block: not before the data thread releases a window */
    OVERRUN, /* no: the data thread reads where the samples would go */
    TORN     /* no: the samples were overwritten while they were read */
};

/* What the frames told about a window that is not offered yet. */
struct note {
    uint32_t flags;
    uint32_t time_channel; /* first channel of the block that gave the time */
    bool timed;
    int64_t utc_ns;
    int64_t arrival_ns;
};

/* What a window, or some of its channels, lacks. */
struct loss {
    uint64_t absent, worst; /* samples of used channels; most of one of them */
    uint64_t before;        /* the same of the samples that the window looks back to */
    uint64_t fresh;         /* of the absent ones, those that no window before has counted */
};

/* The same, channel by channel, of the window that was measured last. */
struct losses {
    float *missing; /* [channel] share of the window */
    size_t *lost;   /* [channel] samples that no window before has counted */
    sonar_gap_lists gaps;
    size_t words;            /* of lacks: the window's and those it looks back to */
    _Atomic uint64_t *lacks; /* see sonar_window; bits are only set while ranges are measured */
    struct loss *range;      /* [range of channels] */
};

/* A window is told to the data thread in chunks while it fills. */
struct chunks {
    size_t samples; /* 0: none are told */
    uint64_t end;
    size_t waiting_for;     /* used channels that have not reached it */
    _Atomic uint64_t ready; /* all used channels have reached this position */
};

enum { FLAGGED_MOST = 64 };

/* Positions of which a frame said something. */
struct flagged {
    uint64_t from, end;
    uint32_t flags;
};

/* What is handed on to spec.sink. */
struct outlet {
    const sonar_stretch_sink *sink; /* NULL: nobody's */
    uint64_t from;                  /* position of the next sample to hand on */
    /* the time, from the block with the lowest channel */
    uint32_t time_channel;
    uint64_t time_at; /* position of which it was told last */
    int64_t utc_ns;   /* 0 = never */
    size_t flagged_count;
    struct flagged flagged[FLAGGED_MOST]; /* in the order of the frames */
    size_t lacks, lacks_most;
    bool too_many;    /* they did not fit */
    sonar_lack *lack; /* [lacks_most] */
    sonar_lack run;   /* the one that grows; channels 0: none does */
};

/* What reports tell, beside what the others know. A period goes from one report to the next. */
struct memories {
    int64_t adopted_ns, decided_ns; /* the timeline was, a window was last */
    uint32_t *lacked_in;  /* [channel] period in which a window last did without samples of it */
    float *lacked_share;  /* [channel] the worst share of a window since the last read */
    uint32_t period;      /* this one, */
    uint32_t lost_in;     /* the last one in which samples were lost, */
    uint32_t period_read; /* the last one whose report was read */
};

struct sonar_assembler {
    pthread_mutex_t lock; /* of all below but constants, the ring and each lane's books */
    pthread_cond_t alone; /* nobody books side by side any more */
    size_t beside;        /* frames that are being booked side by side; none while windows move */
    /* constants, as the spec has them */
    uint32_t array_id;
    uint32_t first_channel; /* in the array, of those that come here and are counted from it */
    size_t channels, length, hop, lookback, skew, queue_windows;
    double fs_hz, max_missing_share;
    float most_sample;
    bool drop_spikes;
    bool blocking; /* overload block: nothing is dropped, frames wait instead */
    int64_t restart_ns, silent_ns;
    /* channels; which of them count: what another thread asks for holds from the next window on */
    size_t channels_used;
    uint8_t *used;          /* [channel] */
    _Atomic uint8_t *asked; /* [channel] */
    atomic_bool asked_new;
    uint8_t *fed; /* [channel] a sample was stored in this timeline */
    bool all_fed; /* no used channel is without */
    /* the ring, and which of its samples are there */
    size_t capacity;
    sonar_store store;
    sonar_coverage coverage;
    _Atomic uint64_t opened; /* coverage is valid below this position; a multiple of 64 */
    uint64_t *reached;       /* [channel] first position not yet there */
    uint64_t *since;         /* [channel] all is there from here to reached; before, perhaps not */
    uint64_t newest;         /* end of the newest sample that came */
    /* the timeline */
    bool running;
    uint64_t timeline; /* how many there have been */
    uint32_t epoch;
    uint64_t origin, base; /* sample index, a multiple of the hop, and its position */
    int64_t accepted_ns;   /* when a frame was last */
    int64_t stuck_ns;      /* first late frame since; 0: none */
    int64_t last_utc_ns;   /* of the window before; 0: unknown */
    sonar_shed shed;
    /* the window being filled, in positions */
    uint64_t index; /* its number */
    uint64_t first_window, window;
    uint64_t frozen;    /* below: late */
    uint64_t filled;    /* below: gaps already zero, for some window was queued up to here */
    size_t waiting_for; /* used channels that have not reached the window's end */
    struct chunks chunk;
    size_t notes;
    struct note *note; /* [window number mod notes] */
    struct losses loss;
    /* the frame in work */
    int64_t now_ns;        /* of the last frame or tick */
    int64_t arrival_ns;    /* of the last frame that went to the ring */
    float last_peak;       /* of the last frame of f32 that passed */
    sonar_booking pending; /* booked alone */
    bool waits;            /* overload block: that frame waits, stored in part */
    bool owes;             /* overload block: a window that is over waits for room */
    sonar_lanes lanes;
    sonar_blocks blocks;
    sonar_refused refused[SONAR_FRAME_CAUSES];
    struct outlet outlet;
    struct memories memory;
    sonar_window_queue queue;
    _Atomic uint64_t published; /* windows that went to the queue */
    sonar_ingest_counters count;
};

/* ---- positions ------------------------------------------------------------------------------- */

static inline uint64_t sample_at(const sonar_assembler *a, uint64_t position) {
    return a->origin + (position - a->base);
}

/* May wrap below 0 for a sample that is late. */
static inline uint64_t position_of(const sonar_assembler *a, uint64_t sample) {
    return a->base + (sample - a->origin);
}

static inline uint64_t window_end(const sonar_assembler *a) {
    return a->window + a->length;
}

/* The first position that the current window needs: no earlier one is its stream's. */
static inline uint64_t window_begin(const sonar_assembler *a) {
    return a->window - sonar_min_size(a->lookback, (size_t)(a->window - a->first_window));
}

/* Up to here the ring can be opened, in whole words, without losing a position that may still be
 * written or is needed by the current window. */
static inline uint64_t open_limit(const sonar_assembler *a) {
    const uint64_t begin = window_begin(a), lowest = begin < a->frozen ? begin : a->frozen;
    return (lowest & ~(uint64_t)63) + a->capacity;
}

/* The time so many samples later; unsigned, because a peer may claim any time and overflow must
 * stay harmless. */
static inline int64_t utc_after(const sonar_assembler *a, int64_t utc_ns, int64_t samples) {
    return (int64_t)((uint64_t)utc_ns + (uint64_t)llround((double)samples * 1e9 / a->fs_hz));
}

/* A sample before `end` has come, or counts as there. */
static inline void note_newest(sonar_assembler *a, uint64_t end) {
    if (end > a->newest)
        a->newest = end;
}

/* Where the frame lies beside the ring. */
enum relation { INSIDE, BEHIND, AHEAD };

/* Compared in sample indices as they are, so that no claimed index can wrap around. */
static inline enum relation relation_of(const sonar_assembler *a, const sonar_frame *frame) {
    uint64_t window = sample_at(a, a->window), frozen = sample_at(a, a->frozen);
    if (frame->first_sample >= window && frame->first_sample - window > a->capacity)
        return AHEAD;
    return frame->first_sample + frame->samples <= frozen ? BEHIND : INSIDE;
}

/* Is the frame's place in the timeline as it stands? */
static inline bool is_inside(const sonar_assembler *a, const sonar_frame *frame) {
    return a->running && frame->epoch == a->epoch && frame->first_sample >= a->origin &&
           relation_of(a, frame) == INSIDE;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Some of the window's samples were given up. */
static inline bool is_shed(const sonar_assembler *a) {
    return sonar_shed_took(&a->shed, a->window, window_end(a));
}

/* Nothing is missing of the window, or what is missing is waited for no longer. */
static inline bool is_window_over(const sonar_assembler *a) {
    return a->waiting_for == 0 || is_shed(a) || a->newest >= window_end(a) + a->skew;
}

static inline bool is_chunk_over(const sonar_assembler *a) {
    return a->chunk.samples && a->chunk.waiting_for == 0;
}

/* There is something to do for which nobody may book. */
static inline bool is_due(const sonar_assembler *a) {
    return a->running && (is_window_over(a) || is_chunk_over(a));
}

static inline bool is_silent(const sonar_assembler *a, int64_t since_ns, int64_t now_ns) {
    return now_ns - since_ns >= a->restart_ns;
}

/* frame: NULL where it could not be read. */
static inline void drop_frame(sonar_assembler *a, const sonar_frame *frame,
                              sonar_frame_cause cause) {
    sonar_count_add(&a->count.frames_dropped[cause], 1);
    if (frame)
        a->refused[cause] =
            (sonar_refused){.at_ns = a->now_ns,
                            .first_channel = frame->first_channel + a->first_channel,
                            .channels = frame->channels,
                            .array_id = frame->array_id,
                            .fs_hz = frame->fs_hz};
}

static inline void drop_window(sonar_assembler *a, sonar_window_cause cause) {
    sonar_count_add(&a->count.windows_dropped[cause], 1);
}

/* ---- timeline.c ------------------------------------------------------------------------------ */

/* Puts the frame into the timeline, or a new timeline around it. Returns the cause if it belongs to
 * neither, else NO_CAUSE. Nobody books side by side. */
sonar_frame_cause sonar_timeline_join(sonar_assembler *a, const sonar_frame *frame, int64_t now_ns);

/* ---- booking.c ------------------------------------------------------------------------------- */

/* Books a frame of which nobody else books one. False: it waits. */
bool sonar_booking_alone(sonar_assembler *a, const sonar_booking *b);
/* Waits until nobody books side by side, and does what has become due. */
void sonar_booking_be_alone(sonar_assembler *a);

/* ---- windows.c: nobody books side by side, but for open, make_room, note --------------------- */

/* Opens the ring up to `end`, in whole words. */
void sonar_windows_open(sonar_assembler *a, uint64_t end);
/* Makes sure that no offered window's samples lie where positions below `end` would be written. */
enum outcome sonar_windows_make_room(sonar_assembler *a, uint64_t end);
/* Notes what the frame says about every window that [from, end) is part of. */
void sonar_windows_note(sonar_assembler *a, const sonar_booking *b, uint64_t from, uint64_t end);
/* Other channels count, if somebody has asked for them. */
void sonar_windows_take_used(sonar_assembler *a);
/* Tells how far all used channels have come, in whole chunks, and waits for the next. */
void sonar_windows_next_chunk(sonar_assembler *a);
/* The window is over: offers it or counts it missing, and goes on to the next. */
enum outcome sonar_windows_freeze(sonar_assembler *a);
/* Freezes what is complete or has waited long enough. */
enum outcome sonar_windows_advance(sonar_assembler *a);
/* The stream has stopped: freezes all windows that are over, complete or not. */
void sonar_windows_end(sonar_assembler *a);

/* ---- loss.c ---------------------------------------------------------------------------------- */

/* Absent samples of [from, end) of a channel; calls run (if any) for each run of them. */
size_t sonar_loss_absent(const sonar_assembler *a, size_t channel, uint64_t from, uint64_t end,
                         sonar_coverage_run run, void *arg);
/* What the current window lacks, which assembler->loss then has by channel. */
struct loss sonar_loss_measure(sonar_assembler *a);
/* The mean share of its used channels. */
double sonar_loss_mean(const sonar_assembler *a, const struct loss *loss);
/* Zeros into the gaps that were measured. */
void sonar_loss_fill(sonar_assembler *a);
/* Says in the slot what the window and the samples before it lack. */
void sonar_loss_describe(const sonar_assembler *a, const struct loss *loss,
                         sonar_window_slot *slot);
/* The window measured last has lost samples: notes for reports which channels lack some, and counts
 * them for their blocks. */
void sonar_loss_note(sonar_assembler *a);

/* ---- outlet.c -------------------------------------------------------------------------------- */

/* A new timeline's first sample lies there. */
void sonar_outlet_begin(sonar_assembler *a, uint64_t from);
/* Notes what a frame says of [from, end), which has been stored. */
void sonar_outlet_note(sonar_assembler *a, const sonar_booking *b, uint64_t from, uint64_t end);
/* Positions below `end` do not change any more. Nobody books side by side. */
void sonar_outlet_hand_on(sonar_assembler *a, uint64_t end);
/* Hands on what need not wait for the end of its window; at the end of all, the rest too. */
void sonar_outlet_flush(sonar_assembler *a, bool all);

#endif
