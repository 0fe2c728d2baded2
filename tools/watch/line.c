/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Messages as lines, for output that is no terminal. */
#include <cjson/cJSON.h>
#include <math.h>
#include <string.h>

#include "core/core.h"
#include "render.h"

/* ---- plain text ------------------------------------------------------------------------------ */

/* Which way the figures of an axis point, and their unit: said once, before the peaks. */
static void add_axis(const watch_message *message, watch_text *text) {
    double bearing[2];
    const int bearings = watch_true_bearings(message, 90, bearing); /* 90: any cone has some */
    const bool azimuth = strcmp(message->axis, "azimuth") == 0;
    watch_text_add(text, "  %s",
                   !azimuth           ? message->axis
                   : message->is_true ? "true bearing"
                   : message->cone    ? "angle from axis"
                                      : "azimuth in array frame");
    if (message->axis_unit[0])
        watch_text_add(text, " in %s", message->axis_unit);
    if (bearings)
        watch_text_add(text, " (true%s)", bearings > 1 ? " right|left of axis" : "");
    else if (azimuth && message->ambiguous)
        watch_text_add(text,
                       message->is_true ? " (both sides of the axis)" : " (folded: either side)");
}

static void add_peak(const watch_message *message, size_t i, watch_text *text) {
    double bearing[2];
    const int bearings = watch_true_bearings(message, message->x[i], bearing);
    watch_text_add(text, "%.2f", message->x[i]);
    if (bearings)
        watch_text_add(text, bearings > 1 ? " (%.2f|%.2f)" : " (%.2f)", bearing[0], bearing[1]);
}

static void line_of_shares(const watch_message *message, watch_text *text) {
    size_t worst = 0;
    for (size_t i = 1; i < message->points; i++)
        if (!(message->power[worst] >= message->power[i]))
            worst = i;
    watch_text_add(text, "  largest share %.3g %% at %s %.6g", 100 * (double)message->power[worst],
                   message->axis, message->x[worst]);
}

static void line_of_spectrum(const watch_message *message, watch_text *text) {
    static float db[WATCH_POINTS_MOST], scratch[WATCH_POINTS_MOST];
    size_t peak[3];
    watch_over_median(message->points, message->power, db, scratch);
    size_t peaks = watch_peaks(message->points, db, 6, 3, peak);
    add_axis(message, text);
    char reference[32];
    watch_text_add(text, ", %s (over median):%s", watch_reference(message, reference),
                   peaks ? "" : "  no peak over 6");
    for (size_t i = 0; i < peaks; i++) {
        watch_text_add(text, "%s  ", i ? "," : "");
        add_peak(message, peak[i], text);
        watch_text_add(text, " %.1f (%+.1f)", 10 * log10((double)message->power[peak[i]]),
                       (double)db[peak[i]]);
    }
}

static void line_of_detections(const watch_message *message, watch_text *text) {
    char reference[32];
    watch_text_add(text, "  %s%s in deg, %s (SNR):",
                   message->is_true ? "true bearing" : "bearing in array frame",
                   message->ambiguous ? "|mirror" : "", watch_reference(message, reference));
    for (size_t i = 0; i < message->detections; i++) {
        const watch_detection *d = &message->detection[i];
        char bearing[24], mirror[24], sigma[24], level[24], snr[24], range[24];
        watch_text_add(text, "%s  %s %s%s%s", i ? "," : "", d->source,
                       watch_figure(d->bearing_deg, bearing), message->ambiguous ? "|" : "",
                       message->ambiguous ? watch_figure(d->mirror_deg, mirror) : "");
        if (isfinite(d->sigma_deg))
            watch_text_add(text, "+-%s", watch_sigma(d->sigma_deg, sigma));
        watch_text_add(text, "%s%s %s (%s)", d->side[0] ? " " : "", d->side,
                       watch_figure(d->level_db, level), watch_figure(d->snr_db, snr));
        if (isfinite(d->range_m))
            watch_text_add(text, " at %s m%s", watch_figure(d->range_m, range),
                           d->range_unresolved ? "?" : "");
        if (d->possible_image)
            watch_text_add(text, " possible image");
    }
}

