/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Shared by the assembler's own files. A frame passes through them in this order: begin.c checks it
 * and decides about it, timeline.c assigns it to a timeline or begins one with it, booking.c stores
 * it. When a window is over, loss.c measures what it lacks, windows.c offers it, and outlet.c
 * passes the samples to the recorder. assembler.c creates the assembler and reports its state.
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

/* Outcome of storing a frame or offering a window. */
enum outcome {
    DONE = 0,
    BUSY,    /* overload block: not possible before the data thread releases a window */
    OVERRUN, /* not stored: the data thread reads where the samples would go */
    TORN     /* not stored: the samples were overwritten while they were read */
};

/* What frames have stated about a window that is not offered yet. */
struct note {
    uint32_t flags;
    uint32_t time_channel; /* first channel of the block that gave the time */
    bool timed;
    int64_t utc_ns;
    int64_t arrival_ns;
};

/* Counts of the samples that a window, or some of its channels, lacks. */
struct loss {
    uint64_t absent, worst; /* samples of used channels; of the channel that lacks most */
    uint64_t before;        /* the same for the window's lookback */
    uint64_t fresh;         /* absent samples that no earlier window has counted */
};

/* The same by channel, for the window measured last. */
struct losses {
    float *missing; /* [channel] share of the window that is absent */
    size_t *lost;   /* [channel] absent samples that no earlier window has counted */
    sonar_gap_lists gaps;
    size_t words;            /* words of `lacks`: for the window and its lookback */
    _Atomic uint64_t *lacks; /* see sonar_window; bits are only set while ranges are measured */
    struct loss *range;      /* [range of channels] */
};

/* The filling window is announced to the data thread in chunks. */
struct chunks {
    size_t samples; /* 0: no chunks are announced */
    uint64_t end;
    size_t waiting_for;     /* used channels that have not reached it */
    _Atomic uint64_t ready; /* all used channels have reached this position */
};

enum { FLAGGED_MOST = 64 };

/* A range of positions that frames have described. */
struct flagged {
    uint64_t from, end;
    uint32_t flags;
};

/* What is passed to spec.sink. */
struct outlet {
    const sonar_stretch_sink *sink; /* NULL: there is none */
    uint64_t from;                  /* position of the next sample to pass on */
    /* the time, from the block with the lowest channel */
    uint32_t time_channel;
    uint64_t time_at; /* last position whose time is known */
    int64_t utc_ns;   /* 0 = never */
    size_t flagged_count;
    struct flagged flagged[FLAGGED_MOST]; /* in the order of the frames */
    size_t lacks, lacks_most;
    bool too_many;    /* more lacks than the list holds */
    sonar_lack *lack; /* [lacks_most] */
    sonar_lack run;   /* the lack being extended; channels 0: none */
};

/* State that only reports need. A period lasts from one report to the next. */
struct memories {
    int64_t adopted_ns,
        decided_ns;       /* when the timeline was adopted, when the last window was decided */
    uint32_t *lacked_in;  /* [channel] last period in which a window lacked samples of it */
    float *lacked_share;  /* [channel] the worst share of a window since the last read */
    uint32_t period;      /* the current period, */
    uint32_t lost_in;     /* the last one in which samples were lost, */
    uint32_t period_read; /* the last one whose report was read */
};

