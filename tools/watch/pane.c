/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "pane.h"

#include <math.h>
#include <string.h>

/* ---- time ------------------------------------------------------------------------------------ */

static bool same_stream(const watch_message *a, const watch_message *b) {
    return strcmp(a->run, b->run) == 0 && a->epoch == b->epoch && a->fs_hz == b->fs_hz;
}

/* Seconds from the last message's samples to this one's. A stream that jumps ahead by its index
 * clears the waterfall. */
static double elapsed_s(const watch_pane *pane, const watch_message *message, double now_s) {
    static const double MOST_S = 1e6;
    const watch_message *last = &pane->message;
    const double step_s = (message->sample_index - last->sample_index) / message->fs_hz;
    const bool counted = same_stream(last, message) && step_s >= 0;
    return fmin(counted ? step_s : fmax(now_s - pane->came_s, 0), MOST_S);
}

double watch_pane_quiet(const watch_pane *pane, double now_s, bool daemon_lives) {
    const double age_s = now_s - pane->came_s;
    return age_s > 2 + (daemon_lives ? 2 * pane->interval_s : 0) ? age_s : 0;
}

double watch_row_seconds(const watch_pane *pane, int rows) {
    static const double nice[] = {1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600};
    const size_t count = sizeof nice / sizeof nice[0];
    const double least =
        fmax((double)WATCH_FALL_LEAST_S / (rows > 0 ? rows : 1),
             1.2 * pane->interval_s); /* 1.2, so that rounding leaves no row empty */
    for (size_t i = 0; i < count; i++)
        if (nice[i] >= least)
            return nice[i];
    return nice[count - 1] * ceil(least / nice[count - 1]);
}

/* ---- messages -------------------------------------------------------------------------------- */

static bool same_axis(const watch_message *a, const watch_message *b) {
    return a->points == b->points && strcmp(a->unit, b->unit) == 0 &&
           memcmp(a->x, b->x, a->points * sizeof a->x[0]) == 0;
}

static float level_of(const watch_pane *pane, float ratio) {
    if (pane->share)
        return ratio >= 0 ? 100 * fminf(ratio, 1) : NAN;
    return ratio > 0 ? 10 * log10f(ratio) : NAN;
}

static void make_levels(watch_pane *pane) {
    const watch_message *message = &pane->message;
    pane->share = watch_is_share(message);
    pane->median = watch_over_median(message->points, message->power, pane->level, pane->scratch);
    const double unit = pane->share ? 1 : pane->median;
    for (size_t i = 0; i < message->points; i++) {
        const float ratio = (float)((double)message->power[i] / unit);
        pane->ratio[i] = isfinite(ratio) && ratio > 0 ? ratio : 0;
        pane->level[i] = isfinite(message->power[i]) ? level_of(pane, ratio) : NAN;
    }
}

static watch_slot *newest(watch_pane *pane) {
    return &pane->slot[(pane->next + WATCH_FALL_SLOTS - 1) % WATCH_FALL_SLOTS];
}

static watch_slot *slot_for(watch_pane *pane, double second) {
    if (pane->slots > 0 && newest(pane)->second == second)
        return newest(pane);
    watch_slot *slot = &pane->slot[pane->next];
    pane->next = (pane->next + 1) % WATCH_FALL_SLOTS;
    pane->slots += pane->slots < WATCH_FALL_SLOTS;
    slot->second = second;
    slot->windows = 0;
    slot->lossy = false;
    memset(slot->sum, 0, pane->message.points * sizeof slot->sum[0]);
    return slot;
}

void watch_pane_take(watch_pane *pane, const watch_message *message, double now_s) {
    const watch_message *last = &pane->message;
    const bool first = pane->slots == 0 || !same_axis(last, message);
    bool skipped = false;
    if (first) {
        pane->slots = pane->next = 0;
        pane->clock_s = pane->interval_s = 0;
    } else {
        const double step_s = elapsed_s(pane, message, now_s);
        pane->clock_s += step_s;
        if (same_stream(last, message) && message->window == last->window + 1)
            pane->interval_s = step_s;
        skipped = step_s > 1.5 * pane->interval_s || message->window > last->window + 1;
    }
    pane->message = *message;
    pane->came_s = now_s;
    make_levels(pane);
    if (message->points == 0 || (!pane->share && isnan(pane->median)))
        return; /* a message without levels is a gap */
    watch_slot *slot = slot_for(pane, floor(pane->clock_s));
    slot->windows++;
    slot->lossy |= skipped || strstr(message->flags, "gap") != NULL;
    for (size_t i = 0; i < message->points; i++)
        slot->sum[i] += pane->ratio[i];
}

/* ---- columns --------------------------------------------------------------------------------- */

/* Column centres extend from the first to the last x. */
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

void watch_columns(const watch_pane *pane, const float *value, int columns, float *column) {
    const watch_message *message = &pane->message;
    for (int c = 0; c < columns; c++)
        column[c] = NAN;
    if (message->points == 0)
        return;
    static const float nothing = -1e30F; /* the column has a point, but it has no level */
    for (size_t i = 0; i < message->points; i++) {
        int c = watch_column(pane, message->x[i], columns);
        float level = isfinite(value[i]) ? value[i] : nothing;
        if (c >= 0 && !(column[c] >= level))
            column[c] = level;
    }
    double first = message->x[0], span = message->x[message->points - 1] - first;
    size_t near = 0; /* the axis is sorted, so the search for the nearest point only advances */
    for (int c = 0; c < columns; c++) {
        double x = columns > 1 ? first + span * c / (columns - 1) : first;
        while (near + 1 < message->points &&
               fabs(message->x[near + 1] - x) <= fabs(message->x[near] - x))
            near++;
        if (isnan(column[c]))
            column[c] = value[near];
        if (column[c] == nothing)
            column[c] = NAN;
    }
}

/* ---- the waterfall --------------------------------------------------------------------------- */

watch_row watch_fall_row(const watch_pane *pane, int row, double row_s, double quiet_s, int columns,
                         float *column) {
    static float sum[WATCH_POINTS_MOST];
    const double wanted = floor((pane->clock_s + quiet_s) / row_s) - row;
    const size_t points = pane->message.points;
    unsigned windows = 0;
    bool lossy = false, before = true;
    memset(sum, 0, points * sizeof sum[0]);
    for (size_t i = 0; i < pane->slots; i++) {
        const watch_slot *slot = &pane->slot[i];
        const double at = floor(slot->second / row_s);
        before = before && at > wanted;
        if (at != wanted)
            continue;
        windows += slot->windows;
        lossy |= slot->lossy;
        for (size_t p = 0; p < points; p++)
            sum[p] += slot->sum[p];
    }
    if (windows == 0)
        return before ? WATCH_ROW_BEFORE : WATCH_ROW_GAP;
    watch_columns(pane, sum, columns, column);
    for (int c = 0; c < columns; c++)
        column[c] = level_of(pane, column[c] / (float)windows);
    return lossy ? WATCH_ROW_LOSSY : WATCH_ROW_LEVELS;
}
