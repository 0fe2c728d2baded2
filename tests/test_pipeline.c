/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The pipeline with a fake device: samples reach it through its ring, every fallible call in turn
 * fails once or permanently, and enqueued work may be done as late as possible.
 */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "control/change.h"
#include "core/random.h"
#include "feed.h"
#include "fake_device.h"

enum { WINDOWS = 5, MOST_CALLS = 2000 };

static const sonar_backend *real(void) {
    return sonar_backend_cpu();
}

static const sonar_backend *eager(void) {
    return fake_backend(0);
}

static const sonar_backend *with_graphs(void) {
    return fake_backend(FAKE_GRAPHS);
}

static const sonar_backend *lazy(void) {
    return fake_backend(FAKE_LAZY | FAKE_GRAPHS);
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct ending {
    sonar_code start; /* of creating and starting */
    uint64_t processed, failed;
    char backend[24], text[240];
    bool gave_up;
    sonar_code tick;
    long calls;
};

static struct ending run_in(const struct layout *layout, const char *runtime,
                            struct fake_device device) {
    const long fail_at = device.fail_at;
    struct ending end = {0};
    sonar_error err = {0};
    feed feed;
    fake = device;
    end.start = feed_open_with(&feed, "queue_windows: 4", runtime, NULL, 0, layout, &err);
    if (!end.start) {
        cr_assert(feed_windows(&feed, WINDOWS), "stuck with call %ld failing", fail_at);
        end.tick = sonar_pipeline_tick(feed.pipeline, &err);
        end.processed = feed_processed(&feed);
        end.failed = feed_failed(&feed);
        end.gave_up = atomic_load(&feed.pipeline->gave_up);
        /* Windows are counted before the recovery from a failure. */
        sonar_pipeline_stop(feed.pipeline, 1000);
        snprintf(end.backend, sizeof end.backend, "%s", feed.pipeline->change.backend);
        snprintf(end.text, sizeof end.text, "%s", feed.pipeline->change.text);
    }
    feed_close(&feed);
    end.calls = fake.calls;
    cr_expect_eq(fake.made, 0, "%ld things left, call %ld failing", fake.made, fail_at);
    cr_expect_eq(fake.faults, 0, "%ld faults, call %ld failing", fake.faults, fail_at);
    return end;
}

/* Calls from fail_at to fail_until fail, 0: none. */
static struct ending run(const char *runtime, long fail_at, long fail_until) {
    const struct layout layout = feed_layout(eager());
    return run_in(&layout, runtime,
                  (struct fake_device){.fail_at = fail_at, .fail_until = fail_until});
}

static struct ending run_failing_once(const struct layout *layout, long n) {
    return run_in(layout, "backend: cpu", (struct fake_device){.fail_at = n, .fail_until = n});
}

static long executed, denormals; /* stages, and how many of them saw a float below FLT_MIN */

static void count_denormals(const char *stage, const sonar_buffer *in, const sonar_buffer *out,
                            const sonar_work *work) {
    volatile float least = FLT_MIN;
    (void)stage, (void)in, (void)out, (void)work;
    executed++;
    denormals += least / 2 != 0;
}

/* The stages' host part runs in the data thread; the trial run at start does not count. */
Test(recovery, the_data_thread_takes_denormals_for_zeros) {
    feed feed;
    sonar_error err = {0};
    fake = (struct fake_device){0};
    cr_assert_eq(
        feed_open(&feed, "queue_windows: 4", "on_gpu_failure: exit", NULL, 0, eager(), &err),
        SONAR_OK);
    fake.listener = count_denormals;
    cr_assert(feed_windows(&feed, 3));
    cr_expect_geq(executed, 9);
    cr_expect_eq(denormals, 0);
    feed_close(&feed);
}

Test(recovery, without_a_failure_nothing_changes) {
    struct ending end = run("backend: cpu", 0, 0);
    cr_assert_eq(end.start, SONAR_OK);
    cr_assert_eq(end.processed, WINDOWS);
    cr_assert_str_eq(end.backend, "fake");
    cr_assert_str_eq(end.text, "");
}

/* The first call of the running state: an idle pipeline makes none. */
static long first_running_call_in(const struct layout *layout) {
    feed feed;
    sonar_error err = {0};
    fake = (struct fake_device){0};
    cr_assert_eq(feed_open_with(&feed, "queue_windows: 4", "backend: cpu", NULL, 0, layout, &err),
                 SONAR_OK);
    const long first = fake.calls + 1;
    feed_close(&feed);
    return first;
}

static long first_running_call(void) {
    const struct layout layout = feed_layout(eager());
    return first_running_call_in(&layout);
}

enum { SPARSE = 7 }; /* every seventh call, where the others are like it */

/* Calls n = first, first + step ... of those that a start makes. */
static void check_failures_at_start(const struct layout *layout, long first, long step) {
    const long running = first_running_call_in(layout);
    cr_assert_gt(running, 20, "only %ld calls at start", running - 1);
    for (long n = first; n < running; n += step)
        cr_expect(run_failing_once(layout, n).start, "call %ld of %ld", n, running - 1);
}

/* One in `step` of the first 60 calls of the running state, then fewer. */
static void check_single_failures(const struct layout *layout, const char *name, long step) {
    const long first = first_running_call_in(layout);
    long n = first;
    uint64_t lost = 0;
    for (; n < MOST_CALLS; n += n < first + 60 ? step : SPARSE) {
        struct ending end = run_failing_once(layout, n);
        cr_assert_eq(end.start, SONAR_OK);
        cr_assert_eq(end.processed + end.failed, WINDOWS);
        cr_expect_str_eq(end.backend, name);
        if (end.calls < n)
            break;
        /* a copy ahead of time that fails is made again with its window */
        cr_expect_leq(end.failed, 1, "%d windows lost, call %ld failing", (int)end.failed, n);
        cr_expect_eq(end.failed == 1, strstr(end.text, "set up again") != NULL, "call %ld: '%s'", n,
                     end.text);
        lost += end.failed;
        cr_expect_eq(end.tick, SONAR_OK);
    }
    cr_assert_gt(n, first + 60);
    cr_assert_gt((long)lost * step, 50);
}

Test(recovery, any_call_may_fail_once, .timeout = 600) {
    const struct layout layout = feed_layout(eager());
    check_failures_at_start(&layout, 1, 1);
    check_single_failures(&layout, "fake", 1);
}

Test(recovery, any_call_may_fail_once_with_graphs, .timeout = 600) {
    const struct layout layout = feed_layout(with_graphs());
    check_failures_at_start(&layout, 1, SPARSE);
    check_single_failures(&layout, "fake", 1);
}

/* Stage i on the device where bit i of `mix` is set. */
static struct layout mixed_layout(const sonar_backend *device, int mix) {
    struct layout layout = feed_layout(real());
    for (int i = 0; i < SONAR_ENGINE_STAGES; i++)
        layout.place[i] = mix & 1 << i ? device : real();
    return layout;
}

/* In thirds, which Criterion runs side by side. */
static void fail_on_both_sides(int first) {
    for (int mix = first; mix < 7; mix += 3) {
        const struct layout layout = mixed_layout(with_graphs(), mix);
        check_failures_at_start(&layout, 1 + mix % SPARSE, SPARSE);
        check_single_failures(&layout, "fake+cpu", 2);
    }
}

Test(recovery, any_call_may_fail_once_with_the_dft_or_mvdr_on_the_device) {
    fail_on_both_sides(1);
}

Test(recovery, any_call_may_fail_once_with_cbf_or_all_else_on_the_device) {
    fail_on_both_sides(2);
}

Test(recovery, any_call_may_fail_once_with_cbf_and_one_more_on_the_device) {
    fail_on_both_sides(3);
}

Test(recovery, a_lost_device_leaves_the_work_to_the_cpu, .timeout = 600) {
    for (long first = first_running_call(), n = first; n < first + 60; n += 3) {
        struct ending end = run("backend: cpu", n, MOST_CALLS * 10);
        cr_expect_eq(end.processed + end.failed, WINDOWS);
        cr_expect_eq(end.failed, 1);
        cr_expect_str_eq(end.backend, "cpu");
        cr_expect(strstr(end.text, "CPU has taken over"), "call %ld: '%s'", n, end.text);
    }
}

Test(recovery, failing_again_soon_is_one_time_too_many) {
    long first = first_running_call();
    /* fails, is created again with at most as many calls as at start, fails in the next window */
    fake = (struct fake_device){0};
    sonar_error err = {0};
    feed feed;
    cr_assert_eq(feed_open(&feed, "queue_windows: 4", "backend: cpu", NULL, 0, eager(), &err),
                 SONAR_OK);
    cr_assert(feed_windows(&feed, 1));
    uint64_t fed = 1;
    for (uint64_t failure = 1; failure <= 2; failure++) /* a copy ahead of time may fail instead, */
        while (feed_failed(&feed) < failure && fed < 60) { /* which costs no window */
            fake.fail_at = fake.fail_until = fake.calls + 1;
            for (int i = 0; i < 2; i++, fed++)
                cr_assert(feed_windows(&feed, 1));
        }
    cr_expect_eq(feed_failed(&feed), 2);
    cr_expect_eq(feed_processed(&feed), fed - 2);
    cr_expect_str_eq(feed.pipeline->change.backend, "cpu");
    cr_assert_gt(first, 1);
    feed_close(&feed);
}

Test(recovery, exit_means_exit) {
    long first = first_running_call();
    struct ending end = run("backend: cpu, on_gpu_failure: exit", first, MOST_CALLS);
    cr_assert_eq(end.failed, 1);
    cr_assert_eq(end.processed, 0);
    cr_assert(end.gave_up);
    cr_assert_eq(end.tick, SONAR_EUNAVAILABLE);
    cr_assert(strstr(end.text, "on_gpu_failure is exit"), "'%s'", end.text);
}

/* A backend without its own memory is not created again: it continues, and must not count snapshots
 * of the lost window that may not have reached the covariance. */
Test(recovery, a_window_lost_on_the_host_is_forgotten_with_all_before_it) {
    sonar_error err = {0};
    feed feed;
    fake = (struct fake_device){0};
    cr_assert_eq(feed_open(&feed, "queue_windows: 4", "backend: cpu", NULL, 0,
                           fake_backend(FAKE_ON_HOST), &err),
                 SONAR_OK, "%s", err.text);
    cr_assert(feed_windows(&feed, 2));
    fake.fail_at = fake.fail_until = fake.calls + 1;
    cr_assert(feed_windows(&feed, 1));
    cr_assert(feed_windows(&feed, 2));
    sonar_pipeline_stop(feed.pipeline, 1000);
    cr_expect_eq(feed_failed(&feed), 1);
    cr_expect_eq(fake.resets, 1);
    /* all three of the next window, then the two that are new */
    cr_expect_eq(sonar_engine_read_snapshots(feed.pipeline->engine).count, 5);
    feed_close(&feed);
}

Test(buffers, more_bytes_than_can_be_counted_are_refused) {
    sonar_buffer buffer = {0};
    sonar_error err = {0};
    const size_t shape[3] = {(size_t)1 << 25, 1 << 19, 1 << 20}; /* 2^64 elements */
    cr_expect_eq(real()->buffer_create(real(), SONAR_HOST, SONAR_C32, 3, shape, &buffer, &err),
                 SONAR_ENOMEM);
    cr_expect_null(buffer.data);
    const size_t nearly[3] = {(size_t)1 << 23, 1 << 19, 1 << 20}; /* 2^62, of 8 bytes each */
    cr_expect_eq(real()->buffer_create(real(), SONAR_HOST, SONAR_C32, 3, nearly, &buffer, &err),
                 SONAR_ENOMEM);
    cr_expect_null(buffer.data);
}

/* ---- samples on their way to the device ------------------------------------------------------ */

/* Messages of the first windows of an open feed, which is closed here; gap: every gap-th frame is
 * missing; restarts: number of restarts of the stream. */
static uint64_t listen_to(feed *feed, int gap, int restarts) {
    enum { COMPARED = 110, HELD_BACK = 45 }; /* the ring holds 42 hops; a gap waits for 32 */
    feed->hash_below = COMPARED;
    for (int i = 0; i < restarts;
         i++) { /* in the middle of a hop, with samples that belong to no window yet */
        feed_frames(feed, 60 + 10 * i, gap);
        feed->digitiser.frame.epoch++;
        feed->digitiser.frame.first_sample = 1000;
    }
    feed_frames(feed, (COMPARED + HELD_BACK) * (FEED_HOP / FEED_FRAME), gap);
    cr_assert(feed_receive(feed), "only %d messages", (int)feed->messages);
    cr_assert_eq(feed_failed(feed), 0);
    cr_assert_gt(feed->messages, COMPARED * FEED_TOPICS / 2);
    cr_assert(feed->messages == COMPARED * FEED_TOPICS || gap || restarts);
    uint64_t hash = feed->hash;
    feed_close(feed);
    return hash;
}

static uint64_t published_by(const char *ingest, sonar_dtype type, const struct layout *layout,
                             int gap) {
    sonar_error err = {0};
    feed feed;
    fake = (struct fake_device){0};
    cr_assert_eq(feed_open_with(&feed, ingest, "backend: cpu", NULL, 0, layout, &err), SONAR_OK,
                 "%s", err.text);
    feed.digitiser.frame.type = (uint8_t)type;
    return listen_to(&feed, gap, 0);
}

static uint64_t published(const char *ingest, sonar_dtype type, const sonar_backend *backend,
                          int gap) {
    const struct layout layout = feed_layout(backend);
    return published_by(ingest, type, &layout, gap);
}

Test(transfer, the_devices_ring_shows_what_the_hosts_does) {
    const char *any = "max_missing_share: 0.5";
    uint64_t plain = published(any, SONAR_F32, real(), 0);
    cr_expect_eq(published(any, SONAR_F32, eager(), 0), plain);
    uint64_t gaps = published(any, SONAR_F32, real(), 13);
    cr_expect_neq(gaps, plain);
    cr_expect_eq(published(any, SONAR_F32, eager(), 13), gaps);
    /* a window given up leaves gaps that are filled with zeros only for the next one */
    const char *strict = "max_missing_share: 0.1";
    cr_expect_eq(published(strict, SONAR_F32, eager(), 13),
                 published(strict, SONAR_F32, real(), 13));
}

/* Every third of the windows at least, where there are gaps; else all but the first. */
Test(transfer, graphs_do_what_the_stages_do) {
    const char *any = "max_missing_share: 0.5";
    for (int gap = 0; gap <= 29; gap += 29) {
        uint64_t want = published(any, SONAR_F32, real(), gap);
        cr_expect_eq(published(any, SONAR_F32, with_graphs(), gap), want);
        cr_expect_gt(fake.graphs_run, gap ? 30 : 100, "%ld windows as a graph", fake.graphs_run);
    }
}

Test(transfer, stages_may_be_on_either_side) {
    const char *any = "max_missing_share: 0.5";
    for (int gap = 0; gap <= 13; gap += 13) {
        uint64_t want = published(any, SONAR_F32, real(), gap);
        for (int mix = 1; mix < 7; mix++) {
            const struct layout layout = mixed_layout(with_graphs(), mix);
            cr_expect_eq(published_by(any, SONAR_F32, &layout, gap), want, "mix %d, gap %d", mix,
                         gap);
            cr_expect_eq(fake.graphs_run, 0);
        }
    }
}

/* Snapshots that begin before the window that adds them: in graphs, and with a hop that does not
 * permit graphs.
 */
static const char *const EARLIER = "cbf: {band_hz: [600, 950], ranges_m: [50]}\n"
                                   "mvdr: {length: 128, hop: 16, snapshots: 8}\n";
static const char *const UNEVEN = "cbf: {band_hz: [600, 950], ranges_m: [50]}\n"
                                  "mvdr: {length: 120, hop: 36, snapshots: 8}\n";

/* Snapshots of both beamformers with unrelated lengths and hops; and one transform for both. */
static const char *const PIECES =
    "cbf: {length: 50, hop: 26, band_hz: [600, 950], ranges_m: [50]}\n"
    "mvdr: {length: 40, hop: 16, snapshots: 8}\n";
static const char *const SHARED = "cbf: {band_hz: [600, 950], ranges_m: [50]}\n"
                                  "mvdr: {snapshots: 8}\n";

static uint64_t published_of(const char *groups, const struct layout *layout, int gap,
                             int restarts) {
    sonar_error err = {0};
    feed feed;
    char text[1024];
    snprintf(text, sizeof text,
             "schema: 1\n"
             "array: {id: 1, geometry: {line: {sensors: %d, spacing_m: 0.75}}}\n"
             "fs_hz: 8000\n"
             "ingest: {overload: block, max_missing_share: 0.5}\n"
             "dft: {length: %d, hop: %d}\n%s"
             "detections: {threshold_db: 1}\n"
             "output: {high_water_mark: 10000}\n"
             "runtime: {threads: 1, backend: cpu}\n",
             FEED_SENSORS, FEED_LENGTH, FEED_HOP, groups);
    cr_assert_eq(feed_open_text(&feed, text, NULL, 0, layout, &err), SONAR_OK, "%s", err.text);
    return listen_to(&feed, gap, restarts);
}

Test(transfer, sub_windows_of_both_beamformers_go_anywhere) {
    const struct layout plain = feed_layout(real());
    for (int gap = 0; gap <= 29; gap += 29) {
        uint64_t want = published_of(PIECES, &plain, gap, 0);
        for (int mix = 1; mix <= 7; mix++) {
            const struct layout layout = mixed_layout(with_graphs(), mix);
            fake = (struct fake_device){0};
            cr_expect_eq(published_of(PIECES, &layout, gap, 0), want, "mix %d, gap %d", mix, gap);
            cr_expect_eq(fake.graphs_run > 30, mix == 7, "%ld windows as a graph", fake.graphs_run);
        }
    }
}

/* One of the device's queues, or (0) both, are lazy. */
static void check_order(const char *groups, const struct layout *layout, int gap, int restarts,
                        unsigned diligent, uint64_t want) {
    fake = (struct fake_device){.diligent = diligent};
    cr_expect_eq(published_of(groups, layout, gap, restarts), want,
                 "gap %d, %d restarts, diligent %u: %s", gap, restarts, diligent, groups);
    cr_expect_eq(fake.faults, 0, "%ld faults: %s", fake.faults, groups);
    cr_expect_eq(fake.made, 0, "%ld things left: %s", fake.made, groups);
}

/* Three calls with the turns 0, 1, 2 have each set of lazy queues with each mix. */
static void check_orders(int turn, const char *groups, int gap, int restarts) {
    const struct layout plain = feed_layout(real());
    uint64_t want = published_of(groups, &plain, gap, restarts);
    for (int mix = 1; mix <= 7; mix++) {
        const struct layout layout = mixed_layout(lazy(), mix);
        check_order(groups, &layout, gap, restarts, (unsigned)(mix + turn) % 3, want);
        cr_expect_eq(fake.graphs_run > 20, mix == 7 && groups != UNEVEN, "%ld windows as a graph",
                     fake.graphs_run);
    }
}

Test(transfer, nothing_depends_on_when_a_device_does_its_work) {
    check_orders(0, PIECES, 0, 0);
    check_orders(1, PIECES, 29, 0);
    check_orders(2, SHARED, 29, 0);
}

Test(transfer, snapshots_may_begin_before_their_window) {
    check_orders(0, EARLIER, 0, 0);
    check_orders(1, EARLIER, 29, 4);
    check_orders(2, UNEVEN, 0, 4);
    check_orders(0, UNEVEN, 29, 0);
}

Test(transfer, a_stream_that_restarts_leaves_nothing_behind) {
    check_orders(0, PIECES, 0, 4);
    check_orders(1, SHARED, 0, 4);
    check_orders(2, SHARED, 29, 4);
}

/* Then work is still pending when the window is given up, and its buffers must still exist. */
Test(recovery, a_wait_that_fails_leaves_work_behind) {
    for (int mix = 1; mix <= 7; mix += 2) {
        const struct layout layout = mixed_layout(lazy(), mix);
        for (long n = 2; n < 40; n++) {
            struct ending end =
                run_in(&layout, "backend: cpu", (struct fake_device){.finish_fails = n});
            cr_assert_eq(end.start, SONAR_OK);
            cr_expect_eq(end.failed, fake.finished >= n, "mix %d, wait %ld", mix, n);
            cr_expect_eq(end.processed + end.failed, WINDOWS);
        }
    }
}

/* A data thread that reads samples in place must not be woken for every chunk.
 */
Test(transfer, only_a_device_gets_chunks) {
    for (int device = 0; device < 2; device++) {
        const struct layout layout = feed_layout(device ? eager() : real());
        sonar_error err = {0};
        feed feed;
        fake = (struct fake_device){0};
        cr_assert_eq(
            feed_open_with(&feed, "queue_windows: 4", "backend: cpu", NULL, 0, &layout, &err),
            SONAR_OK);
        cr_assert(feed_windows(&feed, 3));
        cr_expect_eq(sonar_ingest_ready(feed.pipeline->ingest) > 0, device);
        cr_expect_eq(fake.copied_samples > 0, device);
        feed_close(&feed);
    }
}

Test(transfer, s16_kept_as_it_is_gives_the_same_bits) {
    const char *any = "max_missing_share: 0.5", *s16 = "max_missing_share: 0.5, sample_type: s16";
    for (int gap = 0; gap <= 13; gap += 13) {
        uint64_t want = published(any, SONAR_S16, real(), gap);
        cr_expect_eq(published(s16, SONAR_S16, real(), gap), want);
        cr_expect_eq(published(s16, SONAR_S16, eager(), gap), want);
    }
}

Test(transfer, other_frames_are_counted_where_s16_is_wanted) {
    sonar_error err = {0};
    feed feed;
    sonar_ingest_counters counters = {0};
    cr_assert_eq(feed_open(&feed, "sample_type: s16", "backend: cpu", NULL, 0, NULL, &err),
                 SONAR_OK);
    feed_frames(&feed, 10, 0);
    for (int i = 0; i < 50000 && counters.frames_received < 10; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
        sonar_ingest_read_counters(feed.pipeline->ingest, &counters);
    }
    cr_expect_eq(counters.frames_dropped[SONAR_FRAME_WRONG_TYPE], 10);
    feed_close(&feed);
}

/* ---- headers --------------------------------------------------------------------------------- */

/* The header of the next message of a topic. */
static char last_body[1 << 16]; /* of the message whose header was read last */

static const char *next_header(feed *feed, const char *topic) {
    static char part[1 << 16], header[1 << 16];
    const int patience_ms = 60000;
    zmq_setsockopt(feed->socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    for (bool found = false; !found;) {
        int bytes = zmq_recv(feed->socket, part, sizeof part - 1, 0);
        cr_assert_geq(bytes, 0, "no message of %s", topic);
        found = bytes >= 0 && !strncmp(part, topic, (size_t)bytes) && !topic[bytes];
        bytes = zmq_recv(feed->socket, header, sizeof header - 1, 0);
        header[bytes < 0 ? 0 : bytes] = '\0';
        zmq_recv(feed->socket, last_body, sizeof last_body, 0);
    }
    return header;
}

/* 63 bins of 8000 / 128 Hz and of 8000 / 100: the configured edges fall between them. */
Test(headers, tell_the_frequencies_and_sensors_of_what_they_head) {
    sonar_error err = {0};
    feed feed;
    cr_assert_eq(feed_open_text(&feed,
                                "schema: 1\n"
                                "array: {id: 1, geometry: {line: {sensors: 6, spacing_m: 0.75}},"
                                " mask: [1, 4, 5]}\n"
                                "fs_hz: 8000\n"
                                "dft: {length: 128, hop: 64}\n"
                                "cbf: {band_hz: [600, 950], ranges_m: [50]}\n"
                                "lofar: {band_hz: [300, 990]}\n"
                                "mvdr: {length: 100, hop: 64, forward_backward: true}\n"
                                "runtime: {threads: 1, backend: cpu}\n",
                                NULL, 0, NULL, &err),
                 SONAR_OK, "%s", err.text);
    feed_frames(&feed, 40, 0);
    const struct {
        const char *topic, *band, *sensors;
    } want[] = {{"cbf.azimuth", "\"band_hz\":[625,937.5]", "\"sensors_used\":3"},
                {"cbf.lofar", "\"band_hz\":[312.5,937.5]", "\"sensors_used\":3"},
                {"mvdr.azimuth", "\"band_hz\":[640,880]", "\"sensors_used\":2"},
                {"element.psd", "\"band_hz\":[312.5,937.5]", "\"sensors_used\":3"}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const char *header = next_header(&feed, want[i].topic);
        cr_expect(strstr(header, want[i].band), "%s: %s", want[i].topic, header);
        cr_expect(strstr(header, want[i].sensors), "%s: %s", want[i].topic, header);
    }
    feed_close(&feed);
}

/* Relative to their mean, (1, 2, 0.5), as in the steering vectors; by channel, one of which feeds
 * no sensor. */
Test(headers, positions_are_reported_by_channel) {
    sonar_error err = {0};
    feed feed;
    cr_assert_eq(
        feed_open_text(&feed,
                       "schema: 1\n"
                       "array: {id: 1, channels: [4, 0, 5, 2, 1], geometry: {positions:"
                       " {list: [[0, 0, 0], [1, 2, 0], [0, 4, 0.5], [2, 1, 1], [2, 3, 1]]}}}\n"
                       "fs_hz: 8000\n"
                       "dft: {length: 128, hop: 64}\n"
                       "cbf: {band_hz: [600, 950]}\n"
                       "mvdr: {enabled: false}\n"
                       "runtime: {threads: 1, backend: cpu}\n",
                       NULL, 0, NULL, &err),
        SONAR_OK, "%s", err.text);
    feed_frames(&feed, 40, 0);
    const char *header = next_header(&feed, "element.position");
    cr_expect(strstr(header, "\"shape\":[6,3]"), "%s", header);
    cr_expect(strstr(header, "\"unit\":\"m\""), "%s", header);
    cr_expect(strstr(header, "\"band_hz\":null"), "%s", header);
    const float want[6][3] = {{0, 0, -0.5F},   {1, 1, 0.5F},    {1, -1, 0.5F},
                              {NAN, NAN, NAN}, {-1, -2, -0.5F}, {-1, 2, 0}};
    float have[6][3];
    memcpy(have, last_body, sizeof have);
    for (size_t c = 0; c < 6; c++)
        for (size_t i = 0; i < 3; i++)
            cr_expect(c == 3 ? isnan(have[c][i]) : fabsf(have[c][i] - want[c][i]) < 1e-6F,
                      "[%zu][%zu]: %g", c, i, (double)have[c][i]);
    feed_close(&feed);
}

static double number_of(const cJSON *object, const char *name) {
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, name));
}

