/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "manifold/bearings.h"

#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "manifold/directions.h"

enum { TAPS = 4, PER_STEP = 3 };

/* The directions and weights that one bearing is interpolated from. */
struct reading {
    uint32_t at[TAPS]; /* directions */
    float weight[TAPS];
    int left; /* the bearing lies between at[left] and the next; negative: outside the scan */
};

struct sonar_bearings {
    const sonar_scan *scan;
    sonar_interpolation interpolation;
    double heading_deg; /* NaN: not set yet */
    size_t count;
    struct reading reading[];
};

/* ---- create ---------------------------------------------------------------------------------- */

bool sonar_bearings_exist(const sonar_scan *scan) {
    return scan->count >= TAPS && !(scan->cone && isnan(scan->axis_az_deg));
}

static double finest_step_deg(const sonar_scan *scan) {
    const ptrdiff_t last = (ptrdiff_t)scan->count - !scan->wraps;
    double step_deg = 360;
    for (ptrdiff_t i = 0; i < last; i++)
        step_deg = fmin(step_deg, sonar_scan_az(scan, i + 1) - sonar_scan_az(scan, i));
    return step_deg;
}

static size_t count_bearings(const sonar_scan *scan) {
    const double wanted = ceil(PER_STEP * 360 / finest_step_deg(scan) - 1e-6);
    return (size_t)fmin(fmax(wanted, SONAR_BEARINGS_LEAST), (double)SONAR_BEARINGS_MOST);
}

size_t sonar_bearings_bytes(const sonar_scan *scan) {
    return sizeof(sonar_bearings) + count_bearings(scan) * sizeof(struct reading);
}

sonar_bearings *sonar_bearings_create(const sonar_scan *scan, sonar_interpolation interpolation) {
    const size_t count = count_bearings(scan);
    sonar_bearings *b = sonar_alloc(1, sonar_bearings_bytes(scan));
    if (!b)
        return NULL;
    b->scan = scan;
    b->interpolation = interpolation;
    b->count = count;
    b->heading_deg = NAN;
    return b;
}

void sonar_bearings_destroy(sonar_bearings *bearings) {
    free(bearings);
}

size_t sonar_bearings_count(const sonar_bearings *bearings) {
    return bearings->count;
}

sonar_interpolation sonar_bearings_interpolation(const sonar_bearings *bearings) {
    return bearings->interpolation;
}

/* ---- where to read --------------------------------------------------------------------------- */

double sonar_cone_cosine(const sonar_scan *scan, double beside_deg) {
    return cos((beside_deg - scan->axis_az_deg) * SONAR_RADIANS) *
           cos(scan->axis_depression_deg * SONAR_RADIANS);
}

/* Angle from the axis, in degrees, to one side or the other. */
static double beside(double az_deg, double axis_depression_deg, double slack) {
    if (axis_depression_deg == 0)
        return az_deg; /* exact, even at endfire */
    const double cosine = cos(az_deg * SONAR_RADIANS) / cos(axis_depression_deg * SONAR_RADIANS);
    return fabs(cosine) <= 1 + slack ? acos(fmin(fmax(cosine, -1), 1)) / SONAR_RADIANS : NAN;
}

void sonar_cone_bearings(double axis_deg, double axis_depression_deg, double az_deg, double slack,
                         double bearing_deg[2]) {
    const double beside_deg = beside(az_deg, axis_depression_deg, slack);
    bearing_deg[0] = sonar_modulo_turn(axis_deg + beside_deg);
    bearing_deg[1] = sonar_modulo_turn(axis_deg - beside_deg);
}

/* The scan's angle for a direction in the horizontal plane, given in degrees clockwise of +x. */
static double scan_angle(const sonar_scan *scan, double beside_deg) {
    if (!scan->cone)
        return sonar_modulo_turn(beside_deg);
    return acos(fmin(fmax(sonar_cone_cosine(scan, beside_deg), -1), 1)) / SONAR_RADIANS;
}

/* Coordinate for the interpolation: beams of a line are equally wide in the cosine. */
static double coordinate(const sonar_scan *scan, double az_deg) {
    return scan->cone ? -cos(az_deg * SONAR_RADIANS) : az_deg;
}

static struct reading read_one(const sonar_scan *scan, ptrdiff_t direction) {
    const uint32_t at = (uint32_t)sonar_scan_index(scan, direction);
    return (struct reading){.at = {at, at, at, at}, .weight = {1}};
}

/* Lagrange's polynomial through the four directions from `first` on. */
static struct reading read_four(const sonar_scan *scan, ptrdiff_t first, int left, double az_deg) {
    struct reading r = {.left = left};
    double x[TAPS];
    const double at = coordinate(scan, az_deg);
    for (int i = 0; i < TAPS; i++) {
        r.at[i] = (uint32_t)sonar_scan_index(scan, first + i);
        x[i] = coordinate(scan, sonar_scan_az(scan, first + i));
    }
    for (int i = 0; i < TAPS; i++) {
        double weight = 1;
        for (int j = 0; j < TAPS; j++)
            weight *= j == i ? 1 : (at - x[j]) / (x[i] - x[j]);
        r.weight[i] = (float)weight;
    }
    return r;
}

/* A scan also covers half a step beyond its ends. */
static struct reading read_end(const sonar_scan *scan, ptrdiff_t end, double az_deg) {
    const ptrdiff_t inside = end ? end - 1 : 1;
    const double half_deg = fabs(sonar_scan_az(scan, end) - sonar_scan_az(scan, inside)) / 2;
    if (fabs(az_deg - sonar_scan_az(scan, end)) > half_deg)
        return (struct reading){.left = -1};
    return read_one(scan, end);
}

static struct reading read_at(const sonar_bearings *b, double az_deg) {
    const sonar_scan *scan = b->scan;
    const ptrdiff_t n = (ptrdiff_t)scan->count, next = sonar_scan_first(scan, az_deg);
    if (!scan->wraps && (next == 0 || next == n))
        return read_end(scan, next ? n - 1 : 0, az_deg);
    if (b->interpolation == SONAR_INTERPOLATE_NEAREST) {
        const bool before =
            az_deg - sonar_scan_az(scan, next - 1) < sonar_scan_az(scan, next) - az_deg;
        return read_one(scan, before ? next - 1 : next);
    }
    ptrdiff_t first = next - 2;
    if (!scan->wraps)
        first = first < 0 ? 0 : first > n - TAPS ? n - TAPS : first;
    return read_four(scan, first, (int)(next - 1 - first), az_deg);
}

void sonar_bearings_turn(sonar_bearings *b, double heading_deg) {
    if (heading_deg == b->heading_deg)
        return;
    b->heading_deg = heading_deg;
    for (size_t i = 0; i < b->count; i++) {
        const double bearing_deg = 360.0 * (double)i / (double)b->count;
        b->reading[i] = read_at(b, scan_angle(b->scan, bearing_deg - heading_deg));
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Between a peak and its null a polynomial may fall below both neighbours, and below 0; this
 * prevents it. */
static float power_at(const struct reading *r, const float *power) {
    if (r->left < 0)
        return 0;
    const float least = fminf(power[r->at[r->left]], power[r->at[r->left + 1]]);
    float sum = 0;
    for (int i = 0; i < TAPS; i++)
        sum += r->weight[i] * power[r->at[i]];
    return fmaxf(sum, least);
}

void sonar_bearings_read(const sonar_bearings *b, const float *power, float *to) {
    for (size_t i = 0; i < b->count; i++)
        to[i] = power_at(&b->reading[i], power);
}
