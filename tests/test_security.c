/* SPDX-License-Identifier: GPL-3.0-or-later */
/* CURVE over real sockets: which peers are admitted, and that each refused peer is counted by
 * cause. The reader of certificates: test_certificates.c. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"
#include "port.h"
#include "zmtp.h"

enum { MESSAGE_MOST = 3000 };

static void log_nothing(void *ctx, sonar_level level, const char *where, const char *text);
static const sonar_host host = {.log = log_nothing};

static _Atomic int log_lines;

static void log_nothing(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where;
    log_lines++;
    cr_expect(strlen(text) > 20);
}

/* A server of one socket, with its handler, and an allowed client. */
typedef struct server {
    void *context, *socket, *clients; /* clients: a separate context */
    sonar_zap *zap;
    sonar_peers *peers;
    sonar_security security;
    sonar_certificate client;
    char endpoint[64];
    sonar_peer_counters count;
} server;

static sonar_error err;

static sonar_certificate make_certificate(void) {
    sonar_certificate c = {0};
    cr_assert_eq(zmq_curve_keypair(c.public_key, c.secret_key), 0);
    return c;
}

static void allow(server *s, sonar_domain domain, const sonar_certificate *const *certificates,
                  size_t count, bool *fewer) {
    uint8_t key[SONAR_KEYS_MOST][SONAR_KEY_BYTES];
    sonar_keyring ring = {.count = count, .key = key};
    for (size_t i = 0; i < count; i++)
        zmq_z85_decode(key[i], certificates[i]->public_key);
    for (size_t i = 1; i < count; i++) /* ascending */
        for (size_t k = i; k && memcmp(key[k - 1], key[k], SONAR_KEY_BYTES) > 0; k--) {
            uint8_t held[SONAR_KEY_BYTES];
            memcpy(held, key[k], sizeof held);
            memcpy(key[k], key[k - 1], sizeof held);
            memcpy(key[k - 1], held, sizeof held);
        }
    cr_assert_eq(sonar_zap_allow(s->zap, domain, &ring, fewer, &err), SONAR_OK);
}

static server open_server_beside(const char *ipc, int type, sonar_domain domain) {
    server s = {.context = zmq_ctx_new(), .clients = zmq_ctx_new()};
    const sonar_socket_spec spec = {
        .type = type, .messages_out = 100, .messages_in = 100, .message_bytes = MESSAGE_MOST};
    sonar_guard guard;
    bool fewer;
    s.security.curve = true;
    s.security.own = make_certificate();
    s.client = make_certificate();
    own_endpoint("tcp", s.endpoint);
    cr_assert_eq(sonar_zap_create(s.context, &host, &s.zap, &err), SONAR_OK, "%s", err.text);
    allow(&s, domain, (const sonar_certificate *[]){&s.client}, 1, &fewer);
    cr_expect_not(fewer);
    s.peers = sonar_peers_create(s.context, SONAR_PEERS_MOST, NULL);
    cr_assert_eq(sonar_socket_open(s.context, &spec, "test", &s.socket, &err), SONAR_OK);
    cr_assert_eq(sonar_peers_watch(s.peers, s.socket, &err), SONAR_OK);
    s.security.ipc_mode = 0600;
    sonar_guard_of(&s.security, domain, &guard);
    sonar_code code = ipc ? sonar_guard_bind(&guard, s.socket, ipc, &err) : SONAR_OK;
    if (!code)
        code = sonar_guard_bind(&guard, s.socket, s.endpoint, &err);
    cr_assert_eq(code, SONAR_OK, "%s: %s", err.where, err.text);
    return s;
}

static server open_server(int type, sonar_domain domain) {
    return open_server_beside(NULL, type, domain);
}

static void close_server(server *s) {
    sonar_peers_forget(s->peers, s->socket);
    zmq_close(s->socket);
    sonar_zap_destroy(s->zap);
    sonar_peers_destroy(s->peers);
    zmq_ctx_term(s->context);
    zmq_ctx_term(s->clients);
}

static uint64_t failures(const server *s) {
    uint64_t sum = 0;
    for (int i = 0; i < SONAR_HANDSHAKE_CAUSES; i++)
        sum += s->count.failed[i];
    return sum;
}

static void look(server *s) {
    sonar_peers_tick(s->peers, sonar_monotonic_ns());
    sonar_peers_count(s->peers, &s->count);
}

