/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Recordings by the whole daemon: playing them gives the messages published live, byte for byte,
 * with all losses; and recordings that are killed, have no room, are too large, too old, or are
 * started and stopped. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "digitiser.h"
#include "process.h"
#include "record/record.h"
#include "record/segment.h"
#include "recording.h"

enum { SENSORS = 12, LENGTH = 512, HOP = 256, FS = 8000, FRAME = 128, FILES_MOST = 64 };

/* ---- the rig --------------------------------------------------------------------------------- */

typedef struct rig {
    box box;
    char in[128], out[128], control[128], folder[128];
    pid_t daemon;
    void *context, *socket; /* SUB */
} rig;

static rig rig_make(void) {
    rig rig = {.box = box_open()};
    snprintf(rig.in, sizeof rig.in, "ipc://%s/in", rig.box.dir);
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    snprintf(rig.control, sizeof rig.control, "ipc://%s/control", rig.box.dir);
    snprintf(rig.folder, sizeof rig.folder, "%s/rec", rig.box.dir);
    mkdir(rig.folder, 0700);
    rig.context = zmq_ctx_new();
    return rig;
}

/* record: the group's content, or NULL. The high-water mark exceeds all messages: with libzmq 4.3.4
 * messages that an ipc peer could not send because of it are lost when the peer leaves. */
static void configure(const rig *rig, const char *ingest, const char *record) {
    char group[512] = "";
    if (record)
        snprintf(group, sizeof group, "record: {directory: %s, free_mib: 0, %s}\n", rig->folder,
                 record);
    box_write(&rig->box, "sonard.yaml",
              "schema: 1\n"
              "array: {id: 1, name: \"bow \\\"line\\\"/3\", geometry: {line: {sensors: %d, "
              "spacing_m: 0.75}}, gain_db: 20, heading_deg: 30}\n"
              "sound_speed_mps: 1500\nfs_hz: %d\n"
              "ingest: {endpoints: [\"%s\"], overload: block, high_water_mark: 100000, "
              "max_missing_share: 0.6, %s}\n"
              "dft: {length: %d, hop: %d}\ncbf: {band_hz: [600, 950]}\n"
              "mvdr: {band_hz: [600, 950], snapshots: 24}\n"
              "output: {endpoint: \"%s\", high_water_mark: 100000, queue_results: 64}\n"
              "control: {endpoint: \"%s\"}\n%sruntime: {backend: cpu, threads: 1}\n",
              SENSORS, FS, rig->in, ingest, LENGTH, HOP, rig->out, rig->control, group);
}

static void *listen_to(const rig *rig, const char *const *topic) {
    const int most = 0, zero = 0;
    void *socket = zmq_socket(rig->context, ZMQ_SUB);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &most, sizeof most);
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    for (; *topic; topic++)
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, *topic, strlen(*topic));
    cr_assert_eq(zmq_connect(socket, rig->out), 0);
    return socket;
}

/* Waits until the client is ready and known to the daemon: its status was received. */
static void rig_start(rig *rig, const char *const *topic) {
    rig->daemon =
        process_start(&rig->box, "sonard.log", "sonard", box_path(&rig->box, "sonard.yaml"), NULL);
    rig->socket = listen_to(rig, topic);
    subscriber s = {rig->context, rig->socket};
    message m;
    bool came = receive_ready(&s, topic[0], &m);
    char *log = box_read(&rig->box, "sonard.log");
    cr_assert(came, "no status came: %s", log);
    free(log);
    message_free(&m);
}

static void rig_stop(rig *rig) {
    zmq_close(rig->socket);
    kill(rig->daemon, SIGTERM);
    cr_expect_eq(process_wait(rig->daemon, 60000), 0);
}

static void rig_free(rig *rig) {
    char command[200];
    zmq_ctx_term(rig->context);
    snprintf(command, sizeof command, "rm -rf %s", rig->folder);
    cr_expect_eq(system(command), 0);
    box_close(&rig->box);
}

static void run(rig *rig, const char *log, const char *program, const char *const *args) {
    const char *a[12] = {0};
    for (int i = 0; args[i]; i++)
        a[i] = args[i];
    pid_t pid = process_start(&rig->box, log, program, a[0], a[1], a[2], a[3], a[4], a[5], a[6],
                              a[7], a[8], a[9], a[10], a[11], NULL);
    int status = process_wait(pid, 60000);
    char *text = box_read(&rig->box, log);
    cr_assert_eq(status, 0, "%s left with %d: %s", program, status, text);
    free(text);
}

/* ---- files ----------------------------------------------------------------------------------- */

typedef struct files {
    int count;
    char *path[FILES_MOST + 1];
} files;

static int by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static files files_with(const rig *rig, const char *ending) {
    files f = {0};
    DIR *dir = opendir(rig->folder);
    for (struct dirent *entry; (entry = readdir(dir)) && f.count < FILES_MOST;) {
        const size_t n = strlen(entry->d_name), e = strlen(ending);
        if (n > e && !strcmp(entry->d_name + n - e, ending))
            cr_assert(asprintf(&f.path[f.count++], "%s/%s", rig->folder, entry->d_name) > 0);
    }
    closedir(dir);
    qsort(f.path, (size_t)f.count, sizeof *f.path, by_name);
    return f;
}

static void files_free(files *f) {
    for (int i = 0; i < f->count; i++)
        free(f->path[i]);
}

/* ---- what was published ---------------------------------------------------------------------- */

typedef struct said {
    char *topic, *head;
    void *body;
    size_t bytes;
    double sample, utc_ns;
} said;

typedef struct book {
    size_t count, room;
    said *said;
} book;

static char *part_text(void *socket) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    cr_assert_geq(zmq_msg_recv(&part, socket, 0), 0);
    char *text = strndup(zmq_msg_data(&part), zmq_msg_size(&part));
    zmq_msg_close(&part);
    return text;
}

