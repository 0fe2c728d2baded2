/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A ship that tows a line array turns by 90 degrees at 1 degree a second. The simulator makes what
 * the sensors hear where they are on the ship's path, and pipelines with different models of the
 * tow find the source in the same samples. */
#include <cjson/cJSON.h>
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/change.h"
#include "core/core.h"
#include "fed.h"
#include "numerical.h"
#include "synth.h"

TestSuite(tow, .timeout = 300);

enum { SENSORS = 32, FS = 2048, LENGTH = 1024, FRAME = 512, SECONDS = 160, WINDOWS = 2 * SECONDS };
static const int64_t UTC_NS = INT64_C(1700000000000000000);
static const double SOURCE_DEG = 135, LEVEL_DB = 100, TOP_HZ = 480, SPACING_M = 1.5, SCOPE_M = 100,
                    TURN_FROM_S = 10, SPEED_MPS = 3;
static const double LENGTH_M = 31 * 1.5;

#define TEXT(mvdr, more)                                                                           \
    "schema: 1\n"                                                                                  \
    "array: {id: 1, geometry: {line: {sensors: 32, spacing_m: 1.5}}, gain_db: 0, error: "          \
    "{position_m: 0.1}}\n"                                                                         \
    "fs_hz: 2048\n"                                                                                \
    "ingest: {endpoints: [\"ipc:///no/such/folder/in\"], overload: block, drop_spikes: false}\n"   \
    "dft: {length: 1024, hop: 1024}\n"                                                             \
    "cbf: {band_hz: [300, 480], ranges_m: []}\n"                                                   \
    "mvdr: {" mvdr "}\n"                                                                           \
    "output: {endpoint: \"ipc:///no/such/folder/out\"}\n"                                          \
    "runtime: {threads: 2, backend: cpu}\n" more

#define MVDR "length: 256, hop: 128, snapshots: 16, band_hz: [420, 480]"
#define NONE "enabled: false"

static const sim_ship SHIP = {.heading_deg = 0,
                              .turn_deg_s = 1,
                              .turn_from_s = 10,
                              .turn_by_deg = 90,
                              .speed_mps = 3,
                              .trail_m = 100 + 31 * 1.5 / 2};

/* ---- the samples ----------------------------------------------------------------------------- */

static float *make_samples(const fed *fed) {
    sim_source source = {
        .far = true,
        .az_deg = SOURCE_DEG,
        .ship = SHIP,
        .broadband = {.present = true, .low_hz = 300, .high_hz = TOP_HZ, .level_db = LEVEL_DB}};
    const sim_scene scene = {.seed = 1,
                             .sensitivity_db = NAN,
                             .noise_db = 80,
                             .own_ship = true,
                             .ship = SHIP,
                             .sources = 1,
                             .source = &source};
    const sim_array array = {.sensors = SENSORS,
                             .channels = SENSORS,
                             .fs_hz = FS,
                             .sound_speed_mps = fed->config->sound_speed_mps,
                             .position_m = fed->config->position_m};
    const size_t frames = (size_t)SECONDS * FS / FRAME;
    float *samples = sonar_alloc(frames * FRAME * SENSORS, sizeof *samples);
    sim_synth *synth = NULL;
    sonar_error err = {0};
    cr_assert_eq(sim_synth_create(&scene, &array, &synth, &err), SONAR_OK, "%s", err.text);
    for (size_t i = 0; i < frames; i++)
        sim_synth_render(synth, i * FRAME, FRAME, samples + i * FRAME * SENSORS);
    sim_synth_destroy(synth);
    return samples;
}

/* ---- what comes out -------------------------------------------------------------------------- */

/* Of one window. */
typedef struct seen {
    bool came, unknown, mixed; /* flags tow_unknown and shape_changed */
    double first_off, off;     /* of the strongest contact of the CBF, and of the best */
    double mvdr_off, level_db; /* of the best of MVDR; of the strongest of the CBF */
    double false_db;           /* of the strongest other contact of the CBF that is no image */
    double heading_deg, shape_sample, end_y_m, sensors;
} seen;

typedef struct reader {
    seen window[WINDOWS];
    size_t positions;
    char status[600]; /* the text of the last one */
} reader;