struct sonar_assembler {
    pthread_mutex_t lock; /* protects all members below, except constants, the ring, and what a
                             lane's lock protects */
    pthread_cond_t alone; /* signalled when no booking is running */
    size_t beside;        /* frames being booked concurrently; 0 while windows advance */
    /* constants, from the spec */
    uint32_t array_id;
    uint32_t first_channel; /* number, in the array, of the first channel that arrives here; other
                               channels count from it */
    size_t channels, length, hop, lookback, skew, queue_windows;
    double fs_hz, max_missing_share;
    float most_sample;
    bool drop_spikes;
    bool blocking; /* overload block: frames wait instead of being dropped */
    int64_t restart_ns, silent_ns;
    /* channels; another thread may request a change of the used ones, which takes effect with the
     * next window */
    size_t channels_used;
    uint8_t *used;          /* [channel] */
    _Atomic uint8_t *asked; /* [channel] */
    atomic_bool asked_new;
    uint8_t *fed; /* [channel] a sample was stored in this timeline */
    bool all_fed; /* all used channels are fed */
    /* the ring, and which of its samples are present */
    size_t capacity;
    sonar_store store;
    sonar_coverage coverage;
    _Atomic uint64_t opened; /* coverage is valid below this position; a multiple of 64 */
    uint64_t *reached;       /* [channel] first position not yet present */
    uint64_t *since; /* [channel] all positions from here to `reached` are present; earlier ones may
                        be absent */
    uint64_t newest; /* end of the newest sample received */
    /* the timeline */
    bool running;
    uint64_t timeline; /* number of timelines so far */
    uint32_t epoch;
    uint64_t origin, base; /* sample index, a multiple of the hop, and its position */
    int64_t accepted_ns;   /* time of the last frame */
    int64_t stuck_ns;      /* time of the first late frame since then; 0: none */
    int64_t last_utc_ns;   /* of the window before; 0: unknown */
    sonar_shed shed;
    /* the window being filled, in positions */
    uint64_t index; /* its number */
    uint64_t first_window, window;
    uint64_t frozen; /* positions below are frozen */
    uint64_t filled; /* gaps below are zeroed already, because a window that was queued extended to
                        here */
    size_t waiting_for; /* used channels that have not reached the window's end */
    struct chunks chunk;
    size_t notes;
    struct note *note; /* [window number mod notes] */
    struct losses loss;
    /* the frame being processed */
    int64_t now_ns;        /* of the last frame or tick */
    int64_t arrival_ns;    /* of the last frame stored in the ring */
    float last_peak;       /* of the last accepted frame of f32 */
    sonar_booking pending; /* no other frame is booked concurrently */
    bool waits;            /* overload block: that frame waits, partly stored */
    bool window_waits;     /* overload block: a complete window waits for room */
    sonar_lanes lanes;
    sonar_blocks blocks;
    sonar_refused refused[SONAR_FRAME_CAUSES];
    struct outlet outlet;
    struct memories memory;
    sonar_window_queue queue;
    _Atomic uint64_t published; /* windows passed to the queue */
    sonar_ingest_counters count;
};

/* ---- positions ------------------------------------------------------------------------------- */

static inline uint64_t sample_at(const sonar_assembler *a, uint64_t position) {
    return a->origin + (position - a->base);
}

/* Wraps below 0 for a late sample. */
static inline uint64_t position_of(const sonar_assembler *a, uint64_t sample) {
    return a->base + (sample - a->origin);
}

static inline uint64_t window_end(const sonar_assembler *a) {
    return a->window + a->length;
}

/* The first position that the current window needs; earlier ones belong to another stream. */
static inline uint64_t window_begin(const sonar_assembler *a) {
    return a->window - sonar_min_size(a->lookback, (size_t)(a->window - a->first_window));
}

/* Up to this position the ring can be opened, in whole words, without losing a position that may
 * still be written or is needed by the current window. */
static inline uint64_t open_limit(const sonar_assembler *a) {
    const uint64_t begin = window_begin(a), lowest = begin < a->frozen ? begin : a->frozen;
    return (lowest & ~(uint64_t)63) + a->capacity;
}

/* The time this many samples later. Unsigned, because a peer may claim any time and overflow must
 * stay harmless. */
static inline int64_t utc_after(const sonar_assembler *a, int64_t utc_ns, int64_t samples) {
    return (int64_t)((uint64_t)utc_ns + (uint64_t)llround((double)samples * 1e9 / a->fs_hz));
}

/* A sample before `end` was received, or counts as received. */
static inline void note_newest(sonar_assembler *a, uint64_t end) {
    if (end > a->newest)
        a->newest = end;
}

/* Where the frame lies relative to the ring. */
enum relation { INSIDE, BEHIND, AHEAD };

/* Compares the sample indices as received, so that no claimed index can wrap around. */
static inline enum relation relation_of(const sonar_assembler *a, const sonar_frame *frame) {
    uint64_t window = sample_at(a, a->window), frozen = sample_at(a, a->frozen);
    if (frame->first_sample >= window && frame->first_sample - window > a->capacity)
        return AHEAD;
    return frame->first_sample + frame->samples <= frozen ? BEHIND : INSIDE;
}

/* True if the frame has a place in the current timeline. */
static inline bool is_inside(const sonar_assembler *a, const sonar_frame *frame) {
    return a->running && frame->epoch == a->epoch && frame->first_sample >= a->origin &&
           relation_of(a, frame) == INSIDE;
}

/* ---- states ---------------------------------------------------------------------------------- */

