/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/gaps.h"

#include <stdlib.h>
#include <string.h>

#include "core/core.h"

bool sonar_gaps_init(sonar_gap_lists *lists, size_t channels) {
    *lists = (sonar_gap_lists){.channels = channels};
    lists->count = sonar_alloc(channels, sizeof *lists->count);
    lists->gap = sonar_alloc(channels, SONAR_GAPS_MOST * sizeof *lists->gap);
    return lists->count && lists->gap;
}

void sonar_gaps_free(sonar_gap_lists *lists) {
    free(lists->count);
    free(lists->gap);
}

void sonar_gaps_clear(sonar_gap_lists *lists, size_t channel) {
    lists->count[channel] = 0;
}

/* Merges the two closest of `count` gaps into one. */
static void merge_closest(sonar_gap *gap, size_t count) {
    size_t closest = 1;
    for (size_t i = 2; i < count; i++)
        if (gap[i].begin - gap[i - 1].end < gap[closest].begin - gap[closest - 1].end)
            closest = i;
    gap[closest - 1].end = gap[closest].end;
    memmove(gap + closest, gap + closest + 1, (count - closest - 1) * sizeof *gap);
}

void sonar_gaps_add(sonar_gap_lists *lists, size_t channel, uint32_t begin, uint32_t samples) {
    sonar_gap all[SONAR_GAPS_MOST + 1], *gap = lists->gap + channel * SONAR_GAPS_MOST;
    uint32_t *count = &lists->count[channel];
    sonar_gap added = {begin, begin + samples};
    if (*count && gap[*count - 1].end == begin) {
        gap[*count - 1].end = added.end;
    } else if (*count < SONAR_GAPS_MOST) {
        gap[(*count)++] = added;
    } else {
        memcpy(all, gap, SONAR_GAPS_MOST * sizeof *gap);
        all[SONAR_GAPS_MOST] = added;
        merge_closest(all, SONAR_GAPS_MOST + 1);
        memcpy(gap, all, SONAR_GAPS_MOST * sizeof *gap);
    }
}

sonar_gaps sonar_gaps_copy(const sonar_gap_lists *lists, uint32_t *count, sonar_gap *gap) {
    memcpy(count, lists->count, lists->channels * sizeof *count);
    for (size_t k = 0; k < lists->channels; k++) {
        size_t first = k * SONAR_GAPS_MOST;
        if (count[k])
            memcpy(gap + first, lists->gap + first, count[k] * sizeof *gap);
    }
    return (sonar_gaps){.count = count, .gap = gap};
}
