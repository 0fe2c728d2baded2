/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A window of samples as ingest offers it and the engine reads it. */
#ifndef SONAR_WINDOW_H
#define SONAR_WINDOW_H

#include "sonar/sonar.h"

/* Valid from take to release. */
typedef struct sonar_window {
    uint64_t window; /* number of the window */
    uint64_t first_sample;
    uint32_t epoch;
    int64_t utc_ns; /* of the first sample, 0 = unknown */
    double missing_mean,
        missing_worst; /* mean and largest share of the used channels' samples that is missing */
    size_t lookback;   /* samples present before the first: the spec's lookback, but none before the
                          stream's first window */
    sonar_gaps gaps;   /* of the used channels, in the window */
    const uint64_t *
        lacks; /* bits of samples that at least one used channel lacks, for sonar_window_is_whole */
    uint32_t flags;       /* SONAR_FRAME_* bits of the frames in it */
    bool restarted;       /* the first one of a timeline that replaced another */
    int64_t arrival_ns;   /* monotonic, when its last sample was received */
    int64_t offered_ns;   /* monotonic, when ingest offered it */
    const float *missing; /* [channel] share of missing samples */
    sonar_buffer ring;    /* f32 or s16 [channel][capacity] */
    uint64_t position;  /* of the first sample in the ring: a count that continues over restarts */
    size_t ring_column; /* of the first sample; the window may wrap around */
    void *slot;         /* private to ingest */
} sonar_window;

/* The rows [channel][n] of samples [first, first + length) of the window, in the one or two pieces
 * in which the ring holds them: the `in` of the DFT stage. */
void sonar_window_span(const sonar_window *window, uint64_t first, size_t length,
                       sonar_buffer span[2]);
/* True if all used channels have all samples of [first, first + length), which lie in the window or
 * up to `lookback` samples before it. */
bool sonar_window_is_whole(const sonar_window *window, uint64_t first, size_t length);

#endif
