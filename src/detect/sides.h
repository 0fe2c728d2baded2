/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Port or starboard of a line: which of its two bearings a contact has. This follows from its
 * movement while the line turned.
 *
 * A source keeps its true bearing, while its image on the other side of the axis moves by twice the
 * turn. For each of a contact's two bearings the heading of an earlier window gives the place at
 * which the contact must have been then. Windows count in which the two places were at least two
 * beam widths apart and exactly one of them had a contact. This is a sign test: without evidence,
 * equally many windows would support each side. The side is decided if the difference is at least
 * four standard deviations of that distribution, and at least half of all windows in which the
 * places were apart; that share is the confidence. A contact keeps its side while it is followed
 * from window to window, with fading confidence.
 *
 * Near the axis both bearings are nearly the same, and a contact that passes it changes its side.
 * So the confidence falls towards the axis, and no side is kept through it.
 *
 * On a straight course no window decides; noise supports both sides equally; and a source that
 * stays at one angle of the array while it turns, such as own noise, confirms neither.
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
    double at_s;     /* time of the middle of the samples, by their index */
    double length_s; /* duration of the window; if windows overlap, only windows that far apart are
                        kept */
    double heading_deg; /* at that time; NaN: unknown */
} sonar_sides_moment;

/* Sets the sides of a window's contacts, whose bearings must be set, and keeps the contacts for
 * later windows. If a contact is on the port side, bearing_deg and mirror_deg are exchanged. Does
 * nothing unless the scan is a cone. A time before the last one's clears the windows that were
 * kept. Data thread. */
void sonar_sides_resolve(sonar_sides *sides, const sonar_scan *scan,
                         const sonar_sides_moment *moment, sonar_detection *contact, size_t count);
/* Clears the windows that were kept, when another stream begins. */
void sonar_sides_forget(sonar_sides *sides);

#endif
