/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/node_clock.h"

#include "core/core.h"

/* Reads both clocks at one moment: repeats if another thread ran between the two readings. */
static void read_times(sonar_kernel_clock *clock) {
    enum { TRIES = 10 };
    const int64_t enough_ns = 20000;
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < TRIES && best_ns > enough_ns; i++) {
        const int64_t before_ns = sonar_monotonic_ns(), utc_ns = sonar_utc_ns(),
                      took_ns = sonar_monotonic_ns() - before_ns;
        if (took_ns >= best_ns)
            continue;
        best_ns = took_ns;
        clock->monotonic_ns = before_ns + took_ns / 2;
        clock->utc_ns = utc_ns;
    }
}

void sonar_node_clock_take(const struct timex *from, int state, sonar_kernel_clock *clock) {
    const double scaled_ppm = 65536; /* freq is in ppm with 16 fractional bits */
    clock->known = state >= 0;
    if (!clock->known)
        return;
    clock->synchronised = !(from->status & STA_UNSYNC) && state != TIME_ERROR;
    clock->offset_s = (double)from->offset * (from->status & STA_NANO ? 1e-9 : 1e-6);
    clock->max_error_s = (double)from->maxerror * 1e-6;
    clock->frequency_ppm = (double)from->freq / scaled_ppm;
    clock->tai_s = from->tai;
    clock->leap = from->status & STA_INS ? 1 : from->status & STA_DEL ? -1 : 0;
}

void sonar_node_clock_read(sonar_kernel_clock *clock) {
    struct timex kernel = {.modes = 0}; /* modes 0: reads without changing anything */
    *clock = (sonar_kernel_clock){0};
    read_times(clock);
    const int state = adjtimex(&kernel);
    sonar_node_clock_take(&kernel, state, clock);
}
