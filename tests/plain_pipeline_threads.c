/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The whole pipeline in one process for ThreadSanitizer: a digitiser, a subscriber and the control
 * thread, with both overload policies, on the CPU and on a device, stopped at the end of the stream
 * or in the middle, and started again in the same process. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "digitiser.h"
#include "feed.h"
#include "fake_device.h"
#include "process.h"

enum { SENSORS = 8, LENGTH = 64, HOP = 32, FRAME = 48, FRAMES = 400 };
enum { WINDOWS = (FRAMES * FRAME - LENGTH) / HOP + 1 };
enum { LEAST = 10 /* windows that come whatever is dropped */, PATIENCE = 6000 /* ticks */ };

struct scene {
    char in[128], out[128];
    const char *overload;
    atomic_bool heard, quit;
    atomic_int windows; /* windows whose messages were received, */
    int least;          /* number of messages that have to come */
    double last;        /* the newest; the reader's until it is joined */
};

static void fail(const char *what, const char *detail) {
    fprintf(stderr, "plain_pipeline_threads: %s: %s\n", what, detail);
    exit(1);
}

static void no_log(void *ctx, sonar_level level, const char *where, const char *line) {
    atomic_int *lines = ctx; /* from any thread */
    (void)level, (void)where, (void)line;
    atomic_fetch_add(lines, 1);
}

static sonar_config *make_config(const struct scene *scene) {
    char text[2048];
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    snprintf(text, sizeof text,
             "schema: 1\n"
             "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
             "sound_speed_mps: 1500\n"
             "fs_hz: 8000\n"
             "ingest: {endpoints: [\"%s\"], overload: %s, max_missing_share: 1}\n"
             "dft: {length: %d, hop: %d}\n"
             "cbf: {band_hz: [600, 950], ranges_m: [50, 200]}\n"
             "lofar: {band_hz: [300, 950]}\n"
             "mvdr: {band_hz: [600, 950], length: 32, hop: 16, snapshots: 8}\n"
             "output: {endpoint: \"%s\", high_water_mark: 100000}\n"
             "runtime: {backend: cpu, threads: 3}\n",
             SENSORS, scene->in, scene->overload, LENGTH, HOP, scene->out);
    if (sonar_config_parse("threads.yaml", text, strlen(text), &config, report)) {
        sonar_report_write(report, stderr);
        fail("the configuration was refused", scene->overload);
    }
    sonar_report_destroy(report);
    return config;
}

static void *digitise(void *arg) {
    struct scene *scene = arg;
    digitiser d = digitiser_open(scene->in, SENSORS, 0, SENSORS, FRAME);
    int patience_ms = 100, linger = 0;
    zmq_setsockopt(d.socket, ZMQ_SNDTIMEO, &patience_ms, sizeof patience_ms);
    for (int i = 0; (i < FRAMES || scene->windows < LEAST) && !atomic_load(&scene->quit); i++)
        digitiser_send(&d, 1);
    while (!atomic_load(&scene->quit))
        usleep(1000); /* what is on its way must arrive */
    zmq_setsockopt(d.socket, ZMQ_LINGER, &linger, sizeof linger);
    digitiser_close(&d);
    return NULL;
}

static void *listen_in(void *arg) {
    struct scene *scene = arg;
    subscriber s = subscribe(scene->out, "detections", "mvdr.", "cbf.", "element.", "status", NULL);
    scene->last = -1;
    while (!atomic_load(&scene->quit)) {
        message m;
        if (!receive(&s, &m, 20))
            continue;
        if (!strcmp(m.topic, "detections")) {
            double window = header_number(m.head, "window");
            if (window <= scene->last)
                fail("windows out of order", scene->overload);
            scene->last = window;
            scene->windows++;
        }
        atomic_store(&scene->heard, true);
        message_free(&m);
    }
    unsubscribe(&s);
    return NULL;
}

/* Runs a pipeline with all threads for a number of ticks of 10 ms, or until the required windows
 * have come, and stops it. */
static void run(struct scene *scene, sonar_pipeline *pipeline, int ticks, int timeout_ms) {
    pthread_t reader, digitiser;
    sonar_error err;
    atomic_store(&scene->heard, false);
    atomic_store(&scene->quit, false);
    scene->windows = 0;
    if (sonar_pipeline_start(pipeline, &err))
        fail(err.where, err.text);
    if (pthread_create(&reader, NULL, listen_in, scene))
        fail("no thread", "reader");
    do { /* until the reader is known, so that it misses no window */
        if (sonar_pipeline_tick(pipeline, &err))
            fail(err.where, err.text);
        usleep(10000);
    } while (!atomic_load(&scene->heard));
    if (pthread_create(&digitiser, NULL, digitise, scene))
        fail("no thread", "digitiser");
    for (int i = 0; i < ticks || (i < PATIENCE && scene->windows < scene->least); i++) {
        if (sonar_pipeline_tick(pipeline, &err))
            fail(err.where, err.text);
        usleep(10000);
    }
    sonar_pipeline_stop(pipeline, timeout_ms);
    if (timeout_ms)
        usleep(300000); /* the last messages on their way to the reader */
    atomic_store(&scene->quit, true);
    pthread_join(reader, NULL);
    pthread_join(digitiser, NULL);
    if (!sonar_pipeline_tick(pipeline, &err))
        fail("a tick after the end passed", scene->overload);
}

static void play(struct scene *scene, const struct layout *layout, const char *overload, int least,
                 int ticks, int timeout_ms) {
    atomic_int lines = 0;
    sonar_error err;
    sonar_pipeline *pipeline;
    scene->overload = overload, scene->least = least;
    sonar_config *config = make_config(scene);
    if (sonar_pipeline_create_with(layout, config, no_log, &lines, &pipeline, &err))
        fail(err.where, err.text);
    run(scene, pipeline, ticks, timeout_ms);
    sonar_pipeline_destroy(pipeline);
    sonar_config_destroy(config);
    if (!atomic_load(&lines))
        fail("nothing was logged", overload);
}

/* All windows, and stopped in the middle. */
static void play_block(struct scene *scene, const struct layout *layout) {
    play(scene, layout, "block", WINDOWS, 0, 5000);
    if (scene->windows < WINDOWS) {
        fprintf(stderr, "%d of %d windows came\n", scene->windows, WINDOWS);
        fail("block mode lost windows", layout ? "on a device" : "");
    }
    play(scene, layout, "block", 0, 3, 0);
}

int main(void) {
    box place = box_open();
    struct scene scene = {0};
    const struct layout device = feed_layout(fake_backend(FAKE_LAZY | FAKE_GRAPHS));
    snprintf(scene.in, sizeof scene.in, "ipc://%.60s/in", place.dir);
    snprintf(scene.out, sizeof scene.out, "ipc://%.60s/out", place.dir);
    for (int round = 0; round < 2; round++) {
        play_block(&scene, NULL);
        play(&scene, NULL, "drop_oldest", LEAST, 100, 5000);
        if (scene.windows < LEAST)
            fail("hardly a window came", scene.overload);
        play(&scene, NULL, "drop_oldest", 0, 3, 0);
        play(&scene, NULL, "drop_oldest", 0, 0, 0);
        /* its early copies may read samples that are being written if windows are dropped */
        fake = (struct fake_device){0};
        play_block(&scene, &device);
    }
    box_close(&place);
    return 0;
}
