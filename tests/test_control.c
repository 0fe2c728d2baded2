/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The control socket and sonarctl, over real sockets: their changes, and that no other message
 * delays the daemon. */
#include <criterion/criterion.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "control/server.h"
#include "core/core.h"
#include "digitiser.h"
#include "process.h"

enum { SENSORS = 12, FS = 2048, HOP = 256, FRAME = 256 };

typedef struct rig {
    box box;
    char in[128], out[128], control[128];
    pid_t daemon;
    subscriber subscriber;
    digitiser digitiser;
} rig;

static void write_config(rig *rig, const char *control, const char *runtime) {
    box_write(&rig->box, "sonard.yaml",
              "schema: 1\narray: {name: line, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
              "fs_hz: %d\n"
              "ingest: {endpoints: [\"%s\"], overload: block}\n"
              "dft: {length: %d, hop: %d}\ncbf: {band_hz: [600, 950]}\nmvdr: {snapshots: 8}\n"
              "output: {endpoint: \"%s\", high_water_mark: 10000}\n"
              "control: {endpoint: \"%s\"%s}\nruntime: {backend: cpu, threads: 1%s}\n",
              SENSORS, FS, rig->in, HOP, HOP, rig->out, rig->control, control, runtime);
}

/* A state directory, which not every daemon has. */
static rig rig_open_with(const char *control, bool state) {
    rig rig = {.box = box_open()};
    char runtime[96] = "";
    message m;
    snprintf(rig.in, sizeof rig.in, "ipc://%s/in", rig.box.dir);
    snprintf(rig.out, sizeof rig.out, "ipc://%s/out", rig.box.dir);
    snprintf(rig.control, sizeof rig.control, "ipc://%s/control", rig.box.dir);
    if (state)
        snprintf(runtime, sizeof runtime, ", state_dir: %s", rig.box.dir);
    write_config(&rig, control, runtime);
    rig.daemon = process_start(&rig.box, "log", "sonard", box_path(&rig.box, "sonard.yaml"), NULL);
    rig.subscriber = subscribe(rig.out, "cbf.azimuth", "status", NULL);
    cr_assert(receive_ready(&rig.subscriber, "cbf.azimuth", &m));
    message_free(&m);
    rig.digitiser = digitiser_open(rig.in, SENSORS, 0, SENSORS, FRAME);
    rig.digitiser.frame.fs_hz = FS;
    return rig;
}

static rig rig_open(const char *control) {
    return rig_open_with(control, false);
}

static void rig_close(rig *rig) {
    kill(rig->daemon, SIGTERM);
    cr_expect_eq(process_wait(rig->daemon, 60000), 0);
    digitiser_close(&rig->digitiser);
    unsubscribe(&rig->subscriber);
    box_close(&rig->box);
}

/* The header of the next window, which must be this one. */
static cJSON *window(rig *rig, int number) {
    message m;
    digitiser_send(&rig->digitiser, 1);
    cr_assert(receive_until(&rig->subscriber, "cbf.azimuth", "window", 0, 60000, &m));
    cr_assert_eq(header_number(m.head, "window"), number);
    cJSON *head = m.head;
    m.head = NULL;
    message_free(&m);
    return head;
}

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct client {
    void *context, *socket;
} client;

