/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The gate: how often an owner may join and how much it may hold; and over real sockets, that a
 * refused reader reconnects by itself. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"
#include "port.h"
#include "zmtp.h"

static const int64_t second_ns = 1000000000;
static sonar_error err;

static int joins(sonar_gate *gate, const char *owner, int tries, int64_t now_ns) {
    int count = 0;
    for (int i = 0; i < tries; i++)
        count += sonar_gate_join(gate, owner, now_ns);
    return count;
}

Test(gate, one_owner_joins_in_bursts_and_at_a_rate_and_takes_nothing_from_others) {
    sonar_gate *gate = sonar_gate_create(8);
    const int64_t now_ns = sonar_monotonic_ns();
    cr_expect_eq(joins(gate, "user 1", 1000, now_ns), 30);
    cr_expect_eq(joins(gate, "user 2", 1, now_ns), 1);
    for (int i = 1; i <= 10;
         i++) /* a peer that asks all the time is still admitted at the limit's rate */
        cr_expect_eq(joins(gate, "user 1", 1000, now_ns + i * second_ns), 5, "second %d", i);
    cr_expect_eq(joins(gate, "user 1", 1000, now_ns + 100 * second_ns), 30);
    sonar_gate_destroy(gate);
}

Test(gate, many_owners_have_one_more_limit_together) {
    sonar_gate *gate = sonar_gate_create(8);
    const int64_t now_ns = sonar_monotonic_ns();
    char owner[SONAR_OWNER_BYTES];
    for (int s = 0; s < 4; s++) {
        int count = 0;
        for (int i = 0; i < 20000; i++) {
            snprintf(owner, sizeof owner, "10.%d.%d.%d", s, i / 256, i % 256);
            count += joins(gate, owner, 1, now_ns + s * second_ns);
        }
        cr_expect_eq(count, s ? 24 : 48, "%d", count);
    }
    sonar_gate_destroy(gate);
}

/* Without its rounds the thread would have more work the longer a round lasts. */
Test(gate, peers_join_only_as_fast_as_the_thread_takes_their_requests) {
    sonar_gate *gate = sonar_gate_create(8);
    const int64_t now_ns = sonar_monotonic_ns();
    sonar_gate_attend(gate, "tcp://127.0.0.1:1");
    cr_expect_eq(joins(gate, "user 1", 30, now_ns), 8);
    cr_expect_eq(joins(gate, "user 2", 30, now_ns), 0);
    sonar_gate_round(gate, false); /* requests still wait */
    cr_expect_eq(joins(gate, "user 2", 30, now_ns), 0);
    sonar_gate_round(gate, true);
    cr_expect_eq(joins(gate, "user 2", 30, now_ns), 8);
    sonar_gate_attend(gate, NULL);
    cr_expect_eq(joins(gate, "user 2", 30, now_ns), 22);
    sonar_gate_destroy(gate);
}

Test(gate, who_is_hung_up_on_stays_out_for_seconds_and_not_for_ever) {
    sonar_gate *gate = sonar_gate_create(8);
    const int64_t now_ns = sonar_monotonic_ns();
    for (int i = 0; i < 1000; i++)
        sonar_gate_pay(gate, "user 1", true, now_ns);
    cr_expect_eq(joins(gate, "user 1", 10, now_ns + 9 * second_ns), 0);
    cr_expect_eq(joins(gate, "user 1", 1, now_ns + 12 * second_ns), 1);
    for (int i = 0; i < 160; i++) /* requests of a reader of all topics, a dozen times */
        sonar_gate_pay(gate, "user 2", false, now_ns);
    cr_expect_eq(joins(gate, "user 2", 30, now_ns), 20);
    sonar_gate_destroy(gate);
}

