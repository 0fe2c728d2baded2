/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The publisher over real sockets: headers, subscriptions, slow and hostile peers, ends. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "core/random.h"
#include "ingest/frame.h"
#include "mvdr_jacobi/mvdr_jacobi.h"
#include "output/header.h"
#include "output/topic.h"
#include "output_scene.h"

/* Topics that the empty subscription requests. */
#define SONAR_EVERY_WINDOW                                                                         \
    (SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |                             \
     SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_DETECTIONS) | SONAR_WANT(SONAR_STATUS))
#define EVERYTHING (SONAR_WANT(SONAR_SURFACES) - 1)

static output_scene scene;
static void *context; /* the publisher's */
static void *peers;   /* the readers' */
static sonar_output *output;
static char endpoint[256];

static void make(void) {
    context = zmq_ctx_new();
    peers = zmq_ctx_new();
    output_scene_make(&scene, context, "tcp://127.0.0.1:*");
}

static void go(void) {
    sonar_error err = {0};
    cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err), SONAR_OK,
                 "%s", err.text);
    cr_assert_eq(sonar_output_start(output, &err), SONAR_OK, "%s: %s", err.where, err.text);
    snprintf(endpoint, sizeof endpoint, "%s", sonar_output_endpoint(output));
}

/* The readers are closed by now. They must be gone before the publisher closes: libzmq 4.3.4 aborts
 * in session_base_t::clean_pipes when a slow peer's connection breaks just while a socket with
 * linger 0 is being closed. */
static void end(void) {
    if (output)
        output_wait_wanted(output, 0);
    sonar_output_destroy(output);
    zmq_ctx_term(context);
    zmq_ctx_term(peers);
}

/* Those whose names begin with "cbf.". */
static const uint32_t CBF_TOPICS = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
                                   SONAR_WANT(SONAR_CBF_LOFAR) | SONAR_WANT(SONAR_CBF_NORMALISED) |
                                   SONAR_WANT(SONAR_CBF_SPED);

static void *subscribe(const char *topic, uint32_t wanted) {
    void *socket = output_subscriber(peers, endpoint, topic);
    cr_assert(output_wait_wanted(output, wanted), "wanted %x", sonar_output_wanted(output));
    return socket;
}

static void hand_over(uint64_t window) {
    output_scene_fill(&scene, window % SCENE_RESULTS, window);
    cr_assert(sonar_output_post(output, &scene.result[window % SCENE_RESULTS]));
}

/* Waits until `many` results were returned. */
static void get_back(size_t many) {
    for (int i = 0; i < 10000 && many; i++) {
        if (sonar_output_reclaim(output))
            many--;
        else
            usleep(1000);
    }
    cr_assert_eq(many, 0, "%zu results never came back", many);
}

static output_message receive(void *socket) {
    output_message message;
    cr_assert(output_receive(socket, &message, 10000), "no message was received");
    cr_assert_eq(message.parts, 3);
    return message;
}

static const cJSON *field(const output_message *message, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(message->head, name);
    cr_assert_not_null(item, "%s has no %s", message->topic, name);
    return item;
}

static double number(const output_message *message, const char *name) {
    const cJSON *item = field(message, name);
    cr_assert(cJSON_IsNumber(item), "%s.%s is no number", message->topic, name);
    return item->valuedouble;
}

static const char *string(const output_message *message, const char *name) {
    const cJSON *item = field(message, name);
    cr_assert(cJSON_IsString(item), "%s.%s is no string", message->topic, name);
    return item->valuestring;
}

static void expect_null(const output_message *message, const char *name) {
    cr_assert(cJSON_IsNull(field(message, name)), "%s.%s is not null", message->topic, name);
}

static void expect_text(const output_message *message, const char *text) {
    cr_assert_not_null(strstr(message->text, text), "no %s in %s", text, message->text);
}

static bool has_flag(const output_message *message, const char *flag) {
    const cJSON *item;
    cJSON_ArrayForEach(item, field(message, "flags")) if (strcmp(item->valuestring, flag) ==
                                                          0) return true;
    return false;
}

/* ---- headers --------------------------------------------------------------------------------- */

static const char *const axis_names[SONAR_SURFACES][2] = {
    [SONAR_CBF_AZIMUTH] = {"azimuth"},
    [SONAR_CBF_NEARFIELD] = {"range", "azimuth"},
    [SONAR_CBF_LOFAR] = {"frequency", "azimuth"},
    [SONAR_MVDR_AZIMUTH] = {"azimuth"},
    [SONAR_MVDR_SPECTRUM] = {"frequency", "azimuth"},
    [SONAR_MVDR_NEARFIELD] = {"range", "azimuth"},
    [SONAR_MVDR_EIGENVALUES] = {"frequency", "mode"},
    [SONAR_MUSIC_AZIMUTH] = {"azimuth"},
    [SONAR_ELEMENT_PSD] = {"channel", "frequency"},
    [SONAR_ELEMENT_MISSING] = {"channel"},
    [SONAR_ELEMENT_POSITION] = {"channel", "coordinate"},
    [SONAR_BEAM_AUDIO] = {"beam", "time"},
    [SONAR_CBF_NORMALISED] = {"azimuth"},
    [SONAR_MVDR_NORMALISED] = {"azimuth"},
    [SONAR_CBF_SPED] = {"azimuth"},
    [SONAR_DETECTIONS] = {"none"},
    [SONAR_TRACKS] = {"none"},
    [SONAR_STATUS] = {"none"},
};
static const size_t shapes[SONAR_SURFACES][2] = {
    [SONAR_CBF_AZIMUTH] = {7},
    [SONAR_CBF_NEARFIELD] = {3, 7},
    [SONAR_CBF_LOFAR] = {11, 7},
    [SONAR_MVDR_AZIMUTH] = {5},
    [SONAR_MVDR_SPECTRUM] = {2, 5},
    [SONAR_MVDR_NEARFIELD] = {3, 5},
    [SONAR_MUSIC_AZIMUTH] = {5},
    [SONAR_ELEMENT_PSD] = {13, 11},
    [SONAR_ELEMENT_MISSING] = {13},
    [SONAR_MVDR_EIGENVALUES] = {2, SCENE_MODES},
    [SONAR_ELEMENT_POSITION] = {13, 3},
    [SONAR_BEAM_AUDIO] = {2, 50},
    [SONAR_CBF_NORMALISED] = {7},
    [SONAR_MVDR_NORMALISED] = {5},
    [SONAR_CBF_SPED] = {7},
};
static const char *const units[SONAR_SURFACES] = {
    [SONAR_CBF_AZIMUTH] = "uPa^2",      [SONAR_CBF_NEARFIELD] = "uPa^2",
    [SONAR_CBF_LOFAR] = "uPa^2/Hz",     [SONAR_MVDR_AZIMUTH] = "uPa^2",
    [SONAR_MVDR_SPECTRUM] = "uPa^2/Hz", [SONAR_MVDR_NEARFIELD] = "uPa^2",
    [SONAR_ELEMENT_PSD] = "uPa^2/Hz",   [SONAR_ELEMENT_MISSING] = "1",
    [SONAR_ELEMENT_POSITION] = "m",     [SONAR_DETECTIONS] = "uPa^2",
    [SONAR_BEAM_AUDIO] = "uPa",         [SONAR_MVDR_EIGENVALUES] = "uPa^2/Hz",
    [SONAR_MUSIC_AZIMUTH] = "relative", [SONAR_CBF_NORMALISED] = "1",
    [SONAR_MVDR_NORMALISED] = "1",      [SONAR_CBF_SPED] = "1",
};

static bool is_mvdr(sonar_surface surface) {
    return strncmp(sonar_topic_name(surface), "mvdr.", 5) == 0 || surface == SONAR_MUSIC_AZIMUTH;
}

static void check_values(const cJSON *axis, size_t count, const double *values) {
    const cJSON *list = cJSON_GetObjectItem(axis, "values");
    cr_assert_eq((size_t)cJSON_GetArraySize(list), count);
    for (size_t i = 0; i < count; i++)
        cr_assert_float_eq(cJSON_GetArrayItem(list, (int)i)->valuedouble, values[i], 1e-13,
                           "value %zu", i);
}