static client client_open(const rig *rig, int type) {
    client c = {.context = zmq_ctx_new()};
    const int zero = 0, patience = 60000;
    c.socket = zmq_socket(c.context, type);
    zmq_setsockopt(c.socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(c.socket, ZMQ_RCVTIMEO, &patience, sizeof patience);
    zmq_setsockopt(c.socket, ZMQ_SNDTIMEO, &patience, sizeof patience);
    cr_assert_eq(zmq_connect(c.socket, rig->control), 0);
    return c;
}

static void client_close(client *c) {
    zmq_close(c->socket);
    zmq_ctx_term(c->context);
}

/* The text must be clean, whatever was asked. */
static cJSON *take_answer(client *c) {
    static char text[1 << 18], clean[1 << 18];
    int bytes = zmq_recv(c->socket, text, sizeof text - 1, 0);
    cr_assert(bytes >= 0 && bytes < (int)sizeof text, "no answer: %s", zmq_strerror(zmq_errno()));
    text[bytes] = '\0';
    sonar_text_clean(text, (size_t)bytes, clean, sizeof clean);
    cr_expect_str_eq(text, clean);
    cJSON *answer = cJSON_Parse(text);
    cr_assert(answer, "%s", text);
    return answer;
}

static cJSON *ask_bytes(client *c, const void *text, size_t bytes) {
    cr_assert_geq(zmq_send(c->socket, text, bytes, 0), 0);
    return take_answer(c);
}

static cJSON *ask(client *c, const char *text) {
    return ask_bytes(c, text, strlen(text));
}

static bool is_ok(const cJSON *answer) {
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok"));
}

static void expect_ok(client *c, const char *request) {
    cJSON *answer = ask(c, request);
    char *text = cJSON_PrintUnformatted(answer);
    cr_expect(is_ok(answer), "%s: %s", request, text);
    free(text);
    cJSON_Delete(answer);
}

/* With these words in the error. */
static void expect_refusal(client *c, const void *request, size_t bytes, const char *words) {
    cJSON *answer = ask_bytes(c, request, bytes);
    char *text = cJSON_PrintUnformatted(answer);
    cr_expect_not(is_ok(answer));
    cr_expect(strstr(text, words), "%s", text);
    free(text);
    cJSON_Delete(answer);
}

#define EXPECT_REFUSAL(client, request, words)                                                     \
    expect_refusal(client, request, sizeof(request) - 1, words)

Test(control, every_verb_answers) {
    rig rig = rig_open("");
    client c = client_open(&rig, ZMQ_REQ);
    cJSON_Delete(window(&rig, 0));
    cJSON *answer = ask(&c, "{\"verb\":\"status\"}");
    cr_expect_eq(header_number(answer, "status.sound_speed_mps"), 1500);
    cJSON_Delete(answer);
    expect_ok(&c, "{\"verb\":\"version\"}");
    answer = ask(&c, "{\"verb\":\"get\",\"path\":\"cbf\"}");
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(answer, "values");
    cr_expect_eq(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(values, "cbf.band_hz")), 2);
    cJSON_Delete(answer);
    expect_ok(&c, "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":1480,"
                  "\"array.heading_deg\":\"45\",\"detections.threshold_db\":9}}");
    cJSON *head = window(&rig, 1);
    cr_expect_eq(header_number(head, "sound_speed_mps"), 1480);
    cr_expect_eq(header_number(head, "heading_deg"), 45);
    cJSON_Delete(head);
    expect_ok(&c, "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":null}}");
    expect_ok(&c, "{\"verb\":\"mask\",\"mask\":{\"only\":[1,2]}}");
    expect_ok(&c, "{\"verb\":\"mask\",\"mask\":{\"off\":[5],\"on\":[1]}}");
    answer = ask(&c, "{\"verb\":\"get\",\"path\":\"array.mask\"}");
    values = cJSON_GetObjectItemCaseSensitive(answer, "values");
    char *text = cJSON_PrintUnformatted(values);
    cr_expect_str_eq(text, "{\"array.mask\":[2,5]}");
    free(text);
    cJSON_Delete(answer);
    head = window(&rig, 2);
    cr_expect_eq(header_number(head, "sound_speed_mps"), 1500);
    cr_expect_eq(header_number(head, "sensors_used"), SENSORS - 2);
    cJSON_Delete(head);
    expect_ok(&c, "{\"verb\":\"reload\"}");
    head = window(&rig, 3);
    cr_expect_eq(header_number(head, "sensors_used"), SENSORS, "as in the file again");
    cJSON_Delete(head);
    client_close(&c);
    rig_close(&rig);
}

/* Another thread than that of the windows may write it. */
static void expect_in_log(const rig *rig, const char *words) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)60 * 1000000000;
    bool there = false;
    while (!there && sonar_monotonic_ns() < until_ns) {
        char *log = box_read(&rig->box, "log");
        there = strstr(log, words) != NULL;
        free(log);
        usleep(20000);
    }
    cr_expect(there, "the log has no '%s'", words);
}

