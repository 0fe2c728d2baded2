/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/store.h"

#include <stdlib.h>
#include <string.h>

/* Larger than the last-level caches of most processors. */
static const size_t stream_bytes = (size_t)64 << 20;

static size_t sample_bytes(const sonar_store *store) {
    return store->s16 ? sizeof(int16_t) : sizeof(float);
}

/* Channels of a range: whole cache lines, even for arrays of a few bytes per channel and for
 * interleaved samples. */
static size_t channels_of_range(size_t channels) {
    size_t most = (channels + SONAR_RANGES_OF_CHANNELS_MOST - 1) / SONAR_RANGES_OF_CHANNELS_MOST;
    return (most + 127) & ~(size_t)127;
}

sonar_code sonar_store_init(sonar_store *store, size_t channels, size_t capacity, sonar_dtype type,
                            size_t threads, void *ring, sonar_error *err) {
    size_t samples = 0;
    *store = (sonar_store){.channels = channels,
                           .capacity = capacity,
                           .s16 = type == SONAR_S16,
                           .ring = ring,
                           .lent = ring != NULL,
                           .range = channels_of_range(channels)};
    store->ranges = (channels + store->range - 1) / store->range;
    bool possible = capacity && !__builtin_mul_overflow(capacity, channels, &samples);
    if (possible && !ring)
        store->ring = sonar_alloc(samples, sample_bytes(store));
    if (!possible || !store->ring)
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for a ring of %zu channels",
                          channels);
    store->stream = samples > stream_bytes / sample_bytes(store);
    return sonar_pool_create(threads ? threads : 1, NULL, &store->pool, err);
}

void sonar_store_clear(sonar_store *store) {
    sonar_pool_destroy(store->pool);
    if (!store->lent)
        free(store->ring);
}

size_t sonar_store_range_begin(const sonar_store *store, size_t range) {
    return sonar_min_size(range * store->range, store->channels);
}

void sonar_store_each_range(sonar_store *store,
                            void (*task)(void *arg, size_t range, size_t worker), void *arg) {
    sonar_pool_parallel(store->pool, store->ranges, task, arg);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* The channels [first, end) of the copy, numbered in the array. */
static void write_channels(const sonar_store *store, const sonar_copy *copy, size_t first,
                           size_t end) {
    uint32_t channel = (uint32_t)first - copy->frame.first_channel;
    for (uint32_t done = 0, samples; done < copy->samples; done += samples) {
        size_t column = (size_t)((copy->position + done) % store->capacity);
        size_t at = first * store->capacity + column;
        sonar_rows rows = {.data = (char *)store->ring + at * sample_bytes(store),
                           .stride = store->capacity,
                           .s16 = store->s16,
                           .stream = store->stream};
        samples = (uint32_t)sonar_min_size(copy->samples - done, store->capacity - column);
        sonar_frame_unpack_block(&copy->frame, copy->payload, channel, (uint32_t)(end - first),
                                 copy->offset + done, samples, &rows);
    }
}

void sonar_store_put(const sonar_store *store, const sonar_copy *copy) {
    size_t first = copy->frame.first_channel;
    write_channels(store, copy, first, first + copy->frame.channels);
}

void sonar_store_put_channel(const sonar_store *store, const sonar_copy *copy, size_t channel) {
    write_channels(store, copy, channel, channel + 1);
}

void sonar_store_zero(const sonar_store *store, size_t channel, uint64_t position, size_t samples) {
    size_t size = sample_bytes(store), column = (size_t)(position % store->capacity);
    size_t head = sonar_min_size(samples, store->capacity - column);
    char *row = (char *)store->ring + channel * store->capacity * size;
    memset(row + column * size, 0, head * size);
    memset(row, 0, (samples - head) * size);
}
