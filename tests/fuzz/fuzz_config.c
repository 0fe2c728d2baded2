/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target for the configuration reader; not part of the build:
 *   clang -g -D_GNU_SOURCE -fsanitize=fuzzer,address,undefined -Iinclude -Isrc \
 *     tests/fuzz/fuzz_config.c src/config/[a-z]*.c src/manifold/[a-z]*.c src/core/[a-z]*.c \
 *     src/cbf/shading.c -lyaml -lsodium -lpthread -lm -o fuzz_config
 *   ./fuzz_config corpus config
 */
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
