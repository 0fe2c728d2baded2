/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Compares the messages of two pipelines for the same samples, to the accuracy to which backends
 * have to agree: each backend may have half of these errors.
 *
 *   cbf.*            0.01 dB where the first is within 60 dB of the surface's peak
 *   mvdr.*           0.1 dB; eigenvalues where the first is within 60 dB of its bin's largest
 *   element.psd      1e-4, except more than 40 dB below the channel's peak
 *   element.missing, element.position  equal
 *   detections       the same ones; bearings to 0.05 deg, levels to 0.05 dB
 *   headers          equal except for backend and times
 */
#ifndef SONAR_TEST_PUBLISHED_H
#define SONAR_TEST_PUBLISHED_H

#include "output_scene.h"

typedef struct published_verdict {
    bool headers, arrays; /* are the same */
    double used;          /* largest deviation, as a share of what is allowed */
    char text[240];       /* the first difference */
} published_verdict;

published_verdict published_compare(const output_message *want, const output_message *have);
/* SONAR_SURFACES if it is none's. */
sonar_surface published_surface(const char *topic);

#endif
