/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/tracks/state.h"
#include "core/core.h"

enum {
    TRACKS = SONAR_TRACKS_MOST,
    PLOTS = SONAR_PLOTS_MOST,
    SOURCES = SONAR_TRACKS_SOURCES,
    SIDES = SONAR_TRACKS_SIDES
};

static const double RADIANS = M_PI / 180;

/* ---- what is assumed ------------------------------------------------------------------------- */

static const double detected = 0.8; /* probability that a contact that is heard has a plot */
/* Mean times of the Markov chain of existence. */
static const double heard_s = 120, unheard_s = 30, gone_s = 120;
static const double births_per_s = 2.0 / 3600;           /* new contacts, in all directions */
static const double false_least = 0.05, false_first = 1; /* false plots in a window */
static const double false_memory_s = 200;
static const double first_rate_radps = 0.003; /* standard deviation: 10 deg a minute */
/* What neighbours and reflections move a plot, beyond its own error; of plots without one. In beam
 * widths. */
static const double moved_beams = 0.05, unknown_beams = 0.25;
/* How far an equally loud one at a beam width moves a plot of the CBF. */
static const double drawn_at_beam = 0.15, drawn_most = 1;
static const double joint_beams = 1.5; /* so near are two contacts that MVDR alone tells apart */
/* Two tracks so near and so alike in their rates are one contact's; a minute. */
static const double alike_beams = 0.15, alike_rate_beams = 0.05;
static const double gate = 25; /* squared innovation over its variance */
/* Two contacts nearer than this are one plot, give or take. */
static const double merged_beams = 1.3, merged_sigma = 0.1;
static const double covered_beams = 1.8; /* so near to a stronger one a contact may have no plot */
static const double shown = 0.5, confirmed = 0.9999, lost = 0.1; /* probabilities of existence */
static const double given_up = 0.02; /* of a track's first probability */
static const double decided = 1e-3;  /* probability of a side that is left out */
static const double leading = 0.6;   /* of a side that is told first */
static const double level_memory = 0.1;

/* ---- create ---------------------------------------------------------------------------------- */

sonar_tracks *sonar_tracks_create(void) {
    sonar_tracks *s = sonar_alloc(1, sizeof *s);
    if (s)
        s->associate = sonar_associate_create();
    if (!s || !s->associate) {
        sonar_tracks_destroy(s);
        return NULL;
    }
    sonar_tracks_forget(s);
    return s;
}

void sonar_tracks_forget(sonar_tracks *s) {
    s->numbers = s->count = 0;
    s->is_true = false;
    s->heading_deg = 0;
    s->false_plots = false_first;
}

void sonar_tracks_destroy(sonar_tracks *s) {
    if (s)
        sonar_associate_destroy(s->associate);
    free(s);
}

static double existence(const struct follow *f) {
    return f->heard + f->unheard;
}

static struct side *likelier(struct follow *f) {
    return &f->side[f->sides == 2 && f->side[1].weight > f->side[0].weight];
}

/* ---- the window ------------------------------------------------------------------------------ */

static double beam_of(const sonar_scan *scan) {
    const double width = scan->beam_width_deg;
    return (width > 0 && width < 360 ? width : 360) * RADIANS;
}

/* How far places reach. */
static double extent_of(const sonar_scan *scan) {
    const double first = scan->az_deg[0] * RADIANS, last = scan->az_deg[scan->count - 1] * RADIANS;
    if (scan->cone)
        return fmax(fabs(cos(first) - cos(last)), beam_of(scan));
    return scan->wraps ? 2 * M_PI : fmax(last - first, beam_of(scan));
}

static void turn_frame(sonar_tracks *s, const sonar_tracks_window *w) {
    const double heading_deg = w->of[SONAR_FROM_CBF].heading_deg;
    const bool is_true = isfinite(heading_deg);
    if (is_true)
        s->heading_deg = heading_deg;
    const double by_rad = (is_true - s->is_true) * s->heading_deg * RADIANS;
    for (size_t t = 0; t < s->count && by_rad != 0; t++)
        for (size_t i = 0; i < s->track[t].sides; i++)
            s->track[t].side[i].is.at_rad += by_rad;
    s->is_true = is_true;
}