/* One message, but not of `status`, into the book; false: none in time. */
static bool note(book *b, void *socket, int timeout_ms) {
    zmq_pollitem_t item = {.socket = socket, .events = ZMQ_POLLIN};
    zmq_msg_t part;
    if (zmq_poll(&item, 1, timeout_ms) <= 0)
        return false;
    said s = {.topic = part_text(socket)};
    s.head = part_text(socket);
    zmq_msg_init(&part);
    cr_assert_geq(zmq_msg_recv(&part, socket, 0), 0);
    s.bytes = zmq_msg_size(&part);
    s.body = malloc(s.bytes + 1);
    memcpy(s.body, zmq_msg_data(&part), s.bytes);
    zmq_msg_close(&part);
    cJSON *head = cJSON_Parse(s.head);
    s.sample = header_number(head, "sample_index");
    s.utc_ns = header_number(head, "utc_ns");
    cJSON_Delete(head);
    if (b->count == b->room)
        b->said = realloc(b->said, (b->room = 2 * b->room + 64) * sizeof *b->said);
    b->said[b->count++] = s;
    return true;
}

static void book_free(book *b) {
    for (size_t i = 0; i < b->count; i++) {
        free(b->said[i].topic);
        free(b->said[i].head);
        free(b->said[i].body);
    }
    free(b->said);
}

/* The header without fields that differ in each run. */
static char *plain_head(const char *text) {
    cJSON *head = cJSON_Parse(text);
    cr_assert(head, "%s", text);
    static const char *const own[] = {"run", "latency_us", "config_version", "seq"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(head, own[i]);
    char *plain = cJSON_PrintUnformatted(head);
    cJSON_Delete(head);
    return plain;
}

static void expect_same(const book *live, const book *played) {
    size_t wrong = 0;
    cr_expect_eq(live->count, played->count, "%zu messages live, %zu played", live->count,
                 played->count);
    for (size_t i = 0; i < live->count && i < played->count && wrong < 3; i++) {
        const said *a = &live->said[i], *b = &played->said[i];
        char *x = plain_head(a->head), *y = plain_head(b->head);
        const bool same = !strcmp(a->topic, b->topic) && a->bytes == b->bytes &&
                          !memcmp(a->body, b->body, a->bytes) && !strcmp(x, y);
        cr_expect(same, "message %zu:\n%s %s\n%s %s\narrays %s", i, a->topic, x, b->topic, y,
                  a->bytes == b->bytes && !memcmp(a->body, b->body, a->bytes) ? "equal" : "differ");
        wrong += !same;
        free(x);
        free(y);
    }
}

static const char *const every_topic[] = {"cbf.",       "mvdr.",  "element.",
                                          "detections", "status", NULL};

/* ---- raw ------------------------------------------------------------------------------------- */

static void write_scene(const rig *rig, const char *rest) {
    box_write(&rig->box, "scene.yaml",
              "schema: 1\nseed: 5\nframe_samples: %d\nambient: {level_db: 70}\n"
              "sources:\n  - {name: ship, far: {az_deg: 70, rate_deg_s: 2}, broadband: "
              "{spectrum: white, band_hz: [500, 1000], level_db: 90}}\n%s",
              FRAME, rest);
}

/* Receives all messages until four statuses that were made after the call came in a row without any
 * other; statuses are left out. Earlier statuses do not count: they wait in the socket while a
 * sender has not begun. */
static book collect_windows(rig *rig) {
    book b = {0};
    const double called_ns = (double)sonar_utc_ns();
    for (int quiet = 0; quiet < 4;) {
        cr_assert(note(&b, rig->socket, 60000));
        said *last = &b.said[b.count - 1];
        const bool status = !strcmp(last->topic, "status");
        quiet = !status ? 0 : quiet + (last->utc_ns >= called_ns);
        if (!status)
            continue;
        free(last->topic);
        free(last->head);
        free(last->body);
        b.count--;
    }
    return b;
}

static book run_live(rig *rig, const char *ingest, const char *record, const char *duration) {
    configure(rig, ingest, record);
    rig_start(rig, every_topic);
    run(rig, "sim.log", "sonar-sim",
        (const char *const[]){"--config", box_path(&rig->box, "sonard.yaml"), "--scene",
                              box_path(&rig->box, "scene.yaml"), "--rate", "max", "--duration",
                              duration, "--epoch", "7", NULL});
    book b = collect_windows(rig);
    rig_stop(rig);
    return b;
}

static book run_replay(rig *rig, const char *ingest, files *f, const char *epoch) {
    configure(rig, ingest, NULL);
    rig_start(rig, every_topic);
    const char *args[12] = {
        "--config", box_path(&rig->box, "sonard.yaml"), "--rate", "max", "--epoch", epoch};
    cr_assert_lt(f->count, 5);
    for (int i = 0; i < f->count; i++)
        args[6 + i] = f->path[i];
    run(rig, "replay.log", "sonar-replay", args);
    book b = collect_windows(rig);
    rig_stop(rig);
    return b;
}

/* Live, then from the recording: all messages are the same. */
static void expect_equal_replay(const char *scene, const char *ingest, const char *duration,
                                int least_segments) {
    rig rig = rig_make();
    write_scene(&rig, scene);
    book live = run_live(&rig, ingest, "what: raw, segment_mib: 1, buffer_mib: 64", duration);
    files f = files_with(&rig, ".sigmf-meta");
    cr_assert_geq(f.count, least_segments);
    book played = run_replay(&rig, ingest, &f, "7");
    cr_expect_gt(live.count, 200);
    expect_same(&live, &played);
    book_free(&live);
    book_free(&played);
    files_free(&f);
    rig_free(&rig);
}

Test(record, replayed_spectra_equal_the_live_ones) {
    expect_equal_replay("", "max_skew_ms: 200", "8", 3);
}

Test(record, losses_of_several_digitisers_are_replayed) {
    expect_equal_replay("digitisers: 3\nfault_rates: {drop: 0.05, repeat: 0.02, reorder: 0.02, "
                        "corrupt: 0.01}\n",
                        "max_skew_ms: 400", "5", 1);
}

/* One digitiser's frames come in order, so that no window has to wait for missing samples. One that
 * waited at the restart would be lost, or not, by the time between two frames. */
Test(record, a_restart_of_the_digitiser_is_replayed) {
    expect_equal_replay("fault_rates: {drop: 0.03}\n"
                        "faults:\n  - {kind: restart, frame: 101}\n"
                        "  - {kind: drop, frame: 55, count: 6}\n"
                        "  - {kind: drop, frame: 150, count: 100}\n",
                        "max_skew_ms: 0", "5", 1);
}

/* ---- a feed of our own ----------------------------------------------------------------------- */

static const char *const windows_only[] = {"cbf.azimuth", "status", NULL};

static digitiser feed_of(const rig *rig) {
    digitiser d = digitiser_open(rig->in, SENSORS, 0, SENSORS, FRAME);
    d.frame.fs_hz = FS;
    return d;
}

/* The header of the newest status, once `path` is at least `value`. */
static cJSON *status_with(rig *rig, const char *path, double value) {
    subscriber s = {rig->context, rig->socket};
    message m;
    cr_assert(receive_until(&s, "status", path, value, 60000, &m), "%s never came to %g", path,
              value);
    cJSON *head = m.head;
    m.head = NULL;
    message_free(&m);
    return head;
}

/* Waits until the status reports whether the recorder records. */
static void await_recording(rig *rig, bool on) {
    bool is = !on;
    for (int i = 0; i < 60 && is != on; i++) {
        cJSON *head = status_with(rig, "record.on", 0);
        is = header_number(head, "record.on") > 0;
        cJSON_Delete(head);
    }
    cr_assert_eq(is, on, "the recorder does not say so");
}

/* Waits until all that is filled is written: the daemon does not stop later for a slow disk. */
static void await_disk(rig *rig) {
    double waiting = 1;
    for (int i = 0; i < 60 && waiting > 0; i++) {
        cJSON *head = status_with(rig, "record.waiting", 0);
        waiting = header_number(head, "record.waiting");
        cJSON_Delete(head);
    }
    cr_assert_eq(waiting, 0, "the disk does not take it");
}

static void expect_number(const cJSON *head, const char *path, double want) {
    cr_expect_eq(header_number(head, path), want, "%s is %g, not %g", path,
                 header_number(head, path), want);
}

typedef struct recorded {
    uint64_t samples, index; /* of each channel; of the first one */
    size_t captures;
} recorded;

/* Every sample equals the digitiser's for its channel and index. */
static recorded expect_as_sent(const rig *rig, const char *path) {
    sim_recording *recording;
    sonar_error err = {0};
    cr_assert_eq(sim_recording_open(path, &recording, &err), SONAR_OK, "%s: %s", err.where,
                 err.text);
    const sim_recording_info *info = sim_recording_about(recording);
    cr_assert_eq(info->channels, SENSORS);
    float *have = malloc(SENSORS * info->frames * sizeof *have), want[FRAME * SENSORS];
    cr_assert_eq(sim_recording_read(recording, 0, info->frames, have, &err), SONAR_OK);
    digitiser d = feed_of(rig);
    const recorded r = {info->frames, info->capture[0].index, info->captures};
    uint64_t wrong = 0, made = UINT64_MAX;
    for (uint64_t at = 0, c = 0; at < r.samples; at++) {
        c += c + 1 < info->captures && info->capture[c + 1].start <= at;
        const uint64_t index = info->capture[c].index + at - info->capture[c].start;
        if (index / FRAME != made) {
            d.frame.sequence = made = index / FRAME;
            d.frame.first_sample = made * FRAME;
            digitiser_fill(&d, want);
        }
        for (size_t k = 0; k < SENSORS; k++)
            wrong += want[index % FRAME * SENSORS + k] != have[k * r.samples + at];
    }
    cr_expect_eq(wrong, 0, "%llu counts are not those sent", (unsigned long long)wrong);
    digitiser_close(&d);
    free(have);
    sim_recording_close(recording);
    return r;
}

static void expect_counts(const rig *rig, const char *path, uint64_t least) {
    const recorded r = expect_as_sent(rig, path);
    cr_expect_geq(r.samples, least, "%llu samples", (unsigned long long)r.samples);
}

/* ---- what happens to recordings -------------------------------------------------------------- */

Test(record, what_came_a_second_before_a_kill_is_there) {
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 16");
    rig_start(&rig, windows_only);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, 20);
    cJSON_Delete(status_with(&rig, "windows.processed", 20 * FRAME / HOP - 1));
    nanosleep(&(struct timespec){1, 0}, NULL);
    kill(rig.daemon, SIGKILL);
    process_wait(rig.daemon, 60000);
    files f = files_with(&rig, ".sigmf-meta");
    cr_assert_eq(f.count, 1);
    expect_counts(&rig, f.path[0], 20 * FRAME);
    files_free(&f);
    digitiser_close(&d);
    zmq_close(rig.socket);
    rig_free(&rig);
}

