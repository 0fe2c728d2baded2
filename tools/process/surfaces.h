/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Arrays of published messages over time, as HDF5 with dimension scales: a group for each topic,
 * made by its first message, with
 *
 *   power                      f32 [window][the array's dimensions]; attributes unit, topic
 *   time_s                     f64 [window] since the recording's first sample: scale of `power`
 *   azimuth, frequency, ...    f64, the other scales, with the attribute unit
 *   utc_ns, sample_index, window, heading_deg, missing, flags     [window]; utc_ns 0: unknown
 *   az_deg                     f64 [window], of a lofargram: the direction that its row is of
 *   header                     the header of its first message, JSON
 *
 * Rows are appended as they come. One thread. */
#ifndef PROCESS_SURFACES_H
#define PROCESS_SURFACES_H

#include <cjson/cJSON.h>

#include "sonar/sonar.h"

typedef struct surfaces surfaces;

typedef struct surfaces_row {
    const char *group;   /* its name: the topic's, or another */
    const cJSON *header; /* of the message, or like one: topic, shape, axes, unit, flags... */
    const float *data;   /* of header's shape, dense */
    int64_t utc_ns;      /* cJSON keeps no whole numbers of that size */
    double time_s;
    double az_deg; /* NAN: the group has none */
} surfaces_row;

/* SONAR_EINVAL: the file is there already. SONAR_EUNAVAILABLE in a build without HDF5. */
sonar_code surfaces_open(const char *path, surfaces **made, sonar_error *err);
/* SONAR_EINVAL: the shape is another than that of the group's first row. SONAR_ESYS, SONAR_ENOMEM.
 */
sonar_code surfaces_add(surfaces *surfaces, const surfaces_row *row, sonar_error *err);
/* Puts on the disk what was added. */
sonar_code surfaces_flush(surfaces *surfaces, sonar_error *err);
/* Completes and frees, errors or not. NULL is allowed. */
sonar_code surfaces_close(surfaces *surfaces, sonar_error *err);

#endif
