/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Recordings that follow on each other, as one: the segments that sonard makes, or a single file of
 * any kind, which is open at a time; or several side by side as that single file. */
#ifndef REPLAY_TAPE_H
#define REPLAY_TAPE_H

#include "beside.h"

/* The UTC that is played. */
typedef enum tape_date {
    TAPE_RECORDED = 0, /* what the recording says */
    TAPE_UNKNOWN,
    TAPE_GIVEN /* of the first sample of all */
} tape_date;

typedef struct tape_spec {
    const char *tool; /* its name, for what there is to say */
    char *const *path;
    size_t files;
    bool beside; /* they are of the same time */
    tape_date date;
    int64_t utc_ns; /* given */
} tape_spec;

typedef struct tape {
    tape_spec spec;
    size_t files;
    char *const *path;        /* [files], borrowed */
    uint64_t *begin;          /* [files + 1] sample of the tape with which each begins */
    sim_recording_info first; /* what the first file says; its lists are not valid */
    size_t captures;          /* of all files */
    size_t blocks;            /* of channels that are there, or missing, together */
    uint32_t *first_channel;  /* [blocks] */
    /* the open file */
    size_t file;
    beside *recording;
    const sim_recording_info *info;
    /* where the stream stands */
    uint64_t next_index;
    uint64_t stream; /* of the end of the file before */
    bool begun;
} tape;

/* What comes next, at most `most` samples of it. */
typedef struct tape_piece {
    size_t samples;
    bool seek;       /* index, utc_ns and flags are to be taken over */
    bool jump;       /* it does not follow on what came before... */
    bool new_stream; /* ...and is of another stream */
    uint64_t index;
    int64_t utc_ns;
    uint16_t flags;
    bool whole; /* nothing is missing in it */
} tape_piece;

/* Looks into all files, which have to be of the same channels and rate. SONAR_EINVAL,
 * SONAR_EUNAVAILABLE; close is needed in any case. */
sonar_code tape_open(tape *tape, const tape_spec *spec, sonar_error *err);
/* The first sample of all has this UTC from now on. */
void tape_date_from(tape *tape, int64_t utc_ns);
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
