/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A publisher's environment for tests: scans, results with surfaces of awkward sizes, and readers
 * that parse messages. */
#ifndef OUTPUT_SCENE_H
#define OUTPUT_SCENE_H

#include <cjson/cJSON.h>

#include "output/output.h"

enum {
    SCENE_CBF_DIRECTIONS = 7,
    SCENE_MVDR_DIRECTIONS = 5,
    SCENE_RANGES = 3,
    SCENE_CBF_BINS = 11,
    SCENE_MVDR_BINS = 2,
    SCENE_MODES = 4,
    SCENE_CHANNELS = 13,
    SCENE_BEAMS = 2,
    SCENE_BEAM_SAMPLES = 50,
    SCENE_RESULTS = 16,
    SCENE_FLOATS_MOST = 13 * 11
};

typedef struct output_scene {
    sonar_output_spec spec;
    sonar_scan cbf, mvdr;
    double cbf_az[SCENE_CBF_DIRECTIONS], mvdr_az[SCENE_MVDR_DIRECTIONS];
    double range_m[SCENE_RANGES];
    sonar_params_facts params; /* of every result that is filled from now on */
    sonar_result result[SCENE_RESULTS];
    float data[SCENE_RESULTS][SONAR_SURFACES][SCENE_FLOATS_MOST];
} output_scene;

/* A line array's scene (cone scans, heading known, calibrated) with all surfaces present in every
 * result; endpoint is borrowed. */
void output_scene_make(output_scene *scene, void *zmq_context, const char *endpoint);
/* Fills result `index` for `window`: values derived from window, surface and position. */
void output_scene_fill(output_scene *scene, size_t index, uint64_t window);

typedef struct output_message {
    char topic[64];
    char *text; /* the header as received */
    cJSON *head;
    unsigned char *body;
    size_t body_bytes;
    int parts;
} output_message;

/* A SUB socket with a large queue and linger 0. */
void *output_subscriber(void *zmq_context, const char *endpoint, const char *topic);
/* False if no message was received in time. The header must be JSON that
 * names each member once (aborts the test otherwise). */
bool output_receive(void *socket, output_message *message, int timeout_ms);
void output_message_clear(output_message *message);
/* Waits until the mask is `wanted`; false if it is not in 5 s. */
bool output_wait_wanted(const sonar_output *output, uint32_t wanted);

#endif
