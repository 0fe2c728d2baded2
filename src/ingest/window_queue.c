/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/window_queue.h"

#include <stdlib.h>

#include "core/core.h"

/* The window index is part of the state, so that a compare-exchange succeeds only for the window
 * that was read, however often the slot was reused since. */
enum { FREE = 0, FILLED = 1, TAKEN = 2, STATE_MASK = 3 };

static bool allocate(sonar_window_queue *queue, size_t channels, size_t words) {
    size_t count, bits;
    if (__builtin_mul_overflow(queue->slots, channels, &count) ||
        __builtin_mul_overflow(queue->slots, words, &bits))
        return false;
    queue->slot = sonar_alloc(queue->slots, sizeof *queue->slot);
    queue->missing = sonar_alloc(count, sizeof *queue->missing);
    queue->gap_count = sonar_alloc(count, sizeof *queue->gap_count);
    queue->gap = sonar_alloc(count, SONAR_GAPS_MOST * sizeof *queue->gap);
    queue->lacks = sonar_alloc(bits, sizeof *queue->lacks);
    return queue->slot && queue->missing && queue->gap_count && queue->gap && queue->lacks;
}

bool sonar_window_queue_init(sonar_window_queue *queue, size_t slots, size_t channels,
                             size_t words) {
    *queue = (sonar_window_queue){.slots = slots, .last_timeline = 1};
    if (!allocate(queue, channels, words))
        return false;
    for (size_t i = 0; i < slots; i++) {
        sonar_window_slot *slot = &queue->slot[i];
        atomic_init(&slot->state, FREE);
        slot->missing = queue->missing + i * channels;
        slot->gap_count = queue->gap_count + i * channels;
        slot->gap = queue->gap + i * channels * SONAR_GAPS_MOST;
        slot->lacks = queue->lacks + i * words;
    }
    return true;
}

void sonar_window_queue_clear(sonar_window_queue *queue) {
    free(queue->slot);
    free(queue->missing);
    free(queue->gap_count);
    free(queue->gap);
    free(queue->lacks);
}

static uint64_t state_of(const sonar_window_slot *slot) {
    return atomic_load_explicit(&slot->state, memory_order_acquire);
}

sonar_window_slot *sonar_window_queue_free_slot(sonar_window_queue *queue) {
    for (size_t i = 0; i < queue->slots; i++)
        if ((state_of(&queue->slot[i]) & STATE_MASK) == FREE)
            return &queue->slot[i];
    return NULL;
}

void sonar_window_queue_publish(sonar_window_slot *slot) {
    uint64_t filled = slot->window.window << 2 | FILLED;
    atomic_store_explicit(&slot->state, filled, memory_order_release);
}

static sonar_window_slot *lowest_filled(sonar_window_queue *queue, uint64_t *lowest) {
    sonar_window_slot *oldest = NULL;
    *lowest = UINT64_MAX;
    for (size_t i = 0; i < queue->slots; i++) {
        uint64_t state = state_of(&queue->slot[i]);
        if ((state & STATE_MASK) == FILLED && state < *lowest) {
            *lowest = state;
            oldest = &queue->slot[i];
        }
    }
    return oldest;
}

/* Moves the oldest waiting window to `next`; NULL if none waits. One pass is not enough: while it
 * reads the slots, a window may be published behind it and a younger one before it. Its result was
 * published after all older windows, so a second pass has seen these if it has the same result. */
static sonar_window_slot *claim_oldest(sonar_window_queue *queue, uint64_t next) {
    for (;;) {
        uint64_t lowest, again;
        sonar_window_slot *oldest = lowest_filled(queue, &lowest);
        if (!oldest)
            return NULL;
        if (lowest_filled(queue, &again) != oldest || again != lowest)
            continue;
        uint64_t claimed = (lowest & ~(uint64_t)STATE_MASK) | next;
        if (atomic_compare_exchange_strong_explicit(&oldest->state, &lowest, claimed,
                                                    memory_order_acq_rel, memory_order_acquire))
            return oldest;
    }
}

bool sonar_window_queue_steal(sonar_window_queue *queue) {
    return claim_oldest(queue, FREE) != NULL;
}

const sonar_window_slot *sonar_window_queue_earliest(const sonar_window_queue *queue, bool *taken) {
    const sonar_window_slot *earliest = NULL;
    for (size_t i = 0; i < queue->slots; i++) {
        uint64_t state = state_of(&queue->slot[i]) & STATE_MASK;
        if (state == FREE || (earliest && queue->slot[i].ring_first >= earliest->ring_first))
            continue;
        earliest = &queue->slot[i];
        *taken = state == TAKEN;
    }
    return earliest;
}

bool sonar_window_queue_take(sonar_window_queue *queue, sonar_window *window) {
    sonar_window_slot *slot = claim_oldest(queue, TAKEN);
    if (!slot)
        return false;
    *window = slot->window;
    /* Decided here, because the first window of a timeline may have been taken back. */
    window->restarted = slot->timeline != queue->last_timeline;
    queue->last_timeline = slot->timeline;
    return true;
}

void sonar_window_queue_release(const sonar_window *window) {
    sonar_window_slot *slot = window->slot;
    atomic_store_explicit(&slot->state, FREE, memory_order_release);
}

size_t sonar_window_queue_waiting(const sonar_window_queue *queue) {
    size_t waiting = 0;
    for (size_t i = 0; i < queue->slots; i++)
        waiting += (state_of(&queue->slot[i]) & STATE_MASK) == FILLED;
    return waiting;
}
