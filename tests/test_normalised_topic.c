/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cbf.normalised and mvdr.normalised of a pipeline that is fed frames, compared with the definition
 * on the spectra of the same windows, and with what noise must read. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "fed.h"
#include "normalise_oracle.h"
#include "numerical.h"

TestSuite(normalised_topic, .timeout = 300);

enum { CHANNELS = 24, LENGTH = 512, FRAME = 256, LOOKS = 181, WINDOWS = 40 };
static const double FS = 8000;

#define TEXT_OF(geometry, array, cbf, mvdr, scan)                                                  \
    "schema: 1\n"                                                                                  \
    "array: {id: 1, geometry: {" geometry "}, " array "gain_db: -170}\n"                           \
    "fs_hz: 8000\n"                                                                                \
    "ingest: {endpoints: [\"ipc:///no/such/folder/in\"], overload: block, queue_windows: 1, "      \
    "max_missing_share: 0.2, drop_spikes: false}\n"                                                \
    "dft: {length: 512, hop: 512}\n"                                                               \
    "cbf: {band_hz: [300, 1100], " cbf "scan: {" scan "}}\n"                                       \
    "mvdr: {length: 128, hop: 64, snapshots: 72, " mvdr "scan: {" scan "}}\n"                      \
    "output: {endpoint: \"ipc:///no/such/folder/out\", queue_results: 1}\n"                        \
    "runtime: {threads: 2, backend: cpu}\n"
#define LINE         "line: {sensors: 24, spacing_m: 0.6}"
#define HANN         "shading: hann, "
#define WHOLE        "start_deg: 0, stop_deg: 180, step_deg: 1"
#define TEXT         TEXT_OF(LINE, "mask: [5], ", HANN, "", WHOLE)
#define TEXT_MAXIMUM TEXT_OF(LINE, "mask: [5], ", HANN, "cell_maximum: true, ", WHOLE)
#define TEXT_QUIET   TEXT_OF(LINE, "", HANN, "", WHOLE) "detections: {enabled: false}\n"
#define TEXT_SHORT   TEXT_OF(LINE, "", HANN, "", "start_deg: 90, stop_deg: 94.5, step_deg: 0.025")
/* 181 directions around */
#define TEXT_CIRCLE                                                                                \
    TEXT_OF("circle: {sensors: 24, radius_m: 2.2}", "", "", "",                                    \
            "start_deg: 0, stop_deg: 359, step_deg: 1.98895")

enum { CBF, MVDR, KINDS };
static const sonar_surface spectrum[KINDS] = {SONAR_CBF_AZIMUTH, SONAR_MVDR_AZIMUTH};
static const sonar_surface ratio[KINDS] = {SONAR_CBF_NORMALISED, SONAR_MVDR_NORMALISED};

/* A topic's last message, and what all have in common. */
typedef struct topic {
    size_t messages;
    int64_t window;
    float value[LOOKS];
    double first_deg, last_deg;
    char version[72]; /* of the configuration */
    char head[16384];
} topic;

typedef struct reader {
    uint32_t wants;
    const char *change[2]; /* path and value of a live change in the middle; NULL: none */
    bool circle;
    sonar_normalise_method method, changed_method;
    char version[72];       /* of the configuration at the start */
    double averages[KINDS]; /* 0: do not compare */
    double beam_deg[KINDS], changed_beam_deg[KINDS];
    topic of[KINDS], over[KINDS];
    size_t compared[KINDS], changed[KINDS], empty[KINDS];
    double sum[KINDS][LOOKS];
    float cbf[WINDOWS][LOOKS]; /* cbf.azimuth */
} reader;

static uint32_t wanted(void *ctx) {
    return ((reader *)ctx)->wants;
}

static void keep(topic *t, const char *header, const void *data, size_t bytes) {
    cJSON *head = cJSON_Parse(header);
    const cJSON *axis = cJSON_GetArrayItem(cJSON_GetObjectItem(head, "axes"), 0);
    const cJSON *values = cJSON_GetObjectItem(axis, "values");
    cr_assert_eq(bytes, sizeof t->value);
    t->messages++;
    t->window = (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(head, "window"));
    snprintf(t->version, sizeof t->version, "%s",
             cJSON_GetStringValue(cJSON_GetObjectItem(head, "config_version")));
    t->first_deg = cJSON_GetNumberValue(cJSON_GetArrayItem(values, 0));
    t->last_deg = cJSON_GetNumberValue(cJSON_GetArrayItem(values, LOOKS - 1));
    memcpy(t->value, data, bytes);
    snprintf(t->head, sizeof t->head, "%s", header);
    cJSON_Delete(head);
}

