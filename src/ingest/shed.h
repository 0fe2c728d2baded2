/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Shedding: which frames are dropped when samples arrive faster than the ingest thread can store
 * them. Without shedding the thread falls behind until the sockets are full and digitisers lose
 * frames at random, so that hardly any window stays complete. With it, all frames of some windows
 * are dropped as soon as their header is read, at almost no cost, until the thread has caught up;
 * the windows between stay complete.
 *
 * The thread is overloaded when messages were waiting every time it looked, for several ticks, and
 * the delay of frames after the time of their samples grows. The delay is relative to the smallest
 * delay of the last half minute, because clocks differ and drift. A thread whose backlog shrinks is
 * not overloaded.
 *
 * Positions are the assembler's. [from, to) is dropped. `to` advances with every dropped frame
 * until the thread has caught up, and is then moved to the beginning of a window.
 */
#ifndef SONAR_SHED_H
#define SONAR_SHED_H

#include <stdbool.h>
#include <stdint.h>

enum { SONAR_SHED_TICKS = 5 }; /* for how long a thread must have been overloaded */

typedef struct sonar_shed {
    double fs_hz, begins_s; /* begins_s: delay of frames at which shedding begins; 0: nothing is
                               ever dropped */
    int queued_most;        /* frames that a socket holds */
    uint32_t frame_samples; /* of the last frame */
    bool on;
    uint64_t from, to;
    bool timed;
    int64_t least_ns[2]; /* arrival minus sample time: the smallest of this quarter minute and of
                            the last one */
    int64_t turned_ns;
    int64_t late_ns;                        /* of the last frame */
    int64_t tick_late_ns[SONAR_SHED_TICKS]; /* at the last ticks, a ring */
    unsigned ticks;                         /* ticks in a row at which the thread was busy */
} sonar_shed;

/* Shedding begins when frames arrive begins_s late, or so late that the sockets, which hold
 * queued_most frames of a digitiser, are half full. It ends at a quarter of that delay. */
void sonar_shed_init(sonar_shed *shed, double fs_hz, double begins_s, int queued_most);
/* Begins a new timeline, in which nothing is dropped. */
void sonar_shed_restart(sonar_shed *shed);
/* Notes the arrival of a frame of the timeline. */
void sonar_shed_time(sonar_shed *shed, uint64_t first, uint32_t samples, int64_t now_ns);
/* True if the frame [first, end) is to be dropped. */
bool sonar_shed_takes(sonar_shed *shed, uint64_t first, uint64_t end);
/* True if samples of the window [first, end) were dropped. */
bool sonar_shed_took(const sonar_shed *shed, uint64_t first, uint64_t end);

typedef enum sonar_shed_turn {
    SONAR_SHED_STAYS = 0,
    SONAR_SHED_BEGINS,
    SONAR_SHED_ENDS
} sonar_shed_turn;

/* Called once a tick. busy: messages were waiting every time the thread looked. Returns what has to
 * change. The caller, which knows the windows, then calls begin or end. */
sonar_shed_turn sonar_shed_tick(sonar_shed *shed, bool busy);
void sonar_shed_begin(sonar_shed *shed, uint64_t from); /* the end of a window */
void sonar_shed_end(sonar_shed *shed,
                    uint64_t to); /* the beginning of a window, not below shed->to */

#endif
