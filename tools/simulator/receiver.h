/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Whom a stream of samples feeds. The daemon that publishes at the configuration's output.endpoint
 * is asked by its status before the first sample is sent: what is simulated or replayed must not
 * look like the sea to another array's operator. One thread owns a receiver.
 */
#ifndef SIM_RECEIVER_H
#define SIM_RECEIVER_H

#include <cjson/cJSON.h>
#include <signal.h>

#include "config/config.h"

/* The second part of the next message that a SUB socket has, parsed; NULL if it is not JSON. */
cJSON *sim_receive_head(void *socket);

typedef struct sim_receiver sim_receiver;

/* Listens to the status from now on. *receiver is NULL where it cannot tell: the status is not
 * published, its port is any, or CURVE is spoken, where the daemon's key tells who it is. */
sonar_code sim_receiver_create(void *zmq_context, const sonar_config *config,
                               sim_receiver **receiver, sonar_error *err);
void sim_receiver_destroy(sim_receiver *receiver);
/* Says on stderr whom `tool` feeds at `endpoint`, as far as that is known within timeout_ms.
 * SONAR_EINVAL: it is the daemon of another configuration. receiver may be NULL. */
sonar_code sim_receiver_check(const sim_receiver *receiver, const char *tool, const char *endpoint,
                              int timeout_ms, const volatile sig_atomic_t *stop, sonar_error *err);

#endif
