/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A viewer that receives nothing prints the reason, both in a terminal and as lines. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"
#include "process.h"

/* ---- a publisher ----------------------------------------------------------------------------- */

static box folder;
static void *context, *pub;
static sonar_zap *zap;
static sonar_gate *gate;
static char endpoint[256];

static void open_all(void) {
    sonar_error err;
    folder = box_open();
    context = zmq_ctx_new();
    cr_assert_eq(sonar_zap_create(context, sonar_host_serial(), &zap, &err), SONAR_OK);
    gate = sonar_gate_create(8);
    sonar_zap_gate(zap, SONAR_READERS, gate);
}

static void close_all(void) {
    if (pub)
        zmq_close(pub);
    sonar_zap_destroy(zap);
    zmq_ctx_term(context);
    sonar_gate_destroy(gate);
    box_close(&folder);
}

TestSuite(waiting, .init = open_all, .fini = close_all, .timeout = 600);

/* A publisher like sonard's, behind the gate; own: NULL, or its certificate. */
static void publish_at(const char *at, const sonar_certificate *own) {
    const sonar_guard guard = {.own = own, .domain = SONAR_READERS};
    const int zero = 0;
    size_t bytes = sizeof endpoint;
    sonar_error err;
    pub = zmq_socket(context, ZMQ_PUB);
    zmq_setsockopt(pub, ZMQ_LINGER, &zero, sizeof zero);
    cr_assert_eq(sonar_guard_bind(&guard, pub, at, &err), SONAR_OK, "%s", err.text);
    cr_assert_eq(zmq_getsockopt(pub, ZMQ_LAST_ENDPOINT, endpoint, &bytes), 0);
}

static void send_foreign(void) {
    static const char head[] = "{\"schema\":\"sonard/2\",\"topic\":\"cbf.azimuth\",\"seq\":0}";
    zmq_send(pub, "cbf.azimuth", 11, ZMQ_SNDMORE);
    zmq_send(pub, head, sizeof head - 1, ZMQ_SNDMORE);
    zmq_send(pub, "", 0, 0);
}

static void make_keys(sonar_certificate *own) {
    char line[512];
    sonar_error err;
    snprintf(line, sizeof line,
             "cd %s && PATH=%s:$PATH && sonar-keys server node other > made && "
             "sonar-keys client stranger --server node.key >> made && "
             "sonar-keys client misled --server other.key >> made",
             folder.dir, SONAR_BIN_DIR);
    cr_assert_eq(system(line), 0);
    cr_assert_eq(
        sonar_certificate_read(box_path(&folder, "node.key_secret"), SONAR_TO_OWN, own, &err),
        SONAR_OK, "%s", err.text);
}

/* ---- a viewer -------------------------------------------------------------------------------- */

enum { KEPT = 4096 };

typedef struct viewer {
    pid_t pid;
    int from; /* its terminal, or the pipe that it writes to */
    bool at_tty;
    char seen[1 << 16]; /* its output since the last wait */
    size_t bytes;
} viewer;

static viewer v;

static void become_viewer(int output, const char *key) {
    setsid();
    if (v.at_tty)
        ioctl(output, TIOCSCTTY, 0);
    for (int fd = v.at_tty ? 0 : 1; fd < 3; fd++)
        dup2(output, fd);
    execl(SONAR_BIN_DIR "/sonar-watch", "sonar-watch", v.at_tty ? "--width=80" : "--json",
          "--endpoint", endpoint, key ? "--key" : NULL, key, NULL);
    _exit(127);
}

static void start_viewer(bool at_tty, const char *key) {
    const struct winsize size = {.ws_row = 24, .ws_col = 80};
    int pipes[2];
    memset(&v, 0, sizeof v);
    v.at_tty = at_tty;
    if (at_tty) {
        pipes[0] = posix_openpt(O_RDWR | O_NOCTTY);
        cr_assert(grantpt(pipes[0]) == 0 && unlockpt(pipes[0]) == 0);
        pipes[1] = open(ptsname(pipes[0]), O_RDWR | O_NOCTTY);
        ioctl(pipes[1], TIOCSWINSZ, &size);
    } else {
        cr_assert_eq(pipe(pipes), 0);
    }
    v.from = pipes[0];
    v.pid = fork();
    if (v.pid == 0)
        become_viewer(pipes[1], key);
    close(pipes[1]);
}

/* Waits until this has been written; calls `meanwhile` every tenth of a second. */
static void await_text(const char *wanted, void (*meanwhile)(void)) {
    struct pollfd item = {v.from, POLLIN, 0};
    for (v.bytes = 0; !memmem(v.seen, v.bytes, wanted, strlen(wanted));) {
        if (poll(&item, 1, 100) == 1) {
            if (v.bytes == sizeof v.seen) { /* the newest may have the beginning */
                memmove(v.seen, v.seen + v.bytes - KEPT, KEPT);
                v.bytes = KEPT;
            }
            const ssize_t got = read(v.from, v.seen + v.bytes, sizeof v.seen - v.bytes);
            cr_assert_gt(got, 0, "no '%s', but it ended: %.*s", wanted, (int)v.bytes, v.seen);
            v.bytes += (size_t)got;
        }
        int events;
        size_t size = sizeof events;
        if (pub) /* a subscription is processed when the socket's thread calls libzmq */
            zmq_getsockopt(pub, ZMQ_EVENTS, &events, &size);
        if (meanwhile)
            meanwhile();
    }
}