/* Waits until this number of handshakes has ended, with success or failure. */
static void expect_over(server *s, uint64_t admitted, uint64_t failed) {
    for (int i = 0; i < 2000; i++) {
        look(s);
        if (s->count.admitted >= admitted && failures(s) >= failed)
            break;
        usleep(10000);
    }
    usleep(20000); /* and not one more */
    look(s);
    cr_expect_eq(s->count.admitted, admitted, "%llu", (unsigned long long)s->count.admitted);
    cr_expect_eq(failures(s), failed,
                 "unknown %llu, mechanism %llu, malformed %llu, unfinished %llu",
                 (unsigned long long)s->count.failed[0], (unsigned long long)s->count.failed[1],
                 (unsigned long long)s->count.failed[2], (unsigned long long)s->count.failed[3]);
}

static void *client(const server *s, int type, const sonar_certificate *own, const char *key) {
    void *socket = zmq_socket(s->clients, type);
    int never = -1, none = 0, many = 10000, handshake_ms = 20000;
    zmq_setsockopt(socket, ZMQ_SNDHWM, &many, sizeof many);
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RECONNECT_IVL, &never, sizeof never);
    zmq_setsockopt(socket, ZMQ_HANDSHAKE_IVL, &handshake_ms, sizeof handshake_ms);
    cr_assert_eq(sonar_curve_connect(own, key, socket, s->endpoint, &err), SONAR_OK, "%s",
                 err.text);
    return socket;
}

static bool arrives(server *s, int timeout_ms) {
    char bin[16];
    zmq_setsockopt(s->socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    return zmq_recv(s->socket, bin, sizeof bin, 0) >= 0;
}

static void begin(void) {
    cr_assert_geq(sodium_init(), 0);
}

TestSuite(security, .init = begin, .timeout = 600);

/* ---- admitted peers -------------------------------------------------------------------------- */

Test(security, the_right_key_sends_and_no_other) {
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    sonar_certificate stranger = make_certificate();
    void *good = client(&s, ZMQ_PUSH, &s.client, s.security.own.public_key);
    void *bad = client(&s, ZMQ_PUSH, &stranger, s.security.own.public_key);
    cr_expect_eq(zmq_send(good, "x", 1, 0), 1);
    zmq_send(bad, "x", 1, ZMQ_DONTWAIT);
    cr_expect(arrives(&s, 5000));
    expect_over(&s, 1, 1);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_UNKNOWN_KEY], 1);
    cr_expect_not(arrives(&s, 100));
    cr_expect_eq(log_lines, 1);
    zmq_close(good);
    zmq_close(bad);
    close_server(&s);
}

/* One list for each socket: a permitted reader may not send. */
Test(security, a_readers_key_may_not_send) {
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    sonar_certificate reader = make_certificate();
    bool fewer;
    allow(&s, SONAR_READERS, (const sonar_certificate *[]){&reader}, 1, &fewer);
    void *push = client(&s, ZMQ_PUSH, &reader, s.security.own.public_key);
    zmq_send(push, "x", 1, ZMQ_DONTWAIT);
    expect_over(&s, 0, 1);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_UNKNOWN_KEY], 1);
    cr_expect_not(arrives(&s, 100));
    zmq_close(push);
    close_server(&s);
}

Test(security, keys_come_and_go_while_running) {
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    sonar_certificate second = make_certificate();
    const sonar_certificate *const list[] = {&s.client, &second};
    bool fewer;
    void *one = client(&s, ZMQ_PUSH, &s.client, s.security.own.public_key);
    expect_over(&s, 1, 0);
    allow(&s, SONAR_SENDERS, list, 2, &fewer);
    cr_expect_not(fewer);
    void *two = client(&s, ZMQ_PUSH, &second, s.security.own.public_key);
    expect_over(&s, 2, 0);
    allow(&s, SONAR_SENDERS, list + 1, 1, &fewer);
    cr_expect(fewer);
    sonar_peers_cut_all(s.peers); /* the second may come back, the first may not */
    zmq_close(one);
    zmq_close(two);
    one = client(&s, ZMQ_PUSH, &s.client, s.security.own.public_key);
    two = client(&s, ZMQ_PUSH, &second, s.security.own.public_key);
    expect_over(&s, 3, 1);
    for (int i = 0; i < 2000 && sonar_peers_connected(s.peers) != 1; i++, usleep(10000))
        look(&s); /* a failed handshake ends a moment before its connection */
    cr_expect_eq(sonar_peers_connected(s.peers), 1);
    zmq_close(one);
    zmq_close(two);
    close_server(&s);
}

