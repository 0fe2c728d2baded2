/* SPDX-License-Identifier: GPL-3.0-or-later */
/* beam.audio of a pipeline that is fed frames: its level is the CBF's, its samples continue from
 * message to message, and what was lost is told. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "configured.h"
#include "control/change.h"
#include "core/core.h"
#include "fed.h"

TestSuite(beam_topic, .timeout = 300);

enum { LENGTH = 4096, HOP = 1500, FRAME = 250, SAMPLES = 88 * FRAME, BEAMS = 3 };
static const double FS = 8000;

#define TEXT(more)                                                                                 \
    "schema: 1\n"                                                                                  \
    "array: {id: 1, geometry: {line: {sensors: 24, spacing_m: 0.6}}, mask: [5], gain_db: -170, "   \
    "delay_us: 40}\n"                                                                              \
    "fs_hz: 8000\n"                                                                                \
    "ingest: {endpoints: [\"ipc:///no/such/folder/in\"], overload: block, queue_windows: 1, "      \
    "max_missing_share: 0.2, drop_spikes: false}\n"                                                \
    "dft: {length: 4096, hop: 1500}\n"                                                             \
    "cbf: {band_hz: [300, 1100], shading: hann, "                                                  \
    "scan: {start_deg: 0, stop_deg: 180, step_deg: 1}}\n"                                          \
    "mvdr: {enabled: false}\n"                                                                     \
    "beam: {az_deg: [70, 110], bearing_deg: [71]}\n"                                               \
    "output: {endpoint: \"ipc:///no/such/folder/out\", queue_results: 1}\n"                        \
    "runtime: {threads: 2, backend: cpu}\n" more

typedef struct reader {
    bool wants;
    const char *navigation[2]; /* set before the samples come; NULL: none */
    uint64_t messages, cbf_windows;
    float series[BEAMS][SAMPLES];
    uint8_t came[SAMPLES]; /* how often */
    size_t told_missing[BEAMS], nan[BEAMS];
    int64_t window_first[64];
    double cbf[64][2]; /* uPa^2 at 70 and 110 degrees */
    double az_deg[BEAMS];
    char head[4096]; /* of the last beam.audio */
} reader;

static uint32_t wanted(void *ctx) {
    const reader *r = ctx;
    return SONAR_WANT(SONAR_CBF_AZIMUTH) | (r->wants ? SONAR_WANT(SONAR_BEAM_AUDIO) : 0);
}

static void take_series(reader *r, const cJSON *head, const float *data) {
    const cJSON *beams = cJSON_GetObjectItem(head, "beams"), *beam;
    const int64_t first = (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(head, "sample_index"));
    size_t b = 0;
    cJSON_ArrayForEach(beam, beams) {
        r->told_missing[b] += (size_t)cJSON_GetNumberValue(cJSON_GetObjectItem(beam, "missing"));
        r->az_deg[b] = cJSON_GetNumberValue(cJSON_GetObjectItem(beam, "az_deg"));
        for (int64_t i = 0; i < HOP; i++) {
            const float value = data[b * HOP + (size_t)i];
            r->nan[b] += isnan(value);
            if (first + i < 0 || first + i >= SAMPLES)
                continue;
            r->series[b][first + i] = value;
            r->came[first + i] += b == 0;
        }
        b++;
    }
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    reader *r = ctx;
    cJSON *head = cJSON_Parse(header);
    if (surface == SONAR_BEAM_AUDIO) {
        r->messages++;
        snprintf(r->head, sizeof r->head, "%s", header);
        take_series(r, head, data);
    } else if (bytes == 181 * sizeof(float) && r->cbf_windows < 64) {
        const float *power = data;
        r->cbf[r->cbf_windows][0] = (double)power[70];
        r->cbf[r->cbf_windows][1] = (double)power[110];
        r->window_first[r->cbf_windows++] =
            (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(head, "sample_index"));
    }
    cJSON_Delete(head);
}

/* ---- the stream ------------------------------------------------------------------------------ */

/* Which frames are sent: without channel 3 in one of them, and without any channel over others. */
typedef struct loss {
    uint32_t short_frame, none_from, none_end; /* first samples; UINT32_MAX: no such frame */
} loss;

static void feed(const fed *fed, sea *sea, const loss *loss) {
    enum { CHANNELS = 24 };
    static float samples[CHANNELS * FRAME];
    for (uint32_t at = 0; at + FRAME <= SAMPLES; at += FRAME) {
        sea_fill(sea, at, FRAME, samples);
        if (at >= loss->none_from && at < loss->none_end)
            continue;
        const uint32_t channels = at == loss->short_frame ? CHANNELS - 1 : CHANNELS;
        if (channels < CHANNELS)
            fed_leave_out_last(samples, FRAME, CHANNELS);
        fed_samples(fed, at, FRAME, channels, 1700000000000000000 + (int64_t)at * 125000, samples);
    }
}

