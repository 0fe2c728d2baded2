/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/monitor.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"

/* Without a mark on its own side: libzmq's I/O thread waits for room in a monitor's queue, and
 * would do so under a lock that closing the socket takes. */
void *sonar_monitor_open(void *context, void *socket, int events) {
    static atomic_uint monitors; /* a name of its own for each: libzmq frees them late */
    const int none = 0;
    char name[64];
    snprintf(name, sizeof name, "inproc://sonar-monitor-%u", atomic_fetch_add(&monitors, 1));
    void *monitor = zmq_socket(context, ZMQ_PAIR);
    if (!monitor)
        return NULL;
    if (!zmq_setsockopt(monitor, ZMQ_RCVHWM, &none, sizeof none) &&
        !zmq_setsockopt(monitor, ZMQ_LINGER, &none, sizeof none) &&
        !zmq_socket_monitor(socket, name, events) && !zmq_connect(monitor, name))
        return monitor;
    const int cause = zmq_errno();
    sonar_monitor_close(monitor, socket);
    errno = cause;
    return NULL;
}

void sonar_monitor_close(void *monitor, void *socket) {
    zmq_socket_monitor(socket, NULL, 0);
    zmq_close(monitor);
}

/* An event is a number, a value and, in the second part, the endpoint. */
bool sonar_monitor_take(void *monitor, sonar_monitor_event *event) {
    uint8_t head[6];
    if (zmq_recv(monitor, head, sizeof head, ZMQ_DONTWAIT) != sizeof head)
        return false;
    const size_t most = sizeof event->endpoint - 1;
    const int bytes = zmq_recv(monitor, event->endpoint, most, 0);
    if (bytes < 0)
        return false;
    event->endpoint[sonar_min_size((size_t)bytes, most)] = '\0';
    memcpy(&event->event, head, sizeof event->event);
    memcpy(&event->value, head + 2, sizeof event->value);
    return true;
}
