/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Requests and answers in JSON: {"verb": "set", "values": {...}} -> {"ok": true, ...}, or
 * {"ok": false, "error": {"where": ..., "text": ...}}. */
#include "control/verbs.h"

#include <cjson/cJSON.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

enum { VALUES_MOST = 128 };

typedef struct verb {
    const char *name;
    const char *member; /* the only further member that the request may have; NULL: none */
    sonar_code (*act)(sonar_control *control, const cJSON *request, cJSON *reply, sonar_error *err);
} verb;

static void log_line(const sonar_control *c, sonar_level level, const char *where,
                     const char *text) {
    if (c->spec.log)
        c->spec.log(c->spec.log_ctx, level, where, text);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* The value in the file, which a restart would use, if it differs. NULL: it does not differ, or the
 * file cannot be read. */
static const char *file_says(const sonar_control *c, const char *path) {
    for (size_t i = 0; i < c->file.count; i++)
        if (!strcmp(c->file.difference[i].path, path))
            return c->file.difference[i].to;
    return NULL;
}

/* If navigation gives a heading, it is used instead of the configuration's. */
static void add_waits(const sonar_control *c, const char *path, cJSON *item) {
    sonar_navigation nav;
    char text[128] = "the heading must come from navigation, which sends none";
    if (strcmp(path, "array.heading_deg") != 0)
        return;
    sonar_pipeline_navigation(c->spec.pipeline, &nav);
    if (nav.fresh)
        snprintf(text, sizeof text, "the heading comes from %s", nav.source);
    if (nav.fresh && isfinite(nav.value[SONAR_NAV_HEADING]))
        snprintf(text, sizeof text, "the heading comes from %s, %.1f deg of the bow now",
                 nav.source, nav.value[SONAR_NAV_HEADING]);
    if (nav.asked)
        cJSON_AddStringToObject(item, "waits", text);
}

static cJSON *difference_item(const sonar_config_difference *d, bool changed) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddStringToObject(item, "path", d->path);
    cJSON_AddStringToObject(item, "from", d->from);
    cJSON_AddStringToObject(item, "to", d->to);
    cJSON_AddBoolToObject(item, "changed", changed);
    if (!d->live)
        cJSON_AddStringToObject(item, "why", d->why);
    return item;
}

/* What changed, what did not, and the resulting configuration. */
static void add_differences(sonar_control *c, cJSON *reply) {
    cJSON *list = cJSON_AddArrayToObject(reply, "differences");
    sonar_error unread;
    sonar_control_compare(c->spec.pipeline, c->spec.config_path, &c->file, &unread);
    for (size_t i = 0; i < c->differences.count; i++) {
        const sonar_config_difference *d = &c->differences.difference[i];
        cJSON *item = difference_item(d, d->live);
        const char *file = d->live ? file_says(c, d->path) : NULL;
        if (file)
            cJSON_AddStringToObject(item, "file", file);
        if (d->live)
            add_waits(c, d->path, item);
        cJSON_AddItemToArray(list, item);
    }
    cJSON_AddStringToObject(reply, "config_version",
                            sonar_pipeline_config(c->spec.pipeline)->version);
}

/* Answers how the daemon's configuration differs from its file. Changes nothing. */
static sonar_code answer_differences(sonar_control *c, const cJSON *request, cJSON *reply,
                                     sonar_error *err) {
    (void)request;
    const sonar_code code =
        sonar_control_compare(c->spec.pipeline, c->spec.config_path, &c->file, err);
    if (code)
        return code;
    cJSON_AddStringToObject(reply, "file", c->spec.config_path);
    cJSON *list = cJSON_AddArrayToObject(reply, "differences");
    for (size_t i = 0; i < c->file.count; i++)
        cJSON_AddItemToArray(list, difference_item(&c->file.difference[i], false));
    return SONAR_OK;
}

static sonar_code answer_status(sonar_control *c, const cJSON *request, cJSON *reply,
                                sonar_error *err) {
    (void)request;
    char *text = sonar_pipeline_status_text(c->spec.pipeline);
    if (!text || !cJSON_AddRawToObject(reply, "status", text)) {
        free(text);
        return sonar_fail(err, SONAR_ENOMEM, "status", "no memory");
    }
    free(text);
    return SONAR_OK;
}

