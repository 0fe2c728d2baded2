/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples passed from ingest to the recorder: every sample of all channels once, in order, as soon
 * as it no longer changes, whether or not it is part of a complete window. */
#ifndef SONAR_STRETCH_H
#define SONAR_STRETCH_H

#include "sonar/sonar.h"

/* Channels [first, first + channels) lack samples [begin, end) of a stretch; the ring's content
 * there is undefined. */
typedef struct sonar_lack {
    uint32_t first_channel, channels;
    uint32_t begin, end;
} sonar_lack;

/* Samples of all channels, one after the other. Valid during the call that hands it over. */
typedef struct sonar_stretch {
    uint64_t
        timeline; /* number of the timeline: indices of different timelines cannot be compared */
    uint32_t epoch;
    uint64_t first_sample;
    int64_t utc_ns; /* of the first sample, 0 = unknown */
    uint32_t flags; /* SONAR_FRAME_* bits of all its frames; a stretch ends where they change */
    size_t samples;
    sonar_buffer ring; /* f32 or s16 [channel][capacity] */
    size_t column;     /* of the first sample; the stretch may wrap around */
    size_t lacks;      /* at most sonar_stretch_lacks_most */
    const sonar_lack *lack;
} sonar_stretch;

/* Gaps that a stretch of one sample has at most, whichever channels lack it. Ingest shortens
 * stretches until their gaps fit. */
static inline size_t sonar_stretch_lacks_most(size_t channels) {
    return channels / 2 + 64;
}

/* The receiver of stretches. Calls come one at a time, from any ingest thread, in order. A stretch
 * without any sample is not passed on; the next one then begins later. */
typedef struct sonar_stretch_sink {
    void *ctx;
    bool (*wants)(void *ctx); /* false: no stretches are made */
    void (*take)(void *ctx, const sonar_stretch *stretch);
    void (*flush)(void *ctx); /* called several times a second, even if no stretches are wanted */
} sonar_stretch_sink;

#endif