/* Some of the window's samples were dropped by shedding. */
static inline bool is_shed(const sonar_assembler *a) {
    return sonar_shed_took(&a->shed, a->window, window_end(a));
}

/* The window is complete, or is no longer waited for. */
static inline bool is_window_over(const sonar_assembler *a) {
    return a->waiting_for == 0 || is_shed(a) || a->newest >= window_end(a) + a->skew;
}

static inline bool is_chunk_over(const sonar_assembler *a) {
    return a->chunk.samples && a->chunk.waiting_for == 0;
}

/* Something is due that needs that no frame is being booked. */
static inline bool is_due(const sonar_assembler *a) {
    return a->running && (is_window_over(a) || is_chunk_over(a));
}

static inline bool is_silent(const sonar_assembler *a, int64_t since_ns, int64_t now_ns) {
    return now_ns - since_ns >= a->restart_ns;
}

/* frame: NULL if its header could not be read */
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

/* Assigns the frame to the timeline, or begins a new timeline with it. Returns the cause if neither
 * is possible, else NO_CAUSE. Requires that no frame is being booked. */
sonar_frame_cause sonar_timeline_join(sonar_assembler *a, const sonar_frame *frame, int64_t now_ns);

/* ---- booking.c ------------------------------------------------------------------------------- */

/* Books a frame while no other is being booked. False: it waits. */
bool sonar_booking_alone(sonar_assembler *a, const sonar_booking *b);
/* Waits until no frame is being booked, and does what has become due. */
void sonar_booking_wait_alone(sonar_assembler *a);

/* ---- windows.c: called while no frame is booked, except open, make_room, note ---------------- */

/* Opens the ring up to `end`, in whole words. */
void sonar_windows_open(sonar_assembler *a, uint64_t end);
/* Ensures that no offered window has samples where positions below `end` would be written. */
enum outcome sonar_windows_make_room(sonar_assembler *a, uint64_t end);
/* Notes what the frame states about every window that overlaps [from, end). */
void sonar_windows_note(sonar_assembler *a, const sonar_booking *b, uint64_t from, uint64_t end);
/* Applies a requested change of which channels count. */
void sonar_windows_take_used(sonar_assembler *a);
/* Announces how far all used channels have been received, in whole chunks, and begins the next
 * chunk. */
void sonar_windows_next_chunk(sonar_assembler *a);
/* The window is over: offers it or counts it as missing, and begins the next. */
enum outcome sonar_windows_freeze(sonar_assembler *a);
/* Freezes windows that are complete or have waited long enough. */
enum outcome sonar_windows_advance(sonar_assembler *a);
/* The stream has stopped: freezes all windows that are over, complete or not. */
void sonar_windows_end(sonar_assembler *a);

/* ---- loss.c ---------------------------------------------------------------------------------- */

/* Counts the absent samples of [from, end) of a channel; calls run (if any) for each run of them.
 */
size_t sonar_loss_absent(const sonar_assembler *a, size_t channel, uint64_t from, uint64_t end,
                         sonar_coverage_run run, void *arg);
/* Measures what the current window lacks, and sets assembler->loss, which has it by channel. */
struct loss sonar_loss_measure(sonar_assembler *a);
/* The mean absent share of its used channels. */
double sonar_loss_mean(const sonar_assembler *a, const struct loss *loss);
/* Writes zeros into the measured gaps. */
void sonar_loss_fill(sonar_assembler *a);
/* Describes in the slot what the window and its lookback lack. */
void sonar_loss_describe(const sonar_assembler *a, const struct loss *loss,
                         sonar_window_slot *slot);
/* Called when the window measured last has lost samples: notes for reports which channels lack
 * some, and counts them for their blocks. */
void sonar_loss_note(sonar_assembler *a);

/* ---- outlet.c -------------------------------------------------------------------------------- */

/* The position of a new timeline's first sample. */
void sonar_outlet_begin(sonar_assembler *a, uint64_t from);
/* Notes the flags and time of a frame for [from, end), which has been stored. */
void sonar_outlet_note(sonar_assembler *a, const sonar_booking *b, uint64_t from, uint64_t end);
/* Passes on the samples below `end`, which no longer change. Requires that no frame is being
 * booked. */
void sonar_outlet_hand_on(sonar_assembler *a, uint64_t end);
/* Passes on samples that need not wait for the end of their window; with `all`, the rest too. */
void sonar_outlet_flush(sonar_assembler *a, bool all);

#endif
