/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sub-band peak energy detection: sums, over all frequencies, the powers of the peaks over angle
 * relative to the power around them. docs/sped.md has the theory, the sources and the limits. */
#ifndef SONAR_SPED_H
#define SONAR_SPED_H

#include "manifold/manifold.h"

/* Distance on either side up to which a peak counts, with falling weight. In beam widths at the
 * band's top. */
#define SONAR_SPED_REACH 0.5
/* Half of the narrowest stretch over which the mean around a peak is taken. In beam widths at the
 * bin's frequency. */
#define SONAR_SPED_AROUND 4.0

typedef struct sonar_sped sonar_sped;

typedef struct sonar_sped_spec {
    const sonar_scan *scan; /* borrowed by create only; its beam width is that of the last bin */
    size_t first_bin, bins; /* of the transform; at least one */
} sonar_sped_spec;

/* Bytes that create allocates. */
double sonar_sped_bytes(const sonar_sped_spec *spec);
/* Errors: SONAR_EINVAL for no bin, or fewer than three directions; SONAR_ENOMEM. sonar_sped_destroy
 * destroys the result (NULL is allowed). */
sonar_code sonar_sped_create(const sonar_sped_spec *spec, sonar_sped **made, sonar_error *err);
void sonar_sped_destroy(sonar_sped *s);

/* power: [bin][direction]. record: [direction], the mean over the bins of the sum over the peaks
 * within reach of (power / mean around - 1), weighted by distance. It is finite and at least 0.
 * Bins without power, or with a value that is not finite, have no peaks. Any one thread at a time;
 * no allocation. */
void sonar_sped_run(sonar_sped *s, const float *power, float *record);

#endif