/* Detections of the next window: each bearing is its azimuth turned by the heading. */
static void expect_heading(feed *feed, double heading_deg, double sound_speed_mps,
                           const char *version) {
    const char *text = next_header(feed, "detections");
    cJSON *head = cJSON_Parse(text), *item;
    cr_expect_null(strstr(text, "mask_changed"));
    cr_expect_eq(number_of(head, "heading_deg"), heading_deg);
    cr_expect_eq(number_of(head, "sound_speed_mps"), sound_speed_mps);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(head, "config_version")), version);
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(head, "detections")) {
        const double turned =
            number_of(item, "bearing_deg") - number_of(item, "az_deg") - heading_deg;
        cr_expect_float_eq(remainder(turned, 360), 0, 1e-9, "off by %g", turned);
    }
    cr_expect_gt(cJSON_GetArraySize(cJSON_GetObjectItem(head, "detections")), 0);
    cJSON_Delete(head);
}

/* A new version is adopted between two windows. */
Test(headers, say_what_the_window_was_computed_with) {
    sonar_error err = {0};
    feed feed;
    cr_assert_eq(feed_open_text(&feed,
                                "schema: 1\n"
                                "array: {id: 1, geometry: {circle: {sensors: 6, radius_m: 0.75}},"
                                " heading_deg: 33}\n"
                                "fs_hz: 8000\n"
                                "dft: {length: 128, hop: 64}\n"
                                "cbf: {band_hz: [600, 950]}\n"
                                "mvdr: {length: 100, hop: 64}\n"
                                "detections: {threshold_db: 0.1}\n"
                                "output: {queue_results: 64}\n"
                                "ingest: {overload: block}\n"
                                "runtime: {threads: 1, backend: cpu}\n",
                                NULL, 0, NULL, &err),
                 SONAR_OK, "%s", err.text);
    feed_frames(&feed, (FEED_LENGTH - FEED_HOP) / FEED_FRAME, 0);
    for (int i = 0; i < 3; i++) {
        feed_frames(&feed, FEED_HOP / FEED_FRAME, 0);
        expect_heading(&feed, 33, feed.config->sound_speed_mps, feed.config->version);
    }
    static sonar_config_differences differences;
    const sonar_config_value other[] = {{"array.heading_deg", "200"}, {"sound_speed_mps", "1400"}};
    cr_assert_eq(sonar_control_set(feed.pipeline, 2, other, NULL, NULL, &differences, &err),
                 SONAR_OK);
    cr_assert_str_neq(sonar_pipeline_config(feed.pipeline)->version, feed.config->version);
    for (int i = 0; i < 3; i++) {
        feed_frames(&feed, FEED_HOP / FEED_FRAME, 0);
        expect_heading(&feed, 200, 1400, sonar_pipeline_config(feed.pipeline)->version);
    }
    feed_close(&feed);
}

