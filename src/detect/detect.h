/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Detections: peaks of an azimuth spectrum above a robust background, re-evaluated off the grid. A
 * scan grid biases bearings and, for MVDR, levels (18 dB at 20 dB array SNR on a 1 deg grid), so
 * each peak is refined with the beamformer's power between the grid's directions. Data thread only;
 * never allocates after create.
 */
#ifndef SONAR_DETECT_H
#define SONAR_DETECT_H

#include "sonar/sonar.h"

#include "status/result.h"
#include "detect/pattern.h"
#include "detect/sigma.h"
#include "manifold/manifold.h"

/* Points of one call of power_at at most. */
enum { SONAR_DETECT_POINTS = 256 };

/*
 * Distances between directions are counted in beam widths: for a cone in the cosine of the angle,
 * where the beam is equally wide everywhere (in degrees it grows as 1/sin), otherwise in degrees.
 *
 * Side lobes. A loud contact's side lobes stand far above a noise background, so a CBF peak is
 * listed only if it exceeds by 4 dB the sum of what all stronger peaks leak to it by the array's
 * pattern (pattern.h; leak.c describes how the unknown spectrum of a peak is treated). The 4 dB
 * cover noise on a side lobe. Some directions, farther away than a side lobe, show half of a
 * stronger contact's power or more: a grating lobe of a spacing above lambda/2, or the mirror image
 * of a bent line. The array cannot distinguish them from a contact, so such a peak is listed and
 * marked. The price of this rule: the CBF does not list a true contact that is as weak and as near
 * as a side lobe. MVDR, whose peaks have no side lobes, lists it.
 *
 * A tone over a ship's continuum. A bin of MVDR is steered at one frequency, the tone's or the
 * bin's own. On a cone it shows a source of another frequency in the wrong place: a tone at cos(az)
 * f_tone/f_bin in the bins around the tone, and a ship at cos(az) f_bin/f_tone in the bins steered
 * at the tone. Such an image has the power of only a bin or two. So a peak of MVDR more than 10 dB
 * below a stronger one is not listed within tone_reach |cos(az)| of it in the cosine. The price:
 * while there is a tone, a true contact as weak and as near is not listed either. On other arrays
 * the rule applies to directions whose delays are those of the stronger one times a factor, up to a
 * deviation that leaves half of its power or more. On a bent line these are much as on a cone; on a
 * circle only the direction itself.
 */
typedef void (*sonar_pattern_at)(void *ctx, sonar_point of, sonar_point at, double blur,
                                 double share[SONAR_PATTERN_PARTS]);

/* The split windows of a scan, from which backgrounds are taken. Immutable. */
typedef struct sonar_split sonar_split;
/* Borrows the scan until destroy. SONAR_ENOMEM. */
sonar_code sonar_split_create(const sonar_scan *scan, sonar_split **split, sonar_error *err);
void sonar_split_destroy(sonar_split *split); /* NULL is allowed */

/* Tops of a spectrum of the MVDR between the grid's directions, with all powers that the search
 * asked for. */
enum { SONAR_TOPS_MOST = 32, SONAR_TOP_SAMPLES = 96 };

typedef struct sonar_top {
    size_t index; /* direction of the grid's maximum */
    double az_deg, power;
    bool inside; /* false: the power still rises at the end of the scan */
    size_t samples;
    double sample_deg[SONAR_TOP_SAMPLES];
    float sample_power[SONAR_TOP_SAMPLES];
} sonar_top;

typedef struct sonar_tops {
    size_t count;
    sonar_top top[SONAR_TOPS_MOST];
} sonar_tops;

typedef struct sonar_detect_spec {
    const sonar_scan *scan;    /* borrowed; az_deg ascending */
    const sonar_split *split;  /* borrowed; of the scan */
    double threshold_db;       /* over the background */
    double min_separation_deg; /* at broadside; 0: half a beam width */
    size_t most;               /* <= SONAR_DETECTIONS_MOST */
    sonar_pattern_at pattern;  /* as sonar_pattern_shares; NULL: no rule of side lobes */
    void *pattern_ctx;
    double tone_reach; /* MVDR: largest offset of a bin's steering frequency, as a share of the
                          frequency */
    const double *spread_m2; /* [3][3] from sonar_detect_spread, borrowed; not used if the scan is a
                                cone. NULL: on other scans the rule of tones does not apply */
    double lambda_m;         /* MVDR: wavelength at the band's top; set together with spread_m2 */
    double aperture_m;       /* largest extent D; used with a near field */
    /* Contacts of the same array in another spectrum, strongest first, borrowed. A top between two
     * directions is first searched at such a contact, unless `tops` is given. If the grid has no
     * peak there, a peak of MVDR is begun where the power exceeds the grid's by 1 dB. */
    const sonar_detection *hint;
    size_t hints;
    /* Tops of the same spectrum, borrowed; they are not searched again, and others as they were,
     * without hints: detections do not depend on which of them are known. NULL: with hints. */
    const sonar_tops *tops;
} sonar_detect_spec;

/* The reach of a bin that is steered `offset` bins beside its centre. The bins next to it are
 * steered at their centres and are one bin farther from the tone. */
double sonar_detect_tone_reach(double bin, double offset);
/* The second moments [3][3], about their mean, of the positions [sensor][3] of the sensors in use
 * (weight not 0). */
void sonar_detect_spread(size_t sensors, const double *position_m, const float *weight,
                         double spread_m2[9]);

