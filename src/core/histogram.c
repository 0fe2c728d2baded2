/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/histogram.h"

#include <math.h>
#include <stddef.h>

/* Values below 16 ns have a bucket each. Above, an octave has 16 buckets, selected by the four bits
 * below the highest. */
static size_t bucket_of(uint64_t ns) {
    if (ns < 16)
        return (size_t)ns;
    size_t octave = 63 - (size_t)__builtin_clzll(ns);
    size_t bucket = (octave - 3) * 16 + (size_t)(ns >> (octave - 4) & 15);
    return bucket < SONAR_HISTOGRAM_BUCKETS ? bucket : SONAR_HISTOGRAM_BUCKETS - 1;
}

static double upper_edge_us(size_t bucket) {
    if (bucket < 16)
        return (double)bucket * 1e-3;
    return ldexp((double)(bucket % 16 + 17), (int)(bucket / 16) - 1) * 1e-3;
}

/* With a single writer no atomic addition is needed, except for the maximum, which the reader
 * resets. */
void sonar_histogram_add(sonar_histogram *histogram, uint64_t ns) {
    _Atomic uint32_t *bucket = &histogram->bucket[bucket_of(ns)];
    atomic_store_explicit(bucket, atomic_load_explicit(bucket, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    atomic_store_explicit(&histogram->sum_ns,
                          atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed) + ns,
                          memory_order_relaxed);
    uint64_t longest = atomic_load_explicit(&histogram->longest_ns, memory_order_relaxed);
    while (ns > longest &&
           !atomic_compare_exchange_weak_explicit(&histogram->longest_ns, &longest, ns,
                                                  memory_order_relaxed, memory_order_relaxed))
        ;
}

/* Upper edge of the bucket that contains this quantile. */
static double percentile_us(const uint32_t *bucket, double share) {
    uint64_t count = 0, seen = 0;
    for (size_t i = 0; i < SONAR_HISTOGRAM_BUCKETS; i++)
        count += bucket[i];
    const double want = fmax(1, ceil(share * (double)count));
    for (size_t i = 0; i < SONAR_HISTOGRAM_BUCKETS; i++) {
        seen += bucket[i];
        if ((double)seen >= want)
            return upper_edge_us(i);
    }
    return NAN;
}

/* NaN if there are no values. */
static double mean_us(const uint32_t *bucket, uint64_t sum_ns) {
    uint64_t count = 0;
    for (size_t i = 0; i < SONAR_HISTOGRAM_BUCKETS; i++)
        count += bucket[i];
    return count ? (double)sum_ns * 1e-3 / (double)count : NAN;
}

/* An edge is the upper edge of the last bucket of its octave. */
static void count_below(const uint32_t *bucket, sonar_percentiles *to) {
    size_t i = 0;
    to->count = 0;
    for (size_t edge = 0; edge < SONAR_HISTOGRAM_EDGES; edge++) {
        for (; i < (edge + SONAR_HISTOGRAM_FIRST_EDGE - 3) * 16; i++)
            to->count += bucket[i];
        to->below[edge] = to->count;
    }
    for (; i < SONAR_HISTOGRAM_BUCKETS; i++)
        to->count += bucket[i];
}

void sonar_histogram_read(sonar_histogram *histogram, sonar_histogram_seen *seen,
                          sonar_percentiles *to) {
    static const double share[3] = {0.5, 0.99, 1};
    uint32_t fresh[SONAR_HISTOGRAM_BUCKETS];
    for (size_t i = 0; i < SONAR_HISTOGRAM_BUCKETS; i++) {
        uint32_t now = atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
        fresh[i] = now - seen->bucket[i];
        seen->bucket[i] = now;
    }
    count_below(seen->bucket, to);
    const uint64_t sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
    to->sum_s = (double)sum_ns * 1e-9;
    to->last_mean_us = mean_us(fresh, sum_ns - seen->sum_ns);
    seen->sum_ns = sum_ns;
    const uint64_t longest_ns =
        atomic_exchange_explicit(&histogram->longest_ns, 0, memory_order_relaxed);
    seen->longest_ns = longest_ns > seen->longest_ns ? longest_ns : seen->longest_ns;
    for (int i = 0; i < 3; i++) { /* fmin returns the number if one of them is NaN */
        double all = percentile_us(seen->bucket, share[i]);
        double last = percentile_us(fresh, share[i]);
        to->all_us[i] = isnan(all) ? NAN : fmin(all, (double)seen->longest_ns * 1e-3);
        to->last_us[i] = isnan(last) ? NAN : fmin(last, (double)longest_ns * 1e-3);
    }
}
