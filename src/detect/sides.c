/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "detect/sides.h"

#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "manifold/angle.h"
#include "manifold/bearings.h"

enum { WINDOWS = SONAR_SIDES_WINDOWS, FOLLOWED = WINDOWS / 4 };

static const double least_apart_s = 0.5; /* time between windows that are kept */
static const double beside_beams = 0.5;  /* a contact is at the expected place if it is this near */
static const double distinct_beams =
    2; /* two places can be distinguished if they are this far apart; a source at a constant angle
          is then near neither */
static const double deviations = 4, share = 0.5; /* limits of the sign test */
static const double clear_beams =
    0.8; /* distance from the axis; nearer to it, sides are less clear */
static const double fade_memories = 8; /* duration after which confidence falls to 1/e, in units of
                                          the time that all kept windows cover */

/* A contact of an earlier window. */
struct plot {
    double cosine; /* of its angle from the axis */
    double confidence;
    sonar_side side;
};

struct window {
    double at_s, heading_deg;
    size_t plots;
    struct plot plot[SONAR_DETECTIONS_MOST];
};

struct sonar_sides {
    size_t count; /* number of windows so far; the last WINDOWS are stored */
    double last_s;
    struct window window[WINDOWS];
};

/* The window to resolve: its moment, and the time that all windows cover. */
struct look {
    const sonar_sides *sides;
    const sonar_scan *scan;
    const sonar_sides_moment *moment;
    double beam, memory_s;
};

/* Indices of a contact's two bearings. */
enum { STARBOARD = 0, PORT, SIDES };

struct candidate {
    double bearing_deg[SIDES];
};

static const sonar_side side_of[SIDES] = {SONAR_SIDE_STARBOARD, SONAR_SIDE_PORT};

sonar_sides *sonar_sides_create(void) {
    return sonar_alloc(1, sizeof(sonar_sides));
}

void sonar_sides_destroy(sonar_sides *sides) {
    free(sides);
}

void sonar_sides_forget(sonar_sides *sides) {
    sides->count = 0;
}

/* ---- earlier windows ------------------------------------------------------------------------- */

/* The i-th window before now; NULL if it is too long ago or does not exist. */
static const struct window *window_before(const struct look *l, size_t i) {
    const sonar_sides *s = l->sides;
    if (i >= s->count || i >= WINDOWS)
        return NULL;
    const struct window *w = &s->window[(s->count - 1 - i) % WINDOWS];
    return l->moment->at_s - w->at_s <= 2 * l->memory_s ? w : NULL;
}

/* The angle at which a source of that bearing appeared in the earlier window. */
static double place_in(const struct look *l, const struct window *w, double bearing_deg) {
    return sonar_cone_cosine(l->scan, bearing_deg - w->heading_deg);
}

/* The contact nearest to a place; NULL: none is near enough. */
static const struct plot *plot_at(const struct look *l, const struct window *w, double cosine,
                                  sonar_side side /* or UNKNOWN: of any */) {
    const struct plot *best = NULL;
    double off = beside_beams * l->beam;
    for (size_t i = 0; i < w->plots; i++) {
        const struct plot *p = &w->plot[i];
        if (fabs(p->cosine - cosine) > off || (side != SONAR_SIDE_UNKNOWN && p->side != side))
            continue;
        off = fabs(p->cosine - cosine);
        best = p;
    }
    return best;
}

/* How far a place is from the axis, where both sides meet: 0 on the axis, up to 1. */
static double clear_of_axis(const struct look *l, double cosine) {
    return fmin((1 - fabs(cosine)) / (clear_beams * l->beam), 1);
}

/* ---- evidence -------------------------------------------------------------------------------- */

typedef struct verdict {
    sonar_side side;
    double confidence;
} verdict;

/* The sign test. */
static verdict test(const struct look *l, const struct candidate *c) {
    double windows = 0, only[SIDES] = {0};
    const struct window *w;
    for (size_t i = 0; (w = window_before(l, i)); i++) {
        const double right = place_in(l, w, c->bearing_deg[STARBOARD]),
                     left = place_in(l, w, c->bearing_deg[PORT]);
        if (fabs(right - left) < distinct_beams * l->beam)
            continue;
        const bool on_right = plot_at(l, w, right, SONAR_SIDE_UNKNOWN),
                   on_left = plot_at(l, w, left, SONAR_SIDE_UNKNOWN);
        windows++;
        only[STARBOARD] += on_right && !on_left;
        only[PORT] += on_left && !on_right;
    }
    const double more = only[STARBOARD] - only[PORT];
    if (fabs(more) < deviations * sqrt(only[STARBOARD] + only[PORT]) ||
        fabs(more) < share * windows || more == 0)
        return (verdict){.side = SONAR_SIDE_UNKNOWN};
    return (verdict){side_of[more > 0 ? STARBOARD : PORT], fabs(more) / windows};
}

