/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The node's clock as the kernel knows it, whoever keeps it: chrony, systemd-timesyncd, ntpd, or
 * ptp4l with phc2sys, which all tell the kernel (adjtimex(2)). Asking needs no rights, and none of
 * them has to be spoken to. Any thread.
 */
#ifndef SONAR_NODE_CLOCK_H
#define SONAR_NODE_CLOCK_H

#include <sys/timex.h>

#include "sonar/sonar.h"

typedef struct sonar_kernel_clock {
    int64_t monotonic_ns, utc_ns; /* of one moment, to some microseconds */
    bool known;                   /* the kernel has told the rest */
    bool synchronised;
    double offset_s;      /* still to be taken out, slowly */
    double max_error_s;   /* the clock is not farther off than that, if its keeper is right */
    double frequency_ppm; /* by which it is run faster than its oscillator */
    int tai_s;            /* TAI - UTC, 0: nobody has told the kernel */
    int leap;             /* at the end of the day 1: a second is put in, -1: left out */
} sonar_kernel_clock;

void sonar_node_clock_read(sonar_kernel_clock *clock);

/* All but the two times, from what adjtimex gave and returned (-1: not permitted). */
void sonar_node_clock_take(const struct timex *from, int state, sonar_kernel_clock *clock);

#endif
