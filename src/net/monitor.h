/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What libzmq tells of a socket's connections (zmq_socket_monitor(3)). The socket's thread. */
#ifndef SONAR_NET_MONITOR_H
#define SONAR_NET_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

enum { SONAR_MONITOR_ENDPOINT_BYTES = 160 };

typedef struct sonar_monitor_event {
    uint16_t event; /* ZMQ_EVENT_* */
    int32_t value;  /* its meaning depends on the event */
    char endpoint[SONAR_MONITOR_ENDPOINT_BYTES];
} sonar_monitor_event;

/* Watches the socket for `events`, a sum of ZMQ_EVENT_*. Returns a PAIR socket to poll and to take
 * events from, to be given to sonar_monitor_close before the socket is closed; NULL with zmq_errno
 * set. */
void *sonar_monitor_open(void *context, void *socket, int events);
/* The oldest event that has not been taken; false if there is none. */
bool sonar_monitor_take(void *monitor, sonar_monitor_event *event);
void sonar_monitor_close(void *monitor, void *socket);

#endif
