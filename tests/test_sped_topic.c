/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cbf.sped of a pipeline that is fed frames, compared with the definition on the surface of the
 * same windows, with what noise must read, and with the truth of a simulated scene. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "fed.h"
#include "numerical.h"
#include "sped_oracle.h"
#include "synth.h"

TestSuite(sped_topic, .timeout = 300);

enum { CHANNELS = 24, LENGTH = 512, FRAME = 256, LOOKS = 181, BINS_MOST = 512, WINDOWS = 40 };
static const double FS = 8000;

#define TEXT_OF(geometry, array, dft, cbf, scan, output)                                           \
    "schema: 1\n"                                                                                  \
    "array: {id: 1, geometry: {" geometry "}, " array "gain_db: -170}\n"                           \
    "fs_hz: 8000\n"                                                                                \
    "ingest: {endpoints: [\"ipc:///no/such/folder/in\"], overload: block, queue_windows: 1, "      \
    "max_missing_share: 0.2, drop_spikes: false}\n"                                                \
    "dft: {" dft "}\n"                                                                             \
    "cbf: {band_hz: [300, 1100], " cbf "scan: {" scan "}}\n"                                       \
    "lofar: {band_hz: [100, 1300]}\n"                                                              \
    "mvdr: {enabled: false}\n"                                                                     \
    "output: {endpoint: \"ipc:///no/such/folder/out\", queue_results: 1" output "}\n"              \
    "runtime: {threads: 2, backend: cpu}\n"
#define LINE        "line: {sensors: 24, spacing_m: 0.6}"
#define CIRCLE      "circle: {sensors: 24, radius_m: 2.2}"
#define ONE         "length: 512, hop: 512"
#define WHOLE       "start_deg: 0, stop_deg: 180, step_deg: 1"
#define AROUND      "start_deg: 0, stop_deg: 359, step_deg: 1.98895" /* 181 directions */
#define TEXT        TEXT_OF(LINE, "mask: [5], ", ONE, "shading: hann, ", WHOLE, "")
#define TEXT_PLAIN  TEXT_OF(LINE, "", ONE, "", WHOLE, "")
#define TEXT_CIRCLE TEXT_OF(CIRCLE, "mask: [3, 7], ", ONE, "", AROUND, "")
#define TEXT_RING   TEXT_OF(CIRCLE, "", ONE, "", AROUND, "")
#define TEXT_SECTOR TEXT_OF(LINE, "", ONE, "", "start_deg: 60, stop_deg: 105, step_deg: 0.25", "")
#define TEXT_TWO    TEXT_OF(LINE, "", ONE, "", "start_deg: 80, stop_deg: 100, step_deg: 20", "")
#define TEXT_ALONE                                                                                 \
    TEXT_OF(LINE, "mask: [5], ", ONE, "shading: hann, ", WHOLE, ", topics: [cbf.sped]")
/* Four transforms a window, one after the other. */
#define TEXT_FOUR TEXT_OF(LINE, "", "length: 2048, hop: 2048", "length: 512, hop: 512, ", WHOLE, "")

typedef struct reader {
    uint32_t wants;
    const char *change[2]; /* path and value of a live change in the middle; NULL: none */
    const sonar_config *config;
    float surface[BINS_MOST * LOOKS];
    int64_t window; /* of that surface */
    size_t surfaces, records, compared, directions;
    double sum[LOOKS], band_low_hz, band_high_hz;
    double azimuth[LOOKS]; /* sum of cbf.azimuth */
    float last[LOOKS];
    char head[16384];
} reader;

static uint32_t wanted(void *ctx) {
    return ((reader *)ctx)->wants;
}

static double item(const cJSON *array, int i) {
    return cJSON_GetNumberValue(cJSON_GetArrayItem(array, i));
}

