/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Detections: peaks of an azimuth spectrum above a robust background, re-evaluated off the grid.
 * A scan grid biases bearings and, for MVDR, levels (18 dB at 20 dB array SNR on a 1 deg grid), so
 * each peak is refined by asking the beamformer for power between the grid's directions.
 * Data thread only; never allocates after create.
 */
#ifndef SONAR_DETECT_H
#define SONAR_DETECT_H

#include "sonar/sonar.h"

#include "status/result.h"
#include "detect/pattern.h"
#include "manifold/manifold.h"

/* Points of one call of power_at at most. */
enum { SONAR_DETECT_POINTS = 256 };

/* Distances between directions are counted in beam widths: for a cone in the cosine of the angle,
 * where the beam is equally wide everywhere (in degrees it grows as 1/sin), otherwise in degrees.
 *
 * Side lobes. A loud contact's side lobes stand far above a noise background, so a CBF peak is
 * listed only if it exceeds, by 4 dB, the sum of what all stronger peaks leak to it by the pattern
 * of the array (pattern.h; leak.c says how the spectrum of a peak, which is not known, counts). The
 * 4 dB cover noise riding on a side lobe. Where the array shows half of a stronger contact or more,
 * more than a side lobe's distance away, nothing tells the two apart (a grating lobe of a spacing
 * above lambda/2, the mirror image of a bent line): such a peak is listed and marked. The price: a
 * true contact that weak and that near is left to MVDR, whose peaks have no side lobes.
 *
 * A tone over a ship's continuum. A bin of MVDR is steered at one frequency, the tone's or the
 * bin's own, and shows on a cone what has another one at another place: a tone at cos(az)
 * f_tone/f_bin in the bins around, where less is left of it than of others; a ship at cos(az)
 * f_bin/f_tone in those that are steered at the tone. Either is seen there with a bin or two of its
 * power. So a peak of MVDR 10 dB under a stronger one is not listed within tone_reach |cos(az)| of
 * it in the cosine. The price: a true contact that weak and that near, while there is a tone. On
 * other arrays the same goes for directions whose delays are those of the stronger one times a
 * factor, but for a remainder that leaves half of its power or more: on a bent line much as on a
 * cone, on a circle no direction but its own. */
typedef void (*sonar_pattern_at)(void *ctx, sonar_point of, sonar_point at, double blur,
                                 double share[SONAR_PATTERN_PARTS]);

typedef struct sonar_detect_spec {
    const sonar_scan *scan;    /* borrowed; az_deg ascending */
    double threshold_db;       /* over the background */
    double min_separation_deg; /* at broadside; 0: half a beam width */
    size_t most;               /* <= SONAR_DETECTIONS_MOST */
    sonar_pattern_at pattern;  /* as sonar_pattern_shares; NULL: no rule of side lobes */
    void *pattern_ctx;
    double tone_reach;       /* MVDR: share of a frequency by which bins are steered beside it */
    const double *spread_m2; /* [3][3] by sonar_detect_spread, unless the scan is a cone; borrowed;
                                NULL: then no rule of tones */
    double lambda_m;         /* MVDR: at the band's top; with spread_m2 */
    double aperture_m;       /* largest extent D; for a near field */
    /* Contacts of the same array in another spectrum, strongest first, borrowed: the top between
     * two directions is first looked for where one of them is. Where the grid has no peak there, a
     * peak of MVDR begins where the power stands 1 dB out of the grid's. */
    const sonar_detection *hint;
    size_t hints;
} sonar_detect_spec;

/* The reach of a bin that is steered `offset` bins beside its centre: the bins beyond, which are
 * not, are as far from the tone and one more. */
double sonar_detect_tone_reach(double bin, double offset);
/* The second moments [3][3] of the positions [sensor][3] of the sensors in use, whose weight is not
 * 0, about their mean. */
void sonar_detect_spread(size_t sensors, const double *position_m, const float *weight,
                         double spread_m2[9]);

/* The same band energy focused at ranges; the far field counts as one range more, beyond the last.
 * All pointers are borrowed. */
typedef struct sonar_nearfield {
    const float *power; /* [range][direction] of the far field's scan */
    size_t ranges;
    const double *range_m; /* ascending */
    sonar_range_reference reference;
    double lambda_m;  /* at the band's top */
    double margin_db; /* by which a range has to exceed the far field */
} sonar_nearfield;

/* Broadband power at n <= SONAR_DETECT_POINTS points: azimuths as the scan counts them, ranges as
 * sonar_nearfield does, INFINITY for the far field. */
