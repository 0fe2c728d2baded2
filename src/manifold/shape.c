/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "manifold/shape.h"

#include <math.h>

#include "core/core.h"

static double mean(size_t n, const double *values, size_t stride) {
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += values[stride * k];
    return sum / (double)n;
}

double sonar_shape_heading(size_t sensors, const double *position_m, const double *north_m,
                           const double *east_m) {
    const double middle_m = mean(sensors, position_m, 3);
    double north = 0, east = 0;
    for (size_t k = 0; k < sensors; k++) {
        north += (position_m[3 * k] - middle_m) * north_m[k];
        east += (position_m[3 * k] - middle_m) * east_m[k];
    }
    return hypot(north, east) > 1e-9 ? atan2(east, north) / SONAR_RADIANS : NAN;
}

void sonar_shape_place(size_t sensors, const double *position_m, const double *north_m,
                       const double *east_m, const double *depth_m, double heading_deg,
                       double *shape_m) {
    const double c = cos(heading_deg * SONAR_RADIANS), s = sin(heading_deg * SONAR_RADIANS);
    const double x_m = mean(sensors, position_m, 3), north = mean(sensors, north_m, 1),
                 east = mean(sensors, east_m, 1), depth = mean(sensors, depth_m, 1);
    for (size_t k = 0; k < sensors; k++) {
        const double n = north_m[k] - north, e = east_m[k] - east;
        shape_m[3 * k] = x_m + c * n + s * e;
        shape_m[3 * k + 1] = position_m[3 * k + 1] + c * e - s * n;
        shape_m[3 * k + 2] = position_m[3 * k + 2] + depth_m[k] - depth;
    }
}

double sonar_shape_distance(size_t sensors, const double *a_m, const double *b_m) {
    double most = 0;
    for (size_t i = 0; i < 3 * sensors; i += 3)
        most = fmax(most, sqrt(pow(a_m[i] - b_m[i], 2) + pow(a_m[i + 1] - b_m[i + 1], 2) +
                               pow(a_m[i + 2] - b_m[i + 2], 2)));
    return most;
}
