/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * When samples were taken, by the time of their arrival: of all that came within 10 s the one that
 * was delayed least tells the time, and the estimate follows it slowly, so that it follows the
 * drift of the source's clock and not the load of this machine. One thread.
 */
#ifndef FEED_TIMING_H
#define FEED_TIMING_H

#include "sonar/sonar.h"

typedef struct timing {
    double fs_hz;
    bool live;      /* the clock tells the time; else the stream, from utc_ns on */
    int64_t utc_ns; /* of sample 0 by the estimate; 0: unknown */
    int64_t began_ns, round_ns;
    bool begun, early;
    double least_s; /* of this round: how much later than estimated samples came at least */
    double first_s, moved_s; /* the estimate's correction at the first round's end, and now */
    int64_t first_ns;
    size_t rounds;
} timing;

/* live: utc_ns does not matter. */
timing timing_begin(double fs_hz, bool live, int64_t utc_ns);
/* Samples up to `end` of the stream were there at now_ns, UTC. True: the estimate has changed.
 * *lost: samples that are missing before `end`, since what comes is later than it should be by more
 * than any delay. */
bool timing_note(timing *timing, uint64_t end, int64_t now_ns, uint64_t *lost);
/* Samples that are missing between sample `next` and what comes now, after a pause. */
uint64_t timing_pause(const timing *timing, uint64_t next, int64_t now_ns);
/* Of sample `index`; 0: unknown. */
int64_t timing_utc(const timing *timing, uint64_t index);
/* By how much the source's clock is faster than this machine's, parts per million; NAN: not known
 * yet. */
double timing_drift_ppm(const timing *timing);

#endif
