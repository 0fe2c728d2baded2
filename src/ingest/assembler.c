/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/assembler.h"

#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/count.h"
#include "ingest/blocks.h"
#include "ingest/coverage.h"
#include "ingest/frame.h"
#include "ingest/gaps.h"
#include "ingest/lanes.h"
#include "ingest/shed.h"
#include "ingest/store.h"

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

enum outcome { DONE = 0, BUSY, OVERRUN, TORN };

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

struct sonar_assembler {
    pthread_mutex_t lock; /* of all below but constants, the ring and each lane's books */
    pthread_cond_t alone; /* nobody books side by side any more */
    size_t beside;        /* frames that are being booked side by side; none while windows move */
    /* constants */
    uint32_t array_id;
    uint32_t first_channel; /* in the array, of those that come here and are counted from it */
    size_t channels, length, hop, lookback, skew, queue_windows;
    double fs_hz, max_missing_share;
    float most_sample;
    bool drop_spikes;
    float peak; /* of the last frame that passed */
    bool block;
    int64_t restart_ns, silent_ns;
    /* which channels count; what another thread asks for holds from the next window on */
    size_t channels_used;
    uint8_t *used;          /* [channel] */
    _Atomic uint8_t *asked; /* [channel] */
    atomic_bool asked_new;
    /* the ring */
    size_t capacity;
    sonar_store store;
    sonar_coverage coverage;
    sonar_shed shed;
    /* the timeline */
    bool running;
    uint64_t timeline;
    uint32_t epoch;
    uint64_t origin, base;         /* sample index, a multiple of the hop, and its position */
    int64_t accepted_ns, stuck_ns; /* last accepted; first late one since, 0 = none */
    int64_t arrival_ns;            /* of the last frame that went to the ring */
    /* the window being filled, in positions */
    uint64_t index, first_window, window;
    uint64_t frozen;         /* below: late */
    uint64_t filled;         /* below: gaps already zero, for some window was queued up to here */
    uint64_t newest;         /* end of the newest sample that came */
    _Atomic uint64_t opened; /* coverage is valid below; a multiple of 64 */
    uint64_t *reached;       /* [channel] first position not yet there */
    uint64_t *since;         /* [channel] all is there from here to reached; before, perhaps not */
    size_t waiting_for;      /* used channels that have not reached the window's end */
    size_t chunk;            /* 0: none are told */
    uint64_t chunk_end;
    size_t chunk_waiting_for; /* used channels that have not reached it */
    _Atomic uint64_t ready;   /* all used channels have reached it */
    size_t notes;
    struct note *note; /* [window number mod notes] */
    float *missing;    /* [channel] */
    size_t *lost;      /* [channel] samples of the window decided last that no window had before */
    sonar_gap_lists gaps;
    size_t words;            /* of lacks: the window's and those it looks back to */
    _Atomic uint64_t *lacks; /* see sonar_window; bits are only set while ranges are measured */
    struct loss *loss;       /* [range of channels] */
    int64_t last_utc_ns;     /* of the window before, 0 = unknown */
    /* for reports */
    int64_t now_ns; /* of the last frame or tick */
    int64_t adopted_ns, decided_ns;
    uint8_t *fed;        /* [channel] a sample was stored in this timeline */
    bool all_fed;        /* no used channel is without */
    uint32_t *lacked_in; /* [channel] period in which a window last did without samples of it */
    float *lacked_share; /* [channel] the worst share of a window since the last read */
    uint32_t period, lost_in, read; /* from one report to the next: this one, the last one with
                                       losses, the last one that was read */
    bool waits;                     /* overload block: the frame below waits, stored in part */
    bool owes;                      /* overload block: a window that is over waits for room */
    sonar_booking pending;
    sonar_lanes lanes;
    sonar_blocks blocks;
    struct outlet outlet;
    sonar_window_queue queue;
    _Atomic uint64_t published; /* windows that went to the queue */
    sonar_ingest_counters count;
};

/* ---- counters -------------------------------------------------------------------------------- */

static void drop(sonar_assembler *a, sonar_frame_cause cause) {
    sonar_count_add(&a->count.frames_dropped[cause], 1);
}

/* What was received is the sum of the others, what waits their difference, and not a counter of its
 * own: read at another moment, that would be one off while a frame is being placed. */
void sonar_assembler_read_counters(const sonar_assembler *a, sonar_ingest_counters *to) {
    sonar_count_copy(to, &a->count, sizeof *to);
    to->frames_received = to->frames_accepted;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        to->frames_received += to->frames_dropped[i];
    const uint64_t gone = to->windows_taken + to->windows_dropped[SONAR_WINDOW_OVERLOAD];
    to->windows_waiting = to->windows_offered > gone ? to->windows_offered - gone : 0;
}

/* ---- positions ------------------------------------------------------------------------------- */

static uint64_t window_end(const sonar_assembler *a) {
    return a->window + a->length;
}

static uint64_t sample_at(const sonar_assembler *a, uint64_t position) {
    return a->origin + (position - a->base);
}

/* The first position that the current window needs: no earlier one is its stream's. */
static uint64_t window_begin(const sonar_assembler *a) {
    return a->window - sonar_min_size(a->lookback, (size_t)(a->window - a->first_window));
}

/* The earliest position that may still be written or is needed by the current window. */
static uint64_t lowest_live(const sonar_assembler *a) {
    uint64_t begin = window_begin(a);
    return begin < a->frozen ? begin : a->frozen;
}

/* Up to here the ring can be opened without losing a live position, in whole words. */
static uint64_t open_limit(const sonar_assembler *a) {
    return (lowest_live(a) & ~(uint64_t)63) + a->capacity;
}

static void open_to(sonar_assembler *a, uint64_t end) {
    end = (end + 63) & ~(uint64_t)63;
    if (end <= a->opened)
        return;
    sonar_coverage_forget(&a->coverage, a->opened, end);
    atomic_store_explicit(&a->opened, end, memory_order_release);
}

/* Makes sure that no offered window's samples lie where positions below `end` would be written. */
static enum outcome make_room(sonar_assembler *a, uint64_t end) {
    for (;;) {
        bool taken;
        const sonar_window_slot *slot = sonar_window_queue_earliest(&a->queue, &taken);
        if (!slot || end - slot->ring_first <= a->capacity)
            return DONE;
        if (a->block)
            return BUSY;
        if (taken)
            return OVERRUN;
        if (sonar_window_queue_steal(&a->queue))
            sonar_count_add(&a->count.windows_dropped[SONAR_WINDOW_OVERLOAD], 1);
    }
}

/* ---- offering windows ------------------------------------------------------------------------ */

/* Some used channel lacks these samples. A word that says so already is only read: neighbours often
 * lack the same, and several threads look at them. */
static void lack(void *arg, size_t channel, uint64_t from, size_t samples) {
    sonar_assembler *a = arg;
    uint64_t at = from - (window_begin(a) & ~(uint64_t)63), end = at + samples;
    (void)channel;
    for (uint64_t next; at < end; at = next) {
        next = (at | 63) + 1 < end ? (at | 63) + 1 : end;
        uint64_t bits = ~(uint64_t)0 >> (64 - (next - at)) << at % 64;
        _Atomic uint64_t *word = &a->lacks[at / 64];
        if (bits & ~atomic_load_explicit(word, memory_order_relaxed))
            atomic_fetch_or_explicit(word, bits, memory_order_relaxed);
    }
}

/* The same in the window itself. */
static void lack_in_window(void *arg, size_t channel, uint64_t from, size_t samples) {
    sonar_assembler *a = arg;
    lack(a, channel, from, samples);
    sonar_gaps_add(&a->gaps, channel, (uint32_t)(from - a->window), (uint32_t)samples);
}