typedef sonar_code (*sonar_power_at)(void *ctx, size_t n, const double *az_deg,
                                     const double *range_m, float *power, sonar_error *err);

/* Background of a spectrum: per direction the median of the cells 1.5 to 11.5 beam widths away on
 * either side (a split window: the peak itself is left out; of finer grids about 64 cells a side
 * are taken), or of the whole scan where fewer than 8 cells are that far. background and scratch
 * have count entries each. */
void sonar_detect_background(const sonar_scan *scan, const float *power, float *background,
                             float *scratch);

/* Finds peaks of power[scan->count], the broadband far field, writes at most spec->most of them
 * into detections, strongest first, and their number; their bearings are left to
 * sonar_detect_bearing. A peak on the last direction of a scan that neither wraps nor ends at
 * endfire counts only if power_at shows the power to fall beyond it.
 *
 * power_at may be NULL: parabola (in dB) through the grid then. Otherwise each peak is bracketed by
 * its lower grid neighbours and the bracket shrunk around the best of eight points
 * until the top is flat to 0.01 dB (MVDR peaks are far narrower than a beam) or 1e-5 deg wide, in
 * at most 9 rounds; the threshold holds for the refined power. Two maxima between the same
 * neighbours are one peak.
 *
 * near: the same field focused at ranges, or NULL. A near source is blurred in the far field and
 * sharp at its own range, so each direction counts with its strongest range where that exceeds all
 * of the far field within half a beam width by the margin. A contact on such a direction has a
 * range_m: the top of the power over direction and 1/r between the neighbouring ranges, found with
 * power_at in turns, and its level, bearing and width are those there. (Without power_at the range
 * is the vertex of a parabola in 1/r, the rest that of the range.) range_unresolved: the ranges
 * around it are more than 7 lambda/D^2 apart in 1/r, or it is the nearest range. Its background is
 * that of its own range. Otherwise range_m is NaN.
 *
 * Smear. In a wrong focus a source's power spreads over all directions in which some sensor sees
 * the source, about D sin^2(az) |1/r1 - 1/r2| / 2 in the cosine to either side, and x beam widths
 * away no range of a perfect array shows more than 1.5/x of it. A spectrum that takes each
 * direction's strongest range follows these ridges. So a peak that is focused otherwise than a
 * stronger one of power P, by more than half a beam width of smear, must exceed 1.5 P / x up
 * to 1.614 beam widths outside the smear, and what it leaks by the pattern everywhere. Errors of
 * the elements, and windows short against the time along the array, make ripples on the smear. They
 * show all along it: a peak with a range must also exceed by 5 dB what a fifth of its own range
 * exceeds 1.5 to 11.5 beam widths away, on the side where that is more. The price is as for side
 * lobes: a contact in the smear that does not stand out of it is left to MVDR.
 *
 * A spectrum with a negative or non-finite value yields no detections. Errors: SONAR_EINVAL for
 * most > SONAR_DETECTIONS_MOST; what power_at returns. */
sonar_code sonar_detect(const sonar_detect_spec *spec, sonar_detect_source source,
                        const float *power, const sonar_nearfield *near,
                        float *scratch /* [4 * scan->count] */, sonar_power_at power_at, void *ctx,
                        sonar_detection *detections, size_t *count, sonar_error *err);

/* What a grid coarser than the peaks has to show: raises power[i] to the largest power nearer to
 * direction i than to its neighbours, around the grid's maxima that stand 1 dB over their
 * background (the 32 strongest of them; elsewhere an MVDR spectrum bends no faster than a beam).
 * Only spec->scan counts. A spectrum with a negative or non-finite value is left as it is. */
sonar_code sonar_detect_raise(const sonar_detect_spec *spec, float *power,
                              float *scratch /* [3 * scan->count] */, sonar_power_at power_at,
                              void *ctx, sonar_error *err);

/* Bearing of a scan angle, 0 <= bearing < 360: array frame, or true if the heading is known.
 *
 * On a cone it is the azimuth of a source in the horizontal plane of the array, and the mirror the
 * other one. A cone of angle a about an axis of depression d meets that plane where
 *     cos(bearing - axis) = cos(a) / cos(d),
 * on both sides of the axis. Where it does not, and for a vertical axis, both are NaN; a cone that
 * misses the plane by less than half a beam width has the bearing of the axis. Unless the scan is
 * a cone the mirror is NaN. */
void sonar_detect_bearing(const sonar_scan *scan, double az_deg, double heading_deg,
                          bool heading_known, double *bearing_deg, double *mirror_deg);

#endif