Test(gate, places_and_foreign_bytes_are_given_back) {
    sonar_gate *gate = sonar_gate_create(8);
    const int64_t now_ns = sonar_monotonic_ns();
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < 8; i++)
            cr_expect(sonar_gate_enter(gate, "a", now_ns));
        cr_expect_not(sonar_gate_enter(gate, "a", now_ns));
        cr_expect(sonar_gate_enter(gate, "b", now_ns));
        cr_expect(sonar_gate_hold(gate, "a", 2048, now_ns));
        cr_expect_not(sonar_gate_hold(gate, "a", 1, now_ns));
        sonar_gate_give_back(gate, "a", 8, 2048);
        sonar_gate_give_back(gate, "b", 1, 0);
    }
    char owner[SONAR_OWNER_BYTES];
    for (int i = 0; i < 8; i++) { /* all together */
        snprintf(owner, sizeof owner, "user %d", i);
        cr_expect(sonar_gate_hold(gate, owner, 2048, now_ns));
    }
    cr_expect_not(sonar_gate_hold(gate, "one more", 1, now_ns));
    sonar_gate_give_back(gate, "user 3", 0, 1);
    cr_expect(sonar_gate_hold(gate, "one more", 1, now_ns));
    sonar_gate_destroy(gate);
}

Test(gate, owners_are_named_by_address_network_or_user) {
    static const struct {
        const char *address, *owner;
    } row[] = {{"127.0.0.1", "127.0.0.1"},
               {"::ffff:192.168.10.7", "192.168.10.7"},
               {"::1", "::1"},
               {"2001:db8:1:2:aaaa:bbbb:cccc:dddd", "2001:db8:1:2::/64"},
               {"localhost:1000:100:4711", "user 1000"}};
    char owner[SONAR_OWNER_BYTES];
    int pair[2];
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        sonar_owner_of_address(row[i].address, owner);
        cr_expect_str_eq(owner, row[i].owner);
    }
    char wanted[SONAR_OWNER_BYTES];
    snprintf(wanted, sizeof wanted, "user %u", (unsigned)getuid());
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    cr_expect(sonar_owner_of_connection(pair[0], owner));
    cr_expect_str_eq(owner, wanted);
    close(pair[0]);
    close(pair[1]);
    cr_expect_not(sonar_owner_of_connection(pair[0], owner));
}

/* ---- over sockets ---------------------------------------------------------------------------- */

