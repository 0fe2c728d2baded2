/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A pipeline without sockets: the program brings the frames, and a reader of its own gets the
 * messages. Every window comes, however slow the reader is, and the endpoints are left alone. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "fed.h"

TestSuite(fed, .timeout = 120);

enum { SENSORS = 6, LENGTH = 256, HOP = 128, SAMPLES = 40 * HOP };

static const char text[] =
    "schema: 1\n"
    "array: {id: 1, geometry: {line: {sensors: 6, spacing_m: 0.75}}}\n"
    "fs_hz: 8000\n"
    "ingest: {endpoints: [\"ipc:///no/such/folder/in\"], overload: block, queue_windows: 1}\n"
    "dft: {length: 256, hop: 128}\n"
    "cbf: {band_hz: [600, 950]}\n"
    "mvdr: {length: 64, hop: 32, snapshots: 8}\n"
    "output: {endpoint: \"ipc:///no/such/folder/out\", queue_results: 1}\n"
    "runtime: {threads: 1, backend: cpu}\n";

typedef struct reader {
    int nap_us; /* after each message */
    uint64_t messages, next_window, hash;
    bool in_order;
    float missing; /* of the last window, mean */
} reader;

static uint32_t wanted(void *ctx) {
    (void)ctx;
    return SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_MVDR_AZIMUTH);
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    reader *r = ctx;
    const char *window = strstr(header, "\"window\":"), *mean = strstr(header, "\"mean\":");
    r->messages++;
    for (size_t i = 0; i < bytes; i++) /* FNV-1a */
        r->hash = (r->hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3u;
    if (surface == SONAR_CBF_AZIMUTH) {
        r->in_order = r->in_order && strtoull(window + 9, NULL, 10) == r->next_window++;
        r->missing = strtof(mean + 7, NULL);
    }
    nanosleep(&(struct timespec){.tv_nsec = r->nap_us * 1000}, NULL);
}

/* Frames of `step` samples; from sample `lacking` on without the last channel. */
static void feed(const fed *fed, uint32_t step, uint32_t lacking) {
    static float samples[SENSORS * SAMPLES];
    for (uint32_t at = 0; at < SAMPLES; at += step) {
        const uint32_t count = at + step <= SAMPLES ? step : SAMPLES - at,
                       channels = SENSORS - (at >= lacking);
        float *to = samples;
        for (uint32_t i = at; i < at + count; i++)
            for (uint32_t ch = 0; ch < channels; ch++) /* the same whatever the step */
                *to++ = (float)((i * 7919u + ch * 104729u) * 2654435761u >> 20) - 2048;
        fed_samples(fed, at, count, channels, 0, samples);
    }
}

static reader run(int nap_us, uint32_t step, uint32_t lacking) {
    reader reader = {.nap_us = nap_us, .hash = 0xcbf29ce484222325u, .in_order = true};
    const sonar_output_tap tap = {.ctx = &reader, .wanted = wanted, .take = take};
    fed fed = fed_open("fed", text, &tap);
    feed(&fed, step, lacking);
    fed_close(&fed);
    return reader;
}

Test(fed, every_window_comes_whatever_the_frames_and_however_slow_the_reader) {
    const uint64_t windows = 1 + (SAMPLES - LENGTH) / HOP;
    const reader fast = run(0, 64, UINT32_MAX), slow = run(3000, 100, UINT32_MAX);
    cr_expect(fast.in_order && slow.in_order);
    cr_expect_eq(fast.next_window, windows, "%zu", (size_t)fast.next_window);
    cr_expect_eq(slow.next_window, windows);
    cr_expect_eq(fast.messages, slow.messages);
    cr_expect_eq(fast.hash, slow.hash, "the same bytes");
    cr_expect_eq(fast.missing, 0);
}

/* With one of six channels missing, a window lacks less than max_missing_share allows only where
 * the gap is short; nothing comes behind the end that would prove the samples lost. */
Test(fed, windows_that_lack_samples_come_at_the_end) {
    const uint64_t windows = 1 + (SAMPLES - LENGTH) / HOP;
    const reader reader = run(0, 64, SAMPLES - 64);
    cr_expect(reader.in_order);
    cr_expect_eq(reader.next_window, windows, "%zu", (size_t)reader.next_window);
    cr_expect_float_eq(reader.missing, 64.0 / LENGTH / SENSORS, 1e-3, "%g", (double)reader.missing);
}
