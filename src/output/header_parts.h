/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the files of headers share. header.c has the parts that all headers have; header_result.c
 * and header_status.c add their own. */
#ifndef SONAR_OUTPUT_HEADER_PARTS_H
#define SONAR_OUTPUT_HEADER_PARTS_H

#include "output/header.h"
#include "output/json.h"

static inline bool is_mvdr(sonar_surface surface) {
    return sonar_topic_is_mvdr(surface);
}

static inline const sonar_scan *scan_of(const sonar_output_spec *spec, sonar_surface surface) {
    return is_mvdr(surface) && spec->mvdr_scan ? spec->mvdr_scan : spec->cbf_scan;
}

/* Which message it is: topic, schema, number and time. */
void sonar_header_put_identity(const json *root, const sonar_output_spec *spec,
                               sonar_surface surface, uint64_t seq);
/* The array's type, shape and axes; `bearings` as for sonar_header_axes, which made `axes`. */
void sonar_header_put_layout(const json *root, const sonar_output_spec *spec, sonar_surface surface,
                             const sonar_params_facts *params, const char *axes,
                             const sonar_bearings *bearings);
/* The reference of zero degrees. Azimuth axes are in the array's own frame unless the spectrum was
 * resampled to true bearings. */
void sonar_header_put_bearings(const json *root, const sonar_output_spec *spec,
                               sonar_surface surface, const sonar_params_facts *params,
                               const sonar_bearings *bearings, double heading_deg);
void sonar_header_put_band(const json *root, const sonar_output_spec *spec, sonar_surface surface);
/* Which program and array it comes from. */
void sonar_header_put_origin(const json *root, const sonar_output_spec *spec, const char *backend,
                             const sonar_params_facts *params);

#endif
