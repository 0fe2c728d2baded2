/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Consecutive recordings as one: segments of sonard, or files of any kind, one of them open at a
 * time; or several recordings side by side as a single file. Files without a count of samples
 * continue each other, with a gap where their dates show one. */
#ifndef REPLAY_TAPE_H
#define REPLAY_TAPE_H

#include "beside.h"
#include "config/config.h"

/* The UTC of the played samples. */
typedef enum tape_date {
    TAPE_RECORDED = 0, /* as recorded */
    TAPE_UNKNOWN,
    TAPE_GIVEN /* of the very first sample */
} tape_date;

typedef struct tape_spec {
    const char *tool; /* the tool's name, for messages */
    char *const *path;
    size_t files;
    bool beside; /* the recordings have the same time */
    tape_date date;
    int64_t utc_ns; /* for TAPE_GIVEN */
    sim_raw raw;    /* the files' samples; type 0: the files declare them */
} tape_spec;

typedef struct tape {
    tape_spec spec;
    size_t files;
    char *const *path;        /* [files], borrowed */
    uint64_t *begin;          /* [files + 1] first sample of each on the tape */
    uint64_t *index;          /* [files] sample of the stream that the file counts as 0 */
    sim_recording_info first; /* from the first file; its lists are not valid */
    size_t captures;          /* of all files */
    size_t blocks;            /* of channels that are present or missing together */
    uint32_t *first_channel;  /* [blocks] */
    /* the open file */
    size_t file;
    beside *recording;
    const sim_recording_info *info;
    /* the position in the stream */
    uint64_t next_index;
    uint64_t stream; /* at the end of the previous file */
    bool begun;
} tape;

/* The next piece, at most `most` samples. */
typedef struct tape_piece {
    size_t samples;
    bool seek;       /* index, utc_ns and flags must be adopted */
    bool jump;       /* it does not continue the previous piece... */
    bool new_stream; /* ...and belongs to another stream */
    uint64_t index;
    int64_t utc_ns;
    uint16_t flags;
    bool whole; /* no samples are missing in it */
} tape_piece;

/* Reads all files, which must have the same channels and rate. SONAR_EINVAL, SONAR_EUNAVAILABLE.
 * Call close in any case. */
sonar_code tape_open(tape *tape, const tape_spec *spec, sonar_error *err);
/* Checks that the recording is what the configuration expects: `channels` channels, played at
 * fs_hz. SONAR_EINVAL, with what can be done. */
sonar_code tape_check(const tape *tape, const sonar_config *config, size_t channels, double fs_hz,
                      sonar_error *err);
/* Sets the UTC of the very first sample. */
void tape_date_from(tape *tape, int64_t utc_ns);
/* Divides blocks, so that no block extends across the lower end of this channel. */
sonar_code tape_cut(tape *tape, size_t channel, sonar_error *err);
void tape_close(tape *tape);
uint64_t tape_samples(const tape *tape);
/* Reads the piece at sample `at` of the tape, which ends at `end`: to[channel][piece->samples], and
 * absent[block]. */
sonar_code tape_read(tape *tape, uint64_t at, uint64_t end, size_t most, float *to, uint8_t *absent,
                     tape_piece *piece, sonar_error *err);
/* The next read begins a new stream. */
void tape_rewind(tape *tape);

#endif
