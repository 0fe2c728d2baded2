/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Standard error that nobody reads, or that is not there: neither holds the daemon up. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "process.h"

enum { STOP_MS = 2000 };

typedef struct rig {
    box box;
    char out[128];
    pid_t daemon;
} rig;

static rig rig_make(void) {
    rig rig = {.box = box_open()};
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    box_write(&rig.box, "sonard.yaml",
              "schema: 1\nfs_hz: 8000\n"
              "array: {geometry: {line: {sensors: 8, spacing_m: 0.75}}}\n"
              "ingest: {endpoints: [\"ipc://%s/in\"]}\noutput: {endpoint: \"%s\"}\n"
              "cbf: {band_hz: [600, 950], ranges_m: []}\nmvdr: {enabled: false}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              rig.box.dir, rig.out);
    return rig;
}

static void expect_status(subscriber *s, double uptime_s, const char *when) {
    message m;
    bool came = receive_until(s, "status", "uptime_s", uptime_s, 20000, &m);
    cr_assert(came, "%s: no status", when);
    message_free(&m);
}

/* sonard with this as standard error, or with none (-1). */
static pid_t start(rig *rig, int stderr_fd) {
    const char *path = box_path(&rig->box, "sonard.yaml");
    fflush(NULL);
    pid_t pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    unsetenv("JOURNAL_STREAM");
    if (stderr_fd >= 0)
        dup2(stderr_fd, STDERR_FILENO);
    else
        close(STDERR_FILENO);
    execl(SONAR_BIN_DIR "/sonard", "sonard", path, (char *)NULL);
    _exit(127);
}

/* Fills the pipe without changing how the daemon writes to it: O_NONBLOCK belongs to both ends'
 * descriptions, so it is taken back. */
static void fill(int fd) {
    char junk[4096] = {0};
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
    while (write(fd, junk, sizeof junk) > 0)
        continue;
    fcntl(fd, F_SETFL, flags);
}

static size_t drain(int fd, char *text, size_t bytes) {
    size_t used = 0;
    for (ssize_t n; used + 1 < bytes && (n = read(fd, text + used, bytes - 1 - used)) > 0;)
        used += (size_t)n;
    text[used] = '\0';
    return used;
}

Test(log, a_pipe_that_nobody_reads_holds_nothing_up) {
    rig rig = rig_make();
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    fill(ends[1]);
    rig.daemon = start(&rig, ends[1]);
    subscriber s = subscribe(rig.out, "status", NULL);
    expect_status(&s, 1, "after the start");
    for (int i = 0; i < 600; i++, usleep(1000)) /* each is worth a line */
        kill(rig.daemon, SIGHUP);
    expect_status(&s, 3, "with a full log");
    cr_expect_eq(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0, "what is shared was changed");
    kill(rig.daemon, SIGTERM);
    cr_expect_eq(process_wait(rig.daemon, STOP_MS), 0);
    unsubscribe(&s);
    box_close(&rig.box);
}

/* What is wrong with the configuration is said at start; a warning does not hold the start up, an
 * error not the end. */
Test(log, a_report_that_nobody_reads_holds_no_start_up) {
    rig rig = rig_make();
    char *good = box_read(&rig.box, "sonard.yaml");
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    fill(ends[1]);
    box_write(&rig.box, "sonard.yaml", "%srutime: {threads: 1}\n", good); /* an error */
    rig.daemon = start(&rig, ends[1]);
    cr_expect_eq(process_wait(rig.daemon, 20000), 2);
    box_write(&rig.box, "sonard.yaml", "%ssound_speed_mps: 700\n", good); /* a warning */
    rig.daemon = start(&rig, ends[1]);
    subscriber s = subscribe(rig.out, "status", NULL);
    expect_status(&s, 0, "after a start with a warning");
    kill(rig.daemon, SIGTERM);
    cr_expect_eq(process_wait(rig.daemon, STOP_MS), 0);
    unsubscribe(&s);
    free(good);
    box_close(&rig.box);
}

Test(log, lines_lost_meanwhile_are_counted_when_somebody_reads_again) {
    enum { MOST = 1 << 20 };
    rig rig = rig_make();
    int ends[2];
    char *text = malloc(MOST);
    cr_assert(text && pipe2(ends, O_CLOEXEC) == 0);
    fill(ends[1]);
    rig.daemon = start(&rig, ends[1]);
    subscriber s = subscribe(rig.out, "status", NULL);
    expect_status(&s, 0, "after the start");
    /* signals that come together are one: long enough for an instrumented daemon, too */
    for (int i = 0; i < 4000; i++, usleep(1000))
        kill(rig.daemon, SIGHUP);
    expect_status(&s, 2, "with a full log");
    close(ends[1]);
    int flags = fcntl(ends[0], F_GETFL);
    fcntl(ends[0], F_SETFL, flags | O_NONBLOCK);
    size_t used = 0;
    const char *told = NULL;
    for (int i = 0; i < 200 && !told; i++, usleep(50000)) {
        used += drain(ends[0], text + used, MOST - used);
        for (size_t k = 0; k < used; k++)
            text[k] = text[k] ? text[k] : ' ';
        told = strstr(text, " lines of this log are lost");
    }
    cr_assert(told, "%s", text + (used > 2000 ? used - 2000 : 0));
    while (told > text && told[-1] >= '0' && told[-1] <= '9')
        told--;
    cr_expect_gt(atoi(told), 0);
    kill(rig.daemon, SIGTERM);
    cr_expect_eq(process_wait(rig.daemon, STOP_MS), 0);
    used += drain(ends[0], text + used, MOST - used);
    cr_expect(strstr(told, "stopping on SIGTERM"), "%s", told);
    free(text);
    unsubscribe(&s);
    box_close(&rig.box);
}

Test(log, standard_error_closed_at_start_is_not_given_to_anything_else) {
    rig rig = rig_make();
    char link[64], to[256] = "";
    rig.daemon = start(&rig, -1);
    subscriber s = subscribe(rig.out, "status", NULL);
    expect_status(&s, 0, "without standard error");
    kill(rig.daemon, SIGHUP); /* has something to say */
    expect_status(&s, 1, "without standard error, having spoken");
    snprintf(link, sizeof link, "/proc/%d/fd/2", (int)rig.daemon);
    cr_assert_gt(readlink(link, to, sizeof to - 1), 0);
    cr_expect_str_eq(to, "/dev/null");
    kill(rig.daemon, SIGTERM);
    cr_expect_eq(process_wait(rig.daemon, STOP_MS), 0);
    unsubscribe(&s);
    box_close(&rig.box);
}
