/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "message.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/core.h"
#include "json.h"
#include "manifold/bearings.h"

static void text(const cJSON *object, const char *name, char *to, size_t bytes) {
    const cJSON *item = json_get(object, name);
    const char *from = cJSON_IsString(item) ? item->valuestring : "";
    sonar_text_clean(from, strlen(from), to, bytes);
}

static void read_flags(const cJSON *root, watch_message *message) {
    const cJSON *flag;
    size_t used = 0;
    cJSON_ArrayForEach(flag, json_get(root, "flags")) {
        if (!cJSON_IsString(flag) || used + 2 > sizeof message->flags)
            continue;
        if (used)
            message->flags[used++] = ' ';
        used += sonar_text_clean(flag->valuestring, strlen(flag->valuestring),
                                 message->flags + used, sizeof message->flags - used);
    }
}

static void read_bearings(const cJSON *root, watch_message *message) {
    char reference[16], kind[16];
    text(root, "bearing_reference", reference, sizeof reference);
    text(root, "bearing_kind", kind, sizeof kind);
    message->is_true = strcmp(reference, "true") == 0;
    message->cone = strcmp(kind, "cone") == 0;
    message->ambiguous = cJSON_IsTrue(json_get(root, "ambiguous"));
    message->heading_deg = json_number(root, "heading_deg");
    message->axis_az_deg = json_number(root, "axis_az_deg");
    message->axis_depression_deg = json_number(root, "axis_depression_deg");
}

int watch_true_bearings(const watch_message *message, double x, double bearing_deg[2]) {
    if (strcmp(message->axis, "azimuth") != 0 || message->is_true ||
        !isfinite(message->heading_deg))
        return 0;
    if (!message->cone) {
        bearing_deg[0] = sonar_modulo_turn(message->heading_deg + x);
        return 1;
    }
    const double depression =
        isfinite(message->axis_depression_deg) ? message->axis_depression_deg : 0;
    sonar_cone_bearings(message->heading_deg + message->axis_az_deg, depression, x, 1e-9,
                        bearing_deg);
    /* 0: a vertical line, or a cone that does not meet the horizontal plane */
    return isfinite(bearing_deg[0]) ? 2 : 0;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* Number of points of the last axis: the number of its values, or the last entry of shape. */
static size_t read_axis(const cJSON *root, watch_message *message) {
    const cJSON *axes = json_get(root, "axes"), *shape = json_get(root, "shape");
    const int rank = cJSON_GetArraySize(axes);
    const cJSON *axis = cJSON_GetArrayItem(axes, rank - 1);
    const cJSON *last = cJSON_GetArrayItem(shape, cJSON_GetArraySize(shape) - 1);
    double length = cJSON_IsNumber(last) ? last->valuedouble : 0;
    size_t most = length >= 1 && length <= WATCH_POINTS_MOST ? (size_t)length : 0, count = 0;
    text(axis, "name", message->axis, sizeof message->axis);
    text(axis, "unit", message->axis_unit, sizeof message->axis_unit);
    if (rank > 1)
        text(cJSON_GetArrayItem(axes, rank - 2), "name", message->over, sizeof message->over);
    const cJSON *value, *values = json_get(axis, "values");
    cJSON_ArrayForEach(value, values) {
        if (count == most || !cJSON_IsNumber(value) || !isfinite(value->valuedouble))
            break;
        message->x[count++] = value->valuedouble;
    }
    double start = json_number(axis, "start"), step = json_number(axis, "step");
    for (; !values && isfinite(start) && isfinite(step) && count < most; count++)
        message->x[count] = start + step * (double)count;
    return count == most ? count : 0;
}

/* Of several rows (ranges, bins) the largest power is kept. */
static void read_powers(const void *body, size_t bytes, watch_message *message) {
    size_t rows = bytes / sizeof(float) / message->points;
    for (size_t i = 0; i < message->points; i++)
        message->power[i] = -INFINITY;
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < message->points; i++) {
            float power;
            memcpy(&power, (const char *)body + (row * message->points + i) * sizeof power,
                   sizeof power);
            if (power > message->power[i])
                message->power[i] = power;
        }
}

/* Only powers and shares can be shown; positions and time series cannot. */
static bool is_shown(const cJSON *root) {
    static const char *const others[] = {"m", "uPa", "counts"};
    const char *dtype = cJSON_GetStringValue(json_get(root, "dtype")),
               *unit = cJSON_GetStringValue(json_get(root, "unit"));
    bool power = dtype && !strcmp(dtype, "<f4");
    for (size_t i = 0; unit && i < sizeof others / sizeof *others; i++)
        power = power && strcmp(unit, others[i]) != 0;
    return power;
}

