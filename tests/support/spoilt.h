/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A pipeline for tests of array.auto_mask on any backend: a line that receives a ship, a window a
 * second, and whose sensor SPOILT_BAD can be dead. */
#ifndef SONAR_TEST_SPOILT_H
#define SONAR_TEST_SPOILT_H

#include "feed.h"
#include "process.h"

enum {
    SPOILT_SENSORS = 12,
    SPOILT_FS = 2048,
    SPOILT_BAD = 5,
    SPOILT_SHIP_DEG = 70,
    SPOILT_LOOKS = 181 /* a degree apart from 0 on */
};

/* Additions to these groups of the configuration, e.g. "auto_mask: true". */
typedef struct spoilt_options {
    const char *array, *cbf, *mvdr, *backend;
} spoilt_options;

/* Starts the pipeline, and returns once the three topics are subscribed to. Code as of feed_start;
 * feed_close and unsubscribe are needed in every case. */
sonar_code spoilt_open(feed *feed, subscriber *subscriber, const spoilt_options *options,
                       const char *plugin_dir, const struct layout *layout,
                       const sonar_surface topic[3], sonar_error *err);
/* Sends the samples of one window. */
void spoilt_second(feed *feed, bool dead);

#endif
