/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Delays of look directions and points, and their exact form for the beamformers, turns per bin. */
#include "manifold/manifold.h"

#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

void sonar_delay_far(size_t sensors, const double *position_m, const double u[3], double c_mps,
                     double *tau_s) {
    for (size_t k = 0; k < sensors; k++)
        tau_s[k] = dot(position_m + 3 * k, u) / c_mps;
}

/* Sine of the angle between two unit vectors, by the cross product: exact to rounding even where
 * sqrt(1 - cos^2) would have lost every digit. */
static double sine_between(const double a[3], const double b[3]) {
    const double cross[3] = {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2],
                             a[0] * b[1] - a[1] * b[0]};
    return sqrt(dot(cross, cross));
}

/* |s| - |s - p| = (2 s.p - |p|^2) / (|s| + |s - p|): no difference of two nearly equal lengths. */
static double path_difference(const double s[3], double length, const double p[3]) {
    const double d[3] = {s[0] - p[0], s[1] - p[1], s[2] - p[2]};
    return (2 * dot(s, p) - dot(p, p)) / (length + sqrt(dot(d, d)));
}

void sonar_delay_near(size_t sensors, const double *position_m, const double u[3], double r_m,
                      sonar_range_reference reference, const double axis[3], double c_mps,
                      double *tau_s) {
    /* Abeam distance h at angle theta: the point lies h / sin(theta) from the origin. */
    double length = reference == SONAR_ABEAM ? r_m / sine_between(u, axis) : r_m;
    if (!(length < 1e100)) { /* infinite at endfire; its square must stay finite */
        sonar_delay_far(sensors, position_m, u, c_mps, tau_s);
        return;
    }
    const double s[3] = {length * u[0], length * u[1], length * u[2]};
    for (size_t k = 0; k < sensors; k++)
        tau_s[k] = path_difference(s, length, position_m + 3 * k) / c_mps;
}

uint64_t sonar_turns(double tau_s, double bin_width_hz) {
    double turns = bin_width_hz * tau_s;
    double rest = turns - rint(turns); /* exact, within half a turn: 2^63 still fits */
    uint64_t size = (uint64_t)rint(ldexp(fabs(rest), 64));
    return rest < 0 ? -size : size;
}

sonar_code sonar_manifold_make(size_t sensors, const double *position_m, const sonar_scan *scan,
                               size_t ranges, const double *range_m,
                               sonar_range_reference reference, double c_mps, double bin_width_hz,
                               uint64_t **table, sonar_error *err) {
    *table = NULL;
    size_t rows = sonar_max_size(ranges, 1), count;
    if (__builtin_mul_overflow(rows, scan->count, &rows) ||
        __builtin_mul_overflow(rows, sensors, &count))
        return sonar_fail(err, SONAR_ENOMEM, "manifold", "table too large to count");
    uint64_t *turns = sonar_alloc(count, sizeof *turns);
    double *tau_s = sonar_alloc(sensors, sizeof *tau_s);
    if (!turns || !tau_s) {
        free(turns);
        free(tau_s);
        return sonar_fail(err, SONAR_ENOMEM, "manifold",
                          "no memory for %zu directions of %zu sensors", rows, sensors);
    }
    for (size_t row = 0; row < rows; row++) {
        const double *u = scan->u + 3 * (row % scan->count);
        if (ranges)
            sonar_delay_near(sensors, position_m, u, range_m[row / scan->count], reference,
                             scan->axis, c_mps, tau_s);
        else
            sonar_delay_far(sensors, position_m, u, c_mps, tau_s);
        for (size_t k = 0; k < sensors; k++)
            turns[row * sensors + k] = sonar_turns(tau_s[k], bin_width_hz);
    }
    free(tau_s);
    *table = turns;
    return SONAR_OK;
}