static const loss NONE = {UINT32_MAX, UINT32_MAX, UINT32_MAX};

static void run(const char *text, reader *reader, const loss *loss) {
    const sonar_output_tap tap = {.ctx = reader, .wanted = wanted, .take = take};
    fed fed = fed_open("beam", text, &tap);
    sea sea = fed_sea(&fed, 2);
    sonar_error err = {0};
    for (size_t i = 0; i < 2 && reader->navigation[i]; i++)
        cr_assert_eq(sonar_pipeline_navigate(fed.pipeline, reader->navigation[i],
                                             strlen(reader->navigation[i]), &err),
                     SONAR_OK, "%s", err.text);
    feed(&fed, &sea, loss);
    sea_close(&sea);
    fed_close(&fed);
}

/* The band's power over a window with Hann's taper, as algorithms of the CBF have it, by a plain
 * sum for each bin. */
static double band_power(const float *x) {
    const size_t first = (size_t)ceil(300 * LENGTH / FS), end = (size_t)floor(1100 * LENGTH / FS);
    double mean = 0, sum = 0, squares = 0;
    static double tapered[LENGTH];
    for (size_t i = 0; i < LENGTH; i++)
        mean += (double)x[i] / LENGTH;
    for (size_t i = 0; i < LENGTH; i++) {
        const double taper = 0.5 - 0.5 * cos(2 * M_PI * (double)i / LENGTH);
        tapered[i] = taper * ((double)x[i] - mean);
        squares += taper * taper;
    }
    for (size_t bin = first; bin <= end; bin++) {
        double re = 0, im = 0;
        for (size_t i = 0; i < LENGTH; i++) {
            const double angle = 2 * M_PI * (double)(bin * i % LENGTH) / LENGTH;
            re += tapered[i] * cos(angle), im -= tapered[i] * sin(angle);
        }
        sum += 2 * (re * re + im * im) / (FS * squares);
    }
    return sum * FS / LENGTH;
}

/* In the beam of the ship, and in one beside it, where the other ship's side lobe is heard. */
Test(beam_topic, level_is_that_of_the_cbf) {
    static reader r = {.wants = true};
    size_t compared = 0;
    run(TEXT(""), &r, &NONE);
    cr_assert_eq(r.messages, 1 + (SAMPLES - LENGTH) / HOP);
    for (size_t w = 0; w < r.cbf_windows; w++) {
        size_t whole = 0;
        for (size_t i = 0; i < LENGTH && r.window_first[w] + LENGTH <= SAMPLES; i++)
            whole += r.came[(size_t)r.window_first[w] + i] == 1;
        if (whole < LENGTH)
            continue;
        compared++;
        for (size_t b = 0; b < 2; b++) {
            const double db = 10 * log10(band_power(&r.series[b][r.window_first[w]]) / r.cbf[w][b]);
            cr_expect_float_eq(db, 0, 0.05, "window %zu, beam %zu: %g dB off", w, b, db);
        }
    }
    cr_expect_geq(compared, 6);
}

Test(beam_topic, header_says_what_it_is) {
    static reader r = {.wants = true};
    run(TEXT(""), &r, &NONE);
    cJSON *head = cJSON_Parse(r.head);
    char want[200];
    const uint64_t window = r.messages - 1;
    /* the longest delay is 6.9 m or 4.6 ms and 40 us, 37.12 samples, with a tenth more 42 */
    const uint64_t first = window * HOP + LENGTH - HOP - 42 - 16;
    snprintf(want, sizeof want, "\"sample_index\":%llu,\"window_length\":%d,",
             (unsigned long long)first, HOP);
    cr_expect(strstr(r.head, want), "%s: %s", want, r.head);
    snprintf(want, sizeof want, "\"utc_ns\":%llu,",
             (unsigned long long)(1700000000000000000 + first * 125000));
    cr_expect(strstr(r.head, want), "%s: %s", want, r.head);
    cr_expect(strstr(r.head, "\"shape\":[3,1500]"), "%s", r.head);
    cr_expect(strstr(r.head, "{\"name\":\"time\",\"unit\":\"s\",\"start\":0,\"step\":0.000125}"));
    cr_expect(strstr(r.head, "\"unit\":\"uPa\""));
    cr_expect(strstr(r.head, "\"range_m\":null"));
    cr_expect(strstr(r.head, "{\"name\":\"az70\",\"az_deg\":70,\"bearing_deg\":null,\"missing\":0,"
                             "\"track\":null,\"track_state\":null},{\"name\":\"az110\","),
              "%s", r.head);
    /* no heading: the bearing has no direction, and no sample */
    cr_expect(strstr(r.head, "{\"name\":\"bearing71\",\"az_deg\":null,\"bearing_deg\":71,"
                             "\"missing\":1500,\"track\":null,\"track_state\":null}"),
              "%s", r.head);
    /* Hann over 24 sensors but one: a third less than 23 */
    const double gain = cJSON_GetNumberValue(cJSON_GetObjectItem(head, "array_gain_db"));
    cr_expect(gain > 11.4 && gain < 12.6, "%g", gain);
    cJSON_Delete(head);
}

