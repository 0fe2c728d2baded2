/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A row is all that configuration and output need for a new topic: this program compiles its own
 * copy of them with one more row (one_more_topic.h), and checks that the topic is accepted,
 * subscribed to, described and sent. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "config/config.h"
#include "core/core.h"
#include "output_scene.h"

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static void the_configuration_accepts_it(void) {
    static const char text[] = "schema: 1\n"
                               "array: {geometry: {line: {sensors: 4, spacing_m: 1}}}\n"
                               "fs_hz: 2000\n"
                               "cbf: {band_hz: [100, 700]}\n"
                               "output: {topics: [status, test.noise]}\n";
    sonar_report *report = sonar_report_create();
    sonar_config *config = NULL;
    CHECK(!sonar_config_parse("test", text, strlen(text), &config, report));
    CHECK(config->output_topics == (SONAR_WANT(SONAR_STATUS) | SONAR_WANT(SONAR_TEST_NOISE)));
    sonar_config_destroy(config);
    sonar_report_destroy(report);
}

static void its_row_says_what_it_is(void) {
    const sonar_extents extents = {.ranges = 5, .cbf_bins = 11, .mvdr_bins = 2, .mvdr_ranges = 3};
    size_t shape[2];
    CHECK(sonar_topic_shape(SONAR_TEST_NOISE, &extents, shape) == 2);
    CHECK(shape[0] == 3 && shape[1] == 2);
    CHECK(sonar_topics_needed(SONAR_WANT(SONAR_TEST_NOISE)) ==
          (SONAR_WANT(SONAR_TEST_NOISE) | SONAR_WANT(SONAR_ELEMENT_PSD)));
    CHECK(sonar_topics_by(SONAR_MADE_BY_MVDR) & SONAR_WANT(SONAR_TEST_NOISE));
}

static void check_message(const output_message *message, const int16_t *power) {
    CHECK(!strcmp(message->topic, "test.noise"));
    CHECK(strstr(message->text, "\"dtype\":\"<i2\",\"shape\":[3,2],"
                                "\"axes\":[{\"name\":\"range\",\"unit\":\"m\","));
    CHECK(strstr(message->text, "{\"name\":\"frequency\",\"unit\":\"Hz\",\"start\":601.5625,"
                                "\"step\":3.90625}],\"unit\":\"uPa^2/Hz\""));
    CHECK(strstr(message->text, "\"band_hz\":[610,940],\"sensors_used\":124,\"snapshots\":63.5,"));
    CHECK(message->body_bytes == 6 * sizeof *power);
    CHECK(!memcmp(message->body, power, message->body_bytes));
}

static void a_reader_receives_it(void) {
    static output_scene scene;
    static const int16_t power[6] = {1, 2, 3, 4, 5, 6};
    sonar_error err = {0};
    sonar_output *output;
    output_message message;
    void *context = zmq_ctx_new(), *peers = zmq_ctx_new();
    output_scene_make(&scene, context, "tcp://127.0.0.1:*");
    CHECK(!sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err));
    CHECK(!sonar_output_start(output, &err));
    void *all = output_subscriber(peers, sonar_output_endpoint(output), "");
    CHECK(output_wait_wanted(output, sonar_topics_each(SONAR_EACH_WINDOW) |
                                         sonar_topics_each(SONAR_EACH_SECOND)));
    zmq_close(all);
    CHECK(output_wait_wanted(output, 0));
    void *socket = output_subscriber(peers, sonar_output_endpoint(output), "test.");
    CHECK(output_wait_wanted(output, SONAR_WANT(SONAR_TEST_NOISE)));
    sonar_result *result = &scene.result[0];
    result->surface[SONAR_TEST_NOISE] =
        sonar_buffer_view((void *)(uintptr_t)power, SONAR_S16, 2, (const size_t[]){3, 2});
    result->present |= SONAR_WANT(SONAR_TEST_NOISE);
    CHECK(sonar_output_post(output, result));
    CHECK(output_receive(socket, &message, 10000));
    check_message(&message, power);
    output_message_clear(&message);
    zmq_close(socket);
    output_wait_wanted(output, 0);
    sonar_output_destroy(output);
    zmq_ctx_term(context);
    zmq_ctx_term(peers);
}

int main(void) {
    the_configuration_accepts_it();
    its_row_says_what_it_is();
    a_reader_receives_it();
    puts("one row added a topic");
    return 0;
}
