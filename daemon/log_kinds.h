/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Limits how many lines of each kind are logged, so that a peer that causes one line after the
 * other neither fills a disk nor hides other lines. A kind is a place and a level. No clock and no
 * thread here. */
#ifndef DAEMON_LOG_KINDS_H
#define DAEMON_LOG_KINDS_H

#include "sonar/sonar.h"

enum { LOG_KINDS = 128, LOG_LINES_A_PERIOD = 30, LOG_PERIOD_S = 10 };

typedef struct log_kind {
    char where[sizeof((sonar_error *)0)->where];
    sonar_level level;
    int64_t began_ns;        /* begin of its period: the time of its first line */
    unsigned lines;          /* written in this period; 0: the entry is free */
    uint64_t left_out, owed; /* lines not reported yet: of this period, of earlier ones */
} log_kind;

/* Zeroed at first. The last entry is for all kinds that find no free entry. */
typedef struct log_kinds {
    log_kind kind[LOG_KINDS + 1];
} log_kinds;

/* True if the line is to be written; otherwise it is counted. */
bool log_kinds_admit(log_kinds *kinds, sonar_level level, const char *where, int64_t now_ns);
/* Removes a kind whose period is over and of which lines were left out, and copies it to *over,
 * with their number in `owed`. False: there is none now. */
bool log_kinds_take(log_kinds *kinds, int64_t now_ns, log_kind *over);
/* When log_kinds_take will have the next kind; INT64_MAX: no line was left out. */
int64_t log_kinds_due_ns(const log_kinds *kinds);

#endif
