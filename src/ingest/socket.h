/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The socket on which frames arrive: its endpoints, keys and peers, and when it is reopened. Used
 * by one thread at a time, except `cut` and `count`. */
#ifndef SONAR_INGEST_SOCKET_H
#define SONAR_INGEST_SOCKET_H

#include <stdatomic.h>

#include "ingest/ingest.h"
#include "net/net.h"
#include "net/shared.h"

typedef struct sonar_ingest_socket {
    void *zmq; /* NULL: closed, or not open again yet */
    void *context;
    char **endpoint;
    size_t endpoints;
    sonar_socket_kind kind;
    int high_water_mark;
    uint64_t io_threads;
    int64_t max_message_bytes;
    sonar_memory *memory;           /* may be NULL */
    sonar_segments *segments;       /* the same */
    const sonar_security *security; /* the same */
    sonar_peers *peers;
    sonar_peer_counters count;
    size_t largest_bytes; /* peers of the messages received, as the receiver notes */
    atomic_bool cut;      /* end all connections once */
    int64_t closed_ns;    /* when it was closed to be reopened */
    unsigned
        given_up; /* consecutive times that it was reopened because libzmq gave up an endpoint */
} sonar_ingest_socket;

/* Initialises a zeroed struct. Opens nothing; borrows what the spec borrows. SONAR_ENOMEM. Destroy
 * it in any case, closed. */
sonar_code sonar_ingest_socket_create(sonar_ingest_socket *s, const sonar_ingest_spec *spec,
                                      sonar_error *err);
void sonar_ingest_socket_destroy(sonar_ingest_socket *s);

/* Binds or connects all endpoints. */
sonar_code sonar_ingest_socket_open(sonar_ingest_socket *s, sonar_error *err);
void sonar_ingest_socket_close(sonar_ingest_socket *s);

/* Called once a tick: manages peers and their memory; closes the socket when it has to be reopened,
 * and reopens it. */
void sonar_ingest_socket_tick(sonar_ingest_socket *s, int64_t now_ns);

#endif