/* Of a heading of 10 degrees a bearing of 71 is an angle of 61 from the axis. */
Test(beam_topic, bearings_are_turned_by_the_heading) {
    static reader r = {.wants = true};
    const char *text = TEXT("");
    char turned[2048];
    const char *at = strstr(text, "mask: [5]");
    snprintf(turned, sizeof turned, "%.*sheading_deg: 10, %s", (int)(at - text), text, at);
    run(turned, &r, &NONE);
    cr_expect_float_eq(r.az_deg[2], 61, 1e-9, "%g", r.az_deg[2]);
    cr_expect_eq(r.nan[2], r.nan[0]);
}

/* A heading from navigation that turns by 20 degrees, over north, in the 2.75 s of all samples: the
 * header has the beam's angle behind the last of its own samples, not of the window. */
Test(beam_topic, bearings_follow_navigation) {
    static reader r = {.wants = true,
                       .navigation = {"{\"heading_deg\": 355, \"utc_ns\": 1700000000000000000}",
                                      "{\"heading_deg\": 15, \"utc_ns\": 1700000002750000000}"}};
    run(TEXT(""), &r, &NONE);
    cJSON *head = cJSON_Parse(r.head);
    const double first = cJSON_GetNumberValue(cJSON_GetObjectItem(head, "sample_index"));
    const double heading_deg = 355 - 360 + 20 * (first + HOP) / SAMPLES;
    cr_expect_float_eq(r.az_deg[2], 71 - heading_deg, 1e-6, "%g", r.az_deg[2]);
    cr_expect_float_eq(r.az_deg[0], 70, 1e-12);
    cr_expect_eq(r.nan[2], r.nan[0], "none beyond those of the stream's beginning");
    cJSON_Delete(head);
}

/* Every sample comes once. What touches a lost sample is NaN and counted, and no other sample
 * differs from those without the loss. */
Test(beam_topic, losses_are_told_and_never_bridged) {
    static reader whole = {.wants = true}, r = {.wants = true};
    const loss loss = {.short_frame = 20 * FRAME, .none_from = UINT32_MAX, .none_end = 0};
    const int64_t reach = 42 + 16;
    run(TEXT(""), &whole, &NONE);
    run(TEXT(""), &r, &loss);
    size_t nan = 0;
    for (int64_t i = 0; i < SAMPLES; i++) {
        cr_assert_eq(whole.came[i], r.came[i]);
        if (!r.came[i])
            continue;
        const bool lost = i + reach >= 20 * FRAME && i - reach < 21 * FRAME;
        const bool early = i < reach;
        cr_assert_eq(!!isnan(r.series[0][i]), lost || early, "sample %zd", (ssize_t)i);
        nan += lost;
        if (!lost && !early)
            cr_assert_eq(r.series[0][i], whole.series[0][i], "sample %zd", (ssize_t)i);
    }
    cr_expect_eq(nan, FRAME + 2 * reach);
    for (size_t b = 0; b < BEAMS; b++) {
        cr_expect_eq(r.told_missing[b], r.nan[b]);
        cr_expect(b == 2 || r.nan[b] == whole.nan[b] + nan, "beam %zu", b);
    }
}

/* Windows that are dropped leave a step in sample_index; what follows is right from its first
 * sample that does not touch the loss. */
Test(beam_topic, dropped_windows_are_a_step_of_the_index) {
    static reader whole = {.wants = true}, r = {.wants = true};
    const loss loss = {UINT32_MAX, 8 * HOP / FRAME * FRAME, 8 * HOP / FRAME * FRAME + 2000};
    size_t absent = 0;
    run(TEXT(""), &whole, &NONE);
    run(TEXT(""), &r, &loss);
    cr_expect_lt(r.messages, whole.messages);
    for (size_t i = 0; i < SAMPLES; i++) {
        absent += whole.came[i] && !r.came[i];
        if (r.came[i] && !isnan(r.series[1][i]))
            cr_assert_eq(r.series[1][i], whole.series[1][i], "sample %zu", i);
    }
    cr_expect_geq(absent, 1000);
    cr_expect_eq(absent % HOP, 0);
}

