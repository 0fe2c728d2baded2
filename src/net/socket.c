/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/net.h"

#include <zmq.h>

struct option {
    int option, value;
};

static bool set_all(void *socket, const struct option *table, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (zmq_setsockopt(socket, table[i].option, &table[i].value, sizeof(int)) != 0)
            return false;
    return true;
}

bool sonar_socket_keepalive(void *socket) {
    static const struct option table[] = {{ZMQ_TCP_KEEPALIVE, 1},
                                          {ZMQ_TCP_KEEPALIVE_IDLE, 3}, /* s of silence before the
                                                                          first probe */
                                          {ZMQ_TCP_KEEPALIVE_INTVL, 1},
                                          {ZMQ_TCP_KEEPALIVE_CNT, 3}};
    return set_all(socket, table, sizeof table / sizeof table[0]);
}

/* BACKLOG: connections that wait for libzmq to accept them. When 100 (its default) wait, the kernel
 * ignores further attempts of TCP, and who tries is heard again after 1, 3, 7, ... 63 s. The kernel
 * limits it to net.core.somaxconn. Never CONFLATE: it would keep only the last part of a message.
 */
static bool set_options(void *socket, const sonar_socket_spec *spec) {
    const struct option table[] = {{ZMQ_SNDHWM, spec->messages_out},
                                   {ZMQ_RCVHWM, spec->messages_in},
                                   {ZMQ_LINGER, 0},
                                   {ZMQ_IPV6, 1},
                                   {ZMQ_BACKLOG, SONAR_PEERS_MOST},
                                   {ZMQ_HANDSHAKE_IVL, 10000}}; /* ms; who connects and says
                                                                   nothing has so long */
    return set_all(socket, table, sizeof table / sizeof table[0]) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &spec->message_bytes,
                          sizeof spec->message_bytes) == 0 &&
           zmq_setsockopt(socket, ZMQ_AFFINITY, &spec->io_threads, sizeof spec->io_threads) == 0 &&
           sonar_socket_keepalive(socket);
}

sonar_code sonar_socket_open(void *context, const sonar_socket_spec *spec, const char *where,
                             void **socket, sonar_error *err) {
    *socket = zmq_socket(context, spec->type);
    if (*socket && set_options(*socket, spec))
        return SONAR_OK;
    sonar_code code =
        sonar_fail(err, SONAR_ESYS, where, "cannot make the socket: %s", zmq_strerror(zmq_errno()));
    if (*socket)
        zmq_close(*socket);
    *socket = NULL;
    return code;
}
