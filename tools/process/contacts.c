/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "contacts.h"

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

struct contacts {
    FILE *csv, *json;
    _Atomic uint64_t count;
};

/* Columns from a row of the header; what is null there is empty. */
static const char *const column[] = {"az_deg", "level_db", "snr_db", "range_m", "source"};
static const char *const column_behind[] = {"bearing_deg", "mirror_deg", "width_deg", "contact",
                                            "bearing_sigma_deg"};
enum {
    COLUMNS = sizeof column / sizeof *column,
    COLUMNS_BEHIND = sizeof column_behind / sizeof *column_behind
};

/* ---- rows ------------------------------------------------------------------------------------ */

static void put_cell(FILE *to, const cJSON *row, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(row, name);
    fputc(',', to);
    if (cJSON_IsNumber(item))
        fprintf(to, "%.10g", item->valuedouble);
    else if (cJSON_IsString(item))
        fputs(item->valuestring, to); /* a word of the table of topics: no quotes are needed */
}

static void put_row(FILE *to, const contacts_window *window, const char *utc, const cJSON *row) {
    fprintf(to, "%s,%" PRIu64, utc, window->window);
    for (int i = 0; i < COLUMNS; i++)
        put_cell(to, row, column[i]);
    fprintf(to, ",%.6f", window->time_s);
    for (int i = 0; i < COLUMNS_BEHIND; i++)
        put_cell(to, row, column_behind[i]);
    fputc('\n', to);
}

/* The row as it was published, behind the window's members. */
static bool put_object(FILE *to, const contacts_window *window, const char *utc, const cJSON *row) {
    char *text = cJSON_PrintUnformatted(row);
    if (!text)
        return false;
    fprintf(to, "{\"utc\":%s%s%s,\"window\":%" PRIu64 ",\"time_s\":%.6f%s%s", *utc ? "\"" : "",
            *utc ? utc : "null", *utc ? "\"" : "", window->window, window->time_s,
            text[1] == '}' ? "" : ",", text + 1);
    free(text);
    return true;
}

sonar_code contacts_add(contacts *c, const contacts_window *window, const cJSON *detections,
                        sonar_error *err) {
    const cJSON *row;
    char utc[40] = "";
    bool good = true;
    if (window->utc_ns)
        sim_utc_format(window->utc_ns, utc, sizeof utc);
    cJSON_ArrayForEach(row, detections) {
        put_row(c->csv, window, utc, row);
        fputs(c->count ? ",\n" : "[\n", c->json);
        good = put_object(c->json, window, utc, row) && good;
        c->count++;
    }
    if (good && !ferror(c->csv) && !ferror(c->json))
        return SONAR_OK;
    return sonar_fail(err, SONAR_ESYS, "contacts", "cannot write: %s", strerror(errno));
}

uint64_t contacts_count(const contacts *c) {
    return c->count;
}

void contacts_flush(contacts *c) {
    fflush(c->csv);
    fflush(c->json);
}

/* ---- files ----------------------------------------------------------------------------------- */

static sonar_code open_new(const char *folder, const char *name, FILE **file, sonar_error *err) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    *file = fopen(path, "wxe");
    return *file ? SONAR_OK
                 : sonar_fail(err, SONAR_EINVAL, path, "cannot create it: %s", strerror(errno));
}

void contacts_remove(const char *folder) {
    static const char *const name[] = {"contacts.csv", "contacts.json"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, name[i]);
        unlink(path);
    }
}

static void put_head(FILE *to) {
    fputs("utc,window", to);
    for (int i = 0; i < COLUMNS; i++)
        fprintf(to, ",%s", column[i]);
    fputs(",time_s", to);
    for (int i = 0; i < COLUMNS_BEHIND; i++)
        fprintf(to, ",%s", column_behind[i]);
    fputc('\n', to);
}

sonar_code contacts_open(const char *folder, contacts **made, sonar_error *err) {
    contacts *c = sonar_alloc(1, sizeof *c);
    if (!c)
        return sonar_fail(err, SONAR_ENOMEM, folder, "out of memory");
    sonar_code code = open_new(folder, "contacts.csv", &c->csv, err);
    if (!code)
        code = open_new(folder, "contacts.json", &c->json, err);
    if (code) {
        sonar_error second;
        contacts_close(c, &second);
        return code;
    }
    put_head(c->csv);
    *made = c;
    return SONAR_OK;
}

static bool close_file(FILE *file) {
    return !file || (!ferror(file) & (fclose(file) == 0));
}

sonar_code contacts_close(contacts *c, sonar_error *err) {
    if (!c)
        return SONAR_OK;
    if (c->json)
        fputs(c->count ? "\n]\n" : "[]\n", c->json);
    const bool table = close_file(c->csv), list = close_file(c->json);
    free(c);
    return table && list
               ? SONAR_OK
               : sonar_fail(err, SONAR_ESYS, "contacts", "cannot write: %s", strerror(errno));
}
