/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Which window the ranks work on next. In every round each rank tells the others what it has, its
 * offer; since all then know the same, all come to the same verdict by the same rules, without a
 * clock in common:
 *
 *   The next window is the oldest on offer, by its sample index. It is worked on as soon as every
 *   rank has one, or when one has waited for max_skew_ns; ranks that do not have that very window
 *   by then take part with nothing, and it never waits for them again.
 *
 *   A window from before the next sample is *late* where its rank has had one of the timeline, or
 *   has been behind it from the start, while others went on, and its ingest has begun no other
 *   since: it is dropped. Another one from there, or one of another epoch than the ranks', is
 *   *foreign*. As long as a rank has one that is not, foreign ones are dropped. When all ranks have
 *   foreign ones of one epoch, or only foreign ones are left, the oldest has waited for
 *   restart_after_ns and no window was worked on for that long after the next one was due, the
 *   timeline of the lowest rank that has one is taken over, by all ranks.
 *
 *   A rank that is asked to stop is followed by the others: windows that all ranks have are worked
 *   on, and then all leave together.
 *
 * Pure functions.
 */
#ifndef SONAR_RANKS_AGREE_H
#define SONAR_RANKS_AGREE_H

#include "core/window.h"
#include "ranks/cluster.h"

/* What one rank tells in a round. The same bytes go to every rank, so all of it is set. */
typedef struct sonar_offer {
    uint64_t first_sample;
    int64_t utc_ns, waited_ns; /* of the window's last sample until now */
    double missing_mean, missing_worst;
    uint64_t channels; /* used ones, behind missing_mean */
    uint64_t lookback;
    uint64_t round_first; /* sample with which the measures began, if measured */
    int64_t idle_ns;      /* since a window was worked on, or the start; the root's counts */
    uint32_t epoch, frame_flags;
    uint32_t timeline; /* of this rank's ingest: how many it has begun before */
    uint32_t wanted;   /* SONAR_WANT bits of what is to be published; the root's counts */
    uint8_t asks;      /* it asks all to tell of themselves before anything else */
    uint8_t blocked;   /* it waits for such a place, and all wait for it */
    uint8_t has; /* a window; all above but channels, round_first, idle_ns, wanted and these is
                    of it */
    uint8_t restarted; /* as the window says */
    uint8_t draining;  /* no more windows come: it is asked to stop */
    uint8_t stopping;  /* at once */
    uint8_t measured;  /* its sensors, for the root to judge */
    uint8_t judged;    /* the root: it can take more of them */
    uint8_t busy;      /* it is not done with the last change */
    uint8_t answer;    /* what it says to the one that is on its way */
    uint64_t letter;   /* the root: bytes of a change that it wants to send */
} sonar_offer;

typedef struct sonar_agree_spec {
    size_t ranks;
    uint64_t hop;
    int64_t hop_ns, max_skew_ns, restart_after_ns;
} sonar_agree_spec;

/* What has been agreed so far; all 0 at first. */
typedef struct sonar_timeline {
    bool runs;
    uint32_t epoch;
    uint64_t next_sample;          /* windows that begin before it are over */
    uint64_t window;               /* number of the last one: counts on over restarts */
    bool known[SONAR_RANKS_MOST];  /* the rank has had a window of it, or one behind it, */
    uint32_t of[SONAR_RANKS_MOST]; /* which was of this timeline of its ingest */
} sonar_timeline;

typedef enum sonar_verdict_kind {
    SONAR_ROUND_WAIT = 0, /* nothing to work on yet */
    SONAR_ROUND_RUN,
    SONAR_ROUND_LEAVE
} sonar_verdict_kind;

typedef struct sonar_verdict {
    sonar_verdict_kind kind;
    bool drop[SONAR_RANKS_MOST];    /* the rank's window will never be worked on */
    bool present[SONAR_RANKS_MOST]; /* RUN: the rank has the window */
    uint64_t first_sample, window;
    uint64_t lookback; /* what all that are present have */
    bool restarted;    /* another timeline begins with it, or one of a present rank's */
} sonar_verdict;

sonar_verdict sonar_agree(const sonar_agree_spec *spec, const sonar_offer *offer,
                          sonar_timeline *timeline);
/* The window of a verdict RUN as the whole array has it, without samples and without `missing`: all
 * samples of a rank that is not present are missing, and it arrived when its last sample did. */
sonar_window sonar_agree_window(const sonar_agree_spec *spec, const sonar_offer *offer,
                                const sonar_timeline *timeline, const sonar_verdict *verdict,
                                int64_t now_ns);

#endif
