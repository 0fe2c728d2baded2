/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Percentiles of latencies without allocation: a histogram of 16 buckets an octave (6 % wide). Not
 * locked; whoever shares it brings the lock. */
#ifndef SONAR_LATENCY_H
#define SONAR_LATENCY_H

#include "sonar/sonar.h"

enum { SONAR_LATENCY_BUCKETS = 40 * 16 };

typedef struct sonar_latency {
    uint64_t count;
    double max_us;
    uint32_t bucket[SONAR_LATENCY_BUCKETS];
} sonar_latency;

/* Negative and not finite values count as 0. */
void sonar_latency_add(sonar_latency *latency, double us);
/* Upper edge of the bucket that holds the share (0..1) of the values, at most the largest; NaN if
 * there are none. */
double sonar_latency_percentile(const sonar_latency *latency, double share);

#endif
