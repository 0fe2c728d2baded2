/* SPDX-License-Identifier: GPL-3.0-or-later */
/* State of each channel block (one digitiser's share of the array): sequence numbers, time of the
 * last frame, position of the newest sample, clock. */
#ifndef SONAR_BLOCKS_H
#define SONAR_BLOCKS_H

#include "status/result.h"
#include "ingest/frame.h"

typedef struct sonar_block_state {
    sonar_block_report told; /* what the report shows */
    int64_t since_ns;        /* it was heard first, or again after a silence */
    uint64_t last_first;     /* index of the last frame's first sample */
    uint64_t last_sequence;
    uint32_t frames;              /* accepted or late, up to 2 */
    bool counting;                /* highest and came are valid */
    uint64_t highest;             /* sequence number */
    uint64_t came;                /* bit k: highest - k came */
    uint64_t far_first, far_last; /* numbers far away that follow on each other... */
    uint32_t far;                 /* ...so many */
} sonar_block_state;

typedef struct sonar_blocks {
    size_t count, last; /* last: most recently found, looked at first */
    sonar_block_state block[SONAR_BLOCKS_MOST];
    size_t totals; /* blocks that there have been in any stream */
    sonar_block_totals total[SONAR_BLOCKS_MOST];
} sonar_blocks;

/* Finds the frame's block, or with `begin` begins it, and notes that it was heard; NULL if it is
 * not there or the table is full. Unheard for silent_after_ns, it had been silent. */
sonar_block_state *sonar_blocks_hear(sonar_blocks *blocks, const sonar_frame *frame, bool begin,
                                     int64_t now_ns, int64_t silent_after_ns);
/* Follows the sequence; returns by how much the count of frames that never came changes: -1 when
 * one came late after all. Disorder is followed over 64 frames. A number farther away counts once
 * the next one ahead follows on it, or 64 that lie behind do: it may be one wrong bit. */
int64_t sonar_block_follow(sonar_block_state *block, uint64_t sequence);
/* Notes how far the frame's samples come and the time it gives for them. True if the sample index
 * has moved on by something else than the length of the frame before, which it followed. */
bool sonar_block_track(sonar_block_state *block, const sonar_frame *frame, double fs_hz,
                       int64_t now_ns);
/* What the frame's block has brought since the start; NULL: the table is full. */
sonar_block_totals *sonar_blocks_total(sonar_blocks *blocks, const sonar_frame *frame);
/* A new stream: sequences begin anew, blocks unheard in it are forgotten. */
void sonar_blocks_restart(sonar_blocks *blocks);
/* A new timeline of the same stream: the report's sample positions are reset. */
void sonar_blocks_begin(sonar_blocks *blocks);
/* What the report shows of block i. A silent one is missed unless it came in one frame alone, whose
 * shape may be an error, or others bring all its channels, which began or came again when it had
 * gone: a digitiser that returned with another number of channels. */
sonar_block_report sonar_blocks_told(const sonar_blocks *blocks, size_t i, int64_t now_ns,
                                     int64_t silent_after_ns);
/* Blocks that are silent and missed. */
size_t sonar_blocks_silent(const sonar_blocks *blocks, int64_t now_ns, int64_t silent_after_ns);

#endif
