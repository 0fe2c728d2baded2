/* SPDX-License-Identifier: GPL-3.0-or-later */
/* All threads of the publisher at once, for ThreadSanitizer: a data thread posts and reclaims, a
 * control thread posts the status and reads counters, readers join and leave, and stop is called in
 * the middle. Every result must be returned exactly once. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "output_scene.h"

enum { WINDOWS = 1500 };

static output_scene scene;
static sonar_output *output;
static atomic_bool over;
static size_t posted, back;

static void *data_main(void *arg) {
    sonar_result *idle[SCENE_RESULTS];
    size_t idles = SCENE_RESULTS;
    for (size_t i = 0; i < SCENE_RESULTS; i++)
        idle[i] = &scene.result[i];
    for (uint64_t window = 0; window < WINDOWS && !atomic_load(&over); window++) {
        for (sonar_result *result; (result = sonar_output_reclaim(output)); back++)
            idle[idles++] = result;
        if (idles == 0 || (sonar_output_wanted(output) & SONAR_WANT(SONAR_CBF_LOFAR) && !arg))
            usleep(100);
        if (idles == 0)
            continue;
        idle[idles - 1]->window = window;
        idle[idles - 1]->arrival_ns = sonar_monotonic_ns();
        if (sonar_output_post(output, idle[idles - 1])) {
            idles--;
            posted++;
        }
    }
    return NULL;
}

static void *control_main(void *arg) {
    sonar_status status = {.health = "ok"};
    while (!atomic_load(&over)) {
        sonar_percentiles latency;
        sonar_output_read_counters(output, &status.output);
        sonar_output_read_latency(output, &latency);
        sonar_output_post_status(output, &status);
        usleep(1000);
    }
    return arg;
}

static void *reader_main(void *context) {
    while (!atomic_load(&over)) {
        void *socket = output_subscriber(context, sonar_output_endpoint(output), "");
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "cbf.lofar", 9);
        output_message message;
        for (int i = 0; i < 20 && output_receive(socket, &message, 50); i++)
            output_message_clear(&message);
        zmq_close(socket);
    }
    return NULL;
}

static bool round_of(bool block, bool cut) {
    void *context = zmq_ctx_new(), *peers = zmq_ctx_new();
    sonar_error err = {0};
    output_scene_make(&scene, context, "tcp://127.0.0.1:*");
    scene.spec.queue_results = 3;
    scene.spec.block = block;
    posted = back = 0;
    atomic_store(&over, false);
    if (sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err) ||
        sonar_output_start(output, &err)) {
        fprintf(stderr, "%s: %s\n", err.where, err.text);
        return false;
    }
    pthread_t data, control, reader;
    pthread_create(&data, NULL, data_main, cut ? output : NULL);
    pthread_create(&control, NULL, control_main, NULL);
    pthread_create(&reader, NULL, reader_main, peers);
    if (cut) { /* while the data thread still posts */
        usleep(100000);
        sonar_output_stop(output, 10);
    }
    pthread_join(data, NULL);
    atomic_store(&over, true);
    pthread_join(control, NULL);
    pthread_join(reader, NULL);
    if (!cut) /* readers gone first: see test_output.c */
        output_wait_wanted(output, 0);
    sonar_output_stop(output, 1000);
    while (sonar_output_reclaim(output))
        back++;
    sonar_output_destroy(output);
    zmq_ctx_term(context);
    zmq_ctx_term(peers);
    if (posted == 0 || posted != back)
        fprintf(stderr, "posted %zu, got back %zu\n", posted, back);
    return posted > 0 && posted == back;
}

int main(void) {
    bool good = round_of(false, false) && round_of(true, false) && round_of(true, true) &&
                round_of(false, true);
    return good ? 0 : 1;
}
