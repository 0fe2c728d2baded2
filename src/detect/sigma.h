/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The standard deviation of a peak's place: what noise makes of it, from the shape of the peak, its
 * height over the noise, the aperture and the number of averages; and what the declared errors of
 * the array add. docs/bearings.md has the formulas, their sources and their limits.
 */
#ifndef SONAR_SIGMA_H
#define SONAR_SIGMA_H

#include "detect/pattern.h"
#include "manifold/manifold.h"
#include "status/result.h"

/* Second moments [3][3] of the positions of the sensors in use about their weighted mean, m^2:
 * weighted as a beam is, and as its noise is, by squares of the weights. The same for equal
 * weights. */
typedef struct sonar_aperture {
    double beam_m2[9], noise_m2[9];
    double share; /* of a sensor's own noise in the beam's power: sum w^2 / (sum w)^2 */
} sonar_aperture;

/* All zeros where no sensor is in use. */
void sonar_aperture_of(size_t sensors, const double *position_m, const float *weight,
                       sonar_aperture *aperture);

/* Independent averages of a mean over transforms that overlap and bins that share a taper. */
typedef struct sonar_averages {
    double noise; /* of broadband sound, a bin's share of those of the whole band */
    double tone;  /* of a tone, whose power is in a bin and those beside it */
    double width; /* of the taper's transform: rms, bins */
} sonar_averages;

/* Of `snapshots` transforms, each `hop` lengths after the one before, summed over `bins`. The taper
 * is given at `points` equal steps of its length. */
sonar_averages sonar_averages_of(const double *taper, size_t points, double hop, double snapshots,
                                 size_t bins);

/* Share of the averages that MVDR's weights cost, which follow the noise of their own snapshots.
 * level: share of a source's power that it shows. */
double sonar_averages_lost(double snapshots, double sensors, double level);

/* Share of a source's power that the CBF's side lobes bring into its own background: the median
 * over the cells of sonar_detect_background, mean over the band. Uses the pattern's scratch. */
double sonar_own_share(sonar_pattern *pattern, const sonar_scan *scan);

/* Noise of a beam with equal weights that MVDR's power away from sources tells of; loading: what it
 * adds to that power, level: as above, taken out of it or not. */
double sonar_beam_noise(double power, double loading, double level, bool level_corrected);

/* What one beamformer's peaks are judged by. */
typedef struct sonar_accuracy {
    const sonar_aperture *aperture; /* borrowed */
    size_t bins;
    double low_hz, high_hz, bin_hz, c_mps; /* of the first and last bin; from bin to bin */
    sonar_averages averages;
    double own_share; /* CBF: of a source's power in its own background, by side lobes */
    double noise;     /* CBF: in a beam, where MVDR tells of it, unit^2; 0: not known */
    /* MVDR: what the loading adds to a bin, unit^2; share of a source's power that it shows, taken
     * out of the published power or not. */
    double loading, level;
    bool level_corrected;
    double lost; /* MVDR: share of the averages that weights cost which follow their noise */
} sonar_accuracy;

/* bearing_sigma_deg of a detection that has its bearing and its sigma; NaN without either. Near the
 * axis of a cone the error is that of its cosine, seen in degrees. */
void sonar_detect_bearing_sigma(const sonar_scan *scan, const sonar_accuracy *accuracy,
                                const sonar_array_error *declared, bool heading_known,
                                sonar_detection *d);

#endif
