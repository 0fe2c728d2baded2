/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which plot is of which track: joint probabilistic data association. All joint events, in which a
 * track has at most one plot and a plot at most one track, or two tracks that the array cannot tell
 * apart (Koch and van Keuk, IEEE Trans. AES 33, 1997), are weighed in each cluster of tracks that
 * compete for plots.
 *
 * Weighing exchanged events draws near tracks together until they coalesce. So of the events in
 * which the same tracks have the same plots, only the most likely exchange counts (JPDA*: Blom and
 * Bloem, IEEE Trans. AC 45, 2000).
 */
#ifndef SONAR_TRACKS_ASSOCIATE_H
#define SONAR_TRACKS_ASSOCIATE_H

#include "status/result.h"

enum {
    SONAR_PLOTS_MOST = 2 * SONAR_DETECTIONS_MOST,
    SONAR_TRACK_PAIRS_MOST = 64,
    SONAR_EVENTS_MOST =
        8192 /* in a cluster; beyond, its least likely plots and pairs are left out */
};

/* Two tracks, a < b, that may have one plot together. */
typedef struct sonar_track_pair {
    size_t a, b;
    double together; /* probability that the array cannot tell them apart */
    double covers;   /* that the weaker one may have no plot because of the other; not used here */
    double bias[2];  /* of a's own plot if b has none, and the reverse: how far the plot must be
                        taken for one of both, 0 to 1 */
    double weight[SONAR_PLOTS_MOST]; /* of the event that the plot is of both */
} sonar_track_pair;

typedef struct sonar_association {
    /* in */
    size_t tracks, plots, pairs;
    double weight[SONAR_TRACKS_MOST][SONAR_PLOTS_MOST]; /* that the plot is the track's: its
        likelihood over the density of false plots. 0: outside the gate */
    double missed[SONAR_TRACKS_MOST]; /* of the event that the track has no plot, > 0 */
    sonar_track_pair pair[SONAR_TRACK_PAIRS_MOST];
    bool sharp[SONAR_PLOTS_MOST]; /* the plot is of a beamformer that tells all tracks apart */
    bool exchange;                /* all exchanged events count, as in the textbook's JPDA */
    /* out */
    double own[SONAR_TRACKS_MOST][SONAR_PLOTS_MOST];  /* probability */
    double sure[SONAR_TRACKS_MOST][SONAR_PLOTS_MOST]; /* the part of it without bias */
    double both[SONAR_TRACKS_MOST];                   /* that it has a plot with another track */
    double none[SONAR_TRACKS_MOST];                   /* that it has none */
    double taken[SONAR_PLOTS_MOST]; /* probability that the plot is of some track */
} sonar_association;

typedef struct sonar_associate sonar_associate;

/* NULL: no memory. */
sonar_associate *sonar_associate_create(void);
void sonar_associate_destroy(sonar_associate *associate); /* NULL is allowed */
/* Weights that are left out are set to 0, and pairs are removed. No allocation. */
void sonar_associate_run(sonar_associate *associate, sonar_association *a);

#endif
