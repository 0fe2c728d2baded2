/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Navigation: where own ship and the array are, as told by NMEA 0183, by a ZeroMQ topic or by hand,
 * with the time of each value. Writers take turns; the data thread reads the heading of any time
 * without waiting.
 */
#ifndef SONAR_NAV_H
#define SONAR_NAV_H

#include "status/result.h"
#include "sonar/sonar.h"

/* The values that are accepted. */
void sonar_nav_range(sonar_nav_quantity quantity, double *low, double *high);

/* What one message says. */
typedef struct sonar_nav_values {
    unsigned known; /* a bit each */
    double value[SONAR_NAV_QUANTITIES];
} sonar_nav_values;

typedef struct sonar_nav_spec {
    void *zmq_context;
    const char *nmea;     /* udp://ADDRESS:PORT or a serial line's path; NULL: none */
    int baud;             /* of a serial line */
    const char *endpoint; /* of a publisher, NULL: none */
    double stale_after_s;
} sonar_nav_spec;

typedef struct sonar_nav sonar_nav;

/* Borrows endpoint and nmea until destroy. */
sonar_code sonar_nav_create(const sonar_nav_spec *spec, const sonar_host *host, sonar_nav **nav,
                            sonar_error *err);
/* Opens what is to be listened to and starts the thread; SONAR_ESYS with the place in `where`. */
sonar_code sonar_nav_start(sonar_nav *nav, sonar_error *err);
void sonar_nav_destroy(sonar_nav *nav); /* stops it; NULL is allowed */

/* From a JSON object of numbers by their names, with utc_ns if it is there; other names do not
 * count. SONAR_EINVAL: it is none, a value is no number or out of range, which `where` names, or
 * nothing is in it. */
sonar_code sonar_nav_parse(const char *text, size_t bytes, int64_t *utc_ns,
                           sonar_nav_values *values, sonar_error *err);
/* Takes values of `source` (static text) at utc_ns. held: they do not get stale, but give way to
 * the next ones. Any thread. */
void sonar_nav_tell(sonar_nav *nav, const char *source, const sonar_nav_values *values,
                    int64_t utc_ns, bool held);

/* The heading at that time, between the values around it on the shorter arc. False: none is near
 * enough in time. *asked: has any source ever told one, or is one listened to? Data thread. */
bool sonar_nav_heading(sonar_nav *nav, int64_t utc_ns, double *heading_deg, bool *asked);

/* For status. Control thread. */
void sonar_nav_read(sonar_nav *nav, int64_t utc_now_ns, sonar_navigation *to);

#endif