/* Without an authentication handler libzmq admits every key, unless configured otherwise. */
Test(security, no_one_is_let_in_without_the_handler) {
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    sonar_zap_destroy(s.zap);
    s.zap = NULL;
    void *push = client(&s, ZMQ_PUSH, &s.client, s.security.own.public_key);
    zmq_send(push, "x", 1, ZMQ_DONTWAIT);
    cr_expect_not(arrives(&s, 500));
    look(&s);
    cr_expect_eq(s.count.admitted, 0);
    zmq_close(push);
    close_server(&s);
}

/* ---- refused peers --------------------------------------------------------------------------- */

Test(security, each_failure_is_counted_by_its_cause) {
    enum { EACH = 20 };
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    sonar_certificate stranger = make_certificate(), other_server = make_certificate();
    void *held[2 * EACH];
    int fd[7 * EACH];
    const char *key = s.security.own.public_key;
    for (int i = 0; i < EACH; i++) {
        held[2 * i] = client(&s, ZMQ_PUSH, &stranger, key);
        held[2 * i + 1] = client(&s, ZMQ_PUSH, &s.client, other_server.public_key);
    }
    expect_over(&s, 0, 2 * EACH);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_UNKNOWN_KEY], EACH);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_MALFORMED], EACH);
    for (int i = 0; i < 7 * EACH; i++) {
        fd[i] = zmtp_connect(s.endpoint);
        cr_assert_geq(fd[i], 0);
        switch (i / EACH) {
        case 0: /* a plain client */
            cr_expect_not(zmtp_handshake(fd[i], "PUSH"));
            break;
        case 1:
            zmtp_greet(fd[i], "PLAIN");
            break;
        case 2: /* no ZMTP at all */
            zmtp_bytes(fd[i], "GET / HTTP/1.1\r\n\r\n", 18, 1000);
            break;
        case 3: /* ZMTP 2 */
            zmtp_bytes(fd[i], "\xff\0\0\0\0\0\0\0\1\x7f\1\10\0\0", 14, 1000);
            break;
        case 4: /* a HELLO of rubbish */
            cr_expect(zmtp_greet(fd[i], "CURVE"));
            zmtp_part(fd[i], i, 200, false, 1000);
            break;
        case 5: /* half a handshake, then the connection is closed */
            cr_expect(zmtp_greet(fd[i], "CURVE"));
            cr_expect(zmtp_curve_hello(fd[i], key));
            close(fd[i]);
            break;
        default: /* half a handshake, then rubbish */
            cr_expect(zmtp_greet(fd[i], "CURVE"));
            cr_expect(zmtp_curve_hello(fd[i], key));
            zmtp_part(fd[i], i, 257, false, 1000);
        }
    }
    expect_over(&s, 0, 9 * EACH);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_UNKNOWN_KEY], EACH);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_WRONG_MECHANISM], 2 * EACH);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_MALFORMED], 5 * EACH);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_UNFINISHED], EACH);
    cr_expect_eq(s.count.accepted, 9 * EACH);
    void *good = client(&s, ZMQ_PUSH, &s.client, key);
    cr_expect_eq(zmq_send(good, "x", 1, 0), 1);
    cr_expect(arrives(&s, 5000));
    expect_over(&s, 1, 9 * EACH);
    zmq_close(good);
    for (int i = 0; i < 2 * EACH; i++)
        zmq_close(held[i]);
    for (int i = 0; i < 7 * EACH; i++)
        if (i / EACH != 5)
            close(fd[i]);
    close_server(&s);
}

/* Half-open connections hold resources only for the time limit of the handshake. */
Test(security, half_open_handshakes_end) {
    enum { HALF = 50 };
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    int fd[HALF];
    for (int i = 0; i < HALF; i++) {
        fd[i] = zmtp_connect(s.endpoint);
        cr_assert(zmtp_greet(fd[i], "CURVE"));
        cr_assert(zmtp_curve_hello(fd[i], s.security.own.public_key));
    }
    void *good = client(&s, ZMQ_PUSH, &s.client, s.security.own.public_key);
    cr_expect_eq(zmq_send(good, "x", 1, 0), 1);
    cr_expect(arrives(&s, 5000));
    expect_over(&s, 1, HALF);
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_UNFINISHED], HALF);
    cr_expect_eq(sonar_peers_connected(s.peers), 1);
    for (int i = 0; i < HALF; i++)
        close(fd[i]);
    zmq_close(good);
    close_server(&s);
}

