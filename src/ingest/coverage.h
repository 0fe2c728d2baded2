/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which samples of the ring have arrived: one bit per sample, so that repeats and gaps are exact
 * however the digitisers divide their frames. Positions never wrap; their bits repeat every `words`
 * words. The words of neighbouring channels are adjacent, so that a frame is booked by a few
 * sequential passes over memory. */
#ifndef SONAR_COVERAGE_H
#define SONAR_COVERAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sonar_coverage {
    size_t channels, stride, words; /* words of 64 samples per channel */
    uint64_t *bits;                 /* [word][stride], the first `channels` of each row */
} sonar_coverage;

/* Called for each run of absent samples, in ascending order. */
typedef void (*sonar_coverage_run)(void *arg, size_t channel, uint64_t from, size_t samples);

bool sonar_coverage_init(sonar_coverage *coverage, size_t channels, size_t words);
void sonar_coverage_clear(sonar_coverage *coverage);
/* Marks [from, end), multiples of 64, as absent in all channels. */
void sonar_coverage_forget(sonar_coverage *coverage, uint64_t from, uint64_t end);
/* True if any sample of [from, end) is present in any of the channels from `first` on. */
bool sonar_coverage_any(const sonar_coverage *coverage, size_t first, size_t channels,
                        uint64_t from, uint64_t end);
/* Marks [from, end) of these channels as present. */
void sonar_coverage_mark(sonar_coverage *coverage, size_t first, size_t channels, uint64_t from,
                         uint64_t end);
/* The words of all channels that hold a position, in bit position % 64. */
const uint64_t *sonar_coverage_row(const sonar_coverage *coverage, uint64_t position);
/* Returns how many of [from, end) are absent; calls run (if any) for each run of them, cut at
 * multiples of 64 positions. */
size_t sonar_coverage_absent(const sonar_coverage *coverage, size_t channel, uint64_t from,
                             uint64_t end, sonar_coverage_run run, void *arg);
/* The first absent position at or after `from`, at most `end`. */
uint64_t sonar_coverage_next_absent(const sonar_coverage *coverage, size_t channel, uint64_t from,
                                    uint64_t end);

#endif
