/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ingest over real sockets: digitisers that push and publish, broken messages, and stopping. */
#include "ingest/ingest.h"

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "frames.h"
#include "port.h"
#include "process.h"

enum { PATIENCE_MS = 20000 }; /* only reached if the code is broken */

static size_t threads = 1; /* a test that changes it has a process of its own */

static box folder; /* of the tests with an ipc endpoint */

static void set_up(void) {
    folder = box_open();
}

static void tear_down(void) {
    box_close(&folder);
}

static const char *ipc_endpoint(void) {
    static char endpoint[96];
    snprintf(endpoint, sizeof endpoint, "ipc://%s/in", folder.dir);
    return endpoint;
}

static const char *tcp_endpoint(void) {
    static char endpoint[48];
    own_endpoint("tcp", endpoint);
    return endpoint;
}

static sonar_ingest_spec spec_for(void *context, const char *const *endpoint) {
    return (sonar_ingest_spec){.zmq_context = context,
                               .endpoints = endpoint,
                               .endpoint_count = 1,
                               .high_water_mark = 1000,
                               .max_message_bytes = 1 << 20,
                               .array_id = 9,
                               .channels = 4,
                               .fs_hz = 1000,
                               .window_length = 100,
                               .hop = 50,
                               .queue_windows = 100,
                               .max_skew_samples = 4000,
                               .restart_after_ms = 60000,
                               .silent_after_ms = 1000,
                               .cpu = -1,
                               .threads = threads};
}

static sonar_ingest *start(const sonar_ingest_spec *spec) {
    sonar_ingest *ingest;
    sonar_error err;
    cr_assert(sonar_ingest_create(spec, sonar_host_serial(), &ingest, &err) == SONAR_OK, "%s",
              err.text);
    cr_assert(sonar_ingest_start(ingest, &err) == SONAR_OK, "%s: %s", err.where, err.text);
    return ingest;
}

static void *digitiser(void *context, int type, const char *endpoint) {
    int linger = PATIENCE_MS, unlimited = 0;
    void *socket = zmq_socket(context, type);
    cr_assert(socket);
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    cr_assert((type == ZMQ_PUSH ? zmq_connect : zmq_bind)(socket, endpoint) == 0);
    return socket;
}

static void send_frame(void *socket, uint32_t first_channel, uint32_t channels, uint64_t first,
                       uint32_t samples) {
    sonar_frame frame = {.array_id = 9,
                         .first_channel = first_channel,
                         .channels = channels,
                         .samples = samples,
                         .type = SONAR_S24,
                         .epoch = 3,
                         .sequence = first / samples,
                         .first_sample = first,
                         .fs_hz = 1000};
    test_frame made = test_frame_make(&frame);
    cr_assert(zmq_send(socket, made.header, sizeof made.header, ZMQ_SNDMORE) >= 0);
    cr_assert(zmq_send(socket, made.payload, made.payload_bytes, 0) >= 0);
    test_frame_free(&made);
}

static sonar_ingest_counters counters(const sonar_ingest *ingest) {
    sonar_ingest_counters count;
    sonar_ingest_read_counters(ingest, &count);
    return count;
}

static void await_frames(const sonar_ingest *ingest, uint64_t received) {
    for (int i = 0; counters(ingest).frames_received < received; i++) {
        cr_assert(i < PATIENCE_MS, "%lu of %lu frames came",
                  (unsigned long)counters(ingest).frames_received, (unsigned long)received);
        usleep(1000);
    }
}

static void await_accepted(const sonar_ingest *ingest, uint64_t accepted) {
    for (int i = 0; counters(ingest).frames_accepted < accepted; i++) {
        cr_assert(i < PATIENCE_MS);
        usleep(1000);
    }
}

/* Waits only on the descriptor, as the pipeline does. */
static void await_window(sonar_ingest *ingest, sonar_window *window) {
    struct pollfd poller = {.fd = sonar_ingest_fd(ingest), .events = POLLIN};
    do
        cr_assert(poll(&poller, 1, PATIENCE_MS) == 1, "no window comes");
    while (!sonar_ingest_take(ingest, window));
}

static void check_windows(sonar_ingest *ingest, uint64_t count) {
    sonar_window window;
    for (uint64_t i = 0; i < count; i++) {
        await_window(ingest, &window);
        cr_assert(window.window == i && window.first_sample == 50 * i);
        cr_assert(window.missing_mean == 0);
        cr_assert(test_window_errors(&window, window.first_sample, 100) == 0);
        sonar_ingest_release(ingest, &window);
    }
}

