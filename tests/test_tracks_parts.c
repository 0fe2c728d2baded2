/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What tracks are made of: association against all events in plain double, the filter against a
 * Kalman filter in matrices and against integrals. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/tracks/associate.h"
#include "analysis/tracks/filter.h"
#include "core/random.h"

/* ---- all events ------------------------------------------------------------------------------ */

enum { FEW = 5, OPTIONS = 1 + FEW + FEW * FEW, EVENTS = 20000 };

typedef struct outcome {
    double own[FEW][FEW], sure[FEW][FEW], both[FEW], none[FEW];
} outcome;

typedef struct joint {
    int has[FEW]; /* -1: none; j: plot; FEW (1 + p) + j: plot j by pair p */
    double weight;
} joint;

static int plot_of(int has) {
    return has % FEW;
}

/* False: not one plot for each, or a pair that is not of both. */
static bool is_joint(const sonar_association *a, const joint *e) {
    for (size_t t = 0; t < a->tracks; t++) {
        const int h = e->has[t];
        if (h < 0)
            continue;
        if (plot_of(h) >= (int)a->plots)
            return false;
        if (h >= FEW) {
            const sonar_track_pair *p = &a->pair[h / FEW - 1];
            if ((t != p->a && t != p->b) || e->has[p->a] != h || e->has[p->b] != h ||
                !(p->weight[plot_of(h)] > 0))
                return false;
        } else if (!(a->weight[t][h] > 0)) {
            return false;
        }
        for (size_t u = 0; u < t; u++)
            if (e->has[u] >= 0 && plot_of(e->has[u]) == plot_of(h) && (h < FEW || e->has[u] != h))
                return false;
    }
    return true;
}

static double weight_of(const sonar_association *a, const joint *e) {
    double w = 1;
    for (size_t t = 0; t < a->tracks; t++)
        w *= e->has[t] < 0 ? a->missed[t] : e->has[t] < FEW ? a->weight[t][e->has[t]] : 1;
    for (size_t p = 0; p < a->pairs; p++) {
        const int x = e->has[a->pair[p].a], y = e->has[a->pair[p].b];
        if (x >= FEW && x / FEW - 1 == (int)p)
            w *= a->pair[p].weight[plot_of(x)];
        if ((x >= 0 && x < FEW && !a->sharp[x]) || (y >= 0 && y < FEW && !a->sharp[y]))
            w *= 1 - a->pair[p].together;
    }
    return w;
}

/* The same tracks have plots of their own, the same plots are used, the same pairs have one. */
static bool exchanged(const sonar_association *a, const joint *x, const joint *y) {
    unsigned plots[2] = {0};
    for (size_t t = 0; t < a->tracks; t++) {
        const int h = x->has[t], g = y->has[t];
        if ((h < 0) != (g < 0) || (h >= FEW ? h / FEW : 0) != (g >= FEW ? g / FEW : 0))
            return false;
        if (h >= 0) {
            plots[0] |= 1u << plot_of(h);
            plots[1] |= 1u << plot_of(g);
        }
    }
    return plots[0] == plots[1];
}

static void all_events(const sonar_association *a, outcome *o) {
    static joint events[EVENTS];
    size_t count = 0;
    double sum = 0;
    int option[FEW] = {0};
    const int options = 1 + FEW * (1 + (int)a->pairs);
    memset(o, 0, sizeof *o);
    for (bool more = true; more;) {
        joint e = {.weight = 0};
        for (size_t t = 0; t < a->tracks; t++)
            e.has[t] = option[t] - 1;
        if (is_joint(a, &e)) {
            cr_assert_lt(count, EVENTS);
            e.weight = weight_of(a, &e);
            events[count++] = e;
        }
        size_t t = 0;
        while (t < a->tracks && ++option[t] == options)
            option[t++] = 0;
        more = t < a->tracks;
    }
    for (size_t i = 0; i < count; i++) {
        bool best = true;
        for (size_t k = 0; k < count && !a->exchange; k++)
            best = best &&
                   !(events[k].weight > events[i].weight && exchanged(a, &events[i], &events[k]));
        if (!best)
            continue;
        sum += events[i].weight;
        for (size_t t = 0; t < a->tracks; t++) {
            const int h = events[i].has[t];
            double alone = 1;
            for (size_t p = 0; p < a->pairs; p++) {
                const sonar_track_pair *pair = &a->pair[p];
                if (pair->a == t && events[i].has[pair->b] < 0)
                    alone *= 1 - pair->bias[0];
                if (pair->b == t && events[i].has[pair->a] < 0)
                    alone *= 1 - pair->bias[1];
            }
            if (h < 0)
                o->none[t] += events[i].weight;
            else if (h >= FEW)
                o->both[t] += events[i].weight;
            else
                o->own[t][h] += events[i].weight, o->sure[t][h] += events[i].weight * alone;
        }
    }
    for (size_t t = 0; t < FEW; t++) {
        o->none[t] /= sum;
        o->both[t] /= sum;
        for (size_t j = 0; j < FEW; j++)
            o->own[t][j] /= sum, o->sure[t][j] /= sum;
    }
}