/* Absent samples of [from, end); what was never opened is absent as a whole. */
static size_t absent(const sonar_assembler *a, size_t channel, uint64_t from, uint64_t end,
                     sonar_coverage_run run, void *arg) {
    uint64_t known = end < a->opened ? end : a->opened;
    if (known < from)
        known = from;
    size_t count = sonar_coverage_absent(&a->coverage, channel, from, known, run, arg);
    if (known < end && run)
        run(arg, channel, known, (size_t)(end - known));
    return count + (size_t)(end - known);
}

/* Of one channel. Most lack nothing, and need no look at their bits. */
static void measure_channel(sonar_assembler *a, size_t k, struct loss *loss) {
    uint64_t end = window_end(a), fresh = a->window < a->frozen ? a->frozen : a->window;
    a->missing[k] = 0;
    a->lost[k] = 0;
    sonar_gaps_clear(&a->gaps, k);
    if (a->since[k] <= window_begin(a) && a->reached[k] >= end)
        return;
    size_t count = absent(a, k, a->window, end, a->used[k] ? lack_in_window : NULL, a);
    a->missing[k] = (float)((double)count / (double)a->length);
    if (!a->used[k])
        return;
    loss->before += absent(a, k, window_begin(a), a->window, lack, a);
    loss->absent += count;
    loss->worst = count > loss->worst ? count : loss->worst;
    if (count && fresh < end)
        loss->fresh += a->lost[k] = absent(a, k, fresh, end, NULL, NULL);
}

static void measure_range(void *arg, size_t range, size_t worker) {
    sonar_assembler *a = arg;
    struct loss loss = {0};
    (void)worker;
    for (size_t k = sonar_store_range_begin(&a->store, range);
         k < sonar_store_range_begin(&a->store, range + 1); k++)
        measure_channel(a, k, &loss);
    a->loss[range] = loss;
}

static struct loss measure(sonar_assembler *a) {
    struct loss all = {0};
    memset(a->lacks, 0, a->words * sizeof *a->lacks);
    sonar_store_each_range(&a->store, measure_range, a);
    for (size_t i = 0; i < a->store.ranges; i++) {
        const struct loss *loss = &a->loss[i];
        all.absent += loss->absent;
        all.worst = loss->worst > all.worst ? loss->worst : all.worst;
        all.before += loss->before;
        all.fresh += loss->fresh;
    }
    return all;
}

static double mean_loss(const sonar_assembler *a, const struct loss *loss) {
    return (double)loss->absent / ((double)a->channels_used * (double)a->length);
}

static void fill_zeros(void *arg, size_t channel, uint64_t from, size_t samples) {
    sonar_store_zero(arg, channel, from, samples);
}

/* Only above what was queued before: the data thread may be reading below. */
static void fill_range(void *arg, size_t range, size_t worker) {
    sonar_assembler *a = arg;
    uint64_t end = window_end(a), from = a->window < a->filled ? a->filled : a->window;
    (void)worker;
    for (size_t k = sonar_store_range_begin(&a->store, range);
         k < sonar_store_range_begin(&a->store, range + 1) && from < end; k++)
        if (a->missing[k] > 0)
            absent(a, k, from, end, fill_zeros, &a->store);
}

/* Zeros into the gaps that measure found. */
static void fill_gaps(sonar_assembler *a) {
    sonar_store_each_range(&a->store, fill_range, a);
    a->filled = window_end(a) > a->filled ? window_end(a) : a->filled;
}

static struct note *note_of(sonar_assembler *a, uint64_t window) {
    return &a->note[(window - a->first_window) / a->hop % a->notes];
}

static int64_t after(const sonar_assembler *a, int64_t utc_ns, uint64_t samples) {
    /* Unsigned, because a peer may claim any time and overflow must stay harmless. */
    return (int64_t)((uint64_t)utc_ns + (uint64_t)llround((double)samples * 1e9 / a->fs_hz));
}

/* From the frame that held the window's first sample, else counted on from the window before. */
static int64_t utc_of_window(const sonar_assembler *a, const struct note *note) {
    if (note->timed)
        return note->utc_ns;
    return a->last_utc_ns ? after(a, a->last_utc_ns, a->hop) : 0;
}

/* What the window and the samples before it lack. */
static void describe_loss(const sonar_assembler *a, const struct loss *loss,
                          sonar_window_slot *slot) {
    memcpy(slot->missing, a->missing, a->channels * sizeof *a->missing);
    slot->window.missing = slot->missing;
    slot->window.missing_mean = mean_loss(a, loss);
    slot->window.missing_worst = (double)loss->worst / (double)a->length;
    if (loss->absent)
        slot->window.gaps = sonar_gaps_copy(&a->gaps, slot->gap_count, slot->gap);
    if (loss->absent || loss->before) {
        memcpy(slot->lacks, a->lacks, a->words * sizeof *slot->lacks);
        slot->window.lacks = slot->lacks;
    }
}

static void describe(sonar_assembler *a, const struct loss *loss, sonar_window_slot *slot) {
    const struct note *note = note_of(a, a->window);
    slot->ring_first = window_begin(a);
    slot->timeline = a->timeline;
    slot->window = (sonar_window){.window = a->index,
                                  .first_sample = sample_at(a, a->window),
                                  .epoch = a->epoch,
                                  .utc_ns = utc_of_window(a, note),
                                  .lookback = (size_t)(a->window - window_begin(a)),
                                  .flags = note->flags,
                                  .arrival_ns = note->arrival_ns ? note->arrival_ns : a->arrival_ns,
                                  .ring = sonar_assembler_ring(a),
                                  .position = a->window,
                                  .ring_column = (size_t)(a->window % a->capacity),
                                  .slot = slot};
    describe_loss(a, loss, slot);
}

/* A slot for the new window, at the cost of the oldest waiting one if need be. NULL in block mode:
 * wait; otherwise: the data thread holds them all. */
static sonar_window_slot *slot_for_window(sonar_assembler *a) {
    for (;;) {
        bool full = sonar_window_queue_waiting(&a->queue) >= a->queue_windows;
        sonar_window_slot *slot = full ? NULL : sonar_window_queue_free_slot(&a->queue);
        if (slot || a->block)
            return slot;
        if (sonar_window_queue_steal(&a->queue))
            sonar_count_add(&a->count.windows_dropped[SONAR_WINDOW_OVERLOAD], 1);
        else if (!(slot = sonar_window_queue_free_slot(&a->queue)))
            return NULL;
    }
}

static enum outcome offer(sonar_assembler *a, const struct loss *loss) {
    enum outcome outcome = make_room(a, window_end(a));
    if (outcome)
        return outcome;
    sonar_window_slot *slot = slot_for_window(a);
    if (!slot && a->block)
        return BUSY;
    sonar_count_add(&a->count.windows_offered, 1);
    if (!slot) {
        sonar_count_add(&a->count.windows_dropped[SONAR_WINDOW_OVERLOAD], 1);
        return DONE;
    }
    open_to(a, window_end(a));
    fill_gaps(a);
    describe(a, loss, slot);
    sonar_window_queue_publish(slot);
    atomic_fetch_add(&a->published, 1);
    return DONE;
}

/* Tells how far all used channels have come, in whole chunks, and waits for the next. */
static void next_chunk(sonar_assembler *a) {
    uint64_t lowest = UINT64_MAX;
    if (!a->chunk)
        return;
    for (size_t k = 0; k < a->channels; k++)
        if (a->used[k] && a->reached[k] < lowest)
            lowest = a->reached[k];
    lowest -= lowest % a->chunk;
    a->chunk_end = lowest + a->chunk;
    a->chunk_waiting_for = 0;
    for (size_t k = 0; k < a->channels; k++)
        a->chunk_waiting_for += a->used[k] && a->reached[k] < a->chunk_end;
    if (lowest > atomic_load_explicit(&a->ready, memory_order_relaxed))
        atomic_store_explicit(&a->ready, lowest, memory_order_release);
}

