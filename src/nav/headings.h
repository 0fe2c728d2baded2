/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The last headings of one compass, with their times, and the heading at any time between them. One
 * thread at a time adds; any thread reads at any time and does not wait. */
#ifndef SONAR_HEADINGS_H
#define SONAR_HEADINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SONAR_HEADINGS = 1024 }; /* 20 s at 50 Hz: longer than a window and its latency */

typedef struct sonar_heading {
    int64_t utc_ns;
    double deg;
} sonar_heading;

typedef struct sonar_headings {
    atomic_uint changes; /* odd: a change is in progress */
    atomic_size_t count; /* so far; the last SONAR_HEADINGS are stored */
    atomic_bool held;    /* the newest does not become stale */
    struct {
        _Atomic int64_t utc_ns;
        _Atomic double deg;
    } heading[SONAR_HEADINGS];
} sonar_headings;

/* A heading that is older than the newest discards all before it: the clock was set back, or the
 * source has changed. */
void sonar_headings_add(sonar_headings *headings, double deg, int64_t utc_ns, bool held);
bool sonar_headings_empty(const sonar_headings *headings);
/* The newest one. False: there is none. The thread that adds, or one that excludes it. */
bool sonar_headings_newest(const sonar_headings *headings, sonar_heading *newest);
/* The heading at that time, interpolated on the shorter arc. False: no value is within
 * stale_after_s of it. */
bool sonar_headings_find(sonar_headings *headings, int64_t utc_ns, double stale_after_s,
                         double *deg);

#endif
