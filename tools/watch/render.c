/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "render.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

/* ---- text ------------------------------------------------------------------------------------ */

static bool make_room(watch_text *text, size_t bytes) {
    if (text->bytes + bytes + 1 <= text->room)
        return true;
    size_t room = 2 * (text->bytes + bytes + 1);
    char *data = realloc(text->data, room);
    if (!data) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->room = room;
    return true;
}

void watch_text_add(watch_text *text, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int bytes = vsnprintf(NULL, 0, format, args);
    if (bytes >= 0 && make_room(text, (size_t)bytes)) {
        vsnprintf(text->data + text->bytes, (size_t)bytes + 1, format, again);
        text->bytes += (size_t)bytes;
    }
    va_end(again);
    va_end(args);
}

void watch_text_free(watch_text *text) {
    free(text->data);
    *text = (watch_text){0};
}

/* ---- panes ----------------------------------------------------------------------------------- */

static bool same_axis(const watch_message *a, const watch_message *b) {
    return a->points == b->points && strcmp(a->run, b->run) == 0 &&
           memcmp(a->x, b->x, a->points * sizeof a->x[0]) == 0;
}

void watch_pane_take(watch_pane *pane, const watch_message *message) {
    if (!same_axis(&pane->message, message))
        pane->fall_rows = pane->fall_next = 0;
    pane->message = *message;
    pane->median = watch_over_median(message->points, message->power, pane->db, pane->scratch);
    memcpy(pane->fall[pane->fall_next], pane->db, message->points * sizeof pane->db[0]);
    pane->fall_next = (pane->fall_next + 1) % WATCH_FALL_ROWS;
    if (pane->fall_rows < WATCH_FALL_ROWS)
        pane->fall_rows++;
}

/* Column centres run from the first to the last x. */
int watch_column(const watch_pane *pane, double x, int columns) {
    size_t points = pane->message.points;
    if (points == 0 || columns < 1)
        return -1;
    double first = pane->message.x[0], span = pane->message.x[points - 1] - first;
    if (span == 0)
        return x == first ? 0 : -1;
    double place = (x - first) / span * (columns - 1);
    return place >= -0.5 && place < columns - 0.5 ? (int)lround(fmax(place, 0)) : -1;
}