static uint32_t wanted(void *ctx) {
    (void)ctx;
    return SONAR_WANT(SONAR_DETECTIONS) | SONAR_WANT(SONAR_ELEMENT_POSITION) |
           SONAR_WANT(SONAR_STATUS);
}

static double number(const cJSON *object, const char *name) {
    return cJSON_GetNumberValue(cJSON_GetObjectItem(object, name));
}

static bool has_flag(const cJSON *head, const char *flag) {
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(head, "flags")) {
        if (!strcmp(item->valuestring, flag))
            return true;
    }
    return false;
}

/* The lesser one of both bearings, which a line cannot tell apart. */
static double off_source(const cJSON *contact) {
    const double off = fabs(remainder(number(contact, "bearing_deg") - SOURCE_DEG, 360));
    const double other = fabs(remainder(number(contact, "mirror_deg") - SOURCE_DEG, 360));
    return fmin(off, isnan(other) ? 180 : other);
}

static void take_contacts(const cJSON *head, seen *w) {
    const cJSON *contact;
    w->off = w->mvdr_off = w->first_off = INFINITY;
    w->level_db = w->false_db = -INFINITY;
    cJSON_ArrayForEach(contact, cJSON_GetObjectItem(head, "detections")) {
        const bool cbf = !strcmp(cJSON_GetObjectItem(contact, "source")->valuestring, "cbf");
        const double off = off_source(contact);
        if (cbf && isinf(w->first_off)) {
            w->first_off = off;
            w->level_db = number(contact, "level_db");
        }
        if (cbf && off > 10 && !cJSON_IsTrue(cJSON_GetObjectItem(contact, "possible_image")))
            w->false_db = fmax(w->false_db, number(contact, "level_db"));
        *(cbf ? &w->off : &w->mvdr_off) = fmin(cbf ? w->off : w->mvdr_off, off);
    }
}

