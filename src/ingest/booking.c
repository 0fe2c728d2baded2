/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Booking: storing a frame's samples and marking them as present. A frame that is new as a whole is
 * booked concurrently with others, by the thread that took it. A frame that depends on earlier ones
 * is booked alone and is then assembler->pending. Windows also advance only while no frame is being
 * booked. With overload block it may have to wait in the middle, and resume continues it.
 *
 * begin.c chooses between the two; book, resume and abandon are called by the ingest threads
 * (receiver.c).
 */
#include <string.h>

#include "ingest/internal.h"

/* ---- steps, alone and concurrent ------------------------------------------------------------- */

/* The copy that stores this range of the frame's samples. */
static sonar_copy copy_of(const sonar_booking *b, uint64_t from, uint64_t samples) {
    return (sonar_copy){.frame = b->frame,
                        .payload = b->payload.data,
                        .position = from,
                        .offset = (uint32_t)(from - b->at),
                        .samples = (uint32_t)samples};
}

/* Advances the channels whose first absent position was in [from, end), which is stored now. */
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
        b->at_chunk += a->used[k] & (before < a->chunk.end && after >= a->chunk.end);
    }
}

/* Called with the lock of the frame's lane, or while no other frame is booked. */
static void mark(sonar_assembler *a, sonar_booking *b, uint64_t from, uint64_t end) {
    sonar_coverage_mark(&a->coverage, b->frame.first_channel, b->frame.channels, from, end);
    reach(a, b, from, end);
}

/* Updates how many channels the window and the chunk still wait for. */
static void arrive(sonar_assembler *a, sonar_booking *b) {
    a->waiting_for -= b->at_window;
    a->chunk.waiting_for -= b->at_chunk;
    b->at_window = b->at_chunk = 0;
}

/* Notes the frame's flags and time for [from, end), if some of these samples were new. */
static void note_frame(sonar_assembler *a, const sonar_booking *b, uint64_t from, uint64_t end) {
    sonar_windows_note(a, b, from, end);
    sonar_outlet_note(a, b, from, end);
}

/* Marks the frame's channels as fed in this timeline. */
static void note_fed(sonar_assembler *a, const sonar_frame *frame) {
    uint8_t *fed = a->fed + frame->first_channel;
    if (a->all_fed || !memchr(fed, 0, frame->channels))
        return;
    memset(fed, 1, frame->channels);
    a->all_fed = true;
    for (size_t k = 0; k < a->channels && a->all_fed; k++)
        a->all_fed = a->fed[k] || !a->used[k];
}