/* The bearing's error of the CBF's first contact in the eighth window. */
static double first_sigma(const char *mvdr) {
    sonar_error err = {0};
    feed feed;
    char text[512];
    snprintf(text, sizeof text,
             "schema: 1\n"
             "array: {id: 1, geometry: {line: {sensors: 6, spacing_m: 0.75}}}\n"
             "fs_hz: 8000\n"
             "dft: {length: 128, hop: 64}\n"
             "cbf: {band_hz: [600, 950]}\n"
             "mvdr: {%s}\n"
             "detections: {threshold_db: 0.1}\n"
             "output: {queue_results: 64}\n"
             "ingest: {overload: block}\n"
             "runtime: {threads: 1, backend: cpu}\n",
             mvdr);
    cr_assert_eq(feed_open_text(&feed, text, NULL, 0, NULL, &err), SONAR_OK, "%s", err.text);
    feed_frames(&feed, (FEED_LENGTH - FEED_HOP) / FEED_FRAME, 0);
    cJSON *head = NULL;
    for (int i = 0; i < 8; i++) {
        feed_frames(&feed, FEED_HOP / FEED_FRAME, 0);
        cJSON_Delete(head);
        head = cJSON_Parse(next_header(&feed, "detections"));
    }
    const cJSON *first = cJSON_GetArrayItem(cJSON_GetObjectItem(head, "detections"), 0);
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(first, "source")), "cbf");
    const double sigma_deg = number_of(first, "bearing_sigma_deg");
    cJSON_Delete(head);
    feed_close(&feed);
    return sigma_deg;
}

