/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The shape of an array whose sensors are not where its description puts them, as a towed line in a
 * turn: its heading, and its positions in the array frame. Pure functions, any thread. */
#ifndef SONAR_SHAPE_H
#define SONAR_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

/* Heading of +x, degrees from north, of sensors that are at north_m, east_m: the least-squares
 * slope of these places over the described x. NaN if all x are the same. `position_m` is
 * [sensor][3], as described. */
double sonar_shape_heading(size_t sensors, const double *position_m, const double *north_m,
                           const double *east_m);

/* These places in the array frame of that heading, with the mean where the described positions have
 * theirs, to shape_m [sensor][3]. y and z are added as described, to z also depth_m less its mean.
 * Sensors on a straight line along the heading, as far apart as described, are where they are
 * described. */
void sonar_shape_place(size_t sensors, const double *position_m, const double *north_m,
                       const double *east_m, const double *depth_m, double heading_deg,
                       double *shape_m);

/* The largest distance between the two places of a sensor. */
double sonar_shape_distance(size_t sensors, const double *a_m, const double *b_m);

#endif