static sonar_code answer_version(sonar_control *c, const cJSON *request, cJSON *reply,
                                 sonar_error *err) {
    (void)request;
    (void)err;
    cJSON_AddStringToObject(reply, "version", SONAR_VERSION);
    cJSON_AddStringToObject(reply, "run", sonar_pipeline_run(c->spec.pipeline));
    cJSON_AddStringToObject(reply, "config_version",
                            sonar_pipeline_config(c->spec.pipeline)->version);
    return SONAR_OK;
}

/* Adds a list or a number as JSON; a word or quoted text as a string. */
static void add_value(void *ctx, const char *path, const char *text) {
    cJSON *item = cJSON_Parse(text);
    if (!item)
        item = cJSON_CreateString(text);
    if (item && !cJSON_AddItemToObject(ctx, path, item))
        cJSON_Delete(item);
}

static sonar_code answer_get(sonar_control *c, const cJSON *request, cJSON *reply,
                             sonar_error *err) {
    char hint[160];
    const cJSON *path = cJSON_GetObjectItemCaseSensitive(request, "path");
    const char *name = cJSON_IsString(path) ? path->valuestring : "";
    if (path && !cJSON_IsString(path))
        return sonar_fail(err, SONAR_EINVAL, "path", "expected the path of an option or a group");
    cJSON *values = cJSON_AddObjectToObject(reply, "values");
    if (values && sonar_config_each(sonar_pipeline_config(c->spec.pipeline), name, add_value,
                                    values, hint, sizeof hint))
        return SONAR_OK;
    return sonar_fail(err, SONAR_EINVAL, name, "there is no such option%s%s",
                      values && *hint ? "; " : "", values ? hint : "");
}

/* ---- changes --------------------------------------------------------------------------------- */

/* A word needs no quotes; a quoted number is not a number. */
static bool is_word(const char *text) {
    const char *at = text;
    while (isalnum((unsigned char)*at) || *at == '_' || *at == '.' || *at == '-' || *at == '+')
        at++;
    return *text && !*at;
}

/* The item printed as JSON on one line, which is also YAML. */
static char *yaml_of(const cJSON *item) {
    if (cJSON_IsString(item) && is_word(item->valuestring))
        return strdup(item->valuestring);
    return cJSON_PrintUnformatted(item);
}

/* False: no memory. The caller frees the texts in any case. */
static bool read_values(const cJSON *values, char *text[VALUES_MOST],
                        sonar_config_value to[VALUES_MOST], size_t *count) {
    const cJSON *item;
    bool good = true;
    cJSON_ArrayForEach(item, values) {
        text[*count] = cJSON_IsNull(item) ? NULL : yaml_of(item);
        good = good && (text[*count] || cJSON_IsNull(item));
        to[*count] = (sonar_config_value){item->string, text[*count]};
        ++*count;
    }
    return good;
}

static sonar_code set(sonar_control *c, const cJSON *values, cJSON *reply, sonar_error *err) {
    sonar_config_value value[VALUES_MOST];
    memset(value, 0, sizeof value);
    char *text[VALUES_MOST];
    size_t count = 0;
    sonar_code code = read_values(values, text, value, &count)
                          ? sonar_control_set(c->spec.pipeline, count, value, c->spec.log,
                                              c->spec.log_ctx, &c->differences, err)
                          : sonar_fail(err, SONAR_ENOMEM, "set", "no memory");
    for (size_t i = 0; i < count; i++)
        free(text[i]);
    if (!code)
        add_differences(c, reply);
    return code;
}

static sonar_code answer_set(sonar_control *c, const cJSON *request, cJSON *reply,
                             sonar_error *err) {
    const cJSON *values = cJSON_GetObjectItemCaseSensitive(request, "values");
    if (!cJSON_IsObject(values) || !values->child || cJSON_GetArraySize(values) > VALUES_MOST)
        return sonar_fail(err, SONAR_EINVAL, "values",
                          "expected an object of 1 to %d options: {\"sound_speed_mps\": 1480}",
                          VALUES_MOST);
    return set(c, values, reply, err);
}

static bool is_sensor(const sonar_config *config, const cJSON *item) {
    return cJSON_IsNumber(item) && item->valuedouble >= 0 &&
           item->valuedouble < (double)config->sensors &&
           item->valuedouble == (double)(size_t)item->valuedouble;
}

