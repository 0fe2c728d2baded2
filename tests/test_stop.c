/* SPDX-License-Identifier: GPL-3.0-or-later */
/* SIGTERM at awkward moments: the daemon exits within two seconds, with 0. In the middle of a
 * window it computes, so there its processor time counts: other tests may take the processors. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "digitiser.h"
#include "process.h"

enum { STALLED = 60, FRAME = 256 };
enum { HANG_MS = 60000 };
#ifdef __SANITIZE_ADDRESS__
enum { WITHIN_MS = 10000 }; /* releasing memory takes many times as long, more beside other tests */
#else
enum { WITHIN_MS = 2000 };
#endif

typedef struct rig {
    box box;
    char in[128], out[128];
    pid_t daemon;
} rig;

static rig rig_open(int sensors, int length, const char *overload) {
    rig rig = {.box = box_open()};
    snprintf(rig.in, sizeof rig.in, "ipc://%s/in", rig.box.dir);
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    box_write(&rig.box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
              "sound_speed_mps: 1500\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"%s\"], overload: %s}\n"
              "dft: {length: %d, hop: %d}\n"
              "cbf: {band_hz: [600, 950], ranges_m: []}\n"
              "lofar: {band_hz: [100, 3900]}\n"
              "mvdr: {enabled: false}\n"
              "output: {endpoint: \"%s\", high_water_mark: 1000}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              sensors, rig.in, overload, length, length / 2, rig.out);
    rig.daemon =
        process_start(&rig.box, "sonard.log", "sonard", box_path(&rig.box, "sonard.yaml"), NULL);
    return rig;
}

static void rig_stop(rig *rig, const char *when) {
    int status = process_wait(rig->daemon, WITHIN_MS);
    char *log = box_read(&rig->box, "sonard.log");
    cr_expect_eq(status, 0, "%s: left with %d: %s", when, status, log);
    free(log);
    box_close(&rig->box);
}

/* Whether the program has started and handles SIGTERM. */
static bool handles_sigterm(pid_t pid) {
    char path[64], line[256], name[32] = "";
    unsigned long long caught = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "Name: %31s", name);
        sscanf(line, "SigCgt: %llx", &caught);
    }
    if (file)
        fclose(file);
    return !strcmp(name, "sonard") && caught >> (SIGTERM - 1) & 1;
}

Test(stop, while_starting) {
    for (int delay_us = 0; delay_us < 200000; delay_us = 2 * delay_us + 1000) {
        rig rig = rig_open(2048, 20011, "drop_oldest"); /* a prime: much to plan */
        for (int i = 0; i < 10000 && !handles_sigterm(rig.daemon); i++)
            usleep(200);
        usleep((useconds_t)delay_us);
        kill(rig.daemon, SIGTERM);
        rig_stop(&rig, "starting");
    }
}

static void pour(rig *rig, int frames) {
    digitiser d = digitiser_open(rig->in, 8, 0, 8, FRAME);
    int timeout = 500, linger = 0;
    zmq_setsockopt(d.socket, ZMQ_SNDTIMEO, &timeout, sizeof timeout);
    zmq_setsockopt(d.socket, ZMQ_LINGER, &linger, sizeof linger);
    digitiser_send(&d, frames);
    digitiser_close(&d);
}

/* Subscribers that are connected and never read, until their queues and the daemon's are full. */
static void stop_with_stalled(const char *overload, int signals) {
    rig rig = rig_open(8, 1024, overload);
    void *context = zmq_ctx_new(), *stalled[STALLED];
    int one = 1, zero = 0, bytes = 4096, events;
    subscriber s = subscribe(rig.out, "status", NULL);
    message m;
    cr_assert(receive(&s, &m, 10000));
    message_free(&m);
    for (int i = 0; i < STALLED; i++) {
        stalled[i] = zmq_socket(context, ZMQ_SUB);
        zmq_setsockopt(stalled[i], ZMQ_RCVHWM, &one, sizeof one);
        zmq_setsockopt(stalled[i], ZMQ_RCVBUF, &bytes, sizeof bytes);
        zmq_setsockopt(stalled[i], ZMQ_LINGER, &zero, sizeof zero);
        zmq_setsockopt(stalled[i], ZMQ_SUBSCRIBE, "cbf.lofar", 9);
        zmq_connect(stalled[i], rig.out);
    }
    bool all = false; /* 30 of one user are admitted at once, the others when they try again */
    for (int tries = 0; tries < 600 && !all; tries++) {
        for (int i = 0; i < STALLED; i++) /* libzmq subscribes again when it is called */
            zmq_getsockopt(stalled[i], ZMQ_EVENTS, &events, &(size_t){sizeof events});
        all = receive_until(&s, "status", "output.subscriptions", STALLED + 1, 100, &m);
    }
    cr_assert(all);
    message_free(&m);
    pour(&rig, 200);
    for (int i = 0; i < signals; i++, usleep(50000))
        kill(rig.daemon, i % 2 ? SIGINT : SIGTERM);
    rig_stop(&rig, overload);
    for (int i = 0; i < STALLED; i++)
        zmq_close(stalled[i]);
    zmq_ctx_term(context);
    unsubscribe(&s);
}

