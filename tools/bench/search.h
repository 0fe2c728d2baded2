/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The largest of ascending sizes that holds, by trials of which some go wrong: a noisy binary
 * search (R. M. Karp, R. Kleinberg, Noisy binary search and its applications, SODA 2007). Each
 * trial is made where it tells most, and moves how likely each answer is by how often trials lie;
 * so one unlucky trial costs another trial, not the answer.
 */
#ifndef BENCH_SEARCH_H
#define BENCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

enum { SEARCH_SIZES_MOST = 32 };

typedef enum search_outcome { SEARCH_LOST, SEARCH_HELD, SEARCH_IMPOSSIBLE } search_outcome;

typedef struct search {
    size_t sizes;
    double likely[SEARCH_SIZES_MOST + 1]; /* [n] that the first n sizes hold; their sum is 1 */
} search;

/* Nothing is known yet. sizes: 1 to SEARCH_SIZES_MOST. */
search search_begin(size_t sizes);

/* The size to be tried next, 0 the smallest. */
size_t search_next(const search *s);

/* What came of it. SEARCH_IMPOSSIBLE: this size and larger ones cannot be run at all. */
void search_note(search *s, size_t size, search_outcome outcome);

/* How many sizes most likely hold; true if that is certain enough to end. */
bool search_end(const search *s, size_t *hold);

#endif