/* Nothing is made without a subscriber, and spectra do not depend on it. */
Test(beam_topic, is_made_for_a_subscriber_only) {
    static reader with = {.wants = true}, without = {.wants = false};
    run(TEXT(""), &with, &NONE);
    run(TEXT(""), &without, &NONE);
    cr_expect_eq(without.messages, 0);
    cr_expect_eq(without.cbf_windows, with.cbf_windows);
    cr_expect_eq(memcmp(without.cbf, with.cbf, sizeof with.cbf), 0);
}

/* ---- configuration --------------------------------------------------------------------------- */

static void expect_mistake(const char *from, const char *to, const char *said) {
    char where[MISTAKE_WHERE_BYTES], why[MISTAKE_WHY_BYTES];
    cr_expect_eq(configured_spoilt(TEXT(""), from, to, where, why), SONAR_EINVAL, "%s", to);
    cr_expect(strstr(why, said), "'%s' lacks '%s'", why, said);
}

Test(beam_topic, mistakes_are_named) {
    expect_mistake("az_deg: [70, 110]", "az_deg: [70, 200]", "no beam at 200 deg");
    expect_mistake("delay_us: 40", "phase_deg: 3", "array.phase_deg 3");
    expect_mistake("hop: 1500", "hop: 5000", "skips some");
    expect_mistake("bearing_deg: [71]", "bearing_deg: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]",
                   "more than 16 beams");
    expect_mistake("sensors: 24, spacing_m: 0.6}}, mask: [5]",
                   "sensors: 60000, spacing_m: 0.006}}, mask: [5]", "at most 2 beams");
}

/* What a live change may not exceed is named, and the rest of the change holds. */
static void expect_misfit(const char *path, const char *value, const char *why) {
    static sonar_config_differences all;
    sonar_config *made = configured("made", TEXT("")), *wanted, *merged = NULL;
    sonar_report *report = sonar_report_create();
    const sonar_config_value values[2] = {{path, value}, {"runtime.log_level", "error"}};
    cr_assert_eq(sonar_config_with(made, 2, values, &wanted, report), SONAR_OK, "%s", path);
    cr_assert_eq(sonar_config_merge(made, made, wanted, &merged, &all, report), SONAR_OK);
    cr_expect_eq(all.count, 2);
    for (size_t i = 0; i < all.count; i++) {
        const sonar_config_difference *d = &all.difference[i];
        const bool one = !strcmp(d->path, path);
        cr_expect_eq(d->live, !one || !why, "%s: %s", d->path, d->why);
        cr_expect(!one || !why || strstr(d->why, why), "%s: '%s' lacks '%s'", path, d->why, why);
    }
    cr_expect_eq(merged->log_level, SONAR_ERROR);
    sonar_config_destroy(merged);
    sonar_config_destroy(wanted);
    sonar_config_destroy(made);
    sonar_report_destroy(report);
}

Test(beam_topic, live_changes_have_the_room_of_the_start) {
    expect_misfit("beam.az_deg", "[1, 2]", NULL);
    expect_misfit("beam.az_deg", "[1]", NULL);
    expect_misfit("beam.az_deg", "[1, 2, 3]", "4 beams do not fit buffers for 3");
    expect_misfit("sound_speed_mps", "1400", NULL);
    expect_misfit("sound_speed_mps", "1200", "there is room for 42");
    expect_misfit("array.delay_us", "200", NULL);
    expect_misfit("array.delay_us", "2000", "there is room for 42");
}

Test(beam_topic, check_config_describes_beams) {
    static const char text[] = TEXT("");
    char *said = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&said, &bytes);
    sonar_config *config = configured("beam", text);
    sonar_config_describe(config, to);
    fclose(to);
    cr_expect(strstr(said, "beams         3 with a time series, exact up to 3200 Hz\n"), "%s",
              said);
    sonar_config_destroy(config);
    free(said);
    char high[2048];
    const char *at = strstr(text, "1100]");
    snprintf(high, sizeof high, "%.*s3300%s", (int)(at - text), text, at + 4);
    sonar_report *report = sonar_report_create();
    cr_assert_eq(sonar_config_parse("high", high, strlen(high), &config, report), SONAR_OK);
    said = NULL;
    to = open_memstream(&said, &bytes);
    sonar_report_write(report, to);
    fclose(to);
    cr_expect(strstr(said, "beam.audio is exact up to 3200 Hz"), "%s", said);
    sonar_report_destroy(report);
    sonar_config_destroy(config);
    free(said);
}
