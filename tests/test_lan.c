/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A daemon and its tools over CURVE: keys made by sonar-keys, samples in, results out, unknown
 * peers refused and counted, keys added and removed. The sockets themselves: test_security.c. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "net/net.h"
#include "port.h"
#include "process.h"

static box node;
static int in_port, out_port;
static pid_t daemon_pid;

/* Runs a shell in the box; the output goes to text[8192], if not NULL. */
static int shell(char *text, const char *command) {
    char line[2048], bin[8192];
    snprintf(line, sizeof line, "cd %s && { PATH=%s:$PATH; %s; } 2>&1", node.dir, SONAR_BIN_DIR,
             command);
    FILE *pipe = popen(line, "r");
    cr_assert(pipe);
    text = text ? text : bin;
    text[fread(text, 1, 8191, pipe)] = '\0';
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void make_keys(void) {
    char text[8192];
    cr_assert_eq(shell(text, "mkdir -m 755 senders readers && sonar-keys server node && "
                             "sonar-keys client digitiser display stranger --server node.key && "
                             "cp digitiser.key senders && cp display.key readers"),
                 0, "%s", text);
}

static void start(const char *socket) {
    in_port = free_port(SOCK_STREAM);
    out_port = free_port(SOCK_STREAM);
    box_write(&node, "sonard.yaml",
              "schema: 1\n"
              "array: {geometry: {line: {sensors: 8, spacing_m: 0.75}}}\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"tcp://%s:%d\"], socket: %s}\n"
              "dft: {length: 1024, hop: 512}\n"
              "cbf: {band_hz: [600, 950], ranges_m: []}\nmvdr: {enabled: false}\n"
              "output: {endpoint: \"tcp://0.0.0.0:%d\"}\n"
              "security: {key: node.key_secret, allow_senders: [%s], allow_readers: [readers]}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              strcmp(socket, "sub") ? "*" : "127.0.0.1", in_port, socket, out_port,
              strcmp(socket, "sub") ? "senders" : "digitiser.key");
    box_write(&node, "scene.yaml",
              "schema: 1\nambient: {level_db: 80}\nsources:\n- {name: ship, far: {az_deg: 75}, "
              "broadband: "
              "{spectrum: white, band_hz: [100, 1500], level_db: 90}}\n");
    daemon_pid = process_start(&node, "sonard.log", "sonard", box_path(&node, "sonard.yaml"), NULL);
}

static void begin(void) {
    node = box_open();
    make_keys();
}

static void end(void) {
    if (daemon_pid > 0) {
        kill(daemon_pid, SIGTERM);
        process_wait(daemon_pid, 60000);
    }
    box_close(&node);
}

TestSuite(lan, .init = begin, .fini = end, .timeout = 600);

/* The number at `path` of the first status that has at least `least`, or the last one's. */
static double status(const char *path, double least) {
    char endpoint[64];
    sonar_error err = {0};
    message m;
    subscriber s = {.context = zmq_ctx_new()};
    int none = 0;
    s.socket = zmq_socket(s.context, ZMQ_SUB);
    zmq_setsockopt(s.socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(s.socket, ZMQ_SUBSCRIBE, "status", 6);
    snprintf(endpoint, sizeof endpoint, "tcp://0.0.0.0:%d", out_port);
    sonar_code code =
        sonar_client_connect(box_path(&node, "display.key_secret"), true, s.socket, endpoint, &err);
    cr_assert_eq(code, SONAR_OK, "%s: %s", err.where, err.text);
    cr_assert(receive_until(&s, "status", path, least, 60000, &m), "%s does not come to %g", path,
              least);
    double number = header_number(m.head, path);
    message_free(&m);
    unsubscribe(&s);
    return number;
}

#define SIM  "timeout 60 sonar-sim --config sonard.yaml --scene scene.yaml --duration 2 "
#define SIM0 "timeout 60 sonar-sim --config sonard.yaml --scene scene.yaml --duration 0 "

Test(lan, the_tools_reach_the_daemon_with_one_option) {
    char text[8192];
    start("pull");
    cr_assert_eq(shell(text, SIM0 "--key digitiser.key_secret --summary sent & sim=$!; "
                                  "sonar-watch --config sonard.yaml --key display.key_secret "
                                  "--count 2 --timeout 30; code=$?; "
                                  "kill $sim; wait $sim; exit $code"),
                 0, "%s", text);
    cr_expect(strstr(text, "cbf.azimuth"), "%s", text);
    cr_expect_eq(status("frames.peers.admitted", 1), 1);
    cr_expect_eq(status("frames.peers.failed.unknown_key", 0), 0);
}

Test(lan, a_wrong_key_is_reported_and_counted) {
    char text[8192];
    start("pull");
    status("uptime_s", 0); /* the daemon runs */
    cr_expect_eq(shell(text, SIM "--key stranger.key_secret"), 2, "%s", text);
    cr_expect(strstr(text, "does not allow this key"), "%s", text);
    cr_expect_eq(shell(text, SIM "--key display.key_secret"), 2, "%s", text);
    cr_expect(strstr(text, "does not allow this key"), "a reader sends: %s", text);
    cr_expect_eq(shell(text, SIM), 2, "%s", text);
    cr_expect(strstr(text, "speaks CURVE: --key FILE is needed"), "%s", text);
    char command[512];
    snprintf(command, sizeof command, SIM "--endpoint tcp://127.0.0.1:%d", in_port);
    cr_expect_eq(shell(text, command), 2, "%s", text);
    cr_expect(strstr(text, "speaks CURVE and this side does not"), "%s", text);
    cr_expect_eq(shell(text, "sonar-watch --config sonard.yaml --key digitiser.key_secret"), 1);
    cr_expect(strstr(text, "does not allow this key"), "%s", text);
    cr_expect_eq(shell(text, "sonar-watch --config sonard.yaml --key node.key_secret"), 2);
    cr_expect(strstr(text, "names no server-key"), "%s", text);
    cr_expect_eq(status("frames.peers.failed.unknown_key", 2), 2);
    double plain = 0; /* the plain one receives the mechanism, and may be disconnected before it has
                         sent its own */
    for (int i = 0; i < 10 && plain < 1; i++) {
        plain = status("frames.peers.failed.wrong_mechanism", 0) +
                status("frames.peers.failed.unfinished", 0);
        usleep(plain < 1 ? 500000 : 0);
    }
    cr_expect_geq(plain, 1);
    cr_expect_eq(status("output.peers.failed.unknown_key", 1), 1);
    cr_expect_eq(status("frames.received", 0), 0);
    char *log = box_read(&node, "sonard.log");
    cr_expect(strstr(log, "refused a connection from 127.0.0.1: its key"), "%s", log);
    free(log);
}

Test(lan, keys_are_read_again_on_sighup) {
    char text[8192];
    start("pull");
    status("uptime_s", 0);
    cr_expect_eq(shell(text, SIM "--key stranger.key_secret"), 2, "%s", text);
    cr_assert_eq(shell(text, "cp stranger.key senders"), 0);
    kill(daemon_pid, SIGHUP);
    for (int i = 0; i < 100; i++) {
        char *log = box_read(&node, "sonard.log");
        bool read = strstr(log, "keys read again: 2 may send, 1 may read") != NULL;
        free(log);
        if (read)
            break;
        usleep(50000);
    }
    cr_expect_eq(shell(text, SIM "--key stranger.key_secret"), 0, "%s", text);
    cr_expect_geq(status("frames.accepted", 1), 1);
}

/* The daemon connects, and is a client with the key that it has. */
Test(lan, digitisers_that_publish_know_the_daemon) {
    char text[8192];
    start("sub");
    cr_assert_eq(shell(text, SIM "--key digitiser.key_secret"), 0, "%s", text);
    cr_expect_geq(status("frames.accepted", 1), 1);
}

Test(lan, a_bad_key_file_is_a_mistake_of_the_configuration) {
    char text[8192];
    start("pull");
    kill(daemon_pid, SIGTERM);
    process_wait(daemon_pid, 60000);
    daemon_pid = 0;
    cr_expect_eq(shell(text, "sonard --check-config sonard.yaml"), 0, "%s", text);
    cr_expect(strstr(text, "keys allowed: 1 to send, 1 to read"), "%s", text);
    chmod(box_path(&node, "node.key_secret"), 0644);
    cr_expect_eq(shell(text, "sonard sonard.yaml"), 2, "%s", text);
    cr_expect(strstr(text, "sonard.yaml:9:17: error: security.key: "), "%s", text);
    cr_expect(strstr(text, "node.key_secret: others may read or change"), "%s", text);
}