void watch_columns(const watch_pane *pane, const float *db, int columns, float *column) {
    const watch_message *message = &pane->message;
    for (int c = 0; c < columns; c++)
        column[c] = NAN;
    if (message->points == 0)
        return;
    static const float nothing = -1e30F; /* a point is here, but it has no level */
    for (size_t i = 0; i < message->points; i++) {
        int c = watch_column(pane, message->x[i], columns);
        float level = isfinite(db[i]) ? db[i] : nothing;
        if (c >= 0 && !(column[c] >= level))
            column[c] = level;
    }
    double first = message->x[0], span = message->x[message->points - 1] - first;
    size_t near = 0; /* the axis is sorted, so the nearest point only moves on */
    for (int c = 0; c < columns; c++) {
        double x = columns > 1 ? first + span * c / (columns - 1) : first;
        while (near + 1 < message->points &&
               fabs(message->x[near + 1] - x) <= fabs(message->x[near] - x))
            near++;
        if (isnan(column[c]))
            column[c] = db[near];
        if (column[c] == nothing)
            column[c] = NAN;
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct screen {
    watch_text *text;
    int width, left; /* columns; lines still free */
    bool first;
} screen;

static void line_begin(screen *to) {
    watch_text_add(to->text, "%s", to->first ? "" : "\n");
    to->first = false;
    to->left--;
}

static void line_end(screen *to) {
    watch_text_add(to->text, "\033[K");
}

/* Bytes of the first `columns` characters; one that vsnprintf cut in two is left out. */
static int bytes_of(const char *line, int columns) {
    int bytes = 0;
    while (columns-- > 0 && line[bytes]) {
        const unsigned char first = (unsigned char)line[bytes];
        const int length = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
        if (strnlen(line + bytes, (size_t)length) < (size_t)length)
            break;
        bytes += length;
    }
    return bytes;
}

/* A line of text without controls, cut to the width. */
static void put_line(screen *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put_line(screen *to, const char *format, ...) {
    if (to->left < 1)
        return;
    char line[WATCH_COLUMNS_MOST];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    line_begin(to);
    watch_text_add(to->text, "%.*s", bytes_of(line, to->width), line);
    line_end(to);
}

/* "62.1", or "-" for what is not known. */
static const char *figure(double value, char text[24]) {
    if (isfinite(value) && fabs(value) < 1e9)
        snprintf(text, 24, "%.1f", value);
    else
        snprintf(text, 24, "-");
    return text;
}

static const char *whole(double value, char text[24]) {
    if (isfinite(value) && fabs(value) < 1e18)
        snprintf(text, 24, "%.0f", value);
    else
        snprintf(text, 24, "-");
    return text;
}

/* The date, the milliseconds and the array's name would take the bearing reference's room. */
static void put_title(screen *to, const watch_message *message) {
    char when[40], window[24], latency[24];
    watch_time(message->utc_ns, when, sizeof when);
    const char *clock = strchr(when, ' ');
    bool known = clock && clock[1] != 'u';
    put_line(to, "%s  %.*s%s  #%s  %s ms  %s%s%s%s", message->topic, known ? 8 : 12,
             known ? clock + 1 : when, known ? "Z" : "", whole(message->window, window),
             whole(message->latency_us / 1e3, latency), message->bearings,
             message->flags[0] ? "  ! " : "", message->flags,
             message->ambiguous ? ", either side" : "");
}

/* ---- the spectrum ---------------------------------------------------------------------------- */

enum { FLOOR_DB = -5 };

static double top_of(const float *column, int columns) {
    double top = 15;
    for (int c = 0; c < columns; c++)
        if (column[c] > top)
            top = column[c];
    return 5 * ceil(top / 5);
}

/* Rows of a bar's height in eighths: full blocks, a part, nothing. */
static void put_bar(watch_text *text, int eighths) {
    static const char *const block[9] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    watch_text_add(text, "%s", block[eighths < 0 ? 0 : eighths > 8 ? 8 : eighths]);
}

static void put_plot(screen *to, const float *column, int columns, int rows) {
    double top = top_of(column, columns);
    for (int row = 0; row < rows && to->left > 0; row++) {
        line_begin(to);
        double edge = top - (top - FLOOR_DB) * row / rows;
        watch_text_add(to->text, "%4.0f dB", edge);
        for (int c = 0; c < columns; c++) {
            double height = ((double)column[c] - FLOOR_DB) / (top - FLOOR_DB) * rows * 8;
            int eighths = isfinite(height) ? (int)lround(height) - 8 * (rows - 1 - row) : 0;
            put_bar(to->text, eighths);
        }
        line_end(to);
    }
}

/* A step of 1, 2, 5, 10, ... or, for angles, 5, 10, 15, 30, 45, 90 that leaves room for labels. */
static double tick_step(double span, int columns, bool angle) {
    static const double angles[] = {5, 10, 15, 30, 45, 90, 180};
    double least = span * 8 / columns;
    for (size_t i = 0; angle && i < sizeof angles / sizeof angles[0]; i++)
        if (angles[i] >= least)
            return angles[i];
    double decade = pow(10, floor(log10(least)));
    return least <= decade       ? decade
           : least <= 2 * decade ? 2 * decade
           : least <= 5 * decade ? 5 * decade
                                 : 10 * decade;
}

static void put_axis(screen *to, const watch_pane *pane, int columns) {
    const watch_message *message = &pane->message;
    char line[WATCH_COLUMNS_MOST + WATCH_MARGIN + 1];
    memset(line, ' ', sizeof line);
    double first = message->x[0], span = message->x[message->points - 1] - first;
    double step = span > 0 ? tick_step(span, columns, strcmp(message->axis_unit, "deg") == 0) : 1;
    for (int i = 0; i <= 400; i++) {
        char label[32];
        double x = (ceil(first / step - 1e-9) + i) * step;
        int n = snprintf(label, sizeof label, "%.6g", x);
        int c = watch_column(pane, x, columns);
        if (x > first + span + step * 1e-9 || c < 0)
            break;
        int at = WATCH_MARGIN + (c + n / 2 >= columns ? columns - n : c - n / 2);
        if (n < columns && at > 0)
            memcpy(line + at, label, (size_t)n);
    }
    line[WATCH_MARGIN + columns] = '\0';
    memcpy(line, message->axis_unit, strlen(message->axis_unit));
    put_line(to, "%s", line);
}

static void put_shade(screen *to, float db) {
    static const char *const shade[5] = {" ", "░", "▒", "▓", "█"};
    double share = isfinite(db) ? fmin(fmax((double)db / 20, 0), 1) : 0; /* 0..20 dB */
    watch_text_add(to->text, "%s", shade[(int)lround(share * 4)]);
}

static void put_greys(screen *to, const float *column, int columns) {
    int last = -1;
    for (int c = 0; c < columns; c++) {
        double share = isfinite(column[c]) ? fmin(fmax((double)column[c] / 20, 0), 1) : 0;
        int grey = 232 + (int)lround(share * 23);
        if (grey != last)
            watch_text_add(to->text, "\033[48;5;%dm", grey);
        last = grey;
        watch_text_add(to->text, " ");
    }
    watch_text_add(to->text, "\033[0m");
}

static void put_waterfall(screen *to, const watch_pane *pane, int columns, int rows, bool colour) {
    float column[WATCH_COLUMNS_MOST];
    for (int row = 0; row < rows && to->left > 0; row++) {
        line_begin(to);
        if ((size_t)row < pane->fall_rows) {
            size_t at = (pane->fall_next + WATCH_FALL_ROWS - 1 - (size_t)row) % WATCH_FALL_ROWS;
            watch_columns(pane, pane->fall[at], columns, column);
            watch_text_add(to->text, "%*s", WATCH_MARGIN, row == 0 ? "now " : "");
            if (colour)
                put_greys(to, column, columns);
            for (int c = 0; c < columns && !colour; c++)
                put_shade(to, column[c]);
        }
        line_end(to);
    }
}

static void put_pane(screen *to, const watch_pane *pane, int plot_rows, int fall_rows,
                     bool colour) {
    float column[WATCH_COLUMNS_MOST];
    int columns = to->width - WATCH_MARGIN;
    put_title(to, &pane->message);
    if (pane->message.points == 0 || columns < 2) {
        put_line(to, "no array in this message");
        return;
    }
    watch_columns(pane, pane->db, columns, column);
    put_plot(to, column, columns, plot_rows);
    put_axis(to, pane, columns);
    put_waterfall(to, pane, columns, fall_rows, colour);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_detections(screen *to, const watch_message *message, int rows) {
    if (rows < 1)
        return;
    if (!message) {
        put_line(to, "no detections message yet");
        return;
    }
    char level[32];
    snprintf(level, sizeof level, "dB re 1 %s", message->unit[0] ? message->unit : "?");
    size_t shown = (int)message->detections < rows - 1 ? message->detections : (size_t)rows - 1;
    put_line(to, "%7s  mirror  %-17s  SNR dB  range m   from  (%zu of %zu; deg)",
             strncmp(message->bearings, "true", 4) == 0 ? "true" : "array", level, shown,
             message->detections);
    for (size_t i = 0; i < message->detections && (int)i < rows - 1; i++) {
        const watch_detection *d = &message->detection[i];
        char a[24], b[24], c[24], e[24], f[24];
        put_line(to, "%7s %7s  %17s %7s %8s%s  %s", figure(d->bearing_deg, a),
                 figure(d->mirror_deg, b), figure(d->level_db, c), figure(d->snr_db, e),
                 figure(d->range_m, f), d->range_unresolved ? "?" : " ", d->source);
    }
    for (int i = (int)message->detections; i < rows - 1; i++)
        put_line(to, "%s", "");
}

static void put_status(screen *to, const watch_view *view) {
    if (!view->status) {
        put_line(to, "no status yet");
    } else {
        const watch_status *s = &view->status->status;
        char in[24], lost[24], windows[24], p99[24];
        if (s->text[0])
            put_line(to, "%s: %s", s->health, s->text);
        else
            put_line(to, "%s  frames %s in, %s lost%s%s%s  windows lost %s  p99 %s ms", s->health,
                     whole(s->received, in), whole(s->dropped, lost), s->losses[0] ? " (" : "",
                     s->losses, s->losses[0] ? ")" : "", whole(s->windows_lost, windows),
                     figure(s->p99_us / 1e3, p99));
    }
    const char *array = view->panes ? view->pane[0]->message.array : "";
    put_line(to, "this viewer: %llu messages, %llu missed%s%s", (unsigned long long)view->received,
             (unsigned long long)view->lost, array[0] ? "; array " : "", array);
}

/* ---- the screen ------------------------------------------------------------------------------ */

void watch_render(const watch_view *view, int width, int height, watch_text *text) {
    width = width < 1 ? 1 : width < WATCH_COLUMNS_MOST - 1 ? width : WATCH_COLUMNS_MOST - 1;
    screen to = {.text = text, .width = width, .left = height, .first = true};
    int panes = view->panes ? (int)view->panes : 1;
    int table = height >= 20 ? (height >= 30 ? 9 : panes > 1 ? 4 : 5) : height >= 12 ? 2 : 0;
    int each = (height - 2 - table) / panes - 2; /* without title and axis */
    int plot = each > 4 ? (each + 1) / 2 : each > 1 ? each : 1;
    int fall = each - plot < WATCH_FALL_ROWS ? each - plot : WATCH_FALL_ROWS;
    to.left -= table + 2;
    for (size_t i = 0; i < view->panes; i++)
        put_pane(&to, view->pane[i], plot, fall, view->colour);
    if (view->panes == 0)
        put_line(&to, "waiting for a spectrum; ctrl-c ends");
    to.left += table;
    put_detections(&to, view->detections, table);
    to.left += 2;
    put_status(&to, view);
    watch_text_add(text, "\033[J");
}

/* ---- not a terminal -------------------------------------------------------------------------- */

static void line_of_spectrum(const watch_message *message, watch_text *text) {
    static float db[WATCH_POINTS_MOST], scratch[WATCH_POINTS_MOST];
    size_t peak[3];
    watch_over_median(message->points, message->power, db, scratch);
    size_t peaks = watch_peaks(message->points, db, 6, 3, peak);
    if (peaks == 0)
        watch_text_add(text, "  no peak 6 dB over the median");
    for (size_t i = 0; i < peaks; i++)
        watch_text_add(text, "  %.2f %s %.1f dB (+%.1f)", message->x[peak[i]], message->axis_unit,
                       10 * log10((double)message->power[peak[i]]), (double)db[peak[i]]);
}

static void line_of_detections(const watch_message *message, watch_text *text) {
    for (size_t i = 0; i < message->detections; i++) {
        const watch_detection *d = &message->detection[i];
        char a[24], b[24], c[24];
        watch_text_add(text, "  %s %s deg %s dB (+%s)", d->source, figure(d->bearing_deg, a),
                       figure(d->level_db, b), figure(d->snr_db, c));
    }
}

void watch_line(const watch_message *message, watch_text *text) {
    char when[40];
    watch_time(message->utc_ns, when, sizeof when);
    watch_text_add(text, "%s %s", when, message->topic);
    if (isfinite(message->window))
        watch_text_add(text, " #%s", whole(message->window, when));
    if (strcmp(message->topic, "status") == 0) {
        const watch_status *s = &message->status;
        char in[24], lost[24], windows[24];
        watch_text_add(text, "  %s %s frames %s lost %s windows lost %s", s->health, s->text,
                       whole(s->received, in), whole(s->dropped, lost),
                       whole(s->windows_lost, windows));
    } else if (strcmp(message->topic, "detections") == 0) {
        line_of_detections(message, text);
    } else if (message->points) {
        line_of_spectrum(message, text);
    }
    if (message->flags[0])
        watch_text_add(text, "  ! %s", message->flags);
    watch_text_add(text, "\n");
}

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

/* The header's own text is kept: parsed and printed again its large integers would be rounded. */
void watch_json(const char *header, size_t header_bytes, const void *body, size_t body_bytes,
                watch_text *text) {
    const char *after = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(header, header_bytes, &after, 0);
    size_t start = text->bytes;
    if (cJSON_IsObject(root) && after > header) {
        watch_text_add(text, "%.*s", (int)(after - header - 1), header); /* without its } */
        if (body_bytes && one_dimension(root, body_bytes)) {
            watch_text_add(text, ",\"data\":[");
            add_data(body, body_bytes, text);
            watch_text_add(text, "]");
        }
        watch_text_add(text, "}");
        if (!text->failed) { /* between tokens a control is a space; a string keeps its quotes */
            char *line = text->data + start;
            text->bytes = start + sonar_text_clean(line, text->bytes - start, line, text->room);
        }
        watch_text_add(text, "\n");
    }
    cJSON_Delete(root);
}
