/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "render.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- lines ----------------------------------------------------------------------------------- */

typedef struct screen {
    watch_text *text;
    int width, left; /* width in columns; number of free lines */
    bool first;
    const char *style; /* an escape sequence before each line */
} screen;

static const char PLAIN[] = "", FAINT[] = "\033[2m", REVERSED[] = "\033[7m";

/* Lines are cleared at their beginning, because at their end the cursor may be on the last
 * character. */
static void line_begin(screen *to) {
    watch_text_add(to->text, "%s\033[K%s", to->first ? "" : "\n", to->style);
    to->first = false;
    to->left--;
}

static void line_end(screen *to) {
    watch_text_add(to->text, "%s", to->style[0] ? "\033[0m" : "");
}

/* Bytes of the first `columns` characters, without a character that vsnprintf cut in two. */
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

/* Bytes of the text that fit into a line, ending at the end of a word. */
static int bytes_of_words(const char *text, int columns) {
    int bytes = bytes_of(text, columns);
    if (!text[bytes] || text[bytes] == ' ')
        return bytes;
    for (int i = bytes; i > 0; i--)
        if (text[i] == ' ')
            return i;
    return bytes;
}

/* Writes the text in as many lines as needed, each beginning with a space. */
static void put_words(screen *to, const char *text) {
    while (*text && to->left > 0 && to->width > 1) {
        const int bytes = bytes_of_words(text, to->width - 1);
        if (bytes == 0)
            return;
        put_line(to, " %.*s", bytes, text);
        text += bytes + strspn(text + bytes, " ");
    }
}

const char *watch_figure(double value, char text[24]) {
    if (isfinite(value) && fabs(value) < 1e9)
        snprintf(text, 24, "%.1f", value);
    else
        snprintf(text, 24, "-");
    return text;
}

const char *watch_sigma(double value, char text[24]) {
    if (isfinite(value) && value < 9.995)
        snprintf(text, 24, "%.2f", fmax(ceil(100 * value - 1e-6), 0) / 100);
    else
        snprintf(text, 24, isfinite(value) && value < 1e3 ? "%.0f" : "-", value);
    return text;
}

const char *watch_whole(double value, char text[24]) {
    if (isfinite(value) && fabs(value) < 1e18)
        snprintf(text, 24, "%.0f", value);
    else
        snprintf(text, 24, "-");
    return text;
}

const char *watch_reference(const watch_message *message, char text[32]) {
    if (strcmp(message->unit, "1") == 0)
        snprintf(text, 32, "dB");
    else
        snprintf(text, 32, "dB re 1 %s", message->unit[0] ? message->unit : "?");
    return text;
}

/* "01:56:39Z" or "time unknown". */
static const char *clock_time(double utc_ns, char text[16]) {
    char when[40];
    watch_time(utc_ns, when, sizeof when);
    const char *clock = strchr(when, ' ') + 1;
    if (*clock == 'u')
        snprintf(text, 16, "time unknown");
    else
        snprintf(text, 16, "%.8sZ", clock);
    return text;
}

/* "12 s", "3 min", "1.5 h". */
static const char *duration(double seconds, char text[24]) {
    if (seconds < 120)
        snprintf(text, 24, "%.0f s", seconds);
    else if (seconds < 7200)
        snprintf(text, 24, "%.3g min", seconds / 60);
    else
        snprintf(text, 24, "%.3g h", seconds / 3600);
    return text;
}

/* ---- the title ------------------------------------------------------------------------------- */

/* What the axis' name does not say: the frame, the folding, the axis over which the maximum was
 * taken. */
static void describe(const watch_message *message, char *to, size_t bytes) {
    const bool azimuth = strcmp(message->axis, "azimuth") == 0;
    const bool level = isfinite(message->axis_az_deg);
    char heading[24];
    snprintf(to, bytes, "%s%s%s%s%s", message->over[0] ? "largest over " : "", message->over,
             message->over[0] ? ", " : "",
             !azimuth                      ? "by "
             : message->is_true            ? "true bearings"
             : !message->cone              ? "array frame"
             : message->ambiguous && level ? "folded: right|left of axis"
                                           : "folded: all around the axis",
             azimuth ? "" : message->axis);
    const size_t used = strlen(to);
    if (azimuth && used < bytes)
        snprintf(to + used, bytes - used, ", hdg %s", watch_figure(message->heading_deg, heading));
}

