/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The metrics for Prometheus: their text, the port, and that the counters of a faulty run equal
 * those of the simulator's summary. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "net/loopback.h"
#include "status/metrics.h"
#include "exporter/exporter.h"
#include "process.h"

static sonar_status status;
static sonar_ingest_report stream;

/* Every member has a different number, so that an exchange is detected. */
static void fill(void) {
    uint64_t next = 1000;
    memset(&status, 0, sizeof status);
    memset(&stream, 0, sizeof stream);
    for (size_t i = 0; i < sonar_metrics_count; i++) {
        const sonar_metric *m = &sonar_metrics[i];
        for (size_t k = 0; m->kind != SONAR_TIMES && k < sonar_metric_values(m); k++) {
            void *at = (void *)(uintptr_t)sonar_metric_value(m, &status, k);
            if (m->kind == SONAR_MEASURE)
                *(double *)at = (double)next++ + 0.5;
            else
                *(uint64_t *)at = next++;
        }
    }
    status.stream.age_s = NAN;
    strcpy(status.health, "degraded");
    status.conditions = 1;
    status.condition[0] = (sonar_condition){
        .code = SONAR_CONDITION_RATE, .severity = SONAR_DEGRADED, .text = "samples are slow"};
    sonar_channel_set_add(&status.elements.fault[SONAR_ELEMENT_HUM].sensors, 3, 4);
    status.elements.judged = 61, status.elements.masked = 2;
    status.latency = (sonar_percentiles){.count = 3, .sum_s = 0.75, .below = {[27] = 3}};
    status.stage[SONAR_TIMED_CBF][SONAR_PART_HOST].count = 5;
    stream.totals = 2;
    stream.total[0] = (sonar_block_totals){0, 16, 11, 12, 13, 14, 15, 16};
    stream.total[1] = (sonar_block_totals){16, 8, 21, 22, 23, 24, 25, 26};
}

static char *print(void) {
    static char *text;
    static size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    sonar_exporter_print(&status, &stream, to);
    fclose(to);
    return text;
}

/* The value of a series, NaN if it is not there. */
static double value_of(const char *text, const char *series) {
    char line[200];
    snprintf(line, sizeof line, "\n%s ", series);
    const char *at = strstr(text, line);
    return at ? strtod(at + strlen(line), NULL) : NAN;
}

static void expect_value(const char *text, const char *series, double value) {
    cr_expect(value_of(text, series) == value, "%s is %.17g, not %g", series,
              value_of(text, series), value);
}

/* ---- text ------------------------------------------------------------------------------------ */

