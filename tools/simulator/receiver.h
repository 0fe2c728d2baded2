/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Identifies the receiver of a stream of samples. Before the first sample is sent, the status of
 * the daemon that publishes at the configuration's output.endpoint is read, because simulated or
 * replayed samples must not reach another array's operator as if they were real. One thread owns a
 * receiver.
 */
#ifndef SIM_RECEIVER_H
#define SIM_RECEIVER_H

#include <cjson/cJSON.h>
#include <signal.h>

#include "config/config.h"

/* The second part of the next message that a SUB socket has, parsed; NULL if it is not JSON. */
cJSON *sim_receive_head(void *socket);

typedef struct sim_receiver sim_receiver;

/* Subscribes to the status. *receiver is NULL if the status cannot identify the daemon: it is not
 * published, its port is a wildcard, or CURVE is used, where the daemon's key identifies it. */
sonar_code sim_receiver_create(void *zmq_context, const sonar_config *config,
                               sim_receiver **receiver, sonar_error *err);
void sim_receiver_destroy(sim_receiver *receiver);
/* Prints on stderr to whom `tool` sends at `endpoint`, as far as that is known within seconds.
 * SONAR_EINVAL: the daemon has another configuration, or is on this machine and publishes no status
 * at output.endpoint, so that it is another daemon. receiver may be NULL. */
sonar_code sim_receiver_check(const sim_receiver *receiver, const char *tool, const char *endpoint,
                              const volatile sig_atomic_t *stop, sonar_error *err);

#endif
