/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A backend plugin for the loader's tests; links nothing, as a real one. */
#include <string.h>

#include "sonar/sonar.h"

#ifndef TEST_INTERFACE
#define TEST_INTERFACE SONAR_PLUGIN_INTERFACE
#endif
#ifndef TEST_PROBE
#define TEST_PROBE SONAR_OK
#endif

static sonar_code probe(const sonar_host *host, char *description, size_t bytes, sonar_error *err) {
    (void)host;
    strncpy(description, "a device", bytes);
    if (TEST_PROBE != SONAR_OK && err) {
        strcpy(err->where, "test");
        strcpy(err->text, "no device here");
    }
    return TEST_PROBE;
}

const sonar_backend *sonar_plugin(void);
const sonar_backend *sonar_plugin(void) {
    static const sonar_backend backend = {
        .interface = TEST_INTERFACE, .name = "test", .probe = probe};
    return &backend;
}