Test(exporter, the_text_has_what_the_status_has) {
    fill();
    char *text = print();
    expect_value(text, "sonard_frames_received_total", (double)status.ingest.frames_received);
    expect_value(text, "sonard_frames_dropped_total{cause=\"late\"}",
                 (double)status.ingest.frames_dropped[SONAR_FRAME_LATE]);
    expect_value(text, "sonard_windows_dropped_total{cause=\"missing\"}",
                 (double)status.ingest.windows_dropped[SONAR_WINDOW_MISSING]);
    expect_value(text, "sonard_windows_waiting", (double)status.ingest.windows_waiting);
    expect_value(text, "sonard_output_topic_sent_total{topic=\"cbf.lofar\"}",
                 (double)status.output.topic_sent[SONAR_CBF_LOFAR]);
    expect_value(text, "sonard_mvdr_bins_not_converged_total",
                 (double)status.mvdr_bins_not_converged);
    expect_value(text, "sonard_stream_rate_hertz", status.stream.rate_hz);
    expect_value(text, "sonard_uptime_seconds", status.uptime_s);
    expect_value(text, "sonard_device_free_bytes", status.device_free_bytes);
    cr_expect(strstr(text, "\nsonard_stream_age_seconds NaN\n"));
    expect_value(text, "sonard_healthy", 0);
    expect_value(text, "sonard_condition{code=\"rate\"}", 1);
    expect_value(text, "sonard_condition{code=\"results_late\"}", 0);
    expect_value(text, "sonard_sensors_faulty{fault=\"hum\"}", 4);
    expect_value(text, "sonard_sensors_masked{by=\"hand\"}", 2);
    expect_value(text, "sonard_latency_seconds_sum", 0.75);
    expect_value(text, "sonard_latency_seconds_count", 3);
    expect_value(text, "sonard_latency_seconds_bucket{le=\"137.438953\"}", 3);
    expect_value(text, "sonard_stage_seconds_count{stage=\"cbf\",part=\"host\"}", 5);
    cr_expect(isnan(value_of(text, "sonard_stage_seconds_count{stage=\"cbf\",part=\"copy\"}")));
    expect_value(text, "sonard_block_frames_total{channels=\"0-15\"}", 11);
    expect_value(text, "sonard_block_received_bytes_total{channels=\"16-23\"}", 22);
    expect_value(text, "sonard_block_overloads_total{channels=\"16-23\"}", 23);
    expect_value(text, "sonard_block_samples_stored_total{channels=\"0-15\"}", 14);
    expect_value(text, "sonard_block_samples_late_total{channels=\"0-15\"}", 15);
    expect_value(text, "sonard_block_samples_missing_total{channels=\"16-23\"}", 26);
    free(text);
}

/* A line of the text as "name{labels}", without its value; false for a comment. */
static bool series_of(const char *line, char *series, size_t size) {
    const char *space = strrchr(line, ' ');
    if (*line == '#' || !space)
        return false;
    snprintf(series, size, "%.*s", (int)(space - line), line);
    return true;
}

Test(exporter, no_series_is_there_twice_and_each_is_explained) {
    enum { MOST = 4000 };
    static char seen[MOST][160];
    size_t count = 0;
    fill();
    char *text = print(), *save = NULL, name[160] = "";
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        if (!strncmp(line, "# TYPE ", 7))
            snprintf(name, sizeof name, "%.*s", (int)strcspn(line + 7, " "), line + 7);
        if (!series_of(line, seen[count], sizeof *seen))
            continue;
        cr_expect(!strncmp(seen[count], name, strlen(name)), "%s is not of type %s", line, name);
        for (size_t i = 0; i < count; i++)
            cr_expect_str_neq(seen[i], seen[count]);
        cr_assert_lt(++count, MOST);
    }
    cr_expect_gt(count, 150);
    free(text);
}

static bool has_promtool(void) {
    return system("command -v promtool >/dev/null") == 0;
}

/* 0: promtool found nothing. */
static int promtool(const char *arguments, const char *input) {
    char command[1200];
    snprintf(command, sizeof command, "promtool %s >&2", arguments);
    FILE *tool = popen(command, "w");
    cr_assert_not_null(tool);
    fputs(input, tool);
    return pclose(tool);
}

Test(exporter, promtool_finds_nothing_to_mend) {
    if (!has_promtool())
        cr_skip_test("promtool is not installed (Debian package prometheus)");
    fill();
    char *text = print();
    cr_expect_eq(promtool("check metrics", text), 0);
    free(text);
}

Test(exporter, promtool_reads_the_alert_rules) {
    if (!has_promtool())
        cr_skip_test("promtool is not installed (Debian package prometheus)");
    cr_expect_eq(promtool("check rules " SONAR_SOURCE_DIR "/config/metrics/alerts.yaml", ""), 0);
}