static void check_axis(const cJSON *axis, const char *name, bool mvdr) {
    cr_assert_str_eq(cJSON_GetObjectItem(axis, "name")->valuestring, name);
    const cJSON *unit = cJSON_GetObjectItem(axis, "unit");
    if (strcmp(name, "azimuth") == 0) {
        cr_assert_str_eq(unit->valuestring, "deg");
        check_values(axis, mvdr ? 5U : 7U, mvdr ? scene.mvdr_az : scene.cbf_az);
    } else if (strcmp(name, "range") == 0) {
        cr_assert_str_eq(unit->valuestring, "m");
        cr_assert_str_eq(cJSON_GetObjectItem(axis, "reference")->valuestring, "radial");
        check_values(axis, 3, scene.range_m);
    } else if (strcmp(name, "frequency") == 0) {
        cr_assert_str_eq(unit->valuestring, "Hz");
        double bin_hz = mvdr ? 3.90625 : 0.9765625;
        cr_assert_eq(cJSON_GetObjectItem(axis, "start")->valuedouble, (mvdr ? 154 : 102) * bin_hz);
        cr_assert_eq(cJSON_GetObjectItem(axis, "step")->valuedouble, bin_hz);
    } else if (strcmp(name, "channel") == 0 || strcmp(name, "coordinate") == 0 ||
               strcmp(name, "beam") == 0) {
        cr_assert(cJSON_IsNull(unit));
        cr_assert_eq(cJSON_GetObjectItem(axis, "start")->valuedouble, 0);
        cr_assert_eq(cJSON_GetObjectItem(axis, "step")->valuedouble, 1);
    } else if (strcmp(name, "time") == 0) {
        cr_assert_str_eq(unit->valuestring, "s");
        cr_assert_eq(cJSON_GetObjectItem(axis, "start")->valuedouble, 0);
        cr_assert_eq(cJSON_GetObjectItem(axis, "step")->valuedouble, 1.0 / 8000);
    } else if (strcmp(name, "mode") == 0) {
        cr_assert(cJSON_IsNull(unit));
        cr_assert_eq(cJSON_GetObjectItem(axis, "start")->valuedouble, 1);
        cr_assert_eq(cJSON_GetObjectItem(axis, "step")->valuedouble, 1);
    } else {
        check_values(axis, 0, NULL);
    }
}

static void check_layout(const output_message *message, sonar_surface surface) {
    int rank = axis_names[surface][1] ? 2 : 1;
    const cJSON *shape = field(message, "shape"), *axes = field(message, "axes");
    cr_assert_str_eq(string(message, "dtype"), "<f4");
    cr_assert_eq(cJSON_GetArraySize(shape), rank);
    cr_assert_eq(cJSON_GetArraySize(axes), rank);
    size_t elements = 1;
    for (int i = 0; i < rank; i++) {
        cr_assert_eq(cJSON_GetArrayItem(shape, i)->valuedouble, (double)shapes[surface][i]);
        elements *= shapes[surface][i];
        check_axis(cJSON_GetArrayItem(axes, i), axis_names[surface][i], is_mvdr(surface));
    }
    cr_assert_eq(message->body_bytes, elements * 4);
    if (units[surface])
        cr_assert_str_eq(string(message, "unit"), units[surface]);
    else
        expect_null(message, "unit");
}

static void check_common(const output_message *message, sonar_surface surface) {
    cr_assert_str_eq(message->topic, sonar_topic_name(surface));
    cr_assert_str_eq(string(message, "topic"), sonar_topic_name(surface));
    cr_assert_str_eq(string(message, "schema"), "sonard/1");
    cr_assert_str_eq(string(message, "array"), "line \"A\"");
    cr_assert_str_eq(string(message, "run"), scene.spec.run_uuid);
    cr_assert_str_eq(string(message, "backend"), "cpu");
    cr_assert_str_eq(string(message, "config_version"), "abc123");
    cr_assert_str_eq(string(message, "bearing_reference"),
                     sonar_topic_is_list(surface) ? "true" : "array");
    cr_assert_str_eq(string(message, "bearing_kind"), "cone");
    cr_assert_eq(number(message, "heading_deg"), 30.5);
    cr_assert_eq(number(message, "axis_az_deg"), 12.5);
    cr_assert_eq(number(message, "axis_depression_deg"), -7.5);
    expect_null(message, "depression_deg");
    cr_assert(cJSON_IsTrue(field(message, "ambiguous")));
    cr_assert_eq(number(message, "sound_speed_mps"), 1500.25);
    cr_assert_eq(number(message, "fs_hz"), 8000);
    cr_assert(cJSON_IsArray(field(message, "flags")));
    check_layout(message, surface);
}

static void check_levels(const output_message *message) {
    const cJSON *loading = field(message, "loading");
    cr_assert_str_eq(cJSON_GetObjectItem(loading, "rule")->valuestring, "noise");
    cr_assert_eq(cJSON_GetObjectItem(loading, "eps")->valuedouble, 0.01);
    cr_assert_eq(cJSON_GetObjectItem(loading, "delta")->valuedouble, 0.125);
    cr_assert_eq(number(message, "level_bias_db"), -2.5);
    expect_text(message, "\"white_noise_gain\":{\"limit_db\":-3,\"limited_share\":0.25}");
    cr_assert_null(cJSON_GetObjectItem(message->head, "music"));
}

/* A pseudo-spectrum has no levels. */
static void check_music(const output_message *message) {
    expect_null(message, "loading");
    expect_null(message, "level_bias_db");
    expect_null(message, "white_noise_gain");
    expect_text(message, "\"music\":{\"counted\":true,\"median\":1.5,\"most\":3,\"bins\":2}");
}

/* It begins 8 samples, a millisecond, before the window. */
static void check_series(const output_message *message) {
    cr_assert_eq(number(message, "window_length"), SCENE_BEAM_SAMPLES);
    expect_text(message, "\"utc_ns\":1763654400122456792,");
    expect_text(message, "\"sample_index\":9007199254753273,");
    expect_text(message, "\"range_m\":null,\"array_gain_db\":12.5,\"beams\":["
                         "{\"name\":\"az71\",\"az_deg\":71,\"bearing_deg\":null,\"missing\":3,"
                         "\"track\":null,\"track_state\":null},"
                         "{\"name\":\"track12\",\"az_deg\":99.5,\"bearing_deg\":130,"
                         "\"missing\":0,\"track\":12,\"track_state\":\"coasting\"}]");
}

static void check_window(const output_message *message) {
    cr_assert_eq(number(message, "window_length"), 8192);
    expect_text(message, "\"utc_ns\":1763654400123456792,");
    expect_text(message, "\"sample_index\":9007199254753281,");
}

static void check_result(const output_message *message, sonar_surface surface) {
    const bool mvdr = is_mvdr(surface);
    cr_assert_eq(number(message, "window"), 3);
    cr_assert_eq(number(message, "sensors_used"), mvdr ? 124 : 126);
    if (surface == SONAR_BEAM_AUDIO)
        check_series(message);
    else
        check_window(message);
    expect_text(message, "\"epoch\":4294967295,");
    cr_assert_geq(number(message, "latency_us"), 0);
    cr_assert_eq(cJSON_GetObjectItem(field(message, "missing_share"), "mean")->valuedouble, 0);
    if (sonar_topic_is_list(surface) || surface == SONAR_BEAM_AUDIO)
        expect_null(message, "snapshots");
    else
        cr_assert_eq(number(message, "snapshots"), mvdr ? 63.5 : 1);
    if (!mvdr) {
        expect_null(message, "loading");
        return;
    }
    if (surface == SONAR_MUSIC_AZIMUTH)
        check_music(message);
    else
        check_levels(message);
    const bool summed = !strcmp(field(message, "topic")->valuestring, "mvdr.azimuth");
    cr_assert_str_eq(field(message, "value")->valuestring, summed ? "cell_maximum" : "direction");
    cr_assert_eq(number(message, "tonal_bins"), 2);
    expect_text(message, "\"sources\":{\"rule\":\"random_matrix\",\"median\":2.5,\"most\":4}");
    cr_assert(cJSON_IsFalse(field(message, "level_corrected")));
    expect_text(message, "\"first_sample\":9007199254740995,");
    expect_text(message, "\"last_sample\":9007199254740997,");
    cr_assert_eq(number(message, "bins_not_converged"), 0);
}

static void check_band(const output_message *message, sonar_surface surface) {
    if (surface == SONAR_ELEMENT_MISSING || surface == SONAR_ELEMENT_POSITION ||
        surface == SONAR_BEAM_AUDIO || surface == SONAR_TRACKS || surface == SONAR_STATUS) {
        expect_null(message, "band_hz");
        return;
    }
    double low = 600, high = 950;
    if (is_mvdr(surface))
        low = 610, high = 940;
    if (surface == SONAR_CBF_LOFAR || surface == SONAR_ELEMENT_PSD)
        low = 102 * 0.9765625, high = 112 * 0.9765625;
    const cJSON *band = field(message, "band_hz");
    cr_assert_eq(cJSON_GetArrayItem(band, 0)->valuedouble, low);
    cr_assert_eq(cJSON_GetArrayItem(band, 1)->valuedouble, high);
}

