/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The control socket: a ROUTER on ipc, one JSON object in, one out (docs/control.md). libzmq's I/O
 * thread reads and bounds the messages, the control thread answers a few at a time and never waits
 * for a peer. A message that is not a request is answered with an error, or dropped if its peer is
 * gone. Control thread.
 */
#ifndef SONAR_CONTROL_SERVER_H
#define SONAR_CONTROL_SERVER_H

#include "control/change.h"

typedef struct sonar_control sonar_control;

/* All borrowed until destroy. */
typedef struct sonar_control_spec {
    sonar_pipeline *pipeline;
    const char *endpoint;    /* ipc */
    bool group;              /* members of the group may connect too */
    const char *config_path; /* read by `reload` */
    sonar_control_log log;
    void *log_ctx;
} sonar_control_spec;

enum { SONAR_CONTROL_BYTES_MOST = 1 << 20 }; /* of a request */

/* SONAR_ESYS with the endpoint in `where`. Destroy before the pipeline. */
sonar_code sonar_control_create(const sonar_control_spec *spec, sonar_control **control,
                                sonar_error *err);
void sonar_control_destroy(sonar_control *control); /* NULL is allowed */
/* Becomes readable when serve must be called; serve may be called at any other time, too. */
int sonar_control_fd(const sonar_control *control);
/* The longest time between two calls of serve, which also looks after the connections. */
int sonar_control_tick_ms(const sonar_control *control);
/* Answers up to eight requests. Returns true if more are waiting. */
bool sonar_control_serve(sonar_control *control);
/* The answer to one request as JSON, malloc'ed; NULL: no memory. For tests, too. */
char *sonar_control_answer(sonar_control *control, const char *request, size_t bytes);

#endif
