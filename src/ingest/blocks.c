/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/blocks.h"

#include <math.h>

static bool is_block(const sonar_block_state *block, const sonar_frame *frame) {
    return block->told.first_channel == frame->first_channel &&
           block->told.channels == frame->channels;
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
        *block = (sonar_block_state){
            .told = {.first_channel = frame->first_channel, .channels = frame->channels}};
        blocks->count++;
    }
    blocks->last = i;
    block->told.heard_ns = now_ns;
    return block;
}

/* Unsigned, because a peer may claim any time and overflow must stay harmless. */
static int64_t utc_of_end(const sonar_frame *frame, double fs_hz) {
    if (!frame->utc_ns)
        return 0;
    return (int64_t)((uint64_t)frame->utc_ns +
                     (uint64_t)llround((double)frame->samples * 1e9 / fs_hz));
}

bool sonar_block_track(sonar_block_state *block, const sonar_frame *frame, double fs_hz,
                       int64_t now_ns) {
    sonar_block_report *told = &block->told;
    uint64_t end = frame->first_sample + frame->samples;
    bool follows = told->frames && frame->sequence == block->last_sequence + 1 &&
                   frame->first_sample >= block->last_first;
    if (follows) {
        told->step = frame->first_sample - block->last_first;
        told->step_over = told->samples;
    }
    block->last_first = frame->first_sample;
    block->last_sequence = frame->sequence;
    told->samples = frame->samples;
    if (!told->frames++) {
        told->begin_ns = now_ns;
        told->begin_sample = end;
    }
    if (end >= told->end_sample) {
        told->end_sample = end;
        told->end_ns = now_ns;
        told->utc_ns = frame->utc_ns;
        told->end_utc_ns = utc_of_end(frame, fs_hz);
    }
    return follows && told->step != told->step_over;
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

void sonar_blocks_begin(sonar_blocks *blocks) {
    for (size_t i = 0; i < blocks->count; i++) {
        sonar_block_report *told = &blocks->block[i].told;
        *told = (sonar_block_report){.first_channel = told->first_channel,
                                     .channels = told->channels,
                                     .heard_ns = told->heard_ns};
    }
}

size_t sonar_blocks_silent(const sonar_blocks *blocks, int64_t now_ns, int64_t silent_after_ns) {
    size_t silent = 0;
    for (size_t i = 0; i < blocks->count; i++)
        silent += now_ns - blocks->block[i].told.heard_ns >= silent_after_ns;
    return silent;
}