/* Preloads still_disk.c and own_clock.c of plugins/ into the daemon. The disk with the folder of
 * recordings hangs while the file rec.held exists, is slow while rec.slow exists, and cannot be
 * written to while rec.readonly exists. UTC is ahead by the seconds in the file clock. */
static void rig_start_behind(rig *rig) {
    setenv("STILL_DISK", rig->folder, 1);
    setenv("OWN_CLOCK", box_path(&rig->box, "clock"), 1);
    setenv("LD_PRELOAD", SONAR_PLUGIN_DIR "/still_disk.so:" SONAR_PLUGIN_DIR "/own_clock.so", 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    rig_start(rig, windows_only);
    unsetenv("LD_PRELOAD");
    unsetenv("ASAN_OPTIONS");
}

static bool has_condition(const cJSON *head, const char *name) {
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(head, "conditions")) {
        const cJSON *code = cJSON_GetObjectItemCaseSensitive(item, "code");
        if (cJSON_IsString(code) && !strcmp(code->valuestring, name))
            return true;
    }
    return false;
}

/* The answer of `sonarctl record` while samples come, or without them (NULL). */
static void expect_answer(rig *rig, digitiser *d, const char *action, int status,
                          const char *words) {
    pid_t pid =
        process_start(&rig->box, "ctl.log", "sonarctl", "-e", rig->control, "record", action, NULL);
    while (d && process_running(pid)) {
        digitiser_send(d, 1);
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
    cr_expect_eq(process_wait(pid, 60000), status);
    char *log = box_read(&rig->box, "ctl.log");
    cr_expect(strstr(log, words), "%s", log);
    free(log);
}

/* Every window is processed while the disk hangs; samples without room in the memory are counted
 * exactly, and when the disk resumes, so does the recording. */
Test(record, a_disk_that_stands_still_costs_samples_and_no_window) {
    enum { BEFORE = 40, DURING = 600, AFTER = 40 };
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 1");
    rig_start_behind(&rig);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, BEFORE);
    cJSON_Delete(status_with(&rig, "record.bytes", 1));
    box_write(&rig.box, "rec.held", "held");
    digitiser_send(&d, DURING);
    cJSON *head = status_with(&rig, "record.dropped.slow", 1);
    const double written = header_number(head, "record.bytes");
    cr_expect(has_condition(head, "recording_gaps"));
    cJSON_Delete(head);
    head = status_with(&rig, "windows.processed", (BEFORE + DURING) * FRAME / HOP - 1);
    expect_number(head, "record.on", 1);
    expect_number(head, "record.bytes", written);
    cJSON_Delete(head);
    unlink(box_path(&rig.box, "rec.held"));
    cJSON_Delete(status_with(&rig, "record.bytes", written + (1 << 19)));
    digitiser_send(&d, AFTER);
    head = status_with(&rig, "windows.processed", (BEFORE + DURING + AFTER) * FRAME / HOP - 1);
    const double lost = header_number(head, "record.dropped.slow");
    expect_number(head, "windows.dropped.overload", 0);
    expect_number(head, "record.dropped.failed", 0);
    cJSON_Delete(head);
    rig_stop(&rig);
    files f = files_with(&rig, ".sigmf-meta");
    cr_assert_eq(f.count, 1);
    const recorded r = expect_as_sent(&rig, f.path[0]);
    cr_expect_gt(r.captures, 1, "the loss is no gap");
    cr_expect_eq((double)r.samples + lost, (BEFORE + DURING + AFTER) * FRAME, "%g kept, %g lost",
                 (double)r.samples, lost);
    files_free(&f);
    digitiser_close(&d);
    rig_free(&rig);
}

