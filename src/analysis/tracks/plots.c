/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The contacts of a window as plots: one row of the list is used for each contact. */
#include <math.h>

#include "analysis/tracks/state.h"
#include "manifold/angle.h"

/* The displacement of a plot by neighbours and reflections, in addition to its own error; and the
 * error of plots without one. In beam widths. */
static const double moved_beams = SONAR_TRACKS_MOVED_BEAMS, unknown_beams = 0.25;
/* The displacement of a plot of the CBF by an equally loud contact at one beam width, and its upper
 * limit. In beam widths. */
static const double drawn_at_beam = 0.15, drawn_most = 1;
static const double joint_beams = 1.5; /* two contacts nearer than this are resolved by MVDR only */

static double beam_of(const sonar_scan *scan) {
    return sonar_beam_deg(scan) * SONAR_RADIANS;
}

/* The extent of all places. */
static double extent_of(const sonar_scan *scan) {
    const double first = scan->az_deg[0] * SONAR_RADIANS,
                 last = scan->az_deg[scan->count - 1] * SONAR_RADIANS;
    if (scan->cone)
        return fmax(fabs(cos(first) - cos(last)), beam_of(scan));
    return scan->wraps ? 2 * M_PI : fmax(last - first, beam_of(scan));
}

void sonar_tracks_look_at(sonar_tracks *s, const sonar_tracks_window *w) {
    for (int i = 0; i < SONAR_TRACKS_SOURCES; i++) {
        const sonar_tracks_look *of = &w->of[i];
        if (!of->scan)
            continue;
        const double own_deg = isfinite(of->heading_deg) ? of->heading_deg : s->heading_deg;
        const double heading_deg = s->is_true ? own_deg : 0;
        const double axis_deg = of->scan->cone ? of->scan->axis_az_deg : 0;
        s->look[i] = (sonar_bearing_look){
            .cone = of->scan->cone,
            .axis_rad = (heading_deg + axis_deg) * SONAR_RADIANS,
            .cos_depression =
                of->scan->cone ? cos(of->scan->axis_depression_deg * SONAR_RADIANS) : 1,
            .lag_s = of->lag_s};
        s->beam[i] = beam_of(of->scan);
    }
}

static bool is_usable(const sonar_tracks_window *w, const sonar_detection *row) {
    return w->of[row->source].scan && isfinite(row->bearing_deg);
}

/* The displacement of a row of the CBF by other contacts, in beam widths. By their side lobes it
 * grows with their power and with the inverse square of the distance. A contact within the beam
 * that only MVDR lists is part of the same peak (`joint`), so that the row contains little
 * information. */
static double drawn_beams(const sonar_tracks *s, const sonar_tracks_window *w,
                          const sonar_detection *row, bool *joint) {
    const double beam = s->beam[row->source], az = row->az_deg * SONAR_RADIANS;
    double sum = 0;
    *joint = false;
    for (size_t i = 0; i < w->detections && row->source == SONAR_FROM_CBF; i++) {
        const sonar_detection *other = &w->detection[i];
        const bool again = other->source == SONAR_FROM_MVDR &&
                           other->rests_on & 1u << SONAR_FROM_CBF; /* its other row is used */
        if (other->contact == row->contact || again || !is_usable(w, other))
            continue;
        const double there = other->az_deg * SONAR_RADIANS;
        const double apart =
            w->of[row->source].scan->cone ? cos(there) - cos(az) : remainder(there - az, 2 * M_PI);
        const double beams = fabs(apart) / beam, louder = other->power / row->power;
        const bool unlisted = !(other->rests_on & 1u << SONAR_FROM_CBF) && beams < joint_beams;
        *joint = *joint || unlisted;
        sum += unlisted ? drawn_most : drawn_at_beam * louder / fmax(beams * beams, 0.1);
    }
    return fmin(sum, drawn_most);
}

/* The variance of the row's bearing in addition to that by noise. */
static double declared_rad2(const sonar_detection *row, double place, const sonar_bearing_look *l) {
    const double sigma = row->bearing_sigma_deg * SONAR_RADIANS, u = place;
    const double slope2 = l->cone ? l->cos_depression * l->cos_depression - u * u : 1;
    const double noise = row->sigma * row->sigma / fmax(slope2, 0);
    return isfinite(sigma) ? fmax(sigma * sigma - noise, 0) : 0;
}

static struct plot make_plot(const sonar_tracks *s, const sonar_tracks_window *w,
                             const sonar_detection *row) {
    const sonar_tracks_look *of = &w->of[row->source];
    const double beam = s->beam[row->source], az = row->az_deg * SONAR_RADIANS;
    const double own = isfinite(row->sigma) ? row->sigma : unknown_beams * beam;
    bool joint;
    const double drawn = drawn_beams(s, w, row, &joint), moved = hypot(moved_beams, drawn) * beam;
    const bool alone = !(row->rests_on & 1u << SONAR_FROM_MVDR);
    const double place = of->scan->cone ? cos(az) : az;
    return (struct plot){.row = row,
                         .is = {place, own * own + moved * moved},
                         .declared_rad2 = declared_rad2(row, place, &s->look[row->source]),
                         .density = s->false_plots / extent_of(of->scan),
                         .fresh = fmin(fmax(of->fresh, 1e-3), 1),
                         .left_out = joint && alone, /* MVDR lists all contacts in it */
                         /* MVDR, which resolves more, does not list it beside the other */
                         .image = row->image ||
                                  (w->of[SONAR_FROM_MVDR].scan && alone && drawn > unknown_beams)};
}

/* Makes one plot of each contact, from the row with more information. MVDR's windows have most
 * samples in common, so that a row of MVDR counts as a part of a measurement. */
void sonar_tracks_gather_plots(sonar_tracks *s, const sonar_tracks_window *w) {
    s->plots = 0;
    for (size_t i = 0; i < w->detections && i < SONAR_PLOTS_MOST; i++) {
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
