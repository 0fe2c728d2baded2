/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Distances along a scan in beam widths, and interpolation by a parabola. */
#ifndef SONAR_MANIFOLD_ANGLE_H
#define SONAR_MANIFOLD_ANGLE_H

#include <float.h>
#include <math.h>

#include "core/core.h"
#include "manifold/directions.h"

/* One beam width at broadside, in degrees. An array of one point has no beam; then the whole scan
 * counts as one. */
static inline double sonar_beam_deg(const sonar_scan *scan) {
    const double width = scan->beam_width_deg;
    return width > 0 && width < 360 ? width : 360;
}

/* One beam width as the scan counts distance: in the cosine for a cone, in degrees otherwise. */
static inline double sonar_beam_width(const sonar_scan *scan) {
    return scan->cone ? sonar_beam_deg(scan) * SONAR_RADIANS : sonar_beam_deg(scan);
}

static inline double sonar_beams_apart(const sonar_scan *scan, double a_deg, double b_deg) {
    if (scan->cone)
        return fabs(cos(a_deg * SONAR_RADIANS) - cos(b_deg * SONAR_RADIANS)) /
               sonar_beam_width(scan);
    return fabs(remainder(a_deg - b_deg, 360.0)) / sonar_beam_width(scan);
}

/* The place of an angle on a scan in beam widths, ascending with the angle. */
static inline double sonar_beams_at(const sonar_scan *scan, double az_deg) {
    return (scan->cone ? -cos(az_deg * SONAR_RADIANS) : az_deg) / sonar_beam_width(scan);
}

/* The angle that lies `beams` beam widths after az_deg (before it, if negative); a cone's angle
 * stays within 0..180. */
static inline double sonar_beams_on(const sonar_scan *scan, double az_deg, double beams) {
    if (!scan->cone)
        return az_deg + beams * sonar_beam_width(scan);
    const double cosine = cos(az_deg * SONAR_RADIANS) - beams * sonar_beam_width(scan);
    return acos(fmin(fmax(cosine, -1.0), 1.0)) / SONAR_RADIANS;
}

static inline double sonar_decibel(double power) {
    return 10.0 * log10(fmax(power, FLT_MIN));
}

/* The parabola bend t^2 + slope t through (0, 0), (a, ya) and (b, yb). */
typedef struct sonar_bow {
    double bend, slope;
} sonar_bow;
static inline sonar_bow sonar_bow_through(double a, double ya, double b, double yb) {
    const double bend = (ya / a - yb / b) / (a - b);
    return (sonar_bow){bend, ya / a - bend * a};
}

/* Vertex of the parabola through three points, x ascending, y[1] the highest. Sides count as at
 * most 20 dB deep, because the parabola through steeper ones would overshoot. */
static inline void sonar_parabola(const double x[3], const double y_db[3], double *top_x,
                                  double *top_db) {
    const double a = x[0] - x[1], b = x[2] - x[1];
    const double ya = fmax(y_db[0] - y_db[1], -20.0), yb = fmax(y_db[2] - y_db[1], -20.0);
    const sonar_bow bow = sonar_bow_through(a, ya, b, yb);
    *top_x = x[1];
    *top_db = y_db[1];
    if (!(bow.bend < 0))
        return;
    const double t = fmin(fmax(-bow.slope / (2 * bow.bend), a), b);
    *top_x += t;
    *top_db += (bow.bend * t + bow.slope) * t;
}

#endif
