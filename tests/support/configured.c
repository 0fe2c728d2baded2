/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "configured.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

sonar_config *configured(const char *name, const char *text) {
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    if (sonar_config_parse(name, text, strlen(text), &config, report)) {
        sonar_report_write(report, stderr);
        abort();
    }
    sonar_report_destroy(report);
    return config;
}
