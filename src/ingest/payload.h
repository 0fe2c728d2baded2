/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SONAR_INGEST_PAYLOAD_H
#define SONAR_INGEST_PAYLOAD_H

#include <stdatomic.h>

#include "status/result.h"

/* The samples of a message. */
typedef struct sonar_payload {
    const void *data; /* NULL: there are none, for the reason `fault` */
    size_t bytes;
    sonar_frame_cause fault;
    const _Atomic uint64_t *counter; /* in memory that a digitiser writes to: the samples are those
                                        that were sent while this reads `count`; NULL: private */
    uint64_t count;
} sonar_payload;

/* The samples that were read so far are those that were sent. */
static inline bool sonar_payload_holds(const sonar_payload *payload) {
#ifndef __SANITIZE_THREAD__ /* which knows no fences, and nothing of other processes */
    atomic_thread_fence(memory_order_acquire);
#endif
    return !payload->counter ||
           atomic_load_explicit(payload->counter, memory_order_relaxed) == payload->count;
}

#endif