/* MVDR's spectrum has no side lobes that would count as noise, so the CBF's errors are computed
 * once it is there. */
Test(headers, errors_of_the_cbf_rest_on_the_noise_that_mvdr_shows) {
    const double alone_deg = first_sigma("enabled: false"),
                 beside_deg = first_sigma("length: 128, hop: 64, band_hz: [600, 950]");
    cr_expect(alone_deg > 0 && beside_deg > 0, "%g %g", alone_deg, beside_deg);
    cr_expect_gt(fabs(alone_deg - beside_deg), 0.01 * alone_deg, "%g %g", alone_deg, beside_deg);
}

/* ---- times ----------------------------------------------------------------------------------- */

static void expect_times(const sonar_percentiles *time, bool measured, const char *what) {
    cr_expect_eq(isfinite(time->all_us[2]), measured, "%s", what);
    for (int i = 0; i < 3 && measured; i++)
        cr_expect(time->all_us[i] >= 0 && time->all_us[i] <= time->all_us[2], "%s", what);
}

static void check_stage_times(const sonar_backend *backend, bool device) {
    sonar_error err = {0};
    sonar_status status = {0};
    feed feed;
    fake = (struct fake_device){0};
    cr_assert_eq(feed_open(&feed, "queue_windows: 4", "backend: cpu", NULL, 0, backend, &err),
                 SONAR_OK);
    cr_assert(feed_windows(&feed, 20));
    sonar_pipeline_read_times(feed.pipeline, &status);
    for (int i = 0; i < SONAR_TIMED_STAGES; i++) {
        const bool placed = device && i < SONAR_ENGINE_STAGES;
        expect_times(&status.stage[i][SONAR_PART_HOST], true, "host");
        expect_times(&status.stage[i][SONAR_PART_DEVICE], placed, "device");
        expect_times(&status.stage[i][SONAR_PART_QUEUE], placed, "queue");
        expect_times(&status.stage[i][SONAR_PART_COPY], device && i == SONAR_ENGINE_DFT, "copy");
    }
    if (device) /* element.psd's copy of the transforms and the beamformer, an act each */
        cr_expect_float_eq(status.stage[SONAR_ENGINE_CBF][SONAR_PART_DEVICE].all_us[0], 2, 1e-9);
    sonar_pipeline_read_times(feed.pipeline, &status);
    cr_expect(isnan(status.stage[SONAR_ENGINE_DFT][SONAR_PART_HOST].last_us[0]),
              "nothing came since");
    cr_expect(isfinite(status.stage[SONAR_ENGINE_DFT][SONAR_PART_HOST].all_us[0]));
    feed_close(&feed);
}

