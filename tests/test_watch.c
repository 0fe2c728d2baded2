/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The viewer: what it draws, and that nothing a publisher sends can break it. */
#include <criterion/criterion.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "output/header.h"
#include "output_scene.h"
#include "render.h"

static watch_pane pane;
static watch_message message, list, status;
static output_scene scene;

/* The message a publisher would send of result 0. */
static void read_back(sonar_surface surface, watch_message *to) {
    char *axes = sonar_header_axes(&scene.spec, surface);
    char *header = sonar_header_result(&scene.spec, surface, axes, &scene.result[0], 5, 1234.5);
    const sonar_buffer *buffer = &scene.result[0].surface[surface];
    cr_assert(watch_message_read(header, strlen(header), buffer->data, buffer->bytes, to));
    free(axes);
    free(header);
}

/* Columns a line takes on the screen: escape sequences none, UTF-8 characters one each. */
static int columns_of(const char *line, size_t bytes) {
    int columns = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)line[i];
        if (c == 0x1b) {
            cr_assert_eq(line[i + 1], '[');
            for (i += 2; i < bytes && !(line[i] >= '@' && line[i] <= '~'); i++)
                ;
            continue;
        }
        cr_assert(c >= 0x20 && c != 0x7f, "control character %d", c);
        cr_assert(c != 0xc2 || (unsigned char)line[i + 1] >= 0xa0, "C1 control character");
        columns += (c & 0xc0) != 0x80;
    }
    return columns;
}

static void check_screen(const watch_view *view, int width, int height) {
    watch_text text = {0};
    watch_render(view, width, height, &text);
    int lines = 0;
    for (const char *at = text.data; at; lines++) {
        const char *next = strchr(at, '\n');
        size_t bytes = next ? (size_t)(next - at) : strlen(at);
        int columns = columns_of(at, bytes);
        cr_assert_leq(columns, width, "line %d of %dx%d has %d columns", lines, width, height,
                      columns);
        at = next ? next + 1 : NULL;
    }
    cr_assert_leq(lines, height, "%d lines in %dx%d", lines, width, height);
    watch_text_free(&text);
}

static void check_all_sizes(watch_view *view) {
    static const int widths[] = {1, 2, 7, 8, 9, 10, 20, 79, 80, 81, 200, 5000};
    for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++)
        for (int height = 1; height < 70; height += height < 26 ? 1 : 11)
            for (int colour = 0; colour < 2; colour++) {
                view->colour = colour;
                check_screen(view, widths[i], height);
            }
}

/* A pane with `points` directions 0..180 and a peak of 20 dB at one of them. */
static void make_pane(size_t points, size_t peak) {
    memset(&message, 0, sizeof message);
    strcpy(message.topic, "cbf.azimuth");
    strcpy(message.axis_unit, "deg");
    message.points = points;
    for (size_t i = 0; i < points; i++) {
        message.x[i] = points > 1 ? 180.0 * (double)i / (double)(points - 1) : 90;
        message.power[i] = i == peak ? 100 : 1;
    }
    memset(&pane, 0, sizeof pane);
    watch_pane_take(&pane, &message);
}

Test(watch, width_and_height_are_kept) {
    output_scene_make(&scene, NULL, "");
    scene.result[0].detections = 40;
    for (size_t i = 0; i < 40; i++)
        scene.result[0].detection[i] = (sonar_detection){.bearing_deg = 1e300,
                                                         .mirror_deg = NAN,
                                                         .power = 1e30,
                                                         .snr_db = -1e9,
                                                         .range_unresolved = true};
    read_back(SONAR_DETECTIONS, &list);
    cr_assert_eq(list.detections, 40);
    static const sonar_status state = {.health = "degraded",
                                       .text = "a rather long sentence about "
                                               "what is not as it should be"};
    sonar_header_status_extra extra = {1, 1763654400123456789, 511, false};
    char *axes = sonar_header_axes(&scene.spec, SONAR_STATUS);
    char *header = sonar_header_status(&scene.spec, axes, &state, &extra);
    cr_assert(watch_message_read(header, strlen(header), "", 0, &status));
    free(axes), free(header);
    const sonar_surface surfaces[] = {SONAR_CBF_AZIMUTH, SONAR_CBF_LOFAR, SONAR_ELEMENT_PSD,
                                      SONAR_ELEMENT_MISSING};
    for (size_t i = 0; i < 4; i++) {
        read_back(surfaces[i], &message);
        cr_assert_gt(message.points, 0);
        watch_pane_take(&pane, &message);
        watch_view view = {{&pane}, 1, &list, &status, 10, 2, false};
        check_all_sizes(&view);
        view.pane[1] = &pane, view.panes = 2;
        check_all_sizes(&view);
    }
    watch_view empty = {0};
    check_all_sizes(&empty);
}

