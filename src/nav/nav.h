/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Navigation: position and heading of own ship and array, from NMEA 0183, a ZeroMQ topic or by
 * hand, with the time of each value. Writers take turns; the data thread reads the heading at any
 * time without waiting. */
#ifndef SONAR_NAV_H
#define SONAR_NAV_H

#include "status/result.h"
#include "sonar/sonar.h"

/* The values that are accepted. */
void sonar_nav_range(sonar_nav_quantity quantity, double *low, double *high);

/* The values of one message. */
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
/* Opens the sources and starts the thread; SONAR_ESYS with the place in `where`. */
sonar_code sonar_nav_start(sonar_nav *nav, sonar_error *err);
void sonar_nav_destroy(sonar_nav *nav); /* ends the thread; NULL is allowed */

/* Reads a JSON object of numbers by name, with an optional utc_ns; other names are ignored.
 * SONAR_EINVAL: it is no object, a value is no number or out of range (`where` names it), or it has
 * no value. */
sonar_code sonar_nav_parse(const char *text, size_t bytes, int64_t *utc_ns,
                           sonar_nav_values *values, sonar_error *err);
/* Stores values of `source` (static text) at utc_ns. held: they do not become stale, but are
 * replaced by the next ones. Any thread. */
void sonar_nav_tell(sonar_nav *nav, const char *source, const sonar_nav_values *values,
                    int64_t utc_ns, bool held);

/* The heading at that time, interpolated on the shorter arc. False: none is near enough in time.
 * *asked: a source has ever given one, or one is listened to. Data thread. */
bool sonar_nav_heading(sonar_nav *nav, int64_t utc_ns, double *heading_deg, bool *asked);

/* For status. Control thread. */
void sonar_nav_read(sonar_nav *nav, int64_t utc_now_ns, sonar_navigation *to);

#endif
