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
#ifndef PROCESS_DEBRIEF_H
#define PROCESS_DEBRIEF_H

#include <stdio.h>

#include "table.h"

/* A confirmed track that has a contact in this window; others, and those without UTC or without a
 * true bearing, have no line. */
void debrief_put(FILE *to, const table_window *window, const cJSON *track);

#endif
