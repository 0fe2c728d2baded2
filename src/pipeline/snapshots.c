/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which snapshots the covariance holds: sub-windows at multiples of the MVDR's hop, each taken
 * once, with the window in which it ends. */
#include "pipeline/internal.h"

void sonar_snapshots_forget(struct history *history) {
    history->count = 0;
    history->next = 0;
}

uint64_t sonar_snapshots_oldest(const struct history *h) {
    return h->first_sample[h->count > h->length ? h->count % h->length : 0];
}

/* The snapshot [first, first + length) enters the covariance. */
static void note(struct history *h, uint64_t first, size_t length) {
    if (!h->forgets || h->count == 0)
        h->first_sample[h->count % h->length] = first;
    h->count++;
    h->end_sample = first + length;
}

bool sonar_window_touches_gap(const sonar_window *window, uint64_t first, size_t length) {
    return window->gap_first < window->gap_end && first < window->gap_end &&
           first + length > window->gap_first;
}

/* Sub-windows of [first, first + c->length) from `next` on, which moves behind them. */
static struct plan plan_from(const sonar_config *c, uint64_t first, uint64_t *next) {
    uint64_t end = first + c->length;
    if (*next < first)
        *next = (first + c->mvdr_hop - 1) / c->mvdr_hop * c->mvdr_hop;
    struct plan plan = {.offset = (size_t)(*next - first)};
    for (; *next + c->mvdr_length <= end; *next += c->mvdr_hop)
        plan.count++;
    return plan;
}

struct plan sonar_snapshots_plan(sonar_pipeline *p, const sonar_window *window) {
    const sonar_config *c = p->config;
    struct plan plan = {0};
    if (!c->mvdr_enabled)
        return plan;
    if (p->own_mvdr_dft)
        plan = plan_from(c, window->first_sample, &p->history.next);
    else
        plan.count = 1;
    for (size_t i = 0; i < plan.count; i++) {
        uint64_t first = window->first_sample + plan.offset + i * c->mvdr_hop;
        if (!sonar_window_touches_gap(window, first, c->mvdr_length))
            note(&p->history, first, c->mvdr_length);
    }
    return plan;
}

bool sonar_snapshots_usual(const sonar_config *c, bool own_dft, struct plan *plan) {
    *plan = (struct plan){.count = c->mvdr_enabled};
    if (!c->mvdr_enabled || !own_dft)
        return true;
    uint64_t next = 0;
    for (uint64_t window = 0; window < 4; window++) /* settled after the first two at most */
        *plan = plan_from(c, window * c->hop, &next);
    return c->hop % c->mvdr_hop == 0;
}
