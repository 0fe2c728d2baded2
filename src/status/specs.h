/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The stages' specifications and how windows are cut into snapshots: everything of a configuration
 * that an engine needs. */
#ifndef SONAR_SPECS_H
#define SONAR_SPECS_H

#include "sonar/stages.h"

typedef struct sonar_specs {
    size_t window_length, hop; /* N, H; samples */
    size_t cbf_hop;            /* between the CBF's snapshots in a window */
    bool mvdr_enabled;
    bool own_mvdr_dft;    /* the MVDR's snapshots come from a DFT of their own */
    size_t mvdr_hop;      /* between the MVDR's snapshots */
    size_t mvdr_lookback; /* samples before a window in which one of its snapshots may begin */
    size_t beams;         /* with a time series each */
    size_t beam_delay;    /* samples: the largest delay that steers a beam, in either direction */
    size_t beam_reach;    /* the same with room for other sound speeds; that of the start holds */
    size_t lookback;      /* samples before a window that something reads */
    sonar_dft_spec dft, mvdr_dft;
    sonar_cbf_spec cbf;
    sonar_mvdr_spec mvdr; /* valid if the MVDR is enabled */
    sonar_mvdr_tones
        tones; /* of the MVDR's window; `mvdr` borrows it, so the struct must not be copied */
} sonar_specs;

/* Sets the shape of a surface as the engine makes it and returns its rank; 0: it is not made. */
int sonar_specs_surface(const sonar_specs *specs, sonar_surface surface, size_t shape[2]);

#endif
