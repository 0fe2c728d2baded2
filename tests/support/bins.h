/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The conventional beamformer's input for a configured array: the bins of one window with steady
 * broadband sources, near and far, and the array's errors; and its detections. The window has the
 * configured length, so in a short window each sensor gets another part of a source's noise. */
#ifndef SONAR_TEST_BINS_H
#define SONAR_TEST_BINS_H

#include "config/config.h"
#include "status/result.h"
#include "detect/detect.h"

typedef struct bins_source {
    double az_deg, range_m; /* in the plane of the array's frame; range 0: far away */
    double level_db; /* in the band, over the noise of a sensor there; of a tone, in its bin */
    double tone_hz;  /* 0: noise in all of the band */
} bins_source;

typedef struct bins {
    sonar_config *config;
    sonar_params *params;
    void *cbf;
    double *gain_db, *phase_deg; /* [sensor] errors; 0 to begin with */
    sonar_c32 *x;                /* [bin][sensor] of the CBF's band */
    float *far_power, *near_power, *scratch;
    uint64_t *turns; /* [SONAR_DETECT_POINTS][sensor] */
    sonar_pattern *pattern;
    sonar_detect_spec spec;
    sonar_split *split;
    sonar_nearfield near;
    uint64_t random;
} bins;

bins bins_open(const char *text);
void bins_close(bins *bins);
/* Draws the errors of the elements, standard deviations. */
void bins_set_errors(bins *bins, double gain_db, double phase_deg, uint64_t seed);
/* Draws a window of these sources and noise, and forms beams. */
void bins_window(bins *bins, const bins_source *source, size_t sources);
/* Detections of that window. */
size_t bins_detect(bins *bins, sonar_detection *detection);
/* Power of that window at one place, range INFINITY: far. */
double bins_power(bins *bins, double az_deg, double range_m);

#endif