Test(output, every_topic_says_what_its_array_is) {
    make(), go();
    for (int s = 0; s < SONAR_STATUS; s++) {
        void *socket = subscribe(sonar_topic_name((sonar_surface)s), SONAR_WANT(s));
        hand_over(3);
        output_message message = receive(socket);
        check_common(&message, (sonar_surface)s);
        check_result(&message, (sonar_surface)s);
        check_band(&message, (sonar_surface)s);
        cr_assert_eq(memcmp(message.body, scene.data[3][s], message.body_bytes), 0);
        output_message_clear(&message);
        zmq_close(socket);
        cr_assert(output_wait_wanted(output, 0));
        get_back(1);
    }
    end();
}

Test(output, names_and_no_topic_is_a_prefix_of_another) {
    for (int a = 0; a < SONAR_SURFACES; a++)
        for (int b = 0; b < SONAR_SURFACES; b++) {
            const char *x = sonar_topic_name((sonar_surface)a);
            cr_assert_leq(strlen(x), SONAR_TOPIC_MOST);
            if (a != b)
                cr_assert_neq(strncmp(x, sonar_topic_name((sonar_surface)b), strlen(x)), 0);
        }
    cr_assert_str_eq(sonar_topic_name(SONAR_CBF_AZIMUTH), "cbf.azimuth");
    cr_assert_str_eq(sonar_topic_name(SONAR_SURFACES), "unknown");
}

static cJSON *header_of(sonar_surface surface, const sonar_result *result) {
    char *axes = sonar_header_axes(&scene.spec, surface, NULL);
    char *text = sonar_header_result(&scene.spec, surface, axes, NULL, result, UINT64_MAX, NAN);
    cr_assert_not_null(text);
    cr_assert_null(strstr(text, "nan"));
    cr_assert_null(strstr(text, "inf"));
    cr_assert_not_null(strstr(text, "\"seq\":18446744073709551615,"));
    cJSON *head = cJSON_Parse(text);
    cr_assert_not_null(head);
    free(axes);
    free(text);
    return head;
}

Test(output, what_is_not_known_is_null) {
    make();
    sonar_result *result = &scene.result[0];
    result->params = (sonar_params_facts){.heading_deg = NAN, .sound_speed_mps = NAN};
    result->utc_ns = 0;
    result->mvdr_delta = INFINITY;
    result->missing_mean = NAN;
    result->mvdr_end_sample = result->mvdr_first_sample;
    cJSON *head = header_of(SONAR_MVDR_SPECTRUM, result);
    const char *const null[] = {"heading_deg",     "utc_ns",      "latency_us",  "config_version",
                                "sound_speed_mps", "last_sample", "first_sample"};
    for (size_t i = 0; i < sizeof null / sizeof null[0]; i++)
        cr_assert(cJSON_IsNull(cJSON_GetObjectItem(head, null[i])), "%s", null[i]);
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(head, "loading"), "delta")));
    cr_assert(
        cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(head, "missing_share"), "mean")));
    cr_assert_str_eq(cJSON_GetObjectItem(head, "unit")->valuestring, "counts^2/Hz");
    cJSON_Delete(head);
    scene.spec.relative = true;
    scene.cbf.cone = false;
    scene.cbf.depression_deg = -3;
    head = header_of(SONAR_DETECTIONS, result);
    cr_assert_str_eq(cJSON_GetObjectItem(head, "unit")->valuestring, "relative");
    cr_assert_str_eq(cJSON_GetObjectItem(head, "bearing_reference")->valuestring, "array");
    cr_assert_str_eq(cJSON_GetObjectItem(head, "bearing_kind")->valuestring, "azimuth");
    cr_assert(cJSON_IsFalse(cJSON_GetObjectItem(head, "ambiguous")));
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(head, "axis_az_deg")));
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(head, "axis_depression_deg")));
    cr_assert_eq(cJSON_GetObjectItem(head, "depression_deg")->valuedouble, -3);
    cJSON_Delete(head);
}

static const sonar_track some_tracks[] = {
    {.number = 7,
     .state = SONAR_TRACK_COASTING,
     .existence = 0.75,
     .bearings = 2,
     .bearing = {{101.5, -0.5, 0.25, 0.125, -0.5, 0.75, SONAR_SIDE_PORT},
                 {300, 0.5, 0.5, 0.125, 0.5, 0.25, SONAR_SIDE_STARBOARD}},
     .az_deg = 90,
     .snr_db = 12,
     .age_s = 60,
     .unheard_s = 20,
     .contact = SIZE_MAX,
     .rests_on = 3,
     .tones = 2,
     .tone_hz = {50.5, 700}},
    {.number = 9, .bearings = 1, .bearing = {{.side = SONAR_SIDE_ALL}}, .contact = 2}};

Test(output, tracks_are_in_the_header) {
    make();
    sonar_result *result = &scene.result[0];
    memcpy(result->track, some_tracks, sizeof some_tracks);
    result->tracks = 2;
    cJSON *head = header_of(SONAR_TRACKS, result);
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItem(head, "tracks"));
    cr_expect_str_eq(
        text, "[{\"number\":7,\"state\":\"coasting\",\"existence\":0.75,\"bearings\":["
              "{\"bearing_deg\":101.5,\"bearing_sigma_deg\":0.25,\"rate_deg_per_min\":-0.5,"
              "\"rate_sigma_deg_per_min\":0.125,\"correlation\":-0.5,\"side\":\"port\","
              "\"probability\":0.75},"
              "{\"bearing_deg\":300,\"bearing_sigma_deg\":0.5,\"rate_deg_per_min\":0.5,"
              "\"rate_sigma_deg_per_min\":0.125,\"correlation\":0.5,\"side\":\"starboard\","
              "\"probability\":0.25}],\"az_deg\":90,\"snr_db\":12,\"age_s\":60,\"unheard_s\":20,"
              "\"contact\":null,\"rests_on\":[\"cbf\",\"mvdr\"],\"tones_hz\":[50.5,700]},"
              "{\"number\":9,\"state\":\"tentative\",\"existence\":0,\"bearings\":["
              "{\"bearing_deg\":0,\"bearing_sigma_deg\":0,\"rate_deg_per_min\":0,"
              "\"rate_sigma_deg_per_min\":0,\"correlation\":0,\"side\":null,\"probability\":0}],"
              "\"az_deg\":0,\"snr_db\":0,\"age_s\":0,\"unheard_s\":0,\"contact\":2,"
              "\"rests_on\":[],\"tones_hz\":[]}]");
    cr_expect_null(cJSON_GetObjectItem(head, "detections"));
    cJSON_free(text);
    cJSON_Delete(head);
}

/* ---- true bearings --------------------------------------------------------------------------- */

static void check_true_axis(const output_message *m, int rank, size_t *count) {
    const cJSON *axis = cJSON_GetArrayItem(field(m, "axes"), rank - 1);
    const double step_deg = cJSON_GetObjectItem(axis, "step")->valuedouble;
    *count = (size_t)cJSON_GetArrayItem(field(m, "shape"), rank - 1)->valuedouble;
    cr_assert_str_eq(cJSON_GetObjectItem(axis, "name")->valuestring, "azimuth");
    cr_assert_eq(cJSON_GetObjectItem(axis, "start")->valuedouble, 0);
    cr_assert_float_eq(step_deg * (double)*count, 360, 1e-9);
    cr_assert_str_eq(string(m, "bearing_reference"), "true");
    cr_assert_str_eq(string(m, "bearing_kind"), "azimuth");
    cr_assert(cJSON_IsTrue(field(m, "ambiguous")));
}