/* Where each channel stands after the window has moved. */
static void follow_channels(sonar_assembler *a) {
    uint64_t begin = window_begin(a), live = a->frozen > begin ? a->frozen : begin;
    a->waiting_for = 0;
    for (size_t k = 0; k < a->channels; k++) {
        if (a->reached[k] < live) {
            a->since[k] = live;
            a->reached[k] = sonar_coverage_next_absent(&a->coverage, k, live,
                                                       live > a->opened ? live : a->opened);
        }
        a->waiting_for += a->used[k] && a->reached[k] < window_end(a);
    }
    next_chunk(a);
}

/* Some of the window's samples were given up. */
static bool is_shed(const sonar_assembler *a) {
    return sonar_shed_took(&a->shed, a->window, window_end(a));
}

/* ---- handing samples on ---------------------------------------------------------------------- */

/* The run is whole. What the channel before lacks is often the same. */
static void end_run(struct outlet *o) {
    enum { LOOK_BACK = 64 };
    const sonar_lack run = o->run;
    if (!run.channels)
        return;
    o->run.channels = 0;
    for (size_t i = o->lacks; i > 0 && i + LOOK_BACK > o->lacks; i--) {
        sonar_lack *at = &o->lack[i - 1];
        if (at->first_channel + at->channels == run.first_channel && at->begin == run.begin &&
            at->end == run.end) {
            at->channels++;
            return;
        }
    }
    o->too_many = o->too_many || o->lacks == o->lacks_most;
    if (!o->too_many)
        o->lack[o->lacks++] = run;
}

static void note_run(void *arg, size_t channel, uint64_t from, size_t samples) {
    struct outlet *o = &((sonar_assembler *)arg)->outlet;
    const uint32_t begin = (uint32_t)(from - o->from), end = begin + (uint32_t)samples;
    if (o->run.channels && o->run.first_channel == channel && o->run.end == begin) {
        o->run.end = end;
        return;
    }
    end_run(o);
    o->run = (sonar_lack){(uint32_t)channel, 1, begin, end};
}

/* Lists what the next so many samples lack; false if that is too much for the list. */
static bool list_lacks(sonar_assembler *a, size_t samples) {
    struct outlet *o = &a->outlet;
    const uint64_t end = o->from + samples;
    o->lacks = 0;
    o->too_many = false;
    for (size_t k = 0; k < a->channels && !o->too_many; k++)
        if (a->since[k] > o->from || a->reached[k] < end)
            absent(a, k, o->from, end, note_run, a);
    end_run(o);
    return !o->too_many;
}

static bool all_lack(const sonar_assembler *a, size_t samples) {
    const struct outlet *o = &a->outlet;
    return o->lacks == 1 && o->lack[0].channels == a->channels &&
           o->lack[0].end - o->lack[0].begin == samples;
}

/* Flags of the next sample; *samples is cut to those that have the same. */
static uint32_t flags_of_next(struct outlet *o, size_t *samples) {
    uint32_t flags = 0;
    size_t kept = 0;
    for (size_t i = 0; i < o->flagged_count; i++) {
        const struct flagged f = o->flagged[i];
        const bool here = f.from <= o->from;
        if (f.end <= o->from)
            continue;
        *samples = sonar_min_size(*samples, (size_t)((here ? f.end : f.from) - o->from));
        flags |= here ? f.flags : 0;
        o->flagged[kept++] = f;
    }
    o->flagged_count = kept;
    return flags;
}

static int64_t utc_of_next(const sonar_assembler *a) {
    const struct outlet *o = &a->outlet;
    const double ahead = (double)(int64_t)(o->from - o->time_at);
    return o->utc_ns ? (int64_t)((uint64_t)o->utc_ns + (uint64_t)llround(ahead * 1e9 / a->fs_hz))
                     : 0;
}

/* At most one second at once, so that a stretch's own indices are small. */
static void hand_on_some(sonar_assembler *a, uint64_t end) {
    struct outlet *o = &a->outlet;
    size_t samples = sonar_min_size((size_t)(end - o->from), (size_t)fmax(1, a->fs_hz));
    const uint32_t flags = flags_of_next(o, &samples);
    while (!list_lacks(a, samples))
        samples = (samples + 1) / 2;
    const sonar_stretch stretch = {.timeline = a->timeline,
                                   .epoch = a->epoch,
                                   .first_sample = sample_at(a, o->from),
                                   .utc_ns = utc_of_next(a),
                                   .flags = flags,
                                   .samples = samples,
                                   .ring = sonar_assembler_ring(a),
                                   .column = (size_t)(o->from % a->capacity),
                                   .lacks = o->lacks,
                                   .lack = o->lack};
    if (!all_lack(a, samples))
        o->sink->take(o->sink->ctx, &stretch);
    o->from += samples;
}

/* Positions below `end` do not change any more. Nobody books side by side. */
static void hand_on(sonar_assembler *a, uint64_t end) {
    struct outlet *o = &a->outlet;
    if (!o->sink || end <= o->from)
        return;
    if (!o->sink->wants(o->sink->ctx)) {
        o->from = end;
        return;
    }
    while (o->from < end)
        hand_on_some(a, end);
}

/* What all channels that send, or are used, have reached cannot change even before it is frozen.
 * What lies before the first window is followed by no `reached`. */
static uint64_t settled_end(const sonar_assembler *a) {
    uint64_t lowest = a->newest;
    for (size_t k = 0; k < a->channels; k++)
        if ((a->used[k] || a->fed[k]) && a->reached[k] < lowest)
            lowest = a->reached[k];
    return lowest > a->frozen && lowest > a->first_window ? lowest : a->frozen;
}

/* What a frame says that has been stored. Of too many flags that come and go at once, the last ones
 * become one. */
static void note_for_outlet(sonar_assembler *a, const sonar_booking *b, uint64_t from,
                            uint64_t end) {
    struct outlet *o = &a->outlet;
    const sonar_frame *frame = &b->frame;
    const uint32_t flags = frame->flags & (SONAR_FRAME_DISCONTINUITY | SONAR_FRAME_OVERLOAD |
                                           SONAR_FRAME_UNSYNCHRONISED); /* of the samples */
    if (frame->utc_ns && (!o->utc_ns || frame->first_channel <= o->time_channel)) {
        o->time_channel = frame->first_channel;
        o->time_at = b->at;
        o->utc_ns = frame->utc_ns;
    }
    if (!flags || !o->sink)
        return;
    struct flagged *last = o->flagged_count ? &o->flagged[o->flagged_count - 1] : NULL;
    if (last && last->flags == flags && from >= last->from && from <= last->end) {
        last->end = end > last->end ? end : last->end;
    } else if (o->flagged_count < FLAGGED_MOST) {
        o->flagged[o->flagged_count++] = (struct flagged){from, end, flags};
    } else {
        last->from = from < last->from ? from : last->from;
        last->end = end > last->end ? end : last->end;
        last->flags |= flags;
    }
}

/* ---- from window to window ------------------------------------------------------------------- */

/* Nobody has seen a window that was given up: what lies behind the samples given up may still come.
 */
static uint64_t frozen_after_window(const sonar_assembler *a) {
    uint64_t end = window_end(a);
    if (is_shed(a) && end > a->shed.to)
        end = a->shed.to;
    return end > a->frozen ? end : a->frozen;
}

/* Nothing that counts used channels survives from before. */
static void take_used(sonar_assembler *a) {
    if (!atomic_load_explicit(&a->asked_new, memory_order_relaxed) ||
        !atomic_exchange(&a->asked_new, false))
        return;
    a->channels_used = 0;
    a->all_fed = true;
    for (size_t k = 0; k < a->channels; k++) {
        a->used[k] = atomic_load_explicit(&a->asked[k], memory_order_relaxed);
        a->channels_used += a->used[k];
        a->all_fed = a->all_fed && (a->fed[k] || !a->used[k]);
    }
    sonar_lanes_use(&a->lanes, a->used);
}

void sonar_assembler_use(sonar_assembler *a, const uint8_t *used) {
    for (size_t k = 0; k < a->channels; k++)
        atomic_store_explicit(&a->asked[k], used[k] != 0, memory_order_relaxed);
    atomic_store(&a->asked_new, true);
}