static void line_of_tracks(const watch_message *message, watch_text *text) {
    watch_text_add(text, "  %s in deg, rate in deg/min (SNR):",
                   message->is_true ? "true bearing" : "bearing in array frame");
    for (size_t i = 0; i < message->tracks; i++) {
        const watch_track *t = &message->track[i];
        char figure[24];
        watch_text_add(text, "%s  %s", i ? "," : "", watch_whole(t->number, figure));
        for (size_t k = 0; k < t->bearings; k++) {
            watch_text_add(text, "%s%s", k ? "|" : " ", watch_figure(t->bearing[k].deg, figure));
            watch_text_add(text, "+-%s", watch_sigma(t->bearing[k].sigma_deg, figure));
        }
        if (t->bearings == 1 && t->bearing[0].side[0])
            watch_text_add(text, " %s", t->bearing[0].side);
        if (t->bearings && isfinite(t->bearing[0].rate_dpm)) /* the other side's is its negative */
            watch_text_add(text, " %+.2f+-%s", t->bearing[0].rate_dpm,
                           watch_sigma(t->bearing[0].rate_sigma_dpm, figure));
        watch_text_add(text, " (%s) %s", watch_figure(t->snr_db, figure), t->state);
    }
}

static void line_of_status(const watch_status *s, watch_text *text) {
    char in[24], lost[24], windows[24];
    watch_text_add(text, "  %s%s%s  frames %s lost %s windows lost %s", s->health,
                   s->text[0] ? ": " : "", s->text, watch_whole(s->received, in),
                   watch_whole(s->dropped, lost), watch_whole(s->windows_lost, windows));
}

void watch_line(const watch_message *message, watch_text *text) {
    char when[40];
    watch_time(message->utc_ns, when, sizeof when);
    watch_text_add(text, "%s %s", when, message->topic);
    if (isfinite(message->window))
        watch_text_add(text, " #%s", watch_whole(message->window, when));
    if (strcmp(message->topic, "status") == 0)
        line_of_status(&message->status, text);
    else if (strcmp(message->topic, "detections") == 0)
        line_of_detections(message, text);
    else if (strcmp(message->topic, "tracks") == 0)
        line_of_tracks(message, text);
    else if (message->points && watch_is_share(message))
        line_of_shares(message, text);
    else if (message->points)
        line_of_spectrum(message, text);
    if (message->flags[0])
        watch_text_add(text, "  ! %s", message->flags);
    watch_text_add(text, "\n");
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool one_dimension(const cJSON *root, size_t bytes) {
    const cJSON *shape = cJSON_GetObjectItemCaseSensitive(root, "shape");
    const cJSON *length = cJSON_GetArrayItem(shape, 0);
    return cJSON_GetArraySize(shape) == 1 && cJSON_IsNumber(length) && bytes % 4 == 0 &&
           length->valuedouble == (double)(bytes / 4);
}

static void add_data(const void *body, size_t bytes, watch_text *text) {
    for (size_t i = 0; i < bytes / 4; i++) {
        float value;
        memcpy(&value, (const char *)body + 4 * i, 4);
        if (isfinite(value))
            watch_text_add(text, "%s%.9g", i ? "," : "", (double)value);
        else
            watch_text_add(text, "%snull", i ? "," : "");
    }
}

/* Keeps the header's own text, because parsing and printing it would round large integers. */
void watch_json(const char *header, size_t header_bytes, const void *body, size_t body_bytes,
                watch_text *text) {
    const char *after = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(header, header_bytes, &after, 0);
    size_t start = text->bytes;
    if (cJSON_IsObject(root) && after > header) {
        watch_text_add(text, "%.*s", (int)(after - header - 1),
                       header); /* without its closing brace */
        if (body_bytes && one_dimension(root, body_bytes)) {
            watch_text_add(text, ",\"data\":[");
            add_data(body, body_bytes, text);
            watch_text_add(text, "]");
        }
        watch_text_add(text, "}");
        if (!text->failed) { /* between tokens control characters become spaces; strings keep their
                                quotes */
            char *line = text->data + start;
            text->bytes = start + sonar_text_clean(line, text->bytes - start, line, text->room);
        }
        watch_text_add(text, "\n");
    }
    cJSON_Delete(root);
}
