/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Wall-clock times as text and the pace at which samples are sent. */
#ifndef SIM_CLOCK_H
#define SIM_CLOCK_H

#include <signal.h>

#include "sonar/sonar.h"

/* "2012-04-09T18:00:00.0083Z" (or with a space, or without Z, which also means UTC). False: not
 * such a time, or outside 1685 to 2254, the range of nanoseconds in 64 bits. */
bool sim_utc_parse(const char *text, int64_t *utc_ns);
/* The same, or "0", an unknown time, which is 0. */
bool sim_utc_parse_or_unknown(const char *text, int64_t *utc_ns);
/* The time that a file's name tells, as recorders write it: 20260131T120000Z, 20260131_120000,
 * 2026-01-31_12-00-00, with a fraction .250 before a Z; or .260131120000 as SoundTrap has it. UTC.
 * False: the name has none, or more than one. */
bool sim_utc_in_name(const char *path, int64_t *utc_ns);
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
/* How late the first `samples` samples are now, s; 0 if they are in time, or without a pace. */
double sim_pace_lag_s(const sim_pace *pace, uint64_t samples);

/* A lag behind the pace, and what has been reported of it. Zeroed before the first note. */
typedef struct sim_lag {
    double most_s, last_s;
    double waited_s; /* time that the sender had waited when the pace was last kept */
    bool behind;
    int64_t told_ns;
} sim_lag;

enum { SIM_LAG_TOLD_EVERY_S = 10 };

/* `lag_s` is the lag now; the sender has spent `waited_s` so far waiting for its receiver. Returns
 * a sentence to print, in `text`: when the sender falls a second behind, every SIM_LAG_TOLD_EVERY_S
 * while it stays behind, and when it has caught up; else NULL. */
const char *sim_lag_note(sim_lag *lag, int64_t now_ns, double lag_s, double waited_s,
                         char text[160]);

#endif