/* Samples that arrive meanwhile wait, and no window is lost. */
Test(control, a_daemon_trains_in_the_middle_of_a_run, .timeout = 600) {
    rig rig = rig_open_with("", true);
    client c = client_open(&rig, ZMQ_REQ);
    cJSON_Delete(window(&rig, 0));
    cr_expect_neq(access(box_path(&rig.box, "train.yaml"), F_OK), 0);
    expect_ok(&c, "{\"verb\":\"train\"}");
    for (int i = 1; i < 5; i++)
        cJSON_Delete(window(&rig, i));
    expect_in_log(&rig, "no window is processed until it has ended");
    expect_in_log(&rig, "trained table");
    char *table = box_read(&rig.box, "train.yaml");
    cr_expect(strstr(table, "placement"), "%s", table);
    free(table);
    expect_ok(&c, "{\"verb\":\"train\"}"); /* once more, with what was made before */
    cJSON_Delete(window(&rig, 5));
    client_close(&c);
    rig_close(&rig);
}

Test(control, training_that_cannot_be_is_refused) {
    rig rig = rig_open("");
    client c = client_open(&rig, ZMQ_REQ);
    EXPECT_REFUSAL(&c, "{\"verb\":\"train\"}", "runtime.state_dir");
    rig_close(&rig);
    client_close(&c);
    rig = rig_open_with("", true);
    c = client_open(&rig, ZMQ_REQ);
    const pid_t data = thread_hold(rig.daemon, "sonar-data");
    expect_ok(&c, "{\"verb\":\"train\"}");
    if (data > 0) {
        EXPECT_REFUSAL(&c, "{\"verb\":\"train\"}", "in progress");
        thread_release(data);
    }
    client_close(&c);
    rig_close(&rig);
}

/* Every request is answered or dropped, and the daemon continues unchanged. */
Test(control, what_is_no_request_is_refused_with_a_reason) {
    rig rig = rig_open("");
    client c = client_open(&rig, ZMQ_REQ);
    EXPECT_REFUSAL(&c, "", "expected a JSON object with a verb");
    EXPECT_REFUSAL(&c, "{", "a JSON object");
    EXPECT_REFUSAL(&c, "[]", "a JSON object");
    EXPECT_REFUSAL(&c, "\0\0\0\377\376", "a JSON object");
    EXPECT_REFUSAL(&c, "{\"verb\":7}", "a JSON object");
    EXPECT_REFUSAL(&c, "{\"verb\":\"explode\"}", "is not one of status, version");
    EXPECT_REFUSAL(&c, "{\"verb\":\"\xc0\xafnot\xff\"}", "is not one of status, version");
    EXPECT_REFUSAL(&c, "{\"verb\":\"status\",\"x\":1}", "this verb has no member");
    EXPECT_REFUSAL(&c, "{\"verb\":\"set\"}", "an object of 1 to");
    EXPECT_REFUSAL(&c, "{\"verb\":\"set\",\"values\":[1]}", "an object of 1 to");
    EXPECT_REFUSAL(&c, "{\"verb\":\"set\",\"values\":{\"sound_spede_mps\":1}}",
                   "did you mean sound_speed_mps?");
    EXPECT_REFUSAL(&c, "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":{}}}", "one value");
    EXPECT_REFUSAL(&c, "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":\"1500\\nfs_hz: 3\"}}",
                   "plain number");
    EXPECT_REFUSAL(&c, "{\"verb\":\"set\",\"values\":{\"fs_hz\":3}}", "cannot change");
    EXPECT_REFUSAL(&c, "{\"verb\":\"get\",\"path\":\"cfb\"}", "did you mean cbf");
    EXPECT_REFUSAL(&c, "{\"verb\":\"get\",\"path\":3}", "the path");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":{\"off\":[12]}}", "from 0 to 11");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":{\"off\":[-1e300]}}", "from 0 to 11");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":{\"off\":3}}", "lists");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":{\"only\":[0,1,2,3,4,5,6,7,8,9,10,11]}}",
                   "no sensor is left");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":{\"only\":[1],\"off\":[2]}}", "by itself");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":{\"on\":[2],\"only\":[1]}}", "by itself");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":{\"on\":[1],\"of\":[2]}}", "expected ");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":{}}", "expected ");
    EXPECT_REFUSAL(&c, "{\"verb\":\"mask\",\"mask\":[1]}", "expected ");
    static char deep[200000];
    memset(deep, '[', sizeof deep);
    expect_refusal(&c, deep, sizeof deep, "a JSON object");
    cJSON *head = window(&rig, 0);
    cr_expect_eq(header_number(head, "config_sample_index"), 0);
    cJSON_Delete(head);
    client_close(&c);
    rig_close(&rig);
}