static void stream_from_two(const char *endpoint, const char *target) {
    void *context = zmq_ctx_new();
    sonar_ingest_spec spec = spec_for(context, &endpoint);
    sonar_ingest *ingest = start(&spec);
    void *left = digitiser(context, ZMQ_PUSH, target);
    void *right = digitiser(context, ZMQ_PUSH, target);
    for (uint64_t f = 0; f < 30; f++)
        send_frame(left, 0, 1, f * 100, 100);
    for (uint64_t f = 0; f < 60; f++)
        send_frame(right, 1, 3, f * 50, 50);
    await_frames(ingest, 90);
    check_windows(ingest, 59);
    sonar_ingest_counters c = counters(ingest);
    cr_assert(c.frames_accepted == 90 && c.windows_taken == 59 && c.sequence_gaps == 0);
    cr_assert(c.samples_stored == 4 * 3000 && c.blocks_seen == 2);
    zmq_close(left), zmq_close(right);
    sonar_ingest_destroy(ingest);
    zmq_ctx_term(context);
}

Test(ingest, two_digitisers_over_inproc) {
    stream_from_two("inproc://samples", "inproc://samples");
}

Test(ingest, two_digitisers_over_tcp) {
    const char *endpoint = tcp_endpoint();
    stream_from_two(endpoint, endpoint);
}

Test(ingest, two_digitisers_over_tcp_on_any_address) {
    const int port = free_port(SOCK_STREAM);
    char endpoint[64], target[64];
    snprintf(endpoint, sizeof endpoint, "tcp://*:%d", port);
    snprintf(target, sizeof target, "tcp://127.0.0.1:%d", port);
    stream_from_two(endpoint, target);
}

Test(ingest, two_digitisers_over_ipc, .init = set_up, .fini = tear_down) {
    stream_from_two(ipc_endpoint(), ipc_endpoint());
}

Test(ingest, two_digitisers_over_ipc_and_several_threads, .init = set_up, .fini = tear_down) {
    threads = 3;
    stream_from_two(ipc_endpoint(), ipc_endpoint());
}

Test(ingest, several_endpoints_and_subscription) {
    void *context = zmq_ctx_new();
    const char *const endpoints[] = {"inproc://left", "inproc://right"};
    void *left = digitiser(context, ZMQ_PUB, endpoints[0]);
    void *right = digitiser(context, ZMQ_PUB, endpoints[1]);
    sonar_ingest_spec spec = spec_for(context, endpoints);
    spec.endpoint_count = 2;
    spec.socket = SONAR_SUB;
    sonar_ingest *ingest = start(&spec);
    /* Messages before the subscription has arrived are lost, so wait for it first. */
    for (int i = 0; counters(ingest).blocks_seen < 2; i++) {
        cr_assert(i < PATIENCE_MS);
        send_frame(left, 0, 2, 0, 50);
        send_frame(right, 2, 2, 0, 50);
        usleep(1000);
    }
    for (uint64_t f = 1; f < 21; f++) {
        send_frame(left, 0, 2, f * 50, 50);
        send_frame(right, 2, 2, f * 50, 50);
    }
    check_windows(ingest, 20);
    zmq_close(left), zmq_close(right);
    sonar_ingest_destroy(ingest);
    zmq_ctx_term(context);
}

static void send_parts(void *socket, int parts, size_t bytes) {
    char part[100] = {0};
    for (int i = 1; i <= parts; i++)
        cr_assert(zmq_send(socket, part, bytes, i < parts ? ZMQ_SNDMORE : 0) >= 0);
}

static void send_wrong_forms(void) {
    const char *endpoint = "inproc://samples";
    void *context = zmq_ctx_new();
    sonar_ingest_spec spec = spec_for(context, &endpoint);
    sonar_ingest *ingest = start(&spec);
    void *socket = digitiser(context, ZMQ_PUSH, endpoint);
    for (int parts = 1; parts <= 7; parts++) { /* between good ones: nothing gets out of step */
        send_frame(socket, 0, 4, (uint64_t)(parts - 1) * 50, 50);
        send_parts(socket, parts, 64);
        send_parts(socket, parts, 0);
    }
    send_frame(socket, 0, 4, 350, 50);
    await_frames(ingest, 7 + 14 + 1);
    check_windows(ingest, 7);
    sonar_ingest_counters c = counters(ingest);
    cr_assert(c.frames_dropped[SONAR_FRAME_MALFORMED] == 14 && c.frames_accepted == 8);
    zmq_close(socket);
    sonar_ingest_destroy(ingest);
    zmq_ctx_term(context);
}

