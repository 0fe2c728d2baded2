/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The running daemon over real sockets, fed by a small digitiser of the tests' own: life, faults,
 * restarts, what is published. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "config/config.h"
#include "core/core.h"
#include "digitiser.h"
#include "process.h"

enum { SENSORS = 24, LENGTH = 2048, HOP = 1024, FRAME = 256 };

typedef struct rig {
    box box;
    char in[128], out[128];
    pid_t daemon;
} rig;

static void write_config_with(rig *rig, const char *overload, const char *mvdr, const char *extra) {
    box_write(&rig->box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, name: test, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
              "sound_speed_mps: 1500\n"
              "fs_hz: 8000\n"
              "ingest: {endpoints: [\"%s\"], overload: %s, restart_after_ms: 300, "
              "silent_after_ms: 300, max_missing_share: 0.5}\n"
              "dft: {length: %d, hop: %d}\n"
              "cbf: {band_hz: [600, 950], ranges_m: [50, 200]}\n"
              "lofar: {band_hz: [300, 950]}\n"
              "mvdr: {band_hz: [600, 950], %s}\n"
              "output: {endpoint: \"%s\", high_water_mark: 1000}\n"
              "runtime: {backend: cpu, threads: 2}\n%s",
              SENSORS, rig->in, overload, LENGTH, HOP, mvdr, rig->out, extra);
}

static void write_config(rig *rig, const char *overload, const char *extra) {
    write_config_with(rig, overload, "snapshots: 16, nearfield: true", extra);
}

static void start_daemon(rig *rig) {
    rig->daemon =
        process_start(&rig->box, "sonard.log", "sonard", box_path(&rig->box, "sonard.yaml"), NULL);
}

static rig rig_open_with(const char *overload, const char *mvdr) {
    rig rig = {.box = box_open()};
    snprintf(rig.in, sizeof rig.in, "ipc://%s/in", rig.box.dir);
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    write_config_with(&rig, overload, mvdr, "");
    start_daemon(&rig);
    return rig;
}

static rig rig_open(const char *overload) {
    return rig_open_with(overload, "snapshots: 16, nearfield: true");
}

static void print_log(rig *rig) {
    char *log = box_read(&rig->box, "sonard.log");
    cr_log_warn("%s", log);
    free(log);
}

/* Stops the daemon by SIGTERM and checks that it exited cleanly. */
static void rig_close(rig *rig) {
    kill(rig->daemon, SIGTERM);
    int status = process_wait(rig->daemon, 60000);
    if (status)
        print_log(rig);
    cr_expect_eq(status, 0, "the daemon left with %d", status);
    box_close(&rig->box);
}

static const char *text_of(const cJSON *head, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(head, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

/* Subscribes and waits until the subscription is known, shown by the first status. */
static subscriber listen_to(rig *rig, const char *topic) {
    subscriber s = subscribe(rig->out, topic, "status", NULL);
    message first;
    cr_assert(receive_ready(&s, topic, &first), "no status came");
    message_free(&first);
    return s;
}

/* The direction of an azimuth message's highest value, by the header's own axis. */
static double peak_az(const message *message) {
    size_t best = 0;
    for (size_t i = 1; i < message->count; i++)
        if (message->data[i] > message->data[best])
            best = i;
    const cJSON *axis =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(message->head, "axes"), 0);
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(axis, "values");
    if (values)
        return cJSON_GetArrayItem(values, (int)best)->valuedouble;
    return header_number(axis, "start") + (double)best * header_number(axis, "step");
}

/* ---- life ------------------------------------------------------------------------------------ */

Test(daemon, waits_for_a_digitiser_then_finds_the_ship) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "cbf.azimuth");
    message m;
    cr_assert(receive_until(&s, "status", "uptime_s", 0, 60000, &m));
    cr_expect_str_eq(text_of(m.head, "health"), "waiting");
    message_free(&m);
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, 40);
    cr_assert(receive_until(&s, "cbf.azimuth", "window", 3, 60000, &m), "no spectrum came");
    cr_expect_float_eq(peak_az(&m), 70, 1.0, "peak at %g", peak_az(&m));
    cr_expect_str_eq(text_of(m.head, "schema"), "sonard/1");
    cr_expect_eq(header_number(m.head, "sample_index"), 3 * HOP);
    cr_expect_str_eq(text_of(m.head, "backend"), "cpu");
    message_free(&m);
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

