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

enum {
    SONAR_NAV_NMEA_MOST = 4,
    SONAR_NAV_COMPASSES_MOST = 16,
    SONAR_NAV_READINGS_MOST = 8, /* of compasses, in one message */
    SONAR_NAV_ID_BYTES = 16      /* a compass's name with its zero */
};

/* The values of one message. */
typedef struct sonar_nav_values {
    unsigned known; /* one bit for each known value */
    double value[SONAR_NAV_QUANTITIES];
    size_t readings; /* of compasses in a towed array */
    struct {
        char id[SONAR_NAV_ID_BYTES];
        sonar_nav_quantity quantity; /* SONAR_NAV_HEADING or SONAR_NAV_DEPTH */
        double value;
    } reading[SONAR_NAV_READINGS_MOST];
} sonar_nav_values;

/* A compass in a towed array. */
typedef struct sonar_nav_compass {
    const char *id;    /* as its readings name it */
    double behind_m;   /* the foremost sensor */
    double offset_deg; /* added to its headings */
} sonar_nav_compass;

typedef struct sonar_nav_spec {
    void *zmq_context;
    /* udp://ADDRESS:PORT or a serial line's path each; NULL from the first unused one on */
    const char *nmea[SONAR_NAV_NMEA_MOST];
    int baud;             /* of a serial line */
    const char *endpoint; /* of a publisher, NULL: none */
    double stale_after_s;
    double tow_reach_m; /* greatest distance of a towed sensor behind the tow point, as far as the
                           path is stored at least; 0: none is towed */
    size_t compasses;   /* of a towed array; 0: it follows the tow point's path */
    sonar_nav_compass compass[SONAR_NAV_COMPASSES_MOST]; /* from the front to the back */
} sonar_nav_spec;

/* Where sensors are, [sensor] each, in metres. Horizontally from the tow point on its path through
 * the water, or with compasses from the foremost sensor; depths are those that the compasses tell,
 * 0 without. */
typedef struct sonar_nav_places_m {
    double *north, *east, *depth;
} sonar_nav_places_m;

typedef struct sonar_nav sonar_nav;

/* Borrows all texts until destroy. */
sonar_code sonar_nav_create(const sonar_nav_spec *spec, const sonar_host *host, sonar_nav **nav,
                            sonar_error *err);
/* Opens the sources and starts the thread; SONAR_ESYS with the place in `where`. */
sonar_code sonar_nav_start(sonar_nav *nav, sonar_error *err);
void sonar_nav_destroy(sonar_nav *nav); /* ends the thread; NULL is allowed */

/* Reads a JSON object of numbers by name, with an optional utc_ns, and with `compass` those of a
 * compass of that name in a towed array; other names are ignored.
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

/* The places of n sensors of a towed array at that time. behind_m[n]: behind the tow point, or with
 * compasses behind the foremost sensor. Beyond what is known, the path and the array are taken as
 * straight. Returns how far the places are known; with NO_SPEED, NO_HEADING, NO_COMPASS and NONE
 * there are none. *tow gets the same and its facts; reach_m is the largest of behind_m. Any thread.
 */
sonar_tow_state sonar_nav_places(sonar_nav *nav, int64_t utc_ns, size_t n, const double *behind_m,
                                 const sonar_nav_places_m *places, sonar_tow *tow);

/* Fills the status, except that of a towed array. Control thread. */
void sonar_nav_read(sonar_nav *nav, int64_t utc_now_ns, sonar_navigation *to);

#endif
