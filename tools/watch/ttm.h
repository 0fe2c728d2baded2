/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tracks with a range, for chart and radar displays: NMEA 0183's tracked target message, a datagram
 * each.
 *
 *   $SSTTM,number,distance,bearing,T|R,speed,course,T|R,cpa,tcpa,N,name,T|Q|L,,hhmmss.ss,A*checksum
 *
 * Nautical miles and degrees. Speed, course and closest point of approach are empty, because
 * nothing measures them. SS is a scanning sounder, the nearest that NMEA has. Source of the fields:
 * the interface of a Simrad Argus radar (988-10187-004, 2.19), which has the sentence of NMEA 0183.
 *
 * A track has a range in a window if one of the rows of its contact in `detections` has range_m,
 * which is not range_unresolved, and has a place if it has one bearing: of a line's two, before a
 * turn has decided, no sentence could say that it is either. One thread. */
#ifndef WATCH_TTM_H
#define WATCH_TTM_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "core/core.h"

typedef struct watch_ttm watch_ttm;

typedef struct watch_ttm_spec {
    const char *address; /* as sonar_udp_read takes it */
    double bow_deg;      /* without a heading: from the ship's bow to the array's +x, clockwise */
    bool towed;          /* without a heading, a bearing in the array's frame says nothing */
} watch_ttm_spec;

/* SONAR_EINVAL: the address; SONAR_ESYS, SONAR_ENOMEM. */
sonar_code watch_ttm_open(const watch_ttm_spec *spec, watch_ttm **made, sonar_error *err);
/* The header of a message of `detections`, which comes before `tracks` of the same window. It is
 * owned from now on. Any header is safe, here and below. */
void watch_ttm_detections(watch_ttm *ttm, cJSON *header);
/* Sends what the header of a message of `tracks` says. middle_utc_ns: of its window; 0: unknown.
 * What cannot be sent is told once on stderr; the next sentences are tried again. */
void watch_ttm_tracks(watch_ttm *ttm, const cJSON *header, int64_t middle_utc_ns);
void watch_ttm_close(watch_ttm *ttm); /* NULL is allowed */

#endif