/* The scan and the bins are those that the headers tell. */
static void compare(reader *r, const cJSON *head, const float *record) {
    const cJSON *axis = cJSON_GetArrayItem(cJSON_GetObjectItem(head, "axes"), 0),
                *values = cJSON_GetObjectItem(axis, "values"),
                *band = cJSON_GetObjectItem(head, "band_hz");
    const double bin_hz = FS / LENGTH;
    double az_deg[LOOKS], expected[LOOKS];
    for (int i = 0; i < (int)r->directions; i++)
        az_deg[i] = item(values, i);
    r->band_low_hz = item(band, 0), r->band_high_hz = item(band, 1);
    const size_t first = (size_t)ceil(r->band_low_hz / bin_hz - 1e-9),
                 last = (size_t)floor(r->band_high_hz / bin_hz + 1e-9),
                 lofar_first = (size_t)ceil(100 / bin_hz);
    const sonar_scan *of = &r->config->cbf_scan;
    const sonar_scan scan = {.count = r->directions,
                             .az_deg = az_deg,
                             .cone = of->cone,
                             .wraps = of->wraps,
                             .beam_width_deg = of->beam_width_deg};
    const sonar_sped_spec spec = {&scan, first, last - first + 1};
    sped_oracle(&spec, r->surface + (first - lofar_first) * r->directions, expected);
    for (size_t i = 0; i < r->directions; i++)
        cr_assert(fabs((double)record[i] - expected[i]) < 1e-4 * (1 + expected[i]),
                  "window %lld, %zu: %g, not %g", (long long)r->window, i, (double)record[i],
                  expected[i]);
    r->compared++;
}

static void take_record(reader *r, const cJSON *head, const char *text, const float *record) {
    for (size_t i = 0; i < r->directions; i++) {
        cr_assert(isfinite(record[i]) && record[i] >= 0);
        r->sum[i] += (double)record[i];
        r->last[i] = record[i];
    }
    r->records++;
    snprintf(r->head, sizeof r->head, "%s", text);
    if (r->wants & SONAR_WANT(SONAR_CBF_LOFAR) && !r->change[0]) {
        cr_assert_eq(r->window, (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(head, "window")));
        compare(r, head, record);
    }
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    reader *r = ctx;
    cJSON *head = cJSON_Parse(header);
    if (surface == SONAR_CBF_LOFAR) {
        cr_assert(bytes <= sizeof r->surface);
        memcpy(r->surface, data, bytes);
        r->window = (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(head, "window"));
        r->surfaces++;
    } else if (surface == SONAR_CBF_SPED) {
        r->directions = bytes / sizeof(float);
        cr_assert(r->directions <= LOOKS);
        take_record(r, head, header, data);
    } else if (surface == SONAR_CBF_AZIMUTH) {
        for (size_t i = 0; i < bytes / sizeof(float); i++)
            r->azimuth[i] += (double)((const float *)data)[i];
    }
    cJSON_Delete(head);
}

/* ---- the stream ------------------------------------------------------------------------------ */

/* lossy: as fed_lossy, and one frame has samples that are no numbers. */
static void feed(const fed *fed, sea *sea, const reader *r, uint32_t frames, bool lossy) {
    static float samples[CHANNELS * FRAME];
    for (uint32_t k = 0; k < frames; k++) {
        sea_fill(sea, (uint64_t)k * FRAME, FRAME, samples);
        if (k == frames / 2 && r->change[0])
            fed_set(fed, r->change[0], r->change[1]);
        for (size_t i = 0; lossy && k == 8 && i < 5; i++)
            samples[7 * i] = NAN;
        if (lossy)
            fed_lossy(fed, k, FRAME, CHANNELS, samples);
        else
            fed_samples(fed, (uint64_t)k * FRAME, FRAME, CHANNELS, 0, samples);
    }
}

enum { SHIPS = 1, LOSSY = 2 };

