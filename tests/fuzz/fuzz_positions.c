/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for files of positions: the input is the file; an accepted file is resolved as a
 * whole configuration. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "input_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const sonar_config *config) {
    if (!config->sensors || config->sensors > SONAR_SENSORS_MOST)
        abort();
    for (size_t i = 0; i < 3 * config->sensors; i++)
        if (!(fabs(config->position_m[i]) <= 2e6)) /* its middle may be moved to the origin */
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[INPUT_PATH_BYTES], text[512];
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    if (!report)
        abort();
    input_file_write("positions.csv", data, size, path);
    snprintf(text, sizeof text,
             "schema: 1\nfs_hz: 8000\nsound_speed_mps: 1500\n"
             "array: {geometry: {positions: {csv: \"%s\"}}}\n"
             "cbf: {band_hz: [600, 950], ranges_m: [500], scan: {start_deg: 0, stop_deg: 180, "
             "step_deg: 20}}\nmvdr: {enabled: false}\n",
             path);
    sonar_code code = sonar_config_parse("fuzz.yaml", text, strlen(text), &config, report);
    if ((code == SONAR_OK) != (config != NULL) ||
        (code != SONAR_OK) != (sonar_report_errors(report) > 0))
        abort(); /* refused without a sentence, or accepted with one */
    if (config)
        check(config);
    sonar_config_destroy(config);
    sonar_report_destroy(report);
    return 0;
}
