/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Standard error that is not read or is closed does not block the daemon; and text from peers can
 * neither imitate other lines nor fill a disk. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "log_kinds.h"
#include "net/shared.h"
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
              "ingest: {endpoints: [\"ipc://%s/in\"], shared_memory: \"ipc://%s/memory\"}\n"
              "output: {endpoint: \"%s\"}\ncontrol: {endpoint: \"ipc://%s/control\"}\n"
              "cbf: {band_hz: [600, 950], ranges_m: []}\nmvdr: {enabled: false}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              rig.box.dir, rig.box.dir, rig.out, rig.box.dir);
    return rig;
}

static void expect_status(subscriber *s, double uptime_s, const char *when) {
    message m;
    bool came = receive_until(s, "status", "uptime_s", uptime_s, 60000, &m);
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

/* Fills the pipe without changing how the daemon writes to it: O_NONBLOCK affects both ends, so it
 * is reset. */
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

Test(log, a_pipe_that_no_one_reads_holds_nothing_up) {
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

/* Mistakes of the configuration are printed at start; a warning does not block the start, and an
 * error does not block the exit. */
Test(log, a_report_that_no_one_reads_holds_no_start_up) {
    rig rig = rig_make();
    char *good = box_read(&rig.box, "sonard.yaml");
    int ends[2];
    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    fill(ends[1]);
    box_write(&rig.box, "sonard.yaml", "%srutime: {threads: 1}\n", good); /* an error */
    rig.daemon = start(&rig, ends[1]);
    cr_expect_eq(process_wait(rig.daemon, 60000), 2);
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

/* A configuration with more mistakes than one report has, each on a line of its own. */
static void spoil(rig *rig, const char *good, int first_line) {
    static char lines[1 << 14];
    size_t used = 0;
    for (int i = 0; i < first_line; i++)
        lines[used++] = '\n';
    for (int i = 0; i < 120; i++)
        used += (size_t)snprintf(lines + used, sizeof lines - used, "wrong_%d: 1\n", i);
    box_write(&rig->box, "sonard.yaml", "%s%s", good, lines);
}

Test(log, lines_lost_meanwhile_are_counted_when_somebody_reads_again) {
    enum { MOST = 1 << 20 };
    rig rig = rig_make();
    char *good = box_read(&rig.box, "sonard.yaml");
    int ends[2];
    char *text = malloc(MOST);
    cr_assert(text && pipe2(ends, O_CLOEXEC) == 0);
    fill(ends[1]);
    rig.daemon = start(&rig, ends[1]);
    subscriber s = subscribe(rig.out, "status", NULL);
    expect_status(&s, 0, "after the start");
    for (int i = 0; i < 3; i++) { /* a signal is answered before the next status but one */
        spoil(&rig, good, 200 * i);
        kill(rig.daemon, SIGHUP);
        expect_status(&s, 2 * (i + 1), "with a full log");
    }
    free(good);
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
    kill(rig.daemon, SIGHUP); /* this causes a log line */
    expect_status(&s, 1, "without standard error, having spoken");
    snprintf(link, sizeof link, "/proc/%d/fd/2", (int)rig.daemon);
    cr_assert_gt(readlink(link, to, sizeof to - 1), 0);
    cr_expect_str_eq(to, "/dev/null");
    kill(rig.daemon, SIGTERM);
    cr_expect_eq(process_wait(rig.daemon, STOP_MS), 0);
    unsubscribe(&s);
    box_close(&rig.box);
}

/* ---- lines that peers cause ------------------------------------------------------------------ */

/* `count` requests whose verb is not known, and and the answer to each. */
static void send_wrong_verbs(const rig *rig, const char *verb, int count) {
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_REQ);
    const int patience = 20000, zero = 0;
    char endpoint[128], request[256], answer[4096], clean[4096];
    snprintf(endpoint, sizeof endpoint, "ipc://%s/control", rig->box.dir);
    snprintf(request, sizeof request, "{\"verb\":\"%s\"}", verb);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    cr_assert_eq(zmq_connect(socket, endpoint), 0);
    for (int i = 0; i < count; i++) {
        cr_assert_geq(zmq_send(socket, request, strlen(request), 0), 0);
        const int bytes = zmq_recv(socket, answer, sizeof answer, 0);
        cr_assert_gt(bytes, 0, "no answer");
        cr_assert_lt(bytes, (int)sizeof answer);
        answer[bytes] = '\0';
        cr_assert(strstr(answer, "\"ok\":false"), "%s", answer);
        sonar_text_clean(answer, strlen(answer), clean, sizeof clean);
        cr_expect_str_eq(answer, clean, "the answer is not clean");
    }
    zmq_close(socket);
    zmq_ctx_term(context);
}

/* Offers of shared memory without any memory, all refused. */
static void send_wrong_offers(const rig *rig, int count) {
    const sonar_segment_offer offer = {
        .magic = {'S', 'N', 'R', 'M'}, .version = 1, .bytes = sizeof offer, .blocks = 1};
    char endpoint[128];
    snprintf(endpoint, sizeof endpoint, "ipc://%s/memory", rig->box.dir);
    for (int i = 0; i < count; i++) {
        sonar_segment_answer answer = {0};
        struct sockaddr_un address;
        sonar_error err;
        const int fd = sonar_shared_socket(endpoint, &address, &err);
        cr_assert(fd >= 0 && !connect(fd, (struct sockaddr *)&address, sizeof address));
        cr_assert_eq(send(fd, &offer, sizeof offer, MSG_NOSIGNAL), (ssize_t)sizeof offer);
        cr_assert_eq(recv(fd, &answer, sizeof answer, 0), (ssize_t)sizeof answer);
        cr_assert(answer.refused);
        close(fd);
    }
}

static int count_of(const char *text, const char *words) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, words)); at += strlen(words))
        count++;
    return count;
}