static void run(const char *text, reader *reader, uint32_t frames, int how) {
    const sonar_output_tap tap = {.ctx = reader, .wanted = wanted, .take = take};
    fed fed = fed_open("sped", text, &tap);
    sea sea = fed_sea(&fed, how & SHIPS ? 2 : 0);
    reader->config = fed.config;
    feed(&fed, &sea, reader, frames, how & LOSSY);
    sea_close(&sea);
    fed_close(&fed);
}

static const uint32_t BOTH = SONAR_WANT(SONAR_CBF_LOFAR) | SONAR_WANT(SONAR_CBF_SPED);

/* ---- what it says ---------------------------------------------------------------------------- */

Test(sped_topic, is_the_definition_of_the_published_surface) {
    static const char *const text[] = {TEXT, TEXT_CIRCLE, TEXT_SECTOR};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        static reader r;
        r = (reader){.wants = BOTH};
        run(text[i], &r, 2 * WINDOWS, SHIPS);
        cr_expect_eq(r.compared, WINDOWS);
        cr_expect(r.band_low_hz >= 300 && r.band_high_hz <= 1100);
    }
}

Test(sped_topic, losses_change_it_as_they_change_the_surface) {
    static reader r = {.wants = BOTH};
    run(TEXT, &r, 4 * WINDOWS, SHIPS | LOSSY);
    cr_expect_eq(r.compared, r.surfaces);
    cr_expect(r.compared > WINDOWS && r.compared < 2 * WINDOWS, "%zu", r.compared);
}

/* Noise reads 0.22 times the mean frequency over the highest, over the square root of the number of
 * transforms, in every direction. */
static void expect_flat(const char *text, size_t windows, double transforms) {
    static reader r;
    r = (reader){.wants = SONAR_WANT(SONAR_CBF_SPED)};
    run(text, &r, (uint32_t)(2 * windows * (size_t)transforms), 0);
    const double said = 0.22 * 700 / 1100 / sqrt(transforms);
    double all = 0, least = INFINITY, most = 0;
    cr_assert_eq(r.records, windows);
    for (size_t i = 0; i < LOOKS; i++) {
        const double mean = r.sum[i] / (double)windows;
        all += mean / LOOKS, least = fmin(least, mean), most = fmax(most, mean);
    }
    cr_log_info("noise reads %.3f (%.2f dB), %.2f to %.2f dB of that; said %.3f", all,
                10 * log10(all), 10 * log10(least / all), 10 * log10(most / all), said);
    cr_expect(fabs(10 * log10(all / said)) < 0.5, "%g, not %g", all, said);
    cr_expect(10 * log10(most / all) < 1 && 10 * log10(least / all) > -1, "%g to %g of %g", least,
              most, all);
}

Test(sped_topic, noise_is_flat_at_the_level_that_the_page_states, NUMERICAL) {
    expect_flat(TEXT_PLAIN, 2000, 1);
    expect_flat(TEXT_RING, 2000, 1);
    expect_flat(TEXT_FOUR, 1000, 4);
}

Test(sped_topic, header_says_what_it_is) {
    static reader r = {.wants = BOTH};
    run(TEXT, &r, 2 * WINDOWS, SHIPS);
    cJSON *head = cJSON_Parse(r.head);
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(head, "unit")), "1");
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(
                         cJSON_GetArrayItem(cJSON_GetObjectItem(head, "axes"), 0), "name")),
                     "azimuth");
    cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(head, "bearing_kind")), "cone");
    cJSON_Delete(head);
}

/* ---- when it is made ------------------------------------------------------------------------- */

/* Another scan, or another band, from the window on that has the change: the last record is that of
 * a pipeline which began with it. */
