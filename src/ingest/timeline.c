/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Timelines: decides whether a frame belongs to the current one or begins another. Called by
 * begin.c. */
#include <string.h>

#include "ingest/internal.h"

static bool can_begin_at(const sonar_assembler *a, uint64_t first) {
    uint64_t end, floor = first - first % a->hop;
    return !__builtin_add_overflow(floor, (uint64_t)a->hop, &end) &&
           !__builtin_add_overflow(end, (uint64_t)a->length, &end);
}

/* Windows already begun are never offered. */
static void abandon_windows(sonar_assembler *a) {
    if (a->newest <= a->window)
        return;
    uint64_t begun = (a->newest - a->window - 1) / a->hop + 1;
    sonar_count_add(&a->count.windows_dropped[SONAR_WINDOW_SKIPPED], begun);
    a->index += begun;
}

/* Ends the earlier timeline with the samples received so far. */
static void leave(sonar_assembler *a, const sonar_frame *frame) {
    sonar_outlet_hand_on(a, a->newest);
    abandon_windows(a);
    sonar_count_add(&a->count.restarts, 1);
    if (frame->epoch != a->epoch)
        sonar_blocks_restart(&a->blocks);
}

/* Clears the state of all channels: nothing has been received. */
static void clear_books(sonar_assembler *a) {
    sonar_blocks_begin(&a->blocks);
    sonar_shed_restart(&a->shed);
    sonar_lanes_forget(&a->lanes);
    memset(a->fed, 0, a->channels);
    sonar_windows_take_used(a);
    a->all_fed = false;
    memset(a->note, 0, a->notes * sizeof *a->note);
    for (size_t k = 0; k < a->channels; k++)
        a->reached[k] = a->since[k] = a->window;
    a->waiting_for = a->channels_used;
    sonar_windows_next_chunk(a);
}

/* Begins a timeline at the frame. Its positions continue after the old ones, whose windows may
 * still be read. Samples before its first window are stored like any others. */
static void adopt(sonar_assembler *a, const sonar_frame *frame) {
    if (a->running)
        leave(a, frame);
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
    a->memory.adopted_ns = a->now_ns;
    a->memory.decided_ns = 0;
    sonar_outlet_begin(a, a->base + into);
    clear_books(a);
}

sonar_frame_cause sonar_timeline_join(sonar_assembler *a, const sonar_frame *frame,
                                      int64_t now_ns) {
    bool whole = frame->channels == a->channels;
    bool same = a->running && frame->epoch == a->epoch;
    enum relation relation = same ? relation_of(a, frame) : AHEAD;
    if (relation == INSIDE)
        return NO_CAUSE;
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
    return NO_CAUSE;
}
