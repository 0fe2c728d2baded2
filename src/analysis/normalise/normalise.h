/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Divides the power in each direction by the noise estimated around it, from a window on either
 * side: split-window means and order-truncate-average (Struzinski and Lowe, J. Acoust. Soc. Am. 76,
 * 1984; over angle: Stergiopoulos, J. Acoust. Soc. Am. 97, 1995). */
#ifndef SONAR_NORMALISE_H
#define SONAR_NORMALISE_H

#include "manifold/manifold.h"
#include "sonar/rows.h"

/* For scans, in beam widths: the gap between a direction and the window on either side, and the
 * width of each window. */
#define SONAR_NORMALISE_GAP    1.5
#define SONAR_NORMALISE_WINDOW 8.0

/* clang-format off */
/* How the noise is estimated, one row each: constant, word of normalised.method, and how often
 * powers that exceed the mean around them by more than noise would are clipped to that mean, which
 * is then taken again. 0: powers that exceed the median by more than noise would are left out of
 * the mean. */
#define SONAR_NORMALISE_METHODS(ROW, AND) \
    ROW(SONAR_TWO_PASS,               "two_pass",               1) AND \
    ROW(SONAR_THREE_PASS,             "three_pass",             2) AND \
    ROW(SONAR_FIVE_PASS,              "five_pass",              4) AND \
    ROW(SONAR_ORDER_TRUNCATE_AVERAGE, "order_truncate_average", 0)
/* clang-format on */

typedef enum sonar_normalise_method {
    SONAR_NORMALISE_METHODS(SONAR_PICK_CONSTANT, SONAR_COMMA)
} sonar_normalise_method;
enum { SONAR_NORMALISERS = SONAR_NORMALISE_METHODS(SONAR_PICK_ONE, +) };

typedef struct sonar_normalise sonar_normalise;

typedef struct sonar_normalise_spec {
    sonar_normalise_method method;
    size_t directions;
    /* [directions] place of each direction in beam widths: the integral of the angle divided by the
     * beam width, so that a line's beams are equally wide. Ascending; borrowed by create only. */
    const double *at_beams;
    double turn_beams;   /* a circle's whole turn: the windows wrap. 0: the windows reflect at the
                            ends */
    double gap_beams;    /* from the direction to each window, at least 1.5 */
    double window_beams; /* the width of each of the two windows */
} sonar_normalise_spec;

/* Errors: SONAR_EINVAL for a value out of its range, or if a direction has no other one outside the
 * gap; SONAR_ENOMEM. sonar_normalise_destroy destroys the result (NULL is allowed). */
sonar_code sonar_normalise_create(const sonar_normalise_spec *spec, sonar_normalise **made,
                                  sonar_error *err);
/* The same for a scan's directions. On a cone beams are equally wide in the cosine of the angle. */
sonar_code sonar_normalise_create_for(const sonar_scan *scan, sonar_normalise_method method,
                                      sonar_normalise **made, sonar_error *err);
void sonar_normalise_destroy(sonar_normalise *n);

/* power and ratio: [directions]; ratio may be power. ratio is 1 in noise. It is finite: noise
 * counts as at least FLT_MIN and a ratio as at most FLT_MAX. averages: effective number of
 * independent powers in each mean; below 1 counts as 1. Any one thread at a time; no allocation. */
void sonar_normalise_run(sonar_normalise *n, double averages, const float *power, float *ratio);

/* sonar_normalise_clip: the largest power that still counts as noise, over the mean of the noise.
 * sonar_normalise_bias: the mean of clipped or truncated noise as a share of the noise. Powers of
 * noise have a gamma distribution; averages is at least 1. */
double sonar_normalise_clip(double averages);
double sonar_normalise_bias(double averages);

#endif
