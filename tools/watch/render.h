/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the viewer shows, as text: pure functions from messages to lines, no terminal in sight. */
#ifndef WATCH_RENDER_H
#define WATCH_RENDER_H

#include "message.h"

enum { WATCH_PANES_MOST = 4, WATCH_FALL_ROWS = 16, WATCH_MARGIN = 7, WATCH_COLUMNS_MOST = 1024 };

/* Growing text. `failed` once memory ran out: what is there is then incomplete. */
typedef struct watch_text {
    char *data;
    size_t bytes, room;
    bool failed;
} watch_text;

void watch_text_add(watch_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void watch_text_free(watch_text *text);

/* One array topic: its last message, levels over the median, and the last windows' levels. */
typedef struct watch_pane {
    watch_message message;
    float db[WATCH_POINTS_MOST], scratch[WATCH_POINTS_MOST];
    double median;
    float fall[WATCH_FALL_ROWS][WATCH_POINTS_MOST]; /* ring */
    size_t fall_next, fall_rows;
} watch_pane;

/* Takes a message in; a different axis or run starts the waterfall anew. */
void watch_pane_take(watch_pane *pane, const watch_message *message);

typedef struct watch_view {
    watch_pane *pane[WATCH_PANES_MOST];
    size_t panes;
    const watch_message *detections, *status; /* NULL: none came yet */
    uint64_t received, lost;                  /* by this reader, from gaps in seq */
    bool colour;                              /* 256 colours; otherwise shade characters */
} watch_view;

/* A whole screen of at most `height` lines of at most `width` columns, every line ended by
 * clear-to-end-of-line and newline but the last, which has no newline. */
void watch_render(const watch_view *view, int width, int height, watch_text *text);

/* The column of `columns` that shows x, for an axis from x[0] to x[points-1]; -1 outside. */
int watch_column(const watch_pane *pane, double x, int columns);
/* The largest level of each column's points, the nearest point's where a column has none. */
void watch_columns(const watch_pane *pane, const float *db, int columns, float *column);

/* One line of plain text about a message, with newline, for output that is no terminal. */
void watch_line(const watch_message *message, watch_text *text);
/* The message as one JSON line: the header as it came, and "data" where the array has one
 * dimension. Nothing if the header is no JSON object. */
void watch_json(const char *header, size_t header_bytes, const void *body, size_t body_bytes,
                watch_text *text);

#endif
