/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "output_scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "sonar/stages.h"

static void make_scan(sonar_scan *scan, size_t count, double *az_deg) {
    for (size_t i = 0; i < count; i++)
        az_deg[i] = 180.0 * (double)i / (double)(count - 1) / 1.0000001;
    *scan = (sonar_scan){.count = count,
                         .az_deg = az_deg,
                         .cone = true,
                         .axis_az_deg = 12.5,
                         .axis_depression_deg = -7.5};
}

static const char beam_name[SCENE_BEAMS][SONAR_BEAM_NAME] = {"az71", "track12"};

void output_scene_make(output_scene *scene, void *zmq_context, const char *endpoint) {
    memset(scene, 0, sizeof *scene);
    make_scan(&scene->cbf, SCENE_CBF_DIRECTIONS, scene->cbf_az);
    make_scan(&scene->mvdr, SCENE_MVDR_DIRECTIONS, scene->mvdr_az);
    for (int i = 0; i < SCENE_RANGES; i++)
        scene->range_m[i] = 50 << i;
    scene->spec = (sonar_output_spec){.zmq_context = zmq_context,
                                      .endpoint = endpoint,
                                      .high_water_mark = 1000,
                                      .topics = SONAR_WANT(SONAR_SURFACES) - 1,
                                      .queue_results = SCENE_RESULTS,
                                      .cpu = -1,
                                      .array_name = "line \"A\"",
                                      .run_uuid = "0f0e0d0c-0000-4000-8000-000000000001",
                                      .fs_hz = 8000,
                                      .loading_rule = "noise",
                                      .cell_maximum = true,
                                      .loading_eps = 0.01,
                                      .cbf_scan = &scene->cbf,
                                      .mvdr_scan = &scene->mvdr,
                                      .ranges = SCENE_RANGES,
                                      .mvdr_ranges = SCENE_RANGES,
                                      .range_m = scene->range_m,
                                      .range_reference = "radial",
                                      .channels = SCENE_CHANNELS,
                                      .cbf_bin_hz = 0.9765625,
                                      .mvdr_bin_hz = 3.90625,
                                      .cbf_first_bin = 102,
                                      .cbf_bins = SCENE_CBF_BINS,
                                      .mvdr_first_bin = 154,
                                      .mvdr_bins = SCENE_MVDR_BINS,
                                      .mvdr_modes = SCENE_MODES,
                                      .beams = SCENE_BEAMS,
                                      .beam_samples = SCENE_BEAM_SAMPLES,
                                      .beam_name = beam_name,
                                      .beam_range_m = NAN,
                                      .source_count = "random_matrix",
                                      .white_noise_gain_db = -3,
                                      .music = SONAR_MODES_COUNTED,
                                      .cbf_band_hz = {600, 950},
                                      .mvdr_band_hz = {610, 940}};
    scene->params = (sonar_params_facts){.config_version = "abc123",
                                         .sound_speed_mps = 1500.25,
                                         .heading_deg = 30.5,
                                         .calibrated = true,
                                         .sensors_used = 126,
                                         .mvdr_sensors_used = 124};
    for (size_t i = 0; i < SCENE_RESULTS; i++)
        output_scene_fill(scene, i, i);
}

static void fill_surface(output_scene *scene, size_t index, sonar_surface surface, int rank,
                         size_t rows, size_t columns) {
    size_t shape[2] = {rows, columns};
    float *data = scene->data[index][surface];
    sonar_result *result = &scene->result[index];
    for (size_t i = 0; i < SCENE_FLOATS_MOST; i++)
        data[i] = (float)(result->window * 1000 + (size_t)surface * 200 + i) / 7.0F;
    result->surface[surface] = sonar_buffer_view(data, SONAR_F32, rank, shape);
    result->present |= SONAR_WANT(surface);
}

