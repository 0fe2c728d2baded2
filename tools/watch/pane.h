/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One array topic as it is drawn: the levels of its last message, and those of the last minutes as
 * a waterfall. Times are in seconds; parameters named now_s are on the reader's monotonic clock. */
#ifndef WATCH_PANE_H
#define WATCH_PANE_H

#include "message.h"

enum { WATCH_FALL_SLOTS = 160, WATCH_FALL_LEAST_S = 60 };

/* The windows that ended in one second of the waterfall's clock. */
typedef struct watch_slot {
    double second;
    unsigned windows;
    bool lossy; /* windows before it, or samples in it, are missing */
    float sum[WATCH_POINTS_MOST];
} watch_slot;

typedef struct watch_pane {
    watch_message message;
    /* Of the last message: power over the median of all, or the share; in dB, or percent. */
    float ratio[WATCH_POINTS_MOST], level[WATCH_POINTS_MOST], scratch[WATCH_POINTS_MOST];
    double median; /* power; NaN: no power is positive */
    bool share;    /* watch_is_share */
    double came_s; /* when the last message was received, now_s */
    /* The waterfall's clock counts samples; between streams it counts the reader's time. */
    double clock_s, interval_s;
    watch_slot slot[WATCH_FALL_SLOTS]; /* ring */
    size_t slots, next;
} watch_pane;

/* Adds a message; another axis or unit clears the waterfall. */
void watch_pane_take(watch_pane *pane, const watch_message *message, double now_s);
/* How long no message was received; 0 while that is normal: up to 2 s, or up to 2 s and two windows
 * if `daemon_lives`. */
double watch_pane_quiet(const watch_pane *pane, double now_s, bool daemon_lives);

/* The column that shows x, for an axis from x[0] to x[points-1] over `columns` columns; -1
 * outside. */
int watch_column(const watch_pane *pane, double x, int columns);
/* The largest value of each column's points; a column without points gets the nearest point's
 * value. */
void watch_columns(const watch_pane *pane, const float *value, int columns, float *column);

/* Seconds that a row of the waterfall covers, a whole number. `rows` rows show at least a minute,
 * and a row is not shorter than the time between two windows. */
double watch_row_seconds(const watch_pane *pane, int rows);

typedef enum watch_row {
    WATCH_ROW_BEFORE = 0, /* before the first message */
    WATCH_ROW_GAP,        /* no message was received */
    WATCH_ROW_LEVELS,
    WATCH_ROW_LOSSY /* levels, but some data are missing */
} watch_row;

/* Levels of the mean over the windows of a row. Row 0 is the newest, quiet_s after the last
 * message. column has `columns` entries, which are set if the row has levels. */
watch_row watch_fall_row(const watch_pane *pane, int row, double row_s, double quiet_s, int columns,
                         float *column);

#endif
