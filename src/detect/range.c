/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Near-field ranges of detections. */
#include "detect/detect.h"

#include "detect/angle.h"

/* The near-field surface and its ladder: [range][direction], and the far field as one more rung. */
typedef struct ladder {
    const sonar_scan *scan;
    const float *near, *far;
    size_t ranges;
    const double *range_m;
    double coarsest; /* largest step in 1/r that still resolves a range */
} ladder;

/* Wavenumber-like coordinate of rung i: 1/r, and 0 for the far field beyond the last. */
static double rung(const ladder *l, size_t i) {
    return i < l->ranges ? 1.0 / l->range_m[i] : 0.0;
}

static double level(const ladder *l, size_t i, size_t direction) {
    const size_t at = i * l->scan->count + direction;
    return sonar_decibel((double)(i < l->ranges ? l->near[at] : l->far[direction]));
}

/* The strongest near-field cell, and the far field's strongest direction, near az_deg. */
static bool find_cell(const ladder *l, double az_deg, size_t *range, size_t *direction,
                      double *near_power, double *far_power) {
    *near_power = *far_power = 0;
    for (size_t t = 0; t < l->scan->count; t++) {
        if (sonar_beams_apart(l->scan, l->scan->az_deg[t], az_deg) > 0.5)
            continue;
        *far_power = fmax(*far_power, (double)l->far[t]);
        for (size_t i = 0; i < l->ranges; i++) {
            const double power = (double)l->near[i * l->scan->count + t];
            if (power > *near_power) {
                *near_power = power;
                *range = i;
                *direction = t;
            }
        }
    }
    return *near_power > 0;
}

/* Parabola in 1/r over the rung and its neighbours, the far field being one. */
static void set_range(const ladder *l, size_t i, size_t direction, sonar_detection *detection) {
    detection->range_m = l->range_m[i];
    const double further = rung(l, i) - rung(l, i + 1);
    const double nearer = i > 0 ? rung(l, i - 1) - rung(l, i) : INFINITY;
    detection->range_unresolved = !(fmax(further, nearer) <= l->coarsest);
    const double x[3] = {rung(l, i + 1), rung(l, i), i > 0 ? rung(l, i - 1) : 0};
    const double y[3] = {level(l, i + 1, direction), level(l, i, direction),
                         i > 0 ? level(l, i - 1, direction) : 0};
    if (i == 0 || y[0] > y[1] || y[2] > y[1])
        return;
    double inverse, top_db;
    sonar_parabola(x, y, &inverse, &top_db);
    detection->range_m = inverse > 0 ? 1.0 / inverse : l->range_m[i];
}

void sonar_detect_range(const sonar_detect_spec *spec, const float *nearfield, size_t ranges,
                        const double *range_m, const float *far_power, double aperture_m,
                        double lambda_m, double margin_db, sonar_detection *detections,
                        size_t count) {
    const ladder l = {.scan = spec->scan,
                      .near = nearfield,
                      .far = far_power,
                      .ranges = ranges,
                      .range_m = range_m,
                      .coarsest = 7.0 * lambda_m / (aperture_m * aperture_m) * (1 + 1e-9)};
    const double margin = pow(10.0, margin_db / 10.0);
    for (size_t k = 0; k < count; k++) {
        size_t i = 0, direction = 0;
        double near_power, far;
        detections[k].range_m = NAN;
        detections[k].range_unresolved = false;
        if (find_cell(&l, detections[k].az_deg, &i, &direction, &near_power, &far) &&
            near_power > margin * far)
            set_range(&l, i, direction, &detections[k]);
    }
}
