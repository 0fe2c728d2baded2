/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The node's clock as the kernel reports it (adjtimex(2)), whichever program keeps it: chrony,
 * systemd-timesyncd, ntpd, or ptp4l with phc2sys. Needs no rights and no connection to that
 * program. Any thread. */
#ifndef SONAR_NODE_CLOCK_H
#define SONAR_NODE_CLOCK_H

#include <sys/timex.h>

#include "sonar/sonar.h"

typedef struct sonar_kernel_clock {
    int64_t monotonic_ns, utc_ns; /* of one moment, to some microseconds */
    bool known;                   /* the kernel has reported the members below */
    bool synchronised;
    double offset_s;      /* correction still to be applied, slowly */
    double max_error_s;   /* bound of the clock's error, as reported by the program that keeps it */
    double frequency_ppm; /* frequency correction relative to the oscillator */
    int tai_s;            /* TAI - UTC, 0: not set in the kernel */
    int leap;             /* at the end of the day 1: a second is inserted, -1: omitted */
} sonar_kernel_clock;

void sonar_node_clock_read(sonar_kernel_clock *clock);

/* Fills all members but the two times from the result of adjtimex (-1: not permitted). */
void sonar_node_clock_take(const struct timex *from, int state, sonar_kernel_clock *clock);

#endif