/* The side that an earlier window assigned to the same contact, unless it has passed through the
 * axis since. */
static verdict follow(const struct look *l, const struct candidate *c) {
    const struct window *w;
    for (size_t i = 0; i < FOLLOWED && (w = window_before(l, i)); i++)
        for (int side = 0; side < SIDES; side++) {
            const struct plot *any =
                plot_at(l, w, place_in(l, w, c->bearing_deg[side]), SONAR_SIDE_UNKNOWN);
            if (any && clear_of_axis(l, any->cosine) < share)
                return (verdict){.side = SONAR_SIDE_UNKNOWN};
            const struct plot *p =
                plot_at(l, w, place_in(l, w, c->bearing_deg[side]), side_of[side]);
            const double age_s = l->moment->at_s - w->at_s;
            if (p)
                return (verdict){p->side,
                                 p->confidence * exp(-age_s / (fade_memories * l->memory_s))};
        }
    return (verdict){.side = SONAR_SIDE_UNKNOWN};
}

/* The current evidence counts more than the earlier result, unless both agree. */
static verdict judge(const struct look *l, const struct candidate *c) {
    const verdict now = test(l, c), before = follow(l, c);
    const bool holds = before.side != SONAR_SIDE_UNKNOWN && before.confidence >= share;
    const bool agree = before.side == now.side && before.confidence > now.confidence;
    return holds && (now.side == SONAR_SIDE_UNKNOWN || agree) ? before : now;
}

/* ---- the window ------------------------------------------------------------------------------ */

static void resolve(const struct look *l, sonar_detection *d) {
    const struct candidate c = {{d->bearing_deg, d->mirror_deg}};
    if (isnan(l->moment->heading_deg) || isnan(d->bearing_deg) || isnan(d->mirror_deg))
        return;
    const verdict v = judge(l, &c);
    const double clear = clear_of_axis(l, cos(d->az_deg * SONAR_RADIANS));
    if (clear * v.confidence < share)
        return;
    d->side = v.side;
    d->side_confidence = clear * v.confidence;
    if (d->side == SONAR_SIDE_PORT) {
        d->bearing_deg = c.bearing_deg[PORT];
        d->mirror_deg = c.bearing_deg[STARBOARD];
    }
}

static void keep(sonar_sides *s, const sonar_sides_moment *m, const sonar_detection *d,
                 size_t count) {
    struct window *w = &s->window[s->count++ % WINDOWS];
    w->at_s = s->last_s = m->at_s;
    w->heading_deg = m->heading_deg;
    w->plots = sonar_min_size(count, SONAR_DETECTIONS_MOST);
    for (size_t i = 0; i < w->plots; i++)
        w->plot[i] = (struct plot){.cosine = cos(d[i].az_deg * SONAR_RADIANS),
                                   .confidence = d[i].side_confidence,
                                   .side = d[i].side};
}

void sonar_sides_resolve(sonar_sides *s, const sonar_scan *scan, const sonar_sides_moment *moment,
                         sonar_detection *d, size_t count) {
    const double apart_s = fmax(moment->length_s, least_apart_s);
    const struct look look = {s, scan, moment, sonar_beam_width(scan), WINDOWS * apart_s};
    for (size_t i = 0; i < count; i++) {
        d[i].side = scan->cone ? SONAR_SIDE_UNKNOWN : SONAR_SIDE_ALL;
        d[i].side_confidence = 0;
    }
    if (!scan->cone)
        return;
    if (moment->at_s < s->last_s)
        sonar_sides_forget(s);
    for (size_t i = 0; i < count; i++)
        resolve(&look, &d[i]);
    if (isfinite(moment->heading_deg) && (!s->count || moment->at_s >= s->last_s + apart_s))
        keep(s, moment, d, count);
}
