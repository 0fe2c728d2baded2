/* SPDX-License-Identifier: GPL-3.0-or-later */
/* JSON under construction, for the headers of messages. Inside src/output only. */
#ifndef SONAR_OUTPUT_JSON_H
#define SONAR_OUTPUT_JSON_H

#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

/* An object or an array. cJSON's functions accept a NULL parent and return NULL, so a whole header
 * is built without checks in between, and `failed` is checked once at the end. */
typedef struct json {
    cJSON *node;
    bool *failed;
} json;

/* A missing item means that memory ran out. */
static inline cJSON *note(const json *to, cJSON *item) {
    if (!item)
        *to->failed = true;
    return item;
}

/* ---- into an object -------------------------------------------------------------------------- */

static inline void put_null(const json *to, const char *name) {
    note(to, cJSON_AddNullToObject(to->node, name));
}

/* JSON has no NaN and no infinity; they become null. */
static inline void put_number(const json *to, const char *name, double value) {
    if (isfinite(value))
        note(to, cJSON_AddNumberToObject(to->node, name, value));
    else
        put_null(to, name);
}

static inline void put_string(const json *to, const char *name, const char *value) {
    if (value)
        note(to, cJSON_AddStringToObject(to->node, name, value));
    else
        put_null(to, name);
}

static inline void put_bool(const json *to, const char *name, bool value) {
    note(to, cJSON_AddBoolToObject(to->node, name, value));
}

/* cJSON holds numbers as doubles, which lose integers above 2^53: written as text instead. */
static inline void put_uint(const json *to, const char *name, uint64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRIu64, value);
    note(to, cJSON_AddRawToObject(to->node, name, text));
}

static inline void put_int(const json *to, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, value);
    note(to, cJSON_AddRawToObject(to->node, name, text));
}

static inline json put_object(const json *to, const char *name) {
    return (json){note(to, cJSON_AddObjectToObject(to->node, name)), to->failed};
}

/* An existing object; without one, later additions do nothing. */
static inline json get_object(const json *from, const char *name) {
    return (json){cJSON_GetObjectItemCaseSensitive(from->node, name), from->failed};
}

static inline json put_array(const json *to, const char *name) {
    return (json){note(to, cJSON_AddArrayToObject(to->node, name)), to->failed};
}

/* ---- into an array --------------------------------------------------------------------------- */

static inline void append(const json *to, cJSON *item) {
    if (note(to, item) && !cJSON_AddItemToArray(to->node, item)) {
        *to->failed = true;
        cJSON_Delete(item);
    }
}

static inline json append_object(const json *to) {
    cJSON *item = cJSON_CreateObject();
    append(to, item);
    return (json){*to->failed ? NULL : item, to->failed};
}

static inline void append_string(const json *to, const char *value) {
    append(to, cJSON_CreateString(value));
}

/* ---- whole ----------------------------------------------------------------------------------- */

/* The text, to be released with free(); NULL: no memory. The tree is deleted in any case. */
static inline char *finish(const json *root) {
    char *text = *root->failed ? NULL : cJSON_PrintUnformatted(root->node);
    cJSON_Delete(root->node);
    return text;
}

#endif
