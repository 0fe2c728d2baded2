/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A window of samples as ingest offers it and the engine reads it. */
#ifndef SONAR_WINDOW_H
#define SONAR_WINDOW_H

#include "sonar/sonar.h"

/* Valid from take to release. */
typedef struct sonar_window {
    uint64_t window; /* index */
    uint64_t first_sample;
    uint32_t epoch;
    int64_t utc_ns;                     /* of the first sample, 0 = unknown */
    double missing_mean, missing_worst; /* share of the used channels' samples */
    size_t lookback;       /* samples before the first that are there, too: the spec's, but none
                              before the stream's first window */
    sonar_gaps gaps;       /* of the used channels, in the window */
    const uint64_t *lacks; /* which samples some used channel lacks: see sonar_window_is_whole */
    uint32_t flags;        /* SONAR_FRAME_* bits of the frames in it */
    bool restarted;        /* first one taken of a timeline that replaced another */
    int64_t arrival_ns;    /* monotonic, when its last sample came */
    int64_t offered_ns;    /* and when ingest was done with it */
    const float *missing;  /* [channel] share of missing samples */
    sonar_buffer ring;     /* f32 or s16 [channel][capacity] */
    uint64_t position;     /* of the first sample in the ring: a count that grows over restarts */
    size_t ring_column;    /* of the first sample; the window may wrap around */
    void *slot;            /* ingest's own */
} sonar_window;

/* The rows [channel][n] of samples [first, first + length) of the window as the one or two pieces
 * the ring holds them in: the `in` of the DFT stage. */
void sonar_window_span(const sonar_window *window, uint64_t first, size_t length,
                       sonar_buffer span[2]);
/* Have all used channels all samples of [first, first + length)? They lie in the window or up to
 * `lookback` samples before it. */
bool sonar_window_is_whole(const sonar_window *window, uint64_t first, size_t length);

#endif