static void log_nothing(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

static const sonar_host host = {.log = log_nothing};

typedef struct hall {
    void *context, *socket, *clients;
    sonar_zap *zap;
    sonar_gate *gate;
    sonar_peers *peers;
    char endpoint[64], owner[SONAR_OWNER_BYTES]; /* of this process's readers */
} hall;

/* Only the other side can end a handshake of this socket. */
static void wait_for_handshakes(void *socket) {
    const int for_ever = 0;
    cr_assert_eq(zmq_setsockopt(socket, ZMQ_HANDSHAKE_IVL, &for_ever, sizeof for_ever), 0);
}

static hall open_hall(size_t places, const char *endpoint) {
    hall h = {.context = zmq_ctx_new(), .clients = zmq_ctx_new()};
    const sonar_socket_spec spec = {
        .type = ZMQ_XPUB, .messages_out = 100, .messages_in = 100, .message_bytes = 128};
    const sonar_guard guard = {.domain = SONAR_READERS};
    if (endpoint)
        snprintf(h.endpoint, sizeof h.endpoint, "%s", endpoint);
    else
        own_endpoint("tcp", h.endpoint);
    snprintf(h.owner, sizeof h.owner, endpoint ? "user %u" : "127.0.0.1", (unsigned)getuid());
    cr_assert_eq(sonar_zap_create(h.context, &host, &h.zap, &err), SONAR_OK);
    h.gate = sonar_gate_create(places);
    sonar_zap_gate(h.zap, SONAR_READERS, h.gate);
    h.peers = sonar_peers_create(h.context, SONAR_PEERS_MOST, h.gate);
    cr_assert_eq(sonar_socket_open(h.context, &spec, "test", &h.socket, &err), SONAR_OK);
    wait_for_handshakes(h.socket);
    const int every_subscribe = 1; /* messages of a peer that has left may still be queued */
    zmq_setsockopt(h.socket, ZMQ_XPUB_VERBOSE, &every_subscribe, sizeof every_subscribe);
    cr_assert_eq(sonar_peers_watch(h.peers, h.socket, &err), SONAR_OK);
    cr_assert_eq(sonar_guard_bind(&guard, h.socket, h.endpoint, &err), SONAR_OK, "%s", err.text);
    return h;
}

static void close_hall(hall *h) {
    sonar_peers_forget(h->peers, h->socket);
    zmq_close(h->socket);
    sonar_zap_destroy(h->zap);
    sonar_peers_destroy(h->peers);
    sonar_gate_destroy(h->gate);
    zmq_ctx_term(h->context);
    zmq_ctx_term(h->clients);
}

static sonar_peer_counters look(hall *h) {
    sonar_peer_counters count = {0};
    sonar_peers_tick(h->peers, sonar_monotonic_ns());
    sonar_peers_count(h->peers, &count);
    return count;
}

static void *reader(const hall *h, const char *topic) {
    void *socket = zmq_socket(h->clients, ZMQ_SUB);
    const int zero = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    wait_for_handshakes(socket);
    zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    cr_assert_eq(zmq_connect(socket, h->endpoint), 0);
    return socket;
}

/* The owner of the next subscription. libzmq subscribes again after a new connection when the
 * reader calls it. */
static void expect_subscription(hall *h, void *reader, const char *owner) {
    zmq_msg_t request;
    int bytes = -1;
    zmq_msg_init(&request);
    for (int i = 0; i < 2000 && bytes < 0; i++) {
        zmq_pollitem_t item = {.socket = reader, .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, 10);
        bytes = zmq_msg_recv(&request, h->socket, ZMQ_DONTWAIT);
    }
    cr_assert_gt(bytes, 0, "no subscription came");
    cr_expect_str_eq(zmq_msg_gets(&request, "User-Id"), owner);
    zmq_msg_close(&request);
}

/* libzmq has to disconnect if the gate is closed, and its client has to try again. */
Test(gate, readers_that_were_refused_come_back_by_themselves) {
    enum { READERS = 6 };
    void *socket[READERS];
    hall h = open_hall(8, NULL);
    char owner[SONAR_OWNER_BYTES] = "";
    sonar_owner_of_address("127.0.0.1", owner);
    sonar_gate_pay(h.gate, owner, true, sonar_monotonic_ns());
    sonar_gate_pay(h.gate, owner, true, sonar_monotonic_ns()); /* for 2.4 s */
    for (int i = 0; i < READERS; i++)
        socket[i] = reader(&h, (const char[]){(char)('a' + i), '\0'});
    for (int i = 0; i < READERS; i++)
        expect_subscription(&h, socket[i], owner);
    const sonar_peer_counters count = look(&h);
    cr_expect_geq(count.failed[SONAR_HANDSHAKE_TOO_OFTEN],
                  READERS); /* the number depends on the load */
    cr_expect_eq(count.failed[SONAR_HANDSHAKE_MALFORMED], 0);
    cr_expect_eq(count.admitted, READERS);
    cr_expect_eq(sonar_peers_connected(h.peers), READERS);
    for (int i = 0; i < READERS; i++)
        zmq_close(socket[i]);
    close_hall(&h);
}

/* Sends subscriptions until the connection ends or `for_ms` have passed; true: it has ended. */
static bool flood(int fd, int for_ms) {
    static const uint8_t subscription[] = {0, 4, 1, 'f', 'o', 'o'};
    const int64_t end_ns = sonar_monotonic_ns() + (int64_t)for_ms * 1000000;
    while (sonar_monotonic_ns() < end_ns)
        if (!zmtp_bytes(fd, subscription, sizeof subscription, 100) && zmtp_is_over(fd))
            return true;
    return false;
}

/* Uses its processor, as if inside libzmq, until it is told to stop; or waits. */
struct attendant {
    const hall *hall;
    bool waits;
    atomic_bool stop;
};

static void *attend(void *arg) {
    struct attendant *is = arg;
    sonar_gate_attend(is->hall->gate, is->hall->endpoint);
    while (!atomic_load(&is->stop))
        if (is->waits)
            usleep(1000);
    sonar_gate_attend(is->hall->gate, NULL);
    return NULL;
}

/* A reader that asks for little stays connected. */
static bool is_flood_ended(const char *endpoint, bool waits) {
    hall h = open_hall(8, endpoint);
    struct attendant attendant = {&h, waits, false};
    pthread_t thread;
    void *quiet = reader(&h, "cbf");
    expect_subscription(&h, quiet, h.owner);
    const int fd = zmtp_connect(h.endpoint);
    cr_assert(zmtp_handshake(fd, "SUB"));
    cr_assert_eq(pthread_create(&thread, NULL, attend, &attendant), 0);
    const bool ended = flood(fd, waits ? 1000 : 30000);
    atomic_store(&attendant.stop, true);
    pthread_join(thread, NULL);
    char request[8]; /* libzmq ends a connection once its requests are read */
    sonar_peer_counters count = look(&h);
    for (int i = 0; i < 20000; i++, count = look(&h))
        if (sonar_peers_connected(h.peers) == 2U - ended && count.refused == ended)
            break;
        else if (zmq_recv(h.socket, request, sizeof request, ZMQ_DONTWAIT) < 0)
            usleep(1000);
    cr_expect_eq(sonar_peers_connected(h.peers), 2U - ended);
    cr_expect_eq(count.refused, ended);
    close(fd);
    zmq_close(quiet);
    close_hall(&h);
    return ended;
}

Test(gate, who_floods_a_thread_that_is_inside_libzmq_is_hung_up_on_by_another) {
    char folder[] = "/tmp/sonar-gate-XXXXXX", path[64];
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "ipc://%s/out", folder);
    cr_expect(is_flood_ended(NULL, false));
    cr_expect(is_flood_ended(path, false));
    cr_expect_not(is_flood_ended(NULL, true), "a thread that does not run");
    unlink(path + strlen("ipc://"));
    rmdir(folder);
}

