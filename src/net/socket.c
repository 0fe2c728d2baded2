/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/net.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
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

/* Never CONFLATE: it would keep only the last part of a message. */
static bool set_options(void *socket, const sonar_socket_spec *spec) {
    const struct option table[] = {{ZMQ_SNDHWM, spec->messages},
                                   {ZMQ_RCVHWM, spec->messages},
                                   {ZMQ_LINGER, 0},
                                   {ZMQ_IPV6, 1},
                                   {ZMQ_HANDSHAKE_IVL, 10000}}; /* ms; who connects and says
                                                                   nothing has so long */
    return set_all(socket, table, sizeof table / sizeof table[0]) &&
           zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &spec->message_bytes,
                          sizeof spec->message_bytes) == 0 &&
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

bool sonar_connection_is_at(int fd, const char *endpoint, bool other_end) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } name = {0};
    socklen_t bytes = sizeof name - 1;
    const char *colon = strrchr(endpoint, ':');
    if (!colon || (other_end ? getpeername : getsockname)(fd, &name.any, &bytes) != 0)
        return false;
    if (name.any.sa_family == AF_UNIX)
        return !strncmp(endpoint, "ipc://", 6) && !strcmp(name.local.sun_path, endpoint + 6);
    int port = name.any.sa_family == AF_INET    ? ntohs(name.v4.sin_port)
               : name.any.sa_family == AF_INET6 ? ntohs(name.v6.sin6_port)
                                                : -1;
    return port == atoi(colon + 1);
}
