/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the stages have to be for a configuration. */
#ifndef SONAR_SPECS_H
#define SONAR_SPECS_H

#include "config/config.h"
#include "train/train.h"

typedef struct sonar_specs {
    bool own_mvdr_dft; /* the MVDR's snapshots come from a DFT of their own */
    sonar_dft_spec dft, mvdr_dft;
    sonar_cbf_spec cbf;
    sonar_mvdr_spec mvdr;   /* meaningful if the MVDR is enabled */
    sonar_mvdr_tones tones; /* of the MVDR's window; mvdr borrows it: do not copy */
} sonar_specs;

/* The DFTs' planning is left to whoever makes them. */
void sonar_specs_make(const sonar_config *config, sonar_specs *specs);
/* The counts that times depend on. */
sonar_train_shape sonar_specs_shape(const sonar_config *config, const sonar_specs *specs);

#endif
