/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which snapshots the covariance holds: those at multiples of the MVDR's hop, each taken once, with
 * the first window that holds its end. It may begin before that window. */
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

/* Snapshots of the window that begins at `first` and the `lookback` samples before it, from `next`
 * on, which moves behind them. */
static struct plan plan_from(const sonar_config *c, uint64_t first, size_t lookback,
                             uint64_t *next) {
    uint64_t from = first - lookback, end = first + c->length;
    if (*next < from)
        *next = (from + c->mvdr_hop - 1) / c->mvdr_hop * c->mvdr_hop;
    struct plan plan = {.offset = (int64_t)(*next - first)};
    for (; *next + c->mvdr_length <= end; *next += c->mvdr_hop)
        plan.count++;
    return plan;
}

uint64_t sonar_snapshots_first(const sonar_config *c, const sonar_window *window,
                               const struct plan *plan, size_t index) {
    return window->first_sample + (uint64_t)plan->offset + index * c->mvdr_hop;
}

struct plan sonar_snapshots_plan(sonar_pipeline *p, const sonar_window *window) {
    const sonar_config *c = p->config;
    struct plan plan = {0};
    if (!c->mvdr_enabled)
        return plan;
    if (p->own_mvdr_dft)
        plan = plan_from(c, window->first_sample, window->lookback, &p->history.next);
    else
        plan.count = 1;
    for (size_t i = 0; i < plan.count; i++) {
        uint64_t first = sonar_snapshots_first(c, window, &plan, i);
        if (sonar_window_is_whole(window, first, c->mvdr_length))
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
        *plan = plan_from(c, window * c->hop, window ? c->mvdr_lookback : 0, &next);
    return c->hop % c->mvdr_hop == 0;
}
