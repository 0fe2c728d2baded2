/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How long each stage takes, as histograms that one thread fills and another reads without a lock.
 */
#ifndef SONAR_TIMING_H
#define SONAR_TIMING_H

#include <stdatomic.h>

#include "core/result.h"

enum { SONAR_HISTOGRAM_BUCKETS = 16 * 42 }; /* 16 an octave, up to 18 minutes */

/* Times in ns. */
typedef struct sonar_histogram {
    _Atomic uint32_t bucket[SONAR_HISTOGRAM_BUCKETS];
    _Atomic uint64_t longest_ns;
} sonar_histogram;

/* What the reader has seen by its last reading. */
typedef struct sonar_histogram_seen {
    uint32_t bucket[SONAR_HISTOGRAM_BUCKETS];
} sonar_histogram_seen;

/* One thread. */
void sonar_histogram_add(sonar_histogram *histogram, uint64_t ns);
/* p50, p99 and maximum of all values (all_us) and of those since the last reading (last_us), each
 * to 6 % from above; NaN without values. One thread, which owns *seen. */
void sonar_histogram_read(const sonar_histogram *histogram, sonar_histogram_seen *seen,
                          sonar_stage_time *to);

#endif