/* No other MVDR spectrum is requested. */
Test(daemon, the_adaptive_near_field_comes_alone) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "mvdr.nearfield");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    message m;
    digitiser_send(&d, 40);
    cr_assert(receive_until(&s, "mvdr.nearfield", "window", 3, 60000, &m), "no near field came");
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(m.head, "shape");
    const size_t ranges = (size_t)cJSON_GetArrayItem(shape, 0)->valueint;
    const size_t looks = (size_t)cJSON_GetArrayItem(shape, 1)->valueint;
    cr_assert(ranges == 2 && ranges * looks == m.count);
    cr_expect_eq(header_number(m.head, "snapshots"), 4);
    cr_expect_gt(header_number(cJSON_GetObjectItemCaseSensitive(m.head, "loading"), "delta"), 0);
    cr_expect_gt(header_number(m.head, "last_sample"), header_number(m.head, "first_sample"));
    for (size_t i = 0; i < m.count; i++)
        cr_assert(m.data[i] > 0 && isfinite(m.data[i]), "value %zu: %g", i, (double)m.data[i]);
    message_free(&m);
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

/* No other spectrum is requested, and the header states that this one is not power. */
Test(daemon, music_finds_the_ship) {
    rig rig = rig_open_with("block", "snapshots: 16, music: 1, "
                                     "scan: {start_deg: 0, stop_deg: 180, step_deg: 0.25}");
    subscriber s = listen_to(&rig, "music.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    message m;
    digitiser_send(&d, 40);
    cr_assert(receive_until(&s, "music.azimuth", "window", 5, 60000, &m), "no spectrum came");
    const cJSON *music = cJSON_GetObjectItemCaseSensitive(m.head, "music");
    cr_expect_float_eq(peak_az(&m), 70, 0.5, "peak at %g", peak_az(&m));
    cr_expect_str_eq(text_of(m.head, "unit"), "relative");
    cr_expect(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(m.head, "loading")));
    cr_expect(cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(music, "counted")));
    cr_expect_eq(header_number(music, "median"), 1);
    cr_expect_gt(header_number(music, "bins"), 0);
    cr_expect_eq(header_number(m.head, "snapshots"), 6);
    cr_expect_gt(header_number(m.head, "last_sample"), header_number(m.head, "first_sample"));
    for (size_t i = 0; i < m.count; i++)
        cr_assert(m.data[i] >= 1 && isfinite(m.data[i]), "value %zu: %g", i, (double)m.data[i]);
    message_free(&m);
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

/* Sanitizers use additional memory. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/* The rest is libraries, stacks and sockets; the array is large enough for that to be small. */
static void check_size(const char *output, const char *rest) {
    enum { REST = 40 << 20 };
    rig rig = {.box = box_open()};
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    box_write(&rig.box, "sonard.yaml",
              "schema: 1\nfs_hz: 8000\n"
              "array: {geometry: {line: {sensors: 1024, spacing_m: 0.2}}}\n"
              "ingest: {endpoints: [\"ipc://%s/in\"]}\n"
              "output: {endpoint: \"%s\"%s}\nruntime: {backend: cpu, threads: 2}\n%s",
              rig.box.dir, rig.out, output, rest);
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    sonar_code code = sonar_config_load(box_path(&rig.box, "sonard.yaml"), &config, report);
    sonar_report_destroy(report);
    cr_assert_eq(code, SONAR_OK);
    const double said = (double)sonar_config_memory_bytes(config);
    sonar_config_destroy(config);
    start_daemon(&rig);
    subscriber s = subscribe(rig.out, "status", NULL);
    message m;
    cr_assert(receive_until(&s, "status", "uptime_s", 0, 60000, &m), "no status came");
    const double is = header_number(m.head, "resident_bytes");
    cr_expect(is > said && is < 1.05 * said + REST, "%g MiB, said were %g MiB", is / (1 << 20),
              said / (1 << 20));
    message_free(&m);
    unsubscribe(&s);
    rig_close(&rig);
}

#define SCAN "scan: {start_deg: 0, stop_deg: 180, step_deg: 0.5}"

Test(daemon, it_is_as_large_as_the_configuration_says) {
    check_size("", "cbf: {band_hz: [600, 950], ranges_m: [200, 500], " SCAN "}\n"
                   "mvdr: {snapshots: 64, " SCAN "}\n");
    check_size(", topics: [detections, status]",
               "cbf: {band_hz: [600, 950], ranges_m: [], length: 1024, " SCAN "}\n"
               "mvdr: {length: 512, snapshots: 16, " SCAN "}\n");
    check_size("", "cbf: {band_hz: [600, 950], ranges_m: [], " SCAN "}\nmvdr: {enabled: false}\n");
    check_size("", "cbf: {band_hz: [600, 950], ranges_m: [200, 300, 500], " SCAN "}\n"
                   "mvdr: {snapshots: 16, nearfield: true, " SCAN "}\n");
    check_size("", "cbf: {band_hz: [600, 950], ranges_m: [], length: 1024, " SCAN "}\n"
                   "mvdr: {length: 512, snapshots: 600, music: 3, " SCAN "}\n");
}
#endif

