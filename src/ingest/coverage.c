/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/coverage.h"

#include <stdlib.h>
#include <string.h>

#include "core/core.h"

bool sonar_coverage_init(sonar_coverage *coverage, size_t channels, size_t words) {
    size_t count;
    *coverage = (sonar_coverage){.channels = channels, .words = words};
    if (__builtin_mul_overflow(channels, words, &count))
        return false;
    coverage->bits = sonar_alloc(count, sizeof *coverage->bits);
    return coverage->bits != NULL;
}

void sonar_coverage_clear(sonar_coverage *coverage) {
    free(coverage->bits);
}

void sonar_coverage_forget(sonar_coverage *coverage, uint64_t from, uint64_t end) {
    size_t words = coverage->words, count = (size_t)((end - from) / 64);
    size_t first = (size_t)(from / 64 % words);
    if (count > words)
        count = words;
    size_t head = sonar_min_size(count, words - first);
    for (size_t k = 0; k < coverage->channels; k++) {
        uint64_t *row = coverage->bits + k * words;
        memset(row + first, 0, head * sizeof *row);
        memset(row, 0, (count - head) * sizeof *row);
    }
}

/* A walk over the words that hold [from, end) of one channel. */
struct walk {
    uint64_t *row;
    size_t words, column;
    uint64_t word, from, end;
};

static struct walk begin(const sonar_coverage *coverage, size_t channel, uint64_t from,
                         uint64_t end) {
    return (struct walk){.row = coverage->bits + channel * coverage->words,
                         .words = coverage->words,
                         .column = (size_t)(from / 64 % coverage->words),
                         .word = from / 64,
                         .from = from,
                         .end = end};
}

static bool more(const struct walk *walk) {
    return walk->word * 64 < walk->end;
}

static void next(struct walk *walk) {
    walk->word++;
    if (++walk->column == walk->words)
        walk->column = 0;
}

/* The bits of the current word that lie in [from, end). */
static uint64_t mask(const struct walk *walk) {
    uint64_t first = walk->word * 64, bits = ~(uint64_t)0;
    if (first < walk->from)
        bits &= ~(uint64_t)0 << (walk->from - first);
    if (walk->end - first < 64)
        bits &= ~(~(uint64_t)0 << (walk->end - first));
    return bits;
}

void sonar_coverage_mark(sonar_coverage *coverage, size_t channel, uint64_t from, uint64_t end) {
    for (struct walk w = begin(coverage, channel, from, end); more(&w); next(&w))
        w.row[w.column] |= mask(&w);
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
        uint64_t absent = mask(&w) & ~w.row[w.column];
        count += (size_t)__builtin_popcountll(absent);
        if (absent && run)
            report_runs(absent, w.word * 64, channel, run, arg);
    }
    return count;
}

uint64_t sonar_coverage_next_absent(const sonar_coverage *coverage, size_t channel, uint64_t from,
                                    uint64_t end) {
    for (struct walk w = begin(coverage, channel, from, end); more(&w); next(&w)) {
        uint64_t absent = mask(&w) & ~w.row[w.column];
        if (absent)
            return w.word * 64 + (uint64_t)__builtin_ctzll(absent);
    }
    return end;
}