static void end_viewer(void) {
    int code;
    kill(v.pid, SIGTERM);
    cr_assert_eq(waitpid(v.pid, &code, 0), v.pid);
    cr_expect(WIFEXITED(code) && WEXITSTATUS(code) == 0, "%x", (unsigned)code);
    close(v.from);
}

static void expect_reason(const char *key, const char *reason, void (*meanwhile)(void)) {
    for (int at_tty = 0; at_tty < 2; at_tty++) {
        start_viewer(at_tty, key);
        await_text(reason, meanwhile);
        end_viewer();
    }
}

/* It ends by itself with 1, after it has printed the reason outside the picture. */
static void expect_end(const char *key, const char *reason) {
    int code;
    for (int at_tty = 0; at_tty < 2; at_tty++) {
        start_viewer(at_tty, key);
        await_text(reason, NULL);
        cr_assert_eq(waitpid(v.pid, &code, 0), v.pid);
        cr_expect(WIFEXITED(code) && WEXITSTATUS(code) == EXIT_FAILURE, "%x", (unsigned)code);
        close(v.from);
    }
}

/* ---- reasons --------------------------------------------------------------------------------- */

Test(waiting, that_no_daemon_is_there) {
    snprintf(endpoint, sizeof endpoint, "ipc://%s", box_path(&folder, "out"));
    expect_reason(NULL, "nothing listens there", NULL);
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:1");
    expect_reason(NULL, "nothing listens there", NULL);
}

Test(waiting, that_this_user_may_not_connect) {
    if (geteuid() == 0) /* root has all permissions */
        cr_skip_test("root is refused nothing");
    snprintf(endpoint, sizeof endpoint, "ipc://%s", box_path(&folder, "out"));
    publish_at(endpoint, NULL);
    chmod(box_path(&folder, "out"), 0);
    expect_reason(NULL, "may not be connected to by this user", NULL);
}

static const char *refused; /* an owner that may not join for some 2 s more */
static int64_t paid_ns;     /* until when it has paid for what the gate gives back */

static void spend_all(const char *owner) {
    refused = owner;
    paid_ns = sonar_monotonic_ns();
    while (sonar_gate_join(gate, owner, paid_ns))
        ;
    for (int i = 0; i < 160; i++)
        sonar_gate_pay(gate, owner, false, paid_ns);
}

/* Spends what has been given back since, 5 joins a second of 16 requests each, so that a viewer
 * that starts slowly is refused as well. */
static void spend_on(void) {
    const int64_t now_ns = sonar_monotonic_ns(), request_ns = 1000000000 / (5 * 16);
    for (; paid_ns + request_ns <= now_ns; paid_ns += request_ns)
        sonar_gate_pay(gate, refused, false, now_ns);
}

/* A viewer that the gate refuses reports this, and also when it has been admitted. */
static void expect_gate(const char *at, const char *owner) {
    publish_at(at, NULL);
    for (int at_tty = 0; at_tty < 2; at_tty++) {
        spend_all(owner);
        start_viewer(at_tty, NULL);
        await_text("hangs up in the handshake", spend_on);
        await_text("sends none of these topics", NULL);
        end_viewer();
    }
}

Test(waiting, that_it_comes_too_often_over_tcp) {
    expect_gate("tcp://127.0.0.1:*", "127.0.0.1");
}

Test(waiting, that_it_comes_too_often_over_ipc) {
    char at[128], owner[32];
    snprintf(at, sizeof at, "ipc://%s", box_path(&folder, "out"));
    snprintf(owner, sizeof owner, "user %u", (unsigned)geteuid());
    expect_gate(at, owner);
}

Test(waiting, which_key_is_wrong) {
    sonar_certificate own;
    make_keys(&own);
    publish_at("tcp://127.0.0.1:*", &own);
    expect_end(box_path(&folder, "stranger.key_secret"), "does not allow this key");
    expect_reason(box_path(&folder, "misled.key_secret"), "or the server-key of", NULL);
    expect_end(NULL, "speaks CURVE and this side does not");
}

Test(waiting, that_only_this_side_speaks_curve) {
    sonar_certificate own;
    make_keys(&own);
    publish_at("tcp://127.0.0.1:*", NULL);
    expect_end(box_path(&folder, "stranger.key_secret"), "or vice versa");
}

Test(waiting, that_the_daemon_is_of_another_version) {
    publish_at("tcp://127.0.0.1:*", NULL);
    expect_reason(NULL, "sends schema \"sonard/2\"", send_foreign);
}

/* Earlier data are shown with their age, and the current problem. */
Test(waiting, that_a_daemon_is_gone) {
    publish_at("tcp://127.0.0.1:*", NULL);
    for (int at_tty = 0; at_tty < 2; at_tty++) {
        start_viewer(at_tty, NULL);
        await_text("sends none of these topics", NULL);
        zmq_close(pub);
        pub = NULL;
        await_text("nothing listens there", NULL);
        end_viewer();
        char again[256];
        snprintf(again, sizeof again, "%s", endpoint);
        publish_at(again, NULL);
    }
}