Test(ingest, messages_of_a_wrong_form_are_counted_and_skipped) {
    send_wrong_forms();
    threads = 3;
    send_wrong_forms();
}

Test(ingest, an_endpoint_in_use_is_reported_plainly) {
    const char *endpoint = tcp_endpoint();
    void *context = zmq_ctx_new();
    sonar_ingest_spec spec = spec_for(context, &endpoint);
    sonar_ingest *first = start(&spec), *second;
    sonar_error err = {0};
    cr_assert(sonar_ingest_create(&spec, sonar_host_serial(), &second, &err) == SONAR_OK);
    cr_assert(sonar_ingest_start(second, &err) == SONAR_ESYS);
    cr_assert(!strcmp(err.where, endpoint));
    cr_assert(strstr(err.text, "in use: another program"), "%s", err.text);
    sonar_ingest_stop(first);
    /* libzmq closes the listener in its own time */
    for (int i = 0; sonar_ingest_start(second, &err); i++) {
        cr_assert(i < PATIENCE_MS, "%s", err.text);
        usleep(1000);
    }
    cr_assert(sonar_ingest_start(second, &err) == SONAR_ESTATE);
    sonar_ingest_destroy(first);
    sonar_ingest_destroy(second);
    zmq_ctx_term(context);
}

Test(ingest, nonsense_endpoints_and_specs_are_refused) {
    void *context = zmq_ctx_new();
    const char *bad[] = {"tcp://127.0.0.1", "nonsense", "tcp://300.1.1.1:5",
                         "ipc:///no/such/dir/x"};
    sonar_ingest *ingest;
    sonar_error err = {0};
    for (size_t i = 0; i < 4; i++) {
        sonar_ingest_spec spec = spec_for(context, &bad[i]);
        cr_assert(sonar_ingest_create(&spec, sonar_host_serial(), &ingest, &err) == SONAR_OK);
        cr_assert(sonar_ingest_start(ingest, &err) == SONAR_ESYS, "%s", bad[i]);
        cr_assert(!strcmp(err.where, bad[i]));
        sonar_ingest_stop(ingest); /* harmless */
        sonar_ingest_destroy(ingest);
    }
    sonar_ingest_spec spec = spec_for(context, bad);
    spec.high_water_mark = 0;
    cr_assert(sonar_ingest_create(&spec, sonar_host_serial(), &ingest, &err) == SONAR_EINVAL);
    spec = spec_for(context, bad), spec.hop = 0;
    cr_assert(sonar_ingest_create(&spec, sonar_host_serial(), &ingest, &err) == SONAR_EINVAL);
    cr_assert(!ingest);
    sonar_ingest_destroy(NULL);
    zmq_ctx_term(context);
}

static sonar_ingest *start_blocking(void *context, const char *const *endpoint, void **socket) {
    sonar_ingest_spec spec = spec_for(context, endpoint);
    spec.overload = SONAR_BLOCK;
    spec.queue_windows = 2;
    spec.high_water_mark = 5;
    sonar_ingest *ingest = start(&spec);
    *socket = digitiser(context, ZMQ_PUSH, *endpoint);
    for (uint64_t f = 0; f < 200; f++)
        send_frame(*socket, 0, 4, f * 50, 50);
    return ingest;
}

static void block_and_lose_nothing(void) {
    const char *endpoint = "inproc://samples";
    void *context = zmq_ctx_new(), *socket;
    sonar_ingest *ingest = start_blocking(context, &endpoint, &socket);
    sonar_window window;
    await_window(ingest, &window); /* taken and kept, so that the others wait behind it */
    for (int i = 0; counters(ingest).windows_offered < 3; i++)
        usleep(1000);
    usleep(50000);
    cr_assert(counters(ingest).windows_offered == 3);
    cr_assert(test_window_errors(&window, 0, 100) == 0);
    sonar_ingest_release(ingest, &window);
    for (uint64_t i = 1; i < 199; i++) {
        await_window(ingest, &window);
        cr_assert(window.window == i);
        cr_assert(test_window_errors(&window, 50 * i, 100) == 0);
        sonar_ingest_release(ingest, &window);
    }
    cr_assert(counters(ingest).frames_accepted == 200);
    cr_assert(counters(ingest).windows_dropped[SONAR_WINDOW_OVERLOAD] == 0);
    zmq_close(socket);
    sonar_ingest_destroy(ingest);
    zmq_ctx_term(context);
}

Test(ingest, block_mode_waits_for_the_data_thread_and_loses_nothing) {
    for (threads = 1; threads < 5; threads += 3)
        block_and_lose_nothing();
}