static void read_array(const cJSON *root, const void *body, size_t bytes, watch_message *message) {
    if (!is_shown(root))
        return;
    message->points = read_axis(root, message);
    if (message->points && bytes >= message->points * sizeof(float))
        read_powers(body, bytes, message);
    else
        message->points = 0;
}

bool watch_is_share(const watch_message *message) {
    return strcmp(message->unit, "1") == 0 && strcmp(message->axis, "azimuth") != 0;
}

/* ---- detections, tracks and status ----------------------------------------------------------- */

static void read_row(const cJSON *item, watch_detection *d) {
    memset(d, 0, sizeof *d);
    text(item, "source", d->source, 8);
    text(item, "side", d->side, sizeof d->side);
    if (strcmp(d->side, "unknown") == 0)
        d->side[0] = '\0';
    d->bearing_deg = json_number(item, "bearing_deg");
    d->mirror_deg = json_number(item, "mirror_deg");
    d->sigma_deg = json_number(item, "bearing_sigma_deg");
    d->az_deg = json_number(item, "az_deg");
    d->level_db = json_number(item, "level_db");
    d->snr_db = json_number(item, "snr_db");
    d->range_m = json_number(item, "range_m");
    d->range_unresolved = cJSON_IsTrue(json_get(item, "range_unresolved"));
    d->possible_image = cJSON_IsTrue(json_get(item, "possible_image"));
    d->contact = json_number(item, "contact");
}

static watch_detection *contact_of(watch_message *message, double contact) {
    for (size_t i = 0; i < message->detections; i++)
        if (message->detection[i].contact == contact)
            return &message->detection[i];
    return NULL;
}

static void add_row(watch_detection *to, const watch_detection *row) {
    const size_t used = strlen(to->source);
    snprintf(to->source + used, sizeof to->source - used, "+%s", row->source);
    to->possible_image |= row->possible_image;
    if (isfinite(to->range_m))
        return;
    to->range_m = row->range_m;
    to->range_unresolved = row->range_unresolved;
}

static void read_detections(const cJSON *root, watch_message *message) {
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(root, "detections")) {
        watch_detection row;
        read_row(item, &row);
        watch_detection *of = contact_of(message, row.contact);
        if (of)
            add_row(of, &row);
        else if (message->detections < WATCH_DETECTIONS_MOST)
            message->detection[message->detections++] = row;
    }
}

static void read_track(const cJSON *item, watch_track *t) {
    const cJSON *bearing;
    memset(t, 0, sizeof *t);
    text(item, "state", t->state, sizeof t->state);
    t->number = json_number(item, "number");
    t->existence = json_number(item, "existence");
    t->az_deg = json_number(item, "az_deg");
    t->snr_db = json_number(item, "snr_db");
    t->unheard_s = json_number(item, "unheard_s");
    cJSON_ArrayForEach(bearing, json_get(item, "bearings")) {
        if (t->bearings == 2)
            break;
        const size_t i = t->bearings++;
        t->bearing[i].deg = json_number(bearing, "bearing_deg");
        t->bearing[i].sigma_deg = json_number(bearing, "bearing_sigma_deg");
        t->bearing[i].rate_dpm = json_number(bearing, "rate_deg_per_min");
        t->bearing[i].rate_sigma_dpm = json_number(bearing, "rate_sigma_deg_per_min");
        t->bearing[i].probability = json_number(bearing, "probability");
        text(bearing, "side", t->bearing[i].side, sizeof t->bearing[i].side);
    }
}

static void read_tracks(const cJSON *root, watch_message *message) {
    const cJSON *item;
    cJSON_ArrayForEach(item, json_get(root, "tracks")) if (message->tracks < WATCH_TRACKS_MOST)
        read_track(item, &message->track[message->tracks++]);
}

/* The sum of an object's numbers, and the names of the causes that are not zero. */
static double sum_causes(const cJSON *causes, char *names, size_t bytes) {
    double sum = 0;
    const cJSON *item;
    size_t used = strlen(names);
    cJSON_ArrayForEach(item, causes) {
        if (!cJSON_IsNumber(item) || !item->string || !(item->valuedouble > 0))
            continue;
        sum += item->valuedouble;
        char cause[24];
        sonar_text_clean(item->string, strlen(item->string), cause, sizeof cause);
        int n = snprintf(names + used, bytes - used, "%s%s %.0f", used ? ", " : "", cause,
                         fmin(item->valuedouble, 1e15));
        used = used + (size_t)n < bytes ? used + (size_t)n : bytes - 1;
    }
    return sum;
}