/* The most important part comes first, because the end of a long line is cut. */
static void put_title(screen *to, const watch_pane *pane, double quiet_s) {
    const watch_message *message = &pane->message;
    char when[16], window[24], latency[24], age[24], what[96];
    describe(message, what, sizeof what);
    put_line(to, "%s  %s%s%s%s%s%s  %s  %s  #%s  %s ms", message->topic,
             clock_time(message->utc_ns, when), quiet_s > 0 ? "  OLD: " : "",
             quiet_s > 0 ? duration(quiet_s, age) : "", quiet_s > 0 ? " ago" : "",
             message->flags[0] ? "  ! " : "", message->flags, what,
             pane->share ? "% missing" : "dB over median", watch_whole(message->window, window),
             watch_whole(message->latency_us / 1e3, latency));
}

/* ---- the spectrum ---------------------------------------------------------------------------- */

typedef struct scale {
    double bottom, top_least;
    double full; /* level that the waterfall draws with its strongest shade */
    const char *unit;
} scale;

static const scale decibels = {-5, 15, 20, "dB"}, percent = {0, 100, 100, "%"};

static double top_of(const scale *scale, const float *column, int columns) {
    double top = scale->top_least;
    for (int c = 0; c < columns; c++)
        if (column[c] > top)
            top = column[c];
    return 5 * ceil(top / 5);
}

/* A character's share of a bar in eighths; old data are drawn in another texture. */
static void put_bar(watch_text *text, int eighths, bool old) {
    static const char *const block[9] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const int part = eighths < 0 ? 0 : eighths > 8 ? 8 : eighths;
    watch_text_add(text, "%s", !old ? block[part] : part >= 4 ? "░" : " ");
}

static void put_plot(screen *to, const scale *scale, const float *column, int columns, int rows,
                     bool old) {
    const double bottom = scale->bottom, top = top_of(scale, column, columns);
    for (int row = 0; row < rows && to->left > 0; row++) {
        line_begin(to);
        watch_text_add(to->text, "%4.0f %-4s", top - (top - bottom) * row / rows, scale->unit);
        for (int c = 0; c < columns; c++) {
            double height = ((double)column[c] - bottom) / (top - bottom) * rows * 8;
            int eighths = isfinite(height) ? (int)lround(height) - 8 * (rows - 1 - row) : 0;
            put_bar(to->text, eighths, old);
        }
        line_end(to);
    }
}

/* A step of 1, 2, 5, 10, ... or, for angles, 5, 10, 15, 30, 45, 90 that leaves room for labels. */
static double tick_step(double span, int columns, bool angle) {
    static const double angles[] = {5, 10, 15, 30, 45, 90, 180};
    double least = span * 11 / columns;
    for (size_t i = 0; angle && i < sizeof angles / sizeof angles[0]; i++)
        if (angles[i] >= least)
            return angles[i];
    double decade = pow(10, floor(log10(least)));
    return least <= decade       ? decade
           : least <= 2 * decade ? 2 * decade
           : least <= 5 * decade ? 5 * decade
                                 : 10 * decade;
}

typedef int label_maker(const watch_message *message, double x, char label[32]);

static int label_of_axis(const watch_message *message, double x, char label[32]) {
    (void)message;
    return snprintf(label, 32, "%.6g", x);
}

/* "100|320": right and left of the axis. 0: the point has no true bearing. */
static int label_of_true(const watch_message *message, double x, char label[32]) {
    double bearing[2] = {0};
    const int bearings = watch_true_bearings(message, x, bearing);
    const double right = fmod(rint(bearing[0]), 360), left = fmod(rint(bearing[1]), 360);
    return bearings == 0   ? 0
           : bearings == 1 ? snprintf(label, 32, "%.0f", right)
                           : snprintf(label, 32, "%.0f|%.0f", right, left);
}