/* Every row compared with the same row processed alone. */
static void check_true_array(sonar_surface surface, const char *interpolation) {
    void *socket = subscribe(sonar_topic_name(surface), SONAR_WANT(surface));
    hand_over(3);
    output_message m = receive(socket);
    const bool mvdr = sonar_topic_table[surface].maker == SONAR_MADE_BY_MVDR;
    const sonar_scan *scan = mvdr ? &scene.mvdr : &scene.cbf;
    const size_t rows = axis_names[surface][1] ? shapes[surface][0] : 1;
    size_t count;
    check_true_axis(&m, axis_names[surface][1] ? 2 : 1, &count);
    cr_assert_eq(number(&m, "heading_deg"), 30.5);
    const cJSON *resampled = field(&m, "resampled");
    cr_assert_str_eq(cJSON_GetObjectItem(resampled, "interpolation")->valuestring, interpolation);
    cr_assert_eq(cJSON_GetObjectItem(resampled, "directions")->valuedouble, (double)scan->count);
    cr_assert_eq(m.body_bytes, rows * count * sizeof(float));
    sonar_bearings *alone =
        sonar_bearings_create(scan, mvdr ? SONAR_INTERPOLATE_NEAREST : SONAR_INTERPOLATE_CUBIC);
    cr_assert_eq(sonar_bearings_count(alone), count);
    sonar_bearings_turn(alone, 30.5);
    float *wanted = calloc(count, sizeof *wanted);
    for (size_t row = 0; row < rows; row++) {
        sonar_bearings_read(alone, scene.data[3][surface] + row * scan->count, wanted);
        cr_assert_arr_eq(m.body + row * count * sizeof(float), wanted, count * sizeof(float));
    }
    free(wanted);
    sonar_bearings_destroy(alone);
    output_message_clear(&m);
    zmq_close(socket);
    cr_assert(output_wait_wanted(output, 0));
    get_back(1);
}

Test(output, spectra_are_published_over_true_bearings) {
    make();
    scene.spec.true_bearings = true;
    go();
    check_true_array(SONAR_CBF_AZIMUTH, "cubic");
    check_true_array(SONAR_CBF_NEARFIELD, "cubic");
    check_true_array(SONAR_CBF_LOFAR, "cubic");
    check_true_array(SONAR_MVDR_AZIMUTH, "nearest");
    check_true_array(SONAR_MVDR_SPECTRUM, "nearest");
    check_true_array(SONAR_MVDR_NEARFIELD, "nearest");
    end();
}

/* By the heading at the middle of the samples of each topic, which differs for the MVDR. */
Test(output, mvdr_turns_by_the_heading_of_its_own_middle) {
    make();
    scene.spec.true_bearings = true;
    go();
    void *socket = subscribe("mvdr.azimuth", SONAR_WANT(SONAR_MVDR_AZIMUTH));
    sonar_bearings *alone = sonar_bearings_create(&scene.mvdr, SONAR_INTERPOLATE_NEAREST);
    float wanted[SONAR_BEARINGS_MOST];
    output_scene_fill(&scene, 0, 4);
    scene.result[0].navigated = true;
    scene.result[0].mvdr_heading_deg = 211;
    cr_assert(sonar_output_post(output, &scene.result[0]));
    output_message m = receive(socket);
    cr_assert_eq(number(&m, "heading_deg"), 211);
    sonar_bearings_turn(alone, 211);
    sonar_bearings_read(alone, scene.data[0][SONAR_MVDR_AZIMUTH], wanted);
    cr_assert_eq(m.body_bytes, sonar_bearings_count(alone) * sizeof(float));
    cr_assert_arr_eq(m.body, wanted, m.body_bytes);
    output_message_clear(&m);
    sonar_bearings_destroy(alone);
    zmq_close(socket);
    get_back(1);
    end();
}

/* Unknown heading: the array's own frame, as stated in the header. */
Test(output, without_a_heading_spectra_stay_in_the_array_frame) {
    make();
    scene.spec.true_bearings = true;
    go();
    void *socket = subscribe("cbf.azimuth", SONAR_WANT(SONAR_CBF_AZIMUTH));
    output_scene_fill(&scene, 0, 4);
    scene.result[0].navigated = scene.result[0].heading_stale = true;
    scene.result[0].params.heading_deg = NAN;
    cr_assert(sonar_output_post(output, &scene.result[0]));
    output_message m = receive(socket);
    cr_assert_str_eq(string(&m, "bearing_reference"), "array");
    cr_assert_str_eq(string(&m, "bearing_kind"), "cone");
    expect_null(&m, "resampled");
    expect_null(&m, "heading_deg");
    expect_text(&m, "\"heading_stale\"");
    check_layout(&m, SONAR_CBF_AZIMUTH);
    cr_assert_arr_eq(m.body, scene.data[0][SONAR_CBF_AZIMUTH], m.body_bytes);
    output_message_clear(&m);
    zmq_close(socket);
    get_back(1);
    end();
}

static int flags_of(const cJSON *head, char *text, size_t bytes) {
    const cJSON *flag;
    text[0] = '\0';
    cJSON_ArrayForEach(flag, cJSON_GetObjectItem(head, "flags")) {
        size_t used = strlen(text);
        snprintf(text + used, bytes - used, "%s ", flag->valuestring);
    }
    return cJSON_GetArraySize(cJSON_GetObjectItem(head, "flags"));
}

Test(output, flags_are_named_and_mvdr_flags_stay_with_mvdr) {
    make();
    cr_assert_eq((int)SONAR_HEADER_DISCONTINUITY, (int)SONAR_FRAME_DISCONTINUITY);
    cr_assert_eq((int)SONAR_HEADER_OVERLOAD, (int)SONAR_FRAME_OVERLOAD);
    cr_assert_eq((int)SONAR_HEADER_UNSYNCHRONISED, (int)SONAR_FRAME_UNSYNCHRONISED);
    cr_assert_eq((int)SONAR_HEADER_NOT_CONVERGED, (int)SONAR_MVDR_FLAG_NOT_CONVERGED);
    cr_assert_eq((int)SONAR_HEADER_LEVEL_BIASED, (int)SONAR_MVDR_FLAG_LEVEL_BIASED);
    cr_assert_eq((int)SONAR_HEADER_TRACE_FALLBACK, (int)SONAR_MVDR_FLAG_TRACE_FALLBACK);
    cr_assert_eq((int)SONAR_HEADER_LOADING_FLOOR, (int)SONAR_MVDR_FLAG_LOADING_FLOOR);
    sonar_result *result = &scene.result[0];
    result->missing_worst = 0.25;
    result->frame_flags = 7;
    result->mvdr_flags = 15;
    result->mvdr_bins_not_converged = 4;
    result->restarted = true;
    char text[256];
    cJSON *head = header_of(SONAR_MVDR_AZIMUTH, result);
    flags_of(head, text, sizeof text);
    cr_assert_str_eq(text, "gap discontinuity overload clock_unsynchronised not_converged "
                           "level_biased trace_fallback loading_floor restarted ");
    cr_assert_eq(cJSON_GetObjectItem(head, "bins_not_converged")->valuedouble, 4);
    cJSON_Delete(head);
    head = header_of(SONAR_CBF_LOFAR, result);
    flags_of(head, text, sizeof text);
    cr_assert_str_eq(text, "gap discontinuity overload clock_unsynchronised restarted ");
    cJSON_Delete(head);
    *result = (sonar_result){.mvdr_flags = 2, .frame_flags = 2};
    head = header_of(SONAR_MVDR_AZIMUTH, result);
    flags_of(head, text, sizeof text);
    cr_assert_str_eq(text, "overload level_biased ");
    cJSON_Delete(head);
}

Test(output, shape_of_a_towed_array_is_told) {
    make();
    char text[256];
    sonar_result *result = &scene.result[0];
    cJSON *head = header_of(SONAR_CBF_AZIMUTH, result);
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(head, "shape_sample_index")));
    cJSON_Delete(head);
    result->shape_follows = result->shape_changed = result->tow_unknown = true;
    result->shape_sample = 4096;
    head = header_of(SONAR_MVDR_AZIMUTH, result);
    flags_of(head, text, sizeof text);
    cr_assert_str_eq(text, "tow_unknown shape_changed ");
    cr_assert_eq(cJSON_GetObjectItem(head, "shape_sample_index")->valuedouble, 4096);
    cJSON_Delete(head);
    head = header_of(SONAR_CBF_AZIMUTH, result); /* has no older samples */
    flags_of(head, text, sizeof text);
    cr_assert_str_eq(text, "tow_unknown ");
    cJSON_Delete(head);
}