static void next_window(sonar_assembler *a) {
    struct note *note = note_of(a, a->window);
    a->last_utc_ns = utc_of_window(a, note);
    *note = (struct note){0};
    a->frozen = frozen_after_window(a);
    a->window += a->hop;
    a->index++;
    take_used(a);
    follow_channels(a);
    hand_on(a, a->frozen);
}

/* Notes the channels of which a window had to do without samples. */
static void note_lacking(sonar_assembler *a) {
    for (size_t k = 0; k < a->channels; k++) {
        if (!a->used[k] || !(a->missing[k] > 0))
            continue;
        if (a->lacked_in[k] <= a->read || a->missing[k] > a->lacked_share[k])
            a->lacked_share[k] = a->missing[k];
        a->lacked_in[k] = a->period;
    }
    a->lost_in = a->period;
    for (size_t i = 0; i < a->blocks.totals; i++)
        for (size_t k = 0; k < a->blocks.total[i].channels; k++)
            a->blocks.total[i].missing += a->lost[a->blocks.total[i].first_channel + k];
}

/* The window is over: offers it or counts it missing, and goes on to the next. */
static enum outcome freeze(sonar_assembler *a) {
    if (is_shed(a)) {
        sonar_count_add(&a->count.windows_dropped[SONAR_WINDOW_SHED], 1);
        next_window(a);
        return DONE;
    }
    struct loss loss = measure(a);
    if (mean_loss(a, &loss) > a->max_missing_share) {
        sonar_count_add(&a->count.windows_dropped[SONAR_WINDOW_MISSING], 1);
    } else {
        enum outcome outcome = offer(a, &loss);
        if (outcome)
            return outcome;
    }
    sonar_count_add(&a->count.samples_missing, loss.fresh);
    if (loss.fresh)
        note_lacking(a);
    a->decided_ns = a->now_ns;
    next_window(a);
    return DONE;
}

/* Freezes what is complete or has waited long enough. */
static enum outcome advance(sonar_assembler *a) {
    while (a->waiting_for == 0 || is_shed(a) || a->newest >= window_end(a) + a->skew) {
        enum outcome outcome = freeze(a);
        if (outcome)
            return outcome;
    }
    return DONE;
}

/* ---- storing samples ------------------------------------------------------------------------- */

static sonar_copy copy_of(const sonar_booking *b, uint64_t from, uint64_t samples) {
    return (sonar_copy){.frame = b->frame,
                        .payload = b->payload.data,
                        .position = from,
                        .offset = (uint32_t)(from - b->at),
                        .samples = (uint32_t)samples};
}

static void store_run(void *arg, size_t channel, uint64_t from, size_t samples) {
    sonar_assembler *a = arg;
    sonar_copy copy = copy_of(&a->pending, from, samples);
    sonar_store_put_channel(&a->store, &copy, channel);
}

/* Some of it came before: only what is new is written. Returns how many samples that is. */
static uint64_t store_rest(sonar_assembler *a, uint64_t from, uint64_t end) {
    const sonar_frame *frame = &a->pending.frame;
    uint64_t stored = 0;
    for (size_t k = frame->first_channel; k < (size_t)frame->first_channel + frame->channels; k++)
        stored += sonar_coverage_absent(&a->coverage, k, from, end, store_run, a);
    return stored;
}

/* Moves on the channels that stood in [from, end), which is there now. */
static void reach(sonar_assembler *a, sonar_booking *b, uint64_t from, uint64_t end) {
    const sonar_frame *frame = &b->frame;
    const uint64_t opened = atomic_load_explicit(&a->opened, memory_order_acquire);
    const uint64_t *row = end < opened ? sonar_coverage_row(&a->coverage, end) : NULL;
    uint64_t window = window_end(a);
    for (size_t k = frame->first_channel; k < (size_t)frame->first_channel + frame->channels; k++) {
        uint64_t before = a->reached[k], after = end;
        if (before < from || before >= end)
            continue;
        if (row && (row[k] >> (end % 64) & 1))
            after = sonar_coverage_next_absent(&a->coverage, k, end, opened);
        a->reached[k] = after;
        b->at_window += a->used[k] & (before < window && after >= window);
        b->at_chunk += a->used[k] & (before < a->chunk_end && after >= a->chunk_end);
    }
}

/* What the frame brought to the ends of the window and of the chunk is not waited for any more. */
static void arrive(sonar_assembler *a, sonar_booking *b) {
    a->waiting_for -= b->at_window;
    a->chunk_waiting_for -= b->at_chunk;
    b->at_window = b->at_chunk = 0;
}

/* False: the samples were overwritten while they were read; what was written of them lies where
 * nothing is, as far as anybody is told. */
static bool store(sonar_assembler *a, uint64_t from, uint64_t end) {
    sonar_booking *b = &a->pending;
    size_t first = b->frame.first_channel, channels = b->frame.channels;
    uint64_t samples = (end - from) * channels, stored = samples;
    if (end > a->newest)
        a->newest = end;
    if (sonar_coverage_any(&a->coverage, first, channels, from, end)) {
        stored = store_rest(a, from, end);
    } else {
        sonar_copy copy = copy_of(b, from, end - from);
        sonar_store_put(&a->store, &copy);
    }
    if (!sonar_payload_holds(&b->payload))
        return false;
    sonar_coverage_mark(&a->coverage, first, channels, from, end);
    reach(a, b, from, end);
    arrive(a, b);
    b->stored += stored;
    b->repeated += samples - stored;
    if (a->chunk && a->chunk_waiting_for == 0)
        next_chunk(a);
    return true;
}

/* Notes what the frame says about every window that [from, end) is part of. The time comes from the
 * block with the lowest channel, so that it does not depend on who came first. */
static void take_notes(sonar_assembler *a, const sonar_booking *b, uint64_t from, uint64_t end) {
    const sonar_frame *frame = &b->frame;
    uint64_t window = a->window;
    if (from >= window_end(a))
        window += ((from - window_end(a)) / a->hop + 1) * a->hop;
    for (; window < end; window += a->hop) {
        struct note *note = note_of(a, window);
        note->flags |= frame->flags & ~(uint32_t)SONAR_FRAME_SHARED;
        if (b->arrival_ns > note->arrival_ns)
            note->arrival_ns = b->arrival_ns;
        if (window < from || !frame->utc_ns ||
            (note->timed && note->time_channel <= frame->first_channel))
            continue;
        note->timed = true;
        note->time_channel = frame->first_channel;
        note->utc_ns = after(a, frame->utc_ns, window - b->at);
    }
}

static void count_late(sonar_booking *pending, uint64_t samples) {
    pending->late += samples * pending->frame.channels;
    pending->handled += (uint32_t)samples;
}

/* Stores positions [from, end) or as many of them as fit. */
static enum outcome store_part(sonar_assembler *a, uint64_t from, uint64_t end) {
    uint64_t limit = open_limit(a);
    if (from >= limit) /* the frame lies ahead: give up the oldest window for it */
        return freeze(a);
    if (end > limit)
        end = limit;
    enum outcome outcome = make_room(a, end);
    if (outcome)
        return outcome;
    open_to(a, end);
    uint64_t stored = a->pending.stored;
    if (!store(a, from, end))
        return TORN;
    if (a->pending.stored > stored) {
        take_notes(a, &a->pending, from, end);
        note_for_outlet(a, &a->pending, from, end);
    }
    a->pending.handled += (uint32_t)(end - from);
    return DONE;
}

static enum outcome store_frame(sonar_assembler *a) {
    sonar_booking *pending = &a->pending;
    for (;;) {
        enum outcome outcome = advance(a);
        if (outcome)
            return outcome;
        uint64_t left = pending->frame.samples - pending->handled;
        if (!left)
            return DONE;
        uint64_t from = pending->at + pending->handled;
        if (from < a->frozen)
            count_late(pending, left < a->frozen - from ? left : a->frozen - from);
        else if ((outcome = store_part(a, from, from + left)))
            return outcome;
    }
}

