/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The daemon's log on standard error; if that is the journal's and libsystemd exists, as entries
 * with the fields PRIORITY, SONAR_WHERE and, for an error or a condition of health, SONAR_CODE.
 * Threads put lines into a small queue and continue; one thread writes. If standard error is not
 * read, only that thread waits: lines beyond the queue are lost, and their number is logged once it
 * is read again.
 *
 * Text is cleaned here (sonar_text_clean), since lines may quote peers. Of each kind of line a
 * limited number is written per period (log_kinds.h).
 */
#ifndef DAEMON_LOG_H
#define DAEMON_LOG_H

#include "sonar/sonar.h"

/* One log a process. Starts the thread. */
sonar_code log_open(sonar_error *err);
/* Any thread; never waits for the reader. A line may be left out for its kind had too many, and is
 * counted then. ctx is not used: as sonar_host.log. */
void log_line(void *ctx, sonar_level level, const char *where, const char *text);
/* An error that ends something; its code goes with it, and it is never left out. */
void log_error(const sonar_error *err);
/* The lines of a text as they are, without time and level (a warning's, where the journal wants
 * one). Lines beyond the queue are lost only after timeout_ms. One thread. */
void log_text(const char *text, int timeout_ms);
/* Waits until all is written, for timeout_ms at most. What is not, is given up with the process. */
void log_close(int timeout_ms);

#endif