static void read_status(const cJSON *root, watch_status *status) {
    text(root, "health", status->health, sizeof status->health);
    text(root, "text", status->text, sizeof status->text);
    const cJSON *frames = json_get(root, "frames"), *windows = json_get(root, "windows");
    char unnamed[64] = "";
    status->received = json_number(frames, "received");
    status->dropped =
        sum_causes(json_get(frames, "dropped"), status->losses, sizeof status->losses);
    status->windows_lost = sum_causes(json_get(windows, "dropped"), unnamed, sizeof unnamed);
    status->p99_us = json_number(json_get(root, "latency"), "p99_us");
}

static void read_figures(const cJSON *root, watch_message *message) {
    message->seq = json_number(root, "seq");
    message->window = json_number(root, "window");
    message->utc_ns = json_number(root, "utc_ns");
    message->latency_us = json_number(root, "latency_us");
    message->epoch = json_number(root, "epoch");
    message->sample_index = json_number(root, "sample_index");
    message->window_length = json_number(root, "window_length");
    message->fs_hz = json_number(root, "fs_hz");
}

bool watch_message_read(const char *header, size_t header_bytes, const void *body,
                        size_t body_bytes, watch_message *message) {
    memset(message, 0, sizeof *message);
    message->heading_deg = message->axis_az_deg = message->axis_depression_deg = NAN;
    cJSON *root = cJSON_ParseWithLength(header, header_bytes);
    bool good = cJSON_IsObject(root);
    read_figures(root, message); /* all NaN if it is not a JSON object */
    if (good) {
        text(root, "schema", message->schema, sizeof message->schema);
        text(root, "topic", message->topic, sizeof message->topic);
        text(root, "array", message->array, sizeof message->array);
        text(root, "run", message->run, sizeof message->run);
        text(root, "unit", message->unit, sizeof message->unit);
        read_flags(root, message);
        read_bearings(root, message);
        read_array(root, body, body_bytes, message);
        read_detections(root, message);
        read_tracks(root, message);
        read_status(root, &message->status);
    }
    cJSON_Delete(root);
    return good;
}

/* ---- figures --------------------------------------------------------------------------------- */

void watch_time(double utc_ns, char *to, size_t bytes) {
    struct tm tm;
    time_t seconds = 0;
    bool known = utc_ns > 0 && utc_ns < 9.2e18;
    if (known)
        seconds = (time_t)(utc_ns / 1e9);
    if (!known || !gmtime_r(&seconds, &tm)) {
        snprintf(to, bytes, "time unknown");
        return;
    }
    int ms = (int)((utc_ns - (double)seconds * 1e9) / 1e6);
    char date[32];
    strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &tm);
    snprintf(to, bytes, "%s.%03dZ", date, ms < 0 ? 0 : ms > 999 ? 999 : ms);
}

static int ascending(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

double watch_over_median(size_t count, const float *power, float *db, float *scratch) {
    size_t good = 0;
    for (size_t i = 0; i < count; i++)
        if (power[i] > 0 && isfinite(power[i]))
            scratch[good++] = power[i];
    qsort(scratch, good, sizeof *scratch, ascending);
    double median = good ? (double)scratch[good / 2] : NAN;
    for (size_t i = 0; i < count; i++)
        db[i] = power[i] > 0 && isfinite(power[i]) ? (float)(10 * log10((double)power[i] / median))
                                                   : NAN;
    return median;
}

static bool is_peak(size_t count, const float *db, size_t i) {
    bool left = i == 0 || !(db[i - 1] >= db[i]);
    bool right = i + 1 == count || !(db[i + 1] > db[i]);
    return left && right;
}

size_t watch_peaks(size_t count, const float *db, float floor_db, size_t most, size_t *peak) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(db[i] >= floor_db) || !is_peak(count, db, i))
            continue;
        size_t at = found < most ? found : most;
        for (; at > 0 && db[peak[at - 1]] < db[i]; at--)
            if (at < most)
                peak[at] = peak[at - 1];
        if (at < most)
            peak[at] = i;
        found += found < most;
    }
    return found;
}
