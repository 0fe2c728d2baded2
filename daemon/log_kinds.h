/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How many lines of each kind the log takes, so that a peer that causes one line after the other
 * fills no disk and hides nothing else. A kind is a place and a level. Knows no clock and no
 * thread. */
#ifndef DAEMON_LOG_KINDS_H
#define DAEMON_LOG_KINDS_H

#include "sonar/sonar.h"

enum { LOG_KINDS = 128, LOG_LINES_A_PERIOD = 30, LOG_PERIOD_S = 10 };

typedef struct log_kind {
    char where[sizeof((sonar_error *)0)->where];
    sonar_level level;
    int64_t began_ns;        /* of its period: that of its first line */
    unsigned lines;          /* written in this period; 0: the entry is free */
    uint64_t left_out, owed; /* not told yet: of this period, of earlier ones */
} log_kind;

/* Zeroed at first. The last entry stands for all kinds that find no other free. */
typedef struct log_kinds {
    log_kind kind[LOG_KINDS + 1];
} log_kinds;

/* Is a line to be written? One that is not is counted. */
bool log_kinds_admit(log_kinds *kinds, sonar_level level, const char *where, int64_t now_ns);
/* Takes out a kind whose period is over and of which lines were left out: *over has it, with their
 * number in `owed`. False: there is none now. */
bool log_kinds_take(log_kinds *kinds, int64_t now_ns, log_kind *over);
/* When log_kinds_take will have the next one; INT64_MAX: no line was left out. */
int64_t log_kinds_due_ns(const log_kinds *kinds);

#endif
