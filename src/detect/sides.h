/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Port or starboard of a line: which of its two bearings a contact has, from what it did while the
 * line turned.
 *
 * A source keeps its true bearing, while its image on the other side of the axis moves by twice the
 * turn. So each of a contact's two bearings says where among the contacts of an earlier window, by
 * the heading of that time, it must have been. Of the earlier windows in which the two places lay
 * two beam widths or more apart, those are counted in which there was a contact at one place and
 * none at the other. If both bearings were equally good, as many windows would speak for the one as
 * for the other: a sign test. The side is told if the difference is four standard deviations of
 * that or more, and half of all windows that could tell or more; that share is the confidence. Once
 * told, a contact keeps it while it is followed from window to window, and it fades.
 *
 * Near the axis both bearings are nearly the same, and what passes it changes its side: confidence
 * falls towards it, and nothing is kept through it.
 *
 * On a straight course no window can tell, noise speaks for both sides alike, and what stays at one
 * angle of the array while it turns, own noise for instance, confirms neither.
 */
#ifndef SONAR_SIDES_H
#define SONAR_SIDES_H

#include "status/result.h"
#include "manifold/manifold.h"

/* Earlier windows that are kept. */
enum { SONAR_SIDES_WINDOWS = 128 };

typedef struct sonar_sides sonar_sides;

/* For the contacts of one beamformer. NULL: no memory. */
sonar_sides *sonar_sides_create(void);
void sonar_sides_destroy(sonar_sides *sides); /* NULL is allowed */

typedef struct sonar_sides_moment {
    double at_s;        /* of the samples' middle, by their index */
    double length_s;    /* of the window: of overlapping ones each further is kept */
    double heading_deg; /* then; NaN: not known */
} sonar_sides_moment;

/* Tells the sides of a window's contacts, which have their bearings, and keeps them for later
 * windows; where it is port, bearing_deg and mirror_deg change places. A scan that is no cone has
 * no sides. A time before the last one's clears them. Data thread. */
void sonar_sides_resolve(sonar_sides *sides, const sonar_scan *scan,
                         const sonar_sides_moment *moment, sonar_detection *contact, size_t count);
/* Another stream begins. */
void sonar_sides_forget(sonar_sides *sides);

#endif