Test(output, detections_are_listed_with_their_units) {
    make();
    sonar_result *result = &scene.result[0];
    result->detections = 2;
    result->detection[0] = (sonar_detection){.source = SONAR_FROM_MVDR,
                                             .az_deg = 60.25,
                                             .bearing_deg = 90.25,
                                             .mirror_deg = 330.75,
                                             .bearing_sigma_deg = 0.25,
                                             .power = 1e12,
                                             .background = 1e10,
                                             .snr_db = 20,
                                             .width_deg = NAN,
                                             .range_m = 812.5,
                                             .range_unresolved = true,
                                             .image = true,
                                             .contact = 1,
                                             .rests_on = 3,
                                             .tones = 1,
                                             .tone = {{50.5, 15}}};
    result->detection[1] = (sonar_detection){
        .mirror_deg = NAN, .bearing_sigma_deg = NAN, .range_m = NAN, .width_deg = 2, .power = 0};
    cJSON *head = header_of(SONAR_DETECTIONS, result);
    const cJSON *list = cJSON_GetObjectItem(head, "detections");
    cr_assert_eq(cJSON_GetArraySize(list), 2);
    cr_assert_str_eq(cJSON_GetObjectItem(head, "range_reference")->valuestring, "radial");
    const cJSON *first = cJSON_GetArrayItem(list, 0), *second = cJSON_GetArrayItem(list, 1);
    const struct {
        const char *name;
        double value;
    } want[] = {{"az_deg", 60.25}, {"bearing_deg", 90.25}, {"mirror_deg", 330.75},
                {"level", 1e12},   {"level_db", 120},      {"background", 1e10},
                {"snr_db", 20},    {"range_m", 812.5},     {"bearing_sigma_deg", 0.25}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++)
        cr_assert_eq(cJSON_GetObjectItem(first, want[i].name)->valuedouble, want[i].value, "%s",
                     want[i].name);
    cr_assert_str_eq(cJSON_GetObjectItem(first, "source")->valuestring, "mvdr");
    cr_assert_str_eq(cJSON_GetObjectItem(second, "source")->valuestring, "cbf");
    cr_assert(cJSON_IsTrue(cJSON_GetObjectItem(first, "range_unresolved")));
    cr_assert(cJSON_IsTrue(cJSON_GetObjectItem(first, "possible_image")));
    cr_assert(cJSON_IsFalse(cJSON_GetObjectItem(second, "possible_image")));
    cr_assert_eq(cJSON_GetObjectItem(first, "contact")->valuedouble, 1);
    const cJSON *tone = cJSON_GetArrayItem(cJSON_GetObjectItem(first, "tones"), 0);
    cr_assert_eq(cJSON_GetObjectItem(tone, "hz")->valuedouble, 50.5);
    cr_assert_eq(cJSON_GetObjectItem(tone, "snr_db")->valuedouble, 15);
    const cJSON *sources = cJSON_GetObjectItem(first, "rests_on");
    cr_assert_eq(cJSON_GetArraySize(sources), 2);
    cr_assert_str_eq(cJSON_GetArrayItem(sources, 0)->valuestring, "cbf");
    cr_assert_str_eq(cJSON_GetArrayItem(sources, 1)->valuestring, "mvdr");
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(first, "width_deg")));
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(second, "mirror_deg")));
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(second, "bearing_sigma_deg")));
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(second, "range_m")));
    cr_assert(cJSON_IsNull(cJSON_GetObjectItem(second, "level_db")));
    cJSON_Delete(head);
    result->detections = 100000; /* more than there is room for */
    head = header_of(SONAR_DETECTIONS, result);
    cr_assert_eq(cJSON_GetArraySize(cJSON_GetObjectItem(head, "detections")),
                 2 * SONAR_DETECTIONS_MOST);
    cJSON_Delete(head);
}

/* ---- status ---------------------------------------------------------------------------------- */

static void count_up(sonar_status *status) {
    sonar_ingest_counters *in = &status->ingest;
    in->frames_received = UINT64_MAX;
    in->frames_accepted = 2;
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++)
        in->frames_dropped[i] = 100 + (uint64_t)i;
    for (int i = 0; i < SONAR_WINDOW_CAUSES; i++)
        in->windows_dropped[i] = 200 + (uint64_t)i;
    in->samples_stored = 3, in->samples_repeated = 4, in->samples_late = 5;
    in->samples_missing = 6, in->sequence_gaps = 7, in->restarts = 8;
    in->windows_offered = 9, in->windows_taken = 10;
    in->clock_unsynchronised = 11, in->digitiser_overload = 12;
    in->blocks_silent = 13, in->blocks_seen = 14;
    status->output =
        (sonar_output_counters){.messages_sent = 15,
                                .messages_failed = 16,
                                .subscriptions = 17,
                                .results_dropped = 18,
                                .peers = {.connected = 21, .refused = 22, .reopened_memory = 23}};
    status->windows_processed = 19, status->windows_failed = 20;
}

static void expect_number(const output_message *message, const char *path, double value) {
    char copy[64], *save = NULL;
    snprintf(copy, sizeof copy, "%s", path);
    const cJSON *item = message->head;
    for (char *name = strtok_r(copy, ".", &save); name; name = strtok_r(NULL, ".", &save))
        item = cJSON_GetObjectItemCaseSensitive(item, name);
    cr_assert(cJSON_IsNumber(item), "%s", path);
    cr_assert_eq(item->valuedouble, value, "%s is %g", path, item->valuedouble);
}

static void check_counters(const output_message *message) {
    static const char *const path[] = {"frames.accepted",
                                       "samples.stored",
                                       "samples.repeated",
                                       "samples.late",
                                       "samples.missing",
                                       "frames.sequence_gaps",
                                       "frames.restarts",
                                       "windows.offered",
                                       "windows.taken",
                                       "frames.clock_unsynchronised",
                                       "frames.digitiser_overload",
                                       "blocks.silent",
                                       "blocks.seen",
                                       "output.messages_sent",
                                       "output.messages_failed",
                                       "output.subscriptions",
                                       "output.results_dropped",
                                       "windows.processed",
                                       "windows.failed"};
    for (size_t i = 0; i < sizeof path / sizeof path[0]; i++)
        expect_number(message, path[i], 2 + (double)i);
    for (int i = 0; i < SONAR_FRAME_CAUSES; i++) {
        char name[64];
        snprintf(name, sizeof name, "frames.dropped.%s",
                 sonar_frame_cause_name((sonar_frame_cause)i));
        expect_number(message, name, 100 + i);
    }
    for (int i = 0; i < SONAR_WINDOW_CAUSES; i++) {
        char name[64];
        snprintf(name, sizeof name, "windows.dropped.%s",
                 sonar_window_cause_name((sonar_window_cause)i));
        expect_number(message, name, 200 + i);
    }
    expect_text(message, "\"received\":18446744073709551615,");
}

static sonar_status status_of(double uptime_s) {
    sonar_status status = {.params = scene.params,
                           .uptime_s = uptime_s,
                           .load = 0.5,
                           .latency = {.last_us = {1000, 2000, NAN}},
                           .stage_us = {1, 2, 3, 4},
                           .stage = {{{{1, 2, 3}, {4, 5, NAN}}}},
                           .resident_bytes = 5e9,
                           .backend = "cpu",
                           .backend_text = "set up again",
                           .waiting_for_samples = true,
                           .health = "waiting",
                           .text = "no frame yet"};
    count_up(&status);
    return status;
}

Test(output, status_lists_the_conditions) {
    make(), go();
    void *socket = subscribe("status", SONAR_WANT(SONAR_STATUS));
    sonar_status status = status_of(1);
    status.conditions = 2;
    status.condition[0] = (sonar_condition){.code = SONAR_CONDITION_FRAMES_DROPPED,
                                            .severity = SONAR_DEGRADED,
                                            .value = 12,
                                            .limit = NAN,
                                            .for_s = 3.5,
                                            .text = "12 frames dropped"};
    status.condition[1] = status.condition[0];
    status.condition[1].code = SONAR_CONDITION_NO_SAMPLES;
    sonar_channel_set_add(&status.condition[1].channels, 17, 2);
    sonar_channel_set_add(&status.condition[1].channels, 1000000, 1);
    sonar_output_post_status(output, &status);
    output_message message = receive(socket);
    expect_text(&message, "\"conditions\":[{\"code\":\"frames_dropped\",\"severity\":\"degraded\","
                          "\"text\":\"12 frames dropped\",\"for_s\":3.5,\"value\":12,"
                          "\"limit\":null,\"channels\":null},");
    expect_text(&message, "\"channels\":{\"count\":3,\"ranges\":[[17,18],[1000000,1000000]]}}]");
    output_message_clear(&message);
    zmq_close(socket);
    end();
}

