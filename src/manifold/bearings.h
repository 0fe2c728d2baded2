/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A uniform grid of true bearings, from north clockwise, and spectra over a scan read at it. A line
 * shows each source on both sides of its axis. The spectra are right for sources in the horizontal
 * plane of the array, or at the scan's depression. One thread at a time.
 */
#ifndef SONAR_BEARINGS_H
#define SONAR_BEARINGS_H

#include "manifold/manifold.h"

enum { SONAR_BEARINGS_LEAST = 360, SONAR_BEARINGS_MOST = 16384 };

/* How the power between two directions follows from their powers. */
typedef enum sonar_interpolation {
    /* The cubic polynomial through the four directions around the bearing, in the cosine for a
     * cone, but never below the lower neighbour. For beams that span several directions: up to 0.3
     * beam widths apart it is within 0.1 dB at a peak. */
    SONAR_INTERPOLATE_CUBIC = 0,
    /* The power of the nearest direction. For peaks narrower than the grid: keeps their levels. */
    SONAR_INTERPOLATE_NEAREST
} sonar_interpolation;

typedef struct sonar_bearings sonar_bearings;

/* Cosine of the cone angle at which a source in the horizontal plane appears, from the axis; its
 * bearing is beside_deg degrees clockwise of +x. */
double sonar_cone_cosine(const sonar_scan *scan, double beside_deg);
/* The inverse: the two bearings at which a cone of az_deg meets the horizontal plane, the one
 * clockwise of the axis first. The axis points to axis_deg and axis_depression_deg below the
 * horizontal. Bearings are 0 up to 360 degrees, counted as axis_deg is. Both are NaN if the cone
 * misses the plane by more than `slack` of that cosine. */
void sonar_cone_bearings(double axis_deg, double axis_depression_deg, double az_deg, double slack,
                         double bearing_deg[2]);

/* False for a vertical line, which has no bearings, and for fewer than four directions, the least
 * that can be interpolated. */
bool sonar_bearings_exist(const sonar_scan *scan);
/* Makes a grid of 360 to 16384 bearings, at least three to the scan's finest step. Borrows the scan
 * until destroy. NULL: no memory. */
sonar_bearings *sonar_bearings_create(const sonar_scan *scan, sonar_interpolation interpolation);
/* Memory that it takes. */
size_t sonar_bearings_bytes(const sonar_scan *scan);
void sonar_bearings_destroy(sonar_bearings *bearings); /* NULL is allowed */

size_t sonar_bearings_count(const sonar_bearings *bearings); /* bearing i is at i * 360 / count */
sonar_interpolation sonar_bearings_interpolation(const sonar_bearings *bearings);

/* Sets the heading: from now on +x points to heading_deg. */
void sonar_bearings_turn(sonar_bearings *bearings, double heading_deg);
/* Reads power[direction] of the scan, none negative, into to[bearing]. Bearings that the scan does
 * not cover are 0. */
void sonar_bearings_read(const sonar_bearings *bearings, const float *power, float *to);

#endif