static void note_fed(sonar_assembler *a, const sonar_frame *frame) {
    uint8_t *fed = a->fed + frame->first_channel;
    if (a->all_fed || !memchr(fed, 0, frame->channels))
        return;
    memset(fed, 1, frame->channels);
    a->all_fed = true;
    for (size_t k = 0; k < a->channels && a->all_fed; k++)
        a->all_fed = a->fed[k] || !a->used[k];
}

static void note_total(sonar_assembler *a, const sonar_booking *pending) {
    sonar_block_totals *total = sonar_blocks_total(&a->blocks, &pending->frame);
    if (!total)
        return;
    total->frames++;
    total->bytes += SONAR_FRAME_HEADER_BYTES + sonar_frame_payload_bytes(&pending->frame);
    total->overloads += !!(pending->frame.flags & SONAR_FRAME_OVERLOAD);
    total->stored += pending->stored;
    total->late += pending->late;
}

static void accept(sonar_assembler *a, const sonar_booking *b) {
    sonar_count_add(&a->count.frames_accepted, 1);
    sonar_count_add(&a->count.samples_stored, b->stored);
    sonar_count_add(&a->count.samples_repeated, b->repeated);
    sonar_count_add(&a->count.samples_late, b->late);
    sonar_count_add(&a->count.clock_unsynchronised,
                    !!(b->frame.flags & SONAR_FRAME_UNSYNCHRONISED));
    sonar_count_add(&a->count.digitiser_overload, !!(b->frame.flags & SONAR_FRAME_OVERLOAD));
    sonar_count_add(&a->count.discontinuities, !!(b->frame.flags & SONAR_FRAME_DISCONTINUITY));
    note_total(a, b);
    note_fed(a, &b->frame);
    if (b->arrival_ns >= a->accepted_ns) { /* frames are booked in any order */
        sonar_count_set((uint64_t *)&a->count.last_frame_ns, (uint64_t)b->arrival_ns);
        a->accepted_ns = b->arrival_ns;
    }
    a->stuck_ns = 0;
}

static sonar_frame_cause cause_of(enum outcome outcome, const sonar_booking *b) {
    if (outcome == TORN)
        return SONAR_FRAME_OVERWRITTEN;
    if (outcome == OVERRUN)
        return SONAR_FRAME_OVERRUN;
    return b->repeated ? SONAR_FRAME_REPEATED : SONAR_FRAME_LATE;
}

static void finish(sonar_assembler *a, enum outcome outcome) {
    sonar_booking *pending = &a->pending;
    a->waits = false;
    if (outcome != DONE && pending->stored)
        count_late(pending, pending->frame.samples - pending->handled);
    if (pending->stored)
        accept(a, pending);
    else
        drop(a, cause_of(outcome, pending));
}

/* Alone. Its lane is known from now on. */
static bool store_and_count(sonar_assembler *a) {
    enum outcome outcome = store_frame(a);
    a->waits = outcome == BUSY;
    if (a->waits)
        return false;
    finish(a, outcome);
    sonar_lane *lane = sonar_lanes_enter(&a->lanes, &a->pending.frame, a->newest, a->used);
    const uint64_t end = a->pending.at + a->pending.frame.samples;
    if (lane && end > lane->end)
        lane->end = end;
    return true;
}

void sonar_assembler_abandon(sonar_assembler *a) {
    pthread_mutex_lock(&a->lock);
    if (a->waits)
        finish(a, OVERRUN);
    a->owes = false;
    pthread_mutex_unlock(&a->lock);
}

/* ---- timelines ------------------------------------------------------------------------------- */

static bool can_begin_at(const sonar_assembler *a, uint64_t first) {
    uint64_t end, floor = first - first % a->hop;
    return !__builtin_add_overflow(floor, (uint64_t)a->hop, &end) &&
           !__builtin_add_overflow(end, (uint64_t)a->length, &end);
}

static void abandon_windows(sonar_assembler *a) {
    if (a->newest <= a->window)
        return;
    uint64_t begun = (a->newest - a->window - 1) / a->hop + 1;
    sonar_count_add(&a->count.windows_dropped[SONAR_WINDOW_SKIPPED], begun);
    a->index += begun;
}

/* Begins a timeline at the frame. Its positions go on after the old ones, whose windows may still
 * be read; the samples before its first window are kept like any others. */
static void adopt(sonar_assembler *a, const sonar_frame *frame) {
    if (a->running) {
        hand_on(a, a->newest);
        abandon_windows(a);
        sonar_count_add(&a->count.restarts, 1);
        if (frame->epoch != a->epoch)
            sonar_blocks_restart(&a->blocks);
    }
    uint64_t into = frame->first_sample % a->hop;
    a->running = true;
    a->timeline++;
    a->epoch = frame->epoch;
    a->origin = frame->first_sample - into;
    a->base = a->opened;
    a->window = a->first_window = a->base + (into ? a->hop : 0);
    a->frozen = a->filled = a->newest = a->base;
    a->last_utc_ns = 0;
    a->stuck_ns = 0;
    a->adopted_ns = a->now_ns;
    a->decided_ns = 0;
    a->outlet.from = a->base + into;
    a->outlet.utc_ns = 0;
    a->outlet.flagged_count = 0;
    sonar_blocks_begin(&a->blocks);
    sonar_shed_restart(&a->shed);
    sonar_lanes_forget(&a->lanes);
    memset(a->fed, 0, a->channels);
    take_used(a);
    a->all_fed = false;
    memset(a->note, 0, a->notes * sizeof *a->note);
    for (size_t k = 0; k < a->channels; k++)
        a->reached[k] = a->since[k] = a->window;
    a->waiting_for = a->channels_used;
    next_chunk(a);
}

enum relation { INSIDE, BEHIND, AHEAD };

/* Compared in sample indices as they are, so that no claimed index can wrap around. */
static enum relation relation_of(const sonar_assembler *a, const sonar_frame *frame) {
    uint64_t window = sample_at(a, a->window), frozen = sample_at(a, a->frozen);
    if (frame->first_sample >= window && frame->first_sample - window > a->capacity)
        return AHEAD;
    return frame->first_sample + frame->samples <= frozen ? BEHIND : INSIDE;
}

static bool is_silent(const sonar_assembler *a, int64_t since_ns, int64_t now_ns) {
    return now_ns - since_ns >= a->restart_ns;
}

/* Puts the frame into the timeline, or a new timeline around it. Returns the cause if it belongs to
 * neither, else SONAR_FRAME_CAUSES. */
static sonar_frame_cause join(sonar_assembler *a, const sonar_frame *frame, int64_t now_ns) {
    bool whole = frame->channels == a->channels;
    bool same = a->running && frame->epoch == a->epoch;
    enum relation relation = same ? relation_of(a, frame) : AHEAD;
    if (relation == INSIDE)
        return SONAR_FRAME_CAUSES;
    if (relation == BEHIND) {
        if (!a->stuck_ns)
            a->stuck_ns = now_ns;
        if (!is_silent(a, a->stuck_ns, now_ns))
            return SONAR_FRAME_LATE;
    } else if (a->running && !whole && !is_silent(a, a->accepted_ns, now_ns)) {
        return same ? SONAR_FRAME_AHEAD : SONAR_FRAME_WRONG_EPOCH;
    }
    if (!can_begin_at(a, frame->first_sample))
        return SONAR_FRAME_AHEAD;
    adopt(a, frame);
    return SONAR_FRAME_CAUSES;
}

/* ---- overload -------------------------------------------------------------------------------- */

/* Times the frame and says whether it is given up; then its samples are not even looked at. */
static bool shed_frame(sonar_assembler *a, const sonar_frame *frame, int64_t now_ns) {
    if (!a->running || frame->epoch != a->epoch || relation_of(a, frame) != INSIDE ||
        frame->first_sample < a->origin)
        return false;
    uint64_t first = a->base + (frame->first_sample - a->origin);
    sonar_shed_time(&a->shed, frame->first_sample - a->origin, frame->samples, now_ns);
    if (!sonar_shed_takes(&a->shed, first, first + frame->samples))
        return false;
    a->accepted_ns = now_ns; /* the stream goes on */
    sonar_count_set((uint64_t *)&a->count.last_frame_ns, (uint64_t)now_ns);
    if (first + frame->samples > a->newest)
        a->newest = first + frame->samples;
    return true;
}