static void look(sonar_tracks *s, const sonar_tracks_window *w) {
    for (int i = 0; i < SOURCES; i++) {
        const sonar_tracks_look *of = &w->of[i];
        if (!of->scan)
            continue;
        const double own_deg = isfinite(of->heading_deg) ? of->heading_deg : s->heading_deg;
        const double heading_deg = s->is_true ? own_deg : 0;
        const double axis_deg = of->scan->cone ? of->scan->axis_az_deg : 0;
        s->look[i] = (sonar_bearing_look){
            .cone = of->scan->cone,
            .axis_rad = (heading_deg + axis_deg) * RADIANS,
            .cos_depression = of->scan->cone ? cos(of->scan->axis_depression_deg * RADIANS) : 1,
            .lag_s = of->lag_s};
        s->beam[i] = beam_of(of->scan);
    }
}

static bool is_usable(const sonar_tracks_window *w, const sonar_detection *row) {
    return w->of[row->source].scan && isfinite(row->bearing_deg);
}

/* How far other contacts may move a row of the CBF, in beam widths. By side lobes: as their power,
 * and as the inverse square of the distance. One within the beam that MVDR alone lists is in the
 * same peak (`joint`), so that this row says little. */
static double drawn_beams(const sonar_tracks *s, const sonar_tracks_window *w,
                          const sonar_detection *row, bool *joint) {
    const double beam = s->beam[row->source], az = row->az_deg * RADIANS;
    double sum = 0;
    *joint = false;
    for (size_t i = 0; i < w->detections && row->source == SONAR_FROM_CBF; i++) {
        const sonar_detection *other = &w->detection[i];
        const bool again = other->source == SONAR_FROM_MVDR &&
                           other->rests_on & 1u << SONAR_FROM_CBF; /* its other row counts */
        if (other->contact == row->contact || again || !is_usable(w, other))
            continue;
        const double there = other->az_deg * RADIANS;
        const double apart =
            w->of[row->source].scan->cone ? cos(there) - cos(az) : remainder(there - az, 2 * M_PI);
        const double beams = fabs(apart) / beam, louder = other->power / row->power;
        const bool unlisted = !(other->rests_on & 1u << SONAR_FROM_CBF) && beams < joint_beams;
        *joint = *joint || unlisted;
        sum += unlisted ? drawn_most : drawn_at_beam * louder / fmax(beams * beams, 0.1);
    }
    return fmin(sum, drawn_most);
}

static struct plot make_plot(const sonar_tracks *s, const sonar_tracks_window *w,
                             const sonar_detection *row) {
    const sonar_tracks_look *of = &w->of[row->source];
    const double beam = s->beam[row->source], az = row->az_deg * RADIANS;
    const double own = isfinite(row->sigma) ? row->sigma : unknown_beams * beam;
    bool joint;
    const double drawn = drawn_beams(s, w, row, &joint), moved = hypot(moved_beams, drawn) * beam;
    const bool alone = !(row->rests_on & 1u << SONAR_FROM_MVDR);
    return (struct plot){.row = row,
                         .is = {of->scan->cone ? cos(az) : az, own * own + moved * moved},
                         .density = s->false_plots / extent_of(of->scan),
                         .fresh = fmin(fmax(of->fresh, 1e-3), 1),
                         .left_out = joint && alone, /* MVDR lists all that is in it */
                         /* MVDR, which tells more apart, does not see it beside the other */
                         .image = row->image ||
                                  (w->of[SONAR_FROM_MVDR].scan && alone && drawn > unknown_beams)};
}

/* One plot of each contact: the row that says more. MVDR's windows have most samples in common, so
 * that a row of it is worth a part of one. */
static void gather_plots(sonar_tracks *s, const sonar_tracks_window *w) {
    s->plots = 0;
    for (size_t i = 0; i < w->detections && i < PLOTS; i++) {
        const sonar_detection *row = &w->detection[i];
        if (!is_usable(w, row))
            continue;
        const struct plot made = make_plot(s, w, row);
        if (made.left_out)
            continue;
        size_t j = 0;
        while (j < s->plots && s->plot[j].row->contact != row->contact)
            j++;
        struct plot *is = &s->plot[j];
        const bool image = made.image || (j < s->plots && is->image);
        if (j == s->plots || made.is.variance / made.fresh < is->is.variance / is->fresh)
            *is = made;
        is->image = image;
        s->plots += j == s->plots;
    }
}