/* Raw connections that are silent or send half a message; messages above the limit; floods from
 * peers that never read the answer. */
Test(control, no_one_holds_up_the_daemon, .timeout = 600) {
    enum { SILENT = 50, FLOOD = 2000 };
    rig rig = rig_open("");
    int silent[SILENT];
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = rig.control + strlen("ipc://");
    cr_assert_lt(strlen(path), sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    for (int i = 0; i < SILENT; i++) {
        silent[i] = socket(AF_UNIX, SOCK_STREAM, 0);
        cr_assert_eq(connect(silent[i], (struct sockaddr *)&address, sizeof address), 0);
        if (i % 2)
            cr_expect_geq(write(silent[i], "\xff\0\0\0\0\0\0\0\1\x7f", 10), 0);
    }
    client flood = client_open(&rig, ZMQ_DEALER), huge = client_open(&rig, ZMQ_DEALER);
    for (int i = 0; i < FLOOD; i++) {
        zmq_send(flood.socket, "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT);
        zmq_send(flood.socket, "{\"verb\":\"version\"}", 18, ZMQ_DONTWAIT);
    }
    for (int i = 0; i < 100; i++)
        zmq_send(flood.socket, "x", 1, (i < 99 ? ZMQ_SNDMORE : 0) | ZMQ_DONTWAIT);
    static char large[SONAR_CONTROL_BYTES_MOST + 1];
    zmq_send(huge.socket, large, sizeof large, ZMQ_DONTWAIT);
    client c = client_open(&rig, ZMQ_REQ);
    for (int i = 0; i < 20; i++) {
        char request[96];
        snprintf(request, sizeof request, "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":%d}}",
                 1400 + i);
        expect_ok(&c, request);
        cJSON *head = window(&rig, i);
        cr_expect_eq(header_number(head, "sound_speed_mps"), 1400 + i);
        cJSON_Delete(head);
    }
    message m;
    cr_expect(receive_until(&rig.subscriber, "status", "uptime_s", 1, 60000, &m), "no status");
    message_free(&m);
    for (int i = 0; i < SILENT; i++)
        close(silent[i]);
    client_close(&c);
    client_close(&huge);
    client_close(&flood);
    rig_close(&rig);
}

static void expect_mode(const char *control, mode_t mode) {
    rig rig = rig_open(control);
    struct stat about;
    cr_assert_eq(stat(rig.control + strlen("ipc://"), &about), 0);
    cr_expect_eq(about.st_mode & 0777, mode, "%o", about.st_mode);
    rig_close(&rig);
}

Test(control, the_socket_is_the_users_own_or_the_groups) {
    expect_mode("", 0600);
    expect_mode(", group: true", 0660);
}

/* Ten changes a second while windows are processed: none is lost, and each names the speed it was
 * made with and the version that belongs to it. SONAR_LONG makes it a minute. */
Test(control, ten_changes_a_second_cost_no_window, .timeout = 600) {
    rig rig = rig_open("");
    client c = client_open(&rig, ZMQ_REQ);
    const int changes = getenv("SONAR_LONG") ? 600 : 40;
    const int64_t began = sonar_monotonic_ns();
    int number = 0;
    for (int i = 0; i < changes; i++) {
        char request[96], version[80];
        snprintf(request, sizeof request, "{\"verb\":\"set\",\"values\":{\"sound_speed_mps\":%d}}",
                 1400 + i % 200);
        cJSON *answer = ask(&c, request);
        cr_assert(is_ok(answer));
        snprintf(version, sizeof version, "%s",
                 cJSON_GetObjectItemCaseSensitive(answer, "config_version")->valuestring);
        cJSON_Delete(answer);
        for (int k = 0; k < 2; k++) {
            cJSON *head = window(&rig, number);
            cr_assert_eq(header_number(head, "seq"), number++);
            cr_assert_eq(header_number(head, "sound_speed_mps"), 1400 + i % 200);
            cr_assert_str_eq(cJSON_GetObjectItemCaseSensitive(head, "config_version")->valuestring,
                             version);
            cr_assert_eq(header_number(head, "config_sample_index"), 2.0 * i * HOP);
            cJSON_Delete(head);
        }
        int64_t ahead = began + (i + 1) * (int64_t)100000000 - sonar_monotonic_ns();
        if (ahead > 0)
            nanosleep(&(struct timespec){.tv_nsec = (long)ahead}, NULL);
    }
    client_close(&c);
    rig_close(&rig);
}

