/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Tones of contacts: lines in the frequency-azimuth surface of the CBF. docs/tracks.md has the
 * limits.
 *
 * A bin shows a tone of a contact if, at the contact, its power is 13 dB over the median of the
 * bins 3 to 10 bins away on either side (half of them at least have to be there), is the highest of
 * the two bins on either side, is larger than in the rest of the beam, and is at most 10 dB below
 * that of the bin's loudest direction: fainter powers may be a louder contact's side lobes. In
 * exponential noise one bin in 20000 does.
 */
#ifndef SONAR_TONES_H
#define SONAR_TONES_H

#include "manifold/manifold.h"
#include "status/result.h"

typedef struct sonar_tones sonar_tones;

typedef struct sonar_tones_spec {
    const sonar_scan *scan; /* borrowed until destroy; its beam width is that at top_hz */
    double top_hz;
    size_t first_bin, bins; /* of the transform */
    double bin_hz;
} sonar_tones_spec;

/* Errors: SONAR_EINVAL for fewer than SONAR_TONES_BINS bins or no direction; SONAR_ENOMEM.
 * sonar_tones_destroy destroys the result (NULL is allowed). */
enum { SONAR_TONES_BINS = 11 };
sonar_code sonar_tones_create(const sonar_tones_spec *spec, sonar_tones **made, sonar_error *err);
void sonar_tones_destroy(sonar_tones *t);

/* Sets the tones of each detection, strongest over the median first. power: [bin][direction]; a bin
 * with a value that is not finite or not positive at the contact has no tone. Frequencies are
 * interpolated between bins. Any one thread at a time; no allocation. */
void sonar_tones_find(sonar_tones *t, const float *power, sonar_detection *detection, size_t count);

#endif