/* The same band energy focused at ranges. The far field counts as a further range after the last.
 * All pointers are borrowed. */
typedef struct sonar_nearfield {
    const float *power; /* [range][direction] of the far field's scan */
    size_t ranges;
    const double *range_m; /* ascending */
    sonar_range_reference reference;
    double lambda_m;  /* at the band's top */
    double margin_db; /* by how much a range must exceed the far field */
} sonar_nearfield;

/* Broadband power at n <= SONAR_DETECT_POINTS points: azimuths as the scan counts them, ranges as
 * sonar_nearfield does, INFINITY for the far field. */
typedef sonar_code (*sonar_power_at)(void *ctx, size_t n, const double *az_deg,
                                     const double *range_m, float *power, sonar_error *err);

/* Background of a spectrum: per direction the median of the cells 1.5 to 11.5 beam widths away on
 * either side (a split window, which leaves out the peak itself; finer grids are thinned to about
 * 64 cells a side), or of the whole scan if fewer than 8 cells are that far. background and scratch
 * have count entries each. */
void sonar_detect_background(const sonar_split *split, const float *power, float *background,
                             float *scratch);

/*
 * Finds peaks of power[scan->count], the broadband far field, writes at most spec->most of them
 * into detections, strongest first, and their number. sonar_detect_sigma computes the errors of
 * their places, sonar_detect_bearing their bearings. A peak on the last direction of a scan that
 * neither wraps nor ends at endfire counts only if power_at shows the power to fall beyond it.
 *
 * If power_at is NULL, peaks are interpolated by a parabola (in dB) through the grid. Otherwise
 * each peak is bracketed by its lower grid neighbours and the bracket shrunk around the best of
 * eight points until the top is flat to 0.01 dB (MVDR peaks are far narrower than a beam) or 1e-5
 * deg wide, in at most 9 rounds; the threshold applies to the refined power. Two maxima between the
 * same neighbours are one peak.
 *
 * near: the same field focused at ranges, or NULL. A near source is blurred in the far field and
 * sharp at its own range, so each direction counts with its strongest range if that exceeds, by the
 * margin, the far field everywhere within half a beam width. A contact on such a direction has a
 * range_m: the top of the power over direction and 1/r between the neighbouring ranges, found with
 * power_at alternately in the two; its level, bearing and width are taken there. (Without power_at
 * the range is the vertex of a parabola in 1/r, and the rest is taken at the grid's range.)
 * range_unresolved: the ranges around it are more than 7 lambda/D^2 apart in 1/r, or it is the
 * nearest range. Its background is taken from its own range. Otherwise range_m is NaN.
 *
 * Smear. In a wrong focus a source's power spreads over all directions in which some sensor sees
 * the source, about D sin^2(az) |1/r1 - 1/r2| / 2 in the cosine to either side, and x beam widths
 * away no range of a perfect array shows more than 1.5/x of it. A spectrum that takes each
 * direction's strongest range follows these ridges. So a peak whose focus differs from that of a
 * stronger one of power P by more than half a beam width of smear must exceed 1.5 P / x up to 1.614
 * beam widths outside the smear, and everywhere what the stronger one leaks by the pattern. Errors
 * of the elements, and windows short against the time along the array, make ripples on the smear.
 * The ripples run all along the smear. So a peak with a range must also exceed, by 5 dB, the upper
 * fifth of the powers at its own range 1.5 to 11.5 beam widths away, on the stronger side. The
 * price is the same as for side lobes: only MVDR lists a contact that does not stand out of the
 * smear.
 *
 * A spectrum with a negative or non-finite value yields no detections. Errors: SONAR_EINVAL for
 * most > SONAR_DETECTIONS_MOST; errors of power_at.
 */
sonar_code sonar_detect(const sonar_detect_spec *spec, sonar_detect_source source,
                        const float *power, const sonar_nearfield *near,
                        float *scratch /* [4 * scan->count] */, sonar_power_at power_at, void *ctx,
                        sonar_detection *detections, size_t *count, sonar_error *err);

/* Searches the tops of the strongest of the grid's maxima that exceed their background by 1 dB, as
 * sonar_detect does. Uses only spec->scan and spec->split. A spectrum with a negative or non-finite
 * value has none. Errors: those of power_at, without tops. */
sonar_code sonar_detect_tops(const sonar_detect_spec *spec, const float *power,
                             float *scratch /* [2 * scan->count] */, sonar_power_at power_at,
                             void *ctx, sonar_tops *tops, sonar_error *err);

/* Raises a spectrum on a grid that is coarser than its peaks: sets power[i] to the largest power in
 * the cell of direction i. This is done at its tops; elsewhere an MVDR spectrum varies no faster
 * than a beam. */
void sonar_detect_raise(const sonar_scan *scan, const sonar_tops *tops, float *power);

/*
 * Bearing of a scan angle, 0 <= bearing < 360: true if the heading is known, else in the array
 * frame.
 *
 * On a cone it is the azimuth of a source in the horizontal plane of the array, and the mirror the
 * other one. A cone of angle a about an axis of depression d meets that plane where
 *     cos(bearing - axis) = cos(a) / cos(d),
 * on both sides of the axis. If it does not, or the axis is vertical, both are NaN; a cone that
 * misses the plane by less than half a beam width has the bearing of the axis. Unless the scan is
 * a cone the mirror is NaN.
 */
void sonar_detect_bearing(const sonar_scan *scan, double az_deg, double heading_deg,
                          bool heading_known, double *bearing_deg, double *mirror_deg);

#endif
