/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sockets: everything about them that ingest, output and the tools have in common. The rest of the
 * program sends and receives; who may connect, how many, and how much libzmq may hold is decided
 * here. docs/threats.md says what a peer can still cause.
 */
#ifndef SONAR_NET_H
#define SONAR_NET_H

#include "sonar/sonar.h"

/* ---- endpoints ------------------------------------------------------------------------------- */

/* zmq_bind and zmq_connect with a sentence for every way to fail; `where` is the endpoint.
 * tcp://localhost is 127.0.0.1, for both: libzmq binds to no name and connects to one address of a
 * name only. At an ipc path only a socket that nobody listens on is replaced; libzmq would also
 * delete a regular file and take the path over from another program. */
sonar_code sonar_endpoint_bind(void *socket, const char *endpoint, sonar_error *err);
sonar_code sonar_endpoint_connect(void *socket, const char *endpoint, sonar_error *err);

/* ---- sockets --------------------------------------------------------------------------------- */

typedef struct sonar_socket_spec {
    int type;              /* ZMQ_PULL, ... */
    int messages;          /* kept per peer, each way */
    int64_t message_bytes; /* largest part accepted; libzmq ends the connection of a larger one */
} sonar_socket_spec;

/* A socket with the daemon's common options: limits, keepalive, IPv6, no linger. SONAR_ESYS with
 * `where` if it cannot be made. The caller closes it in the thread that opened it. */
sonar_code sonar_socket_open(void *context, const sonar_socket_spec *spec, const char *where,
                             void **socket, sonar_error *err);

/* Before binding or connecting: has the kernel find out within some 6 s that the host of a quiet
 * peer is gone; libzmq then connects anew. Changes nothing for ipc. False, with errno, if refused.
 *
 * In place of ZMTP heartbeats, for which libzmq hangs up on a healthy peer that is not being read
 * and whose timer can abort the process (libzmq #3937, #4364, #4767, seen with 4.3.4). Without
 * ZMQ_TCP_MAXRT: it sets TCP_USER_TIMEOUT, by which the kernel also hangs up on a peer that is
 * alive but holds its sender back for so long, as a reader that is paused does, and a daemon with
 * `overload: block`. The price: while data for it is on its way, a vanished host is found out by
 * retransmission only, after some 15 minutes. Meanwhile it holds its high-water mark, no more. */
bool sonar_socket_keepalive(void *socket);

#endif
