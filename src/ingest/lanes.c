/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/lanes.h"

#include <string.h>

void sonar_lanes_init(sonar_lanes *lanes) {
    lanes->count = lanes->last = 0;
    for (size_t i = 0; i < SONAR_BLOCKS_MOST; i++)
        pthread_mutex_init(&lanes->lock[i], NULL);
}

void sonar_lanes_clear(sonar_lanes *lanes) {
    for (size_t i = 0; i < SONAR_BLOCKS_MOST; i++)
        pthread_mutex_destroy(&lanes->lock[i]);
}

void sonar_lanes_forget(sonar_lanes *lanes) {
    lanes->count = lanes->last = 0;
}

static bool is_of(const sonar_lane *lane, const sonar_frame *frame) {
    return lane->first_channel == frame->first_channel && lane->channels == frame->channels;
}

/* Digitisers send in turn, so the next frame usually belongs to the next lane. */
sonar_lane *sonar_lanes_find(sonar_lanes *lanes, const sonar_frame *frame) {
    for (size_t i = 0, k = lanes->last; i < lanes->count; i++, k = k + 1 < lanes->count ? k + 1 : 0)
        if (is_of(&lanes->lane[k], frame)) {
            lanes->last = k;
            return &lanes->lane[k];
        }
    return NULL;
}

static bool touches(const sonar_lane *lane, const sonar_frame *frame) {
    return (uint64_t)lane->first_channel < (uint64_t)frame->first_channel + frame->channels &&
           frame->first_channel < (uint64_t)lane->first_channel + lane->channels;
}

static bool is_used(const sonar_lane *lane, const uint8_t *used) {
    return memchr(used + lane->first_channel, 1, lane->channels) != NULL;
}

sonar_lane *sonar_lanes_enter(sonar_lanes *lanes, const sonar_frame *frame, uint64_t newest,
                              const uint8_t *used) {
    sonar_lane *lane = sonar_lanes_find(lanes, frame);
    if (lane)
        return lane;
    for (size_t i = 0; i < lanes->count;)
        if (touches(&lanes->lane[i], frame))
            lanes->lane[i] = lanes->lane[--lanes->count];
        else
            i++;
    lanes->last = 0;
    if (lanes->count == SONAR_BLOCKS_MOST)
        return NULL;
    lane = &lanes->lane[lanes->count++];
    *lane = (sonar_lane){
        .first_channel = frame->first_channel, .channels = frame->channels, .end = newest};
    lane->used = is_used(lane, used);
    return lane;
}

void sonar_lanes_use(sonar_lanes *lanes, const uint8_t *used) {
    for (size_t i = 0; i < lanes->count; i++)
        lanes->lane[i].used = is_used(&lanes->lane[i], used);
}

pthread_mutex_t *sonar_lane_lock(sonar_lanes *lanes, const sonar_lane *lane) {
    return &lanes->lock[lane - lanes->lane];
}