Test(daemon, stops_within_two_seconds_while_samples_pour_in) {
    rig rig = rig_open("drop_oldest");
    subscriber s = listen_to(&rig, "cbf.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, 60);
    message m;
    cr_assert(receive_until(&s, "cbf.azimuth", "window", 0, 60000, &m));
    message_free(&m);
    int timeout = 0;
    zmq_setsockopt(d.socket, ZMQ_SNDTIMEO, &timeout, sizeof timeout);
    digitiser_send(&d, 20);
    kill(rig.daemon, SIGINT);
    cr_expect_eq(process_wait(rig.daemon, 2000), 0, "did not leave within 2 s");
    digitiser_close(&d);
    unsubscribe(&s);
    box_close(&rig.box);
}

Test(daemon, says_why_it_cannot_start) {
    rig first = rig_open("drop_oldest");
    subscriber s = listen_to(&first, "cbf.azimuth");
    rig second = {.box = box_open()};
    snprintf(second.in, sizeof second.in, "%s", first.in);
    snprintf(second.out, sizeof second.out, "ipc://%s/out", second.box.dir);
    write_config(&second, "drop_oldest", "");
    start_daemon(&second);
    cr_expect_eq(process_wait(second.daemon, 60000), 3);
    char *log = box_read(&second.box, "sonard.log");
    cr_expect(strstr(log, second.in) && strstr(log, "in use"), "%s", log);
    free(log);
    box_close(&second.box);
    unsubscribe(&s);
    rig_close(&first);
}

/* Runs it with a limited address space: 0 if it runs, else its exit status. */
static int run_within(const box *box, size_t mib) {
    const struct rlimit most = {.rlim_cur = mib << 20, .rlim_max = mib << 20};
    const char *const args[] = {SONAR_BIN_DIR "/sonard", box_path(box, "sonard.yaml"), NULL};
    int status = -1;
    char *log = NULL;
    const pid_t pid = fork();
    if (pid == 0) {
        const int to = open(box_path(box, "log"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
        dup2(to, STDERR_FILENO);
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        setrlimit(RLIMIT_AS, &most);
        execv(args[0], (char *const *)(uintptr_t)args);
        _exit(127);
    }
    do {
        free(log);
        usleep(10000);
        log = box_read(box, "log");
    } while (process_running(pid) && !strstr(log, "running; "));
    if (process_running(pid))
        kill(pid, SIGTERM);
    status = process_wait(pid, 60000);
    const bool told = strstr(log, "RLIMIT_AS") || strstr(log, "memory");
    cr_expect(status == 0 || status == 127 || ((status == 3 || status == 4) && told),
              "%zu MiB: %d: %s", mib, status,
              log); /* 127: the loader could not map a library, and reports it */
    free(log);
    return status;
}

/* From too little address space for its libraries to enough: it ends with a sentence, and never
 * aborts. */
Test(daemon, too_little_address_space_is_an_error) {
#if defined(__SANITIZE_ADDRESS__)
    cr_skip_test("the address sanitizer takes all address space there is");
#endif
    box box = box_open();
    box_write(&box, "sonard.yaml",
              "schema: 1\nfs_hz: 8000\narray: {geometry: {line: {sensors: 8, spacing_m: 0.75}}}\n"
              "ingest: {endpoints: [\"ipc://%s/in\"]}\noutput: {endpoint: \"ipc://%s/out\"}\n"
              "cbf: {band_hz: [600, 950], ranges_m: []}\nmvdr: {enabled: false}\n"
              "runtime: {backend: cpu, threads: 1}\n",
              box.dir, box.dir);
    int status = -1;
    for (size_t mib = 24; status != 0 && mib < 1024; mib += 4)
        status = run_within(&box, mib);
    cr_expect_eq(status, 0, "it never ran");
    box_close(&box);
}

Test(daemon, wrong_command_lines_and_files_exit_with_2) {
    box box = box_open();
    box_write(&box, "bad.yaml", "schema: 1\nfs_hz: eight\nnonsense: 3\n");
    const char *bad = box_path(&box, "bad.yaml");
    cr_expect_eq(process_wait(process_start(&box, "a", "sonard", bad, NULL), 5000), 2);
    cr_expect_eq(process_wait(process_start(&box, "b", "sonard", "-c", bad, NULL), 5000), 2);
    cr_expect_eq(process_wait(process_start(&box, "c", "sonard", "/no/such.yaml", NULL), 5000), 2);
    cr_expect_eq(process_wait(process_start(&box, "d", "sonard", NULL), 5000), 2);
    cr_expect_eq(process_wait(process_start(&box, "e", "sonard", "--what", NULL), 5000), 2);
    char *log = box_read(&box, "b");
    cr_expect(strstr(log, "bad.yaml:2:8"), "%s", log);
    cr_expect(strstr(log, "bad.yaml:3:1"), "%s", log);
    free(log);
    log = box_read(&box, "c");
    cr_expect(strstr(log, "/no/such.yaml"), "%s", log);
    free(log);
    const char *good = SONAR_SOURCE_DIR "/config/demo.yaml";
    cr_expect_eq(process_wait(process_start(&box, "f", "sonard", "-c", good, NULL), 5000), 0);
    cr_expect_eq(process_wait(process_start(&box, "g", "sonard", "-p", good, NULL), 5000), 0);
    cr_expect_eq(process_wait(process_start(&box, "h", "sonard", "--help", NULL), 5000), 0);
    box_close(&box);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void send_bad(digitiser *d, sonar_frame frame, size_t bytes) {
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    float *payload = calloc(1, bytes + 1);
    sonar_frame_encode(&frame, header);
    digitiser_raw(d, 2, (const void *[]){header, payload}, (size_t[]){sizeof header, bytes});
    free(payload);
}

static void send_not_finite(digitiser *d) {
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    float payload[FRAME * SENSORS] = {[1234] = NAN};
    sonar_frame_encode(&d->frame, header);
    digitiser_raw(d, 2, (const void *[]){header, payload},
                  (size_t[]){sizeof header, sizeof payload});
}

Test(daemon, every_bad_frame_is_counted_by_its_cause) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "cbf.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    size_t whole = sonar_frame_payload_bytes(&d.frame);
    digitiser_send(&d, 22); /* the last frame is not frozen yet */
    sonar_frame f = d.frame;
    f.array_id = 9;
    send_bad(&d, f, whole);
    f = d.frame, f.first_channel = 1;
    send_bad(&d, f, whole);
    f = d.frame, f.fs_hz = 8001;
    send_bad(&d, f, whole);
    send_bad(&d, d.frame, whole - 1);
    send_bad(&d, d.frame, whole + 1);
    send_bad(&d, d.frame, 0);
    f = d.frame, f.type = 7;
    send_bad(&d, f, whole);
    send_not_finite(&d);
    f = d.frame, f.first_sample = 0; /* frozen long ago */
    send_bad(&d, f, whole);
    f = d.frame, f.first_sample -= FRAME; /* the last one again */
    send_bad(&d, f, whole);
    digitiser_raw(&d, 1, (const void *[]){"x"}, (size_t[]){1});
    digitiser_raw(&d, 3, (const void *[]){"x", "y", "z"}, (size_t[]){1, 1, 1});
    digitiser_raw(&d, 2, (const void *[]){"", ""}, (size_t[]){0, 0});
    digitiser_send(&d, 18);
    message m;
    cr_assert(receive_until(&s, "status", "frames.received", 53, 60000, &m), "frames were lost");
    static const struct {
        const char *path;
        int count;
    } expected[] = {{"frames.received", 53},           {"frames.accepted", 40},
                    {"frames.dropped.wrong_array", 1}, {"frames.dropped.wrong_channels", 1},
                    {"frames.dropped.wrong_rate", 1},  {"frames.dropped.truncated", 2},
                    {"frames.dropped.oversized", 1},   {"frames.dropped.malformed", 4},
                    {"frames.dropped.not_finite", 1},  {"frames.dropped.late", 1},
                    {"frames.dropped.repeated", 1},    {"frames.dropped.ahead", 0},
                    {"frames.dropped.overrun", 0}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
        cr_expect_eq(header_number(m.head, expected[i].path), expected[i].count, "%s is %g, not %d",
                     expected[i].path, header_number(m.head, expected[i].path), expected[i].count);
    message_free(&m);
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

/* A digitiser that does not match the configuration must be distinguished from silence. */
static void expect_refusal(void (*spoil)(sonar_frame *), const char *words) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "cbf.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    sonar_frame f = d.frame;
    spoil(&f);
    for (int i = 0; i < 7; i++)
        send_bad(&d, f, sonar_frame_payload_bytes(&f));
    message m;
    cr_assert(receive_until(&s, "status", "frames.received", 7, 60000, &m), "frames were lost");
    cr_expect_str_eq(text_of(m.head, "health"), "degraded");
    cr_expect(strstr(text_of(m.head, "text"), words), "%s", text_of(m.head, "text"));
    message_free(&m);
    cr_assert(receive_until(&s, "status", "uptime_s", 3, 60000, &m));
    cr_expect_str_eq(text_of(m.head, "health"), "waiting", "nothing comes any more");
    message_free(&m);
    char *log = box_read(&rig.box, "sonard.log");
    const char *said = strstr(log, words);
    cr_expect(said, "%s", log);
    free(log);
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

static void spoil_rate(sonar_frame *frame) {
    frame->fs_hz = 4000;
}
static void spoil_array(sonar_frame *frame) {
    frame->array_id = 7;
}
static void spoil_channels(sonar_frame *frame) {
    frame->channels *= 2;
}

Test(daemon, a_digitiser_of_another_rate_is_named) {
    expect_refusal(spoil_rate, "; fs_hz is 8000");
}

Test(daemon, a_digitiser_of_another_array_is_named) {
    expect_refusal(spoil_array, "; array.id is 1");
}

Test(daemon, a_digitiser_of_other_channels_is_named) {
    expect_refusal(spoil_channels, "; the array has 24 channels");
}

Test(daemon, a_gap_is_published_and_kept_out_of_the_covariance) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "mvdr.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, 24); /* windows 0..4 */
    digitiser_skip(&d, 1);  /* samples 6144..6399: in windows 5 (5120..) and 6 (6144..) */
    digitiser_send(&d, 31);
    const double snapshots[] = {1, 2, 3, 4, 5, 5, 5, 6, 7};
    for (int w = 0; w < 9; w++) {
        message m;
        cr_assert(receive_until(&s, "mvdr.azimuth", "window", w, 60000, &m));
        bool gap = w == 5 || w == 6;
        cr_expect_eq(header_number(m.head, "window"), w);
        cr_expect_float_eq(header_number(m.head, "missing_share.mean"), gap ? FRAME / 2048.0 : 0,
                           1e-6, "window %d", w);
        cr_expect_eq(header_number(m.head, "snapshots"), snapshots[w], "window %d: %g snapshots", w,
                     header_number(m.head, "snapshots"));
        message_free(&m);
    }
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

/* ---- samples behind the adaptive spectrum ---------------------------------------------------- */

enum { SUB_LENGTH = 512, SUB_HOP = 192, GAP_FIRST = 40 * FRAME, GAP_END = 42 * FRAME };

/* Oldest of the newest `most` whole sub-windows that end by `end`; *newest is the last of them. */
static double oldest_sub_window(uint64_t end, size_t most, double *newest) {
    uint64_t oldest = 0, last = 0;
    size_t found = 0;
    for (uint64_t at = (end - SUB_LENGTH) / SUB_HOP * SUB_HOP;; at -= SUB_HOP) {
        if (at >= GAP_END || at + SUB_LENGTH <= GAP_FIRST) {
            last = found++ ? last : at;
            oldest = at;
        }
        if (at == 0 || found == most)
            break;
    }
    *newest = (double)last;
    return (double)oldest;
}

/* A stream with a gap; `most`: the largest number of snapshots in a spectrum. */
static void check_samples_behind(const char *mvdr, size_t most) {
    rig rig = rig_open_with("block", mvdr);
    subscriber s = listen_to(&rig, "mvdr.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, 40);
    digitiser_skip(&d, 2);
    digitiser_send(&d, 30);
    for (int w = 0; w < 14; w++) {
        message m;
        double newest;
        cr_assert(receive_until(&s, "mvdr.azimuth", "window", w, 60000, &m));
        double oldest = oldest_sub_window((uint64_t)w * HOP + LENGTH, most, &newest);
        cr_expect_eq(header_number(m.head, "window"), w);
        cr_expect_eq(header_number(m.head, "first_sample"), oldest, "window %d: from %g, not %g", w,
                     header_number(m.head, "first_sample"), oldest);
        cr_expect_eq(header_number(m.head, "last_sample"), newest + SUB_LENGTH - 1, "window %d", w);
        message_free(&m);
    }
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

Test(daemon, the_samples_behind_a_block_are_reported_across_a_gap) {
    check_samples_behind("length: 512, hop: 192, snapshots: 9", 9);
}

Test(daemon, what_is_forgotten_slowly_began_with_the_stream) {
    check_samples_behind("length: 512, hop: 192, forgetting: 0.9", SIZE_MAX);
}

Test(daemon, garbage_on_the_output_socket_is_harmless) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "cbf.azimuth");
    void *context = zmq_ctx_new(), *hostile = zmq_socket(context, ZMQ_XSUB);
    char long_topic[60000];
    memset(long_topic, 1, sizeof long_topic);
    int linger = 0;
    zmq_setsockopt(hostile, ZMQ_LINGER, &linger, sizeof linger);
    zmq_connect(hostile, rig.out);
    for (int i = 0; i < 50; i++) {
        zmq_send(hostile, long_topic, (size_t)i * 1000 + 1, 0);
        zmq_send(hostile, "\0nothing", 8, 0);
        zmq_send(hostile, "\2", 1, 0);
        zmq_send(hostile, "", 0, 0);
    }
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, 40);
    message m;
    cr_assert(receive_until(&s, "cbf.azimuth", "window", 5, 60000, &m));
    message_free(&m);
    zmq_close(hostile);
    zmq_ctx_term(context);
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

/* ---- restarts -------------------------------------------------------------------------------- */

Test(daemon, a_restarted_digitiser_is_picked_up) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "cbf.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, 24);
    message m;
    cr_assert(receive_until(&s, "cbf.azimuth", "window", 4, 60000, &m));
    message_free(&m);
    digitiser_close(&d);
    d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    d.frame.epoch = 2;
    digitiser_send(&d, 24);
    cr_assert(receive_until(&s, "cbf.azimuth", "window", 5, 60000, &m));
    cr_expect_eq(header_number(m.head, "sample_index"), 0, "the new stream begins at its 0");
    cr_expect_float_eq(peak_az(&m), 70, 1.0);
    message_free(&m);
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

Test(daemon, a_vanished_digitiser_returns_at_the_right_sample) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "cbf.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, 24);
    message m;
    cr_assert(receive_until(&s, "cbf.azimuth", "window", 4, 60000, &m));
    message_free(&m);
    digitiser_close(&d);
    do
        cr_assert(receive_until(&s, "status", "uptime_s", 0, 60000, &m));
    while (strcmp(text_of(m.head, "health"), "waiting") != 0 && (message_free(&m), true));
    message_free(&m);
    digitiser back = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_skip(&back, 24 + 400); /* a long time away: its counter went on */
    digitiser_send(&back, 24);
    cr_assert(receive_until(&s, "cbf.azimuth", "sample_index", 424 * FRAME, 60000, &m));
    cr_expect_eq(header_number(m.head, "sample_index"), 424 * FRAME);
    cr_expect_float_eq(peak_az(&m), 70, 1.0);
    message_free(&m);
    digitiser_close(&back);
    unsubscribe(&s);
    rig_close(&rig);
}

Test(daemon, killed_and_restarted_it_goes_on_with_the_same_peers) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "cbf.azimuth");
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, 24);
    message m;
    cr_assert(receive_until(&s, "cbf.azimuth", "window", 4, 60000, &m));
    char run[64];
    snprintf(run, sizeof run, "%s", text_of(m.head, "run"));
    message_free(&m);
    kill(rig.daemon, SIGKILL);
    cr_expect_eq(process_wait(rig.daemon, 60000), 128 + SIGKILL);
    start_daemon(&rig);
    cr_assert(receive_until(&s, "status", "uptime_s", 0, 60000, &m));
    message_free(&m);
    digitiser_send(&d, 40);
    cr_assert(receive_until(&s, "cbf.azimuth", "window", 2, 60000, &m));
    cr_expect_str_neq(text_of(m.head, "run"), run, "a new start has a new run id");
    cr_expect_geq(header_number(m.head, "sample_index"), 24 * FRAME);
    cr_expect_float_eq(peak_az(&m), 70, 1.0);
    message_free(&m);
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
}

/* ---- several digitisers ---------------------------------------------------------------------- */

Test(daemon, blocks_of_several_digitisers_make_one_array) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, "mvdr.azimuth");
    digitiser a = digitiser_open(rig.in, SENSORS, 0, 7, 100);
    digitiser b = digitiser_open(rig.in, SENSORS, 7, 9, 333);
    digitiser c = digitiser_open(rig.in, SENSORS, 16, 8, 1000);
    for (int i = 0; i < 10; i++) {
        digitiser_send(&a, 10);
        digitiser_send(&b, 3);
        digitiser_send(&c, 1);
    }
    message m;
    cr_assert(receive_until(&s, "mvdr.azimuth", "window", 7, 60000, &m));
    cr_expect_float_eq(peak_az(&m), 70, 1.0, "peak at %g", peak_az(&m));
    cr_expect_eq(header_number(m.head, "missing_share.worst"), 0);
    message_free(&m);
    digitiser_close(&a);
    digitiser_close(&b);
    digitiser_close(&c);
    unsubscribe(&s);
    rig_close(&rig);
}