Test(sped_topic, follows_live_changes) {
    static const char *const to[][3] = {
        {"cbf.scan", "{start_deg: 60, stop_deg: 105, step_deg: 0.25}", TEXT_SECTOR},
        {"cbf.band_hz", "[500, 900]", NULL}};
    for (size_t i = 0; i < 2; i++) {
        static reader changed, same;
        changed = (reader){.wants = BOTH, .change = {to[i][0], to[i][1]}};
        same = (reader){.wants = BOTH};
        run(TEXT_PLAIN, &changed, 2 * WINDOWS, SHIPS);
        char text[sizeof TEXT_PLAIN];
        memcpy(text, TEXT_PLAIN, sizeof text);
        char *band = strstr(text, "[300, 1100]");
        memcpy(band, "[500, 900] ", 11);
        run(to[i][2] ? to[i][2] : text, &same, 2 * WINDOWS, SHIPS);
        cr_expect_eq(changed.records, WINDOWS);
        for (size_t k = 0; k < LOOKS; k++)
            cr_assert(fabs((double)changed.last[k] - (double)same.last[k]) < 1e-3,
                      "%zu: %g, not %g", k, (double)changed.last[k], (double)same.last[k]);
    }
}

/* Without a subscriber neither it nor the surface is made, and with one to it alone the surface is
 * not sent, even if it is not among the topics. */
Test(sped_topic, is_made_for_a_subscriber_only) {
    static reader with = {.wants = BOTH}, alone = {.wants = BOTH},
                  only = {.wants = SONAR_WANT(SONAR_CBF_SPED)},
                  without = {.wants = SONAR_WANT(SONAR_CBF_AZIMUTH)};
    run(TEXT, &with, 2 * WINDOWS, SHIPS);
    run(TEXT, &only, 2 * WINDOWS, SHIPS);
    run(TEXT, &without, 2 * WINDOWS, SHIPS);
    cr_expect(with.surfaces == WINDOWS && with.records == WINDOWS);
    cr_expect(only.surfaces == 0 && only.records == WINDOWS);
    cr_expect(without.surfaces == 0 && without.records == 0);
    cr_expect_eq(memcmp(with.sum, only.sum, sizeof with.sum), 0);
    alone.wants = SONAR_WANT(SONAR_CBF_SPED);
    run(TEXT_ALONE, &alone, 2 * WINDOWS, SHIPS);
    cr_expect_eq(memcmp(with.sum, alone.sum, sizeof with.sum), 0);
}

/* Two directions have no peaks, and the daemon runs without the topic. */
Test(sped_topic, two_directions_have_none) {
    static reader r = {.wants = SONAR_WANT(SONAR_CBF_SPED) | SONAR_WANT(SONAR_CBF_AZIMUTH)};
    run(TEXT_TWO, &r, 2 * WINDOWS, SHIPS);
    cr_expect_eq(r.records, 0);
    cr_expect_gt(r.azimuth[0], 0);
}

/* ---- the quiet ship beside the loud one ------------------------------------------------------ */

/* A line of 32 sensors, whose beams are 3.2 degrees wide at 1100 Hz. */
enum { SCENE_SENSORS = 32, SCENE_FS = 4000, SCENE_FRAME = 500, SCENE_S = 30 };
#define TEXT_SCENE                                                                                 \
    "schema: 1\n"                                                                                  \
    "array: {id: 1, geometry: {line: {sensors: 32, spacing_m: 0.68}}, gain_db: 0}\n"               \
    "fs_hz: 4000\n"                                                                                \
    "ingest: {endpoints: [\"ipc:///no/such/folder/in\"], overload: block, drop_spikes: false}\n"   \
    "dft: {length: 4000, hop: 4000}\n"                                                             \
    "cbf: {band_hz: [300, 1100], scan: {start_deg: 0, stop_deg: 180, step_deg: 1}}\n"              \
    "mvdr: {enabled: false}\n"                                                                     \
    "output: {endpoint: \"ipc:///no/such/folder/out\"}\n"                                          \
    "runtime: {threads: 2, backend: cpu}\n"

/* Machinery of a large ship: lines, and noise at low frequencies. 20 dB below in the whole band,
 * the propeller of a boat, which hisses at high frequencies. */