static void put_axis(screen *to, const watch_pane *pane, int columns, const char *name,
                     label_maker *make) {
    const watch_message *message = &pane->message;
    char line[WATCH_COLUMNS_MOST + WATCH_MARGIN + 1];
    memset(line, ' ', sizeof line);
    double first = message->x[0], span = message->x[message->points - 1] - first;
    double step = span > 0 ? tick_step(span, columns, strcmp(message->axis_unit, "deg") == 0) : 1;
    for (int i = 0; i <= 400; i++) {
        char label[32];
        double x = (ceil(first / step - 1e-9) + i) * step;
        int n = make(message, x, label);
        int c = watch_column(pane, x, columns);
        if (x > first + span + step * 1e-9 || c < 0)
            break;
        int at = c - n / 2 < 0 ? 0 : c + n / 2 >= columns ? columns - n : c - n / 2;
        if (n < columns)
            memcpy(line + WATCH_MARGIN + at, label, (size_t)n);
    }
    line[WATCH_MARGIN + columns] = '\0';
    memcpy(line, name, strnlen(name, WATCH_MARGIN - 1));
    put_line(to, "%s", line);
}

static const char *axis_name(const watch_message *message) {
    if (strcmp(message->axis, "azimuth") != 0)
        return message->axis_unit[0] ? message->axis_unit : message->axis;
    return message->is_true ? "true" : message->cone ? "angle" : "azimuth";
}

/* Number of true bearings of a point of the axis: 0, 1, or 2 on a cone. */
static int sides_of(const watch_message *message) {
    double bearing[2];
    return watch_true_bearings(message, 90, bearing); /* 90: broadside, which every cone contains */
}

static void put_axes(screen *to, const watch_pane *pane, int columns) {
    const int sides = sides_of(&pane->message);
    put_axis(to, pane, columns, axis_name(&pane->message), label_of_axis);
    if (sides > 0)
        put_axis(to, pane, columns, sides > 1 ? "true R|L" : "true", label_of_true);
}

/* ---- tracks below the axis ------------------------------------------------------------------- */

/* The column of an angle; a circle may begin a turn earlier or later. */
static int column_of_angle(const watch_pane *pane, double deg, int columns) {
    for (int turn = -1; turn <= 1; turn++) {
        const int c = isfinite(deg) ? watch_column(pane, deg + 360 * turn, columns) : -1;
        if (c >= 0)
            return c;
    }
    return -1;
}

/* Writes a text with its middle at a column, if it touches no other. */
static void mark(char *line, int columns, int column, const char *label) {
    const int n = (int)strlen(label), middle = column - (n - 1) / 2;
    const int at = middle < 0 ? 0 : middle + n > columns ? columns - n : middle;
    if (column < 0 || n > columns)
        return;
    for (int c = at - 1; c <= at + n; c++)
        if (c >= 0 && c < columns && line[c] != ' ')
            return;
    memcpy(line + at, label, (size_t)n);
}

/* The track's number at its angle, or on an axis of true bearings at each of its bearings. */
static void mark_track(const watch_pane *pane, const watch_track *t, bool is_true, char *line,
                       int columns) {
    static const char *const states[] = {"tentative", "coasting", "lost"}, signs[] = "?~x";
    char number[24], label[32];
    size_t sign = 0;
    while (sign < 3 && strcmp(t->state, states[sign]) != 0)
        sign++;
    snprintf(label, sizeof label, "%s%.1s", watch_whole(t->number, number), signs + sign);
    if (!pane->message.is_true)
        mark(line, columns, column_of_angle(pane, t->az_deg, columns), label);
    for (size_t i = 0; pane->message.is_true && is_true && i < t->bearings; i++)
        mark(line, columns, column_of_angle(pane, t->bearing[i].deg, columns), label);
}

