/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the files of src/nav. */
#ifndef SONAR_NAV_INTERNAL_H
#define SONAR_NAV_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/core.h"
#include "nav/nav.h"
#include "nav/path.h"

enum { HEADINGS = 1024 }; /* 20 s at 50 Hz: longer than a window and its latency */

struct heading {
    _Atomic int64_t utc_ns;
    _Atomic double deg;
};

/* The ship that tows. Written under the lock; the atomic members are read without it. */
struct ship {
    int64_t water_ns;         /* of the last speed through the water; 0: none */
    _Atomic int64_t speed_ns; /* of the speed in use; 0: none */
    _Atomic double speed_mps;
    atomic_bool speed_held, over_ground;
    bool heading_held; /* that of the end of the path */
    sonar_path path;
};

/* A source of NMEA sentences. The thread's. */
struct nmea_source {
    const char *where;
    int fd; /* -1: a serial line that was lost */
    bool datagrams;
    char line[256]; /* of a serial line, received so far */
    size_t line_bytes;
    int64_t tried_ns; /* to open a line again, by the monotonic clock */
};

struct sonar_nav {
    sonar_nav_spec spec;
    const sonar_host *host;
    /* the headings, by time; written under the lock, read without it */
    atomic_uint changes; /* odd: a change is in progress */
    atomic_size_t count; /* number of headings so far; the last HEADINGS are stored */
    atomic_bool held;
    struct heading heading[HEADINGS];
    struct ship *ship; /* NULL: nothing is towed */
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
    struct nmea_source nmea[SONAR_NAV_NMEA_MOST];
    size_t sources; /* of NMEA, that were opened */
    int wake;       /* request to stop */
    void *socket;
    double variation_deg;
};

/* listen.c: reads NMEA received in arbitrary pieces. The thread. */
void sonar_nav_take_bytes(sonar_nav *nav, struct nmea_source *from, const char *bytes, size_t n);
/* tow.c: the ship goes on to utc_ns. heading_deg: NaN if the values have none. Under the lock. */
void sonar_nav_sail(sonar_nav *nav, const sonar_nav_values *values, double heading_deg,
                    int64_t utc_ns, bool held);
/* ends the thread and closes its sources */
void sonar_nav_stop(sonar_nav *nav);

#endif
