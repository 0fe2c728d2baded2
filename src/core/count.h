/* SPDX-License-Identifier: GPL-3.0-or-later */
/* 64-bit counters that one thread writes and any thread reads, without a lock. A struct of such
 * words is copied word by word, so that each value is exact. */
#ifndef SONAR_COUNT_H
#define SONAR_COUNT_H

#include <stddef.h>
#include <stdint.h>

static inline uint64_t sonar_count_read(const uint64_t *counter) {
    return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

/* Only the counter's writer calls this. */
static inline void sonar_count_set(uint64_t *counter, uint64_t value) {
    __atomic_store_n(counter, value, __ATOMIC_RELAXED);
}

static inline void sonar_count_add(uint64_t *counter, uint64_t more) {
    sonar_count_set(counter, sonar_count_read(counter) + more);
}

/* bytes is a multiple of 8. */
static inline void sonar_count_copy(void *to, const void *from, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(uint64_t); i++)
        ((uint64_t *)to)[i] = sonar_count_read((const uint64_t *)from + i);
}

#endif
