/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "output/latency.h"

#include <math.h>

/* Bucket 0 holds [0, 1) us; after it octave o, sub-bucket s hold [2^o (1 + s/16), ...). */
static size_t bucket_of(double us) {
    if (us < 1.0)
        return 0;
    int exponent;
    double mantissa = frexp(us, &exponent); /* us = mantissa * 2^exponent, mantissa in [0.5, 1) */
    size_t bucket = 1 + (size_t)(exponent - 1) * 16 + (size_t)((mantissa * 2 - 1) * 16);
    return bucket < SONAR_LATENCY_BUCKETS ? bucket : SONAR_LATENCY_BUCKETS - 1;
}

static double upper_edge(size_t bucket) {
    return ldexp(1.0 + (double)(bucket % 16) / 16, (int)(bucket / 16));
}

void sonar_latency_add(sonar_latency *latency, double us) {
    if (!(us > 0) || !isfinite(us))
        us = 0;
    latency->count++;
    latency->bucket[bucket_of(us)]++;
    latency->max_us = fmax(latency->max_us, us);
}

double sonar_latency_percentile(const sonar_latency *latency, double share) {
    if (latency->count == 0)
        return NAN;
    double want = fmax(1.0, ceil(share * (double)latency->count));
    uint64_t seen = 0;
    for (size_t i = 0; i < SONAR_LATENCY_BUCKETS; i++) {
        seen += latency->bucket[i];
        if ((double)seen >= want)
            return i == SONAR_LATENCY_BUCKETS - 1 ? latency->max_us
                                                  : fmin(upper_edge(i), latency->max_us);
    }
    return latency->max_us;
}