/* Of the angles that the header tells, evenly spaced. */
static void compare(reader *r, int kind) {
    const topic *power = &r->of[kind], *made = &r->over[kind];
    const bool changed = strcmp(made->version, r->version) != 0;
    const double beam_deg = changed ? r->changed_beam_deg[kind] : r->beam_deg[kind];
    double at[LOOKS], expected[LOOKS];
    for (size_t i = 0; i < LOOKS; i++) {
        const double deg =
            made->first_deg + (made->last_deg - made->first_deg) * (double)i / (LOOKS - 1);
        at[i] = r->circle ? deg / beam_deg : -cos(deg * M_PI / 180) / (beam_deg * M_PI / 180);
    }
    const sonar_normalise_spec spec = {.method = changed ? r->changed_method : r->method,
                                       .directions = LOOKS,
                                       .at_beams = at,
                                       .turn_beams = r->circle ? 360 / beam_deg : 0,
                                       .gap_beams = 1.5,
                                       .window_beams = 8};
    normalise_oracle(&spec, r->averages[kind], power->value, expected);
    for (size_t i = 0; i < LOOKS; i++)
        cr_assert(fabs((double)made->value[i] / expected[i] - 1) < 1e-5, "window %lld, %d, %zu: %g",
                  (long long)made->window, kind, i, (double)made->value[i] / expected[i]);
    r->compared[kind]++;
    r->changed[kind] += changed;
}

static void take_ratio(reader *r, int kind) {
    const topic *power = &r->of[kind], *made = &r->over[kind];
    if (r->wants & SONAR_WANT(spectrum[kind]))
        cr_assert_eq(power->window, made->window);
    if (!(made->value[0] >= 0)) { /* before MVDR has its snapshots */
        cr_assert_eq(kind, MVDR);
        r->empty[kind]++;
        return;
    }
    for (size_t i = 0; i < LOOKS; i++)
        r->sum[kind][i] += (double)made->value[i];
    if (r->averages[kind] > 0)
        compare(r, kind);
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    reader *r = ctx;
    for (int kind = 0; kind < KINDS; kind++) {
        if (surface == spectrum[kind]) {
            keep(&r->of[kind], header, data, bytes);
            if (kind == CBF && r->of[CBF].messages <= WINDOWS)
                memcpy(r->cbf[r->of[CBF].messages - 1], data, bytes);
        }
        if (surface == ratio[kind]) {
            keep(&r->over[kind], header, data, bytes);
            take_ratio(r, kind);
        }
    }
}

/* ---- the stream ------------------------------------------------------------------------------ */

static void change(const fed *fed, reader *r) {
    fed_set(fed, r->change[0], r->change[1]);
    const sonar_config *c = sonar_pipeline_config(fed->pipeline);
    r->changed_beam_deg[CBF] = c->cbf_scan.beam_width_deg;
    r->changed_beam_deg[MVDR] = c->mvdr_scan.beam_width_deg;
}

static void feed(const fed *fed, sea *sea, reader *r, uint32_t frames, bool lossy) {
    static float samples[CHANNELS * FRAME];
    for (uint32_t k = 0; k < frames; k++) {
        sea_fill(sea, (uint64_t)k * FRAME, FRAME, samples);
        if (k == frames / 2 && r->change[0])
            change(fed, r);
        if (lossy)
            fed_lossy(fed, k, FRAME, CHANNELS, samples);
        else
            fed_samples(fed, (uint64_t)k * FRAME, FRAME, CHANNELS, 0, samples);
    }
}

enum { SHIPS = 1, LOSSY = 2 };

static void run(const char *text, reader *reader, uint32_t frames, int how) {
    const sonar_output_tap tap = {.ctx = reader, .wanted = wanted, .take = take};
    fed fed = fed_open("normalised", text, &tap);
    snprintf(reader->version, sizeof reader->version, "%s", fed.config->version);
    sea sea = fed_sea(&fed, how & SHIPS ? 2 : 0);
    reader->beam_deg[CBF] = fed.config->cbf_scan.beam_width_deg;
    reader->beam_deg[MVDR] = fed.config->mvdr_scan.beam_width_deg;
    feed(&fed, &sea, reader, frames, how & LOSSY);
    sea_close(&sea);
    fed_close(&fed);
}

/* Of one transform with Hann's taper: neighbouring bins are correlated by 2/3, those beside them by
 * 1/6. */
static double cbf_averages(void) {
    const double bins = floor(1100 * LENGTH / FS) - ceil(300 * LENGTH / FS) + 1;
    return bins / (1 + 2 * (1 - 1 / bins) * 4 / 9 + 2 * (1 - 2 / bins) / 36);
}

