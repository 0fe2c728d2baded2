/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "jpda.h"

#include <math.h>
#include <string.h>

#include "core/core.h"

static const double radians = M_PI / 180, detected = 0.9, noise = 5e-13, gate = 25;

static double place_of(const simulated_plots *s, double bearing_deg) {
    const double beside = (bearing_deg - s->heading_deg) * radians;
    return s->scan.cone ? cos(beside) : beside;
}

double jpda_bearing_deg(const jpda *j, const simulated_plots *s, int track) {
    const double x = j->x[track][0];
    return s->heading_deg + (s->scan.cone ? acos(fmin(fmax(x, -1), 1)) : x) / radians;
}

static double beam_of(const simulated_plots *s) {
    return s->scan.beam_width_deg * radians;
}

static double variance_of(const simulated_plots *s) {
    return pow(s->sigma_beams * beam_of(s), 2);
}

static void predict(jpda *j, double dt) {
    for (int t = 0; t < 2; t++) {
        double(*p)[2] = j->p[t];
        j->x[t][0] += dt * j->x[t][1];
        p[0][0] += dt * (p[0][1] + p[1][0]) + dt * dt * p[1][1] + noise * dt * dt * dt / 3;
        p[0][1] = p[1][0] = p[0][1] + dt * p[1][1] + noise * dt * dt / 2;
        p[1][1] += noise * dt;
    }
}

static double off(const jpda *j, const simulated_plots *s, int t, size_t plot) {
    const sonar_detection *d = &s->detection[plot];
    const double x = j->x[t][0];
    return s->scan.cone ? cos(d->az_deg * radians) - x
                        : remainder(d->az_deg * radians - x, 2 * M_PI);
}

/* beta[t][plot + 1]; beta[t][0]: none. */
static void weigh(const jpda *j, const simulated_plots *s,
                  double beta[2][SONAR_DETECTIONS_MOST + 1]) {
    const double extent = s->scan.cone ? 2 : 2 * M_PI, density = s->false_plots / extent;
    double weight[2][SONAR_DETECTIONS_MOST + 1] = {{0}}, sum = 0;
    const size_t n = s->detections;
    for (int t = 0; t < 2; t++) {
        const double v = j->p[t][0][0] + variance_of(s);
        weight[t][0] = 1 - detected;
        for (size_t i = 0; i < n; i++) {
            const double e = off(j, s, t, i);
            if (e * e < gate * v)
                weight[t][i + 1] = detected * exp(-e * e / (2 * v)) / sqrt(2 * M_PI * v) / density;
        }
    }
    memset(beta, 0, 2 * sizeof *beta);
    for (size_t a = 0; a <= n; a++)
        for (size_t b = 0; b <= n; b++) {
            if (a && a == b)
                continue;
            const double w = weight[0][a] * weight[1][b];
            beta[0][a] += w;
            beta[1][b] += w;
            sum += w;
        }
    for (int t = 0; t < 2; t++)
        for (size_t a = 0; a <= n; a++)
            beta[t][a] /= sum;
}

static void update(jpda *j, const simulated_plots *s, int t, const double *beta) {
    double(*p)[2] = j->p[t], mean = 0, square = 0;
    const double v = p[0][0] + variance_of(s), gain[2] = {p[0][0] / v, p[1][0] / v};
    for (size_t i = 0; i < s->detections; i++) {
        const double e = off(j, s, t, i);
        mean += beta[i + 1] * e;
        square += beta[i + 1] * e * e;
    }
    for (int m = 0; m < 2; m++)
        j->x[t][m] += gain[m] * mean;
    for (int m = 0; m < 2; m++)
        for (int n = 0; n < 2; n++)
            p[m][n] += gain[m] * gain[n] * (square - mean * mean - (1 - beta[0]) * v);
}

void jpda_run(jpda *j, simulated_plots *s) {
    double beta[2][SONAR_DETECTIONS_MOST + 1];
    if (!j->begun) {
        for (int t = 0; t < 2; t++) {
            j->x[t][0] = place_of(s, s->source[t].bearing_deg);
            j->x[t][1] = 0;
            j->p[t][0][0] = variance_of(s);
            j->p[t][0][1] = j->p[t][1][0] = 0;
            j->p[t][1][1] = 1e-6;
        }
        j->begun = true;
        return;
    }
    predict(j, s->step_s);
    weigh(j, s, beta);
    for (int t = 0; t < 2; t++)
        update(j, s, t, beta[t]);
}

/* ---- scores ---------------------------------------------------------------------------------- */

static double apart(const simulated_plots *s, double a_deg, double b_deg) {
    const double a = place_of(s, a_deg), b = place_of(s, b_deg);
    return (s->scan.cone ? fabs(a - b) : fabs(remainder(a - b, 2 * M_PI))) / beam_of(s);
}

/* The least sum over assignments of two sources to bearings or to none. */
static double gospa(const simulated_plots *s, size_t count, const double *bearing_deg) {
    const double cut = 2;
    double least = INFINITY;
    for (size_t a = 0; a <= count; a++)
        for (size_t b = 0; b <= count; b++) {
            if (a < count && a == b)
                continue;
            double sum = cut / 2 * (2 + (double)count);
            sum +=
                a < count ? fmin(apart(s, s->source[0].bearing_deg, bearing_deg[a]), cut) - cut : 0;
            sum +=
                b < count ? fmin(apart(s, s->source[1].bearing_deg, bearing_deg[b]), cut) - cut : 0;
            least = fmin(least, sum);
        }
    return least;
}

void jpda_score_add(jpda_score *score, const simulated_plots *s, size_t count,
                    const double *bearing_deg, const double named_deg[2], int owner[2]) {
    score->gospa += gospa(s, count, bearing_deg);
    score->windows++;
    if (apart(s, s->source[0].bearing_deg, s->source[1].bearing_deg) < 2)
        return;
    for (int t = 0; t < 2; t++)
        for (int k = 0; k < 2; k++) {
            if (!(apart(s, s->source[k].bearing_deg, named_deg[t]) < 1))
                continue;
            score->switches += owner[t] >= 0 && owner[t] != k;
            owner[t] = k;
        }
}

double jpda_mean(const jpda_score *score) {
    return score->gospa / score->windows;
}
