/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "debrief.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <time.h>

static const cJSON *get(const cJSON *object, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(object, name);
}

static bool is(const cJSON *object, const char *name, const char *word) {
    const char *text = cJSON_GetStringValue(get(object, name));
    return text && !strcmp(text, word);
}

static void put_time(FILE *to, int64_t utc_ns) {
    const int64_t ms = (utc_ns + 500000) / 1000000;
    const time_t seconds = (time_t)(ms / 1000);
    struct tm date;
    char text[24];
    gmtime_r(&seconds, &date);
    strftime(text, sizeof text, "%Y%m%d %H%M%S", &date);
    fprintf(to, "%s.%03d", text, (int)(ms % 1000));
}

/* A quotation mark cannot be in it. */
static void put_name(FILE *to, const char *name) {
    const char *quote = !*name || strpbrk(name, " \t") ? "\"" : "";
    fputs(quote, to);
    for (; *name; name++)
        fputc(*name == '"' || iscntrl((unsigned char)*name) ? '_' : *name, to);
    fputs(quote, to);
}

static void put_bearing(FILE *to, const cJSON *bearing) {
    const double deg = cJSON_GetNumberValue(get(bearing, "bearing_deg"));
    if (isnan(deg))
        fputs(" NULL", to);
    else
        fprintf(to, " %.3f", fmod(rint(deg * 1000) / 1000, 360));
}

void debrief_put(FILE *to, const table_window *window, const cJSON *track) {
    const char *host = cJSON_GetStringValue(get(window->header, "array"));
    const cJSON *bearings = get(track, "bearings"), *first = cJSON_GetArrayItem(bearings, 0);
    const double number = cJSON_GetNumberValue(get(track, "number"));
    if (!is(track, "state", "confirmed") || !cJSON_IsNumber(get(track, "contact")) ||
        !window->middle_utc_ns || !is(window->header, "bearing_reference", "true"))
        return;
    fputs(";SENSOR2: ", to);
    put_time(to, window->middle_utc_ns);
    fputc(' ', to);
    put_name(to, host ? host : "");
    fprintf(to, " @%c NULL", 'A' + (int)fmod(number, 11)); /* solid, in one of 11 colours */
    put_bearing(to, first);
    put_bearing(to, cJSON_GetArrayItem(bearings, 1));
    fprintf(to, " NULL NULL track_%.0f %.0f // sigma %.3f deg\n", number, number,
            cJSON_GetNumberValue(get(first, "bearing_sigma_deg")));
}
