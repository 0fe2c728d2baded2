/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A tracker between two windows; shared by its own files. */
#ifndef SONAR_TRACKS_STATE_H
#define SONAR_TRACKS_STATE_H

#include "analysis/tracks/associate.h"
#include "analysis/tracks/filter.h"
#include "analysis/tracks/tracks.h"

enum { SONAR_TRACKS_SOURCES = 2, SONAR_TRACKS_SIDES = 2 };
#define SONAR_TRACKS_DETECTED    0.8  /* probability that a contact that is heard has a plot */
#define SONAR_TRACKS_MOVED_BEAMS 0.05 /* what neighbours and reflections move a plot */

struct side {
    sonar_bearing is;
    double weight;
};

struct follow {
    uint64_t number;              /* 0: not shown yet */
    bool confirmed;               /* once */
    double heard, unheard, first; /* probabilities of the chain; of existence at the beginning */
    size_t sides;
    struct side side[SONAR_TRACKS_SIDES];
    double power, snr_db; /* power: recent mean */
    double declared_rad2; /* variance of bearings that windows have in common */
    double age_s, since_s;
    size_t contact;
    unsigned rests_on;
};

/* A contact of the window, by the row that is used of it. */
struct plot {
    const sonar_detection *row;
    sonar_bearing_plot is;
    double density;       /* of false plots there, per unit of the place */
    double declared_rad2; /* variance of its bearing beyond that by noise */
    double fresh;
    bool image, left_out;
};

struct sonar_tracks {
    uint64_t numbers;   /* given so far */
    double false_plots; /* expected in a window */
    bool is_true;
    double heading_deg; /* last known */
    size_t count;
    struct follow track[SONAR_TRACKS_MOST];
    /* of the window in work */
    sonar_bearing_look look[SONAR_TRACKS_SOURCES];
    double beam[SONAR_TRACKS_SOURCES]; /* as places count */
    size_t plots;
    struct plot plot[SONAR_PLOTS_MOST];
    sonar_bearing_guess guess[SONAR_TRACKS_MOST][SONAR_TRACKS_SIDES][SONAR_TRACKS_SOURCES];
    double likelihood[SONAR_TRACKS_MOST][SONAR_TRACKS_SIDES][SONAR_PLOTS_MOST]; /* densities */
    sonar_association association;
    sonar_associate *associate;
};

static inline double sonar_tracks_existence(const struct follow *f) {
    return f->heard + f->unheard;
}

static inline struct side *sonar_tracks_likelier(struct follow *f) {
    return &f->side[f->sides == 2 && f->side[1].weight > f->side[0].weight];
}

/* Density of the plot under the track, by its sides. */
static inline double sonar_tracks_density(const sonar_tracks *s, size_t t, size_t plot) {
    double density = 0;
    for (size_t i = 0; i < s->track[t].sides; i++)
        density += s->track[t].side[i].weight * s->likelihood[t][i][plot];
    return density;
}

/* The steps of a window, in this order: how each beamformer measured; the plots; their weights in
 * the association; what they say of each track. */
void sonar_tracks_look_at(sonar_tracks *s, const sonar_tracks_window *w);
void sonar_tracks_gather_plots(sonar_tracks *s, const sonar_tracks_window *w);
void sonar_tracks_weigh(sonar_tracks *s, bool cbf);
void sonar_tracks_update(sonar_tracks *s);

#endif