/* A daemon that is asked to stop does not wait for the disk, even if the clock is set. */
static void leave_a_still_disk(const char *ahead_s) {
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 1");
    box_write(&rig.box, "clock", "%s", ahead_s);
    rig_start_behind(&rig);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, 40);
    cJSON_Delete(status_with(&rig, "record.bytes", 1));
    box_write(&rig.box, "rec.held", "held");
    digitiser_send(&d, 400);
    cJSON_Delete(status_with(&rig, "windows.processed", 440 * FRAME / HOP - 1));
    rig_stop(&rig);
    char *log = box_read(&rig.box, "sonard.log");
    cr_expect(strstr(log, "the disk does not answer"), "%s", log);
    free(log);
    digitiser_close(&d);
    unlink(box_path(&rig.box, "rec.held"));
    rig_free(&rig);
}

Test(record, a_disk_that_stands_still_keeps_no_one_from_leaving) {
    leave_a_still_disk("0");
}
/* The kernel waits by its own clock: for it that of the daemon is set back by an hour. */
Test(record, nor_does_one_whose_clock_is_set_back_meanwhile) {
    leave_a_still_disk("3600");
}

/* A disk that takes less than there is: all windows come, and each sample is on it or counted. */
Test(record, a_disk_that_is_too_slow_costs_samples_and_no_window) {
    enum { FRAMES = 900 };
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 1");
    rig_start_behind(&rig);
    box_write(&rig.box, "rec.slow", "slow");
    digitiser d = feed_of(&rig);
    digitiser_send(&d, FRAMES);
    cJSON *head = status_with(&rig, "windows.processed", FRAMES * FRAME / HOP - 1);
    expect_number(head, "windows.dropped.overload", 0);
    expect_number(head, "record.on", 1);
    cJSON_Delete(head);
    unlink(box_path(&rig.box, "rec.slow"));
    head = status_with(&rig, "record.dropped.slow", 1);
    const double lost = header_number(head, "record.dropped.slow");
    expect_number(head, "record.dropped.failed", 0);
    cJSON_Delete(head);
    rig_stop(&rig);
    files f = files_with(&rig, ".sigmf-meta");
    cr_assert_eq(f.count, 1);
    const recorded r = expect_as_sent(&rig, f.path[0]);
    cr_expect_eq((double)r.samples + lost, FRAMES * FRAME, "%g kept, %g lost", (double)r.samples,
                 lost);
    files_free(&f);
    digitiser_close(&d);
    rig_free(&rig);
}

/* A file system with errors is often remounted read-only while in use. Written data stay intact,
 * and a command starts recording again when the disk works. */
Test(record, a_disk_that_cannot_be_written_to_stops_the_recording_alone) {
    static const char *const kind[] = {"raw", "spectra"};
    for (int i = 0; i < 2; i++) {
        rig rig = rig_make();
        char record[64];
        snprintf(record, sizeof record, "what: %s, buffer_mib: 16", kind[i]);
        configure(&rig, "max_skew_ms: 200", record);
        rig_start_behind(&rig);
        digitiser d = feed_of(&rig);
        digitiser_send(&d, 100);
        cJSON_Delete(status_with(&rig, "record.bytes", 1));
        box_write(&rig.box, "rec.readonly", "readonly");
        digitiser_send(&d, 100);
        cJSON *head = status_with(&rig, "record.stopped", 1);
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(head, "text");
        cr_expect(strstr(text->valuestring, "Read-only file system"), "%s", text->valuestring);
        cJSON_Delete(head);
        expect_answer(&rig, &d, "start", 1, "Read-only file system");
        unlink(box_path(&rig.box, "rec.readonly"));
        expect_answer(&rig, &d, "start", 0, "recording to ");
        head = status_with(&rig, "windows.processed", (double)(d.frame.first_sample / HOP - 1));
        expect_number(head, "windows.dropped.overload", 0);
        expect_number(head, "record.on", 1);
        cJSON_Delete(head);
        rig_stop(&rig);
        files f = files_with(&rig, i ? ".sonar-index" : ".sigmf-meta");
        cr_expect_eq(f.count, 2);
        for (int k = 0; !i && k < f.count; k++)
            expect_as_sent(&rig, f.path[k]);
        files_free(&f);
        digitiser_close(&d);
        rig_free(&rig);
    }
}

