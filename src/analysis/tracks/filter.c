/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "analysis/tracks/filter.h"

#include <math.h>

#include "core/core.h"

/* Process noise for sources that turn, and for bearings that refraction changes: 0.06 deg a minute
 * in ten minutes. */
static const double wander = 5e-13; /* rad^2/s^3 */
static const double passing = 0.02; /* the part of w^3 that counts as process noise */
/* A misfit above `large` doubles the agility at every measurement, up to the value for a ship at 1
 * km and 10 m/s that turns within a minute. */
static const double judged = 0.2, large = 2, least_agility = 1e-11, most_agility = 1e-7;

static double modulo(double rad) {
    rad = fmod(rad, 2 * M_PI);
    return rad < 0 ? rad + 2 * M_PI : rad;
}

void sonar_bearing_predict(sonar_bearing *b, double dt) {
    const double w = fabs(b->rate_radps), q = wander + passing * w * w * w + b->agility;
    b->at_rad = modulo(b->at_rad + b->rate_radps * dt);
    b->var_at += 2 * dt * b->var_both + dt * dt * b->var_rate + q * dt * dt * dt / 3;
    b->var_both += dt * b->var_rate + q * dt * dt / 2;
    b->var_rate += q * dt;
}

sonar_bearing_guess sonar_bearing_expect(const sonar_bearing *b, const sonar_bearing_look *look) {
    const double lag = look->lag_s;
    const double v = b->var_at - 2 * lag * b->var_both + lag * lag * b->var_rate;
    const double with_at = b->var_at - lag * b->var_both,
                 with_rate = b->var_both - lag * b->var_rate;
    const double beside = b->at_rad - lag * b->rate_radps - look->axis_rad;
    if (!look->cone)
        return (sonar_bearing_guess){modulo(beside), v, with_at, with_rate};
    const double d = look->cos_depression, shrink = exp(-v / 2), mean = cos(beside) * shrink;
    const double square = (1 + cos(2 * beside) * exp(-2 * v)) / 2; /* mean of the squared cosine */
    const double slope = -d * sin(beside) * shrink;
    return (sonar_bearing_guess){d * mean, fmax(d * d * (square - mean * mean), 0), slope * with_at,
                                 slope * with_rate};
}

double sonar_bearing_off(const sonar_bearing_look *look, const sonar_bearing_guess *guess,
                         double place) {
    return look->cone ? place - guess->place : remainder(place - guess->place, 2 * M_PI);
}

void sonar_bearing_update(sonar_bearing *b, const sonar_bearing_look *look,
                          const sonar_bearing_guess *guess, const sonar_bearing_plot *plot) {
    const double s = guess->variance + plot->variance;
    const double off = sonar_bearing_off(look, guess, plot->place);
    const double at = guess->with_at / s, rate = guess->with_rate / s;
    b->at_rad = modulo(b->at_rad + at * off);
    b->rate_radps += rate * off;
    b->var_at -= at * guess->with_at;
    b->var_both -= at * guess->with_rate;
    b->var_rate -= rate * guess->with_rate;
}

sonar_bearing sonar_bearing_mix(int count, const sonar_bearing *of, const double *weight) {
    double sum = 0, at = 0, rate = 0;
    sonar_bearing mixed = of[0];
    for (int i = 0; i < count; i++) {
        sum += weight[i];
        at += weight[i] * remainder(of[i].at_rad - of[0].at_rad, 2 * M_PI);
        rate += weight[i] * of[i].rate_radps;
    }
    at /= sum;
    mixed.rate_radps = rate /= sum;
    mixed.at_rad = modulo(of[0].at_rad + at);
    mixed.var_at = mixed.var_both = mixed.var_rate = 0;
    for (int i = 0; i < count; i++) {
        const double share = weight[i] / sum, a = remainder(of[i].at_rad - mixed.at_rad, 2 * M_PI),
                     r = of[i].rate_radps - rate;
        mixed.var_at += share * (of[i].var_at + a * a);
        mixed.var_both += share * (of[i].var_both + a * r);
        mixed.var_rate += share * (of[i].var_rate + r * r);
    }
    return mixed;
}

void sonar_bearing_judge(sonar_bearing *b, double squared, double share) {
    b->misfit += judged * share * (squared - b->misfit);
    if (b->misfit > large)
        b->agility = fmin(fmax(b->agility * (1 + share), least_agility), most_agility);
    else
        b->agility = b->agility > least_agility ? b->agility * (1 - share / 4) : 0;
}
