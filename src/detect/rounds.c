/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Refines several peaks at a time. The beamformer gets the points of all peaks of a round in one
 * call, because each call waits for the device, and a few points cost as much as many. */
#include "detect/search.h"

#include "core/core.h"

/* Moves to the next step that needs powers. */
static void begin(const sonar_search *s, sonar_task *t) {
    while (*t->step && !(*t->step)->begin(s, t))
        t->step++;
    t->rounds = 0;
}

/* Points of several tasks in one call. */
typedef struct batch {
    size_t n;
    double az_deg[SONAR_DETECT_POINTS], range_m[SONAR_DETECT_POINTS];
    float power[SONAR_DETECT_POINTS];
} batch;
_Static_assert((int)SONAR_TASK_POINTS <= (int)SONAR_DETECT_POINTS,
               "a task's points are one call's");

static void add(batch *b, const sonar_task *t) {
    for (size_t i = 0; i < t->n; i++) {
        b->az_deg[b->n] = t->az_deg[i];
        b->range_m[b->n++] = t->range_m[i];
    }
}

static sonar_code ask(const sonar_search *s, batch *b, sonar_task *task, size_t tasks) {
    const sonar_code code = s->power_at(s->ctx, b->n, b->az_deg, b->range_m, b->power, s->err);
    const float *power = b->power;
    for (size_t k = 0; k < tasks && !code; k++)
        for (size_t i = 0; i < task[k].n; i++, power++)
            task[k].power[i] = isfinite(*power) ? *power : 0;
    return code;
}

/* The powers of all tasks' points, call by call. */
static sonar_code ask_all(const sonar_search *s, sonar_task *task, size_t tasks) {
    sonar_code code = SONAR_OK;
    for (size_t first = 0, end = 0; first < tasks && !code; first = end) {
        batch b = {.n = 0};
        for (; end < tasks && b.n + task[end].n <= SONAR_DETECT_POINTS; end++)
            add(&b, &task[end]);
        if (b.n)
            code = ask(s, &b, task + first, end - first);
    }
    return code;
}

sonar_code sonar_rounds(const sonar_search *s, sonar_task *task, size_t tasks) {
    for (size_t k = 0; k < tasks; k++)
        begin(s, &task[k]);
    for (;;) {
        size_t points = 0;
        for (size_t k = 0; k < tasks; k++) {
            task[k].n = 0;
            if (*task[k].step)
                (*task[k].step)->ask(s, &task[k]);
            points += task[k].n;
        }
        if (!points)
            return SONAR_OK;
        const sonar_code code = ask_all(s, task, tasks);
        if (code)
            return code;
        for (size_t k = 0; k < tasks; k++) {
            sonar_task *t = &task[k];
            t->rounds++;
            if (*t->step && (*t->step)->take(s, t)) {
                t->step++;
                begin(s, t);
            }
        }
    }
}
