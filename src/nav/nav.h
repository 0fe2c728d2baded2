/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Navigation: position and heading of own ship and array, from NMEA 0183, a ZeroMQ topic or by
 * hand, with the time of each value. Writers exclude one another; the data thread reads the heading
 * at any time without waiting. */
#ifndef SONAR_NAV_H
#define SONAR_NAV_H

#include "status/result.h"
#include "sonar/sonar.h"

/* The accepted range of values. */
void sonar_nav_range(sonar_nav_quantity quantity, double *low, double *high);

/* The values of one message. */
typedef struct sonar_nav_values {
    unsigned known; /* one bit for each known value */
    double value[SONAR_NAV_QUANTITIES];
} sonar_nav_values;

enum { SONAR_NAV_NMEA_MOST = 4 };

typedef struct sonar_nav_spec {
    void *zmq_context;
    /* udp://ADDRESS:PORT or a serial line's path each; NULL from the first unused one on */
    const char *nmea[SONAR_NAV_NMEA_MOST];
    int baud;             /* of a serial line */
    const char *endpoint; /* of a publisher, NULL: none */
    double stale_after_s;
    double tow_reach_m; /* greatest distance of a towed sensor behind the tow point, as far as the
                           path is stored at least; 0: none is towed */
} sonar_nav_spec;

typedef struct sonar_nav sonar_nav;

/* Borrows all texts until destroy. */
sonar_code sonar_nav_create(const sonar_nav_spec *spec, const sonar_host *host, sonar_nav **nav,
                            sonar_error *err);
/* Opens the sources and starts the thread; SONAR_ESYS with the place in `where`. */
sonar_code sonar_nav_start(sonar_nav *nav, sonar_error *err);
void sonar_nav_destroy(sonar_nav *nav); /* ends the thread; NULL is allowed */

/* Reads a JSON object of numbers by name, with an optional utc_ns; other names are ignored.
 * SONAR_EINVAL: it is not an object, has no value, or a value (named in `where`) is not a number or
 * out of range. */
sonar_code sonar_nav_parse(const char *text, size_t bytes, int64_t *utc_ns,
                           sonar_nav_values *values, sonar_error *err);
/* Stores values of `source` (static text) at utc_ns. held: they do not become stale, but the next
 * values replace them. Any thread. */
void sonar_nav_store(sonar_nav *nav, const char *source, const sonar_nav_values *values,
                     int64_t utc_ns, bool held);

/* The heading at that time, interpolated on the shorter arc. False: no value is near enough in
 * time. *asked: a source has given one at some time, or a source is being read. Data thread. */
bool sonar_nav_heading(sonar_nav *nav, int64_t utc_ns, double *heading_deg, bool *asked);

/* The places of towed sensors behind_m[n] behind the tow point at that time, as north and east of
 * it in metres, on the path of the tow point through the water. If the path is not known that far
 * it is taken as straight beyond. Returns how far the places are known; with NO_SPEED, NO_HEADING
 * and NONE there are none. *tow gets the same and its facts; reach_m is the largest of behind_m.
 * Any thread. */
sonar_tow_state sonar_nav_places(sonar_nav *nav, int64_t utc_ns, size_t n, const double *behind_m,
                                 double *north_m, double *east_m, sonar_tow *tow);

/* Fills the status, except that of a towed array. Control thread. */
void sonar_nav_read(sonar_nav *nav, int64_t utc_now_ns, sonar_navigation *to);

#endif