Test(times, of_every_stage_and_part_are_kept) {
    check_stage_times(real(), false);
    check_stage_times(eager(), true);
}

/* A window is published before it is counted, and counted in its parts when its result is back. */
static void await_counts(feed *feed, uint64_t windows, sonar_percentiles *latency,
                         sonar_status *status) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)FEED_PATIENCE_S * 1000000000;
    do {
        sonar_output_read_latency(feed->pipeline->output, latency);
        sonar_pipeline_read_times(feed->pipeline, status);
    } while (
        (latency->count < windows || status->latency_part[SONAR_LATENCY_OTHER].count < windows) &&
        sonar_monotonic_ns() < until_ns);
    sonar_pipeline_read_times(feed->pipeline, status); /* it was received while they were read */
}

static void check_latency_parts(const sonar_backend *backend, const char *ingest) {
    enum { TIMED = 60 };
    sonar_error err = {0};
    static sonar_status status;
    sonar_percentiles latency;
    double sum_s = 0, longest_s = 0;
    feed feed;
    fake = (struct fake_device){0};
    cr_assert_eq(feed_open(&feed, ingest, "backend: cpu", NULL, 0, backend, &err), SONAR_OK);
    cr_assert(feed_windows(&feed, TIMED));
    await_counts(&feed, TIMED, &latency, &status);
    cr_assert_eq(latency.count, TIMED);
    for (int i = 0; i < SONAR_LATENCY_PARTS; i++) {
        const sonar_percentiles *part = &status.latency_part[i];
        cr_expect_eq(part->count, latency.count, "%s", sonar_latency_parts.name[i]);
        sum_s += part->sum_s;
        longest_s = fmax(longest_s, part->sum_s);
    }
    cr_expect_float_eq(sum_s, latency.sum_s, 1e-9 * (double)latency.count, "%g of %g", sum_s,
                       latency.sum_s);
    cr_expect(longest_s < sum_s, "one part is not all of it");
    cr_expect(status.latency_part[SONAR_LATENCY_CBF].sum_s > 0);
    cr_expect(status.latency_part[SONAR_LATENCY_PUBLICATION].sum_s > 0);
    feed_close(&feed);
}

