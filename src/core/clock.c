/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <time.h>

static int64_t read_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t sonar_monotonic_ns(void) {
    return read_ns(CLOCK_MONOTONIC);
}

int64_t sonar_utc_ns(void) {
    return read_ns(CLOCK_REALTIME);
}