Test(output, status_lists_bad_elements) {
    make(), go();
    void *socket = subscribe("status", SONAR_WANT(SONAR_STATUS));
    sonar_status status = status_of(1);
    status.elements.judged = 61;
    status.elements.masked = 2;
    sonar_channel_set_add(&status.elements.fault[SONAR_ELEMENT_DEAD].sensors, 5, 2);
    sonar_channel_set_add(&status.elements.fault[SONAR_ELEMENT_DEAD].channels, 105, 2);
    sonar_channel_set_add(&status.elements.masked_auto.sensors, 6, 1);
    sonar_channel_set_add(&status.elements.masked_auto.channels, 106, 1);
    sonar_channel_set_add(&status.elements.masked_hand.sensors, 1, 2);
    sonar_channel_set_add(&status.elements.masked_hand.channels, 101, 2);
    sonar_output_post_status(output, &status);
    output_message message = receive(socket);
    expect_text(&message, "\"elements\":{\"judged\":61,\"masked\":2,"
                          "\"dead\":{\"count\":2,\"sensors\":[[5,6]],\"channels\":[[105,106]]},"
                          "\"stuck\":{\"count\":0,\"sensors\":[],\"channels\":[]},\"noisy\":");
    expect_text(&message, "\"masked_auto\":{\"count\":1,\"sensors\":[[6,6]],"
                          "\"channels\":[[106,106]]},"
                          "\"masked_hand\":{\"count\":2,\"sensors\":[[1,2]],"
                          "\"channels\":[[101,102]]}}");
    output_message_clear(&message);
    zmq_close(socket);
    end();
}

Test(output, status_has_every_counter) {
    make(), go();
    void *socket = subscribe("status", SONAR_WANT(SONAR_STATUS));
    sonar_status status = status_of(77.5);
    sonar_output_post_status(output, &status);
    output_message message = receive(socket);
    check_common(&message, SONAR_STATUS);
    check_band(&message, SONAR_STATUS);
    check_counters(&message);
    cr_assert_str_eq(string(&message, "health"), "waiting");
    cr_assert_str_eq(string(&message, "text"), "no frame yet");
    cr_assert(cJSON_IsTrue(field(&message, "waiting")));
    expect_number(&message, "uptime_s", 77.5);
    expect_number(&message, "load", 0.5);
    expect_number(&message, "resident_bytes", 5e9);
    expect_number(&message, "latency.p50_us", 1000);
    expect_number(&message, "latency.p99_us", 2000);
    expect_text(&message, "\"max_us\":null");
    expect_number(&message, "stage_us.dft", 1);
    expect_number(&message, "stage_us.detect", 4);
    expect_number(&message, "stage_times.dft.host.all.p99_us", 2);
    expect_number(&message, "stage_times.dft.host.last.p50_us", 4);
    cr_expect_str_eq(string(&message, "backend"), "cpu");
    cr_expect_str_eq(string(&message, "backend_text"), "set up again");
    cr_assert_gt(number(&message, "utc_ns"), 1.6e18);
    const char *const null[] = {"window", "sample_index", "snapshots", "loading", "latency_us"};
    for (size_t i = 0; i < sizeof null / sizeof null[0]; i++)
        expect_null(&message, null[i]);
    const cJSON *wanted = cJSON_GetObjectItem(field(&message, "output"), "wanted");
    cr_assert_eq(cJSON_GetArraySize(wanted), 1);
    cr_assert_str_eq(cJSON_GetArrayItem(wanted, 0)->valuestring, "status");
    output_message_clear(&message);
    zmq_close(socket);
    end();
}

Test(output, the_last_status_is_repeated_for_a_newcomer) {
    make(), go();
    sonar_status status = status_of(1);
    sonar_output_post_status(output, &status); /* without subscribers: kept, but not sent */
    void *first = subscribe("status", SONAR_WANT(SONAR_STATUS));
    output_message message = receive(first);
    /* The post may have been processed before or after the subscription; in both cases it arrives.
     */
    expect_number(&message, "uptime_s", 1);
    double seq = number(&message, "seq"), utc_ns = number(&message, "utc_ns");
    output_message_clear(&message);
    for (int i = 0; i < 3; i++) {
        void *newcomer = output_subscriber(peers, endpoint, i == 1 ? "" : "status");
        message = receive(newcomer);
        cr_assert(has_flag(&message, "repeat"));
        expect_number(&message, "uptime_s", 1);
        cr_assert_eq(number(&message, "utc_ns"), utc_ns);
        output_message_clear(&message);
        message = receive(first); /* it reaches the old one too, as the next in sequence */
        cr_assert(has_flag(&message, "repeat"));
        cr_assert_eq(number(&message, "seq"), ++seq);
        output_message_clear(&message);
        zmq_close(newcomer);
    }
    status = status_of(2);
    sonar_output_post_status(output, &status);
    message = receive(first);
    cr_assert(!has_flag(&message, "repeat"));
    expect_number(&message, "uptime_s", 2);
    output_message_clear(&message);
    zmq_close(first);
    end();
}

/* ---- subscriptions --------------------------------------------------------------------------- */

Test(output, what_is_wanted_follows_the_subscribers) {
    make(), go();
    uint32_t lofar = SONAR_WANT(SONAR_CBF_LOFAR), psd = SONAR_WANT(SONAR_ELEMENT_PSD);
    cr_assert_eq(sonar_output_wanted(output), 0);
    void *a = subscribe("cbf.lofar", lofar);
    void *b = subscribe("cbf.lofar", lofar);
    zmq_setsockopt(b, ZMQ_SUBSCRIBE, "element.psd", 11);
    cr_assert(output_wait_wanted(output, lofar | psd));
    zmq_close(a); /* one of two dies: still subscribed to */
    usleep(200000);
    cr_assert_eq(sonar_output_wanted(output), lofar | psd);
    zmq_setsockopt(b, ZMQ_UNSUBSCRIBE, "cbf.lofar", 9);
    cr_assert(output_wait_wanted(output, psd));
    zmq_close(b);
    cr_assert(output_wait_wanted(output, 0));
    end();
}

Test(output, who_subscribes_twice_and_dies_is_gone) {
    make(), go();
    void *a = subscribe("mvdr.spectrum", SONAR_WANT(SONAR_MVDR_SPECTRUM));
    for (int i = 0; i < 5; i++)
        zmq_setsockopt(a, ZMQ_SUBSCRIBE, "mvdr.spectrum", 13);
    zmq_setsockopt(a, ZMQ_SUBSCRIBE, "mvdr", 4);
    cr_assert(output_wait_wanted(
        output, SONAR_WANT(SONAR_MVDR_SPECTRUM) | SONAR_WANT(SONAR_MVDR_AZIMUTH) |
                    SONAR_WANT(SONAR_MVDR_NEARFIELD) | SONAR_WANT(SONAR_MVDR_EIGENVALUES) |
                    SONAR_WANT(SONAR_MVDR_NORMALISED)));
    zmq_close(a);
    cr_assert(output_wait_wanted(output, 0));
    end();
}

Test(output, prefixes_and_the_empty_one) {
    make(), go();
    uint32_t cbf = CBF_TOPICS;
    zmq_close(subscribe("cbf.", cbf));
    cr_assert(output_wait_wanted(output, 0));
    zmq_close(subscribe("c", cbf));
    cr_assert(output_wait_wanted(output, 0));
    void *all = subscribe("", SONAR_EVERY_WINDOW);
    void *lofar = subscribe("cbf.lofar", SONAR_EVERY_WINDOW | SONAR_WANT(SONAR_CBF_LOFAR));
    hand_over(1);
    bool seen[SONAR_SURFACES] = {false};
    for (int i = 0; i < 5; i++) {
        output_message message = receive(all);
        for (int s = 0; s < SONAR_SURFACES; s++)
            seen[s] = seen[s] || strcmp(message.topic, sonar_topic_name((sonar_surface)s)) == 0;
        output_message_clear(&message);
    }
    cr_assert(seen[SONAR_CBF_AZIMUTH] && seen[SONAR_CBF_NEARFIELD] && seen[SONAR_CBF_LOFAR] &&
              seen[SONAR_MVDR_AZIMUTH] && seen[SONAR_DETECTIONS]);
    zmq_close(lofar);
    zmq_close(all);
    cr_assert(output_wait_wanted(output, 0));
    end();
}

Test(output, a_topic_switched_off_is_never_wanted) {
    make();
    scene.spec.topics = SONAR_WANT(SONAR_STATUS);
    go();
    void *all = subscribe("", SONAR_WANT(SONAR_STATUS));
    hand_over(0);
    get_back(1);
    output_message message;
    cr_assert(!output_receive(all, &message, 100));
    zmq_close(all);
    end();
}