/* ---- sonarctl -------------------------------------------------------------------------------- */

/* Runs it with up to four words; its output to *said, malloc'ed. */
static int ctl(rig *rig, char **said, const char *a, const char *b, const char *c, const char *d) {
    pid_t pid = process_start(&rig->box, "ctl", "sonarctl", "-e", rig->control, a, b, c, d, NULL);
    const int status = process_wait(pid, 60000);
    *said = box_read(&rig->box, "ctl");
    return status;
}

static void expect_ctl(rig *rig, int status, const char *words, const char *a, const char *b,
                       const char *c, const char *d) {
    char *said;
    cr_expect_eq(ctl(rig, &said, a, b, c, d), status, "%s: %s", a, said);
    cr_expect(strstr(said, words), "%s %s: %s", a, b ? b : "", said);
    free(said);
}

/* Differences from the file, values that wait, and what an operator checks first. */
Test(control, status_says_what_a_restart_would_undo) {
    rig rig = rig_open("");
    cJSON_Delete(window(&rig, 0));
    expect_ctl(&rig, 0, "heading         not known", "status", NULL, NULL, NULL);
    expect_ctl(&rig, 0, "until a reload or a restart, because the file has 1500\n", "set",
               "sound_speed_mps", "1480", NULL);
    expect_ctl(&rig, 0, "array.mask: until a reload or a restart, because the file has", "mask",
               "3,7-9", NULL, NULL);
    expect_ctl(&rig, 0, "array.heading_deg: 30 in place of unset\narray.heading_deg: until", "set",
               "array.heading_deg", "30", NULL);
    cJSON_Delete(window(&rig, 1));
    message m;
    cr_assert(receive_until(&rig.subscriber, "status", "elements.masked_hand.count", 4, 60000, &m));
    message_free(&m);
    char *said = NULL;
    for (int i = 2; i < 100 && (!said || !strstr(said, "channels")); i++) {
        free(said); /* a block has a clock after frames were received between two statuses */
        cJSON_Delete(window(&rig, i));
        cr_assert_eq(ctl(&rig, &said, "status", NULL, NULL, NULL), 0);
    }
    static const char *const words[] = {"  masked        4 by hand: 3, 7-9\n",
                                        "heading         30.0 deg, from the configuration\n",
                                        "digitisers      1 connected\n",
                                        "  channels      0 to 11\n",
                                        "readers         1 connected\n",
                                        "  lost          0\n",
                                        "  differs       array.mask is [3, 7, 8, 9], [] in ",
                                        "  differs       array.heading_deg is 30, unset in ",
                                        "  differs       sound_speed_mps is 1480, 1500 in "};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        cr_expect(strstr(said, words[i]), "%s is not in %s", words[i], said);
    free(said);
    expect_ctl(&rig, 0, "", "navigation", "heading_deg", "213", NULL);
    expect_ctl(&rig, 0, "it waits: the heading comes from control, 213.0 deg of the bow now", "set",
               "array.heading_deg", "31", NULL);
    expect_ctl(&rig, 0, "configuration", "reload", NULL, NULL, NULL);
    client c = client_open(&rig, ZMQ_REQ);
    cJSON *answer = ask(&c, "{\"verb\":\"differences\"}");
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(answer, "differences");
    cr_expect(cJSON_IsArray(list) && cJSON_GetArraySize(list) == 0);
    cJSON_Delete(answer);
    box_write(&rig.box, "sonard.yaml", "fs_hz: fast\n");
    EXPECT_REFUSAL(&c, "{\"verb\":\"differences\"}", "sonard.yaml:1:");
    client_close(&c);
    rig_close(&rig);
}

