/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/blocks.h"

static bool is_block(const sonar_block_state *block, const sonar_frame *frame) {
    return block->first_channel == frame->first_channel && block->channels == frame->channels;
}

sonar_block_state *sonar_blocks_hear(sonar_blocks *blocks, const sonar_frame *frame,
                                     int64_t now_ns) {
    size_t i = blocks->last;
    if (i >= blocks->count || !is_block(&blocks->block[i], frame))
        for (i = 0; i < blocks->count && !is_block(&blocks->block[i], frame); i++)
            continue;
    if (i == SONAR_BLOCKS_MOST)
        return NULL;
    sonar_block_state *block = &blocks->block[i];
    if (i == blocks->count) {
        *block =
            (sonar_block_state){.first_channel = frame->first_channel, .channels = frame->channels};
        blocks->count++;
    }
    blocks->last = i;
    block->heard_ns = now_ns;
    return block;
}

int64_t sonar_block_follow(sonar_block_state *block, uint64_t sequence) {
    /* A leap of years of frames is a counter that began anew, not a loss. */
    const uint64_t plausible = (uint64_t)1 << 32;
    if (!block->counting || (sequence > block->highest && sequence - block->highest > plausible)) {
        block->counting = true;
        block->highest = sequence;
        block->came = ~(uint64_t)0; /* what was before is not missed */
        return 0;
    }
    if (sequence > block->highest) {
        uint64_t step = sequence - block->highest;
        block->came = (step < 64 ? block->came << step : 0) | 1;
        block->highest = sequence;
        return (int64_t)(step - 1);
    }
    uint64_t back = block->highest - sequence;
    if (back >= 64 || (block->came >> back & 1))
        return 0;
    block->came |= (uint64_t)1 << back;
    return -1;
}

void sonar_blocks_restart(sonar_blocks *blocks) {
    blocks->count = 0;
    blocks->last = 0;
}

size_t sonar_blocks_silent(const sonar_blocks *blocks, int64_t now_ns, int64_t silent_after_ns) {
    size_t silent = 0;
    for (size_t i = 0; i < blocks->count; i++)
        silent += now_ns - blocks->block[i].heard_ns >= silent_after_ns;
    return silent;
}