/* No window waits when the held one is released, but the stream advances: the frame that had to
 * wait is stored, and the then complete samples are to be uploaded. */
static void tell_of_chunks_after_waiting(void) {
    const char *endpoint = "inproc://samples";
    void *context = zmq_ctx_new();
    sonar_ingest_spec spec = spec_for(context, &endpoint);
    spec.overload = SONAR_BLOCK;
    spec.queue_windows = 1;
    spec.max_skew_samples = 100;
    spec.chunk_samples = 10;
    sonar_ingest *ingest = start(&spec);
    void *socket = digitiser(context, ZMQ_PUSH, endpoint);
    sonar_window window;
    struct pollfd poller = {.fd = sonar_ingest_fd(ingest), .events = POLLIN};
    send_frame(socket, 0, 4, 0, 100);
    await_window(ingest, &window);
    const uint64_t frames = sonar_ingest_capacity(&spec) / 50 + 1;
    for (uint64_t f = 2; f < frames; f++) /* half of the channels: windows are counted missing */
        send_frame(socket, 0, 2, f * 50, 50);
    for (int i = 0; !counters(ingest).frames_held; i++) {
        cr_assert(i < PATIENCE_MS, "no frame had to wait");
        usleep(1000);
    }
    cr_assert(counters(ingest).frames_accepted == frames - 2, "the last one does not fit");
    cr_assert(counters(ingest).frames_received == frames - 2, "counted when it is dealt with");
    uint64_t ready = sonar_ingest_ready(ingest);
    cr_assert(!sonar_ingest_take(ingest, &(sonar_window){0}));
    sonar_ingest_release(ingest, &window);
    await_accepted(ingest, frames - 1);
    cr_assert(sonar_ingest_ready(ingest) > ready);
    cr_assert(poll(&poller, 1, 1000) == 1, "the data thread was not told");
    zmq_close(socket);
    sonar_ingest_destroy(ingest);
    zmq_ctx_term(context);
}

Test(ingest, block_mode_announces_chunks_that_a_waiting_frame_completes) {
    for (threads = 1; threads < 5; threads += 3)
        tell_of_chunks_after_waiting();
}

/* libzmq gives an endpoint up after a message above the limit. */
Test(ingest, an_oversized_message_does_not_end_a_subscription_for_ever, .init = set_up,
     .fini = tear_down) {
    const char *endpoint = ipc_endpoint();
    void *here = zmq_ctx_new(), *there = zmq_ctx_new();
    static const uint8_t large[5000];
    sonar_ingest_spec spec = spec_for(here, &endpoint);
    spec.socket = SONAR_SUB;
    spec.max_message_bytes = 4000;
    spec.window_length = spec.hop = 10;
    void *socket = zmq_socket(there, ZMQ_PUB);
    int zero = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    cr_assert(zmq_bind(socket, endpoint) == 0);
    sonar_ingest *ingest = start(&spec);
    uint64_t f = 0;
    for (int round = 0; round < 2; round++) {
        uint64_t before = counters(ingest).frames_accepted;
        for (int i = 0; counters(ingest).frames_accepted == before; i++) {
            cr_assert(i < PATIENCE_MS, "nothing comes any more");
            send_frame(socket, 0, 4, 10 * f++, 10);
            usleep(1000);
        }
        zmq_send(socket, large, sizeof large, 0);
        for (int i = 0; counters(ingest).peers.reopened_lost == (uint64_t)round; i++) {
            cr_assert(i < PATIENCE_MS, "the connection that libzmq gave up was not noticed");
            usleep(1000);
        }
    }
    sonar_ingest_destroy(ingest);
    zmq_close(socket);
    zmq_ctx_term(there);
    zmq_ctx_term(here);
}

/* A heartbeat would take a peer that is not being read for dead after 3 s, disconnect it and lose
 * messages on their way. */