void output_scene_fill(output_scene *scene, size_t index, uint64_t window) {
    sonar_result *result = &scene->result[index];
    *result =
        (sonar_result){.window = window,
                       .first_sample = 9007199254740993U + window * 4096, /* 2^53 + 1 */
                       .window_length = 8192,
                       .mvdr_first_sample = 9007199254740995U,
                       .mvdr_end_sample = 9007199254740998U,
                       .utc_ns = 1763654400123456789 + (int64_t)window,
                       .epoch = 4294967295U,
                       .backend = "cpu",
                       .present = SONAR_WANT(SONAR_DETECTIONS) | SONAR_WANT(SONAR_TRACKS),
                       .params = scene->params,
                       .cbf_snapshots = 1,
                       .mvdr_snapshots = 63.5,
                       .mvdr_delta = 0.125,
                       .mvdr_level_db = -2.5,
                       .mvdr_tonal_bins = 2,
                       .mvdr_sources = 2.5,
                       .mvdr_most_sources = 4,
                       .mvdr_limited = 0.25,
                       .music_sources = 1.5,
                       .music_most_sources = 3,
                       .music_bins = 2,
                       .beam = {{71, NAN, 3}, {99.5, 130, 0, {true, 12, SONAR_TRACK_COASTING}}},
                       .beam_begin = -8,
                       .beam_gain_db = 12.5,
                       .arrival_ns = sonar_monotonic_ns()};
    fill_surface(scene, index, SONAR_CBF_AZIMUTH, 1, SCENE_CBF_DIRECTIONS, 0);
    fill_surface(scene, index, SONAR_CBF_NEARFIELD, 2, SCENE_RANGES, SCENE_CBF_DIRECTIONS);
    fill_surface(scene, index, SONAR_CBF_LOFAR, 2, SCENE_CBF_BINS, SCENE_CBF_DIRECTIONS);
    fill_surface(scene, index, SONAR_MVDR_AZIMUTH, 1, SCENE_MVDR_DIRECTIONS, 0);
    fill_surface(scene, index, SONAR_MVDR_SPECTRUM, 2, SCENE_MVDR_BINS, SCENE_MVDR_DIRECTIONS);
    fill_surface(scene, index, SONAR_MVDR_NEARFIELD, 2, SCENE_RANGES, SCENE_MVDR_DIRECTIONS);
    fill_surface(scene, index, SONAR_MVDR_EIGENVALUES, 2, SCENE_MVDR_BINS, SCENE_MODES);
    fill_surface(scene, index, SONAR_MUSIC_AZIMUTH, 1, SCENE_MVDR_DIRECTIONS, 0);
    fill_surface(scene, index, SONAR_ELEMENT_PSD, 2, SCENE_CHANNELS, SCENE_CBF_BINS);
    fill_surface(scene, index, SONAR_ELEMENT_MISSING, 1, SCENE_CHANNELS, 0);
    fill_surface(scene, index, SONAR_ELEMENT_POSITION, 2, SCENE_CHANNELS, 3);
    fill_surface(scene, index, SONAR_CBF_NORMALISED, 1, SCENE_CBF_DIRECTIONS, 0);
    fill_surface(scene, index, SONAR_MVDR_NORMALISED, 1, SCENE_MVDR_DIRECTIONS, 0);
    fill_surface(scene, index, SONAR_CBF_SPED, 1, SCENE_CBF_DIRECTIONS, 0);
    fill_surface(scene, index, SONAR_BEAM_AUDIO, 2, SCENE_BEAMS, SCENE_BEAM_SAMPLES);
}

void *output_subscriber(void *zmq_context, const char *endpoint, const char *topic) {
    void *socket = zmq_socket(zmq_context, ZMQ_SUB);
    int zero = 0, one = 1, many = 100000;
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_IPV6, &one, sizeof one);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &many, sizeof many);
    if (topic)
        zmq_setsockopt(socket, ZMQ_SUBSCRIBE, topic, strlen(topic));
    if (zmq_connect(socket, endpoint) != 0)
        abort();
    return socket;
}

static char *copy_part(zmq_msg_t *part) {
    size_t bytes = zmq_msg_size(part);
    char *copy = calloc(1, bytes + 1);
    if (!copy)
        abort();
    if (bytes)
        memcpy(copy, zmq_msg_data(part), bytes);
    return copy;
}

/* No object has two members of one name: readers disagree about which of them counts. */
static bool names_once(const cJSON *item) {
    const cJSON *member, *other;
    cJSON_ArrayForEach(member, item) {
        for (other = member->next; other && member->string; other = other->next)
            if (!strcmp(member->string, other->string))
                return false;
        if (!names_once(member))
            return false;
    }
    return true;
}

bool output_receive(void *socket, output_message *message, int timeout_ms) {
    memset(message, 0, sizeof *message);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &timeout_ms, sizeof timeout_ms);
    for (int more = 1; more; message->parts++) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        if (zmq_msg_recv(&part, socket, 0) < 0)
            return false;
        char *copy = copy_part(&part);
        more = zmq_msg_more(&part);
        if (message->parts == 0)
            snprintf(message->topic, sizeof message->topic, "%s", copy);
        if (message->parts == 1)
            message->text = copy;
        else if (message->parts == 2)
            message->body = (unsigned char *)copy;
        else
            free(copy);
        if (message->parts == 2)
            message->body_bytes = zmq_msg_size(&part);
        zmq_msg_close(&part);
    }
    message->head = message->text ? cJSON_Parse(message->text) : NULL;
    if (!message->head || !names_once(message->head))
        abort();
    return true;
}

void output_message_clear(output_message *message) {
    cJSON_Delete(message->head);
    free(message->text);
    free(message->body);
    memset(message, 0, sizeof *message);
}

bool output_wait_wanted(const sonar_output *output, uint32_t wanted) {
    for (int i = 0; i < 5000; i++) {
        if (sonar_output_wanted(output) == wanted)
            return true;
        usleep(1000);
    }
    return false;
}
