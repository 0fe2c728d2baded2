/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The state of a tracker between two windows, shared by the files of this folder. */
#ifndef SONAR_TRACKS_STATE_H
#define SONAR_TRACKS_STATE_H

#include "analysis/tracks/associate.h"
#include "analysis/tracks/filter.h"
#include "analysis/tracks/tracks.h"

enum { SONAR_TRACKS_SOURCES = 2, SONAR_TRACKS_SIDES = 2 };
#define SONAR_TRACKS_DETECTED    0.8    /* probability that a heard contact has a plot */
#define SONAR_TRACKS_CONFIRMED   0.9999 /* probability of existence */
#define SONAR_TRACKS_MOVED_BEAMS 0.05   /* displacement of a plot by neighbours and reflections */

struct side {
    sonar_bearing is;
    double weight;
};

/* A tone that a track has, and the probability that its next plot shows it. */
struct known_tone {
    double hz, shown;
};

struct follow {
    uint64_t number; /* 0: not shown yet */
    bool confirmed;  /* was confirmed at some time */
    /* probabilities of the chain's states; probability of existence at the beginning */
    double heard, unheard, first;
    size_t sides;
    struct side side[SONAR_TRACKS_SIDES];
    double power, snr_db; /* power: recent mean */
    double declared_rad2; /* variance of the bearing by errors that all windows share */
    double age_s, since_s;
    size_t contact;
    unsigned rests_on;
    size_t tones;
    struct known_tone tone[SONAR_TONES_MOST];
};

/* A plot: a contact of the window, with the row that is used for it. */
struct plot {
    const sonar_detection *row;
    sonar_bearing_plot is;
    double density;       /* density of false plots at the place, per unit of the place */
    double declared_rad2; /* variance of its bearing in addition to that by noise */
    double fresh;
    bool image, left_out;
};

struct sonar_tracks {
    uint64_t numbers;   /* numbers given so far */
    double false_plots; /* expected in a window */
    double bin_hz;      /* of the present window */
    bool is_true;
    double heading_deg; /* last known */
    size_t count;
    struct follow track[SONAR_TRACKS_MOST];
    /* the present window */
    sonar_bearing_look look[SONAR_TRACKS_SOURCES];
    double beam[SONAR_TRACKS_SOURCES]; /* beam width, in the unit of places */
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

/* Density of the plot under the track, over its sides. */
static inline double sonar_tracks_density(const sonar_tracks *s, size_t t, size_t plot) {
    double density = 0;
    for (size_t i = 0; i < s->track[t].sides; i++)
        density += s->track[t].side[i].weight * s->likelihood[t][i][plot];
    return density;
}

/* tones.c: the likelihood of the plot's tones if it is of the track, or (other not NULL) of both
 * tracks, divided by that if it is of neither. 1 as long as no tone is known. */
double sonar_tracks_tones_ratio(const sonar_tracks *s, const struct follow *f,
                                const struct follow *other, size_t plot);
/* Writes the tones that are known, the most lasting first, and returns their number. */
size_t sonar_tracks_tones(const struct follow *f, double hz[SONAR_TONES_MOST]);
/* Learns the tones of a plot that is the track's own, dt seconds after the window before. */
void sonar_tracks_learn_tones(sonar_tracks *s, struct follow *f, size_t plot, double dt);

/* The steps of a window, in this order: sets the geometry of each beamformer, makes the plots, sets
 * the weights of the association, updates each track, lets contacts of the spectrum keep or begin
 * tracks. */
void sonar_tracks_look_at(sonar_tracks *s, const sonar_tracks_window *w);
void sonar_tracks_gather_plots(sonar_tracks *s, const sonar_tracks_window *w);
void sonar_tracks_weigh(sonar_tracks *s, bool cbf);
void sonar_tracks_update(sonar_tracks *s, double dt);
void sonar_tracks_take_faint(sonar_tracks *s, const sonar_tracks_window *w);
void sonar_tracks_begin_faint(sonar_tracks *s, const sonar_faint_contact *contact);

#endif
