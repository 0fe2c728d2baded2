/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Wall-clock times as text and the pace at which samples are sent. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <signal.h>

#include "sonar/sonar.h"

/* "2012-04-09T18:00:00.0083Z" (or with a space, or without Z: UTC too); false: not such a time,
 * or not from 1685 to 2254: nanoseconds in 64 bits reach little farther. */
bool sim_utc_parse(const char *text, int64_t *utc_ns);
void sim_utc_format(int64_t utc_ns, char *text, size_t bytes);

/* "realtime", "max" or a factor > 0; 0 stands for max. */
bool sim_rate_parse(const char *text, double *rate);

typedef struct sim_pace {
    double fs_hz, rate; /* rate 0: never waits */
    int64_t start_ns;   /* monotonic, of sample 0 */
    const volatile sig_atomic_t *stop;
} sim_pace;

/* Waits until `samples` samples exist, as a digitiser would; false if it was stopped. */
bool sim_pace_wait(const sim_pace *pace, uint64_t samples);
/* By how much the first `samples` samples are late now, s; 0 if they are not, or without a pace. */
double sim_pace_lag_s(const sim_pace *pace, uint64_t samples);

/* A pace that is not kept, and what has been said of it. Zeroed before the first note. */
typedef struct sim_lag {
    double most_s, last_s;
    double waited_s; /* what the sender had waited when the pace was kept last */
    bool behind;
    int64_t told_ns;
} sim_lag;

enum { SIM_LAG_TOLD_EVERY_S = 10 };

/* `lag_s` is the lag now, of which the sender has spent `waited_s` so far waiting for its receiver.
 * Returns what there is to say, in `text`: when it falls a second behind, while it stays behind
 * every SIM_LAG_TOLD_EVERY_S, and when it has caught up; else NULL. */
const char *sim_lag_note(sim_lag *lag, int64_t now_ns, double lag_s, double waited_s,
                         char text[160]);

#endif
