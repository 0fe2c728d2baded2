/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The numbers of a status, one row each in metrics.c: counters, levels and measurements. The topic
 * `status` is written from these rows. Tests check that each number has a row and is documented. */
#ifndef SONAR_METRICS_H
#define SONAR_METRICS_H

#include "status/result.h"

typedef enum sonar_metric_kind {
    SONAR_COUNTER = 0, /* uint64_t: since the start, never decreases */
    SONAR_LEVEL,       /* uint64_t: current value */
    SONAR_MEASURE,     /* double: current value; NaN: unknown */
    SONAR_SPREAD,      /* sonar_percentiles: of the last second */
    SONAR_TIMES        /* sonar_percentiles[SONAR_STAGE_PARTS] */
} sonar_metric_kind;

typedef struct sonar_metric {
    const char *path; /* in the JSON of the status, as "frames.dropped" */
    sonar_metric_kind kind;
    size_t offset;         /* in sonar_status */
    const sonar_label *by; /* an array, with one value per name of this; NULL: a single value */
    const char *unit;
    const char *help;
} sonar_metric;

/* In the order of the JSON. */
extern const sonar_metric sonar_metrics[];
extern const size_t sonar_metrics_count;

/* The number of the metric's values, and its i-th value. */
size_t sonar_metric_values(const sonar_metric *metric);
const void *sonar_metric_value(const sonar_metric *metric, const sonar_status *status, size_t i);

/* Adds a rank's counters to the sum over ranks, by the rows. Rows of the unit "windows" take the
 * maximum instead, because every rank counts all windows of the array. Levels are added like
 * counters. last_frame_ns has no row and is unchanged. Any thread. */
void sonar_ingest_counters_add(sonar_ingest_counters *sum, const sonar_ingest_counters *of);

#endif