/* The numbers of the tracks; where there is no room for all, those of confirmed ones. */
static void put_numbers(screen *to, const watch_pane *pane, const watch_message *tracks,
                        int columns) {
    char line[WATCH_COLUMNS_MOST + WATCH_MARGIN + 1];
    memset(line, ' ', sizeof line);
    memcpy(line, "tracks", 6);
    for (int confirmed = 1; confirmed >= 0; confirmed--)
        for (size_t i = 0; i < tracks->tracks; i++)
            if ((strcmp(tracks->track[i].state, "confirmed") == 0) == confirmed)
                mark_track(pane, &tracks->track[i], tracks->is_true, line + WATCH_MARGIN, columns);
    line[WATCH_MARGIN + columns] = '\0';
    put_line(to, "%s", line);
}

/* ---- the waterfall --------------------------------------------------------------------------- */

static double strength(const scale *scale, float level) {
    return isfinite(level) ? fmin(fmax((double)level / scale->full, 0), 1) : 0;
}

static void put_shades(screen *to, const scale *scale, const float *column, int columns) {
    static const char *const shade[5] = {" ", "░", "▒", "▓", "█"};
    for (int c = 0; c < columns; c++)
        watch_text_add(to->text, "%s", shade[(int)lround(strength(scale, column[c]) * 4)]);
}

static void put_greys(screen *to, const scale *scale, const float *column, int columns) {
    int last = -1;
    for (int c = 0; c < columns; c++) {
        int grey = 232 + (int)lround(strength(scale, column[c]) * 23);
        if (grey != last)
            watch_text_add(to->text, "\033[48;5;%dm", grey);
        last = grey;
        watch_text_add(to->text, " ");
    }
    watch_text_add(to->text, "\033[0m");
}

/* The margin of a row: now and then its age, and a mark if data are missing. */
static void put_age(screen *to, int row, int rows, double row_s, bool old, bool lossy) {
    const int every = rows <= 8 ? 1 : rows <= 16 ? 2 : 5;
    char age[24], label[32] = "";
    if (row == 0 && !old)
        snprintf(label, sizeof label, "now");
    else if (row > 0 && row % every == 0)
        snprintf(label, sizeof label, "-%s", duration(row * row_s, age));
    watch_text_add(to->text, "%-*.*s%c", WATCH_MARGIN - 1, WATCH_MARGIN - 1, label,
                   lossy ? '!' : ' ');
}

static void put_waterfall(screen *to, const watch_pane *pane, const scale *scale, int columns,
                          int rows, double quiet_s, bool colour) {
    float column[WATCH_COLUMNS_MOST];
    const double row_s = watch_row_seconds(pane, rows);
    for (int row = 0; row < rows && to->left > 0; row++) {
        watch_row kind = watch_fall_row(pane, row, row_s, quiet_s, columns, column);
        line_begin(to);
        put_age(to, row, rows, row_s, quiet_s > 0, kind == WATCH_ROW_LOSSY);
        if (kind == WATCH_ROW_GAP)
            for (int c = 0; c < columns; c++)
                watch_text_add(to->text, "%s", c % 4 ? " " : "-");
        else if (kind != WATCH_ROW_BEFORE && colour)
            put_greys(to, scale, column, columns);
        else if (kind != WATCH_ROW_BEFORE)
            put_shades(to, scale, column, columns);
        line_end(to);
    }
}

/* ---- panes ----------------------------------------------------------------------------------- */

