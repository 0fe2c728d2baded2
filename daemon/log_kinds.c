/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "log_kinds.h"

#include <stdio.h>
#include <string.h>

static const int64_t period_ns = LOG_PERIOD_S * 1000000000LL;

static bool is_over(const log_kind *k, int64_t now_ns) {
    return now_ns >= k->began_ns + period_ns;
}

static bool is_free(const log_kind *k, int64_t now_ns) {
    return !k->lines || (is_over(k, now_ns) && !k->left_out && !k->owed);
}

/* The kind's own entry; else a free one, which gets its name; else the entry that the other kinds
 * share. */
static log_kind *find(log_kinds *kinds, sonar_level level, const char *where, int64_t now_ns) {
    log_kind *room = NULL;
    for (size_t i = 0; i < LOG_KINDS; i++) {
        log_kind *k = &kinds->kind[i];
        if (k->lines && k->level == level && !strncmp(k->where, where, sizeof k->where - 1))
            return k;
        if (!room && is_free(k, now_ns))
            room = k;
    }
    if (!room)
        return &kinds->kind[LOG_KINDS];
    *room = (log_kind){.level = level, .began_ns = now_ns};
    snprintf(room->where, sizeof room->where, "%s", where);
    return room;
}

bool log_kinds_admit(log_kinds *kinds, sonar_level level, const char *where, int64_t now_ns) {
    log_kind *k = find(kinds, level, where, now_ns);
    if (!k->lines || is_over(k, now_ns)) {
        k->began_ns = now_ns;
        k->lines = 0;
        k->owed += k->left_out;
        k->left_out = 0;
    }
    if (k->lines < LOG_LINES_A_PERIOD) {
        k->lines++;
        return true;
    }
    k->left_out++;
    return false;
}

bool log_kinds_take(log_kinds *kinds, int64_t now_ns, log_kind *over) {
    for (size_t i = 0; i <= LOG_KINDS; i++) {
        log_kind *k = &kinds->kind[i];
        if (is_over(k, now_ns)) {
            k->owed += k->left_out;
            k->left_out = 0;
        }
        if (!k->owed)
            continue;
        *over = *k;
        k->owed = 0;
        if (i == LOG_KINDS)
            snprintf(over->where, sizeof over->where, "log");
        return true;
    }
    return false;
}

int64_t log_kinds_due_ns(const log_kinds *kinds) {
    int64_t due_ns = INT64_MAX;
    for (size_t i = 0; i <= LOG_KINDS; i++) {
        const log_kind *k = &kinds->kind[i];
        const int64_t this_ns = k->owed ? 0 : k->left_out ? k->began_ns + period_ns : INT64_MAX;
        due_ns = this_ns < due_ns ? this_ns : due_ns;
    }
    return due_ns;
}
