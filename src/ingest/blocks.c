/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/blocks.h"

#include <math.h>

/* Frames may be out of order within this range; the number of bits in `came`. */
enum { DISORDER = 64 };

static bool is_block(const sonar_block_state *block, const sonar_frame *frame) {
    return block->report.first_channel == frame->first_channel &&
           block->report.channels == frame->channels;
}

static bool is_silent(const sonar_block_state *block, int64_t now_ns, int64_t silent_after_ns) {
    return now_ns - block->report.heard_ns >= silent_after_ns;
}

/* The place of a new block: behind the others or, in a full table, in place of a block that brought
 * only one frame; SONAR_BLOCKS_MOST if there is none. */
static size_t place_of_new(const sonar_blocks *blocks) {
    size_t i = blocks->count;
    if (i == SONAR_BLOCKS_MOST)
        for (i = 0; i < SONAR_BLOCKS_MOST && blocks->block[i].frames > 1; i++)
            continue;
    return i;
}

static size_t find(const sonar_blocks *blocks, const sonar_frame *frame) {
    size_t i = blocks->last;
    if (i >= blocks->count || !is_block(&blocks->block[i], frame))
        for (i = 0; i < blocks->count && !is_block(&blocks->block[i], frame); i++)
            continue;
    return i;
}

sonar_block_state *sonar_blocks_receive(sonar_blocks *blocks, const sonar_frame *frame, bool begin,
                                        int64_t now_ns, int64_t silent_after_ns) {
    size_t i = find(blocks, frame);
    bool known = i < blocks->count;
    if (!known)
        i = begin ? place_of_new(blocks) : SONAR_BLOCKS_MOST;
    if (i == SONAR_BLOCKS_MOST)
        return NULL;
    sonar_block_state *block = &blocks->block[i];
    if (!known)
        *block = (sonar_block_state){
            .report = {.first_channel = frame->first_channel, .channels = frame->channels}};
    blocks->count += i == blocks->count;
    blocks->last = i;
    if (!known || is_silent(block, now_ns, silent_after_ns))
        block->since_ns = now_ns;
    block->report.heard_ns = now_ns;
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
    sonar_block_report *report = &block->report;
    uint64_t end = frame->first_sample + frame->samples;
    block->frames += block->frames < 2;
    bool follows = report->frames && frame->sequence == block->last_sequence + 1 &&
                   frame->first_sample >= block->last_first;
    if (follows) {
        report->step = frame->first_sample - block->last_first;
        report->step_over = report->samples;
    }
    block->last_first = frame->first_sample;
    block->last_sequence = frame->sequence;
    report->samples = frame->samples;
    report->replay = frame->flags & SONAR_FRAME_REPLAY;
    if (!report->frames++) {
        report->begin_ns = now_ns;
        report->begin_sample = end;
    }
    if (end >= report->end_sample) {
        report->end_sample = end;
        report->end_ns = now_ns;
        report->utc_ns = frame->utc_ns;
        report->end_utc_ns = utc_of_end(frame, fs_hz);
    }
    return follows && report->step != report->step_over;
}

/* Sequence numbers before the first one received do not count as missing. */
static int64_t begin_count(sonar_block_state *block, uint64_t sequence) {
    block->counting = true;
    block->highest = sequence;
    block->came = ~(uint64_t)0;
    block->far = 0;
    return 0;
}

static int64_t count_on(sonar_block_state *block, uint64_t sequence) {
    uint64_t step = sequence - block->highest;
    block->came = (step < DISORDER ? block->came << step : 0) | 1;
    block->highest = sequence;
    return (int64_t)(step - 1);
}

/* A single number is not trusted, because a wrong bit can change it to any value. A jump by years
 * of frames means a restarted counter, not a loss. */
