/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The status for Prometheus: a thread of its own answers GET /metrics and GET /healthz on a
 * loopback port, from the last posted status. It serves a few clients at a time, for a few seconds
 * each, and no other thread waits for it. */
#ifndef SONAR_EXPORTER_H
#define SONAR_EXPORTER_H

#include <stdio.h>

#include "status/result.h"

typedef struct sonar_exporter sonar_exporter;

/* address: in the form that sonar_loopback_read accepts. SONAR_EUNAVAILABLE: built without
 * libmicrohttpd, or the port is taken; SONAR_ENOMEM. Control thread, like all functions here but
 * `print`. */
sonar_code sonar_exporter_create(const char *address, sonar_exporter **exporter, sonar_error *err);
/* The port that it listens on; the system chooses one if the address has port 0. */
uint16_t sonar_exporter_port(const sonar_exporter *exporter);
/* Copies the status for later answers. A NULL exporter is ignored. */
void sonar_exporter_post(sonar_exporter *exporter, const sonar_status *status,
                         const sonar_ingest_report *stream);
/* Ends the thread and all connections. */
void sonar_exporter_destroy(sonar_exporter *exporter);

/* Writes the status in Prometheus's text format, version 0.0.4. Pure, any thread. */
void sonar_exporter_print(const sonar_status *status, const sonar_ingest_report *stream, FILE *to);

#endif
