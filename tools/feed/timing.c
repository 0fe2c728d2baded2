/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "timing.h"

#include <math.h>

static const int64_t round_ns = 10000000000;
static const double gain = 0.2;   /* of a round's finding that the estimate takes over */
static const double late_s = 0.5; /* no delay lasts for a whole round */
static const double early_s =
    -5; /* samples of the future: they come from a file, and not from a buffer */

timing timing_begin(double fs_hz, bool live, int64_t utc_ns) {
    return (timing){.fs_hz = fs_hz, .live = live, .utc_ns = live ? 0 : utc_ns};
}

static int64_t length_ns(const timing *t, uint64_t samples) {
    const double whole_s = floor((double)samples / t->fs_hz); /* and the rest: exact for years */
    return (int64_t)whole_s * 1000000000 +
           llrint(((double)samples - whole_s * t->fs_hz) / t->fs_hz * 1e9);
}

int64_t timing_utc(const timing *t, uint64_t index) {
    return t->utc_ns ? t->utc_ns + length_ns(t, index) : 0;
}

/* The round is over: the estimate moves, or samples are missing. */
static bool end_round(timing *t, int64_t now_ns, uint64_t *lost) {
    const double found_s = t->least_s;
    t->round_ns = now_ns;
    t->least_s = HUGE_VAL;
    if (found_s > late_s) {
        *lost = (uint64_t)llrint(found_s * t->fs_hz);
        return false;
    }
    const double step_s = t->rounds ? gain * found_s : found_s;
    t->utc_ns += llrint(step_s * 1e9);
    t->moved_s += step_s;
    if (!t->rounds++) {
        t->first_s = t->moved_s;
        t->first_ns = now_ns;
    }
    return true;
}

bool timing_note(timing *t, uint64_t end, int64_t now_ns, uint64_t *lost) {
    *lost = 0;
    if (!t->live)
        return false;
    if (!t->begun) {
        t->begun = true;
        t->began_ns = t->round_ns = now_ns;
        t->utc_ns = now_ns - length_ns(t, end);
        t->least_s = HUGE_VAL;
        return true;
    }
    const double after_s = (double)(now_ns - timing_utc(t, end)) * 1e-9;
    t->least_s = fmin(t->least_s, after_s);
    if (t->least_s < early_s) {
        t->live = false;
        t->early = true;
        return false;
    }
    return now_ns - t->round_ns >= round_ns && end_round(t, now_ns, lost);
}

uint64_t timing_pause(const timing *t, uint64_t next, int64_t now_ns) {
    const double pause_s = t->live && t->utc_ns ? (double)(now_ns - timing_utc(t, next)) * 1e-9 : 0;
    return pause_s > 0 ? (uint64_t)llrint(pause_s * t->fs_hz) : 0;
}

double timing_drift_ppm(const timing *t) {
    const double s = (double)(t->round_ns - t->first_ns) * 1e-9;
    return t->rounds > 6 ? -1e6 * (t->moved_s - t->first_s) / s : NAN;
}
