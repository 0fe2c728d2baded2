/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The largest of ascending sizes that holds, by unreliable trials: a noisy binary search (R. M.
 * Karp, R. Kleinberg, Noisy binary search and its applications, SODA 2007). Each trial is made at
 * the most informative size and updates the probability of each answer by the known error rate of
 * trials. So one wrong trial costs another trial, but does not change the answer.
 */
#ifndef BENCH_SEARCH_H
#define BENCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

enum { SEARCH_SIZES_MOST = 32 };

typedef enum search_outcome { SEARCH_LOST, SEARCH_HELD, SEARCH_IMPOSSIBLE } search_outcome;

typedef struct search {
    size_t sizes;
    double likely[SEARCH_SIZES_MOST +
                  1]; /* [n] probability that exactly the first n sizes hold; their sum is 1 */
} search;

/* Starts with equal probabilities. sizes: 1 to SEARCH_SIZES_MOST. */
search search_begin(size_t sizes);

/* Index of the size to try next, 0 is the smallest. */
size_t search_next(const search *s);

/* Records the outcome of a trial. SEARCH_IMPOSSIBLE: this size and larger ones cannot be run. */
void search_note(search *s, size_t size, search_outcome outcome);

/* The most likely number of sizes that hold; true if its probability suffices to end the search. */
bool search_end(const search *s, size_t *hold);

#endif