/* ---- health ---------------------------------------------------------------------------------- */

/* Up to two digitisers with their own pace, until the status has the expected condition. */
typedef struct ward {
    rig rig;
    subscriber s;
    size_t digitisers;
    digitiser d[2];
    double speed[2]; /* 1: fs_hz */
    int64_t begun_ns;
    void (*spoil)(digitiser *); /* before each frame, or NULL */
} ward;

static int64_t utc_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static ward ward_open(uint32_t first, uint32_t second) {
    ward w = {.rig = rig_open("drop_oldest"), .speed = {1, 1}, .digitisers = second ? 2 : 1};
    w.s = subscribe(w.rig.out, "status", NULL);
    w.d[0] = digitiser_open(w.rig.in, SENSORS, 0, first, FRAME);
    if (second)
        w.d[1] = digitiser_open(w.rig.in, SENSORS, first, second, FRAME);
    message m;
    cr_assert(receive_until(&w.s, "status", "uptime_s", 0, 60000, &m), "no status came");
    message_free(&m);
    w.begun_ns = sonar_monotonic_ns();
    for (size_t i = 0; i < w.digitisers; i++)
        w.d[i].frame.utc_ns = utc_now_ns() - (int64_t)FRAME * 1000000000 / 8000;
    return w;
}

/* The frames that are due. */
static void ward_feed(ward *w) {
    for (size_t i = 0; i < w->digitisers; i++) {
        double due = (double)(sonar_monotonic_ns() - w->begun_ns) * 8e-6 * w->speed[i] / FRAME;
        while ((double)w->d[i].frame.sequence < due) {
            if (w->spoil)
                w->spoil(&w->d[i]);
            digitiser_send(&w->d[i], 1);
        }
    }
}