static void predict(sonar_tracks *s, double dt) {
    const double from_heard = 1 - exp(-dt / heard_s), from_unheard = 1 - exp(-dt / unheard_s),
                 ends = 1 - exp(-dt / gone_s);
    for (size_t t = 0; t < s->count; t++) {
        struct follow *f = &s->track[t];
        const double silent = f->heard * from_heard, audible = f->unheard * from_unheard;
        f->unheard = (f->unheard - audible) * (1 - ends) + silent;
        f->heard += audible - silent;
        f->age_s += dt;
        f->since_s += dt;
        f->contact = SIZE_MAX;
        for (size_t i = 0; i < f->sides; i++)
            sonar_bearing_predict(&f->side[i].is, dt);
    }
}

/* ---- which plot is of which track ------------------------------------------------------------ */

static double normal_density(double off, double variance) {
    return exp(-off * off / (2 * variance)) / sqrt(2 * M_PI * variance);
}

static double normal_below(double deviations) {
    return erfc(-deviations / M_SQRT2) / 2;
}

/* The probability that two are nearer than `reach`. */
static double nearer(double reach, double apart, double sigma) {
    return normal_below((reach - apart) / sigma) - normal_below((-reach - apart) / sigma);
}

/* The weight of a plot by its density under the track, over that of false ones. */
static double ratio(const struct plot *plot, double density) {
    return detected * density / plot->density;
}

static void weigh(sonar_tracks *s, size_t t) {
    struct follow *f = &s->track[t];
    sonar_association *a = &s->association;
    a->missed[t] = 1 - f->heard * detected;
    for (size_t j = 0; j < s->plots; j++) {
        const struct plot *plot = &s->plot[j];
        const int source = plot->row->source;
        double density = 0;
        bool inside = false;
        for (size_t i = 0; i < f->sides; i++) {
            const sonar_bearing_guess *g = &s->guess[t][i][source];
            const double v = g->variance + plot->is.variance;
            const double off = sonar_bearing_off(&s->look[source], g, plot->is.place);
            inside = inside || off * off < gate * v;
            s->likelihood[t][i][j] = normal_density(off, v);
            density += f->side[i].weight * s->likelihood[t][i][j];
        }
        inside = inside && (f->confirmed || !plot->image);
        a->weight[t][j] = inside && density > 0 ? f->heard * ratio(plot, density) : 0;
    }
}

/* How much a plot counts as drawn away, 0 to 1, if another contact may have moved it so far. */
static double draws(double beams) {
    const double x = beams / moved_beams;
    return x * x / (1 + x * x);
}

/* Sets the pair if the CBF may not tell the two apart. */
static bool make_pair(sonar_tracks *s, size_t ta, size_t tb, sonar_track_pair *pair) {
    struct follow *a = &s->track[ta], *b = &s->track[tb];
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    const double beam = s->beam[SONAR_FROM_CBF];
    const sonar_bearing_guess *ga = &s->guess[ta][likelier(a) - a->side][SONAR_FROM_CBF],
                              *gb = &s->guess[tb][likelier(b) - b->side][SONAR_FROM_CBF];
    const double apart = sonar_bearing_off(l, ga, gb->place);
    const double sigma = sqrt(ga->variance + gb->variance + pow(merged_sigma * beam, 2));
    *pair = (sonar_track_pair){.a = ta, .b = tb};
    pair->together = 0.98 * nearer(merged_beams * beam, apart, sigma);
    pair->covers = nearer(covered_beams * beam, apart, sigma);
    if (pair->together < 0.02)
        return false;
    const double share = b->power / (a->power + b->power);
    pair->bias[0] = pair->together * existence(b) * draws(share * apart / beam);
    pair->bias[1] = pair->together * existence(a) * draws((1 - share) * apart / beam);
    for (size_t j = 0; j < s->plots; j++) {
        const struct plot *plot = &s->plot[j];
        if (plot->row->source != SONAR_FROM_CBF)
            continue;
        const double off = sonar_bearing_off(l, ga, plot->is.place) - share * apart;
        const double v = (1 - share) * (1 - share) * ga->variance + share * share * gb->variance +
                         plot->is.variance + 0.02 * apart * apart;
        if (off * off < gate * v)
            pair->weight[j] =
                a->heard * b->heard * pair->together * ratio(plot, normal_density(off, v));
    }
    return true;
}

