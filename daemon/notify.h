/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Messages to the service manager (sd_notify(3)). Without a service manager, or if sonard was built
 * without libsystemd, these functions do nothing. Control thread: a service manager that does not
 * read its socket can make the caller wait. */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include "status/result.h"

/* Called before a step of the start that may take seconds ("planning the transforms"). Allows the
 * start five more minutes. */
void sonar_notify_starting(const char *step);
/* Called when sockets listen and plans are made, or when a reload is complete. */
void sonar_notify_ready(void);
/* A reload begins; sonar_notify_ready ends it, even if nothing changed. */
void sonar_notify_reloading(void);
/* Sends one line: health, rate, losses, backend. At most once a second. */
void sonar_notify_status(const sonar_status *status);
void sonar_notify_stopping(void);
/* sonard exits because of this error. */
void sonar_notify_failed(const sonar_error *err);
/* Feeds the watchdog, if there is one. Call it only while the pipeline makes progress. */
void sonar_notify_watchdog(void);

/* Writes the line of sonar_notify_status to text. */
void sonar_notify_describe(const sonar_status *status, char *text, size_t bytes);

#endif
