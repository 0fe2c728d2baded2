/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A bearing and its rate with their covariance, by a Kalman filter. A line measures the cosine of
 * the angle from its axis, u = cos d cos(b - axis), where its errors are symmetric and equally
 * large everywhere. The moments of u for a Gaussian bearing are exact: E cos x = cos m exp(-V/2),
 * and Cov(x, cos x) = -V sin m exp(-V/2) by Stein's lemma. So the filter works through the axis,
 * where a linearised filter fails. Other arrays measure the bearing itself. Pure functions.
 */
#ifndef SONAR_TRACKS_FILTER_H
#define SONAR_TRACKS_FILTER_H

#include <stdbool.h>

typedef struct sonar_bearing {
    double at_rad, rate_radps; /* at_rad: 0 to 2 pi */
    double var_at, var_both, var_rate;
    double misfit;  /* recent mean of squared innovations divided by their variance; 1 if the model
                       is right */
    double agility; /* process noise added because of a misfit, rad^2/s^3 */
} sonar_bearing;

/* The geometry of an array's measurement at a moment. */
typedef struct sonar_bearing_look {
    bool cone;
    double axis_rad; /* bearing of the axis of a cone, else of azimuth 0 */
    double cos_depression;
    double lag_s; /* time of the measurement before the filter's time */
} sonar_bearing_look;

/* The measurement that a filter expects: its mean, its variance without that of the measurement,
 * and its covariance with bearing and rate. */
typedef struct sonar_bearing_guess {
    double place, variance, with_at, with_rate;
} sonar_bearing_guess;

/* One measurement: the place is a cosine, or an angle in radians from azimuth 0. */
typedef struct sonar_bearing_plot {
    double place, variance;
} sonar_bearing_plot;

/* Predicts the filter dt_s >= 0 ahead. A source on a straight course at constant speed has a rate w
 * that changes by 2 |tan a| w^2 a second, where a is its angle from the closest point of approach.
 * The process noise is |w|^3/50, plus a small constant for sources that turn. */
void sonar_bearing_predict(sonar_bearing *b, double dt_s);
sonar_bearing_guess sonar_bearing_expect(const sonar_bearing *b, const sonar_bearing_look *look);
/* Measured minus expected place; for angles -pi to pi. */
double sonar_bearing_off(const sonar_bearing_look *look, const sonar_bearing_guess *guess,
                         double place);
/* Updates the filter by one measurement. misfit and agility stay. */
void sonar_bearing_update(sonar_bearing *b, const sonar_bearing_look *look,
                          const sonar_bearing_guess *guess, const sonar_bearing_plot *plot);
/* The mean and covariance of `count` filters of the given weights, whose sum is positive. */
sonar_bearing sonar_bearing_mix(int count, const sonar_bearing *of, const double *weight);
/* Updates misfit and agility by a squared innovation divided by its variance; share: the part of a
 * measurement that it counts as. */
void sonar_bearing_judge(sonar_bearing *b, double squared, double share);

#endif