/* The first end of a window that no stored sample lies behind. */
static uint64_t whole_windows_end(const sonar_assembler *a) {
    uint64_t end = window_end(a);
    return a->newest <= end ? end : end + (a->newest - end + a->hop - 1) / a->hop * a->hop;
}

/* The first window that lost nothing. */
static uint64_t first_window_after_shedding(const sonar_assembler *a) {
    uint64_t to = a->shed.to;
    return to <= a->window ? a->window
                           : a->window + (to - a->window + a->hop - 1) / a->hop * a->hop;
}

void sonar_assembler_load(sonar_assembler *a, bool busy) {
    pthread_mutex_lock(&a->lock);
    sonar_shed_turn turn = a->running ? sonar_shed_tick(&a->shed, busy) : SONAR_SHED_STAYS;
    if (turn == SONAR_SHED_BEGINS)
        sonar_shed_begin(&a->shed, whole_windows_end(a));
    else if (turn == SONAR_SHED_ENDS)
        sonar_shed_end(&a->shed, first_window_after_shedding(a));
    pthread_mutex_unlock(&a->lock);
}

/* ---- side by side ---------------------------------------------------------------------------- */

/* A window or a chunk is over. */
static bool is_due(const sonar_assembler *a) {
    return a->running &&
           (a->waiting_for == 0 || is_shed(a) || a->newest >= window_end(a) + a->skew ||
            (a->chunk && a->chunk_waiting_for == 0));
}

static void go_on(sonar_assembler *a) {
    if (a->chunk && a->chunk_waiting_for == 0)
        next_chunk(a);
    a->owes = advance(a) == BUSY;
}

/* Waits until nobody books side by side, and does what has become due. */
static void be_alone(sonar_assembler *a) {
    while (a->beside)
        pthread_cond_wait(&a->alone, &a->lock);
    if (is_due(a) && !a->waits)
        go_on(a);
    else
        a->owes = false;
}

bool sonar_assembler_resume(sonar_assembler *a) {
    pthread_mutex_lock(&a->lock);
    be_alone(a);
    bool placed = a->waits ? store_and_count(a) : !a->owes;
    pthread_mutex_unlock(&a->lock);
    return placed;
}

/* Is the frame new as a whole, and is there room for it whatever the frames beside it bring? Then
 * it does not matter which of them is stored first. */
static sonar_lane *lane_of(sonar_assembler *a, const sonar_frame *frame) {
    if (!a->running || frame->epoch != a->epoch || frame->first_sample < a->origin ||
        relation_of(a, frame) != INSIDE || is_due(a))
        return NULL;
    const uint64_t at = a->base + (frame->first_sample - a->origin), end = at + frame->samples;
    sonar_lane *lane = sonar_lanes_find(&a->lanes, frame);
    bool plain = lane && lane->used && at >= lane->end && at >= a->frozen && end <= open_limit(a);
    return plain && make_room(a, end) == DONE ? lane : NULL;
}

/* From now on the frame counts as there, until book says what has become of it. */
static void enter_lane(sonar_assembler *a, sonar_lane *lane, sonar_booking *b) {
    const uint64_t end = b->at + b->frame.samples;
    open_to(a, end);
    lane->end = end;
    if (end > a->newest)
        a->newest = end;
    a->beside++;
    b->lane = lane;
}

static bool leave_lane(sonar_assembler *a, sonar_booking *b, bool whole) {
    const uint64_t end = b->at + b->frame.samples;
    pthread_mutex_lock(&a->lock);
    arrive(a, b);
    b->stored = whole ? (uint64_t)b->frame.samples * b->frame.channels : 0;
    if (whole) {
        take_notes(a, b, b->at, end);
        note_for_outlet(a, b, b->at, end);
        accept(a, b);
    } else {
        drop(a, SONAR_FRAME_OVERWRITTEN);
    }
    if (--a->beside == 0) {
        if (is_due(a))
            go_on(a);
        sonar_count_add(&a->count.frames_held, a->owes);
        pthread_cond_signal(&a->alone);
    }
    bool done = !a->owes;
    pthread_mutex_unlock(&a->lock);
    return done;
}

