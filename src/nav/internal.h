/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Shared by the files of src/nav. */
#ifndef SONAR_NAV_INTERNAL_H
#define SONAR_NAV_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "core/core.h"
#include "nav/headings.h"
#include "nav/nav.h"
#include "nav/path.h"

/* The ship that tows. Written under the lock; the atomic members are read without it. */
struct ship {
    int64_t water_ns;         /* of the last speed through the water; 0: none */
    _Atomic int64_t speed_ns; /* of the speed in use; 0: none */
    _Atomic double speed_mps;
    atomic_bool speed_held, over_ground;
    bool heading_held; /* that of the end of the path */
    sonar_path path;
};

/* A compass in a towed array. Written under the lock, read without it. */
struct compass {
    sonar_headings headings;  /* true, with the offset */
    _Atomic int64_t depth_ns; /* of the last depth; 0: none */
    _Atomic double depth_m;
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
    sonar_headings headings; /* written under the lock */
    struct ship *ship;       /* NULL: nothing follows its path */
    struct compass *compass; /* [spec.compasses] */
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
/* The least change of a heading that is a mistake, after that time: no ship turns so fast. */
double sonar_nav_heading_reach(double for_s);
/* compasses.c: adds a reading to the values of a message, unless the name is empty or too long, or
 * there is no room. */
void sonar_nav_put_reading(sonar_nav_values *to, const char *id, sonar_nav_quantity quantity,
                           double value);
/* Stores the readings of the array's compasses. True: one of them was a heading. Under the lock. */
bool sonar_compasses_take(sonar_nav *nav, const sonar_nav_values *values, int64_t utc_ns);
/* The age of the newest heading of all compasses; NaN: there is none. True: one is current. Under
 * the lock. */
bool sonar_compasses_age(sonar_nav *nav, int64_t utc_now_ns, double *age_s);
/* sonar_nav_places by the compasses. */
sonar_tow_state sonar_compasses_places(sonar_nav *nav, int64_t utc_ns, size_t n,
                                       const double *behind_m, const sonar_nav_places_m *places,
                                       sonar_tow *tow);
/* ends the thread and closes its sources */
void sonar_nav_stop(sonar_nav *nav);

#endif