static const uint32_t ALL = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NORMALISED) |
                            SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_NORMALISED);

/* ---- what it says ---------------------------------------------------------------------------- */

/* The text with this method. */
static const char *with_method(const char *text, sonar_normalise_method method) {
    static const char *const word[] = {SONAR_NORMALISE_METHODS(SONAR_PICK_WORD, SONAR_COMMA)};
    static char whole[2048];
    snprintf(whole, sizeof whole, "%snormalised: {method: %s}\n", text, word[method]);
    return whole;
}

Test(normalised_topic, is_the_definition_of_the_published_spectrum) {
    for (unsigned m = 0; m < SONAR_NORMALISERS; m++) {
        static reader r, circle;
        r = (reader){.wants = ALL, .method = (sonar_normalise_method)m};
        r.averages[CBF] = cbf_averages();
        run(with_method(TEXT, r.method), &r, 2 * WINDOWS, SHIPS);
        cr_expect_eq(r.compared[CBF], WINDOWS);
        cr_expect_eq(r.over[MVDR].messages, WINDOWS);
        cr_expect_lt(r.empty[MVDR], WINDOWS / 2);
        circle = (reader){.wants = ALL, .circle = true, .method = r.method};
        circle.averages[CBF] = cbf_averages();
        run(with_method(TEXT_CIRCLE, r.method), &circle, 2 * WINDOWS, SHIPS);
        cr_expect_eq(circle.compared[CBF], WINDOWS);
    }
}

/* Samples that are missing change the spectrum, and the ratio follows. */
Test(normalised_topic, losses_change_it_as_they_change_the_spectrum) {
    static reader r = {.wants = ALL, .method = SONAR_FIVE_PASS};
    r.averages[CBF] = cbf_averages();
    run(TEXT, &r, 4 * WINDOWS, SHIPS | LOSSY);
    cr_expect_eq(r.compared[CBF], r.of[CBF].messages);
    cr_expect_eq(r.over[MVDR].messages, r.of[MVDR].messages);
    cr_expect(r.of[CBF].messages > WINDOWS && r.of[CBF].messages < 2 * WINDOWS, "%zu",
              r.of[CBF].messages);
}

/* Of 2000 windows with 26 independent powers each, the standard error is 0.02 dB; MVDR's windows
 * share their snapshots with 8 others. */
static void expect_0_db(const char *text, sonar_normalise_method method) {
    enum { MANY = 2000 };
    static reader ratios;
    reader *r = &ratios;
    *r = (reader){.wants = SONAR_WANT(SONAR_CBF_NORMALISED) | SONAR_WANT(SONAR_MVDR_NORMALISED)};
    run(with_method(text, method), r, 2 * MANY, 0);
    for (int kind = 0; kind < KINDS; kind++) {
        const double count = (double)(r->over[kind].messages - r->empty[kind]);
        double worst = 0, all = 0;
        cr_assert_gt(count, 0.9 * MANY);
        for (size_t i = 0; i < LOOKS; i++) {
            const double db = 10 * log10(r->sum[kind][i] / count);
            cr_expect(fabs(db) < 0.1, "method %d, %s, %zu: %.3f dB", (int)method,
                      kind ? "MVDR" : "CBF", i, db);
            worst = fmax(worst, fabs(db)), all += db / LOOKS;
        }
        cr_log_info("method %d, %s: %.3f dB, at most %.3f", (int)method, kind ? "MVDR" : "CBF", all,
                    worst);
    }
}

/* Without detections, whose part of the work it shares. */
Test(normalised_topic, noise_reads_0_db_at_each_angle_of_a_line, NUMERICAL) {
    for (unsigned m = 0; m < SONAR_NORMALISERS; m++)
        expect_0_db(TEXT_QUIET, (sonar_normalise_method)m);
}

Test(normalised_topic, noise_reads_0_db_at_each_angle_of_a_circle, NUMERICAL) {
    for (unsigned m = 0; m < SONAR_NORMALISERS; m++)
        expect_0_db(TEXT_CIRCLE, (sonar_normalise_method)m);
}