bool sonar_assembler_book(sonar_assembler *a, sonar_booking *b) {
    const uint64_t end = b->at + b->frame.samples;
    const sonar_copy copy = copy_of(b, b->at, b->frame.samples);
    sonar_store_put(&a->store, &copy);
    bool whole = sonar_payload_holds(&b->payload);
    if (whole) {
        pthread_mutex_t *lock = sonar_lane_lock(&a->lanes, b->lane);
        pthread_mutex_lock(lock);
        sonar_coverage_mark(&a->coverage, b->frame.first_channel, b->frame.channels, b->at, end);
        reach(a, b, b->at, end);
        pthread_mutex_unlock(lock);
    }
    return leave_lane(a, b, whole);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* What is wrong with the frame for this array, as its header tells, else SONAR_FRAME_CAUSES. */
static sonar_frame_cause check(const sonar_assembler *a, const sonar_frame *frame,
                               const sonar_payload *payload) {
    if (frame->array_id != a->array_id)
        return SONAR_FRAME_WRONG_ARRAY;
    if ((uint64_t)frame->first_channel + frame->channels > a->channels)
        return SONAR_FRAME_WRONG_CHANNELS;
    if (a->store.s16 && frame->type != SONAR_S16)
        return SONAR_FRAME_WRONG_TYPE;
    if (!(fabs(frame->fs_hz - a->fs_hz) <= 1e-6 * a->fs_hz)) /* NaN is wrong, too */
        return SONAR_FRAME_WRONG_RATE;
    if (!payload->data)
        return payload->fault;
    if (payload->bytes < sonar_frame_payload_bytes(frame))
        return SONAR_FRAME_TRUNCATED;
    if (payload->bytes > sonar_frame_payload_bytes(frame))
        return SONAR_FRAME_OVERSIZED;
    return SONAR_FRAME_CAUSES;
}

/* Looks for a spike only where one would stand out from the frame before, of whatever block. */
static sonar_frame_cause check_samples(sonar_assembler *a, const sonar_frame *frame,
                                       const void *payload) {
    float peak = sonar_frame_peak(frame, payload);
    if (!isfinite(peak))
        return SONAR_FRAME_NOT_FINITE;
    if (peak > a->most_sample)
        return SONAR_FRAME_OUT_OF_RANGE;
    if (a->drop_spikes && peak > SONAR_FRAME_SPIKE * a->peak &&
        sonar_frame_has_spike(frame, payload))
        return SONAR_FRAME_OUT_OF_RANGE;
    a->peak = peak;
    return SONAR_FRAME_CAUSES;
}

/* A frame of another epoch says nothing of this one, and one that has no position in it tells of no
 * block that was not there: a stray one would be missed for ever. */
static void note_block(sonar_assembler *a, const sonar_frame *frame, sonar_frame_cause cause,
                       int64_t now_ns) {
    bool placed = cause == SONAR_FRAME_CAUSES || cause == SONAR_FRAME_LATE;
    sonar_block_state *block = cause == SONAR_FRAME_WRONG_EPOCH
                                   ? NULL
                                   : sonar_blocks_hear(&a->blocks, frame, placed, now_ns);
    if (block && a->running && frame->epoch == a->epoch)
        sonar_count_add(&a->count.sequence_gaps,
                        (uint64_t)sonar_block_follow(block, frame->sequence));
    if (block && placed)
        sonar_count_add(&a->count.index_jumps, sonar_block_track(block, frame, a->fs_hz, now_ns));
    sonar_count_set(&a->count.blocks_seen, a->blocks.count);
}

static sonar_booking booking_of(sonar_assembler *a, const sonar_frame *frame,
                                const sonar_payload *payload, int64_t now_ns) {
    a->arrival_ns = now_ns;
    return (sonar_booking){.frame = *frame,
                           .payload = *payload,
                           .arrival_ns = now_ns,
                           .at = a->base + (frame->first_sample - a->origin)};
}

/* Nobody books beside it. False: it waits. */
static bool book_alone(sonar_assembler *a, const sonar_frame *frame, const sonar_payload *payload,
                       int64_t now_ns) {
    uint64_t frozen = sample_at(a, a->frozen);
    a->pending = booking_of(a, frame, payload, now_ns);
    if (frame->first_sample < frozen) {
        uint64_t late = frozen - frame->first_sample;
        count_late(&a->pending, late < frame->samples ? late : frame->samples);
    }
    bool stored = store_and_count(a);
    sonar_count_add(&a->count.frames_held, !stored);
    return stored;
}

/* The samples are looked at without the lock, which whoever books holds for moments only. */
static sonar_frame_cause look_at_samples(sonar_assembler *a, const sonar_frame *frame,
                                         const void *samples) {
    if (frame->type != SONAR_F32)
        return SONAR_FRAME_CAUSES;
    pthread_mutex_unlock(&a->lock);
    sonar_frame_cause cause = check_samples(a, frame, samples);
    pthread_mutex_lock(&a->lock);
    return cause;
}

/* What has to be decided in the order in which frames come. */
static sonar_turn decide(sonar_assembler *a, const sonar_frame *frame, const sonar_payload *payload,
                         int64_t now_ns, sonar_booking *b) {
    sonar_frame_cause cause = check(a, frame, payload);
    if (is_due(a))
        be_alone(a);
    if (a->owes)
        return SONAR_TURN_AGAIN;
    sonar_lane *lane = cause == SONAR_FRAME_CAUSES ? lane_of(a, frame) : NULL;
    if (cause == SONAR_FRAME_CAUSES && !lane)
        be_alone(a);
    if (a->owes)
        return SONAR_TURN_AGAIN;
    bool shed = cause == SONAR_FRAME_CAUSES && shed_frame(a, frame, now_ns);
    if (cause == SONAR_FRAME_CAUSES && !shed)
        cause = look_at_samples(a, frame, payload->data);
    if (cause == SONAR_FRAME_CAUSES) {
        cause = shed ? SONAR_FRAME_SHED : join(a, frame, now_ns);
        note_block(a, frame, cause, now_ns);
    }
    if (shed && is_due(a))
        be_alone(a);
    if (cause != SONAR_FRAME_CAUSES) {
        drop(a, cause);
        return SONAR_TURN_OVER;
    }
    if (!lane)
        return book_alone(a, frame, payload, now_ns) ? SONAR_TURN_OVER : SONAR_TURN_WAITS;
    *b = booking_of(a, frame, payload, now_ns);
    enter_lane(a, lane, b);
    return SONAR_TURN_BOOK;
}

sonar_turn sonar_assembler_begin(sonar_assembler *a, const void *header, size_t header_bytes,
                                 const sonar_payload *payload, int64_t now_ns, sonar_booking *b) {
    sonar_frame frame;
    sonar_turn turn = SONAR_TURN_OVER;
    bool decoded = sonar_frame_decode(header, header_bytes, &frame, NULL) == SONAR_OK;
    pthread_mutex_lock(&a->lock);
    a->now_ns = now_ns;
    if (decoded) /* what lies before wraps, and is behind all channels then */
        frame.first_channel -= a->first_channel;
    if (decoded)
        turn = decide(a, &frame, payload, now_ns, b);
    else
        drop(a, SONAR_FRAME_MALFORMED);
    pthread_mutex_unlock(&a->lock);
    return turn;
}

bool sonar_assembler_frame(sonar_assembler *a, const void *header, size_t header_bytes,
                           const void *payload, size_t payload_bytes, int64_t now_ns) {
    const sonar_payload what = {.data = payload, .bytes = payload_bytes};
    sonar_booking booking;
    sonar_turn turn = sonar_assembler_begin(a, header, header_bytes, &what, now_ns, &booking);
    return turn == SONAR_TURN_BOOK ? sonar_assembler_book(a, &booking) : turn == SONAR_TURN_OVER;
}

void sonar_assembler_malformed(sonar_assembler *a) {
    pthread_mutex_lock(&a->lock);
    drop(a, SONAR_FRAME_MALFORMED);
    pthread_mutex_unlock(&a->lock);
}

/* The stream has stopped: nothing will come any more that would show the gaps of windows that are
 * over to be gaps. Windows that are not over wait on. */
static void end_windows(sonar_assembler *a) {
    while (a->newest >= window_end(a) && freeze(a) == DONE)
        continue;
}

/* What need not wait for the end of its window; at the end of all, the rest too. */
static void flush_outlet(sonar_assembler *a, bool all) {
    const sonar_stretch_sink *sink = a->outlet.sink;
    if (!sink)
        return;
    if (a->running && sink->wants(sink->ctx)) {
        be_alone(a);
        hand_on(a, all ? a->newest : settled_end(a));
    }
    sink->flush(sink->ctx);
}

void sonar_assembler_tick(sonar_assembler *a, int64_t now_ns) {
    pthread_mutex_lock(&a->lock);
    a->now_ns = now_ns;
    if (a->running && !a->waits && is_silent(a, a->accepted_ns, now_ns)) {
        be_alone(a);
        end_windows(a);
    }
    sonar_count_set(&a->count.blocks_silent, sonar_blocks_silent(&a->blocks, now_ns, a->silent_ns));
    flush_outlet(a, false);
    pthread_mutex_unlock(&a->lock);
}

void sonar_assembler_end(sonar_assembler *a) {
    pthread_mutex_lock(&a->lock);
    flush_outlet(a, true);
    pthread_mutex_unlock(&a->lock);
}

/* ---- report ---------------------------------------------------------------------------------- */

static void report_channels(sonar_assembler *a, sonar_ingest_report *report) {
    bool overtaken = a->newest >= window_end(a) && a->waiting_for;
    if (a->all_fed && a->lost_in <= a->read && !overtaken)
        return;
    for (size_t k = 0; k < a->channels; k++) {
        uint32_t channel = (uint32_t)k;
        if (!a->used[k])
            continue;
        if (!a->fed[k]) {
            sonar_channel_set_add(&report->unfed, channel, 1);
        } else if (a->lacked_in[k] > a->read) {
            sonar_channel_set_add(&report->lacking, channel, 1);
            report->lacking_share = fmax(report->lacking_share, (double)a->lacked_share[k]);
        }
        if (overtaken && a->reached[k] < window_end(a))
            sonar_channel_set_add(&report->awaited, channel, 1);
    }
}

static void report_stream(sonar_assembler *a, sonar_ingest_report *report) {
    report->timeline = a->timeline;
    report->adopted_ns = a->adopted_ns;
    report->decided_ns = a->decided_ns;
    report->window_sample = sample_at(a, a->window);
    report->newest_sample = sample_at(a, a->newest);
    report->samples_missing = sonar_count_read(&a->count.samples_missing);
    report_channels(a, report);
    report->blocks = a->blocks.count;
    for (size_t i = 0; i < a->blocks.count; i++)
        report->block[i] = a->blocks.block[i].told;
    report->totals = a->blocks.totals;
    memcpy(report->total, a->blocks.total, a->blocks.totals * sizeof *report->total);
}

void sonar_assembler_report(sonar_assembler *a, bool read, sonar_ingest_report *report) {
    pthread_mutex_lock(&a->lock);
    be_alone(a);
    *report = (sonar_ingest_report){.made_ns = a->now_ns, .held = a->waits || a->owes};
    if (read)
        a->read = a->period - 1;
    a->period++;
    if (a->running)
        report_stream(a, report);
    pthread_mutex_unlock(&a->lock);
}

/* ---- data thread ----------------------------------------------------------------------------- */

bool sonar_assembler_take(sonar_assembler *a, sonar_window *window) {
    if (!sonar_window_queue_take(&a->queue, window))
        return false;
    sonar_count_add(&a->count.windows_taken, 1);
    return true;
}

void sonar_assembler_release(sonar_assembler *a, const sonar_window *window) {
    (void)a;
    sonar_window_queue_release(window);
}

size_t sonar_assembler_waiting(const sonar_assembler *a) {
    return sonar_window_queue_waiting(&a->queue);
}

uint64_t sonar_assembler_offered(const sonar_assembler *a) {
    return atomic_load(&a->published);
}

uint64_t sonar_assembler_ready(const sonar_assembler *a) {
    return atomic_load_explicit(&a->ready, memory_order_acquire);
}

sonar_buffer sonar_assembler_ring(const sonar_assembler *a) {
    return sonar_buffer_view(a->store.ring, a->store.s16 ? SONAR_S16 : SONAR_F32, 2,
                             (size_t[]){a->channels, a->capacity});
}

size_t sonar_assembler_capacity(const sonar_assembler *a) {
    return a->capacity;
}

/* ---- creation -------------------------------------------------------------------------------- */

static size_t count_used(const sonar_ingest_spec *spec) {
    size_t used = 0;
    for (size_t k = 0; k < spec->channels; k++)
        used += !spec->channel_used || spec->channel_used[k];
    return used;
}

static const char *fault_of(const sonar_ingest_spec *spec) {
    if (spec->channels < 1 || spec->channels > UINT32_MAX || count_used(spec) < 1)
        return "an array needs at least one channel that is used";
    if (!isfinite(spec->fs_hz) || spec->fs_hz < 1e-3)
        return "the sampling rate must be at least 0.001 Hz";
    if (spec->window_length < 1 || spec->hop < 1)
        return "window length and hop must be at least 1";
    if (spec->queue_windows < 1)
        return "at least one window must be able to wait";
    if (!(spec->max_missing_share >= 0 && spec->max_missing_share <= 1))
        return "the missing share must lie between 0 and 1";
    return NULL;
}

/* N for the window and what it looks back to, a hop each for those that wait, the one that is read
 * and the one that grows, and room for channels that run ahead; 64 more because the ring is opened
 * in whole words. Rows a multiple of 4 KiB apart would share cache sets. 0 if it cannot be. */
size_t sonar_ingest_capacity(const sonar_ingest_spec *spec) {
    size_t capacity;
    if (__builtin_add_overflow(spec->queue_windows, 2, &capacity) ||
        __builtin_mul_overflow(capacity, spec->hop, &capacity) ||
        __builtin_add_overflow(capacity, spec->window_length, &capacity) ||
        __builtin_add_overflow(capacity, spec->lookback, &capacity) ||
        __builtin_add_overflow(capacity, spec->max_skew_samples, &capacity) ||
        __builtin_add_overflow(capacity, 64 + 63, &capacity))
        return 0;
    capacity &= ~(size_t)63;
    return capacity % 1024 ? capacity : capacity + 64;
}

static bool allocate(sonar_assembler *a) {
    a->notes = a->capacity / a->hop + 2;
    a->used = sonar_alloc(a->channels, sizeof *a->used);
    a->asked = sonar_alloc(a->channels, sizeof *a->asked);
    a->reached = sonar_alloc(a->channels, sizeof *a->reached);
    a->since = sonar_alloc(a->channels, sizeof *a->since);
    a->missing = sonar_alloc(a->channels, sizeof *a->missing);
    a->words = (a->lookback + a->length) / 64 + 2;
    a->lost = sonar_alloc(a->channels, sizeof *a->lost);
    a->lacks = sonar_alloc(a->words, sizeof *a->lacks);
    a->fed = sonar_alloc(a->channels, sizeof *a->fed);
    a->lacked_in = sonar_alloc(a->channels, sizeof *a->lacked_in);
    a->lacked_share = sonar_alloc(a->channels, sizeof *a->lacked_share);
    a->loss = sonar_alloc(a->store.ranges, sizeof *a->loss);
    a->note = sonar_alloc(a->notes, sizeof *a->note);
    bool queue = sonar_window_queue_init(&a->queue, a->queue_windows + 1, a->channels, a->words);
    bool coverage = sonar_coverage_init(&a->coverage, a->channels, a->capacity / 64);
    bool gaps = sonar_gaps_init(&a->gaps, a->channels);
    a->outlet.lack = sonar_alloc(a->outlet.lacks_most, sizeof *a->outlet.lack);
    return a->outlet.lack && queue && coverage && gaps && a->used && a->asked && a->reached &&
           a->since && a->missing && a->lost && a->lacks && a->loss && a->note && a->fed &&
           a->lacked_in && a->lacked_share;
}

static void configure(sonar_assembler *a, const sonar_ingest_spec *spec) {
    a->array_id = spec->array_id;
    a->first_channel = (uint32_t)spec->first_channel;
    a->channels = spec->channels;
    a->channels_used = count_used(spec);
    a->length = spec->window_length;
    a->hop = spec->hop;
    a->lookback = spec->lookback;
    a->skew = spec->max_skew_samples;
    a->queue_windows = spec->queue_windows;
    a->fs_hz = spec->fs_hz;
    a->max_missing_share = spec->max_missing_share;
    a->drop_spikes = spec->drop_spikes;
    a->most_sample = spec->most_sample > 0 ? spec->most_sample : FLT_MAX;
    a->chunk = spec->chunk_samples;
    a->outlet.sink = spec->sink;
    a->outlet.lacks_most = spec->sink ? sonar_stretch_lacks_most(spec->channels) : 1;
    a->block = spec->overload == SONAR_BLOCK;
    if (!a->block)
        sonar_shed_init(&a->shed, spec->fs_hz,
                        (double)(spec->window_length + 4 * spec->hop) / spec->fs_hz,
                        spec->high_water_mark);
    a->period = 1;
    a->restart_ns = (int64_t)spec->restart_after_ms * 1000000;
    a->silent_ns = (int64_t)spec->silent_after_ms * 1000000;
    a->capacity = sonar_ingest_capacity(spec);
}

sonar_code sonar_assembler_create(const sonar_ingest_spec *spec, sonar_assembler **out,
                                  sonar_error *err) {
    *out = NULL;
    const char *fault = fault_of(spec);
    if (fault)
        return sonar_fail(err, SONAR_EINVAL, "ingest", "%s", fault);
    sonar_assembler *a = sonar_alloc(1, sizeof *a);
    if (!a)
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the assembler");
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->alone, NULL);
    sonar_lanes_init(&a->lanes);
    configure(a, spec);
    sonar_code code = sonar_store_init(&a->store, a->channels, a->capacity, spec->sample_type,
                                       spec->threads, spec->ring, err);
    if (!code && !allocate(a))
        code = sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the books of %zu channels",
                          spec->channels);
    if (code) {
        sonar_assembler_destroy(a);
        return code;
    }
    for (size_t k = 0; k < a->channels; k++)
        a->used[k] = !spec->channel_used || spec->channel_used[k];
    *out = a;
    return SONAR_OK;
}

void sonar_assembler_destroy(sonar_assembler *a) {
    if (!a)
        return;
    sonar_window_queue_clear(&a->queue);
    sonar_coverage_clear(&a->coverage);
    sonar_gaps_free(&a->gaps);
    sonar_store_clear(&a->store);
    sonar_lanes_clear(&a->lanes);
    pthread_cond_destroy(&a->alone);
    pthread_mutex_destroy(&a->lock);
    free(a->used);
    free(a->asked);
    free(a->reached);
    free(a->since);
    free(a->loss);
    free(a->missing);
    free(a->lost);
    free(a->lacks);
    free(a->fed);
    free(a->lacked_in);
    free(a->lacked_share);
    free(a->outlet.lack);
    free(a->note);
    free(a);
}
