/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The gaps of a window by channel, at most SONAR_GAPS_MOST per channel. */
#ifndef SONAR_GAPS_H
#define SONAR_GAPS_H

#include "sonar/sonar.h"

typedef struct sonar_gap_lists {
    size_t channels;
    uint32_t *count; /* [channel] */
    sonar_gap *gap;  /* [channel][SONAR_GAPS_MOST] */
} sonar_gap_lists;

/* false: no memory. A failed or zeroed list may be freed. */
bool sonar_gaps_init(sonar_gap_lists *lists, size_t channels);
void sonar_gaps_free(sonar_gap_lists *lists);
/* Any thread, each for its own channels. */
void sonar_gaps_clear(sonar_gap_lists *lists, size_t channel);
/* Adds the samples [begin, begin + samples), which must lie after the channel's other gaps. If the
 * list is full, the two gaps with the fewest samples between them are merged. Any thread, each for
 * its own channels. */
void sonar_gaps_add(sonar_gap_lists *lists, size_t channel, uint32_t begin, uint32_t samples);
/* Copies all lists to arrays of the same shapes, of which it returns a view. */
sonar_gaps sonar_gaps_copy(const sonar_gap_lists *lists, uint32_t *count, sonar_gap *gap);

#endif
