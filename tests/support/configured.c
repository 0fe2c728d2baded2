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

sonar_code configured_spoilt(const char *text, const char *from, const char *to,
                             char where[MISTAKE_WHERE_BYTES], char why[MISTAKE_WHY_BYTES]) {
    char changed[2048];
    const char *at = strstr(text, from);
    if (!at)
        abort();
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    sonar_config *config = NULL;
    sonar_report *report = sonar_report_create();
    const sonar_code code = sonar_config_parse("test", changed, strlen(changed), &config, report);
    *where = *why = '\0';
    sonar_report_mistake(report, where, why, MISTAKE_WHY_BYTES);
    sonar_config_destroy(config);
    sonar_report_destroy(report);
    return code;
}
