/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Members of the daemon's headers and answers, which come from elsewhere: any may be missing. */
#ifndef SONAR_TOOLS_JSON_H
#define SONAR_TOOLS_JSON_H

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

static inline const cJSON *json_get(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

/* NaN if there is no number of this name. */
static inline double json_number(const cJSON *object, const char *name) {
    return cJSON_GetNumberValue(json_get(object, name));
}

/* 0 if there is no number of this name. */
static inline double json_count(const cJSON *object, const char *name) {
    const cJSON *item = json_get(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

/* NaN if there is no finite number of this name. */
static inline double json_finite(const cJSON *object, const char *name) {
    const double number = json_number(object, name);
    return isfinite(number) ? number : NAN;
}

/* "" if there is no text of this name. Valid as long as the object. */
static inline const char *json_text(const cJSON *object, const char *name) {
    const char *text = cJSON_GetStringValue(json_get(object, name));
    return text ? text : "";
}

static inline bool json_is(const cJSON *object, const char *name, const char *word) {
    return !strcmp(json_text(object, name), word);
}

#endif
