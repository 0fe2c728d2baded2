/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sockets' common options. Paths of endpoints: test_endpoint.c; connections under attack:
 * plain_siege.c. */
#include "net/net.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "port.h"
#include "zmtp.h"

static void *context;

static void *open_socket(int type) {
    const sonar_socket_spec spec = {
        .type = type, .messages_out = 8, .messages_in = 8, .message_bytes = 1000};
    void *socket;
    sonar_error err = {0};
    cr_assert_eq(sonar_socket_open(context, &spec, "test", &socket, &err), SONAR_OK, "%s",
                 err.text);
    return socket;
}

/* Never terminated, since that would wait for ever for a socket that a failed test has left open.
 */
static void begin(void) {
    context = zmq_ctx_new();
}

TestSuite(endpoint, .init = begin);
TestSuite(sockets, .init = begin);

static void *bind_any(bool curve, char endpoint[64]) {
    char public_key[41], secret_key[41];
    size_t bytes = 64;
    void *pull = open_socket(ZMQ_PULL);
    zmq_curve_keypair(public_key, secret_key);
    if (curve) {
        zmq_setsockopt(pull, ZMQ_CURVE_SERVER, &(int){1}, sizeof(int));
        zmq_setsockopt(pull, ZMQ_CURVE_SECRETKEY, secret_key, sizeof secret_key);
    }
    cr_assert_eq(zmq_bind(pull, "tcp://127.0.0.1:*"), 0);
    cr_assert_eq(zmq_getsockopt(pull, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
    return pull;
}

/* Of these two libzmq reports a plain client, but not always: see net/greeting.c. */
Test(endpoint, a_server_says_what_it_speaks) {
    char endpoint[64];
    void *curve = bind_any(true, endpoint);
    cr_expect(sonar_greets_with_curve(endpoint));
    zmq_close(curve);
    void *plain = bind_any(false, endpoint);
    cr_expect(!sonar_greets_with_curve(endpoint));
    zmq_close(plain);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    const int mute = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert(!bind(mute, (struct sockaddr *)&at, size) && !listen(mute, 1) &&
              !getsockname(mute, (struct sockaddr *)&at, &size));
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", ntohs(at.sin_port));
    cr_expect(!sonar_greets_with_curve(endpoint));
    close(mute);
    cr_expect(!sonar_greets_with_curve(endpoint));
    cr_expect(!sonar_greets_with_curve("tcp://:1"));
    cr_expect(!sonar_greets_with_curve("ipc:///tmp/none"));
}

/* libzmq cannot bind to a name, and connects to the first address of a name. */
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
        usleep(1000); /* until the probe has disconnected */
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

/* ---- a listener that is kept from its processor -----------------------------------------------
 */

/* In a process of its own that stops itself once it listens. */
static pid_t stopped_listener(const char *const endpoint[2]) {
    const pid_t child = fork();
    if (child == 0) {
        void *pull = open_socket(ZMQ_PULL);
        const bool good = !zmq_bind(pull, endpoint[0]) && !zmq_bind(pull, endpoint[1]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        raise(SIGSTOP);
        _exit(good);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    cr_assert(WIFSTOPPED(status));
    return child;
}

static int kernels_backlog(void) {
    FILE *file = fopen("/proc/sys/net/core/somaxconn", "r");
    int most = 0;
    if (file && fscanf(file, "%d", &most) != 1)
        most = 0;
    if (file)
        fclose(file);
    return most;
}

/* The crowd's connection attempts are kept until the listener runs again. */
Test(sockets, a_crowd_can_connect_to_a_listener_that_is_stopped) {
    enum { CROWD = 600 };
    char tcp[48], ipc[64], dir[] = "/tmp/sonar-net-XXXXXX";
    if (kernels_backlog() < CROWD)
        cr_skip_test("net.core.somaxconn is below 600");
    cr_assert_not_null(mkdtemp(dir));
    own_endpoint("tcp", tcp);
    snprintf(ipc, sizeof ipc, "ipc://%s/in", dir);
    const char *const endpoint[2] = {tcp, ipc};
    const pid_t listener = stopped_listener(endpoint);
    for (int e = 0; e < 2; e++)
        for (int i = 0; i < CROWD / 2; i++)
            cr_assert_geq(zmtp_connect(endpoint[e]), 0, "%s: number %d", endpoint[e], i);
    kill(listener, SIGKILL);
    waitpid(listener, NULL, 0);
    unlink(ipc + strlen("ipc://"));
    rmdir(dir);
}

/* ---- the end of a sender --------------------------------------------------------------------- */

enum { LETTERS = 40, LETTER_BYTES = 1000 }; /* more than libzmq keeps, and less than the kernel */

typedef struct hasty {
    const char *endpoint;
    atomic_bool gone; /* as far as libzmq reports */
    bool all_read;
} hasty;

static void *send_and_leave(void *data) {
    static const volatile sig_atomic_t no_stop = 0;
    hasty *h = data;
    const int few = 8, long_ms = 10000;
    char letter[LETTER_BYTES] = {0};
    sonar_held held;
    void *own = zmq_ctx_new(), *push = zmq_socket(own, ZMQ_PUSH);
    zmq_setsockopt(push, ZMQ_SNDHWM, &few, sizeof few);
    zmq_setsockopt(push, ZMQ_LINGER, &long_ms, sizeof long_ms);
    zmq_connect(push, h->endpoint);
    for (int i = 0; i < LETTERS; i++) {
        letter[0] = (char)i;
        zmq_send(push, letter, sizeof letter, 0);
    }
    sonar_connections_hold(&held, &push, 1, false);
    zmq_close(push);
    zmq_ctx_term(own);
    atomic_store(&h->gone, true);
    h->all_read = held.count == 1 && sonar_connections_release(&held, long_ms, &no_stop);
    return NULL;
}

/* No message is read before the sender has disconnected. */
static void expect_all_letters(const char *endpoint) {
    const int wait_ms = 5000;
    hasty sender = {.endpoint = endpoint};
    char letter[LETTER_BYTES];
    pthread_t thread;
    void *pull = open_socket(ZMQ_PULL); /* it keeps 8 messages */
    cr_assert_eq(zmq_bind(pull, endpoint), 0, "%s", endpoint);
    zmq_setsockopt(pull, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    pthread_create(&thread, NULL, send_and_leave, &sender);
    while (!atomic_load(&sender.gone))
        usleep(1000);
    for (int i = 0; i < LETTERS; i++) {
        cr_assert_eq(zmq_recv(pull, letter, sizeof letter, 0), LETTER_BYTES, "%s: %d", endpoint, i);
        cr_expect_eq(letter[0], i);
    }
    pthread_join(thread, NULL);
    cr_expect(sender.all_read, "%s", endpoint);
    zmq_close(pull);
}

Test(sockets, a_sender_that_leaves_loses_nothing_to_a_receiver_that_holds_it_back) {
    char endpoint[64], dir[] = "/tmp/sonar-net-XXXXXX";
    cr_assert_not_null(mkdtemp(dir));
    snprintf(endpoint, sizeof endpoint, "ipc://%s/in", dir);
    expect_all_letters(endpoint);
    unlink(endpoint + strlen("ipc://"));
    rmdir(dir);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", free_port(SOCK_STREAM));
    expect_all_letters(endpoint);
}

/* A peer that neither reads nor disconnects. */
static int dial_in_silence(int port) {
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

Test(sockets, a_sender_waits_no_longer_than_its_time_or_than_a_stop) {
    static const struct {
        int timeout_ms;
        sig_atomic_t stop;
    } end[] = {{20, 0}, {-1, 1}};
    for (size_t i = 0; i < sizeof end / sizeof end[0]; i++) {
        char endpoint[64];
        sonar_held held = {0};
        const int port = free_port(SOCK_STREAM);
        void *publisher = open_socket(ZMQ_XPUB);
        snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", port);
        cr_assert_eq(zmq_bind(publisher, endpoint), 0);
        const int peer = dial_in_silence(port);
        for (; held.count == 0; usleep(1000)) /* until it was admitted */
            sonar_connections_hold(&held, &publisher, 1, true);
        zmq_close(publisher);
        cr_expect_not(sonar_connections_release(&held, end[i].timeout_ms, &end[i].stop));
        cr_expect_eq(held.count, 0);
        close(peer);
    }
}
