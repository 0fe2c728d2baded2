/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Look directions and ranges. */
#include "manifold/manifold.h"

#include "core/core.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* -3 dB width, in cosine, of a uniform line one wavelength long. Directions 0.3 of it apart lose
 * less than 0.3 dB between two of them. */
static const double WIDTH = 0.886, FINENESS = 0.3;

/* If the horizontal part of a line's unit vector is shorter than this, its azimuth is only the
 * survey's error. */
static const double VERTICAL = 0.01;

/* As a share of a step: sums of decimal steps may miss the stop by rounding. */
static const double SLACK = 1e-6;

/* The beam width in cosine, along the array's length. */
static double cosine_width(const sonar_scan_spec *spec, const sonar_geometry *geometry) {
    const double lambda = spec->sound_speed_mps / spec->top_hz;
    const double length = spec->effective_m > 0 ? spec->effective_m : geometry->effective_m;
    return length > 0 ? WIDTH * lambda / length : INFINITY;
}

/* Directions x deg to either side of a cone's broadside have a cosine of sin x; two azimuths x deg
 * apart at depression d have unit vectors 2 cos(d) sin(x/2) apart. */
static double beam_width_deg(const sonar_scan_spec *spec, const sonar_geometry *geometry) {
    const double half = cosine_width(spec, geometry) / 2;
    if (geometry->extent == SONAR_EXTENT_LINE)
        return half < 1 ? 2 * asin(half) / SONAR_RADIANS : 180;
    const double chord = 2 * cos(spec->depression_deg * SONAR_RADIANS);
    return half < chord ? 4 * asin(half / chord) / SONAR_RADIANS : 360;
}

/* Perpendicular to the axis: horizontal, to its right seen from above; +x for a vertical line. */
static void frame_of_cone(const double axis[3], sonar_scan *scan) {
    const double level = hypot(axis[0], axis[1]);
    memcpy(scan->axis, axis, sizeof scan->axis);
    scan->perp[0] = level > 1e-9 ? -axis[1] / level + 0.0 : 1;
    scan->perp[1] = level > 1e-9 ? axis[0] / level : 0;
    scan->axis_az_deg =
        level > VERTICAL ? sonar_modulo_turn(atan2(axis[1], axis[0]) / SONAR_RADIANS) : NAN;
    scan->axis_depression_deg = atan2(axis[2], level) / SONAR_RADIANS;
}

void sonar_scan_unit(const sonar_scan *scan, double az_deg, double u[3]) {
    const double c = cos(az_deg * SONAR_RADIANS), s = sin(az_deg * SONAR_RADIANS);
    if (scan->cone) {
        for (int i = 0; i < 3; i++)
            u[i] = c * scan->axis[i] + s * scan->perp[i];
        return;
    }
    const double level = cos(scan->depression_deg * SONAR_RADIANS);
    u[0] = c * level;
    u[1] = s * level;
    u[2] = sin(scan->depression_deg * SONAR_RADIANS);
}

/* If the scan goes once around, the first direction is not counted again at the end. */
static double count_uniform(const sonar_scan_spec *spec, bool cone) {
    const double steps = floor((spec->stop_deg - spec->start_deg) / spec->step_deg + SLACK);
    return cone ? steps + 1 : fmin(steps + 1, ceil(360 / spec->step_deg - SLACK));
}

static double count_coarsest(const sonar_scan_spec *spec, double span_deg) {
    return spec->coarsest_deg > 0 ? ceil(span_deg / spec->coarsest_deg) : 0;
}

static size_t count_directions(const sonar_scan_spec *spec, const sonar_geometry *geometry,
                               const sonar_scan *scan) {
    double count = 1;
    if (spec->uniform)
        count = count_uniform(spec, scan->cone);
    else if (spec->count)
        count = (double)spec->count;
    else if (scan->cone)
        count = 1 + fmax(2, fmax(ceil(2 / (FINENESS * cosine_width(spec, geometry))),
                                 count_coarsest(spec, 180)));
    else if (geometry->extent != SONAR_EXTENT_POINT)
        count = fmax(ceil(360 / (FINENESS * scan->beam_width_deg)), count_coarsest(spec, 360));
    return count <= SONAR_DIRECTIONS_MOST ? (size_t)count : 0;
}

