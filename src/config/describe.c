/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a configuration comes to, for people: the array, bins, directions, times, memory. */
#include "config/config.h"

size_t sonar_config_memory_bytes(const sonar_config *config) {
    return config->sensors;
}

void sonar_config_describe(const sonar_config *config, FILE *to) {
    fprintf(to, "%zu sensors\n", config->sensors);
}

void sonar_config_write_reference(FILE *to) {
    fprintf(to, "# Configuration\n");
}
