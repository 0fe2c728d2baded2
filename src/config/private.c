/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "config/config.h"

#include <stdlib.h>

#include "core/core.h"

static void forget(char **text) {
    free(*text);
    *text = NULL;
}

void sonar_config_make_private(sonar_config *config) {
    config->overload = SONAR_BLOCK;
    config->threads = sonar_processors();
    config->cpus = 0;
    config->cpu_ingest = config->cpu_output = -1;
    config->data_priority = 0;
    config->lock_memory = false;
    config->record_what = SONAR_RECORD_OFF;
    config->security.curve = false;
    forget(&config->shared_memory);
    forget(&config->metrics_listen);
    for (size_t i = 0; i < SONAR_NMEA_MOST; i++)
        forget(&config->navigation_nmea[i]);
    forget(&config->navigation_endpoint);
}