/* The sum of the numbers in front of these words. */
static int sum_before(const char *text, const char *words) {
    int sum = 0;
    for (const char *at = text; (at = strstr(at, words)); at += strlen(words)) {
        const char *number = at;
        while (number > text && number[-1] >= '0' && number[-1] <= '9')
            number--;
        sum += atoi(number);
    }
    return sum;
}

/* Starts a daemon, makes peers cause log lines, ends it; returns the log. */
static char *log_of(rig *rig, void (*attack)(const struct rig *)) {
    char *text;
    rig->daemon =
        process_start(&rig->box, "log", "sonard", box_path(&rig->box, "sonard.yaml"), NULL);
    subscriber s = subscribe(rig->out, "status", NULL);
    expect_status(&s, 0, "after the start");
    attack(rig);
    kill(rig->daemon, SIGTERM);
    cr_expect_eq(process_wait(rig->daemon, 60000), 0);
    unsubscribe(&s);
    text = box_read(&rig->box, "log");
    return text;
}

static void forge(const rig *rig) {
    send_wrong_verbs(rig, "x\\n2026-01-01T00:00:00.000Z error  forged", 1);
    send_wrong_verbs(rig, "\\u001b[2J\\u009b2J\\u202e", 1);
    send_wrong_verbs(rig, "\xc0\xafnot\xff", 1);
}

Test(log, a_peer_writes_neither_lines_nor_escapes) {
    rig rig = rig_make();
    char *text = log_of(&rig, forge);
    cr_expect_eq(count_of(text, "refused: "), 3, "%s", text);
    cr_expect(strstr(text, "x 2026-01-01T00:00:00.000Z error  forged"), "%s", text);
    cr_expect_not(strstr(text, "\n2026-01-01"), "%s", text);
    for (const char *at = text; *at; at++)
        cr_expect((*at >= ' ' && *at < 0x7f) || *at == '\n', "byte %02x", (unsigned char)*at);
    free(text);
    box_close(&rig.box);
}

static void flood(const rig *rig) {
    send_wrong_verbs(rig, "flood", 500);
    send_wrong_offers(rig, 500);
}

