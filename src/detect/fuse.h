/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows of a window's list that are one contact. */
#ifndef SONAR_FUSE_H
#define SONAR_FUSE_H

#include "status/result.h"
#include "manifold/manifold.h"

/* Numbers the contacts of both beamformers, which have their bearings, from 0 and says what each
 * rests on. A row of MVDR and one of the CBF are one contact if they are the nearest to each other
 * within half a beam of the CBF at the CBF's heading (heading_deg, NaN: not known, then in the
 * array's frame). Two rows of one beamformer are two contacts: it tells them apart. */
void sonar_detect_fuse(const sonar_scan *cbf_scan, double heading_deg, sonar_detection *cbf,
                       size_t cbf_count, sonar_detection *mvdr, size_t mvdr_count);

#endif