/* 1 MiB a file, set from outside: the write that passes it fails as on a full disk. */
Test(record, a_full_disk_stops_the_recording_alone) {
    enum { FRAMES = 300 };
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 16");
    struct rlimit before, small;
    cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){1 << 20, before.rlim_max};
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    rig_start(&rig, windows_only);
    setrlimit(RLIMIT_FSIZE, &before);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, FRAMES);
    cJSON *head = status_with(&rig, "windows.processed", FRAMES * FRAME / HOP - 1);
    cJSON_Delete(head);
    head = status_with(&rig, "record.stopped", 1);
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(head, "text");
    cr_expect(strstr(text->valuestring, "recording has stopped"), "%s", text->valuestring);
    expect_number(head, "record.on", 0);
    expect_number(head, "windows.processed", FRAMES * FRAME / HOP - 1);
    expect_number(head, "windows.dropped.overload", 0);
    cJSON_Delete(head);
    rig_stop(&rig);
    files f = files_with(&rig, ".sigmf-meta");
    cr_assert_eq(f.count, 1);
    expect_counts(&rig, f.path[0], (1 << 20) / (SENSORS * 4) - 6000);
    struct stat file;
    strcpy(strstr(f.path[0], ".sigmf-meta"), ".sigmf-data");
    cr_assert_eq(stat(f.path[0], &file), 0);
    cr_expect_eq(file.st_size % (SENSORS * 4), 0, "the file ends within a sample");
    files_free(&f);
    digitiser_close(&d);
    rig_free(&rig);
}

/* For example by a cleanup job: later data would be in no folder. */
Test(record, a_file_that_is_deleted_meanwhile_is_reported) {
    static const char *const kind[] = {"raw", "spectra"}, *const ending[] = {".sigmf-data",
                                                                             ".sonar-spectra"};
    for (int i = 0; i < 2; i++) {
        rig rig = rig_make();
        char record[64];
        snprintf(record, sizeof record, "what: %s, buffer_mib: 16", kind[i]);
        configure(&rig, "max_skew_ms: 200", record);
        rig_start(&rig, windows_only);
        digitiser d = feed_of(&rig);
        digitiser_send(&d, 20);
        cJSON_Delete(status_with(&rig, "record.bytes", 1));
        files f = files_with(&rig, ending[i]);
        cr_assert_eq(f.count, 1);
        cr_assert_eq(unlink(f.path[0]), 0);
        files_free(&f);
        digitiser_send(&d, 20);
        cJSON *head = status_with(&rig, "record.stopped", 1);
        const cJSON *text = cJSON_GetObjectItemCaseSensitive(head, "text");
        cr_expect(strstr(text->valuestring, "was deleted while it was being written"), "%s",
                  text->valuestring);
        expect_number(head, "record.on", 0);
        cJSON_Delete(head);
        rig_stop(&rig);
        digitiser_close(&d);
        rig_free(&rig);
    }
}

Test(record, a_folder_that_was_made_again_is_recorded_to) {
    rig rig = rig_make();
    char command[300];
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 16");
    rig_start(&rig, windows_only);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, 20);
    cJSON_Delete(status_with(&rig, "record.bytes", 1));
    snprintf(command, sizeof command, "rm -rf %s && mkdir %s", rig.folder, rig.folder);
    cr_assert_eq(system(command), 0);
    digitiser_send(&d, 20);
    cJSON_Delete(status_with(&rig, "record.stopped", 1));
    run(&rig, "ctl.log", "sonarctl",
        (const char *const[]){"-e", rig.control, "record", "start", NULL});
    digitiser_send(&d, 20);
    cJSON *head = status_with(&rig, "record.segments", 2);
    expect_number(head, "record.stopped", 1);
    cJSON_Delete(head);
    rig_stop(&rig);
    files f = files_with(&rig, ".sigmf-data");
    cr_expect_eq(f.count, 1);
    files_free(&f);
    digitiser_close(&d);
    rig_free(&rig);
}

Test(record, too_little_room_is_reported_and_a_command_restarts_it) {
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 16");
    char *text = box_read(&rig.box, "sonard.yaml"), *at = strstr(text, "free_mib: 0");
    box_write(&rig.box, "sonard.yaml", "%.*sfree_mib: 1073741824%s", (int)(at - text), text,
              at + strlen("free_mib: 0"));
    free(text);
    rig_start(&rig, windows_only);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, 20);
    cJSON *head = status_with(&rig, "record.stopped", 1);
    const cJSON *why = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(head, "record"), "why_not");
    cr_expect(strstr(why->valuestring, "record.free_mib"), "%s", why->valuestring);
    cJSON_Delete(head);
    expect_answer(&rig, &d, "start", 1, "sonarctl: record: the disk has ");
    cJSON_Delete(status_with(&rig, "record.stopped", 2));
    rig_stop(&rig);
    digitiser_close(&d);
    rig_free(&rig);
}

Test(record, the_command_answers_with_the_file) {
    rig rig = rig_make();
    char words[200];
    configure(&rig, "max_skew_ms: 200, silent_after_ms: 500", "what: raw, at_start: false");
    rig_start(&rig, windows_only);
    digitiser d = feed_of(&rig);
    expect_answer(&rig, NULL, "start", 0, "as soon as samples arrive; there are none now");
    snprintf(words, sizeof words, "recording to %s/bow__line__3-20", rig.folder);
    expect_answer(&rig, &d, "start", 0, words);
    expect_answer(&rig, &d, "stop", 0, "recording has stopped");
    rig_stop(&rig);
    digitiser_close(&d);
    rig_free(&rig);
}