static void associate(sonar_tracks *s, bool cbf) {
    sonar_association *a = &s->association;
    a->tracks = s->count;
    a->plots = s->plots;
    a->pairs = 0;
    for (size_t j = 0; j < s->plots; j++)
        a->sharp[j] = s->plot[j].row->source == SONAR_FROM_MVDR;
    for (size_t t = 0; t < s->count; t++) {
        for (size_t i = 0; i < s->track[t].sides; i++)
            for (int k = 0; k < SOURCES; k++)
                s->guess[t][i][k] = sonar_bearing_expect(&s->track[t].side[i].is, &s->look[k]);
        weigh(s, t);
    }
    for (size_t t = 0; t < s->count && cbf; t++)
        for (size_t u = t + 1; u < s->count && a->pairs < SONAR_TRACK_PAIRS_MOST; u++)
            if (s->track[t].confirmed && s->track[u].confirmed)
                a->pairs += make_pair(s, t, u, &a->pair[a->pairs]);
    sonar_associate_run(s->associate, a);
}

/* ---- what follows from it -------------------------------------------------------------------- */

static double log_odds(double probability) {
    const double p = fmin(fmax(probability, 1e-12), 1 - 1e-12);
    return log(p / (1 - p));
}

/* What is to be believed after evidence of which only a part is new. */
static double believe(double before, double after, double part) {
    const double odds = log_odds(before) + part * (log_odds(after) - log_odds(before));
    return 1 / (1 + exp(-odds));
}

/* The part of what the track's plots say that earlier ones have not said. MVDR's windows have most
 * samples in common. */
static double fresh_part(const sonar_tracks *s, size_t t) {
    double part = 1;
    for (size_t j = 0; j < s->plots; j++)
        part -= s->association.own[t][j] * (1 - s->plot[j].fresh);
    return part;
}

/* Of a track in the beam of a stronger one nothing is said, neither that it is heard nor that it is
 * not. */
static void update_existence(const sonar_tracks *s, size_t t, struct follow *f) {
    const sonar_association *a = &s->association;
    double covered = 0, silent = 0; /* probabilities that it is, and that nothing is said */
    for (size_t p = 0; p < a->pairs; p++) {
        const sonar_track_pair *pair = &a->pair[p];
        const size_t other = pair->a == t ? pair->b : pair->a;
        if ((pair->a == t || pair->b == t) && s->track[other].power > f->power)
            covered = fmax(covered, pair->covers);
    }
    if (covered > 0)
        silent = a->both[t] + a->none[t] * covered;
    const double missed = a->none[t] * (1 - covered), before = existence(f);
    f->unheard *= missed / a->missed[t] + silent;
    f->heard =
        f->heard * ((1 - detected) * missed / a->missed[t] + silent) + fmax(1 - missed - silent, 0);
    const double after = existence(f), is = believe(before, after, fresh_part(s, t));
    f->heard *= is / after;
    f->unheard *= is / after;
}

/* The probability of one side after the window, not normalised, and the filter's update by the
 * plots, each by its probability under that side; the rest leaves it as it is. */
static double update_side(sonar_tracks *s, size_t t, size_t i) {
    const sonar_association *a = &s->association;
    struct follow *f = &s->track[t];
    struct side *side = &f->side[i];
    sonar_bearing of[PLOTS + 1];
    double weight[PLOTS + 1], all = 1, rest = 1;
    int count = 1;
    for (size_t j = 0; j < s->plots; j++)
        all -= a->own[t][j];
    for (size_t j = 0; j < s->plots; j++) {
        if (!(a->own[t][j] > 0))
            continue;
        double density = 0;
        for (size_t k = 0; k < f->sides; k++)
            density += f->side[k].weight * s->likelihood[t][k][j];
        all += a->own[t][j] * s->likelihood[t][i][j] / density;
    }
    of[0] = side->is;
    for (size_t j = 0; j < s->plots && all > 0; j++) {
        if (!(a->sure[t][j] > 1e-6))
            continue;
        const struct plot *plot = &s->plot[j];
        const int source = plot->row->source;
        const sonar_bearing_guess *g = &s->guess[t][i][source];
        double density = 0;
        for (size_t k = 0; k < f->sides; k++)
            density += f->side[k].weight * s->likelihood[t][k][j];
        const double share = a->sure[t][j] * s->likelihood[t][i][j] / density / all;
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
        f->side[0] = *likelier(f);
        f->side[0].weight = 1;
        f->sides = 1;
    }
}

