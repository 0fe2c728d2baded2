/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What an instrument sent and the daemon does not get, and what is odd about the rest: counted by
 * cause, and told on stderr with what was read: the first time, the tenth, the hundredth, and what
 * comes a minute after it was told last. One thread.
 */
#ifndef FEED_TALLY_H
#define FEED_TALLY_H

#include <stdint.h>

typedef enum tally_cause {
    TALLY_UNREADABLE, /* not what the protocol allows */
    TALLY_FOREIGN,    /* whole, and not asked for */
    TALLY_RATE,       /* another rate, number of channels or type than before */
    TALLY_LATE,       /* its time has been sent */
    TALLY_TWICE,      /* its time has been filled */
    TALLY_JUMP,       /* its time is far from the others */
    TALLY_SLIP,       /* its clock has moved by a sample or more */
    TALLY_BESIDE,     /* sent; it was sampled between the others' samples */
    TALLY_ABSENT,     /* a channel is no longer waited for */
    TALLY_ENDED,      /* connections */
    TALLY_CAUSES
} tally_cause;

typedef struct tally {
    const char *tool; /* NULL: nothing is told */
    uint64_t count[TALLY_CAUSES];
    int64_t told_ns[TALLY_CAUSES]; /* monotonic */
} tally;

/* who: the channel or the address. */
void tally_note(tally *tally, tally_cause cause, const char *who, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* All counts that are not 0, on stderr. */
void tally_say(const tally *tally);

#endif
