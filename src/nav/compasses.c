/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A towed array placed by the compasses in it. Between two compasses the heading changes evenly
 * along the array, and the depth too; before the first and behind the last the array is straight.
 * The places are the integral of the headings. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nav/internal.h"

static const double DEPTH_HOLDS_S = 60; /* depths change slowly, and sensors may send them rarely */

/* ---- writing --------------------------------------------------------------------------------- */

void sonar_nav_put_reading(sonar_nav_values *to, const char *id, sonar_nav_quantity quantity,
                           double value) {
    const size_t i = to->readings;
    if (!*id || strlen(id) >= SONAR_NAV_ID_BYTES || i == SONAR_NAV_READINGS_MOST)
        return;
    to->readings++;
    snprintf(to->reading[i].id, sizeof to->reading[i].id, "%s", id);
    to->reading[i].quantity = quantity;
    to->reading[i].value = value;
}

/* A heading that the array cannot have got to since the last one is a mistake. */
static bool take_heading(const sonar_nav *nav, struct compass *c, double deg, int64_t utc_ns) {
    sonar_heading last;
    if (sonar_headings_newest(&c->headings, &last)) {
        const double for_s = (double)(utc_ns - last.utc_ns) * 1e-9;
        if (for_s >= 0 && for_s <= nav->spec.stale_after_s &&
            fabs(remainder(deg - last.deg, 360)) > sonar_nav_heading_reach(for_s))
            return false;
    }
    sonar_headings_add(&c->headings, deg, utc_ns, false);
    return true;
}

bool sonar_compasses_take(sonar_nav *nav, const sonar_nav_values *v, int64_t utc_ns) {
    bool heading = false;
    for (size_t r = 0; r < v->readings; r++)
        for (size_t i = 0; nav->compass && i < nav->spec.compasses; i++) {
            struct compass *c = &nav->compass[i];
            if (strcmp(v->reading[r].id, nav->spec.compass[i].id) != 0)
                continue;
            if (v->reading[r].quantity == SONAR_NAV_HEADING) {
                heading |= take_heading(
                    nav, c, v->reading[r].value + nav->spec.compass[i].offset_deg, utc_ns);
            } else {
                atomic_store(&c->depth_m, v->reading[r].value);
                atomic_store(&c->depth_ns, utc_ns);
            }
        }
    return heading;
}

bool sonar_compasses_age(sonar_nav *nav, int64_t utc_now_ns, double *age_s) {
    bool current = false;
    for (size_t i = 0; i < nav->spec.compasses; i++) {
        sonar_headings *headings = &nav->compass[i].headings;
        sonar_heading newest;
        double deg;
        current |= sonar_headings_find(headings, utc_now_ns, nav->spec.stale_after_s, &deg);
        if (sonar_headings_newest(headings, &newest))
            *age_s = fmin(*age_s, (double)(utc_now_ns - newest.utc_ns) * 1e-9);
    }
    return current;
}

/* ---- the line through the compasses ---------------------------------------------------------- */

/* A place of the array where the heading is known. */
struct node {
    double behind_m, deg, depth_m; /* degrees go on beyond a turn; depth_m: NaN if unknown */
    double north_m, east_m;
};

struct line {
    struct node node[SONAR_NAV_COMPASSES_MOST];
    size_t count;
};

/* Values in the middle are interpolated between known ones, those at the ends are the nearest known
 * ones; 0 if none is known. */
static void fill_depths(struct line *l) {
    size_t known = 0, last = 0;
    for (size_t i = 0; i < l->count; i++) {
        struct node *to = &l->node[i], *from = &l->node[last];
        if (isnan(to->depth_m))
            continue;
        for (size_t k = known ? last + 1 : 0; k < i; k++)
            l->node[k].depth_m = known
                                     ? from->depth_m + (to->depth_m - from->depth_m) *
                                                           (l->node[k].behind_m - from->behind_m) /
                                                           (to->behind_m - from->behind_m)
                                     : to->depth_m;
        last = i;
        known++;
    }
    for (size_t k = known ? last + 1 : 0; k < l->count; k++)
        l->node[k].depth_m = known ? l->node[last].depth_m : 0;
}

