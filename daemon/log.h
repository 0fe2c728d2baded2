/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The daemon's log on standard error; if that is the journal's and libsystemd exists, as entries
 * with the fields PRIORITY, SONAR_WHERE and, for an error or a condition of health, SONAR_CODE.
 * Threads put lines into a small queue and continue; one thread writes. If standard error is not
 * read, only that thread waits: lines beyond the queue are lost, and their number is logged once it
 * is read again.
 *
 * Text is cleaned here (sonar_text_clean), because lines may quote peers. The number of lines of
 * each kind per period is limited (log_kinds.h).
 */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include "sonar/sonar.h"

/* One log per process. Starts the thread. */
sonar_code log_open(sonar_error *err);
/* Any thread; never waits for the reader. A line is left out, and counted, if its kind had too
 * many. ctx is not used; the signature is that of sonar_host.log. */
void log_line(void *ctx, sonar_level level, const char *where, const char *text);
/* Logs an error that ends something, with its code. It is never left out. */
void log_error(const sonar_error *err);
/* Writes the lines of a text as they are, without time and level (for the journal as warnings).
 * Lines beyond the queue are lost only after timeout_ms. One thread. */
void log_text(const char *text, int timeout_ms);
/* Waits until everything is written, at most timeout_ms. The rest is lost. */
void log_close(int timeout_ms);

#endif
