/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Notifications to the service manager, through a socket in place of its own. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "digitiser.h"
#include "notify.h"
#include "process.h"

enum { LENGTH = 1024, FRAME = 256, PATIENCE_MS = 20000, MESSAGES_MOST = 200 };

typedef struct rig {
    box box;
    char in[128], out[128], heard[1024];
    int messages;
    int socket;
    pid_t daemon;
} rig;

/* The daemon's parent from now on is a service manager with a watchdog. */
static rig rig_open(void) {
    rig rig = {.box = box_open()};
    const struct timeval patience = {.tv_sec = PATIENCE_MS / 1000};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(rig.in, sizeof rig.in, "ipc://%s/in", rig.box.dir);
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/notify", rig.box.dir);
    rig.socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(bind(rig.socket, (struct sockaddr *)&address, sizeof address), 0);
    setsockopt(rig.socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setenv("NOTIFY_SOCKET", address.sun_path, 1);
    setenv("WATCHDOG_USEC", "60000000", 1);
    unsetenv("WATCHDOG_PID");
    return rig;
}

static void rig_start(rig *rig, const char *runtime) {
    box_write(&rig->box, "sonard.yaml",
              "schema: 1\nfs_hz: 8000\n"
              "array: {id: 1, geometry: {line: {sensors: 8, spacing_m: 0.75}}}\n"
              "ingest: {endpoints: [\"%s\"], overload: block}\n"
              "dft: {length: %d, hop: %d}\n"
              "cbf: {band_hz: [600, 950], ranges_m: []}\nmvdr: {enabled: false}\n"
              "output: {endpoint: \"%s\"}\n"
              "runtime: {threads: 1, %s}\n",
              rig->in, LENGTH, LENGTH / 2, rig->out, runtime);
    rig->daemon =
        process_start(&rig->box, "log", "sonard", box_path(&rig->box, "sonard.yaml"), NULL);
}

/* The next message, in rig->heard. */
static const char *hear(rig *rig) {
    ssize_t n = recv(rig->socket, rig->heard, sizeof rig->heard - 1, 0);
    rig->heard[n > 0 ? n : 0] = '\0';
    if (n <= 0 || ++rig->messages > MESSAGES_MOST) {
        char *log = box_read(&rig->box, "log");
        cr_assert_fail("what was awaited was not said: '%s', %s", rig->heard, log);
    }
    return rig->heard;
}

/* The line of the message that begins so, or NULL. */
static const char *line_of(const char *message, const char *begin) {
    for (const char *line = message; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (!strncmp(line, begin, strlen(begin)))
            return line;
    }
    return NULL;
}

static const char *hear_until(rig *rig, const char *begin) {
    const char *line;
    while (!(line = line_of(hear(rig), begin)))
        continue;
    return line;
}

static void rig_stop(rig *rig, int expected) {
    int status = process_wait(rig->daemon, 60000);
    char *log = box_read(&rig->box, "log");
    cr_expect_eq(status, expected, "left with %d: %s", status, log);
    free(log);
    close(rig->socket);
    box_close(&rig->box);
}

#ifdef SONAR_HAVE_SYSTEMD

Test(notify, a_start_is_reported_step_by_step_and_ends_when_sockets_listen) {
    rig rig = rig_open();
    int steps = 0;
    rig_start(&rig, "backend: cpu");
    while (!line_of(hear(&rig), "READY=1")) {
        cr_assert(line_of(rig.heard, "STATUS=starting: "), "%s", rig.heard);
        cr_assert(line_of(rig.heard, "EXTEND_TIMEOUT_USEC=300000000"), "%s", rig.heard);
        steps++;
    }
    cr_assert_geq(steps, 4);
    cr_assert_eq(access(rig.in + strlen("ipc://"), F_OK), 0,
                 "ready, and no digitiser could connect");
    cr_assert_eq(access(rig.out + strlen("ipc://"), F_OK), 0,
                 "ready, but no reader could subscribe");

    cr_assert(strstr(hear_until(&rig, "STATUS="), "waiting"), "%s", rig.heard);
    for (int i = 0; i < 3; i++)
        hear_until(&rig, "WATCHDOG=1"); /* idle, but alive */
    digitiser d = digitiser_open(rig.in, 8, 0, 8, FRAME);
    digitiser_send(&d, 40);
    digitiser_close(&d);
    while (!strstr(hear_until(&rig, "STATUS="),
                   " 19 windows; lost: 0 frames, 0 windows, 0 results; cpu"))
        continue;
    kill(rig.daemon, SIGHUP);
    hear_until(&rig, "RELOADING=1");
    cr_assert_gt(strtoull(line_of(rig.heard, "MONOTONIC_USEC=") + 15, NULL, 10), 0);
    hear_until(&rig, "READY=1");
    kill(rig.daemon, SIGTERM);
    hear_until(&rig, "STOPPING=1");
    rig_stop(&rig, 0);
}

Test(notify, a_start_that_fails_says_why_and_is_never_ready) {
    rig rig = rig_open();
    box_write(&rig.box, "out", "no socket\n");
    rig_start(&rig, "backend: cpu");
    while (!line_of(hear(&rig), "STOPPING=1"))
        cr_assert(!line_of(rig.heard, "READY=1"), "%s", rig.heard);
    cr_assert(strstr(line_of(rig.heard, "STATUS="), "/out"), "%s", rig.heard);
    rig_stop(&rig, 3);
}

/* The status is still published once a second: the control thread runs, the data thread hangs. */
Test(notify, a_hung_data_thread_starves_the_watchdog) {
    rig rig = rig_open();
    int hungry = 0;
    setenv("SONAR_TEST_HANG", box_path(&rig.box, "hang"), 1);
    rig_start(&rig, "backend: cuda, plugin_dir: " SONAR_PLUGIN_DIR "/hang");
    hear_until(&rig, "READY=1");
    digitiser d = digitiser_open(rig.in, 8, 0, 8, FRAME);
    digitiser_send(&d, 40);
    while (!strstr(hear_until(&rig, "STATUS="), " 19 windows; "))
        continue;
    hear_until(&rig, "WATCHDOG=1");
    box_write(&rig.box, "hang", "now\n");
    digitiser_send(&d, 4);
    digitiser_close(&d);
    while (hungry < 2) /* progress before it hung may trigger the watchdog message once more */
        hungry = line_of(hear(&rig), "WATCHDOG=1") ? 0 : hungry + 1;
    for (int i = 0; i < 4; i++)
        cr_assert(line_of(hear(&rig), "STATUS="), "fed by a thread that hangs: %s", rig.heard);
    kill(rig.daemon, SIGTERM);
    rig_stop(&rig, 0);
}

#endif

Test(notify, the_status_line_has_health_rate_losses_and_backend) {
    char text[512];
    sonar_status s = {.health = "degraded", .text = "3 windows failed", .backend = "cuda+cpu"};
    s.stream.rate_hz = 7999.96;
    s.windows_processed = 12;
    s.windows_failed = 3;
    s.ingest.frames_dropped[SONAR_FRAME_LATE] = 4;
    s.ingest.frames_dropped[SONAR_FRAME_CAUSES - 1] = 1;
    s.ingest.windows_dropped[SONAR_WINDOW_CAUSES - 1] = 2;
    s.output.results_dropped = 6;
    sonar_notify_describe(&s, text, sizeof text);
    cr_assert_str_eq(text,
                     "degraded: 3 windows failed; 8000.0 samples/s; 12 windows; lost: 5 frames, "
                     "5 windows, 6 results; cuda+cpu");
    s.stream.rate_hz = NAN;
    sonar_notify_describe(&s, text, sizeof text);
    cr_assert(strstr(text, "; no samples/s; "), "%s", text);
}