/* From a node on towards the back, with the heading that far behind. A step of an arc goes along
 * the heading in its middle, by the chord. Of a step that also goes down, less is horizontal. */
static struct node behind(struct node from, double step_m, double deg, double depth_m) {
    const double half = 0.5 * (deg - from.deg) * SONAR_RADIANS,
                 middle = from.deg * SONAR_RADIANS + half,
                 chord = fabs(half) > 1e-9 ? sin(half) / half : 1;
    const double down_m = fmin(fabs(depth_m - from.depth_m), fabs(step_m)),
                 flat_m = copysign(sqrt(step_m * step_m - down_m * down_m), step_m) * chord;
    return (struct node){.behind_m = from.behind_m + step_m,
                         .deg = deg,
                         .depth_m = depth_m,
                         .north_m = from.north_m - flat_m * cos(middle),
                         .east_m = from.east_m - flat_m * sin(middle)};
}

static struct node place_of(const struct line *l, double behind_m) {
    size_t i = 0;
    while (i + 1 < l->count && l->node[i + 1].behind_m <= behind_m)
        i++;
    const struct node a = l->node[i];
    const double step_m = behind_m - a.behind_m;
    if (step_m < 0 || i + 1 == l->count)
        return behind(a, step_m, a.deg, a.depth_m);
    const struct node b = l->node[i + 1];
    const double share = step_m / (b.behind_m - a.behind_m);
    return behind(a, step_m, a.deg + share * (b.deg - a.deg),
                  a.depth_m + share * (b.depth_m - a.depth_m));
}

/* The compasses with a heading at that time. The name of the first one without goes to *tow. */
static struct line line_at(sonar_nav *nav, int64_t utc_ns, sonar_tow *tow) {
    struct line l = {.count = 0};
    for (size_t i = 0; i < nav->spec.compasses; i++) {
        struct compass *c = &nav->compass[i];
        const sonar_nav_compass *spec = &nav->spec.compass[i];
        const int64_t depth_ns = atomic_load(&c->depth_ns);
        double deg;
        if (!sonar_headings_find(&c->headings, utc_ns, nav->spec.stale_after_s, &deg)) {
            if (!tow->silent++)
                snprintf(tow->silent_id, sizeof tow->silent_id, "%s", spec->id);
            continue;
        }
        const bool deep = depth_ns && fabs((double)(utc_ns - depth_ns)) * 1e-9 <=
                                          fmax(DEPTH_HOLDS_S, nav->spec.stale_after_s);
        const double before_deg = l.count ? l.node[l.count - 1].deg : 0;
        l.node[l.count++] = (struct node){.behind_m = spec->behind_m,
                                          .deg = before_deg + remainder(deg - before_deg, 360),
                                          .depth_m = deep ? atomic_load(&c->depth_m) : NAN};
    }
    fill_depths(&l);
    for (size_t i = 1; i < l.count; i++) {
        const struct node b = l.node[i];
        l.node[i] = behind(l.node[i - 1], b.behind_m - l.node[i - 1].behind_m, b.deg, b.depth_m);
    }
    return l;
}

sonar_tow_state sonar_compasses_places(sonar_nav *nav, int64_t utc_ns, size_t n,
                                       const double *behind_m, const sonar_nav_places_m *places,
                                       sonar_tow *tow) {
    const struct line l = line_at(nav, utc_ns, tow);
    tow->compasses = (unsigned)nav->spec.compasses;
    if (!l.count)
        return SONAR_TOW_NO_COMPASS;
    const struct node front = place_of(&l, 0);
    for (size_t k = 0; k < n; k++) {
        const struct node at = place_of(&l, behind_m[k]);
        places->north[k] = at.north_m - front.north_m;
        places->east[k] = at.east_m - front.east_m;
        places->depth[k] = at.depth_m;
    }
    tow->seen_m = tow->reach_m;
    return SONAR_TOW_KNOWN;
}