Test(watch, the_peak_stands_in_its_column) {
    static const size_t sizes[] = {2, 3, 7, 73, 160, 361, 4000};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (size_t peak = 0; peak < sizes[s]; peak += 1 + sizes[s] / 11) {
            make_pane(sizes[s], peak);
            for (int columns = 2; columns < 300; columns += 37) {
                float column[300];
                watch_columns(&pane, pane.db, columns, column);
                int at = watch_column(&pane, message.x[peak], columns);
                int want = (int)lround(message.x[peak] / 180 * (columns - 1));
                cr_assert_eq(at, want);
                if (sizes[s] > 2)
                    cr_assert_float_eq(column[at], 20, 1e-4, "%zu of %zu in %d", peak, sizes[s],
                                       columns);
                for (int c = 0; c < columns; c++)
                    cr_assert(isfinite(column[c]));
            }
        }
    cr_assert_eq(watch_column(&pane, -50, 80), -1);
    cr_assert_eq(watch_column(&pane, 250, 80), -1);
    for (int columns = 1; columns < 200; columns++)
        for (double x = 178; x < 183; x += 0.01)
            cr_assert_lt(watch_column(&pane, x, columns), columns);
}

/* The drawing itself: the only full column of the top row is the peak's. */
Test(watch, the_plot_shows_the_peak_above_its_angle) {
    make_pane(181, 60);
    watch_view view = {{&pane}, 1, NULL, NULL, 1, 0, false};
    watch_text text = {0};
    watch_render(&view, 80, 24, &text);
    const char *top = strchr(text.data, '\n') + 1;
    const char *bar = strstr(top, "█");
    cr_assert_not_null(bar);
    cr_assert_eq(columns_of(top, (size_t)(bar - top)), WATCH_MARGIN + 24); /* 60/180 of 72 */
    cr_assert_null(memmem(bar + 3, (size_t)(strchr(top, '\n') - bar - 3), "█", 3));
    cr_assert_not_null(strstr(text.data, " 90 "));
    watch_text_free(&text);
}

Test(watch, nothing_and_nan_are_drawn_as_nothing) {
    make_pane(50, 3);
    for (size_t i = 0; i < 50; i++)
        message.power[i] = i % 3 == 0 ? NAN : i % 3 == 1 ? 0 : -1;
    watch_pane_take(&pane, &message);
    cr_assert(isnan(pane.median));
    watch_view view = {{&pane}, 1, NULL, NULL, 1, 0, true};
    check_all_sizes(&view);
    message.power[10] = INFINITY;
    message.power[11] = 5;
    watch_pane_take(&pane, &message);
    cr_assert_eq(pane.median, 5);
    float column[73];
    watch_columns(&pane, pane.db, 73, column);
    int at = watch_column(&pane, message.x[11], 73);
    for (int c = 0; c < 73; c++)
        cr_assert(c == at ? column[c] == 0 : abs(c - at) <= 1 || isnan(column[c]), "column %d", c);
    for (size_t points = 0; points < 3; points++) {
        make_pane(points, 0);
        check_all_sizes(&view);
    }
}

Test(watch, a_new_axis_starts_the_waterfall_anew) {
    make_pane(50, 3);
    for (int i = 0; i < 30; i++)
        watch_pane_take(&pane, &message);
    cr_assert_eq(pane.fall_rows, WATCH_FALL_ROWS);
    message.x[7] += 0.5;
    watch_pane_take(&pane, &message);
    cr_assert_eq(pane.fall_rows, 1);
}

Test(watch, peaks_come_strongest_first) {
    float db[] = {9, 1, 2, 7, 7, 1, NAN, 30, 2, 8};
    size_t peak[3];
    cr_assert_eq(watch_peaks(10, db, 6, 3, peak), 3);
    cr_assert(peak[0] == 7 && peak[1] == 0 && peak[2] == 9);
    cr_assert_eq(watch_peaks(10, db, 31, 3, peak), 0);
    cr_assert_eq(watch_peaks(0, db, 6, 3, peak), 0);
    size_t all[10];
    cr_assert_eq(watch_peaks(10, db, 6, 10, all), 4);
    cr_assert_eq(all[3], 3);
}

