/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The viewer's output as text: pure functions from messages to lines, without a terminal. */
#ifndef WATCH_RENDER_H
#define WATCH_RENDER_H

#include "pane.h"

enum { WATCH_PANES_MOST = 4, WATCH_MARGIN = 9, WATCH_COLUMNS_MOST = 1024 };

/* Growing text. `failed` if memory ran out; the text is incomplete then. */
typedef struct watch_text {
    char *data;
    size_t bytes, room;
    bool failed;
} watch_text;

void watch_text_add(watch_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void watch_text_free(watch_text *text);

typedef struct watch_view {
    watch_pane *pane[WATCH_PANES_MOST];
    size_t panes;
    const watch_message *detections, *status; /* NULL: none received yet */
    const watch_message
        *tracks; /* shown in place of the detections; NULL: not asked for, or none yet */
    uint64_t received, lost; /* by this reader, from gaps in seq */
    bool colour;             /* 256 colours; otherwise shade characters */
    const char *endpoint;
    const char *why; /* nothing is received: what is known of the endpoint, or NULL */
    /* On the reader's monotonic clock: now, the start, and when the last status and the last result
     * were received. */
    double now_s, began_s, status_s, result_s;
    double result_utc_ns; /* of the last result's samples; NaN: unknown */
} watch_view;

/* A whole screen of at most `height` lines of at most `width` columns, every line cleared before it
 * is written and ended by newline but the last, which has no newline. If the daemon is silent, or a
 * pane's topic has stopped, old data are marked as old. */
void watch_render(const watch_view *view, int width, int height, watch_text *text);

/* "62.1", or "-" if unknown; whole numbers; text has room for 24 characters. */
const char *watch_figure(double value, char text[24]);
/* Of a standard deviation: two decimals below 10, rounded up. */
const char *watch_sigma(double value, char text[24]);
const char *watch_whole(double value, char text[24]);
/* "dB re 1 uPa^2"; "dB" for ratios, which have no reference. text has room for 32 characters. */
const char *watch_reference(const watch_message *message, char text[32]);

/* One line of plain text about a message, with newline, for output that is not a terminal. */
void watch_line(const watch_message *message, watch_text *text);
/* The message as one JSON line: the header as received, and "data" if the array has one dimension.
 * Writes nothing if the header is not a JSON object. */
void watch_json(const char *header, size_t header_bytes, const void *body, size_t body_bytes,
                watch_text *text);

#endif
