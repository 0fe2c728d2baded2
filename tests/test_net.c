/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sockets' common options. Paths of endpoints: test_endpoint.c; connections under attack:
 * plain_siege.c. */
#include "net/net.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

static void *context;

static void *open_socket(int type) {
    const sonar_socket_spec spec = {.type = type, .messages = 8, .message_bytes = 1000};
    void *socket;
    sonar_error err = {0};
    cr_assert_eq(sonar_socket_open(context, &spec, "test", &socket, &err), SONAR_OK, "%s",
                 err.text);
    return socket;
}

/* Never terminated: that would wait for ever for a socket that a failed test has left open. */
static void begin(void) {
    context = zmq_ctx_new();
}

TestSuite(endpoint, .init = begin);
TestSuite(sockets, .init = begin);

/* libzmq binds to no name, and takes the first address of one that it connects to. */
Test(endpoint, localhost_is_a_place_to_listen_and_to_connect) {
    char endpoint[64], byte = 7;
    int port, wait_ms = 5000;
    sonar_error err = {0};
    size_t bytes = sizeof endpoint;
    void *probe = open_socket(ZMQ_PULL), *pull = open_socket(ZMQ_PULL),
         *push = open_socket(ZMQ_PUSH);
    cr_assert_eq(zmq_bind(probe, "tcp://127.0.0.1:*"), 0);
    cr_assert_eq(zmq_getsockopt(probe, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    port = atoi(strrchr(endpoint, ':') + 1);
    cr_assert_eq(zmq_unbind(probe, endpoint), 0);
    zmq_close(probe);
    snprintf(endpoint, sizeof endpoint, "tcp://localhost:%d", port);
    for (int i = 0; sonar_endpoint_bind(pull, endpoint, &err) != SONAR_OK; i++) {
        cr_assert(i < 1000 && strstr(err.text, "in use"), "%s", err.text);
        usleep(1000); /* until the probe is gone */
    }
    cr_assert_eq(sonar_endpoint_connect(push, endpoint, &err), SONAR_OK, "%s", err.text);
    zmq_setsockopt(pull, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    cr_assert_eq(zmq_send(push, &byte, 1, 0), 1);
    cr_expect_eq(zmq_recv(pull, &byte, 1, 0), 1);
    zmq_close(push);
    zmq_close(pull);
}

/* Their timer can abort the process (net.h); the time limit would end a paused reader. */
Test(sockets, have_no_heartbeats_and_no_time_limit_for_slow_peers) {
    static const int none[] = {ZMQ_HEARTBEAT_IVL, ZMQ_HEARTBEAT_TTL, ZMQ_TCP_MAXRT};
    static const int types[] = {ZMQ_PULL, ZMQ_SUB, ZMQ_XPUB};
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        void *socket = open_socket(types[t]);
        int value, keepalive;
        size_t bytes = sizeof value;
        for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
            cr_assert_eq(zmq_getsockopt(socket, none[i], &value, &bytes), 0);
            cr_expect_eq(value, 0);
        }
        cr_assert_eq(zmq_getsockopt(socket, ZMQ_TCP_KEEPALIVE, &keepalive, &bytes), 0);
        cr_expect_eq(keepalive, 1);
        zmq_close(socket);
    }
}
