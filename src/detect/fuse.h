/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finds rows of a window's list that are the same contact. */
#ifndef SONAR_FUSE_H
#define SONAR_FUSE_H

#include "status/result.h"
#include "manifold/manifold.h"

/* Numbers the contacts of both beamformers from 0 and sets rests_on. Their bearings must be set. A
 * row of MVDR and a row of the CBF are one contact if each is the other's nearest, within half a
 * beam of the CBF at the CBF's heading (heading_deg; NaN: unknown, then in the array's frame). Two
 * rows of one beamformer are always two contacts, because it has resolved them. */
void sonar_detect_fuse(const sonar_scan *cbf_scan, double heading_deg, sonar_detection *cbf,
                       size_t cbf_count, sonar_detection *mvdr, size_t mvdr_count);

#endif
