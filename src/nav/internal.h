/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the files of src/nav. */
#ifndef SONAR_NAV_INTERNAL_H
#define SONAR_NAV_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/core.h"
#include "nav/nav.h"

enum { HEADINGS = 1024 }; /* 20 s at 50 Hz: longer than a window and its latency */

struct heading {
    _Atomic int64_t utc_ns;
    _Atomic double deg;
};

struct sonar_nav {
    sonar_nav_spec spec;
    const sonar_host *host;
    /* the headings, by time; written under the lock, read without it */
    atomic_uint changes; /* odd: a change is in progress */
    atomic_size_t count; /* number of headings so far; the last HEADINGS are stored */
    atomic_bool held;
    struct heading heading[HEADINGS];
    /* under the lock */
    pthread_mutex_t lock;
    const char *heading_source;
    sonar_nav_values values; /* the last of each */
    int64_t told_ns[SONAR_NAV_QUANTITIES];
    /* written by the thread */
    _Atomic uint64_t counter[SONAR_NAV_COUNTERS];
    pthread_t thread;
    bool started;
    atomic_bool stopping;
    int fd, wake; /* sockets of NMEA and of the request to stop */
    bool datagrams;
    void *socket;
    double variation_deg;
    char line[256]; /* of a serial line, received so far */
    size_t line_bytes;
};

/* listen.c: reads NMEA received in arbitrary pieces. The thread. */
void sonar_nav_take_bytes(sonar_nav *nav, const char *bytes, size_t n);
/* ends the thread and closes its sources */
void sonar_nav_stop(sonar_nav *nav);

#endif
