/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sample ring. The assembler decides where samples go. Several threads may write to it, each to
 * its own positions. A pool of threads divides work that concerns all channels. */
#ifndef SONAR_STORE_H
#define SONAR_STORE_H

#include "core/core.h"
#include "ingest/frame.h"

enum { SONAR_RANGES_OF_CHANNELS_MOST = 1024 };

/* Samples from `offset` on of all channels of a frame, for positions from `position` on. */
typedef struct sonar_copy {
    sonar_frame frame;
    const void *payload;
    uint64_t position;
    uint32_t offset, samples;
} sonar_copy;

typedef struct sonar_store {
    size_t channels, capacity; /* samples a channel, a multiple of 64 */
    bool s16;                  /* else f32 */
    void *ring;                /* [channel][capacity] */
    bool lent,
        stream; /* lent: the ring is borrowed; stream: the caches cannot hold the ring anyway */
    sonar_pool *pool;
    size_t range, ranges; /* channels of one task, a multiple of 128 */
} sonar_store;

/* ring: borrowed, or NULL to allocate one. SONAR_ENOMEM, SONAR_ESYS. After a failure, and for a
 * zeroed store, clear is allowed. */
sonar_code sonar_store_init(sonar_store *store, size_t channels, size_t capacity, sonar_dtype type,
                            size_t threads, void *ring, sonar_error *err);
void sonar_store_clear(sonar_store *store);
/* Writes all channels of the copy. The ring must have room for its samples. Any thread. */
void sonar_store_put(const sonar_store *store, const sonar_copy *copy);
/* Writes the part of the copy that belongs to one channel of the array. */
void sonar_store_put_channel(const sonar_store *store, const sonar_copy *copy, size_t channel);
/* Writes zeros. Any thread. */
void sonar_store_zero(const sonar_store *store, size_t channel, uint64_t position, size_t samples);
/* Runs task(arg, range, worker) for every range of channels, shared among the threads. */
void sonar_store_each_range(sonar_store *store,
                            void (*task)(void *arg, size_t range, size_t worker), void *arg);
/* The first channel of a range; for the range after the last one, the number of channels. */
size_t sonar_store_range_begin(const sonar_store *store, size_t range);

#endif