/* A random scene: clusters of any kind come up by the gates. */
static void draw(uint64_t *seed, sonar_association *a) {
    *a = (sonar_association){.tracks = 1 + sonar_random_bits(seed) % FEW,
                             .plots = sonar_random_bits(seed) % (FEW + 1),
                             .exchange = sonar_random_bits(seed) % 2};
    if (a->tracks > 4)
        a->plots = a->plots < 3 ? a->plots : 3; /* no event is left out */
    for (size_t t = 0; t < a->tracks; t++) {
        a->missed[t] = 0.05 + 0.95 * sonar_random_uniform(seed);
        for (size_t j = 0; j < a->plots; j++)
            if (sonar_random_uniform(seed) < 0.6)
                a->weight[t][j] = exp(3 * sonar_random_normal(seed));
    }
    for (size_t j = 0; j < a->plots; j++)
        a->sharp[j] = sonar_random_bits(seed) % 3 == 0;
    for (size_t p = 0; p < 2 && a->tracks > 1; p++) {
        sonar_track_pair *pair = &a->pair[a->pairs];
        *pair = (sonar_track_pair){.a = p, .b = p + 1, .together = sonar_random_uniform(seed)};
        if (pair->b >= a->tracks || sonar_random_bits(seed) % 2)
            continue;
        for (int i = 0; i < 2; i++)
            pair->bias[i] = sonar_random_uniform(seed);
        for (size_t j = 0; j < a->plots; j++)
            if (sonar_random_bits(seed) % 2)
                pair->weight[j] = exp(3 * sonar_random_normal(seed));
        a->pairs++;
    }
}

Test(tracks_parts, association_agrees_with_all_events) {
    static sonar_association a;
    sonar_associate *associate = sonar_associate_create();
    uint64_t seed = 1;
    outcome o;
    for (int trial = 0; trial < 600; trial++) {
        draw(&seed, &a);
        sonar_associate_run(associate, &a);
        all_events(&a, &o);
        for (size_t t = 0; t < a.tracks; t++) {
            cr_assert(fabs(a.none[t] - o.none[t]) < 1e-9, "%d: %.12g, not %.12g", trial, a.none[t],
                      o.none[t]);
            cr_assert(fabs(a.both[t] - o.both[t]) < 1e-9);
            for (size_t j = 0; j < a.plots; j++)
                cr_assert(fabs(a.own[t][j] - o.own[t][j]) < 1e-9 &&
                          fabs(a.sure[t][j] - o.sure[t][j]) < 1e-9);
        }
    }
    sonar_associate_destroy(associate);
}

/* The largest scene: every plot may be of every track. What is left out leaves probabilities. */
Test(tracks_parts, events_are_bounded) {
    static sonar_association a;
    sonar_associate *associate = sonar_associate_create();
    uint64_t seed = 2;
    a.tracks = SONAR_TRACKS_MOST;
    a.plots = SONAR_PLOTS_MOST;
    for (size_t t = 0; t < a.tracks; t++) {
        a.missed[t] = 0.2;
        for (size_t j = 0; j < a.plots; j++)
            a.weight[t][j] = j == 2 * t ? 1e6 : exp(sonar_random_normal(&seed));
    }
    for (size_t p = 0; p + 1 < a.tracks; p++, a.pairs++)
        a.pair[p] = (sonar_track_pair){.a = p, .b = p + 1, .together = 0.5, .weight = {[1] = 2}};
    sonar_associate_run(associate, &a);
    for (size_t t = 0; t < a.tracks; t++) {
        double sum = a.none[t] + a.both[t];
        for (size_t j = 0; j < a.plots; j++)
            sum += a.own[t][j];
        cr_assert(fabs(sum - 1) < 1e-9);
        cr_assert_gt(a.own[t][2 * t], 0.99);
    }
    sonar_associate_destroy(associate);
}

/* ---- the filter ------------------------------------------------------------------------------ */

/* Kalman's equations in matrices, with Joseph's form. */
typedef struct plain {
    double x[2], p[2][2];
} plain;

static void plain_update(plain *k, const double h[2], double measured, double variance) {
    double s = variance, gain[2], next[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            s += h[i] * k->p[i][j] * h[j];
    for (int i = 0; i < 2; i++)
        gain[i] = (k->p[i][0] * h[0] + k->p[i][1] * h[1]) / s;
    const double off = measured - h[0] * k->x[0] - h[1] * k->x[1];
    for (int i = 0; i < 2; i++)
        k->x[i] += gain[i] * off;
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) {
            next[i][j] = gain[i] * variance * gain[j];
            for (int m = 0; m < 2; m++)
                for (int n = 0; n < 2; n++)
                    next[i][j] +=
                        ((i == m) - gain[i] * h[m]) * k->p[m][n] * ((j == n) - gain[j] * h[n]);
        }
    memcpy(k->p, next, sizeof next);
}

