/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The textbook's JPDA, to compare with: two tracks that begin at the truth, a Kalman filter each,
 * all joint events (Bar-Shalom and Li, Multitarget-Multisensor Tracking, 1995, chapter 6); and
 * scores of two tracks of two sources. */
#ifndef JPDA_H
#define JPDA_H

#include "simulated_plots.h"

typedef struct jpda {
    double x[2][2], p[2][2][2]; /* place and rate a second, as the scan counts; unwrapped */
    bool begun;
} jpda;

void jpda_run(jpda *j, simulated_plots *s);
double jpda_bearing_deg(const jpda *j, const simulated_plots *s, int track);

typedef struct jpda_score {
    double gospa; /* sum over windows, in beam widths */
    int windows, switches;
} jpda_score;

/* Adds GOSPA of `count` bearings, with p = 1, a cut-off of 2 beam widths and alpha = 2
 * (Rahmathullah, Garcia-Fernandez and Svensson, FUSION 2017), and counts a switch where one of the
 * two tracks `named` (NaN: it does not exist) has another source within a beam width than owner
 * says
 * (-1: none yet), which is set; sources closer than 2 beam widths count as neither. */
void jpda_score_add(jpda_score *score, const simulated_plots *s, size_t count,
                    const double *bearing_deg, const double named_deg[2], int owner[2]);
double jpda_mean(const jpda_score *score);

#endif