/* Masks or unmasks the sensors of a list. */
static sonar_code mark(const sonar_config *config, const cJSON *list, bool used, uint8_t *to,
                       sonar_error *err) {
    const cJSON *item;
    if (list && !cJSON_IsArray(list))
        return sonar_fail(err, SONAR_EINVAL, "mask", "expected lists of sensors");
    cJSON_ArrayForEach(item, list) {
        if (!is_sensor(config, item))
            return sonar_fail(err, SONAR_EINVAL, "mask", "sensors count from 0 to %zu",
                              config->sensors - 1);
        to[(size_t)item->valuedouble] = used;
    }
    return SONAR_OK;
}

/* {"only": [...]} replaces the list of masked sensors; {"off": [...], "on": [...]} masks and
 * unmasks sensors. */
static sonar_code mark_all(const sonar_config *config, const cJSON *mask, uint8_t *used,
                           sonar_error *err) {
    const cJSON *only = cJSON_GetObjectItemCaseSensitive(mask, "only");
    const cJSON *off = cJSON_GetObjectItemCaseSensitive(mask, "off");
    const cJSON *on = cJSON_GetObjectItemCaseSensitive(mask, "on");
    const int known = (only != NULL) + (off != NULL) + (on != NULL);
    if (!known || known != cJSON_GetArraySize(mask) || (only && known > 1))
        return sonar_fail(err, SONAR_EINVAL, "mask",
                          "expected {\"off\": [3], \"on\": [4]}, or one of these lists, or "
                          "{\"only\": [3, 4]} by itself");
    memcpy(used, config->used, config->sensors);
    if (only)
        memset(used, 1, config->sensors);
    sonar_code code = mark(config, only ? only : off, false, used, err);
    return code ? code : mark(config, on, true, used, err);
}

static cJSON *masked_list(const uint8_t *used, size_t sensors) {
    cJSON *list = cJSON_CreateArray();
    for (size_t s = 0; list && s < sensors; s++)
        if (!used[s])
            cJSON_AddItemToArray(list, cJSON_CreateNumber((double)s));
    return list;
}

static sonar_code answer_mask(sonar_control *c, const cJSON *request, cJSON *reply,
                              sonar_error *err) {
    const sonar_config *config = sonar_pipeline_config(c->spec.pipeline);
    uint8_t *used = sonar_alloc(config->sensors, 1);
    cJSON *values = cJSON_CreateObject();
    sonar_code code =
        used && values ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "mask", "no memory");
    if (!code)
        code = mark_all(config, cJSON_GetObjectItemCaseSensitive(request, "mask"), used, err);
    if (!code) {
        cJSON_AddItemToObject(values, "array.mask", masked_list(used, config->sensors));
        code = set(c, values, reply, err);
    }
    cJSON_Delete(values);
    free(used);
    return code;
}

static sonar_code answer_reload(sonar_control *c, const cJSON *request, cJSON *reply,
                                sonar_error *err) {
    (void)request;
    const sonar_code code = sonar_control_reload(c->spec.pipeline, c->spec.config_path, c->spec.log,
                                                 c->spec.log_ctx, &c->differences, err);
    if (!code)
        add_differences(c, reply);
    return code;
}

static sonar_code answer_train(sonar_control *c, const cJSON *request, cJSON *reply,
                               sonar_error *err) {
    (void)request, (void)reply;
    return sonar_pipeline_ask_training(c->spec.pipeline, err);
}

static sonar_code answer_navigation(sonar_control *c, const cJSON *request, cJSON *reply,
                                    sonar_error *err) {
    char *text = cJSON_PrintUnformatted(cJSON_GetObjectItemCaseSensitive(request, "values"));
    (void)reply;
    const sonar_code code =
        sonar_pipeline_navigate(c->spec.pipeline, text ? text : "", text ? strlen(text) : 0, err);
    cJSON_free(text);
    return code;
}

/* The recording's state at this moment; the first file may not have been created yet. */
static void add_recording(const sonar_control *c, cJSON *reply) {
    sonar_recording is;
    const char *directory = sonar_pipeline_recording(c->spec.pipeline, &is);
    cJSON_AddBoolToObject(reply, "record", is.asked);
    cJSON_AddStringToObject(reply, "directory", directory);
    cJSON_AddItemToObject(reply, "segment",
                          *is.file ? cJSON_CreateString(is.file) : cJSON_CreateNull());
    cJSON_AddItemToObject(reply, "why_not",
                          is.failed ? cJSON_CreateString(is.why) : cJSON_CreateNull());
    cJSON_AddBoolToObject(reply, "waiting",
                          sonar_pipeline_status(c->spec.pipeline)->waiting_for_samples);
}