static const cJSON *condition_of(const message *m, const char *code) {
    const cJSON *c;
    cJSON_ArrayForEach(
        c, cJSON_GetObjectItemCaseSensitive(m->head, "conditions")) if (!strcmp(text_of(c, "code"),
                                                                                code)) return c;
    return NULL;
}

/* Feeds until a status has the condition (NULL: is ok and has none), and leaves it in *m. The bound
 * is for a hang alone: with ten busy threads a processor, 60 s were too few. */
static const cJSON *ward_await(ward *w, const char *code, message *m) {
    char last[400] = "no status";
    int64_t until_ns = sonar_monotonic_ns() + (int64_t)300 * 1000000000;
    while (sonar_monotonic_ns() < until_ns) {
        ward_feed(w);
        if (!receive(&w->s, m, 20))
            continue;
        const cJSON *found = code ? condition_of(m, code) : m->head;
        if (code ? found != NULL
                 : !strcmp(text_of(m->head, "health"), "ok") && !text_of(m->head, "text")[0])
            return found;
        snprintf(last, sizeof last, "%s: %s", text_of(m->head, "health"), text_of(m->head, "text"));
        message_free(m);
    }
    cr_assert_fail("no status with %s; the last one: %s", code ? code : "ok", last);
    return NULL;
}

