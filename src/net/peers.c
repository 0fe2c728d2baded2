/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <zmq.h>

#include "core/core.h"
#include "core/count.h"
#include "net/monitor.h"

enum { LOST_MOST = 64, ENDPOINT_BYTES = SONAR_MONITOR_ENDPOINT_BYTES };
enum { REQUESTS_MOST = 1024, REQUEST_BYTES_MOST = 16384 }; /* of one connection */

/* libzmq says within milliseconds that it is going to connect again. */
static const int64_t given_up_after_ns = 1000000000;

struct connection {
    int fd;
    bool cut; /* it is refused already; what it had sent still comes */
    size_t requests, bytes, foreign_bytes;
    char owner[SONAR_OWNER_BYTES];  /* who has its place, "" without a gate... */
    char holder[SONAR_OWNER_BYTES]; /* ...and who holds foreign_bytes: with CURVE the key */
    uint64_t admitted_before;       /* of all connections, when this one came */
    char endpoint[ENDPOINT_BYTES];  /* of this end */
};

/* An endpoint that the socket connects to and whose connection has ended. */
struct lost {
    char endpoint[ENDPOINT_BYTES];
    int64_t since_ns;
};

struct sonar_peers {
    void *context, *monitor;
    sonar_gate *gate;
    size_t most, count, losses;
    uint64_t refused, accepted, admitted, failed[SONAR_HANDSHAKE_CAUSES];
    uint64_t unended; /* failures whose connection has not ended yet */
    struct connection connection[SONAR_PEERS_MOST];
    struct lost lost[LOST_MOST];
};

/* Two sockets and that for control share what the process may open, less what it needs by itself.
 */
