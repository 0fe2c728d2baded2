/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>

#include "analysis/tracks/state.h"
#include "core/core.h"

/* Mean durations of the states of the Markov chain of existence. */
static const double heard_s = 120, unheard_s = 30, gone_s = 120;
static const double false_least = 0.05, false_first = 1; /* false plots in a window */
static const double false_memory_s = 200;
static const double first_rate_radps = 0.003; /* standard deviation: 10 deg a minute */
/* Limits below which two tracks are of one contact: distance, and its change in a minute. */
static const double alike_beams = 0.15, alike_rate_beams = 0.05;
static const double shown = 0.5, lost = 0.1; /* probabilities of existence */
static const double given_up = 0.02;         /* share of a track's first probability */
static const double leading = 0.6;           /* probability from which a side is reported first */

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

void sonar_tracks_skip(sonar_tracks *s, uint64_t count) {
    s->numbers += count;
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

/* ---- prediction ------------------------------------------------------------------------------ */

static void turn_frame(sonar_tracks *s, const sonar_tracks_window *w) {
    const double heading_deg = w->of[SONAR_FROM_CBF].heading_deg;
    const bool is_true = isfinite(heading_deg);
    if (is_true)
        s->heading_deg = heading_deg;
    const double by_rad = (is_true - s->is_true) * s->heading_deg * SONAR_RADIANS;
    for (size_t t = 0; t < s->count && by_rad != 0; t++)
        for (size_t i = 0; i < s->track[t].sides; i++)
            s->track[t].side[i].is.at_rad += by_rad;
    s->is_true = is_true;
}

static void predict(struct follow *f, double dt) {
    const double from_heard = 1 - exp(-dt / heard_s), from_unheard = 1 - exp(-dt / unheard_s),
                 ends = 1 - exp(-dt / gone_s);
    const double silent = f->heard * from_heard, audible = f->unheard * from_unheard;
    f->unheard = (f->unheard - audible) * (1 - ends) + silent;
    f->heard += audible - silent;
    f->age_s += dt;
    f->since_s += dt;
    f->contact = SIZE_MAX;
    for (size_t i = 0; i < f->sides; i++)
        sonar_bearing_predict(&f->side[i].is, dt);
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static struct follow *room(sonar_tracks *s) {
    if (s->count < SONAR_TRACKS_MOST)
        return &s->track[s->count++];
    struct follow *least = NULL;
    for (size_t t = 0; t < s->count; t++)
        if (!s->track[t].number &&
            (!least || sonar_tracks_existence(&s->track[t]) < sonar_tracks_existence(least)))
            least = &s->track[t];
    return least;
}

/* Sets the sides of a track that begins at a place. */
static void set_sides(struct follow *f, const sonar_bearing_look *l, double place,
                      double variance) {
    const double d = l->cos_depression, u = place / d;
    const double beside = l->cone ? acos(fmin(fmax(u, -1), 1)) : place;
    const double slope2 = l->cone ? d * d * sin(beside) * sin(beside) : 1;
    /* at the axis the angle's variance follows from that of the cosine */
    const double var_at = l->cone ? variance / (slope2 + 0.63 * sqrt(variance)) : variance;
    f->sides = l->cone ? 2 : 1;
    for (size_t i = 0; i < f->sides; i++)
        f->side[i] = (struct side){
            .is = {.at_rad = fmod(l->axis_rad + (i ? -beside : beside) + 6 * M_PI, 2 * M_PI),
                   .var_at = var_at,
                   .var_rate = first_rate_radps * first_rate_radps,
                   .misfit = 1},
            .weight = 1.0 / (double)f->sides};
}

static void begin(sonar_tracks *s, const struct plot *plot, double probability) {
    struct follow *f = room(s);
    if (!f)
        return;
    *f = (struct follow){.heard = probability,
                         .first = probability,
                         .power = plot->row->power,
                         .snr_db = plot->row->snr_db,
                         .declared_rad2 = plot->declared_rad2,
                         .contact = plot->row->contact,
                         .rests_on = plot->row->rests_on};
    set_sides(f, &s->look[plot->row->source], plot->is.place, plot->is.variance);
}

/* Begins at the contact's rate, as far as that is known: where the cosine hardly changes with the
 * angle, it is not. */
void sonar_tracks_begin_faint(sonar_tracks *s, const sonar_faint_contact *contact) {
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    struct follow *f = room(s);
    if (!f)
        return;
    *f = (struct follow){.heard = contact->probability,
                         .first = contact->probability,
                         .power = contact->power,
                         .snr_db = contact->snr_db,
                         .contact = SIZE_MAX,
                         .rests_on = 1u << SONAR_FROM_SPECTRUM};
    set_sides(f, l, contact->place, contact->var_place);
    for (size_t i = 0; i < f->sides; i++) {
        sonar_bearing *b = &f->side[i].is;
        const double slope = l->cone ? -l->cos_depression * sin(b->at_rad - l->axis_rad) : 1;
        const double var_rate = contact->var_rate / fmax(slope * slope, 1e-12);
        if (var_rate >= b->var_rate)
            continue;
        b->rate_radps = contact->rate_ps / slope;
        b->var_rate = var_rate;
    }
}

static void begin_tracks(sonar_tracks *s, double dt) {
    const double born =
        SONAR_FAINT_BIRTHS_PER_S * dt / (SONAR_FAINT_BIRTHS_PER_S * dt + s->false_plots);
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
    return f->number ? sonar_tracks_existence(f) < lost
                     : sonar_tracks_existence(f) < given_up * f->first;
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
    const double largest = 2 * M_PI / sqrt(12); /* standard deviation of an unknown bearing */
    return (sonar_track_bearing){.deg = sonar_modulo_turn(b->at_rad / SONAR_RADIANS),
                                 .rate_dpm = 60 * b->rate_radps / SONAR_RADIANS,
                                 .sigma_deg = fmin(sqrt(b->var_at + f->declared_rad2), largest) /
                                              SONAR_RADIANS,
                                 .rate_sigma_dpm = 60 * sqrt(b->var_rate) / SONAR_RADIANS,
                                 .correlation = b->var_both / sqrt(b->var_at * b->var_rate),
                                 .probability = side->weight,
                                 .side = !l->cone ? SONAR_SIDE_ALL
                                         : right  ? SONAR_SIDE_STARBOARD
                                                  : SONAR_SIDE_PORT};
}

/* The side that is reported first. Sides that are equally probable do not change places by
 * rounding: the one that was starboard when the track began stays first. */
static size_t first_side(const struct follow *f) {
    return f->sides == 2 && f->side[1].weight > leading;
}

static sonar_track tell(const sonar_tracks *s, struct follow *f) {
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    const size_t first = first_side(f);
    const double beside = f->side[first].is.at_rad - l->axis_rad;
    sonar_track told = {.number = f->number,
                        .state = state_of(f),
                        .existence = sonar_tracks_existence(f),
                        .bearings = f->sides,
                        .az_deg = l->cone ? acos(l->cos_depression * cos(beside)) / SONAR_RADIANS
                                          : sonar_modulo_turn(beside / SONAR_RADIANS),
                        .snr_db = f->snr_db,
                        .age_s = f->age_s,
                        .unheard_s = f->since_s,
                        .contact = f->contact,
                        .rests_on = f->rests_on};
    told.tones = sonar_tracks_tones(f, told.tone_hz);
    for (size_t i = 0; i < f->sides; i++)
        told.bearing[i] = tell_side(s, f, &f->side[(first + i) % f->sides]);
    return told;
}

static size_t report(sonar_tracks *s, sonar_track *track) {
    size_t told = 0;
    for (size_t t = 0; t < s->count; t++) {
        struct follow *f = &s->track[t];
        if (!f->number && sonar_tracks_existence(f) >= shown)
            f->number = ++s->numbers;
        f->confirmed = f->confirmed || sonar_tracks_existence(f) >= SONAR_TRACKS_CONFIRMED;
        if (!f->number)
            continue;
        size_t at = told++;
        for (; at > 0 && track[at - 1].number > f->number; at--)
            track[at] = track[at - 1];
        track[at] = tell(s, f);
    }
    return told;
}

/* Ends the younger of two tracks of the same contact. */
static void end_doubles(sonar_tracks *s) {
    const double beam = s->beam[SONAR_FROM_CBF];
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    for (size_t p = 0; p < s->association.pairs; p++) {
        struct follow *a = &s->track[s->association.pair[p].a],
                      *b = &s->track[s->association.pair[p].b];
        const sonar_bearing_look before = {l->cone, l->axis_rad, l->cos_depression, 60};
        const sonar_bearing_guess now[2] = {sonar_bearing_expect(&sonar_tracks_likelier(a)->is, l),
                                            sonar_bearing_expect(&sonar_tracks_likelier(b)->is, l)},
                                  then[2] = {
                                      sonar_bearing_expect(&sonar_tracks_likelier(a)->is, &before),
                                      sonar_bearing_expect(&sonar_tracks_likelier(b)->is, &before)};
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
    s->bin_hz = w->bin_hz;
    for (size_t t = 0; t < s->count; t++)
        predict(&s->track[t], w->since_s);
    sonar_tracks_look_at(s, w);
    sonar_tracks_gather_plots(s, w);
    sonar_tracks_weigh(s, w->of[SONAR_FROM_CBF].scan);
    sonar_associate_run(s->associate, &s->association);
    sonar_tracks_update(s, w->since_s);
    sonar_tracks_take_faint(s, w);
    end_doubles(s);
    begin_tracks(s, w->since_s);
    const size_t told = report(s, track);
    forget_ended(s);
    return told;
}

/* ---- one track ------------------------------------------------------------------------------- */

sonar_track_place sonar_tracks_expect(const sonar_tracks *s, uint64_t number, double ahead_s) {
    const sonar_track_place nowhere = {
        number && number <= s->numbers ? SONAR_TRACK_LOST : SONAR_TRACK_UNKNOWN, NAN, NAN};
    for (size_t t = 0; number && t < s->count; t++) {
        if (s->track[t].number != number)
            continue;
        struct follow ahead = s->track[t];
        predict(&ahead, ahead_s);
        const sonar_track told = tell(s, &ahead);
        if (told.state == SONAR_TRACK_LOST)
            return nowhere;
        return (sonar_track_place){told.state, told.az_deg, s->is_true ? told.bearing[0].deg : NAN};
    }
    return nowhere;
}
