/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The samples of a configured array: sources made of tones, and noise. The samples carry
 * the configuration's sensitivities, phases and delays, which the daemon's corrections compensate.
 */
#ifndef SONAR_TEST_SEA_H
#define SONAR_TEST_SEA_H

#include "config/config.h"

#include <complex.h>

typedef struct sea_source {
    double az_deg, range_m; /* in the plane of the array's frame; range 0: far away */
    double rms;             /* uPa */
    double low_hz, high_hz; /* the tones are spread over this band, both ends included */
    int tones;
} sea_source;

typedef struct sea {
    const sonar_config *config; /* borrowed, as the parameters are */
    const sonar_params *params;
    size_t tones;
    double *hz;
    double complex *at; /* [tone][sensor] amplitude and phase at time 0 */
    double noise;       /* rms of each sensor's own; masked ones are a hundred times as loud */
    uint64_t random;
} sea;

sea sea_open(const sonar_config *config, const sonar_params *params, const sea_source *source,
             size_t sources, double noise);
void sea_close(sea *sea);
/* Samples [first, first + samples) of all channels into to[sample][channel]. The noise continues
 * from call to call. */
void sea_fill(sea *sea, uint64_t first, size_t samples, float *to);

#endif
