/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "search.h"

#include <math.h>

/* A size that holds sometimes loses a trial, when other programs take the processors; a size that
 * is too large seldom passes one. */
static const double loses = 0.1, gets_through = 0.02;
static const double certain = 0.95;

search search_begin(size_t sizes) {
    search s = {.sizes = sizes};
    for (size_t n = 0; n <= sizes; n++)
        s.likely[n] = 1 / (double)(sizes + 1);
    return s;
}

size_t search_next(const search *s) {
    size_t best = 0;
    double holds = 1, nearest = 1;
    for (size_t i = 0; i < s->sizes; i++) {
        holds -= s->likely[i];
        if (fabs(holds - 0.5) < nearest) {
            nearest = fabs(holds - 0.5);
            best = i;
        }
    }
    return best;
}

void search_note(search *s, size_t size, search_outcome outcome) {
    const double if_holds[] = {[SEARCH_LOST] = loses, [SEARCH_HELD] = 1 - loses};
    const double if_not[] = {
        [SEARCH_LOST] = 1 - gets_through, [SEARCH_HELD] = gets_through, [SEARCH_IMPOSSIBLE] = 1};
    double sum = 0;
    for (size_t n = 0; n <= s->sizes; n++) {
        if (n <= size)
            s->likely[n] *= if_not[outcome];
        else
            s->likely[n] *= outcome == SEARCH_IMPOSSIBLE ? 0 : if_holds[outcome];
        sum += s->likely[n];
    }
    for (size_t n = 0; n <= s->sizes; n++)
        s->likely[n] /= sum;
}

bool search_end(const search *s, size_t *hold) {
    *hold = 0;
    for (size_t n = 1; n <= s->sizes; n++)
        if (s->likely[n] > s->likely[*hold])
            *hold = n;
    return s->likely[*hold] >= certain;
}
