/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for the configuration reader: the input is the text of a file. */
#include <stdlib.h>

#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sonar_config *config;
    sonar_report *report = sonar_report_create();
    FILE *to = fopen("/dev/null", "w");
    if (report && to) {
        sonar_config_parse("fuzz.yaml", (const char *)data, size, &config, report);
        sonar_report_write(report, to);
        if (config) {
            sonar_config_print(config, to);
            sonar_config_describe(config, to);
        }
        sonar_config_destroy(config);
    }
    if (to)
        fclose(to);
    sonar_report_destroy(report);
    return 0;
}