Test(tracks_parts, filter_agrees_with_kalmans_equations) {
    uint64_t seed = 3;
    for (int trial = 0; trial < 50; trial++) {
        sonar_bearing b = {.at_rad = 3, .var_at = 0.01, .var_rate = 1e-5, .misfit = 1};
        plain k = {{3, 0}, {{0.01, 0}, {0, 1e-5}}};
        for (int i = 0; i < 60; i++) {
            const double dt = 3 * sonar_random_uniform(&seed), w = fabs(k.x[1]),
                         q = 5e-13 + 0.02 * w * w * w;
            const double p00 = k.p[0][0], p01 = k.p[0][1], p11 = k.p[1][1];
            sonar_bearing_predict(&b, dt);
            k.x[0] += dt * k.x[1];
            k.p[0][0] = p00 + 2 * dt * p01 + dt * dt * p11 + q * pow(dt, 3) / 3;
            k.p[0][1] = k.p[1][0] = p01 + dt * p11 + q * dt * dt / 2;
            k.p[1][1] = p11 + q * dt;
            const double lag = sonar_random_uniform(&seed), axis = 2, variance = 1e-4;
            const sonar_bearing_look look = {.axis_rad = axis, .cos_depression = 1, .lag_s = lag};
            const sonar_bearing_guess guess = sonar_bearing_expect(&b, &look);
            const double measured = 3 + 0.02 * sonar_random_normal(&seed);
            const sonar_bearing_plot plot = {measured - axis, variance};
            sonar_bearing_update(&b, &look, &guess, &plot);
            plain_update(&k, (double[2]){1, -lag}, measured, variance);
            cr_assert(fabs(b.at_rad - k.x[0]) < 1e-12 && fabs(b.rate_radps - k.x[1]) < 1e-12);
            cr_assert(fabs(b.var_at / k.p[0][0] - 1) < 1e-9);
            cr_assert(fabs(b.var_rate / k.p[1][1] - 1) < 1e-9);
            cr_assert(fabs(b.var_both - k.p[0][1]) < 1e-9 * sqrt(k.p[0][0] * k.p[1][1]));
        }
    }
}

/* Mean and variance of the cosine, and its covariance with the bearing, by the trapezoidal rule. */
Test(tracks_parts, moments_on_a_cone_are_the_integrals) {
    for (int i = 0; i < 200; i++) {
        const double at = 0.03 * i, v = pow(10, -4 + 0.02 * i), depression = 0.2;
        const sonar_bearing b = {.at_rad = at, .var_at = v, .var_both = 0.3 * v, .var_rate = 1};
        const sonar_bearing_look look = {
            .cone = true, .axis_rad = 1, .cos_depression = cos(depression)};
        const sonar_bearing_guess g = sonar_bearing_expect(&b, &look);
        double weight = 0, mean = 0, square = 0, with = 0;
        for (double z = -9; z <= 9; z += 1e-3) {
            const double w = exp(-z * z / 2), x = sqrt(v) * z,
                         u = cos(at + x - 1) * cos(depression);
            weight += w;
            mean += w * u;
            square += w * u * u;
            with += w * u * x;
        }
        mean /= weight;
        cr_assert(fabs(g.place - mean) < 1e-9);
        cr_assert(fabs(g.variance - (square / weight - mean * mean)) < 1e-9);
        cr_assert(fabs(g.with_at - with / weight) < 1e-9);
        cr_assert(fabs(g.with_rate - 0.3 * with / weight) < 1e-9);
    }
}

Test(tracks_parts, mixture_has_the_mean_and_the_spread) {
    const sonar_bearing of[] = {{.at_rad = 6.2, .rate_radps = 1, .var_at = 1, .var_rate = 2},
                                {.at_rad = 0.1, .rate_radps = 3, .var_at = 2, .var_rate = 4}};
    const double apart = 0.1 + 2 * M_PI - 6.2;
    const sonar_bearing m = sonar_bearing_mix(2, of, (double[]){1, 3});
    cr_assert(fabs(m.at_rad - (6.2 + 0.75 * apart - 2 * M_PI)) < 1e-12);
    cr_assert(fabs(m.rate_radps - 2.5) < 1e-12);
    cr_assert(fabs(m.var_at - (1.75 + 0.1875 * apart * apart)) < 1e-12);
    cr_assert(fabs(m.var_both - 0.1875 * 2 * apart) < 1e-12);
    cr_assert(fabs(m.var_rate - (3.5 + 0.1875 * 4)) < 1e-12);
}
