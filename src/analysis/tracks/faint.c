/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Contacts that only the spectrum shows (analysis/faint). Those that are certain begin tracks, and
 * others keep tracks that have no plots any more. Their odds are of all windows until now, so that
 * a track takes over their probability, and a measurement of which only what is new since the last
 * window counts. */
#include <math.h>

#include "analysis/tracks/state.h"

static const double memory_s = 10; /* of the odds */
/* To a contact's own track, whose bearing may have become uncertain meanwhile. */
static const double near_deviations = 3, near_beams = 0.5, near_most_beams = 1.5;

static double squared_deviations(const sonar_tracks *s, const struct follow *f,
                                 const sonar_faint_contact *c) {
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    const double beam = s->beam[SONAR_FROM_CBF], least = near_beams / near_deviations * beam;
    double nearest = HUGE_VAL;
    for (size_t i = 0; i < f->sides; i++) {
        const sonar_bearing_guess g = sonar_bearing_expect(&f->side[i].is, l);
        const double off = sonar_bearing_off(l, &g, c->place);
        if (fabs(off) < near_most_beams * beam)
            nearest = fmin(nearest, off * off / (g.variance + c->var_place + least * least));
    }
    return nearest;
}

/* The nearest track that may be of the contact, or NULL. */
static struct follow *track_of(sonar_tracks *s, const sonar_faint_contact *c) {
    struct follow *best = NULL;
    double nearest = near_deviations * near_deviations;
    for (size_t t = 0; t < s->count; t++) {
        const double squared = squared_deviations(s, &s->track[t], c);
        if (squared < nearest) {
            nearest = squared;
            best = &s->track[t];
        }
    }
    return best;
}

static void take(const sonar_tracks *s, struct follow *f, const sonar_faint_contact *c,
                 double since_s) {
    const sonar_bearing_look *l = &s->look[SONAR_FROM_CBF];
    const double fresh = fmax(1 - exp(-since_s / memory_s), 1e-3);
    const sonar_bearing_plot plot = {c->place, c->var_place / fresh};
    f->heard = fmax(f->heard, c->probability);
    f->unheard = fmin(f->unheard, 1 - f->heard);
    f->since_s = 0;
    f->snr_db = c->snr_db;
    f->rests_on = 1u << SONAR_FROM_SPECTRUM;
    for (size_t i = 0; i < f->sides; i++) {
        const sonar_bearing_guess g = sonar_bearing_expect(&f->side[i].is, l);
        sonar_bearing_update(&f->side[i].is, l, &g, &plot);
    }
}

void sonar_tracks_take_faint(sonar_tracks *s, const sonar_tracks_window *w) {
    for (size_t i = 0; i < w->faints; i++) {
        const sonar_faint_contact *c = &w->faint[i];
        struct follow *f = track_of(s, c);
        if (f && f->since_s > 0)
            take(s, f, c, w->since_s);
        else if (!f && c->probability >= SONAR_TRACKS_CONFIRMED)
            sonar_tracks_begin_faint(s, c);
    }
}