/* Takes `count` subscriptions to undefined topics; false: a peer was disconnected. */
static bool take_foreign(hall *h, void *reader, int count) {
    while (count) {
        zmq_pollitem_t item[] = {{.socket = h->socket, .events = ZMQ_POLLIN},
                                 {.socket = reader, .events = ZMQ_POLLIN}};
        zmq_msg_t request;
        cr_assert_gt(zmq_poll(item, 2, 20000), 0, "no subscription came");
        look(h); /* whose it is */
        zmq_msg_init(&request);
        if (zmq_msg_recv(&request, h->socket, ZMQ_DONTWAIT) > 0 &&
            *(const char *)zmq_msg_data(&request) == 1) {
            sonar_peers_charge(h->peers, &request, zmq_msg_size(&request), true);
            count--;
        }
        zmq_msg_close(&request);
    }
    return !look(h).refused;
}

static void leave(hall *h, void *reader) {
    zmq_close(reader);
    for (int i = 0; i < 2000 && sonar_peers_connected(h->peers); i++)
        look(h), usleep(10000);
    cr_assert_eq(sonar_peers_connected(h->peers), 0);
}

/* libzmq reports only the last end of a subscription, so subscriptions are not released one by
 * one. */
Test(gate, foreign_bytes_are_given_back_with_their_connection) {
    enum { TOPICS = 16, BYTES = 100 };
    hall h = open_hall(8, NULL);
    char topic[BYTES + 1] = "";
    memset(topic, 'x', BYTES);
    for (int round = 0; round < 4; round++) { /* most of what one may hold, each time */
        void *socket = reader(&h, "x");
        for (int i = 1; i < TOPICS; i++) {
            topic[0] = (char)('a' + i);
            zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, BYTES);
        }
        cr_assert(take_foreign(&h, socket, TOPICS), "round %d", round);
        leave(&h, socket);
    }
    close_hall(&h);
}

Test(gate, one_owner_has_so_many_places_and_gets_them_back) {
    char folder[] = "/tmp/sonar-gate-XXXXXX", path[64], owner[SONAR_OWNER_BYTES];
    void *socket[5];
    cr_assert(mkdtemp(folder));
    snprintf(path, sizeof path, "ipc://%s/out", folder);
    snprintf(owner, sizeof owner, "user %u", (unsigned)getuid());
    hall h = open_hall(4, path);
    for (int i = 0; i < 4; i++) {
        socket[i] = reader(&h, (const char[]){(char)('a' + i), '\0'});
        expect_subscription(&h, socket[i], owner);
        look(&h);
    }
    socket[4] = reader(&h, "cbf");
    for (int i = 0; i < 2000 && !look(&h).refused; i++)
        usleep(10000);
    cr_expect_geq(look(&h).refused, 1);
    zmq_close(socket[0]);
    for (int i = 0; i < 2000 && sonar_peers_connected(h.peers) != 4; i++)
        look(&h), usleep(10000);
    cr_expect_eq(sonar_peers_connected(h.peers), 4);
    for (int i = 1; i < 5; i++)
        zmq_close(socket[i]);
    close_hall(&h);
    unlink(path + strlen("ipc://"));
    rmdir(folder);
}
