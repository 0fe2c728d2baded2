/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The response of an array to a source, focused at other places, from the sensors in use and their
 * weights: the share |sum_k w_k exp(-2 pi i f (tau_k(at) - tau_k(of)))|^2 of the source's power,
 * with sum w = 1. It covers tapers, gaps, masks and any positions, and sources and foci both near
 * and far.
 *
 * The sum is that of a spectrum of delays: one pass over the sensors gives it at all frequencies of
 * a band. For far places of a straight line all differences of delays are proportional, so one
 * spectrum of the largest difference serves all.
 *
 * Errors of the elements add a share everywhere; 10 % of an amplitude are assumed. If there are
 * more than SONAR_PATTERN_SENSORS sensors, they are divided into that many groups and one random
 * sensor of each group is used. This adds about 1/SONAR_PATTERN_SENSORS.
 */
#ifndef SONAR_PATTERN_H
#define SONAR_PATTERN_H

#include "manifold/manifold.h"

/* Parts of the band, of equal ratio, from its low end. */
enum { SONAR_PATTERN_PARTS = 16, SONAR_PATTERN_SENSORS = 2048 };
/* Uncertainty of a peak's place, in side lobes: directions of the grid are at most 0.3 beams
 * apart. */
#define SONAR_PATTERN_BLUR 0.15

typedef struct sonar_point {
    double az_deg, range_m; /* az_deg in the scan's convention; range_m INFINITY: far field */
} sonar_point;

typedef struct sonar_pattern sonar_pattern;

typedef struct sonar_pattern_spec {
    size_t sensors;
    const double *position_m; /* [sensor][3] */
    const float *weight;      /* [sensor]; 0: not in use */
    const sonar_scan *scan;   /* borrowed until destroy */
    sonar_range_reference reference;
    double c_mps, low_hz, high_hz;
    const sonar_host *host; /* borrowed; its workers compute one pair's spectrum together; NULL: the
                               caller computes it */
} sonar_pattern_spec;

/* Copies the arrays of the spec. Without a sensor in use all shares are 1. Errors: SONAR_ENOMEM. */
sonar_code sonar_pattern_create(const sonar_pattern_spec *spec, sonar_pattern **pattern,
                                sonar_error *err);
void sonar_pattern_destroy(sonar_pattern *pattern);
/* Moves the sensors to other positions. weight: as at create. Not for a cone. Allocates nothing.
 * Only on the thread that asks for shares. */
void sonar_pattern_move(sonar_pattern *pattern, const double *position_m, const float *weight);

/* The largest share in each part of the band, also over places up to `blur` side lobes beside `of`
 * and `at`. Uses scratch memory of the pattern: one thread at a time. Never allocates. */
void sonar_pattern_shares(void *pattern, sonar_point of, sonar_point at, double blur,
                          double share[SONAR_PATTERN_PARTS]);

#endif