Test(record, segments_follow_each_other_and_the_oldest_go) {
    enum { FRAMES = 900 };
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 16, segment_mib: 1, keep_mib: 2");
    box_write(&rig.box, "rec/bow__line__3-mine.sigmf-data", "mine");
    box_write(&rig.box, "rec/other-20200102T030405.678Z.sigmf-data", "another array's");
    box_write(&rig.box, "rec/bow__line__3-20200102T030405.678Z.sigmf-data", "old");
    box_write(&rig.box, "rec/bow__line__3-20200102T030405.678Z.sigmf-meta", "old");
    rig_start(&rig, windows_only);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, FRAMES);
    cJSON *head = status_with(&rig, "windows.processed", FRAMES * FRAME / HOP - 1);
    cJSON_Delete(head);
    await_disk(&rig);
    rig_stop(&rig);
    cr_expect_eq(access(box_path(&rig.box, "rec/bow__line__3-mine.sigmf-data"), F_OK), 0);
    cr_expect_eq(access(box_path(&rig.box, "rec/other-20200102T030405.678Z.sigmf-data"), F_OK), 0);
    cr_expect_neq(
        access(box_path(&rig.box, "rec/bow__line__3-20200102T030405.678Z.sigmf-data"), F_OK), 0,
        "the oldest is still there");
    cr_expect_neq(
        access(box_path(&rig.box, "rec/bow__line__3-20200102T030405.678Z.sigmf-meta"), F_OK), 0,
        "its metadata are still there");
    files f = files_with(&rig, ".sigmf-meta");
    cr_expect(f.count >= 2 && f.count <= 4, "%d segments", f.count);
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < f.count; i++) {
        const recorded r = expect_as_sent(&rig, f.path[i]);
        cr_expect(next == UINT64_MAX || r.index == next, "segment %d begins at %llu, not %llu", i,
                  (unsigned long long)r.index, (unsigned long long)next);
        next = r.index + r.samples;
    }
    cr_expect_eq(next, FRAMES * FRAME, "the end is missing");
    files_free(&f);
    digitiser_close(&d);
    rig_free(&rig);
}

/* The kept segments are the end of the stream, without a gap, and as much as permitted. */
static void expect_the_newest(const rig *rig, uint64_t frames, uint64_t least_bytes) {
    files f = files_with(rig, ".sigmf-meta");
    uint64_t begin = UINT64_MAX, end = 0, samples = 0;
    for (int i = 0; i < f.count; i++) {
        const recorded r = expect_as_sent(rig, f.path[i]);
        begin = r.index < begin ? r.index : begin;
        end = r.index + r.samples > end ? r.index + r.samples : end;
        samples += r.samples;
    }
    cr_expect_eq(end, frames * FRAME, "the end is missing: %llu", (unsigned long long)end);
    cr_expect_eq(samples, end - begin, "there is a hole");
    cr_expect_geq(samples * SENSORS * sizeof(float), least_bytes);
    files_free(&f);
}

/* The clock is 70 years ahead, is set right meanwhile, and is 50 years behind after the next start:
 * names jump forth and back, and the segments written first are deleted first. */
Test(record, the_oldest_go_whatever_the_clock_says) {
    enum { FRAMES = 450 };
    const long long year_s = 31556952;
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 16, segment_mib: 1, keep_mib: 2");
    box_write(&rig.box, "clock", "%lld", 70 * year_s);
    rig_start_behind(&rig);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, FRAMES);
    cJSON_Delete(status_with(&rig, "windows.processed", FRAMES * FRAME / HOP - 1));
    box_write(&rig.box, "clock", "0");
    digitiser_send(&d, FRAMES);
    cJSON_Delete(status_with(&rig, "windows.processed", 2 * FRAMES * FRAME / HOP - 1));
    await_disk(&rig);
    rig_stop(&rig);
    expect_the_newest(&rig, 2 * FRAMES, 1 << 20);
    box_write(&rig.box, "clock", "%lld", -50 * year_s);
    rig_start_behind(&rig);
    cJSON *head = status_with(&rig, "uptime_s", 0);
    digitiser_send(&d, FRAMES);
    cJSON_Delete(head);
    head = status_with(&rig, "windows.processed", FRAMES * FRAME / HOP - 1);
    cJSON_Delete(head);
    await_disk(&rig);
    rig_stop(&rig);
    expect_the_newest(&rig, 3 * FRAMES, 1 << 20);
    digitiser_close(&d);
    rig_free(&rig);
}

/* A segment of 1000 bytes. */
static void place_segment(const rig *rig, const char *stem) {
    char name[200], bytes[1001];
    memset(bytes, 'x', 1000);
    bytes[1000] = '\0';
    snprintf(name, sizeof name, "rec/%s.sigmf-data", stem);
    box_write(&rig->box, name, "%s", bytes);
}

static bool is_there(const rig *rig, const char *stem) {
    char name[200];
    snprintf(name, sizeof name, "rec/%s.sigmf-data", stem);
    return access(box_path(&rig->box, name), F_OK) == 0;
}

/* The list has the order; segments not on it, such as copies, count as older, names in the future
 * first.
 */
Test(record, the_order_of_writing_is_kept_beside_the_segments) {
    static const char *const by_age[] = {"a-20960101T000000.000Z", /* not on the list */
                                         "a-20200101T000000.000Z", "a-20210101T000000.000Z",
                                         "a-20980101T000000.000Z", /* on the list */
                                         "a-19700101T000000.000Z", "a-20970101T000000.000Z",
                                         "a-20220101T000000.000Z"};
    enum { SEGMENTS = sizeof by_age / sizeof *by_age, LISTED = 3 };
    rig rig = rig_make();
    const int folder = open(rig.folder, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < SEGMENTS; i++)
        place_segment(&rig, by_age[i]);
    for (int i = LISTED; i < SEGMENTS; i++)
        sonar_order_note(folder, "a", by_age[i]);
    for (int gone = 0; gone < SEGMENTS - 1; gone++) {
        const sonar_kept kept = sonar_keep(folder, "a", by_age[SEGMENTS - 1],
                                           (SEGMENTS - 1 - (uint64_t)gone) * 1000, 0);
        cr_expect_eq(kept.deleted, gone > 0, "%d", gone);
        cr_expect_eq(kept.future, (gone < 1) + (gone < 4) + (gone < 6), "%d: %d", gone,
                     (int)kept.future);
        for (int i = 0; i < SEGMENTS - 1; i++)
            cr_expect_eq(is_there(&rig, by_age[i]), i >= gone, "%s, when %d are to go", by_age[i],
                         gone);
    }
    cr_expect(is_there(&rig, by_age[SEGMENTS - 1]), "the open one went");
    close(folder);
    rig_free(&rig);
}

