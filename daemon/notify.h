/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the service manager is told (sd_notify(3)); where there is none, or libsystemd was not there
 * when sonard was built, nothing happens. All of this belongs to the control thread: a service
 * manager that does not read its socket can make the caller wait. */
#ifndef DAEMON_NOTIFY_H
#define DAEMON_NOTIFY_H

#include "status/result.h"

/* Before a step of the start that may take seconds ("planning the transforms"): the start may take
 * five minutes more. */
void sonar_notify_starting(const char *step);
/* Sockets listen and plans are made; or a reload is over. */
void sonar_notify_ready(void);
/* A reload begins; sonar_notify_ready ends it, whether or not it changed anything. */
void sonar_notify_reloading(void);
/* One line: health, rate, losses, backend. Once a second at most. */
void sonar_notify_status(const sonar_status *status);
void sonar_notify_stopping(void);
/* sonard leaves because of this error. */
void sonar_notify_failed(const sonar_error *err);
/* Feeds the watchdog, if there is one. Only where the pipeline makes progress. */
void sonar_notify_watchdog(void);

/* The line of sonar_notify_status. */
void sonar_notify_describe(const sonar_status *status, char *text, size_t bytes);

#endif