/* Messages no SUB would send: an XSUB sends anything. */
Test(output, hostile_subscriptions_are_harmless) {
    make(), go();
    void *honest = subscribe("cbf.azimuth", SONAR_WANT(SONAR_CBF_AZIMUTH));
    void *hostile = zmq_socket(peers, ZMQ_XSUB);
    int zero = 0;
    zmq_setsockopt(hostile, ZMQ_LINGER, &zero, sizeof zero);
    zmq_connect(hostile, endpoint);
    static char junk[100000];
    uint64_t seed = 1;
    memset(junk, 1, sizeof junk);
    for (size_t n = 1; n < 120; n++) { /* to bytes of no topic, below the limit */
        for (size_t i = 1; i <= n; i++)
            junk[i] = (char)sonar_random_bits(&seed);
        junk[1] = (char)0xff;
        zmq_send(hostile, junk, n + 1, 0);
    }
    zmq_send(hostile, "\001status\0", 8, 0);
    zmq_send(hostile, "\001status.and.more.than.that", 26, 0);
    zmq_send(hostile, "hello", 5, ZMQ_SNDMORE);
    zmq_send(hostile, "", 0, 0);
    zmq_send(hostile, "\001cbf.lofar", 10, 0);
    cr_assert(
        output_wait_wanted(output, SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR)));
    zmq_send(hostile, junk, sizeof junk, 0); /* over the limit: thrown out */
    cr_assert(
        output_wait_wanted(output, SONAR_WANT(SONAR_CBF_AZIMUTH)) ||
        output_wait_wanted(output, SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR)));
    hand_over(1);
    output_message message = receive(honest);
    cr_assert_str_eq(message.topic, "cbf.azimuth");
    output_message_clear(&message);
    zmq_close(hostile);
    zmq_close(honest);
    cr_assert(output_wait_wanted(output, 0));
    end();
}

Test(output, the_table_of_interest_takes_any_bytes) {
    sonar_interest interest = {0}, before;
    uint8_t bytes[64];
    uint64_t seed = 5;
    for (int i = 0; i < 200000; i++) {
        size_t n = sonar_random_bits(&seed) % sizeof bytes;
        for (size_t k = 0; k < n; k++)
            bytes[k] = (uint8_t)(sonar_random_bits(&seed) % 4 ? sonar_random_bits(&seed) : 1);
        if (n == 1 && bytes[0] == 1)
            continue; /* the empty subscription */
        before = interest;
        if (n > 2) /* 2: one letter may well be a prefix */
            bytes[2] = 0xff, sonar_interest_apply(&interest, bytes, n);
        cr_assert_eq(memcmp(&before, &interest, sizeof interest), 0);
    }
    cr_assert_eq(sonar_interest_apply(&interest, (const uint8_t *)"\001", 1), EVERYTHING);
    cr_assert_eq(sonar_interest_wanted(&interest), SONAR_EVERY_WINDOW);
    cr_assert_eq(sonar_interest_apply(&interest, (const uint8_t *)"\001", 0), 0);
    cr_assert_eq(sonar_interest_apply(&interest, (const uint8_t *)"\001element.missing", 16),
                 SONAR_WANT(SONAR_ELEMENT_MISSING));
    cr_assert_eq(sonar_interest_apply(&interest, (const uint8_t *)"\000", 1), 0);
    cr_assert_eq(sonar_interest_wanted(&interest), SONAR_WANT(SONAR_ELEMENT_MISSING));
}

/* ---- flow ------------------------------------------------------------------------------------ */

Test(output, seq_counts_per_topic) {
    make(), go();
    void *azimuth = subscribe("cbf.azimuth", SONAR_WANT(SONAR_CBF_AZIMUTH));
    uint32_t both = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_DETECTIONS);
    void *detections = NULL;
    for (uint64_t window = 0; window < 40; window++) {
        if (window == 15)
            detections = subscribe("detections", both);
        hand_over(window);
        output_message message = receive(azimuth);
        cr_assert_eq(number(&message, "seq"), (double)window);
        cr_assert_eq(number(&message, "window"), (double)window);
        output_message_clear(&message);
        if (detections) {
            message = receive(detections);
            cr_assert_eq(number(&message, "seq"), (double)(window - 15));
            output_message_clear(&message);
        }
        get_back(1);
    }
    sonar_output_counters counters;
    sonar_output_read_counters(output, &counters);
    cr_assert_eq(counters.messages_sent, 40 + 25);
    cr_assert_eq(counters.messages_failed, 0);
    cr_assert_eq(counters.results_dropped, 0);
    cr_assert_eq(counters.subscriptions, 2);
    zmq_close(azimuth);
    zmq_close(detections);
    end();
}

Test(output, only_what_is_present_is_sent) {
    make(), go();
    void *socket = subscribe("cbf.", CBF_TOPICS);
    scene.result[2].present = SONAR_WANT(SONAR_CBF_NEARFIELD);
    cr_assert(sonar_output_post(output, &scene.result[2]));
    output_message message = receive(socket);
    cr_assert_str_eq(message.topic, "cbf.nearfield");
    output_message_clear(&message);
    cr_assert(!output_receive(socket, &message, 100));
    zmq_close(socket);
    end();
}

Test(output, a_surface_of_the_wrong_shape_is_not_sent) {
    make(), go();
    void *socket = subscribe("cbf.", CBF_TOPICS);
    sonar_result *bad = &scene.result[0];
    bad->surface[SONAR_CBF_AZIMUTH].shape[0] = 6;
    bad->surface[SONAR_CBF_NEARFIELD].stride[0] = 8;
    bad->surface[SONAR_CBF_LOFAR].data = NULL;
    bad->surface[SONAR_CBF_NORMALISED].rank = 2;
    bad->surface[SONAR_CBF_SPED].shape[0] = 8;
    cr_assert(sonar_output_post(output, bad));
    hand_over(1);
    output_message message = receive(socket);
    cr_assert_eq(number(&message, "window"), 1);
    cr_assert_eq(number(&message, "seq"), 1, "the hole must show");
    output_message_clear(&message);
    get_back(2);
    sonar_output_counters counters;
    sonar_output_read_counters(output, &counters);
    cr_assert_eq(counters.messages_failed, 5);
    zmq_close(socket);
    end();
}

/* The thread is not started: the ring fills, and has the requested size, odd or even. */
Test(output, a_full_ring_drops_and_counts) {
    make();
    sonar_error err;
    scene.spec.queue_results = 3;
    cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err), SONAR_OK);
    for (size_t i = 0; i < 10; i++)
        cr_assert_eq(sonar_output_post(output, &scene.result[i]), i < 3);
    sonar_output_counters counters;
    sonar_output_read_counters(output, &counters);
    cr_assert_eq(counters.results_dropped, 7);
    cr_assert_null(sonar_output_reclaim(output));
    cr_assert_eq(sonar_output_start(output, &err), SONAR_OK);
    get_back(3);
    /* Results that are not reclaimed do not accumulate either. */
    size_t posted = 0;
    for (size_t i = 0; i < SCENE_RESULTS; i++) {
        posted += sonar_output_post(output, &scene.result[i]);
        usleep(20000);
    }
    cr_assert_eq(posted, 2 * 3 + 2);
    get_back(posted);
    end();
}

/* A reader that never reads: its queue fills, libzmq drops for it, every result comes back and a
 * good reader misses nothing. */
