/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Recordings that follow on each other, as one: the segments that sonard makes, or a single file of
 * any kind. One file is open at a time. */
#ifndef REPLAY_TAPE_H
#define REPLAY_TAPE_H

#include "recording.h"

typedef struct tape {
    size_t files;
    char *const *path;        /* [files], borrowed */
    uint64_t *begin;          /* [files + 1] sample of the tape with which each begins */
    sim_recording_info first; /* what the first file says; its lists are not valid */
    size_t captures;          /* of all files */
    size_t blocks;            /* of channels that are there, or missing, together */
    uint32_t *first_channel;  /* [blocks] */
    /* the open file */
    size_t file;
    sim_recording *recording;
    const sim_recording_info *info;
    /* where the stream stands */
    uint64_t next_index;
    uint64_t stream; /* of the end of the file before */
    bool begun;
} tape;

/* What comes next, at most `most` samples of it. */
typedef struct tape_piece {
    size_t samples;
    bool seek; /* index, utc_ns and flags are to be taken over */
    bool jump; /* it does not follow on what came before... */
    bool anew; /* ...and is of another stream */
    uint64_t index;
    int64_t utc_ns;
    uint16_t flags;
    bool whole; /* nothing is missing in it */
} tape_piece;

/* Looks into all files, which have to be of the same channels and rate. SONAR_EINVAL,
 * SONAR_EUNAVAILABLE; close is needed in any case. */
sonar_code tape_open(tape *tape, char *const *path, size_t files, sonar_error *err);
/* No block has channels on both sides of this one's lower end. */
sonar_code tape_cut(tape *tape, size_t channel, sonar_error *err);
void tape_close(tape *tape);
uint64_t tape_samples(const tape *tape);
/* The piece at sample `at` of the tape, which ends at `end`: to[channel][piece->samples], and
 * absent[block]. */
sonar_code tape_read(tape *tape, uint64_t at, uint64_t end, size_t most, float *to, uint8_t *absent,
                     tape_piece *piece, sonar_error *err);
/* The next read begins a stream of its own. */
void tape_rewind(tape *tape);

#endif
