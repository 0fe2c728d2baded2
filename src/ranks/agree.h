/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which window the ranks process next. In every round each rank sends the others its offer: the
 * window that it has. All ranks then have the same information and reach the same verdict by the
 * same rules, without a common clock.
 *
 * The next window is the oldest offered, by its sample index. It is processed as soon as every rank
 * has it, or when it has waited for max_skew_ns in some rank. Ranks that do not have it by then
 * take part without samples, and the window never waits for them again.
 *
 * A window before the next sample is *late*, and is dropped, if two conditions hold: its rank has
 * had a window of the timeline, or has been behind it from the start while others continued; and
 * its ingest has not begun another timeline since. Any other window before the next sample, and any
 * window of another epoch than the ranks', is *foreign*. Foreign windows are dropped as long as
 * some rank has a window that is not foreign. The timeline of the lowest rank with a foreign window
 * is adopted, by all ranks, in two cases: all ranks have foreign windows of one epoch; or only
 * foreign windows are left, the oldest has waited for restart_after_ns, and no window was processed
 * for that long after the next one was due.
 *
 * If a rank is asked to stop, all ranks stop: windows that all ranks have are processed, and then
 * all end together.
 *
 * Pure functions.
 */
#ifndef SONAR_RANKS_AGREE_H
#define SONAR_RANKS_AGREE_H

#include "core/window.h"
#include "ranks/cluster.h"

/* What one rank sends in a round. The same bytes go to every rank, so every member is set. */
typedef struct sonar_offer {
    uint64_t first_sample;
    int64_t utc_ns, waited_ns; /* since the window's last sample */
    double missing_mean, missing_worst;
    uint64_t channels; /* used channels that missing_mean refers to */
    uint64_t lookback;
    uint64_t round_first; /* first sample of the measures, if measured */
    int64_t idle_ns; /* since the last processed window, or the start; the root's value counts */
    uint32_t epoch, frame_flags;
    uint32_t timeline; /* timelines that this rank's ingest has begun before this one */
    uint32_t wanted;   /* SONAR_WANT bits of what is to be published; the root's value counts */
    uint8_t asks;      /* the root asks all ranks to report their status first */
    uint8_t blocked; /* the root has no free result and waits for one, and all ranks wait with it */
    uint8_t has;     /* this rank has a window; all members above describe it, except channels,
                        round_first, idle_ns, wanted and these flags */
    uint8_t restarted; /* as in the window */
    uint8_t draining;  /* no more windows follow, because this rank was asked to stop */
    uint8_t stopping;  /* stop at once */
    uint8_t measured;  /* its measures of sensors are ready for the root */
    uint8_t judged;    /* the root can take more measures */
    uint8_t busy;      /* it has not finished the last change */
    uint8_t answer;    /* its answer to the change that was sent */
    uint64_t letter;   /* the root: number of bytes of a change that it wants to send */
} sonar_offer;

typedef struct sonar_agree_spec {
    size_t ranks;
    uint64_t hop;
    int64_t hop_ns, max_skew_ns, restart_after_ns;
} sonar_agree_spec;

/* The state that the ranks have agreed on; zeroed at first. */
typedef struct sonar_timeline {
    bool runs;
    uint32_t epoch;
    uint64_t next_sample; /* windows that begin before this sample are processed or dropped */
    uint64_t window;      /* number of the last window; continues over restarts */
    bool known[SONAR_RANKS_MOST]; /* the rank has had a window of the timeline, or one behind it, */
    uint32_t of[SONAR_RANKS_MOST]; /* which belonged to this timeline of its ingest */
} sonar_timeline;

typedef enum sonar_verdict_kind {
    SONAR_ROUND_WAIT = 0, /* nothing can be processed yet */
    SONAR_ROUND_RUN,
    SONAR_ROUND_LEAVE
} sonar_verdict_kind;

typedef struct sonar_verdict {
    sonar_verdict_kind kind;
    bool drop[SONAR_RANKS_MOST];    /* the rank's window will never be processed */
    bool present[SONAR_RANKS_MOST]; /* RUN: the rank has the window */
    uint64_t first_sample, window;
    uint64_t lookback; /* the smallest of all present ranks */
    bool restarted;    /* another timeline begins with it, or one of a present rank's ingest */
} sonar_verdict;

sonar_verdict sonar_agree(const sonar_agree_spec *spec, const sonar_offer *offer,
                          sonar_timeline *timeline);
/* The window of a RUN verdict, for the whole array, without samples and without `missing`. All
 * samples of ranks that are not present are missing. It arrived when the last sample of any rank
 * arrived. */
sonar_window sonar_agree_window(const sonar_agree_spec *spec, const sonar_offer *offer,
                                const sonar_timeline *timeline, const sonar_verdict *verdict,
                                int64_t now_ns);

#endif
