/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Lanes: the channel blocks whose frames several threads may book concurrently. Blocks of one lane
 * table share no channel, and no sample is stored in a lane at or beyond its `end`. So a frame that
 * begins there is new in all its channels, whatever other threads are storing, and the samples
 * present need not be looked up. A frame of any other shape is booked alone, and its lane replaces
 * those that it overlaps. */
#ifndef SONAR_LANES_H
#define SONAR_LANES_H

#include <pthread.h>

#include "status/result.h"
#include "ingest/frame.h"

typedef struct sonar_lane {
    uint32_t first_channel, channels;
    uint64_t end; /* position */
    bool used;    /* some of its channels are used; otherwise no window waits for its samples */
} sonar_lane;

typedef struct sonar_lanes {
    size_t count, last; /* last: the lane found most recently, which is tried first */
    sonar_lane lane[SONAR_BLOCKS_MOST];
    pthread_mutex_t
        lock[SONAR_BLOCKS_MOST]; /* protects what frames of the lane change: coverage, reached */
} sonar_lanes;

void sonar_lanes_init(sonar_lanes *lanes);
void sonar_lanes_clear(sonar_lanes *lanes);
void sonar_lanes_forget(sonar_lanes *lanes);
/* The frame's lane; NULL: it has none. */
sonar_lane *sonar_lanes_find(sonar_lanes *lanes, const sonar_frame *frame);
/* The same, but creates a missing lane where there is room, replacing those that it overlaps.
 * Requires that no frame is being booked. newest: nothing was stored beyond; used: [channel]. */
sonar_lane *sonar_lanes_enter(sonar_lanes *lanes, const sonar_frame *frame, uint64_t newest,
                              const uint8_t *used);
/* Changes which channels count. */
void sonar_lanes_use(sonar_lanes *lanes, const uint8_t *used);
pthread_mutex_t *sonar_lane_lock(sonar_lanes *lanes, const sonar_lane *lane);

#endif
