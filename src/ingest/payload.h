/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SONAR_INGEST_PAYLOAD_H
#define SONAR_INGEST_PAYLOAD_H

#include <stdatomic.h>

#include "status/result.h"

/* The samples of a message. */
typedef struct sonar_payload {
    const void *data; /* NULL: no samples, for the reason `fault` */
    size_t bytes;
    sonar_frame_cause fault;
    const _Atomic uint64_t
        *counter; /* NULL: private memory. Otherwise the samples are in memory that the digitiser
                     writes, and are valid as long as this reads `count` */
    uint64_t count;
} sonar_payload;

/* True if the samples that were read so far are the ones that were sent. */
static inline bool sonar_payload_holds(const sonar_payload *payload) {
#ifndef __SANITIZE_THREAD__ /* the thread sanitizer does not model fences */
    atomic_thread_fence(memory_order_acquire);
#endif
    return !payload->counter ||
           atomic_load_explicit(payload->counter, memory_order_relaxed) == payload->count;
}

#endif
