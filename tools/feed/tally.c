/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tally.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/core.h"

static const int64_t again_ns = 60000000000;

static const char *const name[TALLY_CAUSES] = {
    [TALLY_UNREADABLE] = "could not be read",
    [TALLY_FOREIGN] = "were not asked for",
    [TALLY_RATE] = "had another rate or form",
    [TALLY_LATE] = "came too late",
    [TALLY_TWICE] = "came twice",
    [TALLY_JUMP] = "had a time far from the others'",
    [TALLY_SLIP] = "were off by a sample or more against those before",
    [TALLY_BESIDE] = "were sampled between the other channels' samples",
    [TALLY_ABSENT] = "times a channel stayed away",
    [TALLY_ENDED] = "connections ended or did not begin",
};

static bool round_number(uint64_t count) {
    while (count % 10 == 0)
        count /= 10;
    return count == 1;
}

void tally_note(tally *t, tally_cause cause, const char *who, const char *format, ...) {
    const int64_t now_ns = sonar_monotonic_ns();
    t->count[cause]++;
    if (!t->tool || (!round_number(t->count[cause]) && now_ns - t->told_ns[cause] < again_ns))
        return;
    t->told_ns[cause] = now_ns;
    va_list list;
    fprintf(stderr, "%s: %s: ", t->tool, who);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    if (t->count[cause] > 1)
        fprintf(stderr, " (%" PRIu64 " of this kind so far)", t->count[cause]);
    fputc('\n', stderr);
}

void tally_say(const tally *t) {
    for (int i = 0; i < TALLY_CAUSES; i++)
        if (t->count[i])
            fprintf(stderr, "%s: %" PRIu64 " %s\n", t->tool, t->count[i], name[i]);
}
