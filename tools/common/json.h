/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Members of the daemon's headers and answers, which come from elsewhere: any may be missing. */
#ifndef SONAR_TOOLS_JSON_H
#define SONAR_TOOLS_JSON_H

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "core/core.h"

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

/* Numbers become their exact text: cJSON prints 15 digits of what is nearly their value. */
static inline void json_make_exact(cJSON *item) {
    char text[SONAR_NUMBER_CHARS + 1];
    cJSON *member;
    cJSON_ArrayForEach(member, item) json_make_exact(member);
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return;
    text[sonar_text_number(item->valuedouble, text)] = 0;
    cJSON *exact = cJSON_CreateRaw(text);
    if (!exact)
        return;
    item->type = exact->type;
    item->valuestring = exact->valuestring;
    exact->valuestring = NULL;
    cJSON_Delete(exact);
}

/* The text, to be released with free(); NULL: no memory. */
static inline char *json_print(const cJSON *item) {
    cJSON *copy = cJSON_Duplicate(item, true);
    json_make_exact(copy);
    char *text = copy ? cJSON_PrintUnformatted(copy) : NULL;
    cJSON_Delete(copy);
    return text;
}

#endif