Test(ingest, block_mode_loses_nothing_while_the_data_thread_pauses_for_long, .init = set_up,
     .fini = tear_down) {
    enum { FRAMES = 200, SAMPLES = 10000 };
    const char *endpoint = ipc_endpoint();
    void *here = zmq_ctx_new(), *there = zmq_ctx_new();
    sonar_ingest_spec spec = spec_for(here, &endpoint);
    spec.overload = SONAR_BLOCK;
    spec.high_water_mark = 4;
    spec.window_length = spec.hop = SAMPLES;
    spec.queue_windows = 2;
    sonar_ingest *ingest = start(&spec);
    void *socket = digitiser(there, ZMQ_PUSH, endpoint);
    for (uint64_t f = 0; f < FRAMES; f++)
        send_frame(socket, 0, 4, f * SAMPLES, SAMPLES);
    usleep(5500000);
    sonar_window window;
    for (uint64_t i = 0; i < FRAMES; i++) {
        await_window(ingest, &window);
        cr_assert_eq(window.first_sample, i * SAMPLES, "window %lu begins at %lu", (unsigned long)i,
                     (unsigned long)window.first_sample);
        sonar_ingest_release(ingest, &window);
    }
    cr_expect_eq(counters(ingest).frames_accepted, FRAMES);
    sonar_ingest_destroy(ingest);
    zmq_close(socket);
    zmq_ctx_term(there);
    zmq_ctx_term(here);
}

static void expect_all_frames_counted(const sonar_ingest_counters *c) {
    uint64_t dropped = 0;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        dropped += c->frames_dropped[i];
    cr_assert(c->frames_received == c->frames_accepted + dropped);
}

/* Whatever the socket still holds. */
static void leave_at_once(void *context, void *socket, sonar_ingest *ingest) {
    int linger = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
    zmq_close(socket);
    sonar_ingest_destroy(ingest);
    zmq_ctx_term(context);
}

static void stop_while_blocked(void) {
    const char *endpoint = "inproc://samples";
    void *context = zmq_ctx_new(), *socket;
    sonar_ingest *ingest = start_blocking(context, &endpoint, &socket);
    sonar_window window;
    for (int i = 0; counters(ingest).windows_offered < 2; i++) {
        cr_assert(i < PATIENCE_MS);
        usleep(1000);
    }
    sonar_ingest_stop(ingest);
    sonar_ingest_stop(ingest);
    sonar_ingest_counters c = counters(ingest);
    expect_all_frames_counted(&c);
    check_windows(ingest, 2);
    cr_assert(!sonar_ingest_take(ingest, &window));
    leave_at_once(context, socket, ingest);
}

Test(ingest, stops_while_blocked_and_leaves_the_windows) {
    for (threads = 1; threads < 5; threads += 3)
        stop_while_blocked();
}

/* Stopped at any moment, offered windows are complete and counters add up. */
static void stop_after(unsigned delay_us, uint64_t *windows) {
    const char *endpoint = "inproc://samples";
    void *context = zmq_ctx_new();
    sonar_ingest_spec spec = spec_for(context, &endpoint);
    spec.channels = 300;
    spec.queue_windows = 3;
    sonar_ingest *ingest = start(&spec);
    void *socket = digitiser(context, ZMQ_PUSH, endpoint);
    for (uint64_t f = 0; f < 300; f++)
        send_frame(socket, f % 2 ? 0 : 170, f % 2 ? 170 : 130, f / 2 * 35, 35);
    usleep(delay_us);
    sonar_ingest_stop(ingest);
    sonar_ingest_counters c = counters(ingest);
    expect_all_frames_counted(&c);
    cr_assert(c.samples_stored + c.samples_repeated <= c.frames_accepted * 170 * 35);
    sonar_window window;
    while (sonar_ingest_take(ingest, &window)) {
        cr_assert(window.missing_mean == 0);
        cr_assert(test_window_errors(&window, window.first_sample, 100) == 0);
        sonar_ingest_release(ingest, &window);
        ++*windows;
    }
    leave_at_once(context, socket, ingest);
}

Test(ingest, stops_in_mid_stream) {
    uint64_t windows = 0;
    for (threads = 1; threads < 4; threads++)
        for (unsigned delay_us = 0; delay_us < 3000; delay_us += 200)
            stop_after(delay_us, &windows);
    cr_assert(windows > 0);
}

Test(ingest, silence_is_noticed_without_a_frame) {
    const char *endpoint = "inproc://samples";
    void *context = zmq_ctx_new();
    sonar_ingest_spec spec = spec_for(context, &endpoint);
    spec.silent_after_ms = 1;
    sonar_ingest *ingest = start(&spec);
    void *socket = digitiser(context, ZMQ_PUSH, endpoint);
    send_frame(socket, 0, 4, 0, 50); /* a single frame would not make a block that can be missed */
    send_frame(socket, 0, 4, 50, 50);
    await_frames(ingest, 2);
    for (int i = 0; counters(ingest).blocks_silent < 1; i++) {
        cr_assert(i < PATIENCE_MS);
        usleep(1000);
    }
    zmq_close(socket);
    sonar_ingest_destroy(ingest);
    zmq_ctx_term(context);
}