static void ward_close(ward *w) {
    for (size_t i = 0; i < w->digitisers; i++)
        digitiser_close(&w->d[i]);
    unsubscribe(&w->s);
    rig_close(&w->rig);
}

/* True if the condition names exactly these channels (first < 0: any or none). */
static bool is_of(const cJSON *condition, int first, int last) {
    const cJSON *channels = cJSON_GetObjectItemCaseSensitive(condition, "channels");
    const cJSON *ranges = cJSON_GetObjectItemCaseSensitive(channels, "ranges");
    const cJSON *range = cJSON_GetArrayItem(ranges, 0);
    return first < 0 ||
           (cJSON_GetArraySize(ranges) == 1 && cJSON_GetArrayItem(range, 0)->valueint == first &&
            cJSON_GetArrayItem(range, 1)->valueint == last);
}

/* Feeds until the condition holds, and checks its severity, text and channels. If the machine
 * delays the test itself, an earlier status may name other channels. */
static void expect_condition(ward *w, const char *code, const char *words, int first, int last) {
    message m;
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)60 * 1000000000;
    const cJSON *c;
    while (!is_of(c = ward_await(w, code, &m), first, last)) {
        cr_assert(sonar_monotonic_ns() < until_ns, "'%s' is of other channels", text_of(c, "text"));
        message_free(&m);
    }
    cr_expect(strstr(text_of(c, "text"), words), "'%s' has no '%s'", text_of(c, "text"), words);
    cr_expect_str_eq(text_of(c, "severity"), "degraded");
    cr_expect_str_eq(text_of(m.head, "health"), "degraded");
    cr_expect(strstr(text_of(m.head, "text"), words), "'%s' has no '%s'", text_of(m.head, "text"),
              words);
    message_free(&m);
}