Test(watch, a_message_is_read_as_it_was_written) {
    output_scene_make(&scene, NULL, "");
    scene.result[0].missing_worst = 0.5;
    read_back(SONAR_CBF_NEARFIELD, &message);
    cr_assert_str_eq(message.topic, "cbf.nearfield");
    cr_assert_str_eq(message.array, "line \"A\"");
    cr_assert_str_eq(message.axis_unit, "deg");
    cr_assert_str_eq(message.flags, "gap");
    cr_assert_str_eq(message.bearings, "angle from axis, hdg 30.5");
    cr_assert(message.ambiguous);
    cr_assert_eq(message.points, SCENE_CBF_DIRECTIONS);
    const float *data = scene.data[0][SONAR_CBF_NEARFIELD];
    for (size_t i = 0; i < SCENE_CBF_DIRECTIONS; i++) /* it rises from row to row */
        cr_assert_eq(message.power[i], data[2 * SCENE_CBF_DIRECTIONS + i]);
    cr_assert_eq(message.seq, 5);
    char when[40];
    watch_time(1763654400.1239e9, when, sizeof when);
    cr_assert_str_eq(when, "2025-11-20 16:00:00.123Z");
    watch_time(NAN, when, sizeof when);
    cr_assert_str_eq(when, "time unknown");
}

Test(watch, json_keeps_large_integers_and_adds_the_array) {
    float data[] = {1.5F, NAN, -INFINITY, 0.25F};
    const char *header = " {\"utc_ns\":1763654400123456789,\n\"shape\":[4]} trailing";
    watch_text text = {0};
    watch_json(header, strlen(header), data, sizeof data, &text);
    cr_assert_str_eq(text.data, " {\"utc_ns\":1763654400123456789, \"shape\":[4],"
                                "\"data\":[1.5,null,null,0.25]}\n");
    watch_text_free(&text);
    const char *const none[] = {"[1]", "", "{", "nonsense", "3"};
    for (size_t i = 0; i < 5; i++) {
        watch_json(none[i], strlen(none[i]), data, sizeof data, &text);
        cr_assert_eq(text.bytes, 0);
    }
    const char *controls = "{\"a\":\"\xc2\x9b\x7f\xff\x1b[2J\xc3\xbc\",\x1b\t\"b\":\"\\u009b\"}";
    watch_json(controls, strlen(controls), data, 0, &text);
    cr_assert_str_eq(text.data, "{\"a\":\"??? [2J\xc3\xbc\",  \"b\":\"\\u009b\"}\n");
    watch_text_free(&text);
    watch_json("{\"shape\":[5]}", 13, data, sizeof data, &text); /* it lies: no data */
    cr_assert_str_eq(text.data, "{\"shape\":[5]}\n");
    watch_text_free(&text);
}

/* Values of a wrong kind in place of right ones, and headers cut and flipped at random. */
Test(watch, hostile_headers_are_harmless) {
    static const char *const evil[] = {
        "",
        "null",
        "[]",
        "{}",
        "{\"axes\":3,\"shape\":\"x\",\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"values\":{}}],\"shape\":[-1],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"values\":[1,\"x\"]}],\"shape\":[2],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":0,\"step\":1}],\"shape\":[1e300],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":0,\"step\":1}],\"shape\":[16384],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":1e308,\"step\":-1e308}],\"shape\":[3],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":5,\"step\":0}],\"shape\":[3],\"dtype\":\"<f4\"}",
        "{\"axes\":[{\"start\":0,\"step\":1e-320}],\"shape\":[3],\"dtype\":\"<f4\"}",
        "{\"flags\":[1,null,\"\\u001b[2J\",{}],\"topic\":[],\"array\":\"\\u001b]0;x\\u0007\"}",
        "{\"detections\":[1,{},[],{\"bearing_deg\":\"x\",\"source\":\"\\u001b[31m long\"}]}",
        "{\"detections\":{\"a\":{\"level_db\":1e308}},\"window\":1e308,\"utc_ns\":1e308}",
        "{\"frames\":{\"dropped\":{\"\\u001b\":1e308,\"b\":-1,\"c\":\"x\"}},\"health\":7}",
        "{\"frames\":[],\"windows\":3,\"latency\":\"x\",\"heading_deg\":1e308}"};
    float body[4] = {1, 100, NAN, 2};
    for (size_t i = 0; i < sizeof evil / sizeof evil[0]; i++) {
        watch_message_read(evil[i], strlen(evil[i]), body, sizeof body, &message);
        watch_pane_take(&pane, &message);
        watch_view view = {{&pane}, 1, &message, &message, 1, 0, true};
        check_screen(&view, 80, 24);
        check_screen(&view, 20, 40);
        watch_text text = {0};
        watch_line(&message, &text);
        columns_of(text.data, text.bytes - 1);
        watch_text_free(&text);
    }
    output_scene_make(&scene, NULL, "");
    char *axes = sonar_header_axes(&scene.spec, SONAR_CBF_AZIMUTH);
    char *header =
        sonar_header_result(&scene.spec, SONAR_CBF_AZIMUTH, axes, &scene.result[0], 1, 1);
    size_t bytes = strlen(header);
    char *broken = malloc(bytes);
    srand(11);
    for (int i = 0; i < 3000; i++) {
        memcpy(broken, header, bytes);
        for (int k = rand() % 4; k >= 0; k--)
            broken[(size_t)rand() % bytes] = (char)rand();
        size_t cut = rand() % 2 ? bytes : (size_t)rand() % bytes;
        watch_message_read(broken, cut, body, (size_t)rand() % sizeof body, &message);
        watch_pane_take(&pane, &message);
        watch_view view = {{&pane}, 1, &message, &message, 1, 0, false};
        check_screen(&view, 80, 24);
        watch_text text = {0};
        watch_json(broken, cut, body, sizeof body, &text);
        if (text.bytes)
            columns_of(text.data, text.bytes - 1);
        watch_text_free(&text);
    }
    free(broken), free(header), free(axes);
}

