/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finite samples that are not sound: extremely large and denormal ones. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "feed.h"
#include "process.h"

enum { WINDOWS = 12, FRAMES = (FEED_LENGTH + (WINDOWS + 1) * FEED_HOP) / FEED_FRAME };

static const char *const text =
    "schema: 1\nfs_hz: 8000\nsound_speed_mps: 1500\n"
    "array: {id: 1, geometry: {line: {sensors: 6, spacing_m: 0.75}}%s}\n"
    "ingest: {overload: block, max_skew_ms: 5, max_missing_share: 1}\n"
    "dft: {length: 128, hop: 64}\ncbf: {band_hz: [600, 950], ranges_m: [50]}\n"
    "lofar: {band_hz: [600, 950]}\noutput: {high_water_mark: 1000}\n"
    "mvdr: {band_hz: [600, 950], %s}\nruntime: {backend: cpu, threads: %d}\n";

static void open_feed(feed *feed, const char *array, const char *mvdr, int threads) {
    char full[1024];
    sonar_error err = {0};
    snprintf(full, sizeof full, text, array, mvdr, threads);
    cr_assert_eq(feed_open_text(feed, full, NULL, 0, NULL, &err), SONAR_OK, "%s", err.text);
}

/* How a frame's samples are changed. */
typedef void remake(float *samples, size_t count, int frame);

static void send_frames(feed *feed, remake *remake) {
    digitiser *d = &feed->digitiser;
    float samples[FEED_FRAME * FEED_SENSORS];
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    for (int f = 0; f < FRAMES; f++) {
        digitiser_fill(d, samples);
        remake(samples, FEED_FRAME * FEED_SENSORS, f);
        sonar_frame_encode(&d->frame, header);
        digitiser_raw(d, 2, (const void *[]){header, samples},
                      (size_t[]){sizeof header, sizeof samples});
        digitiser_skip(d, 1);
    }
}

/* The arrays of all messages up to the window, one behind the other; malloc'ed. */
static float *published(feed *feed, uint64_t last, size_t *count) {
    subscriber s = {feed->context, feed->socket};
    float *all = NULL;
    message m;
    bool over = false;
    *count = 0;
    while (!over && receive(&s, &m, 20000)) {
        over = header_number(m.head, "window") >= (double)last;
        all = realloc(all, (*count + m.count + 1) * sizeof *all);
        cr_assert(all);
        for (size_t i = 0; i < m.count; i++)
            cr_assert(isfinite(m.data[i]), "%s %zu: %g", m.topic, i, (double)m.data[i]);
        memcpy(all + *count, m.data, m.count * sizeof *all);
        *count += m.count;
        message_free(&m);
    }
    cr_assert(over, "window %d did not come", (int)last);
    return all;
}

/* ---- large ----------------------------------------------------------------------------------- */

static void absurd_once(float *samples, size_t count, int frame) {
    if (frame == 40)
        samples[count / 2] = 1e30f;
}

static void loudest(float *samples, size_t count, int frame) {
    (void)frame;
    for (size_t i = 0; i < count; i++)
        samples[i] = samples[i] < 0 ? -0x1p40f : 0x1p40f;
}

static uint64_t dropped_out_of_range(const feed *feed) {
    sonar_ingest_counters count;
    sonar_ingest_read_counters(feed->pipeline->ingest, &count);
    return count.frames_dropped[SONAR_FRAME_OUT_OF_RANGE];
}

static void expect_finite(const char *array, const char *mvdr, remake *remake, uint64_t dropped) {
    feed feed;
    size_t count;
    open_feed(&feed, array, mvdr, 2);
    send_frames(&feed, remake);
    free(published(&feed, WINDOWS - 1, &count));
    cr_expect_gt(count, 0);
    cr_expect_eq(dropped_out_of_range(&feed), dropped, "%s", array);
    feed_close(&feed);
}

Test(extreme, an_absurd_sample_costs_its_frame_and_nothing_else) {
    expect_finite("", "snapshots: 8", absurd_once, 1);
    expect_finite("", "forgetting: 0.99", absurd_once, 1);
}

/* The loudest accepted samples are accepted in every unit, and no array overflows. */
Test(extreme, the_loudest_samples_leave_every_array_finite) {
    expect_finite("", "snapshots: 8", loudest, 0);
    expect_finite("", "forgetting: 0.99", loudest, 0);
}

static void pascals(float *samples, size_t count, int frame) {
    loudest(samples, count, frame);
    for (size_t i = 0; i < count; i++)
        samples[i] *= 1e-6f;
    if (frame == 40)
        samples[3] = 0x1p41f * 1e-6f;
}

Test(extreme, the_limit_is_one_of_pressure_where_gains_are_known) {
    expect_finite(", gain_db: -120", "snapshots: 8", pascals, 1);
}

/* ---- denormal -------------------------------------------------------------------------------- */

static float silence; /* what digital silence has become */

static void fade(float *samples, size_t count, int frame) {
    for (size_t i = 0; i < count && frame > 20; i++)
        samples[i] = samples[i] < 0 ? -silence : silence;
}

static float *faded(float value, int threads, size_t *count) {
    feed feed;
    silence = value;
    open_feed(&feed, "", "snapshots: 4", threads);
    send_frames(&feed, fade);
    float *all = published(&feed, WINDOWS - 1, count);
    feed_close(&feed);
    return all;
}

/* The results equal those of zeros, bit for bit. test_pool.c and test_pipeline.c show that the
 * threads treat denormals as zeros. */
Test(extreme, denormal_samples_give_the_spectra_of_zeros) {
    for (int threads = 1; threads <= 3; threads += 2) {
        size_t zeros_count, count;
        float *zeros = faded(0, threads, &zeros_count);
        float *all = faded(1e-38f, threads, &count);
        cr_assert_eq(count, zeros_count, "%zu, %zu", count, zeros_count);
        for (size_t i = 0; i < count; i++)
            cr_assert(all[i] == zeros[i], "%zu of %zu: %g instead of %g", i, count, (double)all[i],
                      (double)zeros[i]);
        free(all);
        free(zeros);
    }
}

/* ---- too small for a float ------------------------------------------------------------------- */

static void far_too_quiet(float *samples, size_t count, int frame) {
    for (size_t i = 0; i < count && frame > 20; i++)
        samples[i] *= 1e-25f;
}

static bool is_flagged(const cJSON *head, const char *name) {
    const cJSON *flags = cJSON_GetObjectItem(head, "flags");
    bool is = false;
    for (int i = 0; i < cJSON_GetArraySize(flags); i++)
        is = is || !strcmp(cJSON_GetArrayItem(flags, i)->valuestring, name);
    return is;
}

/* Samples are within float's range, their powers are not. */
Test(extreme, powers_below_the_least_float_are_flagged) {
    feed feed;
    message m;
    uint64_t first = WINDOWS, flagged = 0;
    open_feed(&feed, "", "snapshots: 4", 2);
    send_frames(&feed, far_too_quiet);
    subscriber s = {feed.context, feed.socket};
    for (bool over = false; !over;) {
        cr_assert(receive(&s, &m, 20000));
        const uint64_t window = (uint64_t)header_number(m.head, "window");
        over = window >= WINDOWS - 1;
        if (is_flagged(m.head, "underflow")) {
            first = window < first ? window : first;
            flagged++;
        } else {
            cr_expect_lt(window, first, "%s of window %lu", m.topic, (unsigned long)window);
        }
        message_free(&m);
    }
    cr_expect_gt(first, 0);
    cr_expect_gt(flagged, 0);
    feed_close(&feed);
}
