/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "debrief.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "json.h"

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
    const double deg = json_finite(bearing, "bearing_deg");
    if (isnan(deg))
        fputs(" NULL", to);
    else
        fprintf(to, " %.3f", fmod(rint(sonar_modulo_turn(deg) * 1000) / 1000, 360));
}

/* Null, or not what a daemon would send: there is no such line. */
static bool has_line(const cJSON *header, int64_t middle_utc_ns, const cJSON *track,
                     double number) {
    const cJSON *first = cJSON_GetArrayItem(json_get(track, "bearings"), 0);
    return json_is(track, "state", "confirmed") && cJSON_IsNumber(json_get(track, "contact")) &&
           middle_utc_ns > 0 && json_is(header, "bearing_reference", "true") && number >= 0 &&
           number <= 0x1p53 && number == rint(number) && !isnan(json_finite(first, "bearing_deg"));
}

void debrief_put(FILE *to, const cJSON *header, int64_t middle_utc_ns, const cJSON *track) {
    const char *host = cJSON_GetStringValue(json_get(header, "array"));
    const cJSON *bearings = json_get(track, "bearings"), *first = cJSON_GetArrayItem(bearings, 0);
    const cJSON *tone = cJSON_GetArrayItem(json_get(track, "tones_hz"), 0);
    const double number = json_finite(track, "number"),
                 sigma_deg = json_finite(first, "bearing_sigma_deg");
    if (!has_line(header, middle_utc_ns, track, number))
        return;
    fputs(";SENSOR2: ", to);
    put_time(to, middle_utc_ns);
    fputc(' ', to);
    put_name(to, host ? host : "");
    fprintf(to, " @%c NULL", 'A' + (int)fmod(number, 11)); /* solid, in one of 11 colours */
    put_bearing(to, first);
    put_bearing(to, cJSON_GetArrayItem(bearings, 1));
    if (cJSON_IsNumber(tone) && isfinite(tone->valuedouble))
        fprintf(to, " %.2f", tone->valuedouble);
    else
        fputs(" NULL", to);
    fprintf(to, " NULL track_%.0f %.0f // sigma ", number, number);
    if (isnan(sigma_deg))
        fputs("unknown\n", to);
    else
        fprintf(to, "%.3f deg\n", sigma_deg);
}

int64_t debrief_whole(const char *header, const char *name) {
    const char *at = strstr(header, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : 0;
}