/* ---- the program ----------------------------------------------------------------------------- */

/* Runs it, reads all it writes (cut at `bytes`), returns its exit code. */
static int watch_run(const char *arguments, char *written, size_t bytes) {
    char command[1024];
    snprintf(command, sizeof command, "%s/sonar-watch %s 2>&1", SONAR_BIN_DIR, arguments);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    size_t got = fread(written, 1, bytes - 1, pipe);
    written[got] = '\0';
    int code = pclose(pipe);
    cr_assert(WIFEXITED(code));
    return WEXITSTATUS(code);
}

Test(watch, wrong_usage_and_no_publisher) {
    static char text[8192];
    cr_assert_eq(watch_run("--help", text, sizeof text), 0);
    cr_assert_not_null(strstr(text, "--topic"));
    const char *const wrong[] = {
        "--nonsense", "--topic nonsense",   "--count 0", "--count 1.5",           "--timeout -1",
        "--width 3",  "--endpoint junk://", "word",      "--config /no/such/file"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        cr_assert_eq(watch_run(wrong[i], text, sizeof text), 2, "%s", wrong[i]);
    cr_assert_eq(watch_run("--endpoint tcp://127.0.0.1:1 --timeout 0.3", text, sizeof text), 3);
}

/* ---- a reader that is stopped ---------------------------------------------------------------- */

enum { LARGE = 16384 };

/* Message `seq` of an array so large that a few hundred fill every buffer on the way; false: they
 * are full. */
static bool publish_large(void *pub, unsigned long seq) {
    static float body[LARGE];
    char header[256];
    int bytes = snprintf(header, sizeof header,
                         "{\"topic\":\"cbf.azimuth\",\"seq\":%lu,\"dtype\":\"<f4\",\"shape\":[%d],"
                         "\"axes\":[{\"start\":0,\"step\":1}]}",
                         seq, LARGE);
    if (zmq_send(pub, "cbf.azimuth", 11, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0)
        return false;
    zmq_send(pub, header, (size_t)bytes, ZMQ_SNDMORE);
    zmq_send(pub, body, sizeof body, 0);
    return true;
}

/* Binds a publisher that says when its buffers are full. */
static void *large_publisher(void *context, const char *endpoint) {
    void *pub = zmq_socket(context, ZMQ_XPUB);
    int zero = 0, one = 1, few = 10;
    zmq_setsockopt(pub, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(pub, ZMQ_SNDHWM, &few, sizeof few);
    zmq_setsockopt(pub, ZMQ_XPUB_NODROP, &one, sizeof one);
    while (zmq_bind(pub, endpoint) != 0) /* the one before it is still being closed */
        usleep(10000);
    return pub;
}

static pid_t start_json_watch(const char *endpoint, int *output) {
    int pipes[2];
    cr_assert_eq(pipe(pipes), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        close(pipes[0]), close(pipes[1]);
        execl(SONAR_BIN_DIR "/sonar-watch", "sonar-watch", "--json", "--endpoint", endpoint, NULL);
        _exit(127);
    }
    close(pipes[1]);
    *output = pipes[0];
    return child;
}

static unsigned long read_seq(FILE *lines) {
    static char line[1 << 20];
    unsigned long seq;
    cr_assert(fgets(line, sizeof line, lines), "it ended");
    cr_assert_eq(sscanf(line, "{\"topic\":\"cbf.azimuth\",\"seq\":%lu", &seq), 1, "%.80s", line);
    return seq;
}

/* Its output is not read, so it does not read its connection, and then the publisher goes. With
 * ZMTP heartbeats libzmq sends one to nobody, is told so, and the next one's timer aborts the
 * process. */
Test(watch, it_survives_that_nobody_reads_it, .timeout = 60) {
    void *context = zmq_ctx_new();
    char endpoint[64], subscription[64];
    int output, code;
    unsigned long seq = 0, stopped_at, last = 0;
    snprintf(endpoint, sizeof endpoint, "tcp://127.0.0.1:%d", 20000 + (int)getpid() % 10000);
    pid_t child = start_json_watch(endpoint, &output);
    void *pub = large_publisher(context, endpoint);
    cr_assert_gt(zmq_recv(pub, subscription, sizeof subscription, 0), 0);
    for (int full = 0; full < 50; usleep(1000)) /* until nothing has gone out for a while */
        full = publish_large(pub, seq) ? (seq++, 0) : full + 1;
    zmq_close(pub);
    sleep(5); /* three heartbeats, had it any */
    FILE *lines = fdopen(output, "r");
    stopped_at = seq;
    pub = large_publisher(context, endpoint); /* it has come back */
    for (zmq_pollitem_t item = {NULL, output, ZMQ_POLLIN, 0}; last < stopped_at;) {
        seq += publish_large(pub, seq);
        if (zmq_poll(&item, 1, 10) > 0)
            last = read_seq(lines);
    }
    fclose(lines);
    kill(child, SIGTERM);
    cr_assert_eq(waitpid(child, &code, 0), child);
    cr_assert(WIFEXITED(code), "killed by signal %d", WTERMSIG(code));
    zmq_close(pub);
    zmq_ctx_term(context);
}

Test(watch, it_reads_a_publisher) {
    static char text[100000], arguments[512], path[64];
    void *context = zmq_ctx_new();
    output_scene_make(&scene, context, "tcp://127.0.0.1:*");
    sonar_output *output;
    sonar_error err;
    cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err), SONAR_OK);
    cr_assert_eq(sonar_output_start(output, &err), SONAR_OK);
    snprintf(path, sizeof path, "/tmp/sonar-test-watch-%d.yaml", (int)getpid());
    FILE *config = fopen(path, "w");
    fprintf(config,
            "schema: 1\narray: {id: 1, geometry: {line: {sensors: 4, spacing_m: 1}}}\n"
            "sound_speed_mps: 1500\nfs_hz: 2000\ningest: {endpoints: [\"ipc:///tmp/in\"]}\n"
            "dft: {length: 2048}\ncbf: {band_hz: [100, 200]}\noutput: {endpoint: "
            "\"tcp://127.0.0.1%s\"}\n",
            strrchr(sonar_output_endpoint(output), ':'));
    fclose(config);
    pid_t child = fork();
    if (child == 0) { /* the reader; its figures decide the exit code */
        snprintf(arguments, sizeof arguments, "--config %s --json --count 3 --timeout 10", path);
        bool good = watch_run(arguments, text, sizeof text) == 0;
        int lines = 0;
        for (char *save = NULL, *line = strtok_r(text, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save)) {
            cJSON *root = cJSON_Parse(line);
            good = good && root &&
                   cJSON_GetArraySize(cJSON_GetObjectItem(root, "data")) == SCENE_CBF_DIRECTIONS &&
                   strstr(line, "\"utc_ns\":17636544001234567");
            cJSON_Delete(root);
            lines++;
        }
        _exit(good && lines == 3 ? 0 : 1);
    }
    cr_assert(output_wait_wanted(output, SONAR_WANT(SONAR_CBF_AZIMUTH)));
    for (size_t i = 0; i < 5; i++)
        cr_assert(sonar_output_post(output, &scene.result[i]));
    int code;
    waitpid(child, &code, 0);
    cr_assert(WIFEXITED(code) && WEXITSTATUS(code) == 0);
    cr_assert(output_wait_wanted(output, 0));
    sonar_output_destroy(output);
    zmq_ctx_term(context);
    unlink(path);
}
