/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Contacts as a detector lists them, made from the truth, for tests of tracks that would take days
 * from samples. */
#ifndef SIMULATED_PLOTS_H
#define SIMULATED_PLOTS_H

#include "analysis/tracks/tracks.h"

enum { PLOTS_SOURCES_MOST = 8 };

typedef struct plots_source {
    double bearing_deg; /* true */
    double power;       /* over a background of 1 */
    double detected;    /* probability in a window */
} plots_source;

typedef struct simulated_plots {
    uint64_t seed;
    sonar_scan scan; /* of a line along azimuth 0, or of a circle; az_deg is set by plots_window */
    double az_deg[2];
    double heading_deg, step_s;
    double sigma_beams;   /* error of a place */
    double false_plots;   /* mean number in a window, anywhere in the scan */
    double false_tone_hz; /* of false plots; 0: none */
    double tone_shown;    /* probability that a plot shows the tone of a source in it */
    size_t sources;
    plots_source source[PLOTS_SOURCES_MOST];
    double tone_hz[PLOTS_SOURCES_MOST]; /* of each source; 0: none */
    sonar_detection detection[SONAR_DETECTIONS_MOST];
    size_t detections;
} simulated_plots;

/* beam_deg: its width, at broadside of a line. */
void plots_begin(simulated_plots *s, bool line, double beam_deg, uint64_t seed);
/* Makes a window's list. Sources closer than a beam width are one contact in their centre of power.
 */
void plots_list(simulated_plots *s);
/* The window of that list, as seen by the CBF alone. */
sonar_tracks_window plots_window(simulated_plots *s);

#endif