/* Adds the frame to the totals of its block. */
static void note_total(sonar_assembler *a, const sonar_booking *b) {
    sonar_block_totals *total = sonar_blocks_total(&a->blocks, &b->frame);
    if (!total)
        return;
    total->frames++;
    total->bytes += SONAR_FRAME_HEADER_BYTES + sonar_frame_payload_bytes(&b->frame);
    total->overloads += !!(b->frame.flags & SONAR_FRAME_OVERLOAD);
    total->stored += b->stored;
    total->late += b->late;
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

/* ---- alone ----------------------------------------------------------------------------------- */

/* Counts this many samples of each channel as late. */
static void count_late(sonar_booking *pending, uint64_t samples) {
    pending->late += samples * pending->frame.channels;
    pending->handled += (uint32_t)samples;
}

static void store_run(void *arg, size_t channel, uint64_t from, size_t samples) {
    sonar_assembler *a = arg;
    sonar_copy copy = copy_of(&a->pending, from, samples);
    sonar_store_put_channel(&a->store, &copy, channel);
}

/* Part of the range is stored already: writes only the new samples, and returns their number. */
static uint64_t store_rest(sonar_assembler *a, uint64_t from, uint64_t end) {
    const sonar_frame *frame = &a->pending.frame;
    uint64_t stored = 0;
    for (size_t k = frame->first_channel; k < (size_t)frame->first_channel + frame->channels; k++)
        stored += sonar_coverage_absent(&a->coverage, k, from, end, store_run, a);
    return stored;
}

/* False: the samples were overwritten while they were read. What was written of them is not marked
 * as present. */
static bool store(sonar_assembler *a, uint64_t from, uint64_t end) {
    sonar_booking *b = &a->pending;
    size_t first = b->frame.first_channel, channels = b->frame.channels;
    uint64_t samples = (end - from) * channels, stored = samples;
    note_newest(a, end);
    if (sonar_coverage_any(&a->coverage, first, channels, from, end)) {
        stored = store_rest(a, from, end);
    } else {
        sonar_copy copy = copy_of(b, from, end - from);
        sonar_store_put(&a->store, &copy);
    }
    if (!sonar_payload_holds(&b->payload))
        return false;
    mark(a, b, from, end);
    arrive(a, b);
    b->stored += stored;
    b->repeated += samples - stored;
    if (is_chunk_over(a))
        sonar_windows_next_chunk(a);
    return true;
}

/* Stores positions [from, end) or as many of them as fit. */
static enum outcome store_part(sonar_assembler *a, uint64_t from, uint64_t end) {
    uint64_t limit = open_limit(a);
    if (from >= limit) /* the frame lies ahead of the ring: drops the oldest window to make room */
        return sonar_windows_freeze(a);
    if (end > limit)
        end = limit;
    enum outcome outcome = sonar_windows_make_room(a, end);
    if (outcome)
        return outcome;
    sonar_windows_open(a, end);
    uint64_t stored = a->pending.stored;
    if (!store(a, from, end))
        return TORN;
    if (a->pending.stored > stored)
        note_frame(a, &a->pending, from, end);
    a->pending.handled += (uint32_t)(end - from);
    return DONE;
}

/* Stores the rest of the frame and advances the windows as far as that requires. */
static enum outcome store_frame(sonar_assembler *a) {
    sonar_booking *pending = &a->pending;
    for (;;) {
        enum outcome outcome = sonar_windows_advance(a);
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

static sonar_frame_cause cause_of(enum outcome outcome, const sonar_booking *b) {
    if (outcome == TORN)
        return SONAR_FRAME_OVERWRITTEN;
    if (outcome == OVERRUN)
        return SONAR_FRAME_OVERRUN;
    return b->repeated ? SONAR_FRAME_REPEATED : SONAR_FRAME_LATE;
}

/* Counts the frame; no more of it is stored. */
static void finish(sonar_assembler *a, enum outcome outcome) {
    sonar_booking *pending = &a->pending;
    a->waits = false;
    if (outcome != DONE && pending->stored)
        count_late(pending, pending->frame.samples - pending->handled);
    if (pending->stored)
        accept(a, pending);
    else
        drop_frame(a, &pending->frame, cause_of(outcome, pending));
}

/* False: it waits. The frame gets its lane when it is stored. */
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

bool sonar_booking_alone(sonar_assembler *a, const sonar_booking *b) {
    const sonar_frame *frame = &b->frame;
    uint64_t frozen = sample_at(a, a->frozen);
    a->pending = *b;
    if (frame->first_sample < frozen) { /* its position may have wrapped */
        uint64_t late = frozen - frame->first_sample;
        count_late(&a->pending, late < frame->samples ? late : frame->samples);
    }
    bool stored = store_and_count(a);
    sonar_count_add(&a->count.frames_held, !stored);
    return stored;
}

/* ---- what is due ----------------------------------------------------------------------------- */

/* Does what has become due. Requires that no frame is being booked. */
static void go_on(sonar_assembler *a) {
    if (is_chunk_over(a))
        sonar_windows_next_chunk(a);
    a->window_waits = sonar_windows_advance(a) == BUSY;
}

void sonar_booking_wait_alone(sonar_assembler *a) {
    while (a->beside)
        pthread_cond_wait(&a->alone, &a->lock);
    if (is_due(a) && !a->waits)
        go_on(a);
    else
        a->window_waits = false;
}

bool sonar_assembler_resume(sonar_assembler *a) {
    pthread_mutex_lock(&a->lock);
    sonar_booking_wait_alone(a);
    bool placed = a->waits ? store_and_count(a) : !a->window_waits;
    pthread_mutex_unlock(&a->lock);
    return placed;
}

void sonar_assembler_abandon(sonar_assembler *a) {
    pthread_mutex_lock(&a->lock);
    if (a->waits)
        finish(a, OVERRUN);
    a->window_waits = false;
    pthread_mutex_unlock(&a->lock);
}

/* ---- concurrent ------------------------------------------------------------------------------ */

/* Counts the outcome of the frame. The last thread to leave does what has become due. */
static bool leave_lane(sonar_assembler *a, sonar_booking *b, bool whole) {
    const uint64_t end = b->at + b->frame.samples;
    pthread_mutex_lock(&a->lock);
    arrive(a, b);
    b->stored = whole ? (uint64_t)b->frame.samples * b->frame.channels : 0;
    if (whole) {
        note_frame(a, b, b->at, end);
        accept(a, b);
    } else {
        drop_frame(a, &b->frame, SONAR_FRAME_OVERWRITTEN);
    }
    if (--a->beside == 0) {
        if (is_due(a))
            go_on(a);
        sonar_count_add(&a->count.frames_held, a->window_waits);
        pthread_cond_signal(&a->alone);
    }
    bool done = !a->window_waits;
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
        mark(a, b, b->at, end);
        pthread_mutex_unlock(lock);
    }
    return leave_lane(a, b, whole);
}
