/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Percentiles of times without allocation and locks: one thread adds, another reads. */
#ifndef SONAR_HISTOGRAM_H
#define SONAR_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum { SONAR_HISTOGRAM_BUCKETS = 16 * 42 }; /* 16 buckets per octave, up to 2^45 ns, 9 hours */
/* Edges of the exported counts, an octave apart: 2^10 ns (1 us) to 2^37 ns (137 s). */
enum { SONAR_HISTOGRAM_EDGES = 28, SONAR_HISTOGRAM_FIRST_EDGE = 10 };

/* Times in ns. */
typedef struct sonar_histogram {
    _Atomic uint32_t bucket[SONAR_HISTOGRAM_BUCKETS];
    _Atomic uint64_t longest_ns; /* since the last reading */
    _Atomic uint64_t sum_ns;
} sonar_histogram;

/* State of the reader at its last reading. */
typedef struct sonar_histogram_seen {
    uint32_t bucket[SONAR_HISTOGRAM_BUCKETS];
    uint64_t longest_ns, sum_ns;
} sonar_histogram_seen;

/* p50, p99 and maximum, and counts; NaN without values. Percentiles are at most 6 % too high; the
 * maximum is exact to a nanosecond. */
typedef struct sonar_percentiles {
    double all_us[3];                      /* since the start */
    double last_us[3], last_mean_us;       /* since the last reading */
    uint64_t below[SONAR_HISTOGRAM_EDGES]; /* values below 2^(i + FIRST_EDGE) ns, since the start */
    uint64_t count;
    double sum_s;
} sonar_percentiles;

/* Only one thread may add. */
void sonar_histogram_add(sonar_histogram *histogram, uint64_t ns);
/* Read by one thread, which owns *seen. A value added during the call counts now or at the next
 * reading. */
void sonar_histogram_read(sonar_histogram *histogram, sonar_histogram_seen *seen,
                          sonar_percentiles *to);

#endif
