/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Shedding: what is given up when samples come faster than the ingest thread can store them. Left
 * to itself such a thread falls behind until the sockets are full and digitisers lose frames here
 * and there, so that hardly any window stays whole. Instead all frames of some windows are given up
 * as soon as their header is read, which costs next to nothing, until the thread has caught up; the
 * windows between stay whole.
 *
 * The thread is overloaded when messages waited whenever it looked, for several ticks, and frames
 * come later and later after the time of their samples. How late is counted from the least delay of
 * the last half minute, since clocks differ and drift. A thread that works off a backlog faster
 * than it grows is not overloaded.
 *
 * Positions are the assembler's. [from, to) is given up; `to` grows with every frame that is, until
 * the thread has caught up, and is then moved to the beginning of a window.
 */
#ifndef SONAR_SHED_H
#define SONAR_SHED_H

#include <stdbool.h>
#include <stdint.h>

enum { SONAR_SHED_TICKS = 5 }; /* for which a thread must have been overloaded */

typedef struct sonar_shed {
    double fs_hz, begins_s; /* begins_s: how late frames come then; 0: nothing is ever given up */
    int queued_most;        /* frames that a socket holds */
    uint32_t frame_samples; /* of the last frame */
    bool on;
    uint64_t from, to;
    bool timed;
    int64_t least_ns[2]; /* arrival less sample time: least of this quarter minute and the last */
    int64_t turned_ns;
    int64_t late_ns;                        /* of the last frame */
    int64_t tick_late_ns[SONAR_SHED_TICKS]; /* at the last ticks, a ring */
    unsigned ticks;                         /* that the thread was busy without a pause */
} sonar_shed;

/* Frames that come begins_s late begin it, or so late that the sockets, which hold queued_most
 * frames of a digitiser, are half full; those a quarter as late end it. */
void sonar_shed_init(sonar_shed *shed, double fs_hz, double begins_s, int queued_most);
/* A new timeline, in which nothing is given up. */
void sonar_shed_restart(sonar_shed *shed);
/* A frame of the timeline has come. */
void sonar_shed_time(sonar_shed *shed, uint64_t first, uint32_t samples, int64_t now_ns);
/* Whether the frame [first, end) is given up. */
bool sonar_shed_takes(sonar_shed *shed, uint64_t first, uint64_t end);
/* Whether the window [first, end) is. */
bool sonar_shed_took(const sonar_shed *shed, uint64_t first, uint64_t end);

typedef enum sonar_shed_turn {
    SONAR_SHED_STAYS = 0,
    SONAR_SHED_BEGINS,
    SONAR_SHED_ENDS
} sonar_shed_turn;

/* Once a tick. busy: messages waited whenever the thread looked. What has to change now; the caller
 * calls begin or end, which knows its windows. */
sonar_shed_turn sonar_shed_tick(sonar_shed *shed, bool busy);
void sonar_shed_begin(sonar_shed *shed, uint64_t from); /* the end of a window */
void sonar_shed_end(sonar_shed *shed, uint64_t to); /* the beginning of one, not below shed->to */

#endif