Test(normalised_topic, header_says_what_it_is) {
    static reader r = {.wants = ALL}, plain = {.wants = ALL};
    run(TEXT_MAXIMUM, &r, 2 * WINDOWS, SHIPS);
    run(TEXT, &plain, 2 * WINDOWS, SHIPS);
    for (int kind = 0; kind < KINDS; kind++) {
        const char *head = r.over[kind].head, *power = r.of[kind].head;
        static const char *const same[] = {"window",       "sample_index", "snapshots",
                                           "sensors_used", "band_hz",      "axes",
                                           "heading_deg",  "loading",      "first_sample"};
        cJSON *a = cJSON_Parse(head), *b = cJSON_Parse(power);
        cr_expect_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(a, "unit")), "1");
        for (size_t i = 0; i < sizeof same / sizeof *same; i++)
            cr_expect(cJSON_Compare(cJSON_GetObjectItem(a, same[i]),
                                    cJSON_GetObjectItem(b, same[i]), true) ||
                          (!cJSON_GetObjectItem(a, same[i]) && !cJSON_GetObjectItem(b, same[i])),
                      "%s", same[i]);
        cJSON_Delete(a);
        cJSON_Delete(b);
    }
    /* made before the largest value of each cell is put into mvdr.azimuth */
    cr_expect(strstr(r.of[MVDR].head, "\"value\":\"cell_maximum\""));
    cr_expect(strstr(r.over[MVDR].head, "\"value\":\"direction\""));
    cr_expect_neq(memcmp(r.of[MVDR].value, plain.of[MVDR].value, sizeof plain.of[MVDR].value), 0);
    cr_expect_eq(memcmp(r.over[MVDR].value, plain.over[MVDR].value, sizeof plain.over[MVDR].value),
                 0);
}

/* The largest ratios are where the ships are. */
Test(normalised_topic, ships_stand_out) {
    static reader r = {.wants = ALL};
    run(TEXT, &r, 2 * WINDOWS, SHIPS);
    for (int kind = 0; kind < KINDS; kind++) {
        size_t most = 0;
        for (size_t i = 1; i < LOOKS; i++)
            most = r.sum[kind][i] > r.sum[kind][most] ? i : most;
        cr_expect(most >= 69 && most <= 71, "%d: %zu", kind, most);
        cr_expect_gt(r.sum[kind][118], 5 * r.sum[kind][95]);
    }
}

/* ---- when it is made ------------------------------------------------------------------------- */

static void expect_followed(reader *r) {
    r->averages[CBF] = cbf_averages();
    run(TEXT, r, 2 * WINDOWS, SHIPS);
    cr_expect_eq(r->compared[CBF], WINDOWS);
    cr_expect(r->changed[CBF] > WINDOWS / 4 && r->changed[CBF] < 3 * WINDOWS / 4, "%zu",
              r->changed[CBF]);
}

/* Another scan, other widths of beams, or another method, from the window on that has the change.
 */
Test(normalised_topic, follows_live_changes) {
    static reader scan = {.wants = ALL,
                          .method = SONAR_FIVE_PASS,
                          .changed_method = SONAR_FIVE_PASS,
                          .change = {"cbf.scan", "{start_deg: 0, stop_deg: 90, step_deg: 0.5}"}},
                  method = {.wants = ALL,
                            .method = SONAR_FIVE_PASS,
                            .changed_method = SONAR_ORDER_TRUNCATE_AVERAGE,
                            .change = {"normalised.method", "order_truncate_average"}};
    expect_followed(&scan);
    expect_followed(&method);
}

/* Nothing is made without a subscriber, and spectra do not depend on it. */
Test(normalised_topic, is_made_for_a_subscriber_only) {
    static reader with = {.wants = ALL}, without = {.wants = SONAR_WANT(SONAR_CBF_AZIMUTH)};
    run(TEXT, &with, 2 * WINDOWS, SHIPS);
    run(TEXT, &without, 2 * WINDOWS, SHIPS);
    cr_expect_eq(with.over[CBF].messages, WINDOWS);
    cr_expect_eq(without.over[CBF].messages + without.over[MVDR].messages, 0);
    cr_expect_eq(memcmp(with.cbf, without.cbf, sizeof with.cbf), 0);
}

/* Over 4.5 degrees there is no noise beside a beam of 5: the daemon runs without the topic, and
 * with it once the scan is long enough. */
Test(normalised_topic, a_short_scan_has_none) {
    static reader r = {.wants = ALL}, later = {.wants = ALL, .change = {"cbf.scan", "{" WHOLE "}"}};
    run(TEXT_SHORT, &r, 2 * WINDOWS, SHIPS);
    cr_expect_eq(r.of[CBF].messages, WINDOWS);
    cr_expect_eq(r.of[MVDR].messages, WINDOWS);
    cr_expect_eq(r.over[CBF].messages + r.over[MVDR].messages, 0);
    run(TEXT_SHORT, &later, 2 * WINDOWS, SHIPS);
    cr_expect_gt(later.over[CBF].messages, WINDOWS / 4);
    cr_expect_lt(later.over[CBF].messages, WINDOWS);
    cr_expect_eq(later.over[MVDR].messages, 0);
}