/* ---- the handler ----------------------------------------------------------------------------- */

/* Requests as from libzmq, and invalid ones; returns the answer, "" for none. */
static void ask(void *socket, const char *const *frame, const size_t *bytes, int frames,
                char status[16]) {
    char bin[64];
    int got, more = 1, wait_ms = 1000;
    size_t size = sizeof more;
    *status = '\0';
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    zmq_send(socket, "", 0, ZMQ_SNDMORE);
    for (int i = 0; i < frames; i++)
        zmq_send(socket, frame[i], bytes[i], i + 1 < frames ? ZMQ_SNDMORE : 0);
    for (int i = 0; more; i++) {
        got = zmq_recv(socket, bin, sizeof bin, 0);
        if (got < 0 || zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size))
            return;
        if (i == 3)
            snprintf(status, 16, "%.*s", got, bin);
    }
}

Test(security, the_handler_survives_what_libzmq_never_asks) {
    static char huge[100000];
    uint8_t key[SONAR_KEY_BYTES];
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    char status[16];
    void *asker = zmq_socket(s.context, ZMQ_DEALER);
    int none = 0;
    zmq_setsockopt(asker, ZMQ_LINGER, &none, sizeof none);
    cr_assert_eq(zmq_connect(asker, "inproc://zeromq.zap.01"), 0);
    zmq_z85_decode(key, s.client.public_key);
    const char *good[] = {"1.0", "7", "senders", "10.0.0.1", "", "CURVE", (char *)key, "x"};
    const size_t bytes[] = {3, 1, 7, 8, 0, 5, SONAR_KEY_BYTES, 1};
    ask(asker, good, bytes, 7, status);
    cr_expect_str_eq(status, "200");
    for (int frames = 1; frames < 9; frames++) { /* too few, too many */
        ask(asker, good, bytes, frames, status);
        cr_expect_str_eq(status, frames == 7 ? "200" : "400", "%d: %s", frames, status);
    }
    for (int at = 0; at < 7; at++) { /* empty, huge, one letter off */
        const char *bad[7];
        size_t length[7];
        for (int kind = 0; kind < 3; kind++) {
            memcpy(bad, good, sizeof bad);
            memcpy(length, bytes, sizeof length);
            bad[at] = kind == 2 ? "nonsense nonsense nonsense nonsense" : huge;
            length[at] = kind == 0 ? 0 : kind == 1 ? sizeof huge : bytes[at];
            ask(asker, bad, length, 7, status);
            bool free_text = at == 1 || at == 3 || at == 4;
            cr_expect_str_eq(status, free_text && !(at == 1 && kind == 1) ? "200" : "400",
                             "frame %d, %d: %s", at, kind, status);
        }
    }
    zmq_send(asker, "no delimiter", 12, 0);
    zmq_send(asker, "", 0, 0);
    ask(asker, good, bytes, 7, status);
    cr_expect_str_eq(status, "200");
    zmq_close(asker);
    close_server(&s);
}

/* Thousands of requests at once, each answered, with one line in the log a second. */
Test(security, a_flood_of_strangers_is_one_line_of_log_a_second) {
    enum { ROUNDS = 20, EACH = 25 };
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    void *socket[EACH];
    int64_t began_ns = sonar_monotonic_ns();
    for (int round = 0; round < ROUNDS; round++) {
        sonar_certificate stranger = make_certificate();
        for (int i = 0; i < EACH; i++)
            socket[i] = client(&s, ZMQ_PUSH, &stranger, s.security.own.public_key);
        expect_over(&s, 0, (uint64_t)(round + 1) * EACH);
        for (int i = 0; i < EACH; i++)
            zmq_close(socket[i]);
    }
    cr_expect_eq(s.count.failed[SONAR_HANDSHAKE_UNKNOWN_KEY], ROUNDS * EACH);
    int64_t seconds = (sonar_monotonic_ns() - began_ns) / 1000000000;
    cr_expect_leq(log_lines, seconds + 1);
    close_server(&s);
}

/* ---- limits hold for what is encrypted ------------------------------------------------------- */

Test(security, the_message_limit_is_that_of_the_message) {
    static char message[MESSAGE_MOST + 1];
    server s = open_server(ZMQ_PULL, SONAR_SENDERS);
    void *push = client(&s, ZMQ_PUSH, &s.client, s.security.own.public_key);
    cr_expect_eq(zmq_send(push, message, MESSAGE_MOST, 0), MESSAGE_MOST);
    cr_expect(arrives(&s, 5000), "a message of the largest size is refused");
    cr_expect_eq(zmq_send(push, message, MESSAGE_MOST + 1, 0), MESSAGE_MOST + 1);
    cr_expect_not(arrives(&s, 300), "a message beyond the largest size is taken");
    zmq_close(push);
    close_server(&s);
}

