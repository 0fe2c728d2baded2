/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Bounded queue of windows from the ingest thread (producer) to the data thread (consumer): slots
 * whose state is one atomic word each. Unlike with a plain ring, the producer may take the oldest
 * waiting window back. While a slot is not free, its samples in the sample ring are not
 * overwritten.
 */
#ifndef SONAR_WINDOW_QUEUE_H
#define SONAR_WINDOW_QUEUE_H

#include "ingest/ingest.h"

#include <stdatomic.h>

typedef struct sonar_window_slot {
    _Atomic uint64_t state; /* window index * 4 + FREE, FILLED or TAKEN */
    sonar_window window;    /* written by the producer while free, then only read */
    uint64_t
        ring_first;    /* position of the first sample it needs, which may lie before the window */
    uint64_t timeline; /* counts adoptions of a stream */
    float *missing;    /* [channel], what window.missing points to */
    uint32_t *gap_count; /* [channel], and */
    sonar_gap *gap;      /* [channel][SONAR_GAPS_MOST]: what window.gaps points to */
    uint64_t *lacks;     /* what window.lacks points to */
} sonar_window_slot;

typedef struct sonar_window_queue {
    size_t slots;
    sonar_window_slot *slot;
    float *missing;         /* [slot][channel] */
    uint32_t *gap_count;    /* [slot][channel] */
    sonar_gap *gap;         /* [slot][channel][SONAR_GAPS_MOST] */
    uint64_t *lacks;        /* [slot][words] */
    uint64_t last_timeline; /* consumer's */
} sonar_window_queue;

/* false: no memory. After a failure, and for a zeroed queue, destroy is allowed. */
bool sonar_window_queue_init(sonar_window_queue *queue, size_t slots, size_t channels,
                             size_t words);
void sonar_window_queue_clear(sonar_window_queue *queue);

/* ---- producer -------------------------------------------------------------------------------- */

/* A slot to fill, or NULL if all are in use. */
sonar_window_slot *sonar_window_queue_free_slot(sonar_window_queue *queue);
/* Makes the filled slot visible; window.window gives the order. */
void sonar_window_queue_publish(sonar_window_slot *slot);
/* Takes the oldest waiting window back and frees its slot. False: no window waits. */
bool sonar_window_queue_steal(sonar_window_queue *queue);
/* The slot in use with the earliest samples, or NULL. *taken: the data thread is reading it. */
const sonar_window_slot *sonar_window_queue_earliest(const sonar_window_queue *queue, bool *taken);

/* ---- consumer -------------------------------------------------------------------------------- */

/* The oldest waiting window; false: none. */
bool sonar_window_queue_take(sonar_window_queue *queue, sonar_window *window);
void sonar_window_queue_release(const sonar_window *window);

/* ---- any thread */

size_t sonar_window_queue_waiting(const sonar_window_queue *queue);

#endif
