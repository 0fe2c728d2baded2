/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How far it has come and how long it will take, on standard error: on a terminal a line that
 * changes, else a line now and then. One thread. */
#ifndef PROCESS_PROGRESS_H
#define PROCESS_PROGRESS_H

#include "sonar/sonar.h"

typedef struct progress {
    const char *tool;
    double whole_s; /* of the recording */
    int64_t began_ns, shown_ns;
    bool terminal, line; /* line: there is one to be overwritten */
} progress;

progress progress_begin(const char *tool, double whole_s);
void progress_show(progress *progress, double done_s, uint64_t windows, uint64_t contacts);
/* Removes the line, so that something else can be printed. */
void progress_clear(progress *progress);
/* Times real time until now. */
double progress_speed(const progress *progress, double done_s);

#endif
