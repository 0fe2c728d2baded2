/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What an array shows of a source at other places, from the sensors that are in use and their
 * weights: the share |sum_k w_k exp(-2 pi i f (tau_k(at) - tau_k(of)))|^2 of its power, sum w = 1.
 * It covers tapers, gaps, masks and any positions, and sources and foci both near and far.
 *
 * The sum is that of a spectrum of delays: one pass over the sensors gives it at all frequencies of
 * a band. For far places of a straight line all differences of delays are proportional, so the
 * spectrum of the largest one, made once, serves all.
 *
 * Errors of the elements add a share everywhere; 10 % of an amplitude are assumed. If there are
 * more than SONAR_PATTERN_SENSORS sensors, they are divided into that many groups and one sensor of
 * each group, drawn once, is used. This adds about 1/SONAR_PATTERN_SENSORS.
 */
#ifndef SONAR_PATTERN_H
#define SONAR_PATTERN_H

#include "manifold/manifold.h"

/* Parts of the band, of equal ratio, from its low end. */
enum { SONAR_PATTERN_PARTS = 16, SONAR_PATTERN_SENSORS = 2048 };

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

/* Copies what it needs. Without a sensor in use all shares are 1. Errors: SONAR_ENOMEM. */
sonar_code sonar_pattern_create(const sonar_pattern_spec *spec, sonar_pattern **pattern,
                                sonar_error *err);
void sonar_pattern_destroy(sonar_pattern *pattern);
/* The pattern of the same sensors, with the weights that it was made of, at other positions. Not of
 * a cone. Allocates nothing. The thread that asks for shares. */
void sonar_pattern_move(sonar_pattern *pattern, const double *position_m, const float *weight);

/* The largest share in each part of the band, including places up to `blur` side lobes beside
 * these. Uses scratch memory of the pattern: one thread at a time. Never allocates. */
void sonar_pattern_shares(void *pattern, sonar_point of, sonar_point at, double blur,
                          double share[SONAR_PATTERN_PARTS]);

#endif
