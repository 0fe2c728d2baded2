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

#include "core/result.h"
#include "manifold/manifold.h"

enum { SONAR_DETECT_POINTS = 16 };

typedef struct sonar_detect_spec {
    const sonar_scan *scan;    /* borrowed */
    double threshold_db;       /* over the background */
    double min_separation_deg; /* 0: half a beam width */
    size_t most;               /* <= SONAR_DETECTIONS_MOST */
    double heading_deg;
    bool heading_known;
} sonar_detect_spec;

/* Broadband power at n <= SONAR_DETECT_POINTS azimuths of the scan's own kind. */
typedef sonar_code (*sonar_power_at)(void *ctx, size_t n, const double *az_deg, float *power,
                                     sonar_error *err);

/* Median-based background of a spectrum: per direction the median over a split window around it
 * that leaves out the peak itself (sonar name: order-truncate). background has count entries;
 * scratch too. */
void sonar_detect_background(const sonar_scan *scan, const float *power, float *background,
                             float *scratch);

/* Finds peaks of power[scan->count], writes at most spec->most of them, strongest first, and their
 * number. power_at may be NULL: parabolic interpolation (in dB) of the grid then. */
sonar_code sonar_detect(const sonar_detect_spec *spec, sonar_detect_source source,
                        const float *power, float *scratch /* [3 * scan->count] */,
                        sonar_power_at power_at, void *ctx, sonar_detection *detections,
                        size_t *count, sonar_error *err);

/* For each detection: if the near-field surface [range][direction] is higher near its bearing than
 * the far field by more than margin_db, sets range_m (parabolic in 1/r between the ranges of
 * range_m, ascending) and range_unresolved where the ladder is coarser than 7 lambda/D^2 in 1/r. */
void sonar_detect_range(const sonar_detect_spec *spec, const float *nearfield, size_t ranges,
                        const double *range_m, const float *far_power, double aperture_m,
                        double lambda_m, double margin_db, sonar_detection *detections,
                        size_t count);

/* Bearing of a scan angle: array frame or true. Mirror is NaN unless the scan is a cone. */
void sonar_detect_bearing(const sonar_scan *scan, double az_deg, double heading_deg,
                          bool heading_known, double *bearing_deg, double *mirror_deg);

#endif