/* `tracks` may be NULL. */
static void put_pane(screen *to, const watch_pane *pane, const watch_message *tracks, int rows,
                     double quiet_s, bool colour) {
    float column[WATCH_COLUMNS_MOST];
    const scale *scale = pane->share ? &percent : &decibels;
    const int columns = to->width - WATCH_MARGIN;
    const bool old = quiet_s > 0;
    const bool numbers = tracks && strcmp(pane->message.axis, "azimuth") == 0;
    rows -= 2 + (sides_of(&pane->message) > 0) + numbers; /* title, axes and tracks */
    const int plot = rows > 4 ? (rows + 1) / 2 : rows > 1 ? rows : 1;
    to->style = old ? FAINT : PLAIN;
    put_title(to, pane, quiet_s);
    if (pane->message.points == 0 || columns < 2) {
        put_line(to, "no array in this message");
    } else {
        watch_columns(pane, pane->level, columns, column);
        put_plot(to, scale, column, columns, plot, old);
        put_axes(to, pane, columns);
        if (numbers)
            put_numbers(to, pane, tracks, columns);
        put_waterfall(to, pane, scale, columns, rows - plot, quiet_s, colour && !old);
    }
    to->style = PLAIN;
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
    size_t shown = (int)message->detections < rows - 1 ? message->detections : (size_t)rows - 1;
    put_line(to, "%5s mirror %7s   +- %13s SNR dB range m from     image  side %zu/%zu",
             message->is_true ? "true" : "array", message->cone ? "angle" : "azimuth",
             watch_reference(message, level), shown, message->detections);
    for (size_t i = 0; i < message->detections && (int)i < rows - 1; i++) {
        const watch_detection *d = &message->detection[i];
        char a[24], b[24], g[24], s[24], c[24], e[24], f[24];
        put_line(to, "%5s %6s %7s %4s %13s %6s %7s%s%-8s %-6s %s", watch_figure(d->bearing_deg, a),
                 watch_figure(d->mirror_deg, b), watch_figure(d->az_deg, g),
                 watch_sigma(d->sigma_deg, s), watch_figure(d->level_db, c),
                 watch_figure(d->snr_db, e), watch_figure(d->range_m, f),
                 d->range_unresolved ? "?" : " ", d->source, d->possible_image ? "image?" : "",
                 d->side[0] ? d->side : "-");
    }
    for (int i = (int)message->detections; i < rows - 1; i++)
        put_line(to, "%s", "");
}

/* "102.5", or of both sides "102.5|317.5". */
static const char *both_bearings(const watch_track *t, char text[64]) {
    char first[24], second[24];
    const bool both = t->bearings == 2;
    snprintf(text, 64, "%s%s%s", watch_figure(t->bearings ? t->bearing[0].deg : NAN, first),
             both ? "|" : "", both ? watch_figure(t->bearing[1].deg, second) : "");
    return text;
}

static void put_tracks(screen *to, const watch_message *message, int rows) {
    if (rows < 1)
        return;
    const size_t shown = (int)message->tracks < rows - 1 ? message->tracks : (size_t)rows - 1;
    put_line(to, "track %11s   +- deg/min   +- SNR dB unheard s state     side %zu/%zu",
             message->is_true ? "true" : "array", shown, message->tracks);
    for (size_t i = 0; i < shown; i++) {
        const watch_track *t = &message->track[i];
        char number[24], both[64], sigma[24], rate_sigma[24], snr[24], unheard[24], rate[24] = "-";
        if (t->bearings && isfinite(t->bearing[0].rate_dpm))
            snprintf(rate, sizeof rate, "%+.2f", fmin(fmax(t->bearing[0].rate_dpm, -1e3), 1e3));
        put_line(to, "%5s %11s %4s %7s %4s %6s %9s %-9s %s", watch_whole(t->number, number),
                 both_bearings(t, both), watch_sigma(t->bearing[0].sigma_deg, sigma), rate,
                 watch_sigma(t->bearing[0].rate_sigma_dpm, rate_sigma),
                 watch_figure(t->snr_db, snr), watch_whole(t->unheard_s, unheard), t->state,
                 t->bearings == 1 && t->bearing[0].side[0] ? t->bearing[0].side : "-");
    }
    for (int i = (int)message->tracks; i < rows - 1; i++)
        put_line(to, "%s", "");
}

