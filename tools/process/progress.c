/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "core/core.h"

static const int64_t terminal_ns = 200000000, lines_ns = 10000000000;

progress progress_begin(const char *tool, double whole_s) {
    const int64_t now_ns = sonar_monotonic_ns();
    return (progress){tool, whole_s, now_ns, now_ns, isatty(STDERR_FILENO), false};
}

double progress_speed(const progress *p, double done_s) {
    return done_s / ((double)(sonar_monotonic_ns() - p->began_ns + 1) * 1e-9);
}

void progress_show(progress *p, double done_s, uint64_t windows, uint64_t contacts) {
    const int64_t now_ns = sonar_monotonic_ns();
    if (now_ns - p->shown_ns < (p->terminal ? terminal_ns : lines_ns))
        return;
    p->shown_ns = now_ns;
    const double speed = progress_speed(p, done_s);
    const double left_s = speed > 0 ? (p->whole_s - done_s) / speed : 0;
    fprintf(stderr,
            "%s%s: %3.0f %%  %.0f of %.0f s, %.3g times real time, %d:%02d left, %" PRIu64
            " windows, %" PRIu64 " contacts%s",
            p->terminal ? "\r\033[K" : "", p->tool, 100 * done_s / p->whole_s, done_s, p->whole_s,
            speed, (int)(left_s / 60), (int)left_s % 60, windows, contacts,
            p->terminal ? "" : "\n");
    p->line = p->terminal;
}

void progress_clear(progress *p) {
    if (p->line)
        fputs("\r\033[K", stderr);
    p->line = false;
}
