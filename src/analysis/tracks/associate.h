/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Assigns plots to tracks: joint probabilistic data association. In a joint event a track has at
 * most one plot, and a plot has at most one track, or two tracks that the array cannot resolve
 * (Koch and van Keuk, IEEE Trans. AES 33, 1997). All joint events are weighted in each cluster of
 * tracks that compete for plots.
 *
 * If all events counted in which near tracks exchange their plots, the tracks would draw together
 * until they coalesce. So of the events with the same tracks and the same plots, only the most
 * likely one counts (JPDA*: Blom and Bloem, IEEE Trans. AC 45, 2000).
 */
#ifndef SONAR_TRACKS_ASSOCIATE_H
#define SONAR_TRACKS_ASSOCIATE_H

#include "status/result.h"

enum {
    SONAR_PLOTS_MOST = 2 * SONAR_DETECTIONS_MOST,
    SONAR_TRACK_PAIRS_MOST = 64,
    SONAR_EVENTS_MOST =
        8192 /* of a cluster; with more, its least likely plots and pairs are left out */
};

/* Two tracks, a < b, that may share a plot. */
typedef struct sonar_track_pair {
    size_t a, b;
    double together; /* probability that the array cannot resolve them */
    double covers;   /* probability that the weaker one has no plot because of the other; not used
                        here */
    double bias[2];  /* of a's own plot if b has none, and the reverse: degree, 0 to 1, to which the
                        plot counts as one of both */
    double weight[SONAR_PLOTS_MOST]; /* weight of the event that both share the plot */
} sonar_track_pair;

typedef struct sonar_association {
    /* in */
    size_t tracks, plots, pairs;
    /* weight of the event that the track has the plot: its likelihood divided by the density of
     * false plots. 0: outside the gate */
    double weight[SONAR_TRACKS_MOST][SONAR_PLOTS_MOST];
    double missed[SONAR_TRACKS_MOST]; /* weight of the event that the track has no plot, > 0 */
    sonar_track_pair pair[SONAR_TRACK_PAIRS_MOST];
    bool sharp[SONAR_PLOTS_MOST]; /* the plot is of a beamformer that resolves all tracks */
    bool exchange;                /* all exchanged events count, as in the textbook's JPDA */
    /* out */
    double own[SONAR_TRACKS_MOST][SONAR_PLOTS_MOST];  /* probability that the track has the plot */
    double sure[SONAR_TRACKS_MOST][SONAR_PLOTS_MOST]; /* the part of `own` without bias */
    double both[SONAR_TRACKS_MOST]; /* probability that it shares a plot with another track */
    double none[SONAR_TRACKS_MOST]; /* probability that it has no plot */
    double taken[SONAR_PLOTS_MOST]; /* probability that some track has the plot */
} sonar_association;

typedef struct sonar_associate sonar_associate;

/* NULL: no memory. */
sonar_associate *sonar_associate_create(void);
void sonar_associate_destroy(sonar_associate *associate); /* NULL is allowed */
/* Computes the probabilities. Sets weights that it leaves out to 0, and removes pairs that it
 * leaves out. No allocation. */
void sonar_associate_run(sonar_associate *associate, sonar_association *a);

#endif
