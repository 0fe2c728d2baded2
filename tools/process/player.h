/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A recording that is handed to a pipeline as frames, the same as sonar-replay sends, as fast as
 * they are taken. One thread, which is the pipeline's control thread. */
#ifndef PROCESS_PLAYER_H
#define PROCESS_PLAYER_H

#include <signal.h>

#include "session/feeder.h"
#include "sender.h"
#include "tape.h"

typedef struct player_spec {
    tape_spec tape;
    const sonar_config *config;
    double fs_hz; /* the recording's, if its header is wrong; 0: as it says */
    double start_s, duration_s;
    const volatile sig_atomic_t *stop;
} player_spec;

typedef struct player {
    player_spec spec;
    tape tape;
    uint64_t at, first, end; /* samples of the tape */
    double fs_hz;
    sim_sender *sender;
    sonar_feeder *feeder; /* borrowed */
    bool parted;          /* some channels lack samples: their blocks are sent as they are */
    float *counts;        /* [channel][frame] */
    uint8_t *absent;      /* [block of channels] */
} player;

/* Looks into the files and whether they fit the configuration. close is needed in any case.
 * SONAR_EINVAL, SONAR_EUNAVAILABLE. */
sonar_code player_open(player *player, const player_spec *spec, sonar_error *err);
/* Everything, until the end or *stop, through all windows. */
sonar_code player_run(player *player, sonar_feeder *feeder, sonar_error *err);
void player_close(player *player);

#endif
