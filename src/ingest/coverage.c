/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/coverage.h"

#include <stdlib.h>
#include <string.h>

#include "core/core.h"

/* Rows a multiple of 4 KiB apart would share cache sets. */
static size_t stride_of(size_t channels) {
    return channels % 512 ? channels : channels + 8;
}

bool sonar_coverage_init(sonar_coverage *coverage, size_t channels, size_t words) {
    size_t count;
    *coverage =
        (sonar_coverage){.channels = channels, .stride = stride_of(channels), .words = words};
    if (__builtin_mul_overflow(coverage->stride, words, &count))
        return false;
    coverage->bits = sonar_alloc(count, sizeof *coverage->bits);
    return coverage->bits != NULL;
}

void sonar_coverage_clear(sonar_coverage *coverage) {
    free(coverage->bits);
}

void sonar_coverage_forget(sonar_coverage *coverage, uint64_t from, uint64_t end) {
    size_t words = coverage->words, count = (size_t)((end - from) / 64);
    size_t first = (size_t)(from / 64 % words), row_bytes = coverage->stride * sizeof(uint64_t);
    if (count > words)
        count = words;
    size_t head = sonar_min_size(count, words - first);
    memset(coverage->bits + first * coverage->stride, 0, head * row_bytes);
    memset(coverage->bits, 0, (count - head) * row_bytes);
}

/* Iteration over the rows that hold [from, end). */
struct walk {
    uint64_t *bits; /* the first row, at the first channel wanted */
    size_t stride, words, row;
    uint64_t word, from, end;
};

static struct walk begin(const sonar_coverage *coverage, size_t channel, uint64_t from,
                         uint64_t end) {
    return (struct walk){.bits = coverage->bits + channel,
                         .stride = coverage->stride,
                         .words = coverage->words,
                         .row = (size_t)(from / 64 % coverage->words),
                         .word = from / 64,
                         .from = from,
                         .end = end};
}

static bool more(const struct walk *walk) {
    return walk->word * 64 < walk->end;
}

static void next(struct walk *walk) {
    walk->word++;
    if (++walk->row == walk->words)
        walk->row = 0;
}

static uint64_t *words_of(const struct walk *walk) {
    return walk->bits + walk->row * walk->stride;
}

/* The bits of the current words that lie in [from, end). */
static uint64_t mask(const struct walk *walk) {
    uint64_t first = walk->word * 64, bits = ~(uint64_t)0;
    if (first < walk->from)
        bits &= ~(uint64_t)0 << (walk->from - first);
    if (walk->end - first < 64)
        bits &= ~(~(uint64_t)0 << (walk->end - first));
    return bits;
}

SONAR_MULTIARCH static uint64_t unite(const uint64_t *words, size_t n) {
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= words[i];
    return all;
}

SONAR_MULTIARCH static void set(uint64_t *words, size_t n, uint64_t bits) {
    for (size_t i = 0; i < n; i++)
        words[i] |= bits;
}

bool sonar_coverage_any(const sonar_coverage *coverage, size_t first, size_t channels,
                        uint64_t from, uint64_t end) {
    for (struct walk w = begin(coverage, first, from, end); more(&w); next(&w))
        if (unite(words_of(&w), channels) & mask(&w))
            return true;
    return false;
}

void sonar_coverage_mark(sonar_coverage *coverage, size_t first, size_t channels, uint64_t from,
                         uint64_t end) {
    for (struct walk w = begin(coverage, first, from, end); more(&w); next(&w))
        set(words_of(&w), channels, mask(&w));
}

const uint64_t *sonar_coverage_row(const sonar_coverage *coverage, uint64_t position) {
    return coverage->bits + (size_t)(position / 64 % coverage->words) * coverage->stride;
}

static void report_runs(uint64_t absent, uint64_t first, size_t channel, sonar_coverage_run run,
                        void *arg) {
    while (absent) {
        int start = __builtin_ctzll(absent);
        uint64_t rest = ~(absent >> start);
        int length = rest ? __builtin_ctzll(rest) : 64;
        run(arg, channel, first + (uint64_t)start, (size_t)length);
        absent &= ~(~(uint64_t)0 >> (64 - length) << start);
    }
}

size_t sonar_coverage_absent(const sonar_coverage *coverage, size_t channel, uint64_t from,
                             uint64_t end, sonar_coverage_run run, void *arg) {
    size_t count = 0;
    for (struct walk w = begin(coverage, channel, from, end); more(&w); next(&w)) {
        uint64_t absent = mask(&w) & ~*words_of(&w);
        count += (size_t)__builtin_popcountll(absent);
        if (absent && run)
            report_runs(absent, w.word * 64, channel, run, arg);
    }
    return count;
}

uint64_t sonar_coverage_next_absent(const sonar_coverage *coverage, size_t channel, uint64_t from,
                                    uint64_t end) {
    for (struct walk w = begin(coverage, channel, from, end); more(&w); next(&w)) {
        uint64_t absent = mask(&w) & ~*words_of(&w);
        if (absent)
            return w.word * 64 + (uint64_t)__builtin_ctzll(absent);
    }
    return end;
}