static double direction(const sonar_scan_spec *spec, const sonar_scan *scan, size_t i) {
    if (spec->uniform)
        return fmin(spec->start_deg + (double)i * spec->step_deg, spec->stop_deg);
    if (!scan->cone)
        return 360 * (double)i / (double)scan->count;
    if (i + 1 == scan->count)
        return 180; /* acos(-1) in degrees need not be exactly 180 */
    return acos(1 - 2 * (double)i / (double)(scan->count - 1)) / SONAR_RADIANS;
}

static sonar_code check(const sonar_scan_spec *spec, bool cone, sonar_error *err) {
    if (!(spec->top_hz > 0) || !(spec->sound_speed_mps > 0))
        return sonar_fail(err, SONAR_EINVAL, "scan", "a scan needs a frequency and a sound speed");
    if (!spec->uniform)
        return SONAR_OK;
    const double most = cone ? 180 : 360;
    if (!(spec->step_deg > 0) || !(spec->start_deg >= 0) || !(spec->stop_deg >= spec->start_deg) ||
        !(spec->stop_deg <= most))
        return sonar_fail(err, SONAR_EINVAL, "scan",
                          "%s is scanned from 0 to %g deg in positive steps",
                          cone ? "a line array" : "this array", most);
    return SONAR_OK;
}

sonar_code sonar_scan_create(const sonar_scan_spec *spec, const sonar_geometry *geometry,
                             sonar_scan *scan, sonar_error *err) {
    const bool cone = geometry->extent == SONAR_EXTENT_LINE;
    *scan = (sonar_scan){.cone = cone};
    const sonar_code code = check(spec, cone, err);
    if (code)
        return code;
    if (cone)
        frame_of_cone(geometry->axis, scan);
    else
        scan->depression_deg = spec->depression_deg;
    scan->beam_width_deg = beam_width_deg(spec, geometry);
    scan->count = count_directions(spec, geometry, scan);
    if (!scan->count)
        return sonar_fail(err, SONAR_EINVAL, "scan", "more than %d directions",
                          SONAR_DIRECTIONS_MOST);
    scan->az_deg = sonar_alloc(scan->count, sizeof *scan->az_deg);
    scan->u = sonar_alloc(scan->count, 3 * sizeof *scan->u);
    if (!scan->az_deg || !scan->u) {
        sonar_scan_destroy(scan);
        return sonar_fail(err, SONAR_ENOMEM, "scan", "no memory for the look directions");
    }
    for (size_t i = 0; i < scan->count; i++) {
        scan->az_deg[i] = direction(spec, scan, i);
        sonar_scan_unit(scan, scan->az_deg[i], scan->u + 3 * i);
    }
    const double step = scan->count > 1 ? scan->az_deg[1] - scan->az_deg[0] : 0;
    const double gap = 360 - (scan->az_deg[scan->count - 1] - scan->az_deg[0]);
    scan->wraps = !cone && scan->count > 2 && gap <= 1.001 * step;
    return SONAR_OK;
}

void sonar_scan_destroy(sonar_scan *scan) {
    free(scan->az_deg);
    free(scan->u);
    *scan = (sonar_scan){.count = 0};
}

/* Largest step of 1/r between two ranges. */
static double range_step(double aperture_m, double lambda_m) {
    return 7 * lambda_m / (aperture_m * aperture_m);
}

double sonar_ranges_nearest(double aperture_m, double lambda_m, double r_max_m, size_t ranges) {
    return 1 / (1 / r_max_m + (double)(ranges - 1) * range_step(aperture_m, lambda_m));
}

size_t sonar_ranges_auto(double aperture_m, double lambda_m, double r_min_m, double r_max_m,
                         size_t most, double *range_m) {
    const double span = 1 / r_min_m - 1 / r_max_m;
    const double step = range_step(aperture_m, lambda_m);
    if (!(span > 0)) {
        if (most && range_m)
            range_m[0] = r_min_m;
        return 1;
    }
    const double steps = fmin(fmax(ceil(span / step - 1e-9), 1), 1e9);
    const size_t count = (size_t)steps + 1;
    for (size_t i = 0; range_m && i < count && i < most; i++)
        range_m[i] = i + 1 == count ? r_max_m : 1 / (1 / r_min_m - span * (double)i / steps);
    return count;
}