Test(daemon, a_sound_feed_is_ok_and_measured) {
    ward w = ward_open(SENSORS, 0);
    message m;
    do
        ward_await(&w, NULL, &m);
    while (isnan(header_number(m.head, "stream.rate_hz")) && (message_free(&m), true));
    cr_expect_float_eq(header_number(m.head, "stream.rate_hz"), 8000, 4000);
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItem(m.head, "conditions")), 0);
    message_free(&m);
    ward_close(&w);
}

Test(daemon, channels_that_are_never_fed_are_named) {
    ward w = ward_open(SENSORS - 2, 0);
    expect_condition(&w, "channels_unfed", "2 of 24 channels were never fed: 22-23", 22, 23);
    ward_close(&w);
}

Test(daemon, a_feed_at_another_rate_than_it_says_is_named) {
    ward w = ward_open(SENSORS, 0);
    w.speed[0] = 3;
    expect_condition(&w, "rate", "/s, fs_hz is 8000", 0, SENSORS - 1);
    ward_close(&w);
}

static void count_frames(digitiser *d) {
    d->frame.first_sample = d->frame.sequence;
}

Test(daemon, an_index_of_frames_is_named_and_that_no_window_comes) {
    ward w = ward_open(SENSORS, 0);
    w.spoil = count_frames;
    expect_condition(&w, "sample_index", "moves on by 1 for each frame of 256 samples", 0,
                     SENSORS - 1);
    message m;
    const cJSON *c = ward_await(&w, "windows_stalled", &m);
    cr_expect(strstr(text_of(c, "text"), "of the next window's 2048 samples have been received"),
              "%s", text_of(c, "text"));
    cr_expect_str_eq(
        text_of(cJSON_GetArrayItem(cJSON_GetObjectItem(m.head, "conditions"), 0), "code"),
        "sample_index", "the cause comes first");
    message_free(&m);
    ward_close(&w);
}