/* Entries of deleted segments are removed from the list, and an invalid list does no harm. */
Test(record, the_list_of_segments_is_bounded_and_not_trusted) {
    rig rig = rig_make();
    const int folder = open(rig.folder, O_RDONLY | O_DIRECTORY);
    char stem[64];
    struct stat list;
    for (int i = 0; i < 1000; i++) {
        snprintf(stem, sizeof stem, "a-%08dT000000.000Z", 20200000 + i);
        place_segment(&rig, stem);
        sonar_order_note(folder, "a", stem);
        sonar_keep(folder, "a", stem, 5000, 0);
    }
    cr_assert_eq(stat(box_path(&rig.box, "rec/a.sonar-order"), &list), 0);
    cr_expect_leq(list.st_size, 100 * 24, "%d bytes", (int)list.st_size);
    cr_expect_eq(entries_of(rig.folder), 6 + 1);
    unlink(box_path(&rig.box, "rec/a.sonar-order"));
    box_write(&rig.box, "rec/a.sonar-order", "\n\n../../x\nno end");
    cr_expect_eq(sonar_keep(folder, "a", "", 5000, 0).deleted, 1);
    cr_expect_not(is_there(&rig, "a-20200994T000000.000Z"));
    unlink(box_path(&rig.box, "rec/a.sonar-order"));
    cr_assert_eq(symlink("/etc/passwd", box_path(&rig.box, "rec/a.sonar-order")), 0);
    sonar_order_note(folder, "a", "nothing is written through a link");
    cr_expect_eq(sonar_keep(folder, "a", "", 4000, 0).deleted, 1);
    cr_expect_not(is_there(&rig, "a-20200995T000000.000Z"));
    close(folder);
    rig_free(&rig);
}

Test(record, thousands_of_segments_are_looked_through) {
    enum { SEGMENTS = 3000, LEFT = 100, DELETED_MOST = 1024 };
    size_t deleted = 0;
    rig rig = rig_make();
    const int folder = open(rig.folder, O_RDONLY | O_DIRECTORY);
    char stem[64];
    for (int i = 0; i < SEGMENTS; i++) { /* of falling names */
        snprintf(stem, sizeof stem, "a-%08dT000000.000Z", 20300000 - i);
        place_segment(&rig, stem);
        sonar_order_note(folder, "a", stem);
    }
    cr_expect_eq(sonar_keep(folder, "a", "", SEGMENTS * 1000, 0).deleted, 0);
    for (int left = SEGMENTS - LEFT; left > 0; left -= DELETED_MOST) { /* samples wait for a call */
        const size_t now = sonar_keep(folder, "a", "", LEFT * 1000, 0).deleted;
        cr_expect_leq(now, DELETED_MOST);
        deleted += now;
    }
    cr_expect_eq(deleted, SEGMENTS - LEFT);
    cr_expect_eq(entries_of(rig.folder), LEFT + 1);
    cr_expect(is_there(&rig, stem), "the newest went");
    close(folder);
    rig_free(&rig);
}

Test(record, segments_end_by_age_and_old_ones_go) {
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 16, segment_s: 1, keep_h: 0.0003");
    rig_start(&rig, windows_only);
    digitiser d = feed_of(&rig);
    for (int i = 0; i < 8; i++) {
        digitiser_send(&d, 20);
        nanosleep(&(struct timespec){.tv_nsec = 500000000}, NULL);
    }
    cJSON *head = status_with(&rig, "record.segments", 3);
    cJSON_Delete(head);
    cJSON_Delete(status_with(&rig, "record.deleted", 1));
    await_disk(&rig);
    rig_stop(&rig);
    digitiser_close(&d);
    rig_free(&rig);
}

Test(record, it_starts_and_stops_by_command_without_the_loss_of_a_window) {
    rig rig = rig_make();
    const char *const start[] = {"-e", rig.control, "record", "start", NULL};
    const char *const stop[] = {"-e", rig.control, "record", "stop", NULL};
    configure(&rig, "max_skew_ms: 200", "what: raw, buffer_mib: 16, at_start: false");
    rig_start(&rig, windows_only);
    digitiser d = feed_of(&rig);
    digitiser_send(&d, 20);
    cJSON_Delete(status_with(&rig, "windows.processed", 9));
    run(&rig, "ctl.log", "sonarctl", start);
    cJSON_Delete(status_with(&rig, "record.on", 1));
    digitiser_send(&d, 40);
    cJSON_Delete(status_with(&rig, "record.bytes", 40 * FRAME * SENSORS * 4));
    run(&rig, "ctl.log", "sonarctl", stop);
    await_recording(&rig, false);
    digitiser_send(&d, 20);
    cJSON_Delete(status_with(&rig, "windows.processed", 80 * FRAME / HOP - 1));
    run(&rig, "ctl.log", "sonarctl", start);
    await_recording(&rig, true);
    digitiser_send(&d, 30);
    cJSON *head = status_with(&rig, "windows.processed", 110 * FRAME / HOP - 1);
    expect_number(head, "windows.dropped.overload", 0);
    expect_number(head, "record.dropped.slow", 0);
    cJSON_Delete(head);
    await_disk(&rig);
    rig_stop(&rig);
    files f = files_with(&rig, ".sigmf-meta");
    cr_assert_eq(f.count, 2);
    const uint64_t want[2][2] = {{20 * FRAME, 40 * FRAME}, {80 * FRAME, 30 * FRAME}};
    for (int i = 0; i < 2; i++) {
        const recorded r = expect_as_sent(&rig, f.path[i]);
        cr_expect(r.index == want[i][0] && r.samples == want[i][1], "recording %d: %llu from %llu",
                  i, (unsigned long long)r.samples, (unsigned long long)r.index);
    }
    files_free(&f);
    digitiser_close(&d);
    rig_free(&rig);
}

