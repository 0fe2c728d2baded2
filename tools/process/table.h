/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The list in the headers of a topic, a row each:
 *
 *   detections: contacts.csv, contacts.json
 *   tracks:     tracks.csv, tracks.json, tracks.rep (debrief.h)
 *
 * One thread. */
#ifndef PROCESS_TABLE_H
#define PROCESS_TABLE_H

#include <cjson/cJSON.h>

#include "sonar/sonar.h"

typedef struct table table;

/* What all rows of a window have. */
typedef struct table_window {
    uint64_t window;
    int64_t utc_ns, middle_utc_ns; /* of its first sample and of its middle; 0: unknown */
    double time_s;                 /* of its first sample, since the recording's first */
    const cJSON *header;           /* of the message */
} table_window;

/* Makes the topic's files in the folder. The topic is a list (sonar_topic_is_list). SONAR_EINVAL:
 * one is there already. */
sonar_code table_open(const char *folder, sonar_surface topic, table **made, sonar_error *err);
/* All rows of the header's list. SONAR_ESYS. */
sonar_code table_add(table *table, const table_window *window, sonar_error *err);
uint64_t table_count(const table *table); /* of rows; any thread; NULL: 0 */
/* Removes the files, which are still open. */
void table_remove(const table *table);
/* Puts on the disk what was added. */
void table_flush(table *table);
/* Completes and frees, errors or not. NULL is allowed. */
sonar_code table_close(table *table, sonar_error *err);

#endif