static size_t most_connections(void) {
    enum { OWN = 64 + SONAR_PEERS_OF_CONTROL, LEAST = 16 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return SONAR_PEERS_MOST;
    return limit.rlim_cur > OWN + 2 * LEAST ? (size_t)(limit.rlim_cur - OWN) / 2 : LEAST;
}

sonar_peers *sonar_peers_create(void *zmq_context, size_t most, sonar_gate *gate) {
    sonar_peers *peers = sonar_alloc(1, sizeof *peers);
    if (!peers)
        return NULL;
    peers->context = zmq_context;
    peers->gate = gate;
    peers->most = sonar_min_size(sonar_min_size(most, SONAR_PEERS_MOST), most_connections());
    return peers;
}

void sonar_peers_destroy(sonar_peers *peers) {
    free(peers);
}

/* ---- the monitor ----------------------------------------------------------------------------- */

sonar_code sonar_peers_watch(sonar_peers *peers, void *socket, sonar_error *err) {
    const int events = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_ACCEPT_FAILED | ZMQ_EVENT_CONNECTED |
                       ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                       ZMQ_EVENT_CONNECT_DELAYED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    peers->count = peers->losses = peers->unended = 0;
    peers->monitor = sonar_monitor_open(peers->context, socket, events);
    if (peers->monitor)
        return SONAR_OK;
    return sonar_fail(err, SONAR_ESYS, "peers", "cannot watch the connections: %s",
                      zmq_strerror(zmq_errno()));
}

static void give_back(sonar_peers *peers, const struct connection *connection) {
    if (*connection->owner)
        sonar_gate_give_back(peers->gate, connection->owner, 1, 0);
    if (connection->foreign_bytes)
        sonar_gate_give_back(peers->gate, connection->holder, 0, connection->foreign_bytes);
}

void sonar_peers_forget(sonar_peers *peers, void *socket) {
    if (!peers->monitor)
        return;
    sonar_monitor_close(peers->monitor, socket);
    peers->monitor = NULL;
    for (size_t i = 0; i < peers->count; i++)
        give_back(peers, &peers->connection[i]);
    peers->count = peers->losses = 0;
}

/* ---- connections ----------------------------------------------------------------------------- */

static struct connection *find(sonar_peers *peers, int fd) {
    for (size_t i = 0; i < peers->count; i++)
        if (peers->connection[i].fd == fd)
            return &peers->connection[i];
    return NULL;
}

/* libzmq sees the end of the connection and cleans up. Since the event the descriptor may have been
 * closed and used again, at worst for a newer connection to the same endpoint, which is one too
 * many as well. */
static void refuse(sonar_peers *peers, int fd, const char *endpoint) {
    if (!sonar_connection_is_at(fd, endpoint, false))
        return;
    shutdown(fd, SHUT_RDWR);
    peers->refused++;
}

/* Ends a connection. The descriptor is that of a message (ZMQ_SRCFD); one that is no connection of
 * this socket any more is left alone. */
static void cut(sonar_peers *peers, int fd) {
    struct connection *connection = find(peers, fd);
    if (!connection || connection->cut)
        return;
    connection->cut = true;
    refuse(peers, fd, connection->endpoint);
}

/* What has happened since is taken first: no connection that has been let in may be missed. */
void sonar_peers_cut_all(sonar_peers *peers) {
    sonar_peers_tick(peers, sonar_monotonic_ns());
    for (size_t i = 0; i < peers->count; i++)
        if (sonar_connection_is_at(peers->connection[i].fd, peers->connection[i].endpoint, false))
            shutdown(peers->connection[i].fd, SHUT_RDWR);
}

void sonar_peers_hang_up(sonar_peers *peers) {
    sonar_peers_cut_all(peers);
    for (size_t i = 0; i < peers->count; i++)
        if (*peers->connection[i].owner)
            sonar_gate_pay(peers->gate, peers->connection[i].owner, true, sonar_monotonic_ns());
}

static bool may_hold(sonar_peers *peers, struct connection *connection, const char *owner,
                     size_t bytes, int64_t now_ns) {
    if (!peers->gate)
        return true;
    if (!sonar_gate_hold(peers->gate, owner, bytes, now_ns))
        return false;
    connection->foreign_bytes += bytes;
    snprintf(connection->holder, sizeof connection->holder, "%s", owner);
    return true;
}

/* What a connection asked for that is gone has been work as well. */
void sonar_peers_charge(sonar_peers *peers, zmq_msg_t *request, size_t bytes, bool foreign) {
    const int fd = zmq_msg_get(request, ZMQ_SRCFD);
    const char *owner = zmq_msg_gets(request, "User-Id");
    struct connection *connection = find(peers, fd);
    const int64_t now_ns = sonar_monotonic_ns();
    bool good = true;
    if (connection) {
        connection->requests++;
        connection->bytes += bytes;
        owner = owner && *owner ? owner : connection->owner;
        good = connection->requests <= REQUESTS_MOST && connection->bytes <= REQUEST_BYTES_MOST &&
               (!foreign || may_hold(peers, connection, owner, bytes, now_ns));
    }
    if (peers->gate && owner && *owner && !(connection && connection->cut))
        sonar_gate_pay(peers->gate, owner, !good, now_ns);
    if (!good)
        cut(peers, fd);
}

/* One more of its owner? */
static bool may_enter(sonar_peers *peers, struct connection *connection) {
    if (!peers->gate || !sonar_owner_of_connection(connection->fd, connection->owner))
        return true;
    if (sonar_gate_enter(peers->gate, connection->owner, sonar_monotonic_ns()))
        return true;
    *connection->owner = '\0';
    return false;
}

static void note_accepted(sonar_peers *peers, int fd, const char *endpoint) {
    struct connection *connection = find(peers, fd);
    peers->accepted++;
    if (connection) { /* its end was not told */
        give_back(peers, connection);
        *connection = peers->connection[--peers->count];
    }
    if (peers->count == peers->most) {
        refuse(peers, fd, endpoint);
        return;
    }
    connection = &peers->connection[peers->count++];
    *connection = (struct connection){.fd = fd, .admitted_before = peers->admitted};
    snprintf(connection->endpoint, sizeof connection->endpoint, "%s", endpoint);
    if (!may_enter(peers, connection))
        cut(peers, fd);
}

/* libzmq does not say that it has hung up on a peer that speaks no ZMTP 3 where CURVE is spoken. It
 * shows by an end without a failure before it, of a connection since whose beginning no other has
 * been admitted. */
static void note_failure(sonar_peers *peers, const struct connection *connection) {
    if (peers->unended)
        peers->unended--;
    else if (connection && connection->admitted_before == peers->admitted)
        peers->failed[SONAR_HANDSHAKE_MALFORMED]++;
}

static void note_ended(sonar_peers *peers, int fd, const char *endpoint, int64_t now_ns) {
    struct connection *connection = find(peers, fd);
    note_failure(peers, connection);
    if (connection) {
        give_back(peers, connection);
        *connection = peers->connection[--peers->count];
        return;
    }
    if (peers->losses == LOST_MOST)
        return;
    struct lost *lost = &peers->lost[peers->losses++];
    lost->since_ns = now_ns;
    snprintf(lost->endpoint, sizeof lost->endpoint, "%s", endpoint);
}

static void note_connecting(sonar_peers *peers, const char *endpoint) {
    for (size_t i = 0; i < peers->losses; i++)
        if (!strcmp(peers->lost[i].endpoint, endpoint)) {
            peers->lost[i] = peers->lost[--peers->losses];
            return;
        }
}

static void note_failed(sonar_peers *peers, sonar_handshake_cause cause) {
    peers->failed[cause]++;
    peers->unended++;
}

static void note_event(sonar_peers *peers, const sonar_monitor_event *is, int64_t now_ns) {
    switch (is->event) {
    case ZMQ_EVENT_ACCEPTED:
        note_accepted(peers, is->value, is->endpoint);
        return;
    case ZMQ_EVENT_ACCEPT_FAILED: /* its peer has left, or no descriptor is to be had */
        peers->refused += is->value == ECONNABORTED;
        return;
    case ZMQ_EVENT_DISCONNECTED:
        note_ended(peers, is->value, is->endpoint, now_ns);
        return;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        peers->admitted++;
        return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        note_failed(peers, SONAR_HANDSHAKE_UNKNOWN_KEY);
        return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        note_failed(peers, is->value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH
                               ? SONAR_HANDSHAKE_WRONG_MECHANISM
                           : is->value == ZMQ_PROTOCOL_ERROR_ZAP_INVALID_STATUS_CODE
                               ? SONAR_HANDSHAKE_TOO_OFTEN
                               : SONAR_HANDSHAKE_MALFORMED);
        return;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        note_failed(peers, SONAR_HANDSHAKE_UNFINISHED);
        return;
    default:
        note_connecting(peers, is->endpoint);
    }
}

void *sonar_peers_events(const sonar_peers *peers) {
    return peers->monitor;
}

void sonar_peers_tick(sonar_peers *peers, int64_t now_ns) {
    sonar_monitor_event event;
    while (peers->monitor && sonar_monitor_take(peers->monitor, &event))
        note_event(peers, &event, now_ns);
}

bool sonar_peers_given_up(const sonar_peers *peers, int64_t now_ns) {
    for (size_t i = 0; i < peers->losses; i++)
        if (now_ns - peers->lost[i].since_ns > given_up_after_ns)
            return true;
    return false;
}

size_t sonar_peers_connected(const sonar_peers *peers) {
    return peers->count;
}

void sonar_peers_count(const sonar_peers *peers, sonar_peer_counters *count) {
    sonar_count_set(&count->accepted, peers->accepted);
    sonar_count_set(&count->admitted, peers->admitted);
    sonar_count_set(&count->refused,
                    peers->refused + (peers->gate ? sonar_gate_ended(peers->gate) : 0));
    for (int i = 0; i < SONAR_HANDSHAKE_CAUSES; i++)
        sonar_count_set(&count->failed[i], peers->failed[i]);
}
