/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples on their way from ingest to whoever keeps them: every sample of all channels once, in
 * order, as soon as it cannot change any more, whether or not a window could be made of it. */
#ifndef SONAR_STRETCH_H
#define SONAR_STRETCH_H

#include "sonar/sonar.h"

/* Channels [first, first + channels) lack samples [begin, end) of a stretch; the ring holds nothing
 * that means anything there. */
typedef struct sonar_lack {
    uint32_t first_channel, channels;
    uint32_t begin, end;
} sonar_lack;

/* Samples of all channels, one after the other. Valid during the call that hands it over. */
typedef struct sonar_stretch {
    uint64_t timeline; /* counts adoptions of a stream: indices of two are not to be compared */
    uint32_t epoch;
    uint64_t first_sample;
    int64_t utc_ns; /* of the first sample, 0 = unknown */
    uint32_t flags; /* SONAR_FRAME_* bits of all frames in it: where they change, a stretch ends */
    size_t samples;
    sonar_buffer ring; /* f32 or s16 [channel][capacity] */
    size_t column;     /* of the first sample; the stretch may wrap around */
    size_t lacks;      /* at most sonar_stretch_lacks_most */
    const sonar_lack *lack;
} sonar_stretch;

/* Enough for any one sample, whichever channels lack it: ingest makes stretches so short that their
 * lacks fit. */
static inline size_t sonar_stretch_lacks_most(size_t channels) {
    return channels / 2 + 64;
}

/* Who takes stretches; one call at a time, by whichever ingest thread, each after the one before. A
 * stretch that nobody sent a sample of is left out, so that the next one begins later. */
typedef struct sonar_stretch_sink {
    void *ctx;
    bool (*wants)(void *ctx); /* false: stretches are not even made */
    void (*take)(void *ctx, const sonar_stretch *stretch);
    void (*flush)(void *ctx); /* several times a second, wanted or not */
} sonar_stretch_sink;

#endif
