/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A socket whose peers hold too much memory is closed and opened again. Here another program takes
 * its endpoint in between, as libzmq does while it frees much: the stage lives, says so, and opens
 * the socket when the endpoint is free. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "digitiser.h"
#include "ingest/ingest.h"
#include "net/net.h"
#include "output_scene.h"
#include "port.h"
#include "process.h"

enum { HELD_BYTES = 64 << 20, PATIENCE_MS = 60000 };

static char endpoint[48];
static void *context;
static box folder;
static sonar_memory *memory;

/* A machine of 64 MiB, of which this process soon holds too much. */
static void begin(void) {
    folder = box_open();
    mkdir(box_path(&folder, "proc"), 0755);
    box_write(&folder, "proc/meminfo", "MemTotal: 65536 kB\nMemAvailable: 65536 kB\n");
    memory = sonar_memory_create(folder.dir);
    cr_assert_not_null(memory);
    sonar_memory_begin(memory);
    context = zmq_ctx_new();
    own_endpoint("tcp", endpoint);
}

static void end(void) {
    zmq_ctx_term(context);
    sonar_memory_destroy(memory);
    box_close(&folder);
}

/* A listening socket at the endpoint, as soon as it is free. */
static int take_endpoint(void) {
    const char *port = strrchr(endpoint, ':'), *address = endpoint + strlen("tcp://");
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)(port - address), address);
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port + 1))};
    cr_assert_eq(inet_pton(AF_INET, text, &name.sin_addr), 1);
    const int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    for (int i = 0; i < 10 * PATIENCE_MS; i++, usleep(100))
        if (bind(fd, (const struct sockaddr *)&name, sizeof name) == 0 && listen(fd, 1) == 0)
            return fd;
    cr_assert_fail("the socket stays open");
    return -1;
}

static int close_and_take(void) {
    char *held = sonar_alloc(HELD_BYTES, 1);
    cr_assert_not_null(held);
    memset(held, 1, HELD_BYTES);
    const int thief = take_endpoint();
    free(held);
    return thief;
}

static void await(bool closed, sonar_peer_counters (*count)(void)) {
    for (int i = 0; i < PATIENCE_MS && count().closed != closed; i++)
        usleep(1000);
    cr_assert_eq(count().closed, closed);
    cr_assert_geq(count().reopened_memory, 1);
}

/* The endpoint is another program's for a second; the stage lives, and tells it. */
static void take_for_a_second(sonar_peer_counters (*count)(void), bool (*alive)(void)) {
    const int thief = close_and_take();
    await(true, count);
    sleep(1);
    cr_expect(alive());
    cr_expect_eq(count().closed, 1);
    close(thief);
    await(false, count);
}

/* ---- results --------------------------------------------------------------------------------- */

static output_scene scene;
static sonar_output *output;

static sonar_peer_counters of_output(void) {
    sonar_output_counters counters;
    sonar_output_read_counters(output, &counters);
    return counters.peers;
}

static bool output_lives(void) {
    return sonar_output_alive(output);
}

Test(reopen, results, .init = begin, .fini = end) {
    sonar_error err = {0};
    output_scene_make(&scene, context, endpoint);
    scene.spec.memory = memory;
    cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err), SONAR_OK);
    cr_assert_eq(sonar_output_start(output, &err), SONAR_OK, "%s", err.text);
    take_for_a_second(of_output, output_lives);
    void *reader = output_subscriber(context, endpoint, "cbf.azimuth");
    output_message message;
    cr_assert(output_wait_wanted(output, SONAR_WANT(SONAR_CBF_AZIMUTH)));
    output_scene_fill(&scene, 0, 0);
    cr_assert(sonar_output_post(output, &scene.result[0]));
    cr_assert(output_receive(reader, &message, PATIENCE_MS));
    output_message_clear(&message);
    zmq_close(reader);
    output_wait_wanted(output, 0);
    sonar_output_destroy(output);
}

/* ---- samples --------------------------------------------------------------------------------- */

static sonar_ingest *ingest;

static sonar_peer_counters of_ingest(void) {
    sonar_ingest_counters counters;
    sonar_ingest_read_counters(ingest, &counters);
    return counters.peers;
}

static bool ingest_lives(void) {
    return sonar_ingest_alive(ingest);
}

Test(reopen, samples, .init = begin, .fini = end) {
    const char *const endpoints[] = {endpoint};
    const sonar_ingest_spec spec = {.zmq_context = context,
                                    .endpoints = endpoints,
                                    .endpoint_count = 1,
                                    .high_water_mark = 10,
                                    .max_message_bytes = 4096,
                                    .array_id = 9,
                                    .channels = 4,
                                    .fs_hz = 1000,
                                    .window_length = 100,
                                    .hop = 50,
                                    .queue_windows = 10,
                                    .max_skew_samples = 4000,
                                    .restart_after_ms = 60000,
                                    .silent_after_ms = 1000,
                                    .cpu = -1,
                                    .memory = memory,
                                    .threads = 1};
    sonar_error err = {0};
    cr_assert_eq(sonar_ingest_create(&spec, sonar_host_serial(), &ingest, &err), SONAR_OK);
    cr_assert_eq(sonar_ingest_start(ingest, &err), SONAR_OK, "%s", err.text);
    take_for_a_second(of_ingest, ingest_lives);
    digitiser sender = digitiser_open(endpoint, 4, 0, 4, 10);
    sonar_ingest_counters counters = {0};
    digitiser_send(&sender, 1);
    for (int i = 0; i < PATIENCE_MS && counters.frames_received == 0; i++, usleep(1000))
        sonar_ingest_read_counters(ingest, &counters);
    cr_expect_eq(counters.frames_received, 1);
    digitiser_close(&sender);
    sonar_ingest_destroy(ingest);
}