static void take(void *ctx, sonar_surface surface, const char *header, const void *data,
                 size_t bytes) {
    reader *r = ctx;
    cJSON *head = cJSON_Parse(header);
    if (surface == SONAR_STATUS) {
        snprintf(r->status, sizeof r->status, "%s", cJSON_GetObjectItem(head, "text")->valuestring);
        cJSON_Delete(head);
        return;
    }
    const size_t at = (size_t)number(head, "window");
    cr_assert_lt(at, WINDOWS);
    seen *w = &r->window[at];
    if (surface == SONAR_ELEMENT_POSITION) {
        cr_assert_eq(bytes, SENSORS * 3 * sizeof(float));
        w->end_y_m = (double)((const float *)data)[1];
        r->positions++;
    } else {
        take_contacts(head, w);
        w->came = true;
        w->unknown = has_flag(head, "tow_unknown");
        w->mixed = has_flag(head, "shape_changed");
        w->heading_deg = number(head, "heading_deg");
        w->shape_sample = number(head, "shape_sample_index");
        w->sensors = number(head, "sensors_used");
    }
    cJSON_Delete(head);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void send(const fed *fed, double t_s, const char *values) {
    char json[160];
    sonar_error err = {0};
    snprintf(json, sizeof json, "{\"utc_ns\": %lld, %s}",
             (long long)(UTC_NS + (int64_t)llrint(t_s * 1e9)), values);
    cr_assert_eq(sonar_pipeline_navigate(fed->pipeline, json, strlen(json), &err), SONAR_OK, "%s",
                 err.text);
}

/* An array with compasses gets their headings alone, without the ship's. */
static void navigate(const fed *fed, double t_s) {
    const sonar_config *c = fed->config;
    char values[100];
    for (size_t i = 0; i < c->tow_compasses; i++) {
        snprintf(values, sizeof values, "\"compass\": \"%s\", \"heading_deg\": %.6f",
                 c->tow_compass_id[i],
                 remainder(sim_ship_heading_behind(&SHIP, t_s, SCOPE_M + c->tow_compass_at_m[i]) -
                               c->tow_compass_offset_deg[i],
                           360));
        send(fed, t_s, values);
    }
    snprintf(values, sizeof values, "\"heading_deg\": %.6f, \"water_speed_mps\": %g",
             remainder(sim_ship_heading(&SHIP, t_s), 360), SPEED_MPS);
    if (!c->tow_compasses)
        send(fed, t_s, values);
}

/* Values that change while the daemon runs; NULL: none. */
typedef struct change {
    double at_s;
    sonar_config_value value[2];
} change;

static void no_log(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

static void make(const fed *fed, const change *change) {
    sonar_config_differences differences;
    sonar_error err = {0};
    cr_assert_eq(
        sonar_control_set(fed->pipeline, 2, change->value, no_log, NULL, &differences, &err),
        SONAR_OK, "%s", err.text);
}

/* Headings come a second before the samples, so that which thread is ahead does not matter. */
static void run(const char *text, double sailed_s, const change *change, float **samples,
                reader *reader) {
    const sonar_output_tap tap = {.ctx = reader, .wanted = wanted, .take = take};
    fed fed = fed_open("tow", text, &tap);
    if (!*samples)
        *samples = make_samples(&fed);
    for (double t_s = -sailed_s; t_s <= 1; t_s += 0.5)
        navigate(&fed, t_s);
    for (uint32_t i = 0; i < SECONDS * FS / FRAME; i++) {
        const double t_s = (double)i * FRAME / FS;
        if (i && i % (FS / FRAME / 2) == 0)
            navigate(&fed, t_s + 1);
        if (change && t_s == change->at_s)
            make(&fed, change);
        fed_channels(&fed, (uint64_t)i * FRAME, FRAME, SENSORS, UTC_NS + (int64_t)llrint(t_s * 1e9),
                     *samples + (size_t)i * FRAME * SENSORS);
    }
    fed_close(&fed);
}

static double middle_s(size_t window) {
    return ((double)window + 0.5) * LENGTH / FS;
}

static double truth_deg(size_t window) {
    return sim_ship_array_heading(&SHIP, middle_s(window));
}

/* Of the whole line at the band's top, towards the source. */
static double beam_deg(size_t window) {
    const double angle = (SOURCE_DEG - truth_deg(window)) * M_PI / 180;
    return 0.886 * 1500 / TOP_HZ / (LENGTH_M + SPACING_M) / sin(angle) * 180 / M_PI;
}

/* The whole array lies in the turn. */
static bool is_in_turn(size_t window) {
    const double first_s = TURN_FROM_S + (SCOPE_M + LENGTH_M) / SPEED_MPS,
                 last_s = TURN_FROM_S + 90 + SCOPE_M / SPEED_MPS;
    return middle_s(window) > first_s + 1 && middle_s(window) < last_s - 1;
}

static bool is_straight(size_t window) {
    return middle_s(window) < TURN_FROM_S + SCOPE_M / SPEED_MPS - 2 ||
           middle_s(window) > TURN_FROM_S + 90 + (SCOPE_M + LENGTH_M) / SPEED_MPS + 4;
}

static void check_follow(const seen *w, size_t i) {
    const double beam = beam_deg(i);
    cr_expect_lt(w->off, beam, "%g deg off at %g s", w->off, middle_s(i));
    cr_expect_lt(w->mvdr_off, beam, "MVDR %g deg off at %g s", w->mvdr_off, middle_s(i));
    cr_expect_not(w->unknown);
    cr_expect_lt(fabs(remainder(w->heading_deg - truth_deg(i), 360)), 2.5, "%g in place of %g",
                 w->heading_deg, truth_deg(i));
    if (is_in_turn(i))
        cr_expect_lt(w->first_off, beam, "the image is louder at %g s", middle_s(i));
    if (is_straight(i))
        cr_expect_not(w->mixed, "at %g s", middle_s(i));
    /* Images are told by the shape: with the straight array's they would be 6 dB below. Outside the
     * turn rounding decides which of two equal contacts is the image of the other. */
    if (w->first_off < beam)
        cr_expect_lt(w->false_db, w->level_db - 9, "%g dB at %g s", w->false_db - w->level_db,
                     middle_s(i));
}

/* With `follow` the source stays within a beam through the turn, at its level and on its side. With
 * `rigid` its bearing is right too, but the beam does not fit, and loses level. Without a model the
 * bearing is wrong by what the ship has turned since it was where the array is. */
Test(tow, bearings_stay_true_through_a_turn, NUMERICAL) {
    static reader follow, rigid, off;
    float *samples = NULL;
    run(TEXT(MVDR, "navigation: {tow: {model: follow, scope_m: 100}}\n"), 80, NULL, &samples,
        &follow);
    run(TEXT(NONE, "navigation: {tow: {model: rigid, scope_m: 100}}\n"), 80, NULL, &samples,
        &rigid);
    run(TEXT(NONE, ""), 80, NULL, &samples, &off);
    free(samples);
    size_t turned = 0, mixed = 0, shapes = 0;
    double worst = 0, worst_follow = 0, lost_db = 0, bent_m = 0, level_db = 0, worst_rigid = 0;
    for (size_t i = 0; i < WINDOWS; i++) {
        const seen *w = &follow.window[i];
        cr_assert(w->came && rigid.window[i].came && off.window[i].came, "window %zu", i);
        check_follow(w, i);
        cr_expect_float_eq(w->heading_deg, rigid.window[i].heading_deg, 1e-6);
        cr_expect(isnan(rigid.window[i].shape_sample));
        mixed += w->mixed;
        shapes += i && w->shape_sample != follow.window[i - 1].shape_sample;
        worst = fmax(worst, off.window[i].off);
        worst_rigid = fmax(worst_rigid, rigid.window[i].off / beam_deg(i));
        worst_follow = fmax(worst_follow, w->off / beam_deg(i));
        bent_m = fmax(bent_m, fabs(w->end_y_m));
        if (is_in_turn(i)) {
            turned++;
            level_db += w->level_db;
            lost_db += w->level_db - rigid.window[i].level_db;
        }
    }
    cr_log_info("straight model %.1f deg off, follow %.2f and rigid %.2f beams; %zu shapes; in the "
                "turn %.2f dB, rigid %.1f dB less",
                worst, worst_follow, worst_rigid, shapes, level_db / (double)turned,
                lost_db / (double)turned);
    cr_expect_gt(worst, 30);
    cr_expect_lt(worst_rigid, 0.5);
    cr_expect_geq(turned, 100);
    cr_expect_float_eq(level_db / (double)turned, LEVEL_DB, 0.3); /* with what noise adds */
    cr_expect_gt(lost_db / (double)turned, 2);
    /* the shape changes while the array gets into the turn, and out of it */
    cr_expect_geq(shapes, 10);
    cr_expect_leq(shapes, 40);
    cr_expect_geq(mixed, 20);
    cr_expect_eq(follow.positions, WINDOWS);
    /* on the circle the ends lie by two thirds of L^2 / 8R aside of the line that fits */
    const double radius_m = SPEED_MPS / (M_PI / 180);
    cr_expect_float_eq(bent_m, LENGTH_M * LENGTH_M / 12 / radius_m, 0.2, "%g m", bent_m);
    cr_expect_lt(fabs(follow.window[WINDOWS - 1].end_y_m), 0.16);
    cr_expect_gt(follow.window[WINDOWS - 1].shape_sample, 0);
}

/* The same by four compasses in the array, one of which reads 3 degrees too much, with neither
 * heading nor speed of the ship. */
Test(tow, compasses_in_the_array_give_its_shape) {
    static reader sensors;
    float *samples = NULL;
    run(TEXT(MVDR, "navigation: {tow: {model: sensors, compasses: [HEAD, C2, C3, TAIL], "
                   "compass_at_m: [-4, 14, 31, 48], compass_offset_deg: [0, -3, 0, 0]}}\n"),
        0, NULL, &samples, &sensors);
    free(samples);
    double bent_m = 0, worst = 0, level_db = 0;
    size_t turned = 0;
    for (size_t i = 0; i < WINDOWS; i++) {
        const seen *w = &sensors.window[i];
        cr_assert(w->came, "window %zu", i);
        check_follow(w, i);
        worst = fmax(worst, w->off / beam_deg(i));
        bent_m = fmax(bent_m, fabs(w->end_y_m));
        if (is_in_turn(i)) {
            turned++;
            level_db += w->level_db;
        }
    }
    cr_log_info("compasses: %.2f beams off, in the turn %.2f dB", worst, level_db / (double)turned);
    cr_expect_float_eq(level_db / (double)turned, LEVEL_DB, 0.3);
    cr_expect_lt(worst, 0.5);
    const double radius_m = SPEED_MPS / (M_PI / 180);
    cr_expect_float_eq(bent_m, LENGTH_M * LENGTH_M / 12 / radius_m, 0.2, "%g m", bent_m);
}

/* A path that is too short is said to be so, and the array is straight meanwhile. */
Test(tow, shape_is_straight_until_the_path_is_known) {
    static reader r;
    float *samples = NULL;
    run(TEXT(NONE, "navigation: {tow: {model: follow, scope_m: 100}}\n"), 0, NULL, &samples, &r);
    free(samples);
    const double known_s = (SCOPE_M + LENGTH_M) / SPEED_MPS;
    for (size_t i = 0; i < WINDOWS; i++) {
        const bool unknown = middle_s(i) < known_s;
        cr_expect_eq(r.window[i].unknown, unknown, "at %g s", middle_s(i));
        if (unknown)
            cr_expect_eq(r.window[i].end_y_m, 0, "at %g s", middle_s(i));
    }
    /* 4.34 (2 pi 0.1 m 480 Hz / 1500 m/s)^2 */
    cr_expect(strstr(r.status, "array.error.position_m costs a beam 0.18 dB at 480 Hz"), "%s",
              r.status);
}

/* In the turn 30 m of cable are paid out, which the ship has gone in 10 s. */
static void check_cable(const reader *r) {
    size_t after = 0;
    for (size_t i = 0; i < WINDOWS; i++) {
        const seen *w = &r->window[i];
        const double lag_deg = w->sensors == SENSORS ? 0 : 30 / SPEED_MPS;
        if (!is_in_turn(i))
            continue;
        after += w->sensors == SENSORS - 1;
        cr_expect_lt(fabs(truth_deg(i) - lag_deg - w->heading_deg), 1, "%g deg at %g s",
                     truth_deg(i) - w->heading_deg, middle_s(i));
        cr_expect_gt(fabs(w->end_y_m), 0.8);
        cr_expect_lt(fabs(w->first_off - lag_deg), 0.3 * beam_deg(i), "%g deg at %g s",
                     w->first_off, middle_s(i));
    }
    cr_expect_geq(after, 70);
}

/* Steered by a wrong speed of sound, the cosine of the angle from the axis changes by its ratio. */
static void check_speed(const reader *r) {
    size_t after = 0;
    double most_deg = 0;
    for (size_t i = 0; i < WINDOWS; i++) {
        const seen *w = &r->window[i];
        const double ratio = w->sensors == SENSORS ? 1 : 1300.0 / 1500;
        const double angle_deg = SOURCE_DEG - truth_deg(i),
                     turned = acos(cos(angle_deg * M_PI / 180) * ratio) * 180 / M_PI;
        if (!is_in_turn(i))
            continue;
        after += w->sensors == SENSORS - 1;
        most_deg = fmax(most_deg, fabs(turned - angle_deg));
        cr_expect_lt(fabs(w->first_off - fabs(turned - angle_deg)), 0.7, "%g deg at %g s",
                     w->first_off, middle_s(i));
    }
    cr_expect_geq(after, 70);
    cr_expect_gt(most_deg, 3);
}

/* With either a sensor is masked, by which windows after the change are known. */
Test(tow, values_change_while_the_array_is_bent) {
    static reader cable, speed;
    float *samples = NULL;
    const char *text = TEXT(NONE, "navigation: {tow: {model: follow, scope_m: 100}}\n");
    const sonar_config_value mask = {"array.mask", "[3]"};
    const change of_cable = {.at_s = 80, .value = {{"navigation.tow.scope_m", "130"}, mask}},
                 of_speed = {.at_s = 80, .value = {{"sound_speed_mps", "1300"}, mask}};
    run(text, 80, &of_cable, &samples, &cable);
    run(text, 80, &of_speed, &samples, &speed);
    free(samples);
    check_cable(&cable);
    check_speed(&speed);
}
