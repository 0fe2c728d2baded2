/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Updates each track by a window's plots: its existence, its sides, its bearings. */
#include <math.h>

#include "analysis/tracks/state.h"

enum { PLOTS = SONAR_PLOTS_MOST, SIDES = SONAR_TRACKS_SIDES };

static const double decided = 1e-3; /* a side with a smaller probability is removed */
static const double level_memory = 0.1;

static double log_odds(double probability) {
    const double p = fmin(fmax(probability, 1e-12), 1 - 1e-12);
    return log(p / (1 - p));
}

/* The probability after evidence of which only a part is new. */
static double believe(double before, double after, double part) {
    const double odds = log_odds(before) + part * (log_odds(after) - log_odds(before));
    return 1 / (1 + exp(-odds));
}

/* The part of the information in the track's plots that is new. MVDR's windows have most samples in
 * common. */
static double fresh_part(const sonar_tracks *s, size_t t) {
    double part = 1;
    for (size_t j = 0; j < s->plots; j++)
        part -= s->association.own[t][j] * (1 - s->plot[j].fresh);
    return part;
}

/* Updates the existence. In the beam of a stronger track, the absence of a plot is no evidence that
 * this track has ended. */
static void update_existence(const sonar_tracks *s, size_t t, struct follow *f) {
    const sonar_association *a = &s->association;
    /* probability that it is in such a beam; probability of no evidence */
    double covered = 0, silent = 0;
    for (size_t p = 0; p < a->pairs; p++) {
        const sonar_track_pair *pair = &a->pair[p];
        const size_t other = pair->a == t ? pair->b : pair->a;
        if ((pair->a == t || pair->b == t) && s->track[other].power > f->power)
            covered = fmax(covered, pair->covers);
    }
    if (covered > 0)
        silent = a->both[t] + a->none[t] * covered;
    const double missed = a->none[t] * (1 - covered), before = sonar_tracks_existence(f);
    f->unheard *= missed / a->missed[t] + silent;
    f->heard = f->heard * ((1 - SONAR_TRACKS_DETECTED) * missed / a->missed[t] + silent) +
               fmax(1 - missed - silent, 0);
    const double after = sonar_tracks_existence(f), is = believe(before, after, fresh_part(s, t));
    f->heard *= is / after;
    f->unheard *= is / after;
}

/* The probability of a side after the window, not normalised. Updates the side's filter by the
 * plots, each weighted with its probability under this side. With the remaining probability the
 * filter is unchanged. */
static double update_side(sonar_tracks *s, size_t t, size_t i) {
    const sonar_association *a = &s->association;
    struct follow *f = &s->track[t];
    struct side *side = &f->side[i];
    sonar_bearing of[PLOTS + 1];
    double weight[PLOTS + 1], all = 1, rest = 1;
    int count = 1;
    for (size_t j = 0; j < s->plots; j++)
        all -= a->own[t][j];
    for (size_t j = 0; j < s->plots; j++)
        if (a->own[t][j] > 0)
            all += a->own[t][j] * s->likelihood[t][i][j] / sonar_tracks_density(s, t, j);
    of[0] = side->is;
    for (size_t j = 0; j < s->plots && all > 0; j++) {
        if (!(a->sure[t][j] > 1e-6))
            continue;
        const struct plot *plot = &s->plot[j];
        const int source = plot->row->source;
        const sonar_bearing_guess *g = &s->guess[t][i][source];
        const double share =
            a->sure[t][j] * s->likelihood[t][i][j] / sonar_tracks_density(s, t, j) / all;
        const double off = sonar_bearing_off(&s->look[source], g, plot->is.place);
        const sonar_bearing_plot fresh = {plot->is.place, plot->is.variance / plot->fresh};
        of[count] = of[0];
        sonar_bearing_update(&of[count], &s->look[source], g, &fresh);
        weight[count++] = share;
        rest -= share;
        sonar_bearing_judge(&side->is, off * off / (g->variance + plot->is.variance),
                            share * plot->fresh);
    }
    weight[0] = fmax(rest, 0);
    const sonar_bearing mixed = sonar_bearing_mix(count, of, weight);
    side->is = (sonar_bearing){mixed.at_rad,   mixed.rate_radps, mixed.var_at,    mixed.var_both,
                               mixed.var_rate, side->is.misfit,  side->is.agility};
    return all;
}

static void update_sides(sonar_tracks *s, size_t t) {
    struct follow *f = &s->track[t];
    double weight[SIDES], sum = 0;
    for (size_t i = 0; i < f->sides; i++)
        sum += weight[i] = f->side[i].weight * update_side(s, t, i);
    for (size_t i = 0; i < f->sides; i++)
        f->side[i].weight = weight[i] / sum;
    if (f->sides == 2 && fmin(f->side[0].weight, f->side[1].weight) < decided) {
        f->side[0] = *sonar_tracks_likelier(f);
        f->side[0].weight = 1;
        f->sides = 1;
    }
}

/* True if the plot may also contain another contact. */
static bool is_covered(const sonar_association *a, size_t t) {
    for (size_t p = 0; p < a->pairs; p++)
        if ((a->pair[p].a == t || a->pair[p].b == t) && a->pair[p].covers > 0.1)
            return true;
    return false;
}

static void note_plot(sonar_tracks *s, size_t t, double dt) {
    const sonar_association *a = &s->association;
    struct follow *f = &s->track[t];
    size_t best = s->plots;
    for (size_t j = 0; j < s->plots; j++)
        if (a->own[t][j] > (best < s->plots ? a->own[t][best] : 0.5))
            best = j;
    if (a->none[t] < 0.5)
        f->since_s = 0;
    if (best == s->plots)
        return;
    const sonar_detection *row = s->plot[best].row;
    f->contact = row->contact;
    f->rests_on = row->rests_on;
    f->snr_db = row->snr_db;
    f->power += level_memory * a->sure[t][best] * (row->power - f->power);
    f->declared_rad2 = s->plot[best].declared_rad2;
    if (a->sure[t][best] > 0.9 && !is_covered(a, t))
        sonar_tracks_learn_tones(s, f, best, dt);
}

/* ---- the axis of a line ---------------------------------------------------------------------- */

static sonar_bearing mirrored(const sonar_bearing *b, double axis_rad) {
    sonar_bearing m = *b;
    m.at_rad = fmod(2 * axis_rad - b->at_rad + 6 * M_PI, 2 * M_PI);
    m.rate_radps = -b->rate_radps;
    return m;
}

/* A contact within two standard deviations of the axis may have passed it, so the other side
 * becomes possible. */
static void doubt_side(const sonar_tracks *s, struct follow *f) {
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    struct side *is = sonar_tracks_likelier(f);
    const double beside = remainder(is->is.at_rad - l->axis_rad, M_PI);
    const double deviations = fabs(beside) / sqrt(is->is.var_at);
    if (!l->cone || deviations > 2)
        return;
    const double passed = erfc(deviations / M_SQRT2) / 2;
    if (f->sides == 1)
        f->side[f->sides++] = (struct side){mirrored(&is->is, l->axis_rad), 0};
    struct side *other = is == f->side ? &f->side[1] : &f->side[0];
    other->weight = fmax(other->weight, passed);
    is->weight = 1 - other->weight;
}

void sonar_tracks_update(sonar_tracks *s, double dt) {
    for (size_t t = 0; t < s->count; t++) {
        update_existence(s, t, &s->track[t]);
        update_sides(s, t);
        doubt_side(s, &s->track[t]);
        note_plot(s, t, dt);
    }
}
