/* SPDX-License-Identifier: GPL-3.0-or-later */
/* State of each channel block (one digitiser's share of the array): sequence numbers, time of the
 * last frame, position of the newest sample, clock. */
#ifndef SONAR_BLOCKS_H
#define SONAR_BLOCKS_H

#include "status/result.h"
#include "ingest/frame.h"

typedef struct sonar_block_state {
    sonar_block_report told; /* what the report shows */
    int64_t since_ns;        /* when it was first heard, or heard again after a silence */
    uint64_t last_first;     /* index of the last frame's first sample */
    uint64_t last_sequence;
    uint32_t frames;              /* frames accepted or late, counted up to 2 */
    bool counting;                /* highest and came are valid */
    uint64_t highest;             /* sequence number */
    uint64_t came;                /* bit k: frame highest - k came */
    uint64_t far_first, far_last; /* consecutive numbers far from `highest`... */
    uint32_t far;                 /* ...and how many of them came */
} sonar_block_state;

typedef struct sonar_blocks {
    size_t count, last; /* last: the block found most recently, looked up first */
    sonar_block_state block[SONAR_BLOCKS_MOST];
    size_t totals; /* all blocks since the start, of any stream */
    sonar_block_totals total[SONAR_BLOCKS_MOST];
} sonar_blocks;

/* Finds the frame's block, or with `begin` creates it, and notes that it was heard; NULL if there
 * is none or the table is full. A block unheard for silent_after_ns was silent. */
sonar_block_state *sonar_blocks_hear(sonar_blocks *blocks, const sonar_frame *frame, bool begin,
                                     int64_t now_ns, int64_t silent_after_ns);
/* Follows the sequence; returns the change of the count of missing frames: -1 when a frame that
 * counted as missing came late. Disorder is followed over 64 frames. A number farther away counts
 * only once the next one follows on it, or once 64 behind it do: it may be one wrong bit. */
int64_t sonar_block_follow(sonar_block_state *block, uint64_t sequence);
/* Notes the end of the frame's samples and the time it gives for them. True if the sample index has
 * advanced by a different amount than the length of the frame before, which it followed. */
bool sonar_block_track(sonar_block_state *block, const sonar_frame *frame, double fs_hz,
                       int64_t now_ns);
/* Totals of the frame's block since the start; NULL: the table is full. */
sonar_block_totals *sonar_blocks_total(sonar_blocks *blocks, const sonar_frame *frame);
/* A new stream: sequences restart, blocks unheard in it are forgotten. */
void sonar_blocks_restart(sonar_blocks *blocks);
/* A new timeline of the same stream: the report's sample positions are reset. */
void sonar_blocks_begin(sonar_blocks *blocks);
/* What the report shows of block i. A silent block is missed, except where it sent only one frame,
 * whose shape may be an error, or where other blocks send all its channels and appeared after it
 * fell silent: a digitiser that returned with another number of channels. */
sonar_block_report sonar_blocks_told(const sonar_blocks *blocks, size_t i, int64_t now_ns,
                                     int64_t silent_after_ns);
/* Number of blocks that are silent and missed. */
size_t sonar_blocks_silent(const sonar_blocks *blocks, int64_t now_ns, int64_t silent_after_ns);

#endif