Test(stop, with_stalled_subscribers) {
    stop_with_stalled("drop_oldest", 1);
}
Test(stop, in_block_mode_with_stalled_subscribers_and_asked_thrice) {
    stop_with_stalled("block", 3);
}

/* The output thread does not come back, as where readers keep it inside libzmq. Nobody waits for it
 * beyond the two seconds. */
Test(stop, with_an_output_thread_that_does_not_come_back) {
    rig rig = rig_open(8, 1024, "block");
    subscriber s = subscribe(rig.out, "status", NULL);
    message m;
    cr_assert(receive(&s, &m, 10000));
    message_free(&m);
    const pid_t thread = thread_hold(rig.daemon, "sonar-output");
    if (thread < 0)
        cr_skip_test("no thread can be held back here");
    pour(&rig, 200);
    kill(rig.daemon, SIGTERM);
    bool ended = false; /* no process has before who holds its thread has seen that end */
    for (int i = 0; i < WITHIN_MS / 10 && !ended; i++, usleep(10000))
        ended = waitpid(thread, NULL, __WALL | WNOHANG) == thread;
    if (!ended) {
        kill(rig.daemon, SIGKILL);
        waitpid(thread, NULL, __WALL);
    }
    char *log = box_read(&rig.box, "sonard.log");
    cr_expect(strstr(log, "readers keep the socket busy"), "%s", log);
    free(log);
    rig_stop(&rig, "held back");
    unsubscribe(&s);
}

/* ---- long windows ---------------------------------------------------------------------------- */

enum { WIDE = 256, WIDE_LENGTH = 32768, WIDE_FRAME = 1024 };

/* Full-band MVDR of many sensors by Jacobi on one thread: a window takes half a minute. */
static rig rig_open_slow(void) {
    rig rig = {.box = box_open()};
    snprintf(rig.in, sizeof rig.in, "ipc://%s/in", rig.box.dir);
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    box_write(&rig.box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.15}}}\n"
              "sound_speed_mps: 1500\nfs_hz: 8000\n"
              "ingest: {endpoints: [\"%s\"], overload: block}\n"
              "dft: {length: %d, hop: %d}\n"
              "cbf: {band_hz: [600, 950], ranges_m: [], length: 2048}\n"
              "mvdr: {band_hz: [40, 3990], length: 256, hop: 64, snapshots: 512, solver: jacobi}\n"
              "output: {endpoint: \"%s\"}\nruntime: {backend: cpu, threads: 1}\n",
              WIDE, rig.in, WIDE_LENGTH, WIDE_LENGTH, rig.out);
    rig.daemon =
        process_start(&rig.box, "sonard.log", "sonard", box_path(&rig.box, "sonard.yaml"), NULL);
    return rig;
}

Test(stop, in_the_middle_of_a_long_window) {
    rig rig = rig_open_slow();
    subscriber s = subscribe(rig.out, "", NULL);
    message m;
    cr_assert(receive_ready(&s, "cbf.azimuth", &m));
    message_free(&m);
    digitiser d = digitiser_open(rig.in, WIDE, 0, WIDE, WIDE_FRAME);
    digitiser_send(&d, 2 * WIDE_LENGTH / WIDE_FRAME);
    cr_assert(receive_until(&s, "status", "load", 0.5, 60000, &m), "no window is in work");
    cr_expect_eq(header_number(m.head, "windows.processed"), 0, "too fast for this test");
    message_free(&m);
    const double before_s = process_cpu_s(rig.daemon);
    double after_s = INFINITY;
    kill(rig.daemon, SIGTERM);
    int status = process_wait_cpu(rig.daemon, HANG_MS, &after_s);
    cr_expect(after_s - before_s < 1e-3 * WITHIN_MS, "it computed for %g s", after_s - before_s);
    char *log = box_read(&rig.box, "sonard.log");
    cr_expect_eq(status, 0, "left with %d: %s", status, log);
    cr_expect(strstr(log, "stopped in the middle of a window"), "%s", log);
    free(log);
    while (receive(&s, &m, 100)) {
        cr_expect_str_eq(m.topic, "status", "half a window was published");
        message_free(&m);
    }
    digitiser_close(&d);
    unsubscribe(&s);
    box_close(&rig.box);
}

/* A terminal that closes, or an operator who wants the file to be read again. */
Test(stop, sighup_is_answered_in_the_log_and_ends_nothing) {
    rig rig = rig_open(8, 1024, "drop_oldest");
    for (int i = 0; i < 10000 && !handles_sigterm(rig.daemon); i++)
        usleep(200);
    kill(rig.daemon, SIGHUP); /* while starting */
    char *log = NULL;
    bool said = false;
    for (int i = 0; i < 100 && !said; i++) {
        usleep(100000);
        kill(rig.daemon, SIGHUP);
        log = box_read(&rig.box, "sonard.log");
        said = strstr(log, "sonard.yaml: read again: nothing differs") != NULL;
        free(log);
    }
    cr_expect(said);
    cr_expect(process_running(rig.daemon));
    kill(rig.daemon, SIGTERM);
    rig_stop(&rig, "after SIGHUP");
}