/* The limit of readers' requests is counted by connection, which libzmq has to name. */
Test(security, a_hoard_of_subscriptions_is_cut_over_curve) {
    server s = open_server(ZMQ_XPUB, SONAR_READERS);
    void *sub = client(&s, ZMQ_SUB, &s.client, s.security.own.public_key);
    char topic[32];
    bool cut = false;
    int wait_ms = 5000;
    for (int i = 0; i < 3000; i++) {
        snprintf(topic, sizeof topic, "hoard %d", i);
        zmq_setsockopt(sub, ZMQ_SUBSCRIBE, topic, strlen(topic));
    }
    zmq_setsockopt(s.socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    for (int i = 0; i < 3000 && !cut; i++) {
        zmq_msg_t request;
        zmq_msg_init(&request);
        cr_assert_gt(zmq_msg_recv(&request, s.socket, 0), 0);
        look(&s);
        cr_assert_gt(zmq_msg_get(&request, ZMQ_SRCFD), 0, "libzmq does not say whose it is");
        sonar_peers_charge(s.peers, &request, zmq_msg_size(&request), false);
        zmq_msg_close(&request);
        look(&s);
        cut = s.count.refused > 0;
    }
    cr_expect(cut);
    for (zmq_msg_t request; cut; zmq_msg_close(&request)) { /* its subscriptions still exist */
        zmq_msg_init(&request);
        cut = zmq_msg_recv(&request, s.socket, ZMQ_DONTWAIT) >= 0;
        if (cut)
            sonar_peers_charge(s.peers, &request, zmq_msg_size(&request), false);
    }
    look(&s);
    cr_expect_eq(s.count.refused, 1);
    zmq_close(sub);
    close_server(&s);
}

/* ---- endpoints ------------------------------------------------------------------------------- */

Test(security, without_a_key_nothing_beyond_loopback_opens) {
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PULL);
    const sonar_guard plain = {0};
    cr_expect_eq(sonar_guard_bind(&plain, socket, "tcp://0.0.0.0:26001", &err), SONAR_EINVAL);
    cr_expect(strstr(err.text, "security.key"), "%s", err.text);
    cr_expect_eq(sonar_guard_connect(&plain, "", socket, "tcp://192.0.2.1:26001", &err),
                 SONAR_EINVAL);
    zmq_close(socket);
    zmq_ctx_term(context);
}

/* One socket with an encrypted and an open endpoint: the options of one are not those of the other.
 */
Test(security, ipc_beside_curve_is_plain) {
    char path[] = "/tmp/sonar-test-XXXXXX", ipc[64], more[64];
    struct stat about;
    sonar_guard guard;
    int none = 0;
    cr_assert(mkdtemp(path));
    snprintf(ipc, sizeof ipc, "ipc://%s/in", path);
    snprintf(more, sizeof more, "ipc://%s/more", path);
    server s = open_server_beside(ipc, ZMQ_PULL, SONAR_SENDERS);
    cr_assert_eq(stat(ipc + 6, &about), 0);
    cr_expect_eq(about.st_mode & 07777, 0600);
    cr_expect_eq(
        sonar_guard_bind(sonar_guard_of(&s.security, SONAR_SENDERS, &guard), s.socket, more, &err),
        SONAR_ESTATE);
    void *push = zmq_socket(s.clients, ZMQ_PUSH);
    zmq_setsockopt(push, ZMQ_LINGER, &none, sizeof none);
    cr_assert_eq(zmq_connect(push, ipc), 0);
    cr_expect_eq(zmq_send(push, "x", 1, 0), 1);
    cr_expect(arrives(&s, 5000));
    void *other = client(&s, ZMQ_PUSH, &s.client, s.security.own.public_key);
    cr_expect_eq(zmq_send(other, "x", 1, 0), 1);
    cr_expect(arrives(&s, 5000));
    int fd = zmtp_connect(s.endpoint);
    cr_expect_not(zmtp_handshake(fd, "PUSH"), "the endpoint that speaks CURVE also speaks plain");
    close(fd);
    zmq_close(push);
    zmq_close(other);
    close_server(&s);
    unlink(ipc + 6);
    rmdir(path);
}
