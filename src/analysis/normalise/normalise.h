/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Divides the power in each direction by the noise estimated around it: the split-window mean, from
 * which what exceeds it is clipped before it is taken again (two-pass: Struzinski and Lowe, J.
 * Acoust. Soc. Am. 76, 1984). Here it is clipped four times; see normalise.c. */
#ifndef SONAR_NORMALISE_H
#define SONAR_NORMALISE_H

#include "manifold/manifold.h"

/* Of a scan, in beam widths: from a direction to the window on either side, and that window. */
#define SONAR_NORMALISE_GAP    1.5
#define SONAR_NORMALISE_WINDOW 8.0

typedef struct sonar_normalise sonar_normalise;

typedef struct sonar_normalise_spec {
    size_t directions;
    /* [directions] where each direction is, in beam widths: the integral of the angle over the
     * width there, so that a line's beams are equally wide. Ascending, borrowed by create only. */
    const double *at_beams;
    double
        turn_beams; /* of a circle, its whole turn: the windows wrap. 0: they reflect at the ends */
    double gap_beams;    /* from the direction to each window, at least 1.5 */
    double window_beams; /* the width of each of the two windows */
} sonar_normalise_spec;

/* SONAR_EINVAL: a value out of its range, or a direction with no other outside the gap;
 * SONAR_ENOMEM. The result is destroyed by sonar_normalise_destroy (NULL is allowed). */
sonar_code sonar_normalise_create(const sonar_normalise_spec *spec, sonar_normalise **made,
                                  sonar_error *err);
/* For a scan's directions: on a cone beams are equally wide in the cosine of the angle. */
sonar_code sonar_normalise_create_for(const sonar_scan *scan, sonar_normalise **made,
                                      sonar_error *err);
void sonar_normalise_destroy(sonar_normalise *n);

/* power and ratio: [directions]; ratio is 1 in noise and may be power; it is finite, since noise
 * counts as no less than FLT_MIN and a ratio as no more than FLT_MAX. averages: effective number of
 * independent powers in each mean; below 1 counts as 1. Any one thread at a time; no allocation. */
void sonar_normalise_run(sonar_normalise *n, double averages, const float *power, float *ratio);

/* The factor above the first mean from which a power is clipped to that mean, and the mean of
 * clipped noise as a share of the noise. Powers of noise have a gamma distribution; averages is at
 * least 1. */
double sonar_normalise_clip(double averages);
double sonar_normalise_bias(double averages);

#endif