Test(output, a_stalled_subscriber_stalls_no_other) {
    make();
    scene.spec.high_water_mark = 2000;
    go();
    void *good = subscribe("cbf.lofar", SONAR_WANT(SONAR_CBF_LOFAR));
    void *stalled = zmq_socket(peers, ZMQ_SUB);
    int one = 1, zero = 0;
    zmq_setsockopt(stalled, ZMQ_RCVHWM, &one, sizeof one);
    zmq_setsockopt(stalled, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(stalled, ZMQ_RCVBUF, &(int){2048}, sizeof(int));
    zmq_setsockopt(stalled, ZMQ_SUBSCRIBE, "cbf.lofar", 9);
    zmq_setsockopt(stalled, ZMQ_SUBSCRIBE, "element.psd", 11);
    zmq_connect(stalled, endpoint);
    cr_assert(
        output_wait_wanted(output, SONAR_WANT(SONAR_CBF_LOFAR) | SONAR_WANT(SONAR_ELEMENT_PSD)));
    size_t free_results = SCENE_RESULTS;
    for (uint64_t window = 0; window < 6000; window++) {
        hand_over(window);
        free_results--;
        while (free_results == 0 || sonar_output_reclaim(output)) {
            if (free_results == 0)
                get_back(1);
            free_results++;
        }
        if (window % 8 == 7)
            for (uint64_t back = 8; back > 0; back--) {
                output_message message = receive(good);
                cr_assert_eq(number(&message, "window"), (double)(window + 1 - back));
                output_message_clear(&message);
            }
    }
    get_back(SCENE_RESULTS - free_results);
    zmq_close(stalled);
    zmq_close(good);
    end();
}

static long resident_kib(void) {
    char line[256];
    long kib = -1;
    FILE *file = fopen("/proc/self/status", "r");
    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmRSS: %ld", &kib) == 1)
            break;
    fclose(file);
    return kib;
}

/* Twenty at a time, each batch closed before the next, which limits the open connections. */
static void come_and_go(int many) {
    for (int done = 0; done < many; done += 20) {
        void *socket[20];
        for (int i = 0; i < 20; i++)
            socket[i] = output_subscriber(peers, endpoint, i % 2 ? "cbf.lofar" : "");
        cr_assert(output_wait_wanted(output, SONAR_EVERY_WINDOW | SONAR_WANT(SONAR_CBF_LOFAR)));
        for (int i = 0; i < 20; i++)
            zmq_close(socket[i]);
        cr_assert(output_wait_wanted(output, 0));
    }
}

/* An idle publisher that did not read its subscriptions would keep about 11 KB of each. */
Test(output, subscribers_that_come_and_go_leave_nothing) {
    make(), go();
    come_and_go(400);
    long before = resident_kib();
    come_and_go(2000);
    long grown = resident_kib() - before;
#if !defined(                                                                                      \
    __SANITIZE_ADDRESS__) /* freed memory stays in its quarantine; it detects leaks itself */
    cr_assert_lt(grown, 4096, "%ld KiB more", grown);
#else
    (void)grown;
#endif
    end();
}

/* ---- starting and ending --------------------------------------------------------------------- */

Test(output, an_endpoint_in_use_is_said_clearly) {
    make(), go();
    output_scene other = scene;
    sonar_output *second;
    sonar_error err = {0};
    other.spec.endpoint = endpoint;
    cr_assert_eq(sonar_output_create(&other.spec, sonar_host_serial(), &second, &err), SONAR_OK);
    cr_assert_eq(sonar_output_start(second, &err), SONAR_ESYS);
    cr_assert_str_eq(err.where, endpoint);
    cr_assert_not_null(strstr(err.text, "in use"), "%s", err.text);
    sonar_output_destroy(second);
    const char *const bad[] = {"tcp://192.0.2.1:5556", "nonsense", "tcp://127.0.0.1:notaport",
                               "ipc:///no/such/folder/socket", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        other.spec.endpoint = bad[i];
        cr_assert_eq(sonar_output_create(&other.spec, sonar_host_serial(), &second, &err),
                     SONAR_OK);
        cr_assert_eq(sonar_output_start(second, &err), SONAR_ESYS, "%s", bad[i]);
        cr_assert_str_eq(err.where, bad[i]);
        cr_assert_gt(strlen(err.text), 20);
        cr_assert(!sonar_output_post(second, &other.result[0]));
        sonar_output_destroy(second);
    }
    end();
}

Test(output, senseless_specs_are_refused) {
    make();
    sonar_error err;
    scene.spec.queue_results = 0;
    cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err),
                 SONAR_EINVAL);
    cr_assert_null(output);
    scene.spec.queue_results = 1;
    scene.spec.high_water_mark = 0; /* libzmq's "no limit" */
    cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err),
                 SONAR_EINVAL);
    sonar_output_destroy(NULL);
}

Test(output, ipc_and_ipv6_work) {
    make();
    char path[64];
    snprintf(path, sizeof path, "ipc:///tmp/sonar-test-output-%d", (int)getpid());
    const char *const endpoints[] = {path, "tcp://[::1]:*"};
    for (int i = 0; i < 2; i++) {
        scene.spec.endpoint = endpoints[i];
        sonar_error err = {0};
        cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err),
                     SONAR_OK);
        if (sonar_output_start(output, &err) != SONAR_OK && i == 1) { /* no IPv6 on this machine */
            sonar_output_destroy(output);
            break;
        }
        snprintf(endpoint, sizeof endpoint, "%s", sonar_output_endpoint(output));
        void *socket = subscribe("detections", SONAR_WANT(SONAR_DETECTIONS));
        hand_over(1);
        output_message message = receive(socket);
        output_message_clear(&message);
        zmq_close(socket);
        sonar_output_destroy(output);
    }
    output = NULL;
    end();
}

Test(output, stop_sends_what_is_queued_and_gives_all_back) {
    make(), go();
    void *socket = subscribe("", SONAR_EVERY_WINDOW);
    for (uint64_t window = 0; window < SCENE_RESULTS; window++)
        hand_over(window);
    sonar_status status = status_of(99);
    sonar_output_post_status(output, &status);
    sonar_output_stop(output, 5000);
    get_back(SCENE_RESULTS);
    cr_assert_null(sonar_output_reclaim(output));
    cr_assert(!sonar_output_post(output, &scene.result[0]));
    uint64_t windows = 0;
    bool last_words = false;
    for (uint64_t i = 0; i < SCENE_RESULTS * 4 + 1; i++) {
        output_message message = receive(socket);
        if (strcmp(message.topic, "cbf.azimuth") == 0)
            cr_assert_eq(number(&message, "window"), (double)windows++);
        if (strcmp(message.topic, "status") == 0)
            last_words = number(&message, "uptime_s") == 99;
        output_message_clear(&message);
    }
    cr_assert_eq(windows, SCENE_RESULTS);
    cr_assert(last_words);
    zmq_close(socket);
    sonar_output_stop(output, 5000); /* once more does nothing */
    end();
}

Test(output, stop_without_time_still_gives_all_back) {
    make(), go();
    for (uint64_t window = 0; window < SCENE_RESULTS; window++)
        hand_over(window);
    sonar_output_stop(output, 0);
    get_back(SCENE_RESULTS);
    end();
}

static void *post_one_more(void *result) {
    return sonar_output_post(output, result) ? result : NULL;
}

/* Not started, the ring of one is full for ever: a blocking post waits until stop ends it. */
Test(output, a_blocking_post_waits_and_stop_ends_it) {
    make();
    scene.spec.block = true;
    scene.spec.queue_results = 1;
    sonar_error err;
    cr_assert_eq(sonar_output_create(&scene.spec, sonar_host_serial(), &output, &err), SONAR_OK);
    cr_assert(sonar_output_post(output, &scene.result[0]));
    pthread_t thread;
    pthread_create(&thread, NULL, post_one_more, &scene.result[1]);
    usleep(150000);
    sonar_output_counters counters;
    sonar_output_read_counters(output, &counters);
    cr_assert_eq(counters.results_dropped, 0, "it should be waiting");
    cr_assert_eq(sonar_output_start(output, &err), SONAR_OK);
    void *posted;
    pthread_join(thread, &posted);
    cr_assert_eq(posted, &scene.result[1], "room came, so it must go through");
    get_back(2);
    sonar_output_stop(output, 100);
    cr_assert(!sonar_output_post(output, &scene.result[2]));
    end();
}

Test(output, blocking_loses_nothing) {
    make();
    scene.spec.block = true;
    scene.spec.queue_results = 2;
    go();
    void *socket = subscribe("cbf.azimuth", SONAR_WANT(SONAR_CBF_AZIMUTH));
    for (uint64_t window = 0; window < 500; window++) {
        hand_over(window);
        while (sonar_output_reclaim(output))
            ;
    }
    for (uint64_t window = 0; window < 500; window++) {
        output_message message = receive(socket);
        cr_assert_eq(number(&message, "window"), (double)window);
        output_message_clear(&message);
    }
    zmq_close(socket);
    end();
}

/* ---- latency --------------------------------------------------------------------------------- */

Test(output, latency_is_measured_and_restarts) {
    make(), go();
    sonar_percentiles latency;
    sonar_output_read_latency(output, &latency);
    for (int i = 0; i < 3; i++)
        cr_assert(isnan(latency.all_us[i]) && isnan(latency.last_us[i]));
    output_scene_fill(&scene, 0, 0);
    scene.result[0].arrival_ns -= 3600 * 1000000000LL; /* an hour ago */
    cr_assert(sonar_output_post(output, &scene.result[0]));
    get_back(1);
    sonar_output_read_latency(output, &latency);
    const double *us = latency.last_us;
    cr_assert(us[0] >= 3.6e9 && us[0] < 3.9e9 && us[2] >= 3.6e9 && us[1] >= us[0], "%g", us[0]);
    sonar_output_read_latency(output, &latency);
    cr_assert(isnan(latency.last_us[0]) && latency.all_us[2] >= 3.6e9);
    end();
}