static sim_source freighter(double az_deg) {
    sim_source s = {.far = true,
                    .az_deg = az_deg,
                    .broadband = {.present = true, .low_hz = 300, .high_hz = 550, .level_db = 85},
                    .tones = 7};
    for (size_t i = 0; i < s.tones; i++)
        s.tone[i] = (sim_tone){.hz = 315.3 + 45 * (double)i, .level_db = 80};
    return s;
}

static sim_source boat(double az_deg) {
    return (sim_source){
        .far = true,
        .az_deg = az_deg,
        .broadband = {.present = true, .low_hz = 550, .high_hz = 1100, .level_db = 70}};
}

static void simulate(const fed *fed, const sim_source *source, size_t sources) {
    static float samples[SCENE_FRAME * SCENE_SENSORS];
    const sim_scene scene = {.seed = 7,
                             .sensitivity_db = NAN,
                             .noise_db = 80,
                             .sources = sources,
                             .source = (sim_source *)(uintptr_t)source};
    const sim_array array = {.sensors = SCENE_SENSORS,
                             .channels = SCENE_SENSORS,
                             .fs_hz = SCENE_FS,
                             .sound_speed_mps = fed->config->sound_speed_mps,
                             .position_m = fed->config->position_m};
    sim_synth *synth = NULL;
    sonar_error err = {0};
    cr_assert_eq(sim_synth_create(&scene, &array, &synth, &err), SONAR_OK, "%s", err.text);
    for (uint32_t k = 0; k < SCENE_S * SCENE_FS / SCENE_FRAME; k++) {
        sim_synth_render(synth, (uint64_t)k * SCENE_FRAME, SCENE_FRAME, samples);
        fed_channels(fed, (uint64_t)k * SCENE_FRAME, SCENE_FRAME, SCENE_SENSORS, 0, samples);
    }
    sim_synth_destroy(synth);
}

/* Local maxima of more than `least` within 10 degrees of the loud ship; their places. */
static size_t peaks_near(const double *sum, size_t at, double least, size_t place[LOOKS]) {
    size_t count = 0;
    for (size_t i = at - 10; i <= at + 10; i++)
        if (sum[i] > least && sum[i] > sum[i - 1] && sum[i] >= sum[i + 1])
            place[count++] = i;
    return count;
}

Test(sped_topic, shows_a_quiet_ship_beside_a_loud_one) {
    static const double apart_deg[] = {4, 5, 6};
    for (size_t k = 0; k < 3; k++) {
        static reader r;
        r = (reader){.wants = SONAR_WANT(SONAR_CBF_SPED) | SONAR_WANT(SONAR_CBF_AZIMUTH)};
        const sonar_output_tap tap = {.ctx = &r, .wanted = wanted, .take = take};
        const sim_source source[] = {freighter(90), boat(90 + apart_deg[k])};
        fed fed = fed_open("sped", TEXT_SCENE, &tap);
        simulate(&fed, source, 2);
        fed_close(&fed);
        size_t broad[LOOKS], fine[LOOKS];
        const size_t quiet = 90 + (size_t)apart_deg[k];
        const size_t in_power = peaks_near(r.azimuth, 90, 0.02 * r.azimuth[90], broad),
                     in_sped = peaks_near(r.sum, 90, 0.1 * r.sum[90], fine);
        cr_log_info("%g deg: %zu peaks of power, %zu of sped; %.2f and %.2f, between them %.2f",
                    apart_deg[k], in_power, in_sped, r.sum[90] / SCENE_S, r.sum[quiet] / SCENE_S,
                    r.sum[92] / SCENE_S);
        cr_expect(in_power == 1 && broad[0] == 90, "%zu peaks", in_power);
        cr_expect(in_sped == 2 && fine[0] == 90 && fine[1] == quiet, "%zu peaks", in_sped);
        cr_expect_lt(r.sum[92], 0.25 * fmin(r.sum[90], r.sum[quiet]));
    }
}
