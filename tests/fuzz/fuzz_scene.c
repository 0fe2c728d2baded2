/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for the scenes of sonar-sim: the input is the file. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input_file.h"
#include "scene.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const sim_scene *scene) {
    for (size_t i = 0; i < SIM_FAULT_KINDS; i++)
        if (!(scene->fault_rate[i] >= 0 && scene->fault_rate[i] <= 1))
            abort();
    if (!scene->frame_samples || !scene->digitisers)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const sim_limits limits = {
        .fs_hz = 8000, .sound_speed_mps = 1500, .sensors = 12, .channels = 12};
    static char said[1 << 16];
    char path[INPUT_PATH_BYTES];
    sim_scene *scene = NULL;
    input_file_write("scene.yaml", data, size, path);
    memset(said, 0, 2);
    FILE *report = fmemopen(said, sizeof said, "w");
    if (!report)
        abort();
    sonar_code code = sim_scene_load(path, &limits, &scene, report);
    fclose(report);
    if ((code == SONAR_OK) != (scene != NULL) || (code == SONAR_EINVAL && !said[0]))
        abort(); /* refused without a sentence */
    if (scene)
        check(scene);
    sim_scene_destroy(scene);
    return 0;
}
