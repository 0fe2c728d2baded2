/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The topic tracks of a pipeline that is fed frames: the ships of the scene, through lost frames
 * and live changes, and the same bytes again. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "fed.h"

TestSuite(tracks_topic, .timeout = 300);

enum { CHANNELS = 24, FRAME = 256, FRAMES = 240, WINDOWS = 512 };

static const char text[] =
    "schema: 1\n"
    "array: {id: 1, geometry: {line: {sensors: 24, spacing_m: 0.6}}, gain_db: -170, heading_deg: "
    "300}\n"
    "fs_hz: 8000\n"
    "ingest: {endpoints: [\"ipc:///no/such/folder/in\"], overload: block, queue_windows: 1, "
    "max_missing_share: 0.2, drop_spikes: false}\n"
    "dft: {length: 512, hop: 512}\n"
    "cbf: {band_hz: [300, 1100]}\n"
    "mvdr: {length: 128, hop: 64, snapshots: 72}\n"
    "output: {endpoint: \"ipc:///no/such/folder/out\", queue_results: 1}\n"
    "runtime: {threads: 2, backend: cpu}\n";

typedef struct reader {
    size_t windows, others;
    char *list[WINDOWS]; /* `tracks` of each window */
} reader;

static uint32_t wanted(void *ctx) {
    (void)ctx;
    return SONAR_WANT(SONAR_TRACKS);
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    reader *r = ctx;
    (void)data;
    if (surface != SONAR_TRACKS) {
        r->others++;
        return;
    }
    cJSON *head = cJSON_Parse(header);
    cr_assert_eq(bytes, 0);
    cr_assert_lt(r->windows, WINDOWS);
    cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(head, "bearing_reference")), "true");
    r->list[r->windows++] = cJSON_PrintUnformatted(cJSON_GetObjectItem(head, "tracks"));
    cJSON_Delete(head);
}

static void reader_free(reader *r) {
    for (size_t i = 0; i < r->windows; i++)
        cJSON_free(r->list[i]);
}

enum { LOSSES = 1, CHANGES = 2 };

/* With lost channels and frames; with a changed mask and threshold, from a window on that depends
 * on when the data thread gets them. */
static void run(reader *r, size_t ships, int how) {
    static float samples[CHANNELS * FRAME];
    const sonar_output_tap tap = {.ctx = r, .wanted = wanted, .take = take};
    *r = (reader){0};
    fed fed = fed_open("tracks", text, &tap);
    sea sea = fed_sea(&fed, ships);
    for (uint32_t k = 0; k < FRAMES; k++) {
        sea_fill(&sea, (uint64_t)k * FRAME, FRAME, samples);
        if (how & CHANGES && k == FRAMES / 2)
            fed_set(&fed, "array.mask", "[5, 6]");
        if (how & CHANGES && k == 2 * FRAMES / 3)
            fed_set(&fed, "detections.threshold_db", "7");
        if (how & LOSSES)
            fed_lossy(&fed, k, FRAME, CHANNELS, samples);
        else
            fed_samples(&fed, (uint64_t)k * FRAME, FRAME, CHANNELS, 0, samples);
    }
    sea_close(&sea);
    fed_close(&fed);
}

static double number_in(const cJSON *object, const char *name) {
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, name));
}

/* The number of the confirmed track at that angle from the axis, with both bearings; 0: none. */
static double number_near(const char *list, double az_deg, double within_deg) {
    cJSON *tracks = cJSON_Parse(list);
    const cJSON *t;
    double number = 0;
    cJSON_ArrayForEach(t, tracks) {
        const cJSON *bearings = cJSON_GetObjectItem(t, "bearings");
        if (strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(t, "state")), "confirmed") != 0 ||
            fabs(number_in(t, "az_deg") - az_deg) > within_deg)
            continue;
        cr_assert_eq(cJSON_GetArraySize(bearings), 2);
        for (int i = 0; i < 2; i++) {
            const cJSON *b = cJSON_GetArrayItem(bearings, i);
            const double beside = remainder(number_in(b, "bearing_deg") - 300, 360);
            cr_assert_lt(fabs(fabs(beside) - az_deg), within_deg);
            cr_assert_float_eq(number_in(b, "probability"), 0.5, 1e-6);
            cr_assert_str_eq(cJSON_GetStringValue(cJSON_GetObjectItem(b, "side")),
                             beside > 0 ? "starboard" : "port");
        }
        number = number_in(t, "number");
    }
    cJSON_Delete(tracks);
    return number;
}

static double number_at(const char *list, double az_deg) {
    return number_near(list, az_deg, 0.5);
}

static int count_in(const char *list) {
    cJSON *tracks = cJSON_Parse(list);
    const int count = cJSON_GetArraySize(tracks);
    cJSON_Delete(tracks);
    return count;
}

