/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Plays recordings of several ranks that shared an array: each rank's recordings in their own
 * process, all at the same time. */
#ifndef REPLAY_RANKS_H
#define REPLAY_RANKS_H

#include <signal.h>

#include "ranks/cluster.h"

typedef struct ranks_recordings {
    size_t ranks; /* number of ranks with recordings; 1 for recordings of a single process */
    char **path;  /* [files] sorted by rank, and within a rank in the given order */
    size_t begin[SONAR_RANKS_MOST + 1]; /* index into path for each rank */
} ranks_recordings;

/* Reads the rank from each file. Call destroy in any case. */
sonar_code ranks_sort(char *const *path, size_t files, ranks_recordings *sorted, sonar_error *err);
void ranks_destroy(ranks_recordings *sorted);

typedef struct ranks_player {
    const char *tool;
    const char *summary; /* file for the summaries, as {"ranks": [...]}; NULL: stdout */
    const volatile sig_atomic_t *stop;
    /* Runs in a rank's process: plays its files, writes a summary to that file, returns the exit
     * code. */
    int (*play)(void *ctx, char *const *path, size_t files, const char *summary);
    void *ctx;
} ranks_player;

/* Plays all and waits. When one fails, the others are stopped. Returns the exit code: 0, or the
 * first one that is not 0. */
int ranks_play(const ranks_recordings *sorted, const ranks_player *player);

#endif