/* Suppressed lines are counted in the log, and lines of other kinds are written as usual. */
Test(log, a_peer_that_floods_fills_no_disk) {
    rig rig = rig_make();
    char *text = log_of(&rig, flood);
    const int control = count_of(text, "\"flood\" is not one of"),
              memory = count_of(text, "of user"),
              left_out = sum_before(text, " more lines like these left out");
    cr_expect_geq(control, LOG_LINES_A_PERIOD);
    cr_expect_geq(memory, LOG_LINES_A_PERIOD);
    cr_expect_eq(control + memory + left_out, 1000, "%d, %d, %d\n%s", control, memory, left_out,
                 text);
    cr_expect_gt(left_out, 0);
    cr_expect(strstr(text, "stopping on SIGTERM"), "%s", text);
    free(text);
    box_close(&rig.box);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

static const int64_t second_ns = 1000000000;

static unsigned admitted_of(log_kinds *kinds, const char *where, unsigned lines, int64_t now_ns) {
    unsigned admitted = 0;
    for (unsigned i = 0; i < lines; i++)
        admitted += log_kinds_admit(kinds, SONAR_WARN, where, now_ns);
    return admitted;
}

Test(log, a_kind_has_so_many_lines_in_a_period_and_reports_the_rest_after_it) {
    static log_kinds kinds;
    log_kind over;
    const int64_t end_ns = (1 + LOG_PERIOD_S) * second_ns;
    cr_expect_eq(admitted_of(&kinds, "loud", 100, second_ns), LOG_LINES_A_PERIOD);
    cr_expect(log_kinds_admit(&kinds, SONAR_INFO, "loud", second_ns), "of another level");
    cr_expect(log_kinds_admit(&kinds, SONAR_WARN, "quiet", second_ns), "of another place");
    cr_expect_eq(log_kinds_due_ns(&kinds), end_ns);
    cr_expect_not(log_kinds_take(&kinds, end_ns - 1, &over));
    cr_assert(log_kinds_take(&kinds, end_ns, &over));
    cr_expect_str_eq(over.where, "loud");
    cr_expect_eq(over.owed, 100 - LOG_LINES_A_PERIOD);
    cr_expect_not(log_kinds_take(&kinds, end_ns, &over), "told twice");
    cr_expect_eq(log_kinds_due_ns(&kinds), INT64_MAX);
    cr_expect_eq(admitted_of(&kinds, "loud", 1, end_ns), 1);
}

/* If the flood continues, every line is counted, even if lines are read late. */
Test(log, a_kind_that_goes_on_is_reported_each_period) {
    static log_kinds kinds;
    log_kind over;
    unsigned admitted = 0, told = 0, sent = 0;
    for (int64_t ms = 0; ms < 95000; ms += 10, sent++) {
        admitted += admitted_of(&kinds, "loud", 1, ms * 1000000);
        if (ms % 7000 == 0 && log_kinds_take(&kinds, ms * 1000000, &over))
            told += (unsigned)over.owed;
    }
    cr_expect_eq(admitted, 10 * LOG_LINES_A_PERIOD);
    cr_expect(log_kinds_take(&kinds, INT64_MAX, &over));
    cr_expect_eq(admitted + told + over.owed, sent);
}

Test(log, kinds_beyond_the_table_share_one_entry) {
    static log_kinds kinds;
    log_kind over;
    char where[32];
    unsigned admitted = 0;
    for (int i = 0; i < 10000; i++) {
        snprintf(where, sizeof where, "place %d", i);
        admitted += admitted_of(&kinds, where, 1, second_ns);
    }
    cr_expect_eq(admitted, LOG_KINDS + LOG_LINES_A_PERIOD);
    cr_assert(log_kinds_take(&kinds, INT64_MAX, &over));
    cr_expect_str_eq(over.where, "log");
    cr_expect_eq(over.owed, 10000 - admitted);
    cr_expect_eq(admitted_of(&kinds, "later", 1, 20 * second_ns), 1, "entries are used again");
}
