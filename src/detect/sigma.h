/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The standard deviation of a peak's place. Noise contributes according to the shape of the peak,
 * its height above the noise, the aperture and the number of averages. The declared errors of the
 * array are added. docs/bearings.md has the formulas, their sources and their limits.
 */
#ifndef SONAR_SIGMA_H
#define SONAR_SIGMA_H

#include "detect/pattern.h"
#include "manifold/manifold.h"
#include "status/result.h"

/* Second moments [3][3] of the positions of the sensors in use about their weighted mean, m^2.
 * beam_m2 is weighted as the beam is; noise_m2 as the beam's noise is, by the squares of the
 * weights. For equal weights both are the same. */
typedef struct sonar_aperture {
    double beam_m2[9], noise_m2[9];
    double share; /* share of a sensor's own noise in the beam's power: sum w^2 / (sum w)^2 */
} sonar_aperture;

/* All zeros if no sensor is in use. */
void sonar_aperture_of(size_t sensors, const double *position_m, const float *weight,
                       sonar_aperture *aperture);

/* The number of independent averages in a mean over overlapping transforms and over bins that share
 * a taper. */
typedef struct sonar_averages {
    double noise; /* of broadband sound: the number for the whole band divided by the bins */
    double tone;  /* of a tone, whose power is in a bin and in the bins beside it */
    double width; /* rms width of the taper's transform, in bins */
} sonar_averages;

/* The averages of `snapshots` transforms, each `hop` lengths after the one before, summed over
 * `bins`. The taper is given at `points` equal steps of its length. */
sonar_averages sonar_averages_of(const double *taper, size_t points, double hop, double snapshots,
                                 size_t bins);

/* The share of the averages that MVDR loses because its weights adapt to the noise of the same
 * snapshots. level: share of a source's power that MVDR shows. */
double sonar_averages_lost(double snapshots, double sensors, double level);

/* The share of a source's power that the CBF's side lobes add to the source's own background: the
 * median over the cells of sonar_detect_background, mean over the band. Uses the pattern's
 * scratch. */
double sonar_own_share(sonar_pattern *pattern, const sonar_scan *scan);

/* The noise of a beam with equal weights, from MVDR's power away from sources. loading: the power
 * that loading adds to it. level: as above; level_corrected: the published power is corrected for
 * it. */
double sonar_beam_noise(double power, double loading, double level, bool level_corrected);

/* What the accuracy of a beamformer's peaks depends on. */
typedef struct sonar_accuracy {
    const sonar_aperture *aperture; /* borrowed */
    size_t bins;
    /* frequencies of the first and last bin; distance of the bins */
    double low_hz, high_hz, bin_hz, c_mps;
    sonar_averages averages;
    double own_share; /* CBF: share of a source's power in its own background, by side lobes */
    double noise;     /* CBF: noise in a beam, if it follows from MVDR, unit^2; 0: not known */
    /* MVDR: the power that loading adds to a bin, unit^2; the share of a source's power that MVDR
     * shows; whether the published power is corrected for that share. */
    double loading, level;
    bool level_corrected;
    double lost; /* MVDR: from sonar_averages_lost */
} sonar_accuracy;

/* Sets sigma of a detection of the scan. */
void sonar_detect_sigma(const sonar_scan *scan, const sonar_accuracy *accuracy, sonar_detection *d);

/* Sets bearing_sigma_deg of a detection that has its bearing and its sigma; NaN without either.
 * Near the axis of a cone the error is that of the cosine, converted to degrees. */
void sonar_detect_bearing_sigma(const sonar_scan *scan, const sonar_accuracy *accuracy,
                                const sonar_array_error *declared, bool heading_known,
                                sonar_detection *d);

#endif
