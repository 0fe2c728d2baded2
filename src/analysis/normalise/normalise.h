/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Divides the power in each direction by the noise estimated around it: the split-window mean.
 * Powers that exceed it are clipped before the mean is computed again (two-pass: Struzinski and
 * Lowe, J. Acoust. Soc. Am. 76, 1984). Here they are clipped four times; see normalise.c. */
#ifndef SONAR_NORMALISE_H
#define SONAR_NORMALISE_H

#include "manifold/manifold.h"

/* For scans, in beam widths: the gap between a direction and the window on either side, and the
 * width of each window. */
#define SONAR_NORMALISE_GAP    1.5
#define SONAR_NORMALISE_WINDOW 8.0

typedef struct sonar_normalise sonar_normalise;

typedef struct sonar_normalise_spec {
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
sonar_code sonar_normalise_create_for(const sonar_scan *scan, sonar_normalise **made,
                                      sonar_error *err);
void sonar_normalise_destroy(sonar_normalise *n);

/* power and ratio: [directions]; ratio may be power. ratio is 1 in noise. It is finite: noise
 * counts as at least FLT_MIN and a ratio as at most FLT_MAX. averages: effective number of
 * independent powers in each mean; below 1 counts as 1. Any one thread at a time; no allocation. */
void sonar_normalise_run(sonar_normalise *n, double averages, const float *power, float *ratio);

/* sonar_normalise_clip: the factor above the first mean from which a power is clipped to that mean.
 * sonar_normalise_bias: the mean of clipped noise as a share of the noise. Powers of noise have a
 * gamma distribution; averages is at least 1. */
double sonar_normalise_clip(double averages);
double sonar_normalise_bias(double averages);

#endif