/* ---- messages -------------------------------------------------------------------------------- */

static void expect_same_messages(const book *live, const book *played) {
    cr_assert_eq(live->count, played->count, "%zu live, %zu played", live->count, played->count);
    for (size_t i = 0; i < live->count; i++) {
        const said *a = &live->said[i], *b = &played->said[i];
        cr_expect(!strcmp(a->topic, b->topic) && !strcmp(a->head, b->head) &&
                      a->bytes == b->bytes && !memcmp(a->body, b->body, a->bytes),
                  "message %zu, %s and %s", i, a->topic, b->topic);
    }
}

/* All messages that were read live, in the same order, byte for byte. */
Test(record, messages_are_played_as_they_were_published) {
    static const char *const topics[] = {"cbf.lofar", "cbf.azimuth", "detections", "status", NULL};
    static const char *const but_status[] = {"cbf.lofar", "cbf.azimuth", "detections", NULL};
    rig rig = rig_make();
    write_scene(&rig, "fault_rates: {drop: 0.03}\n");
    book live = run_live(&rig, "max_skew_ms: 200",
                         "what: spectra, topics: [cbf.lofar, cbf.azimuth, detections], "
                         "segment_mib: 1",
                         "8");
    files f = files_with(&rig, ".sonar-spectra"), index = files_with(&rig, ".sonar-index");
    cr_assert(f.count > 1 && f.count == index.count, "%d files, %d indices", f.count, index.count);
    book kept = {0}, played = {0};
    for (size_t i = 0; i < live.count; i++) /* the recorded ones of all messages read */
        for (int k = 0; k < 3; k++)
            if (!strcmp(live.said[i].topic, topics[k])) {
                kept.said = realloc(kept.said, (kept.count + 1) * sizeof *kept.said);
                kept.said[kept.count++] = live.said[i];
            }
    const char *args[12] = {"--output", rig.out, "--rate", "max"};
    for (int i = 0; i < f.count && i < 7; i++)
        args[4 + i] = f.path[i];
    rig.socket = listen_to(&rig, but_status);
    pid_t replay =
        process_start(&rig.box, "replay.log", "sonar-replay", args[0], args[1], args[2], args[3],
                      args[4], args[5], args[6], args[7], args[8], args[9], args[10], NULL);
    while (played.count < kept.count && note(&played, rig.socket, 10000))
        continue;
    cr_expect_eq(process_wait(replay, 60000), 0);
    cr_expect_not(note(&played, rig.socket, 200), "more than was recorded");
    cr_expect_gt(kept.count, 300);
    expect_same_messages(&kept, &played);
    zmq_close(rig.socket);
    free(kept.said);
    book_free(&live);
    book_free(&played);
    files_free(&f);
    files_free(&index);
    rig_free(&rig);
}

/* ---- mistakes -------------------------------------------------------------------------------- */

/* At once, without a subscriber. */
Test(record, messages_of_another_version_are_refused) {
    const sonar_message_head head = {.topic_bytes = 1, .header_bytes = 1, .utc_ns = 1};
    uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES];
    sonar_message_head back;
    sonar_message_head_encode(&head, bytes);
    cr_expect(sonar_message_head_version(bytes) == 1 && sonar_message_head_decode(bytes, &back));
    bytes[4] = 2;
    cr_expect(sonar_message_head_version(bytes) == 2 && !sonar_message_head_decode(bytes, &back));
    bytes[0] = 's';
    cr_expect_eq(sonar_message_head_version(bytes), 0);
    bytes[0] = 'S';

    rig rig = rig_make();
    const char *path = box_path(&rig.box, "later.sonar-spectra");
    FILE *file = fopen(path, "w");
    cr_assert(file && fwrite(bytes, sizeof bytes, 1, file) == 1 && !fclose(file));
    pid_t pid =
        process_start(&rig.box, "replay.log", "sonar-replay", path, "--output", rig.out, NULL);
    cr_expect_eq(process_wait(pid, 60000), 2);
    char *log = box_read(&rig.box, "replay.log");
    cr_expect(strstr(log, "at byte 0 there is a message of version 2; this sonar-replay reads "
                          "version 1"),
              "%s", log);
    free(log);
    rig_free(&rig);
}

Test(record, a_folder_that_is_not_there_is_reported_with_its_place) {
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", "what: raw");
    rmdir(rig.folder);
    pid_t pid = process_start(&rig.box, "check.log", "sonard", "--check-config",
                              box_path(&rig.box, "sonard.yaml"), NULL);
    cr_expect_eq(process_wait(pid, 60000), 2);
    char *log = box_read(&rig.box, "check.log");
    cr_expect(strstr(log, "sonard.yaml:11:21: error: record.directory: '"), "%s", log);
    cr_expect(strstr(log, "No such file") && strstr(log, "an existing folder"), "%s", log);
    free(log);
    box_write(&rig.box, "rec", "a file");
    pid = process_start(&rig.box, "check.log", "sonard", box_path(&rig.box, "sonard.yaml"), NULL);
    cr_expect_eq(process_wait(pid, 60000), 2);
    log = box_read(&rig.box, "check.log");
    cr_expect(strstr(log, "is not a folder"), "%s", log);
    free(log);
    rig_free(&rig);
}

Test(record, nothing_is_recorded_where_the_configuration_says_off) {
    rig rig = rig_make();
    configure(&rig, "max_skew_ms: 200", NULL);
    rig_start(&rig, windows_only);
    pid_t pid =
        process_start(&rig.box, "ctl.log", "sonarctl", "-e", rig.control, "record", "start", NULL);
    cr_expect_eq(process_wait(pid, 60000), 1);
    char *log = box_read(&rig.box, "ctl.log");
    cr_expect(strstr(log, "record.what is off"), "%s", log);
    free(log);
    pid = process_start(&rig.box, "ctl.log", "sonarctl", "-e", rig.control, "record", "now", NULL);
    cr_expect_eq(process_wait(pid, 60000), 2);
    rig_stop(&rig);
    rig_free(&rig);
}