Test(times, parts_of_the_latency_add_up_to_it) {
    check_latency_parts(real(), "queue_windows: 4");
    check_latency_parts(eager(), "queue_windows: 4");
    check_latency_parts(lazy(), "queue_windows: 1");
}

/* With no next window waiting, sensors are measured without delaying a window. */
Test(times, sensors_are_measured_behind_the_result) {
    sonar_error err = {0};
    static sonar_status status;
    sonar_percentiles latency;
    feed feed;
    cr_assert_eq(feed_open(&feed, "queue_windows: 4", "backend: cpu", NULL, 0, real(), &err),
                 SONAR_OK);
    cr_assert(feed_windows(&feed, 1));
    await_counts(&feed, 1, &latency, &status);
    cr_expect_eq(status.stage[SONAR_TIMED_HEALTH][SONAR_PART_HOST].count, 1);
    cr_expect_eq(status.latency_part[SONAR_LATENCY_HEALTH].count, 1);
    cr_expect_eq(status.latency_part[SONAR_LATENCY_HEALTH].sum_s, 0);
    cr_expect_null(feed.pipeline->kept);
    feed_close(&feed);
}

/* Holds the first window until another one waits. */
static sonar_pipeline *late;
static void be_late(const char *stage, const sonar_buffer *in, const sonar_buffer *out,
                    const sonar_work *work) {
    (void)stage, (void)in, (void)out;
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)FEED_PATIENCE_S * 1000000000;
    while (work->first_sample == 0 && !sonar_ingest_waiting(late->ingest) &&
           sonar_monotonic_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

/* If the next window waits already, samples are held only as long as the stages need them. */
Test(times, sensors_are_measured_at_once_where_a_window_waits) {
    enum { TIMED = 3 };
    sonar_error err = {0};
    static sonar_status status;
    sonar_percentiles latency;
    feed feed;
    fake = (struct fake_device){0};
    cr_assert_eq(feed_open(&feed, "queue_windows: 4", "backend: cpu", NULL, 0, eager(), &err),
                 SONAR_OK);
    late = feed.pipeline;
    fake.listener = be_late;
    cr_assert(feed_windows(&feed, TIMED));
    await_counts(&feed, TIMED, &latency, &status);
    cr_expect_eq(status.stage[SONAR_TIMED_HEALTH][SONAR_PART_HOST].count, TIMED);
    cr_expect_gt(status.latency_part[SONAR_LATENCY_HEALTH].sum_s, 0);
    feed_close(&feed);
    fake.listener = NULL;
}

/* With clocks that disagree no part is negative, and the sum stays the same. */
Test(times, parts_never_exceed_the_whole) {
    const uint64_t shares[] = {0, 1, 1000, 123456789, UINT64_MAX};
    for (uint64_t seed = 0; seed < 2000; seed++) {
        uint64_t part_ns[SONAR_LATENCY_PARTS], given_ns[SONAR_LATENCY_PARTS], sum_ns = 0;
        for (int i = 0; i < SONAR_LATENCY_PARTS; i++)
            given_ns[i] = part_ns[i] = shares[sonar_random_at(seed, (uint64_t)i) % 5];
        const uint64_t whole_ns = shares[seed % 4] * (seed % 7);
        sonar_latency_split(whole_ns, part_ns);
        for (int i = 0; i < SONAR_LATENCY_PARTS; i++) {
            cr_expect(i == SONAR_LATENCY_OTHER || part_ns[i] <= given_ns[i]);
            cr_expect(part_ns[i] <= whole_ns - sum_ns);
            sum_ns += part_ns[i];
        }
        cr_expect_eq(sum_ns, whole_ns);
    }
}