static sonar_code answer_record(sonar_control *c, const cJSON *request, cJSON *reply,
                                sonar_error *err) {
    const cJSON *action = cJSON_GetObjectItemCaseSensitive(request, "action");
    const bool start = cJSON_IsString(action) && !strcmp(action->valuestring, "start");
    const bool stop = cJSON_IsString(action) && !strcmp(action->valuestring, "stop");
    const bool ask = cJSON_IsString(action) && !strcmp(action->valuestring, "ask");
    if (!start && !stop && !ask)
        return sonar_fail(err, SONAR_EINVAL, "action",
                          "expected \"start\", \"stop\" or, to change nothing, \"ask\"");
    const sonar_code code = ask ? SONAR_OK : sonar_pipeline_record(c->spec.pipeline, start, err);
    if (!code)
        add_recording(c, reply);
    return code;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const verb verbs[] = {
    {"status", NULL, answer_status},
    {"version", NULL, answer_version},
    {"get", "path", answer_get},
    {"set", "values", answer_set},
    {"mask", "mask", answer_mask},
    {"reload", NULL, answer_reload},
    {"differences", NULL, answer_differences},
    {"navigation", "values", answer_navigation},
    {"train", NULL, answer_train},
    {"record", "action", answer_record},
};

static sonar_code unknown_verb(const char *name, sonar_error *err) {
    char all[256] = "";
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i ? ", " : "", verbs[i].name);
    return sonar_fail(err, SONAR_EINVAL, "verb", "\"%.40s\" is not one of %s", name, all);
}

static sonar_code check_members(const verb *v, const cJSON *request, sonar_error *err) {
    const cJSON *item;
    cJSON_ArrayForEach(item, request) {
        if (strcmp(item->string, "verb") != 0 && (!v->member || strcmp(item->string, v->member)))
            return sonar_fail(err, SONAR_EINVAL, v->name, "this verb has no member \"%.40s\"",
                              item->string);
    }
    return SONAR_OK;
}

static sonar_code act(sonar_control *c, const cJSON *request, cJSON *reply, sonar_error *err) {
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(request, "verb");
    if (!cJSON_IsObject(request) || !cJSON_IsString(name))
        return sonar_fail(err, SONAR_EINVAL, "request",
                          "expected a JSON object with a verb: {\"verb\": \"status\"}");
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
        const verb *v = &verbs[i];
        if (strcmp(name->valuestring, v->name) != 0)
            continue;
        const sonar_code code = check_members(v, request, err);
        return code ? code : v->act(c, request, reply, err);
    }
    return unknown_verb(name->valuestring, err);
}

static void add_error(cJSON *reply, const sonar_error *err) {
    cJSON *error = cJSON_AddObjectToObject(reply, "error");
    cJSON_AddStringToObject(error, "where", err->where);
    cJSON_AddStringToObject(error, "text", err->text);
}

static void log_refused(sonar_control *c, const sonar_error *err) {
    char text[sizeof err->where + sizeof err->text + 12];
    snprintf(text, sizeof text, "refused: %s: %s", err->where, err->text);
    log_line(c, SONAR_INFO, "control", text);
}

char *sonar_control_answer(sonar_control *c, const char *text, size_t bytes) {
    sonar_error err = {0};
    cJSON *request = cJSON_ParseWithLength(text, bytes), *reply = cJSON_CreateObject();
    cJSON *ok = cJSON_AddTrueToObject(reply, "ok");
    const sonar_code code = act(c, request, reply, &err);
    if (code) {
        cJSON_ReplaceItemInObject(reply, "ok", cJSON_CreateFalse());
        add_error(reply, &err);
        log_refused(c, &err);
    }
    char *answer = ok ? cJSON_PrintUnformatted(reply) : NULL;
    if (answer) /* errors quote the request, which may be any bytes, and may cut it within a
                   character */
        sonar_text_clean(answer, strlen(answer), answer, strlen(answer) + 1);
    cJSON_Delete(reply);
    cJSON_Delete(request);
    return answer;
}
