/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tracks for Debrief, the open tool for the analysis of tracks, as lines of its replay files:
 *
 *   ;SENSOR2: YYYYMMDD HHMMSS.SSS host symbology position bearing ambiguous frequency range
 *             sensor label // comment
 *
 * separated by blanks; a name with a blank is quoted, a value that is not known is NULL. Degrees,
 * Hz, yards. Source: github.com/debrief/debrief, class ImportSensor2, and "Replay file format" in
 * Debrief's reference. There is no comment at the top: Debrief would not take the lines from the
 * clipboard then.
 *
 * The host is the array: Debrief places the lines on its track of that name. Each track is a sensor
 * of its own there, so that it can be shown alone. */
#ifndef TOOL_DEBRIEF_H
#define TOOL_DEBRIEF_H

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdio.h>

/* The line of one of the tracks in the header of a message of `tracks`, if it is confirmed and has
 * a contact in this window; others, and those without UTC (middle_utc_ns 0) or without a true
 * bearing, have no line. Any header is safe. */
void debrief_put(FILE *to, const cJSON *header, int64_t middle_utc_ns, const cJSON *track);

/* A whole number in the text of a header, by `"name":`; 0: it is null, or not there. Beyond 2^53
 * cJSON's numbers are not exact. */
int64_t debrief_whole(const char *header, const char *name);

#endif
