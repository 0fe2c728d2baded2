/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Recordings of several ranks that shared an array: those of each rank are played by a process of
 * its own, all at the same time. */
#ifndef REPLAY_RANKS_H
#define REPLAY_RANKS_H

#include <signal.h>

#include "ranks/cluster.h"

typedef struct ranks_recordings {
    size_t ranks;                       /* that have any; 1 for recordings of one process */
    char **path;                        /* [files] sorted by rank, each rank's in their own order */
    size_t begin[SONAR_RANKS_MOST + 1]; /* into path, of each */
} ranks_recordings;

/* Looks into each file for its rank; destroy is needed in any case. */
sonar_code ranks_sort(char *const *path, size_t files, ranks_recordings *sorted, sonar_error *err);
void ranks_destroy(ranks_recordings *sorted);

typedef struct ranks_player {
    const char *tool;
    const char *summary; /* where the summaries go, as {"ranks": [...]}; NULL: to stdout */
    const volatile sig_atomic_t *stop;
    /* In the process of a rank: plays its files, writes a summary there, returns the exit code. */
    int (*play)(void *ctx, char *const *path, size_t files, const char *summary);
    void *ctx;
} ranks_player;

/* Plays them all and waits. When one fails the others are stopped. Returns the exit code: 0, or the
 * first one that was not. */
int ranks_play(const ranks_recordings *sorted, const ranks_player *player);

#endif
