/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The numbers of a status, one row each in metrics.c: counters, levels and measurements. The topic
 * `status` is written from these rows; tests compare the documentation with them and see that no
 * counter is without a row.
 */
#ifndef SONAR_METRICS_H
#define SONAR_METRICS_H

#include "status/result.h"

typedef enum sonar_metric_kind {
    SONAR_COUNTER = 0, /* uint64_t: since the start, never falls */
    SONAR_LEVEL,       /* uint64_t: now */
    SONAR_MEASURE,     /* double: now; NaN: not known */
    SONAR_SPREAD,      /* sonar_percentiles: of the last second */
    SONAR_TIMES        /* sonar_percentiles[SONAR_STAGE_PARTS] */
} sonar_metric_kind;

typedef struct sonar_metric {
    const char *path; /* in the JSON of the status, as "frames.dropped" */
    sonar_metric_kind kind;
    size_t offset;         /* in sonar_status */
    const sonar_label *by; /* an array, one value for each name of this; NULL: one value */
    const char *unit;
    const char *help;
} sonar_metric;

/* In the order of the JSON. */
extern const sonar_metric sonar_metrics[];
extern const size_t sonar_metrics_count;

/* How many values it has, and the i-th of them. */
size_t sonar_metric_values(const sonar_metric *metric);
const void *sonar_metric_value(const sonar_metric *metric, const sonar_status *status, size_t i);

/* Adds what one rank has counted to the sum over ranks, by the rows. Rows of the unit "windows"
 * take the most instead: windows are the array's, and each rank counts all of them. Levels add up
 * as counters do. last_frame_ns has no row and stays as it is. Any thread. */
void sonar_ingest_counters_add(sonar_ingest_counters *sum, const sonar_ingest_counters *of);

#endif
