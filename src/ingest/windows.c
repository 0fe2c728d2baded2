/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Windows: their room in the ring, what frames have stated about each before it is over, offering
 * it to the data thread, and beginning the next. Called while frames are booked (booking.c). */
#include "ingest/internal.h"

/* ---- room ------------------------------------------------------------------------------------ */

void sonar_windows_open(sonar_assembler *a, uint64_t end) {
    end = (end + 63) & ~(uint64_t)63;
    if (end <= a->opened)
        return;
    sonar_coverage_forget(&a->coverage, a->opened, end);
    atomic_store_explicit(&a->opened, end, memory_order_release);
}

enum outcome sonar_windows_make_room(sonar_assembler *a, uint64_t end) {
    for (;;) {
        bool taken;
        const sonar_window_slot *slot = sonar_window_queue_earliest(&a->queue, &taken);
        if (!slot || end - slot->ring_first <= a->capacity)
            return DONE;
        if (a->blocking)
            return BUSY;
        if (taken)
            return OVERRUN;
        if (sonar_window_queue_steal(&a->queue))
            drop_window(a, SONAR_WINDOW_OVERLOAD);
    }
}

/* ---- what is known of a window --------------------------------------------------------------- */

static struct note *note_of(sonar_assembler *a, uint64_t window) {
    return &a->note[(window - a->first_window) / a->hop % a->notes];
}

/* The time comes from the block with the lowest channel, so that it does not depend on the order of
 * arrival. */
void sonar_windows_note(sonar_assembler *a, const sonar_booking *b, uint64_t from, uint64_t end) {
    const sonar_frame *frame = &b->frame;
    uint64_t window = a->window;
    if (from >= window_end(a))
        window += ((from - window_end(a)) / a->hop + 1) * a->hop;
    for (; window < end; window += a->hop) {
        struct note *note = note_of(a, window);
        note->flags |= frame->flags & SONAR_FRAME_OF_SAMPLES;
        if (b->arrival_ns > note->arrival_ns)
            note->arrival_ns = b->arrival_ns;
        if (window < from || !frame->utc_ns ||
            (note->timed && note->time_channel <= frame->first_channel))
            continue;
        note->timed = true;
        note->time_channel = frame->first_channel;
        note->utc_ns = utc_after(a, frame->utc_ns, (int64_t)(window - b->at));
    }
}

/* From the frame that had the window's first sample; otherwise extrapolated from the previous
 * window. */
static int64_t utc_of_window(const sonar_assembler *a, const struct note *note) {
    if (note->timed)
        return note->utc_ns;
    return a->last_utc_ns ? utc_after(a, a->last_utc_ns, (int64_t)a->hop) : 0;
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
                                  .offered_ns = sonar_monotonic_ns(),
                                  .ring = sonar_assembler_ring(a),
                                  .position = a->window,
                                  .ring_column = (size_t)(a->window % a->capacity),
                                  .slot = slot};
    sonar_loss_describe(a, loss, slot);
}

/* ---- offering -------------------------------------------------------------------------------- */

/* A slot for the new window. If necessary it takes the slot of the oldest waiting window. NULL: in
 * block mode the window must wait; otherwise the data thread holds all slots. */
static sonar_window_slot *slot_for_window(sonar_assembler *a) {
    for (;;) {
        bool full = sonar_window_queue_waiting(&a->queue) >= a->queue_windows;
        sonar_window_slot *slot = full ? NULL : sonar_window_queue_free_slot(&a->queue);
        if (slot || a->blocking)
            return slot;
        if (sonar_window_queue_steal(&a->queue))
            drop_window(a, SONAR_WINDOW_OVERLOAD);
        else if (!(slot = sonar_window_queue_free_slot(&a->queue)))
            return NULL;
    }
}

static enum outcome offer(sonar_assembler *a, const struct loss *loss) {
    enum outcome outcome = sonar_windows_make_room(a, window_end(a));
    if (outcome)
        return outcome;
    sonar_window_slot *slot = slot_for_window(a);
    if (!slot && a->blocking)
        return BUSY;
    sonar_count_add(&a->count.windows_offered, 1);
    if (!slot) {
        drop_window(a, SONAR_WINDOW_OVERLOAD);
        return DONE;
    }
    sonar_windows_open(a, window_end(a));
    sonar_loss_fill(a);
    describe(a, loss, slot);
    sonar_window_queue_publish(slot);
    atomic_fetch_add(&a->published, 1);
    return DONE;
}

/* ---- from window to window ------------------------------------------------------------------- */

void sonar_windows_next_chunk(sonar_assembler *a) {
    uint64_t lowest = UINT64_MAX;
    if (!a->chunk.samples)
        return;
    for (size_t k = 0; k < a->channels; k++)
        if (a->used[k] && a->reached[k] < lowest)
            lowest = a->reached[k];
    lowest -= lowest % a->chunk.samples;
    a->chunk.end = lowest + a->chunk.samples;
    a->chunk.waiting_for = 0;
    for (size_t k = 0; k < a->channels; k++)
        a->chunk.waiting_for += a->used[k] && a->reached[k] < a->chunk.end;
    if (lowest > atomic_load_explicit(&a->chunk.ready, memory_order_relaxed))
        atomic_store_explicit(&a->chunk.ready, lowest, memory_order_release);
}

/* Updates the state of each channel after a change of the window. */
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
    sonar_windows_next_chunk(a);
}

/* A window that was shed is not offered, so samples after the dropped range may still be stored. */
static uint64_t frozen_after_window(const sonar_assembler *a) {
    uint64_t end = window_end(a);
    if (is_shed(a) && end > a->shed.to)
        end = a->shed.to;
    return end > a->frozen ? end : a->frozen;
}

/* Recomputes all counts over used channels. */
void sonar_windows_take_used(sonar_assembler *a) {
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
    sonar_windows_take_used(a);
    follow_channels(a);
    sonar_outlet_hand_on(a, a->frozen);
}

enum outcome sonar_windows_freeze(sonar_assembler *a) {
    if (is_shed(a)) {
        drop_window(a, SONAR_WINDOW_SHED);
        next_window(a);
        return DONE;
    }
    struct loss loss = sonar_loss_measure(a);
    if (sonar_loss_mean(a, &loss) > a->max_missing_share) {
        drop_window(a, SONAR_WINDOW_MISSING);
    } else {
        enum outcome outcome = offer(a, &loss);
        if (outcome)
            return outcome;
    }
    sonar_count_add(&a->count.samples_missing, loss.fresh);
    if (loss.fresh)
        sonar_loss_note(a);
    a->memory.decided_ns = a->now_ns;
    next_window(a);
    return DONE;
}

enum outcome sonar_windows_advance(sonar_assembler *a) {
    while (is_window_over(a)) {
        enum outcome outcome = sonar_windows_freeze(a);
        if (outcome)
            return outcome;
    }
    return DONE;
}

/* The stream has stopped, so no later sample will show that the missing samples of finished windows
 * are lost. Unfinished windows keep waiting. */
void sonar_windows_end(sonar_assembler *a) {
    while (a->newest >= window_end(a) && sonar_windows_freeze(a) == DONE)
        continue;
}