static void tell_microseconds(digitiser *d) {
    d->frame.utc_ns = utc_now_ns() / 1000;
}

Test(daemon, utc_in_microseconds_is_named) {
    ward w = ward_open(SENSORS, 0);
    w.spoil = tell_microseconds;
    expect_condition(&w, "clock_unit", "UTC seems to be in microseconds", 0, SENSORS - 1);
    ward_close(&w);
}

Test(daemon, a_clock_an_hour_off_is_named) {
    ward w = ward_open(SENSORS, 0);
    w.d[0].frame.utc_ns += (int64_t)3600 * 1000000000;
    expect_condition(&w, "clock_offset", "UTC is 1.00 h ahead of this machine's clock", 0,
                     SENSORS - 1);
    ward_close(&w);
}

Test(daemon, digitisers_with_clocks_apart_are_named) {
    ward w = ward_open(8, SENSORS - 8);
    w.d[1].frame.utc_ns = w.d[0].frame.utc_ns + (int64_t)5 * 1000000000;
    expect_condition(&w, "clock_skew", "UTC of channels 8-23 is 5.0 s ahead of that of channel 0",
                     8, 23);
    ward_close(&w);
}

Test(daemon, the_log_sums_up_what_was_lost) {
    ward w = ward_open(SENSORS, 0);
    message m;
    ward_await(&w, NULL, &m);
    message_free(&m);
    digitiser_skip(&w.d[0], 3);
    expect_condition(&w, "samples_missing", "of 24 of 24 channels: 0-23", 0, SENSORS - 1);
    char *log = box_read(&w.rig.box, "sonard.log");
    for (int i = 0; !strstr(log, " s degraded") && i < 60; i++) {
        free(log);
        ward_await(&w, NULL, &m);
        message_free(&m);
        log = box_read(&w.rig.box, "sonard.log");
    }
    cr_expect(strstr(log, "health: ok after "), "%s", log); /* longer on a busy machine */
    cr_expect(strstr(log, "; samples missing 18432"), "%s", log);
    free(log);
    ward_close(&w);
}

/* ---- determinism ----------------------------------------------------------------------------- */

enum { WINDOWS = 12 };

/* Bytes of WINDOWS messages of a topic, one after another. */
static size_t collect(const char *topic, uint8_t *to, size_t room) {
    rig rig = rig_open("block");
    subscriber s = listen_to(&rig, topic);
    digitiser d = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    digitiser_send(&d, (WINDOWS - 1) * HOP / FRAME + LENGTH / FRAME);
    size_t used = 0;
    for (int w = 0; w < WINDOWS; w++) {
        message m;
        cr_assert(receive_until(&s, topic, "window", w, 60000, &m));
        cr_assert_eq(header_number(m.head, "window"), w);
        cr_assert_leq(used + m.bytes, room);
        memcpy(to + used, m.data, m.bytes);
        used += m.bytes;
        message_free(&m);
    }
    digitiser_close(&d);
    unsubscribe(&s);
    rig_close(&rig);
    return used;
}

static void compare_runs(const char *topic) {
    static uint8_t one[16 << 20], two[16 << 20];
    size_t first = collect(topic, one, sizeof one), second = collect(topic, two, sizeof two);
    cr_assert_gt(first, 0);
    cr_assert_eq(first, second);
    cr_expect_eq(memcmp(one, two, first), 0, "%s differs between two runs", topic);
}

Test(daemon, two_runs_give_the_same_bytes_of_cbf) {
    compare_runs("cbf.lofar");
}
Test(daemon, two_runs_give_the_same_bytes_of_near_field) {
    compare_runs("cbf.nearfield");
}
Test(daemon, two_runs_give_the_same_bytes_of_mvdr) {
    compare_runs("mvdr.spectrum");
}
Test(daemon, two_runs_give_the_same_bytes_of_the_adaptive_near_field) {
    compare_runs("mvdr.nearfield");
}
