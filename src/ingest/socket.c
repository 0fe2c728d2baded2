/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "ingest/socket.h"

#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "core/count.h"

/* ---- create, destroy ------------------------------------------------------------------------- */

static bool copy_endpoints(sonar_ingest_socket *s, const sonar_ingest_spec *spec) {
    s->endpoint = sonar_alloc(spec->endpoint_count, sizeof *s->endpoint);
    if (!s->endpoint)
        return false;
    s->endpoints = spec->endpoint_count;
    for (size_t i = 0; i < spec->endpoint_count; i++)
        if (!(s->endpoint[i] = strdup(spec->endpoints[i])))
            return false;
    return true;
}

sonar_code sonar_ingest_socket_create(sonar_ingest_socket *s, const sonar_ingest_spec *spec,
                                      sonar_error *err) {
    s->context = spec->zmq_context;
    s->memory = spec->memory;
    s->segments = spec->segments;
    s->security = spec->security;
    s->kind = spec->socket;
    s->high_water_mark = spec->high_water_mark;
    s->io_threads = spec->io_threads;
    s->max_message_bytes =
        spec->max_message_bytes < INT64_MAX ? (int64_t)spec->max_message_bytes : INT64_MAX;
    if (!copy_endpoints(s, spec))
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the endpoints");
    s->peers = sonar_peers_create(s->context, SONAR_PEERS_MOST, NULL);
    return s->peers ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the peers");
}

void sonar_ingest_socket_destroy(sonar_ingest_socket *s) {
    sonar_peers_destroy(s->peers);
    for (size_t i = 0; i < s->endpoints; i++)
        free(s->endpoint[i]);
    free(s->endpoint);
}

/* ---- open, close ----------------------------------------------------------------------------- */

void sonar_ingest_socket_close(sonar_ingest_socket *s) {
    if (!s->zmq)
        return;
    sonar_peers_forget(s->peers, s->zmq);
    zmq_close(s->zmq);
    s->zmq = NULL;
}

/* Key of the digitiser that binds endpoint i. */
static const char *server_key(const sonar_ingest_socket *s, size_t i) {
    const sonar_security *security = s->security;
    return security && security->servers ? security->server_key[i % security->servers] : "";
}

/* Opens endpoint i if it is of the requested kind, TCP or not. The other kind is opened first,
 * because it may be unencrypted. */
static sonar_code attach(sonar_ingest_socket *s, size_t i, bool tcp, const sonar_guard *guard,
                         sonar_error *err) {
    const char *endpoint = s->endpoint[i];
    if (sonar_endpoint_is_tcp(endpoint) != tcp)
        return SONAR_OK;
    if (s->kind == SONAR_PULL)
        return sonar_guard_bind(guard, s->zmq, endpoint, err);
    return sonar_guard_connect(guard, server_key(s, i), s->zmq, endpoint, err);
}

sonar_code sonar_ingest_socket_open(sonar_ingest_socket *s, sonar_error *err) {
    const sonar_socket_spec spec = {.type = s->kind == SONAR_PULL ? ZMQ_PULL : ZMQ_SUB,
                                    .messages_out = 1, /* it sends nothing */
                                    .messages_in = s->high_water_mark,
                                    .message_bytes = s->max_message_bytes,
                                    .io_threads = s->io_threads};
    sonar_guard guard_;
    const sonar_guard *guard = sonar_guard_of(s->security, SONAR_SENDERS, &guard_);
    sonar_code code = sonar_socket_open(s->context, &spec, "ingest", &s->zmq, err);
    if (!code && s->kind == SONAR_SUB && zmq_setsockopt(s->zmq, ZMQ_SUBSCRIBE, "", 0) != 0)
        code = sonar_fail(err, SONAR_ESYS, "ingest", "cannot subscribe: %s",
                          zmq_strerror(zmq_errno()));
    if (!code)
        code = sonar_peers_watch(s->peers, s->zmq, err);
    for (size_t i = 0; i < 2 * s->endpoints && !code; i++)
        code = attach(s, i % s->endpoints, i >= s->endpoints, guard, err);
    return code;
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* A digitiser that violates the protocol repeatedly makes the others lose their connections too.
 * Each time the socket stays open for twice as long, up to a minute. */
static bool may_reopen(sonar_ingest_socket *s, int64_t now_ns) {
    enum { DOUBLINGS_MOST = 6 };
    const int64_t second_ns = 1000000000;
    int64_t since_ns = now_ns - s->closed_ns;
    if (!s->closed_ns || since_ns > 120 * second_ns)
        s->given_up = 0;
    if (s->given_up && since_ns < second_ns << s->given_up)
        return false;
    if (s->given_up < DOUBLINGS_MOST)
        s->given_up++;
    return true;
}

/* True if the socket has to be reopened; counts the reason. */
static bool must_reopen(sonar_ingest_socket *s, int64_t now_ns) {
    size_t connected = s->kind == SONAR_PULL ? sonar_peers_connected(s->peers) : s->endpoints;
    sonar_count_set(&s->count.connected, connected);
    sonar_peers_count(s->peers, &s->count);
    if (s->memory) {
        if (s->segments)
            sonar_memory_map(s->memory, sonar_segments_bytes(s->segments));
        sonar_memory_allow(s->memory, SONAR_MEMORY_IN, connected, (size_t)s->high_water_mark,
                           s->largest_bytes);
        if (sonar_memory_exceeded(s->memory, SONAR_MEMORY_IN, now_ns)) {
            sonar_count_add(&s->count.reopened_memory, 1);
            return true;
        }
    }
    bool lost =
        s->kind == SONAR_SUB && sonar_peers_given_up(s->peers, now_ns) && may_reopen(s, now_ns);
    if (lost)
        sonar_count_add(&s->count.reopened_lost, 1);
    return lost;
}

/* libzmq closes a socket asynchronously, and its endpoints are in use as long as it frees what
 * peers held: tried again until it can be opened. */
void sonar_ingest_socket_tick(sonar_ingest_socket *s, int64_t now_ns) {
    sonar_error err;
    sonar_peers_tick(s->peers, now_ns);
    if (atomic_exchange(&s->cut, false))
        sonar_peers_cut_all(s->peers);
    if (s->zmq && must_reopen(s, now_ns)) {
        sonar_ingest_socket_close(s);
        s->closed_ns = now_ns;
    } else if (!s->zmq) {
        const bool open = sonar_ingest_socket_open(s, &err) == SONAR_OK;
        if (!open)
            sonar_ingest_socket_close(s);
        sonar_count_set(&s->count.closed, !open);
    }
}