static int confirmed_in(const char *list) {
    int count = 0;
    for (const char *at = list; (at = strstr(at, "\"confirmed\"")); at++)
        count++;
    return count;
}

static void follows(int how) {
    reader r;
    run(&r, 2, how);
    double number[2] = {0};
    cr_assert_gt(r.windows, FRAMES / 3);
    for (size_t i = r.windows / 4; i < r.windows; i++)
        for (int k = 0; k < 2; k++) {
            const double is = number_at(r.list[i], k ? 118 : 70);
            number[k] = number[k] > 0 ? number[k] : is;
            cr_assert(is > 0 && is == number[k], "window %zu: %s", i, r.list[i]);
        }
    for (size_t i = 0; i < r.windows; i++)
        cr_assert_leq(confirmed_in(r.list[i]), 2, "window %zu: %s", i, r.list[i]);
    cr_assert_eq(count_in(r.list[r.windows - 1]), 2, "%s", r.list[r.windows - 1]);
    cr_assert_eq(r.others, 0);
    reader_free(&r);
}

Test(tracks_topic, follows_the_ships) {
    follows(0);
}

Test(tracks_topic, through_losses_and_changes) {
    follows(LOSSES | CHANGES);
}

Test(tracks_topic, replays_to_the_same_bytes) {
    reader a, b;
    run(&a, 2, LOSSES);
    run(&b, 2, LOSSES);
    cr_assert_eq(a.windows, b.windows);
    for (size_t i = 0; i < a.windows; i++)
        cr_assert_str_eq(a.list[i], b.list[i]);
    reader_free(&a);
    reader_free(&b);
}

/* ---- below the detector's threshold ---------------------------------------------------------- */

/* One ship in the band, in noise of which it has a share of the power in each sensor: behind the
 * beamformer it is 10 log (1 + 24 share) dB over the noise. */
static void run_faint(reader *r, double az_deg, double share, const char *faint_db) {
    static float samples[CHANNELS * FRAME];
    const sonar_output_tap tap = {.ctx = r, .wanted = wanted, .take = take};
    const double noise = 1e-3, counts_per_upa = pow(10, -170.0 / 20),
                 in_band = (1080.0 - 320) / 4000;
    const sea_source ship = {.az_deg = az_deg,
                             .rms = noise * sqrt(share * in_band) / counts_per_upa,
                             .low_hz = 320,
                             .high_hz = 1080,
                             .tones = 200};
    *r = (reader){0};
    fed fed = fed_open("tracks", text, &tap);
    fed_set(&fed, "detections.faint_db", faint_db);
    sea sea = sea_open(fed.config, fed.params, &ship, 1, noise);
    for (uint32_t k = 0; k < FRAMES; k++) {
        sea_fill(&sea, (uint64_t)k * FRAME, FRAME, samples);
        if (k == FRAMES / 2)
            fed_set(&fed, "detections.most", "12"); /* the odds go on under the new plan */
        fed_samples(&fed, (uint64_t)k * FRAME, FRAME, CHANNELS, 0, samples);
    }
    sea_close(&sea);
    fed_close(&fed);
}

/* 3.4 dB over the noise: never listed at a threshold of 6 dB, and one track from a third on. */
Test(tracks_topic, follows_what_only_the_spectrum_shows) {
    reader r;
    run_faint(&r, 75, 0.05, "3");
    double number = 0;
    for (size_t i = r.windows / 3; i < r.windows; i++) {
        const double is = number_near(r.list[i], 75, 2);
        number = number > 0 ? number : is;
        cr_assert(is > 0 && is == number, "window %zu: %s", i, r.list[i]);
        cr_assert_leq(confirmed_in(r.list[i]), 1);
    }
    cr_assert(strstr(r.list[r.windows - 1], "\"rests_on\":[\"spectrum\"]"), "%s",
              r.list[r.windows - 1]);
    reader_free(&r);
}

Test(tracks_topic, faint_contacts_can_be_left_out) {
    reader r;
    run_faint(&r, 75, 0.05, "0");
    cr_assert_gt(r.windows, FRAMES / 3);
    for (size_t i = 0; i < r.windows; i++)
        cr_assert_eq(strstr(r.list[i], "spectrum"), NULL, "%s", r.list[i]);
    reader_free(&r);
}

/* 20 dB over the noise of a beam: its side lobes and shoulders are no contacts. */
Test(tracks_topic, side_lobes_are_no_contacts) {
    reader r;
    run_faint(&r, 75, 4, "1.5");
    for (size_t i = 0; i < r.windows; i++)
        cr_assert_leq(count_in(r.list[i]), 1, "window %zu: %s", i, r.list[i]);
    cr_assert(number_at(r.list[r.windows - 1], 75) > 0);
    reader_free(&r);
}

/* ---- tones ----------------------------------------------------------------------------------- */