static void put_health(screen *to, const watch_status *s) {
    char in[24], lost[24], windows[24], p99[24];
    if (s->text[0])
        put_line(to, "%s: %s", s->health, s->text);
    else
        put_line(to, "%s  frames %s in, %s lost%s%s%s  windows lost %s  p99 %s ms", s->health,
                 watch_whole(s->received, in), watch_whole(s->dropped, lost),
                 s->losses[0] ? " (" : "", s->losses, s->losses[0] ? ")" : "",
                 watch_whole(s->windows_lost, windows), watch_figure(s->p99_us / 1e3, p99));
}

static const double STATUS_DUE_S = 2;

/* How long the daemon has been silent, if longer than the time within which a status must arrive;
 * otherwise 0. */
static double silence(const watch_view *view) {
    const double silent_s = view->now_s - (view->status ? view->status_s : view->began_s);
    return silent_s > STATUS_DUE_S ? silent_s : 0;
}

static void put_status(screen *to, const watch_view *view) {
    char since[24];
    const double silent_s = silence(view);
    if (!view->status)
        put_line(to, "no status yet");
    else if (silent_s > 0)
        put_line(to, "no status for %s; the last one was: %s", duration(silent_s, since),
                 view->status->status.health);
    else
        put_health(to, &view->status->status);
    const char *array = view->panes ? view->pane[0]->message.array : "";
    put_line(to, "this viewer: %llu messages, %llu missed%s%s; q quits",
             (unsigned long long)view->received, (unsigned long long)view->lost,
             array[0] ? "; array " : "", array);
}

/* ---- the screen ------------------------------------------------------------------------------ */

/* The first lines when the daemon is silent, with the reason if it is known. */
static void put_banner(screen *to, const watch_view *view) {
    const double silent_s = silence(view), age_s = view->now_s - view->result_s;
    const char *endpoint = view->endpoint ? view->endpoint : "";
    char silent[24], age[24], when[16];
    duration(silent_s, silent);
    to->style = REVERSED;
    if (!isfinite(view->result_s) && view->status)
        put_line(to, " NO STATUS for %s; no data either; %s ", silent, endpoint);
    else if (!isfinite(view->result_s))
        put_line(to, " NOTHING for %s from %s%s", silent, endpoint,
                 view->why ? " " : ": is sonard running there? ");
    else if (age_s <= STATUS_DUE_S)
        put_line(to, " NO STATUS for %s, but data; %s ", silent, endpoint);
    else
        put_line(to, " NO STATUS for %s; last data %s, %s ago; %s ", silent,
                 clock_time(view->result_utc_ns, when), duration(age_s, age), endpoint);
    if (view->why) {
        char it[256];
        snprintf(it, sizeof it, "it %s", view->why);
        put_words(to, it);
    }
    to->style = PLAIN;
}

void watch_render(const watch_view *view, int width, int height, watch_text *text) {
    width = width < 1 ? 1 : width < WATCH_COLUMNS_MOST - 1 ? width : WATCH_COLUMNS_MOST - 1;
    screen to = {.text = text, .width = width, .left = height, .first = true, .style = PLAIN};
    const int panes = view->panes ? (int)view->panes : 1;
    const int table = height >= 20 ? (height >= 30 ? 9 : panes > 1 ? 4 : 5) : height >= 12 ? 2 : 0;
    const bool silent = silence(view) > 0;
    if (silent)
        put_banner(&to, view);
    const int each = (to.left - 2 - table) / panes;
    to.left -= table + 2;
    for (size_t i = 0; i < view->panes; i++) {
        const watch_pane *pane = view->pane[i];
        const bool lives =
            !silent || !view->status; /* also if its status is not published at all */
        put_pane(&to, pane, view->tracks, each, watch_pane_quiet(pane, view->now_s, lives),
                 view->colour);
    }
    if (view->panes == 0)
        put_line(&to, "waiting for a spectrum; q quits");
    to.left += table;
    to.style = silent ? FAINT : PLAIN;
    if (view->tracks)
        put_tracks(&to, view->tracks, table);
    else
        put_detections(&to, view->detections, table);
    to.style = PLAIN;
    to.left += 2;
    put_status(&to, view);
    if (to.left > 0)
        watch_text_add(text, "\n\033[J");
}
