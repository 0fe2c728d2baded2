/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The weights of plots, tracks and pairs for associate.h. */
#include <math.h>

#include "analysis/tracks/state.h"

static const double gate = 25; /* limit of the squared innovation divided by its variance */
/* Two contacts nearer than this are one plot; standard deviation of this limit. */
static const double merged_beams = 1.3, merged_sigma = 0.1;
static const double covered_beams =
    1.8; /* nearer than this to a stronger contact, a contact may have no plot */

static double normal_density(double off, double variance) {
    return exp(-off * off / (2 * variance)) / sqrt(2 * M_PI * variance);
}

static double normal_below(double deviations) {
    return erfc(-deviations / M_SQRT2) / 2;
}

/* The probability that two contacts are nearer than `reach`. */
static double nearer(double reach, double apart, double sigma) {
    return normal_below((reach - apart) / sigma) - normal_below((-reach - apart) / sigma);
}

/* The weight of a plot: its density under the track divided by that of false plots. */
static double ratio(const struct plot *plot, double density) {
    return SONAR_TRACKS_DETECTED * density / plot->density;
}

static void weigh(sonar_tracks *s, size_t t) {
    struct follow *f = &s->track[t];
    sonar_association *a = &s->association;
    a->missed[t] = 1 - f->heard * SONAR_TRACKS_DETECTED;
    for (size_t j = 0; j < s->plots; j++) {
        const struct plot *plot = &s->plot[j];
        const int source = plot->row->source;
        bool inside = false;
        for (size_t i = 0; i < f->sides; i++) {
            const sonar_bearing_guess *g = &s->guess[t][i][source];
            const double v = g->variance + plot->is.variance;
            const double off = sonar_bearing_off(&s->look[source], g, plot->is.place);
            inside = inside || off * off < gate * v;
            s->likelihood[t][i][j] = normal_density(off, v);
        }
        const double density = sonar_tracks_density(s, t, j);
        inside = inside && (f->confirmed || !plot->image);
        a->weight[t][j] = inside && density > 0 ? f->heard * ratio(plot, density) *
                                                      sonar_tracks_tones_ratio(s, f, NULL, j)
                                                : 0;
    }
}

/* The degree, 0 to 1, to which a plot counts as displaced, if another contact may have moved it by
 * `beams`. */
static double draws(double beams) {
    const double x = beams / SONAR_TRACKS_MOVED_BEAMS;
    return x * x / (1 + x * x);
}

/* Sets the pair. False: the CBF resolves the two tracks. */
static bool make_pair(sonar_tracks *s, size_t ta, size_t tb, sonar_track_pair *pair) {
    struct follow *a = &s->track[ta], *b = &s->track[tb];
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    const double beam = s->beam[SONAR_FROM_CBF];
    const sonar_bearing_guess *ga =
                                  &s->guess[ta][sonar_tracks_likelier(a) - a->side][SONAR_FROM_CBF],
                              *gb =
                                  &s->guess[tb][sonar_tracks_likelier(b) - b->side][SONAR_FROM_CBF];
    const double apart = sonar_bearing_off(l, ga, gb->place);
    const double sigma = sqrt(ga->variance + gb->variance + pow(merged_sigma * beam, 2));
    *pair = (sonar_track_pair){.a = ta, .b = tb};
    pair->together = 0.98 * nearer(merged_beams * beam, apart, sigma);
    pair->covers = nearer(covered_beams * beam, apart, sigma);
    if (pair->together < 0.02)
        return false;
    const double share = b->power / (a->power + b->power);
    pair->bias[0] = pair->together * sonar_tracks_existence(b) * draws(share * apart / beam);
    pair->bias[1] = pair->together * sonar_tracks_existence(a) * draws((1 - share) * apart / beam);
    for (size_t j = 0; j < s->plots; j++) {
        const struct plot *plot = &s->plot[j];
        if (plot->row->source != SONAR_FROM_CBF)
            continue;
        const double off = sonar_bearing_off(l, ga, plot->is.place) - share * apart;
        const double v = (1 - share) * (1 - share) * ga->variance + share * share * gb->variance +
                         plot->is.variance + 0.02 * apart * apart;
        if (off * off < gate * v)
            pair->weight[j] = a->heard * b->heard * pair->together *
                              ratio(plot, normal_density(off, v)) *
                              sonar_tracks_tones_ratio(s, a, b, j);
    }
    return true;
}

void sonar_tracks_weigh(sonar_tracks *s, bool cbf) {
    sonar_association *a = &s->association;
    a->tracks = s->count;
    a->plots = s->plots;
    a->pairs = 0;
    for (size_t j = 0; j < s->plots; j++)
        a->sharp[j] = s->plot[j].row->source == SONAR_FROM_MVDR;
    for (size_t t = 0; t < s->count; t++) {
        for (size_t i = 0; i < s->track[t].sides; i++)
            for (int k = 0; k < SONAR_TRACKS_SOURCES; k++)
                s->guess[t][i][k] = sonar_bearing_expect(&s->track[t].side[i].is, &s->look[k]);
        weigh(s, t);
    }
    for (size_t t = 0; t < s->count && cbf; t++)
        for (size_t u = t + 1; u < s->count && a->pairs < SONAR_TRACK_PAIRS_MOST; u++)
            if (s->track[t].confirmed && s->track[u].confirmed)
                a->pairs += make_pair(s, t, u, &a->pair[a->pairs]);
}