Test(control, sonarctl_says_what_it_did) {
    rig rig = rig_open("");
    cJSON_Delete(window(&rig, 0));
    expect_ctl(&rig, 0, "health", "status", NULL, NULL, NULL);
    expect_ctl(&rig, 0, "sonard 0", "version", NULL, NULL, NULL);
    expect_ctl(&rig, 0, "1500\n", "get", "sound_speed_mps", NULL, NULL);
    expect_ctl(&rig, 0, "array.name: line\n", "get", NULL, NULL, NULL);
    expect_ctl(&rig, 0, "sound_speed_mps: 1480 in place of 1500", "set", "sound_speed_mps", "1480",
               NULL);
    expect_ctl(&rig, 0, "\"config_version\":\"1-", "-j", "set", "sound_speed_mps", "1481");
    expect_ctl(&rig, 0, "array.mask: [3, 7, 8, 9] in place of []", "mask", "3,7-9", NULL, NULL);
    expect_ctl(&rig, 0, "array.mask: [4, 8, 9] in place of [3, 7, 8, 9]", "mask", "+4", "-3,7",
               NULL);
    expect_ctl(&rig, 0, "array.mask: [] in place of [4, 8, 9]", "mask", "none", NULL, NULL);
    expect_ctl(&rig, 0, "sound_speed_mps: 1500 in place of 1481", "unset", "sound_speed_mps", NULL,
               NULL);
    expect_ctl(&rig, 0, "configuration 1-", "reload", NULL, NULL, NULL);
    expect_ctl(&rig, 1, "out of range", "set", "sound_speed_mps", "3", NULL);
    expect_ctl(&rig, 1, "did you mean", "set", "sound_sped_mps", "1480", NULL);
    expect_ctl(&rig, 1, "\"ok\":false", "-j", "get", "nothing", NULL);
    expect_ctl(&rig, 2, "there is no verb", "explode", NULL, NULL, NULL);
    expect_ctl(&rig, 2, "wrong arguments: set takes PATH VALUE", "set", "sound_speed_mps", NULL,
               NULL);
    expect_ctl(&rig, 2, "wrong arguments: mask takes sensors as 3,7-9", "mask", "7-3", NULL, NULL);
    expect_ctl(&rig, 1, "accepted: auto, or a group of start_deg, stop_deg, step_deg", "set",
               "cbf.scan", "all", NULL);
    expect_ctl(&rig, 1, "heading_deg: 400 is out of range; accepted: -360 to 360", "navigation",
               "heading_deg", "400", NULL);
    expect_ctl(&rig, 1, "depth_m: expected a number", "navigation", "depth_m", "deep", NULL);
    expect_ctl(&rig, 2, "wrong arguments", "mask", "3;4", NULL, NULL);
    expect_ctl(&rig, 2, "wrong arguments", "mask", "3", "+4", NULL);
    expect_ctl(&rig, 0, "Exit codes", "--help", NULL, NULL, NULL);
    pid_t pid = process_start(&rig.box, "ctl", "sonarctl", "-c", box_path(&rig.box, "sonard.yaml"),
                              "version", NULL);
    cr_expect_eq(process_wait(pid, 60000), 0);
    box_write(&rig.box, "sonard.yaml",
              "schema: 1\narray: {geometry: {line: {sensors: 12, spacing_m: 0.75}}}\n"
              "fs_hz: fast\ncbf: {band_hz: [600, 950]}\ndft: {window: x}\n");
    expect_ctl(&rig, 1, "sonard.yaml:3:8: fs_hz: expected a plain number in Hz, not \"fast\"",
               "reload", NULL, NULL, NULL);
    expect_ctl(&rig, 1, " more, in the log)", "reload", NULL, NULL, NULL);
    box_write(&rig.box, "sonard.yaml",
              "schema: 1\narray: {geometry: {line: {sensors: 12, spacing_m: 0.75}}}\n"
              "fs_hz: 2048\ncbf: {band_hz: [600, 950]}\n");
    expect_ctl(&rig, 0, "control\", not unset: it cannot change", "reload", NULL, NULL, NULL);
    rig_close(&rig);
    box box = box_open();
    char absent[128];
    snprintf(absent, sizeof absent, "ipc://%s/none", box.dir);
    pid = process_start(&box, "ctl", "sonarctl", "-e", absent, "status", NULL);
    cr_expect_eq(process_wait(pid, 60000), 3);
    box_close(&box);
}
