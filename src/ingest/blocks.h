/* SPDX-License-Identifier: GPL-3.0-or-later */
/* State of each channel block (one digitiser's share of the array): sequence numbers, time of the
 * last frame, position of the newest sample, clock. */
#ifndef SONAR_BLOCKS_H
#define SONAR_BLOCKS_H

#include "status/result.h"
#include "ingest/frame.h"

typedef struct sonar_block_state {
    sonar_block_report report; /* what the report shows */
    int64_t since_ns;          /* when it was first received, or received again after a silence */
    uint64_t last_first;       /* index of the last frame's first sample */
    uint64_t last_sequence;
    uint32_t frames;              /* frames accepted or late, counted up to 2 */
    bool counting;                /* highest and came are valid */
    uint64_t highest;             /* sequence number */
    uint64_t came;                /* bit k: frame highest - k was received */
    uint64_t far_first, far_last; /* consecutive numbers far from `highest`... */
    uint32_t far;                 /* ...and how many of them were received */
} sonar_block_state;

typedef struct sonar_blocks {
    size_t count, last; /* last: the block found most recently, which is tried first */
    sonar_block_state block[SONAR_BLOCKS_MOST];
    size_t totals; /* all blocks since the start, of any stream */
    sonar_block_totals total[SONAR_BLOCKS_MOST];
} sonar_blocks;

/* Finds the frame's block, or with `begin` creates it, and notes that it was received now. NULL if
 * the block does not exist or the table is full. A block not received for silent_after_ns was
 * silent. */
sonar_block_state *sonar_blocks_receive(sonar_blocks *blocks, const sonar_frame *frame, bool begin,
                                        int64_t now_ns, int64_t silent_after_ns);
/* Follows the sequence; returns the change of the count of missing frames: -1 when a frame that
 * counted as missing arrives late. Disorder is tracked over 64 frames. A number farther away may be
 * due to a wrong bit, so it counts only when the next number follows it; if it is lower, when 64
 * numbers follow it. */
int64_t sonar_block_follow(sonar_block_state *block, uint64_t sequence);
/* Notes the end of the frame's samples and the time it gives for them. True if the sample index has
 * advanced by a different amount than the length of the frame before, which it followed. */
bool sonar_block_track(sonar_block_state *block, const sonar_frame *frame, double fs_hz,
                       int64_t now_ns);
/* Totals of the frame's block since the start; NULL: the table is full. */
sonar_block_totals *sonar_blocks_total(sonar_blocks *blocks, const sonar_frame *frame);
/* A new stream: sequences restart, and blocks that have not been received in it are forgotten. */
void sonar_blocks_restart(sonar_blocks *blocks);
/* A new timeline of the same stream: the report's sample positions are reset. */
void sonar_blocks_begin(sonar_blocks *blocks);
/* The report of block i. A silent block counts as missed, with two exceptions. One is a block that
 * sent only one frame, whose shape may be an error. The other is a block all of whose channels are
 * sent by other blocks that appeared after it fell silent: a digitiser that returned with another
 * number of channels. */
sonar_block_report sonar_blocks_report(const sonar_blocks *blocks, size_t i, int64_t now_ns,
                                       int64_t silent_after_ns);
/* Number of blocks that are silent and missed. */
size_t sonar_blocks_silent(const sonar_blocks *blocks, int64_t now_ns, int64_t silent_after_ns);

#endif