/* The variance that the row's bearing has beyond that by noise. */
static double declared_in(const struct plot *plot, const sonar_bearing_look *l) {
    const double sigma = plot->row->bearing_sigma_deg * RADIANS, u = plot->is.place;
    const double slope2 = l->cone ? l->cos_depression * l->cos_depression - u * u : 1;
    const double noise = plot->row->sigma * plot->row->sigma / fmax(slope2, 0);
    return isfinite(sigma) ? fmax(sigma * sigma - noise, 0) : 0;
}

static void note_plot(sonar_tracks *s, size_t t) {
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
    f->declared_rad2 = declared_in(&s->plot[best], &s->look[row->source]);
}

/* ---- the axis of a line ---------------------------------------------------------------------- */

static sonar_bearing mirrored(const sonar_bearing *b, double axis_rad) {
    sonar_bearing m = *b;
    m.at_rad = fmod(2 * axis_rad - b->at_rad + 6 * M_PI, 2 * M_PI);
    m.rate_radps = -b->rate_radps;
    return m;
}

/* A contact that comes as near to the axis as its error may have passed it. */
static void doubt_side(const sonar_tracks *s, struct follow *f) {
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    struct side *is = likelier(f);
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

/* ---- beginning and end ----------------------------------------------------------------------- */

static struct follow *room(sonar_tracks *s) {
    if (s->count < TRACKS)
        return &s->track[s->count++];
    struct follow *least = NULL;
    for (size_t t = 0; t < s->count; t++)
        if (!s->track[t].number && (!least || existence(&s->track[t]) < existence(least)))
            least = &s->track[t];
    return least;
}

static void begin(sonar_tracks *s, const struct plot *plot, double probability) {
    struct follow *f = room(s);
    if (!f)
        return;
    const sonar_bearing_look *l = &s->look[plot->row->source];
    const double v = plot->is.variance, d = l->cos_depression, u = plot->is.place / d;
    const double beside = l->cone ? acos(fmin(fmax(u, -1), 1)) : plot->is.place;
    const double slope2 = l->cone ? d * d * sin(beside) * sin(beside) : 1;
    /* at the axis the angle's variance is that of a cosine there */
    const double variance = l->cone ? v / (slope2 + 0.63 * sqrt(v)) : v;
    *f = (struct follow){.heard = probability,
                         .first = probability,
                         .sides = l->cone ? 2 : 1,
                         .power = plot->row->power,
                         .snr_db = plot->row->snr_db,
                         .declared_rad2 = declared_in(plot, l),
                         .contact = plot->row->contact,
                         .rests_on = plot->row->rests_on};
    for (size_t i = 0; i < f->sides; i++)
        f->side[i] = (struct side){
            .is = {.at_rad = fmod(l->axis_rad + (i ? -beside : beside) + 6 * M_PI, 2 * M_PI),
                   .var_at = variance,
                   .var_rate = first_rate_radps * first_rate_radps,
                   .misfit = 1},
            .weight = 1.0 / (double)f->sides};
}

static void begin_tracks(sonar_tracks *s, double dt) {
    const double born = births_per_s * dt / (births_per_s * dt + s->false_plots);
    double unexplained = 0;
    for (size_t j = 0; j < s->plots; j++) {
        const double free = fmax(1 - s->association.taken[j], 0);
        unexplained += s->plot[j].fresh * free;
        if (!s->plot[j].image && free > 0.2 && born > 0)
            begin(s, &s->plot[j], born * free);
    }
    s->false_plots += (1 - exp(-dt / false_memory_s)) * (unexplained - s->false_plots);
    s->false_plots = fmax(s->false_plots, false_least);
}

static bool ends(const struct follow *f) {
    return f->number ? existence(f) < lost : existence(f) < given_up * f->first;
}

static sonar_track_state state_of(const struct follow *f) {
    if (ends(f))
        return SONAR_TRACK_LOST;
    if (!f->confirmed)
        return SONAR_TRACK_TENTATIVE;
    return f->heard < f->unheard ? SONAR_TRACK_COASTING : SONAR_TRACK_CONFIRMED;
}

/* ---- report ---------------------------------------------------------------------------------- */

static sonar_track_bearing tell_side(const sonar_tracks *s, const struct follow *f,
                                     const struct side *side) {
    const sonar_bearing *b = &side->is;
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    const bool right = sin(b->at_rad - l->axis_rad) >= 0;
    const double largest = 2 * M_PI / sqrt(12); /* of a bearing that is not known at all */
    return (sonar_track_bearing){.deg = sonar_modulo_turn(b->at_rad / RADIANS),
                                 .rate_dpm = 60 * b->rate_radps / RADIANS,
                                 .sigma_deg =
                                     fmin(sqrt(b->var_at + f->declared_rad2), largest) / RADIANS,
                                 .rate_sigma_dpm = 60 * sqrt(b->var_rate) / RADIANS,
                                 .correlation = b->var_both / sqrt(b->var_at * b->var_rate),
                                 .probability = side->weight,
                                 .side = !l->cone ? SONAR_SIDE_ALL
                                         : right  ? SONAR_SIDE_STARBOARD
                                                  : SONAR_SIDE_PORT};
}

/* Which side is told first. Sides that are equally probable do not change places by rounding: the
 * one that was starboard when the track began stays first. */
static size_t first_side(const struct follow *f) {
    return f->sides == 2 && f->side[1].weight > leading;
}

static sonar_track tell(const sonar_tracks *s, struct follow *f) {
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    const size_t first = first_side(f);
    const double beside = f->side[first].is.at_rad - l->axis_rad;
    sonar_track told = {.number = f->number,
                        .state = state_of(f),
                        .existence = existence(f),
                        .bearings = f->sides,
                        .az_deg = l->cone ? acos(l->cos_depression * cos(beside)) / RADIANS
                                          : sonar_modulo_turn(beside / RADIANS),
                        .snr_db = f->snr_db,
                        .age_s = f->age_s,
                        .unheard_s = f->since_s,
                        .contact = f->contact,
                        .rests_on = f->rests_on};
    for (size_t i = 0; i < f->sides; i++)
        told.bearing[i] = tell_side(s, f, &f->side[(first + i) % f->sides]);
    return told;
}

static size_t report(sonar_tracks *s, sonar_track *track) {
    size_t told = 0;
    for (size_t t = 0; t < s->count; t++) {
        struct follow *f = &s->track[t];
        if (!f->number && existence(f) >= shown)
            f->number = ++s->numbers;
        f->confirmed = f->confirmed || existence(f) >= confirmed;
        if (!f->number)
            continue;
        size_t at = told++;
        for (; at > 0 && track[at - 1].number > f->number; at--)
            track[at] = track[at - 1];
        track[at] = tell(s, f);
    }
    return told;
}

/* Of two tracks of one contact the younger one ends. */
static void end_doubles(sonar_tracks *s) {
    const double beam = s->beam[SONAR_FROM_CBF];
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    for (size_t p = 0; p < s->association.pairs; p++) {
        struct follow *a = &s->track[s->association.pair[p].a],
                      *b = &s->track[s->association.pair[p].b];
        const sonar_bearing_look before = {l->cone, l->axis_rad, l->cos_depression, 60};
        const sonar_bearing_guess now[2] = {sonar_bearing_expect(&likelier(a)->is, l),
                                            sonar_bearing_expect(&likelier(b)->is, l)},
                                  then[2] = {sonar_bearing_expect(&likelier(a)->is, &before),
                                             sonar_bearing_expect(&likelier(b)->is, &before)};
        const double apart = sonar_bearing_off(l, &now[0], now[1].place),
                     was = sonar_bearing_off(l, &then[0], then[1].place);
        struct follow *younger = a->age_s < b->age_s ? a : b;
        if (fabs(apart) < alike_beams * beam && fabs(apart - was) < alike_rate_beams * beam)
            younger->heard = younger->unheard = 0;
    }
}

static void forget_ended(sonar_tracks *s) {
    size_t kept = 0;
    for (size_t t = 0; t < s->count; t++)
        if (!ends(&s->track[t]))
            s->track[kept++] = s->track[t];
    s->count = kept;
}

size_t sonar_tracks_run(sonar_tracks *s, const sonar_tracks_window *w, sonar_track *track) {
    turn_frame(s, w);
    look(s, w);
    predict(s, w->since_s);
    gather_plots(s, w);
    associate(s, w->of[SONAR_FROM_CBF].scan);
    for (size_t t = 0; t < s->count; t++) {
        update_existence(s, t, &s->track[t]);
        update_sides(s, t);
        doubt_side(s, &s->track[t]);
        note_plot(s, t);
    }
    end_doubles(s);
    begin_tracks(s, w->since_s);
    const size_t told = report(s, track);
    forget_ended(s);
    return told;
}
