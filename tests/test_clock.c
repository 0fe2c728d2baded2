/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The node's clock as reported by the kernel, and a stream whose UTC steps: messages keep the order
 * of the samples. The conditions are in test_health.c. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "core/core.h"
#include "core/node_clock.h"
#include "feed.h"
#include "output_scene.h"

/* ---- the kernel's word ----------------------------------------------------------------------- */

Test(clock, what_the_kernel_says_in_its_units) {
    sonar_kernel_clock c = {0};
    struct timex t = {.status = STA_PLL | STA_NANO,
                      .offset = -1500,
                      .maxerror = 24000,
                      .freq = -3 * 65536 - 32768,
                      .tai = 37};
    sonar_node_clock_take(&t, TIME_OK, &c);
    cr_expect(c.known && c.synchronised);
    cr_expect_float_eq(c.offset_s, -1.5e-6, 1e-12);
    cr_expect_float_eq(c.max_error_s, 0.024, 1e-9);
    cr_expect_float_eq(c.frequency_ppm, -3.5, 1e-9);
    cr_expect_eq(c.tai_s, 37);
    cr_expect_eq(c.leap, 0);
    t.status = STA_PLL | STA_INS; /* in microseconds now, and a leap second is due */
    sonar_node_clock_take(&t, TIME_INS, &c);
    cr_expect(c.synchronised);
    cr_expect_float_eq(c.offset_s, -1.5e-3, 1e-9);
    cr_expect_eq(c.leap, 1);
    t.status = STA_PLL | STA_DEL;
    sonar_node_clock_take(&t, TIME_DEL, &c);
    cr_expect_eq(c.leap, -1);
    t.status = STA_UNSYNC;
    sonar_node_clock_take(&t, TIME_ERROR, &c);
    cr_expect(c.known && !c.synchronised);
    sonar_node_clock_take(&t, -1, &c);
    cr_expect_not(c.known, "a sandbox may forbid it");
}

Test(clock, both_times_are_of_one_moment) {
    const int64_t before_ns = sonar_monotonic_ns(), utc_before_ns = sonar_utc_ns();
    sonar_kernel_clock c;
    sonar_node_clock_read(&c);
    cr_expect(c.monotonic_ns >= before_ns && c.monotonic_ns <= sonar_monotonic_ns());
    cr_expect(c.utc_ns >= utc_before_ns && c.utc_ns <= sonar_utc_ns());
}

/* ---- a stream whose UTC steps ---------------------------------------------------------------- */

static const int64_t frame_ns = FEED_FRAME * 125000, window_ns = FEED_LENGTH * 125000;

typedef struct seen {
    uint64_t windows, sample, last_window;
    int64_t utc_ns;
} seen;

static void check(const output_message *m, seen *s) {
    const uint64_t window = (uint64_t)cJSON_GetObjectItem(m->head, "window")->valuedouble,
                   sample = (uint64_t)cJSON_GetObjectItem(m->head, "sample_index")->valuedouble;
    if (s->windows) {
        cr_assert_eq(window, s->last_window + 1);
        cr_assert_eq(sample, s->sample + FEED_HOP, "%llu after %llu", (unsigned long long)sample,
                     (unsigned long long)s->sample);
    }
    if (s->windows)
        cr_assert_null(strstr(m->text, "\"restarted\""));
    const char *utc = strstr(m->text, "\"utc_ns\":");
    cr_assert_not_null(utc);
    s->utc_ns = strtoll(utc + strlen("\"utc_ns\":"), NULL, 10); /* null: 0 */
    s->last_window = window;
    s->sample = sample;
    s->windows++;
}

/* Sends a number of windows and reads their messages. */
static void play(feed *f, uint64_t windows, seen *s) {
    const uint64_t want = s->windows + windows;
    output_message m;
    if (!s->windows)
        feed_frames(f, (FEED_LENGTH - FEED_HOP) / FEED_FRAME, 0);
    feed_frames(f, (int)windows * (FEED_HOP / FEED_FRAME), 0);
    while (s->windows < want && output_receive(f->socket, &m, 20000)) {
        if (!strcmp(m.topic, "cbf.azimuth"))
            check(&m, s);
        output_message_clear(&m);
    }
    cr_assert_eq(s->windows, want);
}

/* A leap second, a clock that is set by hours, to 1970, and to unknown. */
Test(clock, a_step_of_utc_neither_loses_nor_reorders_windows, .timeout = 600) {
    static const int64_t step_ns[] = {-1000000000, 1000000000, -7200000000000, 3600000000000,
                                      -1763644400000000000};
    static feed f;
    sonar_error err = {0};
    cr_assert_eq(feed_open(&f, "max_skew_ms: 50", "backend: cpu", NULL, 0, NULL, &err), SONAR_OK,
                 "%s", err.text);
    seen s = {0};
    play(&f, 4, &s);
    for (size_t i = 0; i < sizeof step_ns / sizeof *step_ns; i++) {
        f.digitiser.frame.utc_ns += step_ns[i];
        play(&f, 4, &s);
        cr_expect_eq(s.utc_ns, f.digitiser.frame.utc_ns - window_ns, "as its frames tell");
    }
    f.digitiser.frame.utc_ns = -(FEED_HOP / FEED_FRAME) * frame_ns; /* 0, unknown, in between */
    play(&f, 4, &s);
    /* A window is counted behind its publication. */
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)FEED_PATIENCE_S * 1000000000;
    while (feed_processed(&f) < s.windows && sonar_monotonic_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    cr_expect_eq(s.windows, feed_processed(&f));
    cr_assert_eq(sonar_pipeline_tick(f.pipeline, &err), SONAR_OK);
    const sonar_ingest_counters *in = &sonar_pipeline_status(f.pipeline)->ingest;
    cr_expect_eq(in->frames_accepted, in->frames_received);
    cr_expect_eq(in->restarts, 0);
    for (int i = 0; i < SONAR_WINDOW_CAUSES; i++)
        cr_expect_eq(in->windows_dropped[i], 0);
    feed_close(&f);
}