static int64_t follow_far(sonar_block_state *block, uint64_t sequence) {
    const uint64_t plausible = (uint64_t)1 << 32;
    const uint64_t on =
        sequence - block->far_last; /* wraps to a large value where it lies behind */
    if (!block->far || on == 0 || on >= DISORDER) {
        block->far = 0;
        block->far_first = sequence;
    }
    block->far++;
    block->far_last = sequence;
    bool ahead = sequence > block->highest;
    if (block->far < (ahead ? 2 : DISORDER))
        return 0;
    block->far = 0;
    if (!ahead || block->far_first - block->highest > plausible)
        return begin_count(block, sequence);
    int64_t lost = count_on(block, block->far_first);
    return lost + count_on(block, sequence);
}

int64_t sonar_block_follow(sonar_block_state *block, uint64_t sequence) {
    if (!block->counting)
        return begin_count(block, sequence);
    bool ahead = sequence > block->highest;
    uint64_t away = ahead ? sequence - block->highest : block->highest - sequence;
    if (away >= DISORDER)
        return follow_far(block, sequence);
    block->far = 0;
    if (ahead)
        return count_on(block, sequence);
    if (block->came >> away & 1)
        return 0;
    block->came |= (uint64_t)1 << away;
    return -1;
}

sonar_block_totals *sonar_blocks_total(sonar_blocks *blocks, const sonar_frame *frame) {
    for (size_t i = 0; i < blocks->totals; i++)
        if (blocks->total[i].first_channel == frame->first_channel &&
            blocks->total[i].channels == frame->channels)
            return &blocks->total[i];
    if (blocks->totals == SONAR_BLOCKS_MOST)
        return NULL;
    blocks->total[blocks->totals] =
        (sonar_block_totals){.first_channel = frame->first_channel, .channels = frame->channels};
    return &blocks->total[blocks->totals++];
}

void sonar_blocks_restart(sonar_blocks *blocks) {
    blocks->count = 0;
    blocks->last = 0;
}

void sonar_blocks_begin(sonar_blocks *blocks) {
    for (size_t i = 0; i < blocks->count; i++) {
        sonar_block_report *report = &blocks->block[i].report;
        *report = (sonar_block_report){.first_channel = report->first_channel,
                                       .channels = report->channels,
                                       .heard_ns = report->heard_ns};
    }
}

/* The end of the channels, from `at` on, that one other block has sent since this one is gone; `at`
 * if there is no such block. */
static uint64_t brought_to(const sonar_blocks *blocks, uint64_t at,
                           const sonar_block_report *gone) {
    uint64_t to = at;
    for (size_t i = 0; i < blocks->count; i++) {
        const sonar_block_state *block = &blocks->block[i];
        const uint64_t first = block->report.first_channel, end = first + block->report.channels;
        if (&block->report != gone && block->since_ns >= gone->heard_ns && block->frames > 1 &&
            first <= at && end > to)
            to = end;
    }
    return to;
}

static bool is_replaced(const sonar_blocks *blocks, const sonar_block_report *gone) {
    const uint64_t end = (uint64_t)gone->first_channel + gone->channels;
    uint64_t at = gone->first_channel;
    for (uint64_t to; at < end; at = to)
        if ((to = brought_to(blocks, at, gone)) == at)
            return false;
    return true;
}

static bool is_missed(const sonar_blocks *blocks, const sonar_block_state *silent) {
    return silent->frames > 1 && !is_replaced(blocks, &silent->report);
}

sonar_block_report sonar_blocks_report(const sonar_blocks *blocks, size_t i, int64_t now_ns,
                                       int64_t silent_after_ns) {
    const sonar_block_state *block = &blocks->block[i];
    const sonar_block_report *report = &block->report;
    if (!is_silent(block, now_ns, silent_after_ns) || is_missed(blocks, block))
        return *report;
    return (sonar_block_report){.first_channel = report->first_channel,
                                .channels = report->channels,
                                .heard_ns = report->heard_ns,
                                .passed = true};
}

size_t sonar_blocks_silent(const sonar_blocks *blocks, int64_t now_ns, int64_t silent_after_ns) {
    size_t silent = 0;
    for (size_t i = 0; i < blocks->count; i++)
        silent += is_silent(&blocks->block[i], now_ns, silent_after_ns) &&
                  is_missed(blocks, &blocks->block[i]);
    return silent;
}
