/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reading the settings and reporting on an option: shared by the files that resolve and check. */
#ifndef SONAR_CONFIG_ACCESS_H
#define SONAR_CONFIG_ACCESS_H

#include "config/options.h"

#include <stdarg.h>

static inline const sonar_value *value(const sonar_loader *l, sonar_option_id id) {
    return &l->settings->value[id];
}

/* True if the value is present and acceptable by itself. */
static inline bool have(const sonar_loader *l, sonar_option_id id) {
    return value(l, id)->origin != SONAR_ABSENT && !value(l, id)->bad;
}

static inline bool given(const sonar_loader *l, sonar_option_id id) {
    return value(l, id)->origin == SONAR_FROM_FILE;
}

static inline double number(const sonar_loader *l, sonar_option_id id) {
    return value(l, id)->number;
}

static inline size_t whole(const sonar_loader *l, sonar_option_id id) {
    return (size_t)value(l, id)->number;
}

static inline bool no_memory(sonar_loader *l) {
    l->no_memory = true;
    return false;
}

/* A mistake at an option's place; `accepted` may be NULL. Returns false. */
bool sonar_option_fail(sonar_loader *l, sonar_option_id id, const char *accepted,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));
void sonar_option_warn(sonar_loader *l, sonar_option_id id, const char *accepted,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));
/* Returns a remark to append to a message if the positions look like millimetres: if a thousandth
 * of the sensors' spacing would fit this frequency. Else "". */
const char *sonar_config_millimetres(const sonar_config *config, double top_hz);
#define fail sonar_option_fail
#define warn sonar_option_warn

#endif