typedef struct tones_reader {
    size_t windows, others;
    size_t right, wrong;        /* tones in detections: of their ship, and all others */
    size_t tracks, track_tones; /* after 20 s, and those with just the tone of their ship */
} tones_reader;

static uint32_t wanted_tones(void *ctx) {
    (void)ctx;
    return SONAR_WANT(SONAR_TRACKS) | SONAR_WANT(SONAR_DETECTIONS);
}

static double tone_of(double az_deg) {
    return fabs(az_deg - 70) < 2 ? 470 : fabs(az_deg - 118) < 2 ? 810 : NAN;
}

static void count_detected(tones_reader *r, const cJSON *row) {
    const cJSON *tone;
    cJSON_ArrayForEach(tone, cJSON_GetObjectItem(row, "tones")) {
        const double off_hz = number_in(tone, "hz") - tone_of(number_in(row, "az_deg"));
        if (fabs(off_hz) < 6 && number_in(tone, "snr_db") > 13)
            r->right++;
        else
            r->wrong++;
    }
}

static void count_tracked(tones_reader *r, const cJSON *row) {
    const cJSON *list = cJSON_GetObjectItem(row, "tones_hz");
    cr_assert(cJSON_IsArray(list));
    if ((double)r->windows * 512 / 8000 < 20)
        return;
    r->tracks++;
    r->track_tones +=
        cJSON_GetArraySize(list) == 1 && fabs(cJSON_GetNumberValue(cJSON_GetArrayItem(list, 0)) -
                                              tone_of(number_in(row, "az_deg"))) < 6;
}

static void take_tones(void *ctx, sonar_surface surface, const char *header, const void *data,
                       size_t bytes) {
    tones_reader *r = ctx;
    (void)data, (void)bytes;
    cJSON *head = cJSON_Parse(header);
    const cJSON *row;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(head, "detections")) count_detected(r, row);
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(head, "tracks")) count_tracked(r, row);
    r->windows += surface == SONAR_DETECTIONS;
    r->others += surface != SONAR_DETECTIONS && surface != SONAR_TRACKS;
    cJSON_Delete(head);
}

/* Two ships with a tone each, 19 dB over their own noise in a bin; cbf.lofar is no topic. */
static tones_reader run_tones(const char *with, uint32_t frames) {
    static float samples[CHANNELS * FRAME];
    const char *end = strstr(text, "}\nruntime");
    tones_reader r = {0};
    const sonar_output_tap tap = {.ctx = &r, .wanted = wanted_tones, .take = take_tones};
    char longer[sizeof text + 80];
    snprintf(longer, sizeof longer, "%.*s, topics: [tracks, detections]%s", (int)(end - text), text,
             end);
    snprintf(longer + strlen(longer), 40, "detections: {tones: %s}\n", with);
    const double rms = 1e-3 / pow(10, -170.0 / 20);
    const sea_source source[] = {
        {.az_deg = 70, .rms = rms, .low_hz = 320, .high_hz = 1080, .tones = 80},
        {.az_deg = 118, .rms = rms, .low_hz = 320, .high_hz = 1080, .tones = 80},
        {.az_deg = 70, .rms = 1.3 * rms, .low_hz = 470, .high_hz = 470, .tones = 1},
        {.az_deg = 118, .rms = 1.3 * rms, .low_hz = 810, .high_hz = 810, .tones = 1}};
    fed fed = fed_open("tones", longer, &tap);
    sea sea = sea_open(fed.config, fed.params, source, 4, 1e-3);
    for (uint32_t k = 0; k < frames; k++) {
        sea_fill(&sea, (uint64_t)k * FRAME, FRAME, samples);
        fed_samples(&fed, (uint64_t)k * FRAME, FRAME, CHANNELS, 0, samples);
    }
    sea_close(&sea);
    fed_close(&fed);
    cr_assert_eq(r.others, 0, "cbf.lofar is computed, but not published");
    return r;
}

Test(tracks_topic, contacts_and_tracks_have_their_tones) {
    const tones_reader r = run_tones("true", 750), off = run_tones("false", 60);
    cr_assert_gt(r.windows, 300);
    cr_assert_gt(r.right, 2 * r.windows, "%zu of %zu windows", r.right, r.windows);
    cr_assert_lt(r.wrong, r.windows / 20, "%zu", r.wrong);
    cr_assert_gt(r.tracks, 90);
    cr_assert_geq(r.track_tones, r.tracks * 9 / 10, "%zu of %zu", r.track_tones, r.tracks);
    cr_assert_eq(off.right + off.wrong, 0);
    cr_assert_gt(off.windows, 20);
}

Test(tracks_topic, noise_has_no_tracks) {
    reader r;
    run(&r, 0, LOSSES | CHANGES);
    for (size_t i = 0; i < r.windows; i++)
        cr_assert_eq(strstr(r.list[i], "confirmed"), NULL, "%s", r.list[i]);
    reader_free(&r);
}