/* Alerts and dashboard name only existing metrics and conditions. */
static void expect_known(const char *file) {
    char path[512], command[600], line[200];
    fill();
    char *text = print();
    snprintf(path, sizeof path, "%s/config/metrics/%s", SONAR_SOURCE_DIR, file);
    snprintf(command, sizeof command, "grep -oE 'sonard_[a-z_]+|code=.?\"[a-z_]+' %s | sort -u",
             path);
    FILE *names = popen(command, "r");
    size_t count = 0;
    for (; fgets(line, sizeof line, names); count++) {
        char *name = line;
        line[strcspn(line, "\n")] = '\0';
        if (!strncmp(line, "code=", 5))
            name = strchr(line, '"') + 1;
        cr_expect(strstr(text, name), "%s names %s, which there is not", file, name);
    }
    pclose(names);
    cr_expect_gt(count, 5, "%s", file);
    free(text);
}

Test(exporter, alerts_and_dashboard_name_what_there_is) {
    expect_known("alerts.yaml");
    expect_known("grafana.json");
}

/* ---- addresses ------------------------------------------------------------------------------- */

Test(exporter, only_loopback_addresses_are_read) {
    static const char *const good[] = {"127.0.0.1:9464", "127.1.2.3:1", "[::1]:65535",
                                       "127.0.0.1:0"};
    static const char *const bad[] = {"",
                                      ":9464",
                                      "9464",
                                      "127.0.0.1",
                                      "127.0.0.1:",
                                      "127.0.0.1:65536",
                                      "127.0.0.1:-1",
                                      "127.0.0.1:1x",
                                      "127.0.0.1:000001",
                                      "0.0.0.0:9464",
                                      "*:9464",
                                      "192.168.0.1:9464",
                                      "128.0.0.1:9464",
                                      "localhost:9464",
                                      "::1:9464",
                                      "[::]:9464",
                                      "[::1]",
                                      "127.0.0.1.5:9464",
                                      "255.255.255.255255:1"};
    struct sockaddr_storage address;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_expect(sonar_loopback_read(good[i], &address), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_expect(!sonar_loopback_read(bad[i], &address), "%s", bad[i]);
}

/* ---- the port -------------------------------------------------------------------------------- */

static int dial(uint16_t port) {
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* The whole answer, malloc'ed; "" where the server hung up. */
static char *ask(uint16_t port, const char *method, const char *path) {
    enum { MOST = 1 << 20 };
    char request[200], *answer = calloc(1, MOST);
    int fd = dial(port);
    snprintf(request, sizeof request, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
             method, path);
    if (send(fd, request, strlen(request), MSG_NOSIGNAL) > 0)
        for (ssize_t n, used = 0; (n = recv(fd, answer + used, MOST - 1 - (size_t)used, 0)) > 0;)
            used += n;
    close(fd);
    return answer;
}

static void expect_answer(uint16_t port, const char *method, const char *path, int code,
                          const char *body) {
    char line[32], *answer = ask(port, method, path);
    snprintf(line, sizeof line, "HTTP/1.1 %d ", code);
    cr_expect(!strncmp(answer, line, strlen(line)), "%s %s: %.60s", method, path, answer);
    cr_expect(strstr(answer, body), "%s %s lacks '%s': %s", method, path, body, answer);
    free(answer);
}

/* Waits until it answers, for at most 2 s: a place is free shortly after its connection is closed.
 */
static void await_answer(uint16_t port) {
    for (int i = 0; i < 100; i++) {
        char *answer = ask(port, "GET", "/metrics");
        const bool answered = *answer;
        free(answer);
        if (answered)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

static sonar_exporter *open_exporter(void) {
    sonar_exporter *exporter;
    sonar_error err = {0};
    sonar_code code = sonar_exporter_create("127.0.0.1:0", &exporter, &err);
    if (code == SONAR_EUNAVAILABLE && strstr(err.text, "without")) {
        cr_skip_test("%s", err.text);
    }
    cr_assert_eq(code, SONAR_OK, "%s", err.text);
    return exporter;
}

Test(exporter, the_port_answers_what_was_posted) {
    sonar_exporter *exporter = open_exporter();
    uint16_t port = sonar_exporter_port(exporter);
    expect_answer(port, "GET", "/metrics", 503, "starting");
    expect_answer(port, "GET", "/healthz", 503, "starting");
    fill();
    sonar_exporter_post(exporter, &status, &stream);
    expect_answer(port, "GET", "/metrics", 200, "\nsonard_frames_received_total ");
    expect_answer(port, "GET", "/metrics", 200, "text/plain; version=0.0.4");
    expect_answer(port, "GET", "/healthz", 503, "degraded\ndegraded rate: samples are slow\n");
    strcpy(status.health, "ok");
    status.conditions = 0;
    sonar_exporter_post(exporter, &status, &stream);
    expect_answer(port, "GET", "/healthz", 200, "\r\n\r\nok\n");
    expect_answer(port, "HEAD", "/healthz", 200, "text/plain");
    expect_answer(port, "GET", "/", 404, "/metrics and /healthz");
    expect_answer(port, "GET", "/metrics/", 404, "");
    expect_answer(port, "POST", "/metrics", 405, "Allow: GET, HEAD");
    expect_answer(port, "DELETE", "/metrics", 405, "");
    sonar_exporter_destroy(exporter);
}

/* Silent connections are closed after a while, and at once if there are too many. */
Test(exporter, idle_connections_shut_no_one_out_for_long) {
    enum { IDLE = 40 };
    sonar_exporter *exporter = open_exporter();
    uint16_t port = sonar_exporter_port(exporter);
    int fd[IDLE];
    char byte;
    fill();
    sonar_exporter_post(exporter, &status, &stream);
    for (int i = 0; i < IDLE; i++)
        fd[i] = dial(port);
    for (int i = 0; i < IDLE; i++) /* by the limit or by the time limit */
        cr_expect_leq(recv(fd[i], &byte, 1, 0), 0);
    await_answer(port);
    expect_answer(port, "GET", "/metrics", 200, "sonard_healthy");
    for (int i = 0; i < IDLE; i++)
        close(fd[i]);
    sonar_exporter_destroy(exporter);
}

/* True: the server has hung up. */
static bool has_ended(int fd) {
    char byte;
    const ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN);
}

/* A byte every tenth of a second is a request that never ends. Without a limit this takes half an
 * hour, until the request is too long. */
Test(exporter, slow_requests_shut_no_one_out_for_long) {
    enum { SLOW = 8, TURNS = 300 };
    static const char request[] = "GET /metrics HTTP/1.1\r\nX: ";
    sonar_exporter *exporter = open_exporter();
    uint16_t port = sonar_exporter_port(exporter);
    int fd[SLOW], ended = 0, turn = 0;
    fill();
    for (int i = 0; i < SLOW; i++) {
        fd[i] = dial(port);
        cr_assert_gt(send(fd[i], request, strlen(request), MSG_NOSIGNAL), 0);
    }
    for (; turn < TURNS && ended < SLOW; turn++) {
        ended = 0;
        for (int i = 0; i < SLOW; i++) {
            ended += has_ended(fd[i]);
            send(fd[i], "x", 1, MSG_NOSIGNAL);
        }
        if (turn % 10 == 0) /* as the control thread, once a second */
            sonar_exporter_post(exporter, &status, &stream);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    cr_expect_eq(ended, SLOW, "%d of %d have ended", ended, SLOW);
    await_answer(port);
    expect_answer(port, "GET", "/metrics", 200, "sonard_healthy");
    for (int i = 0; i < SLOW; i++)
        close(fd[i]);
    sonar_exporter_destroy(exporter);
}

/* A connection has one request, so that no client keeps a place by asking again and again. */
Test(exporter, a_connection_has_one_answer) {
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    sonar_exporter *exporter = open_exporter();
    static char answer[1 << 20];
    ssize_t used = 0;
    fill();
    sonar_exporter_post(exporter, &status, &stream);
    int fd = dial(sonar_exporter_port(exporter));
    cr_assert_gt(send(fd, request, strlen(request), MSG_NOSIGNAL), 0);
    for (ssize_t n; (n = recv(fd, answer + used, sizeof answer - 1 - (size_t)used, 0)) > 0;)
        used += n;
    answer[used] = '\0';
    cr_expect(strstr(answer, "Connection: close"), "%s", answer);
    close(fd);
    sonar_exporter_destroy(exporter);
}

Test(exporter, a_port_in_use_is_refused) {
    sonar_exporter *first = open_exporter(), *second;
    sonar_error err = {0};
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", sonar_exporter_port(first));
    cr_expect_eq(sonar_exporter_create(address, &second, &err), SONAR_EUNAVAILABLE);
    cr_expect(strstr(err.text, address) && !second, "%s", err.text);
    sonar_exporter_destroy(first);
}

/* ---- a faulty run ---------------------------------------------------------------------------- */

static double summary_number(const box *box, const char *path) {
    char *text = box_read(box, "summary.json");
    cJSON *summary = cJSON_Parse(text);
    double value = header_number(summary, path);
    cJSON_Delete(summary);
    free(text);
    return value;
}

/* The port that the daemon's log names. */
static uint16_t port_of(const box *box) {
    for (int i = 0; i < 200; i++) {
        char *log = box_read(box, "sonard.log"), *at = strstr(log, "http://127.0.0.1:");
        uint16_t port = at ? (uint16_t)strtol(at + 17, NULL, 10) : 0;
        free(log);
        if (port)
            return port;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return 0;
}

/* The metrics once this number of frames has been counted and all windows are processed. */
static char *settled(uint16_t port, double frames) {
    for (int i = 0; i < 300; i++) {
        char *text = ask(port, "GET", "/metrics");
        if (value_of(text, "sonard_frames_received_total") >= frames &&
            value_of(text, "sonard_windows_offered_total") ==
                value_of(text, "sonard_windows_processed_total") &&
            value_of(text, "sonard_condition{code=\"no_samples\"}") == 1)
            return text;
        free(text);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return NULL;
}

/* Waits until the daemon knows the reader, which does not get earlier messages. */
static bool await_reader(uint16_t port) {
    for (int i = 0; i < 100; i++) {
        char *text = ask(port, "GET", "/metrics");
        double wanted = value_of(text, "sonard_output_topic_wanted{topic=\"cbf.azimuth\"}");
        free(text);
        if (wanted == 1)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return false;
}

static double sum_over_blocks(const char *text, const char *name) {
    double sum = 0;
    char series[120];
    for (int block = 0; block < 3; block++) {
        snprintf(series, sizeof series, "%s{channels=\"%d-%d\"}", name, 4 * block, 4 * block + 3);
        sum += value_of(text, series);
    }
    return sum;
}

static void compare(const box *box, const char *text) {
    static const struct {
        const char *cause, *kind;
    } pair[] = {{"malformed", "kinds.corrupt"},       {"truncated", "kinds.truncate"},
                {"oversized", "kinds.oversize"},      {"wrong_epoch", "kinds.wrong_epoch"},
                {"wrong_array", "kinds.wrong_array"}, {"wrong_rate", "kinds.wrong_rate"},
                {"not_finite", "kinds.nan"}};
    const double received = value_of(text, "sonard_frames_received_total");
    double dropped = 0;
    char series[120];
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++) {
        snprintf(series, sizeof series, "sonard_frames_dropped_total{cause=\"%s\"}",
                 sonar_frame_cause_name((sonar_frame_cause)i));
        dropped += value_of(text, series);
    }
    cr_expect_eq(received, summary_number(box, "messages"));
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        snprintf(series, sizeof series, "sonard_frames_dropped_total{cause=\"%s\"}", pair[i].cause);
        cr_expect_gt(summary_number(box, pair[i].kind), 0, "%s", pair[i].kind);
        expect_value(text, series, summary_number(box, pair[i].kind));
    }
    const double accepted = received - dropped;
    expect_value(text, "sonard_frames_accepted_total", accepted);
    cr_expect_eq(sum_over_blocks(text, "sonard_block_frames_total"), accepted);
    cr_expect_eq(sum_over_blocks(text, "sonard_block_received_bytes_total"),
                 accepted * (64 + 250 * 4 * 4));
    cr_expect_eq(sum_over_blocks(text, "sonard_block_samples_stored_total"),
                 value_of(text, "sonard_samples_stored_total"));
    cr_expect_eq(sum_over_blocks(text, "sonard_block_samples_late_total"),
                 value_of(text, "sonard_samples_late_total"));
    cr_expect_gt(value_of(text, "sonard_samples_missing_total"), 0);
    cr_expect_eq(sum_over_blocks(text, "sonard_block_samples_missing_total"),
                 value_of(text, "sonard_samples_missing_total"));
    cr_expect_eq(value_of(text, "sonard_latency_seconds_count"),
                 value_of(text, "sonard_windows_processed_total"));
    cr_expect_eq(value_of(text, "sonard_output_topic_sent_total{topic=\"cbf.azimuth\"}"),
                 value_of(text, "sonard_windows_processed_total"));
}

Test(exporter, a_faulty_run_adds_up_to_the_simulators_account) {
    sonar_exporter_destroy(open_exporter()); /* skips the test without one */
    box box = box_open();
    box_write(&box, "sonard.yaml",
              "schema: 1\narray: {id: 1, geometry: {line: {sensors: 12, spacing_m: 0.75}}}\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"ipc://%s/in\"], overload: block, max_missing_share: 0.9}\n"
              "dft: {length: 2048, hop: 1024}\ncbf: {band_hz: [600, 950], ranges_m: []}\n"
              "mvdr: {snapshots: 16}\noutput: {endpoint: \"ipc://%s/out\"}\n"
              "metrics: {listen: \"127.0.0.1:0\"}\nruntime: {backend: cpu, threads: 1}\n",
              box.dir, box.dir);
    box_write(&box, "scene.yaml",
              "schema: 1\nseed: 5\nambient: {psd_db: 50}\n"
              "frame_samples: 250\ndigitisers: 3\nformat: f32\n"
              "fault_rates: {drop: 0.03, repeat: 0.03, reorder: 0.05, corrupt: 0.02, "
              "truncate: 0.02, oversize: 0.02, wrong_epoch: 0.02, wrong_array: 0.02, "
              "wrong_rate: 0.02, nan: 0.02}\n");
    pid_t daemon = process_start(&box, "sonard.log", "sonard", box_path(&box, "sonard.yaml"), NULL);
    char out[96], *log;
    snprintf(out, sizeof out, "ipc://%s/out", box.dir);
    subscriber reader = subscribe(out, "cbf.azimuth", NULL);
    uint16_t port = port_of(&box);
    cr_assert(port, "%s", log = box_read(&box, "sonard.log"));
    cr_assert(await_reader(port));
    pid_t sim =
        process_start(&box, "sim.log", "sonar-sim", "--config", box_path(&box, "sonard.yaml"),
                      "--scene", box_path(&box, "scene.yaml"), "--rate", "max", "--duration", "20",
                      "--summary", box_path(&box, "summary.json"), NULL);
    cr_assert_eq(process_wait(sim, 60000), 0);
    char *text = settled(port, summary_number(&box, "messages"));
    cr_assert_not_null(text, "the frames were not counted");
    compare(&box, text);
    if (has_promtool())
        cr_expect_eq(promtool("check metrics", strstr(text, "\r\n\r\n") + 4), 0);
    free(text);
    unsubscribe(&reader);
    kill(daemon, SIGTERM);
    cr_expect_eq(process_wait(daemon, 60000), 0);
    box_close(&box);
}
