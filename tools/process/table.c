/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "core/core.h"
#include "debrief.h"
#include "json.h"

enum { CSV, JSON, REP, FILES };

static const char *const ending[FILES] = {[CSV] = "csv", [JSON] = "json", [REP] = "rep"};

/* A column is a member of the window or of the row. A track's bearings are a list: columns have the
 * first one's members, and with `mirror_` before their names the second one's. */
/* clang-format off */
static const char *const contact_column[] = {
    "utc", "window", "az_deg", "level_db", "snr_db", "range_m", "source", "time_s",
    "bearing_deg", "mirror_deg", "width_deg", "contact", "bearing_sigma_deg", "bearing_reference",
    NULL};
static const char *const track_column[] = {
    "utc", "window", "time_s", "number", "state", "existence",
    "bearing_deg", "bearing_sigma_deg", "rate_deg_per_min", "rate_sigma_deg_per_min", "side",
    "probability",
    "mirror_bearing_deg", "mirror_bearing_sigma_deg", "mirror_rate_deg_per_min",
    "mirror_rate_sigma_deg_per_min", "mirror_side", "mirror_probability",
    "az_deg", "snr_db", "age_s", "unheard_s", "contact", "rests_on", "tones_hz",
    "bearing_reference", NULL};
/* clang-format on */

typedef struct kind {
    sonar_surface topic;
    const char *name, *list; /* of the files; in the header */
    size_t files;
    const char *const *column;
} kind;

static const kind kinds[] = {{SONAR_DETECTIONS, "contacts", "detections", REP, contact_column},
                             {SONAR_TRACKS, "tracks", "tracks", FILES, track_column}};

struct table {
    const kind *kind;
    FILE *file[FILES];
    char path[FILES][PATH_MAX];
    _Atomic uint64_t count;
};

/* ---- rows ------------------------------------------------------------------------------------ */

static const cJSON *find(const cJSON *row, const char *name) {
    static const char mirror[] = "mirror_";
    const cJSON *item = json_get(row, name);
    const bool second = strncmp(name, mirror, sizeof mirror - 1) == 0;
    return item ? item
                : json_get(cJSON_GetArrayItem(json_get(row, "bearings"), second),
                           second ? name + sizeof mirror - 1 : name);
}

/* What is null or not there is empty. Words are names of the protocol: no quotes are needed. */
static void put_value(FILE *to, const cJSON *item) {
    const cJSON *one;
    if (cJSON_IsNumber(item))
        fprintf(to, "%.10g", item->valuedouble);
    else if (cJSON_IsString(item))
        fputs(item->valuestring, to);
    cJSON_ArrayForEach(one, item) {
        fputs(one == item->child ? "" : "+", to);
        put_value(to, one);
    }
}

static void put_cell(FILE *to, const table_window *window, const char *utc, const cJSON *row,
                     const char *name) {
    if (!strcmp(name, "utc"))
        fputs(utc, to);
    else if (!strcmp(name, "window"))
        fprintf(to, "%" PRIu64, window->window);
    else if (!strcmp(name, "time_s"))
        fprintf(to, "%.6f", window->time_s);
    else if (!strcmp(name, "bearing_reference"))
        put_value(to, json_get(window->header, name));
    else
        put_value(to, find(row, name));
}

static void put_row(const table *t, const table_window *window, const char *utc, const cJSON *row) {
    FILE *to = t->file[CSV];
    for (const char *const *name = t->kind->column; *name; name++) {
        put_cell(to, window, utc, row, *name);
        fputc(name[1] ? ',' : '\n', to);
    }
}

/* The row as it was published, behind the window's members. */
static bool put_object(FILE *to, const table_window *window, const char *utc, const cJSON *row) {
    const char *reference = cJSON_GetStringValue(json_get(window->header, "bearing_reference"));
    const char *quote = *utc ? "\"" : "";
    char *text = json_print(row);
    if (!text)
        return false;
    fprintf(to,
            "{\"utc\":%s%s%s,\"window\":%" PRIu64
            ",\"time_s\":%.6f,\"bearing_reference\":\"%s\"%s%s",
            quote, *utc ? utc : "null", quote, window->window, window->time_s,
            reference ? reference : "", text[1] == '}' ? "" : ",", text + 1);
    free(text);
    return true;
}

/* Returns the file that was not written; FILES: all were. */
static size_t failed(const table *t) {
    size_t i = 0;
    while (i < FILES && !(t->file[i] && ferror(t->file[i])))
        i++;
    return i;
}

sonar_code table_add(table *t, const table_window *window, sonar_error *err) {
    const cJSON *row;
    char utc[40] = "";
    bool good = true;
    if (window->utc_ns)
        sim_utc_format(window->utc_ns, utc, sizeof utc);
    cJSON_ArrayForEach(row, json_get(window->header, t->kind->list)) {
        put_row(t, window, utc, row);
        fputs(t->count ? ",\n" : "[\n", t->file[JSON]);
        good = put_object(t->file[JSON], window, utc, row) && good;
        if (t->file[REP])
            debrief_put(t->file[REP], window->header, window->middle_utc_ns, row);
        t->count++;
    }
    if (!good)
        return sonar_fail(err, SONAR_ENOMEM, t->path[JSON], "no memory for a row");
    const size_t i = failed(t);
    return i == FILES
               ? SONAR_OK
               : sonar_fail(err, SONAR_ESYS, t->path[i], "cannot write: %s", strerror(errno));
}

uint64_t table_count(const table *t) {
    return t ? t->count : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

void table_flush(table *t) {
    for (size_t i = 0; i < t->kind->files; i++)
        fflush(t->file[i]);
}

void table_remove(const table *t) {
    for (size_t i = 0; i < t->kind->files && t->file[i]; i++)
        unlink(t->path[i]);
}

static sonar_code open_all(table *t, const char *folder, sonar_error *err) {
    for (size_t i = 0; i < t->kind->files; i++) {
        snprintf(t->path[i], sizeof t->path[i], "%s/%s.%s", folder, t->kind->name, ending[i]);
        t->file[i] = fopen(t->path[i], "wxe");
        if (!t->file[i])
            return sonar_fail(err, SONAR_EINVAL, t->path[i], "cannot create it: %s",
                              strerror(errno));
    }
    return SONAR_OK;
}

sonar_code table_open(const char *folder, sonar_surface topic, table **made, sonar_error *err) {
    table *t = sonar_alloc(1, sizeof *t);
    if (!t)
        return sonar_fail(err, SONAR_ENOMEM, folder, "out of memory");
    t->kind = kinds;
    while (t->kind->topic != topic)
        t->kind++;
    sonar_error second;
    const sonar_code code = open_all(t, folder, err);
    if (code) {
        table_remove(t);
        table_close(t, &second);
        return code;
    }
    for (const char *const *name = t->kind->column; *name; name++)
        fprintf(t->file[CSV], "%s%c", *name, name[1] ? ',' : '\n');
    *made = t;
    return SONAR_OK;
}

sonar_code table_close(table *t, sonar_error *err) {
    sonar_code code = SONAR_OK;
    if (!t)
        return SONAR_OK;
    if (t->file[JSON])
        fputs(t->count ? "\n]\n" : "[]\n", t->file[JSON]);
    for (size_t i = 0; i < t->kind->files && t->file[i]; i++) {
        const bool good = !ferror(t->file[i]) & (fclose(t->file[i]) == 0);
        if (!good && !code)
            code = sonar_fail(err, SONAR_ESYS, t->path[i], "cannot write: %s", strerror(errno));
    }
    free(t);
    return code;
}
