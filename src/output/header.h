/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The JSON headers of published messages (docs/protocol.md, docs/reading.md). Output thread. */
#ifndef SONAR_HEADER_H
#define SONAR_HEADER_H

#include "manifold/bearings.h"
#include "output/output.h"

/* Bits of sonar_result.frame_flags, as a frame's header carries them (docs/protocol.md). */
enum { SONAR_HEADER_DISCONTINUITY = 1, SONAR_HEADER_OVERLOAD = 2, SONAR_HEADER_UNSYNCHRONISED = 4 };
/* Bits of sonar_result.mvdr_flags, as set by the MVDR stage. */
enum {
    SONAR_HEADER_NOT_CONVERGED = 1,
    SONAR_HEADER_LEVEL_BIASED = 2,
    SONAR_HEADER_TRACE_FALLBACK = 4,
    SONAR_HEADER_LOADING_FLOOR = 8
};

/* Dimensions that a surface has in a result, by the spec; 0 for a topic without an array. */
int sonar_header_shape(const sonar_output_spec *spec, sonar_surface surface, size_t shape[2]);
/* True if a surface is a spectrum over directions, which can be published over true bearings. */
bool sonar_header_has_directions(sonar_surface surface);

/* The axes of a surface as JSON text. They never change in a run and are the longest part of a
 * header, so they are made once. `bearings`: the axis of bearings that replaces the scan's
 * directions, or NULL. free() it; NULL: no memory. */
char *sonar_header_axes(const sonar_output_spec *spec, sonar_surface surface,
                        const sonar_bearings *bearings);

/* The heading that applies to a surface of a result: in the middle of its samples; NaN: unknown. */
double sonar_header_heading(const sonar_result *result, sonar_surface surface);

/* The header of one surface or of `detections`; `axes` from sonar_header_axes, made with the same
 * `bearings`. free() it; NULL when memory runs out. */
char *sonar_header_result(const sonar_output_spec *spec, sonar_surface surface, const char *axes,
                          const sonar_bearings *bearings, const sonar_result *result, uint64_t seq,
                          double latency_us);

typedef struct sonar_header_status_extra {
    uint64_t seq;
    int64_t utc_ns;  /* when the status was posted */
    uint32_t wanted; /* SONAR_WANT bits */
    bool repeat;
} sonar_header_status_extra;

char *sonar_header_status(const sonar_output_spec *spec, const char *axes,
                          const sonar_status *status, const sonar_header_status_extra *extra);

#endif
