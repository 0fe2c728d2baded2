/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Chooses the snapshots of the covariance: those at multiples of the MVDR's hop. Each is taken
 * once, with the first window that contains its end; it may begin before that window. */
#include "engine/internal.h"

void sonar_snapshots_forget(struct history *history) {
    history->count = 0;
    history->next = 0;
}

sonar_code sonar_snapshots_create(sonar_engine *e, sonar_error *err) {
    const sonar_mvdr_spec *mvdr = &e->spec.specs->mvdr;
    struct history *h = &e->history;
    if (!e->spec.specs->mvdr_enabled)
        return SONAR_OK;
    h->forgets = mvdr->alpha > 0;
    h->length = h->forgets ? 1 : mvdr->snapshots;
    h->first_sample = sonar_alloc(h->length, sizeof *h->first_sample);
    e->keep = sonar_alloc(mvdr->max_new, 1);
    return h->first_sample && e->keep
               ? SONAR_OK
               : sonar_fail(err, SONAR_ENOMEM, "engine",
                            "no memory for the history of %zu snapshots", h->length);
}

sonar_engine_snapshots sonar_engine_read_snapshots(const sonar_engine *e) {
    const struct history *h = &e->history;
    if (!h->count)
        return (sonar_engine_snapshots){0};
    size_t oldest = h->count > h->length ? (size_t)(h->count % h->length) : 0;
    return (sonar_engine_snapshots){h->count, h->first_sample[oldest], h->end_sample};
}

/* Adds the snapshot [first, first + length) to the history. */
static void note(struct history *h, uint64_t first, size_t length) {
    if (!h->forgets || h->count == 0)
        h->first_sample[h->count % h->length] = first;
    h->count++;
    h->end_sample = first + length;
}

/* Plans the snapshots in the window that begins at `first` and in the `lookback` samples before it,
 * from `next` on; advances `next` past them. */
static struct plan plan_from(const sonar_specs *specs, uint64_t first, size_t lookback,
                             uint64_t *next) {
    uint64_t from = first - lookback, end = first + specs->window_length;
    if (*next < from)
        *next = (from + specs->mvdr_hop - 1) / specs->mvdr_hop * specs->mvdr_hop;
    struct plan plan = {.offset = (int64_t)(*next - first)};
    for (; *next + specs->mvdr.length <= end; *next += specs->mvdr_hop)
        plan.count++;
    return plan;
}

uint64_t sonar_snapshots_first(const sonar_specs *specs, const sonar_window *window,
                               const struct plan *plan, size_t index) {
    return window->first_sample + (uint64_t)plan->offset + index * specs->mvdr_hop;
}

/* With ranks, only snapshots that all ranks have are chosen. */
sonar_code sonar_snapshots_choose(sonar_engine *e, const sonar_engine_job *given, struct job *job,
                                  sonar_error *err) {
    const sonar_specs *specs = e->spec.specs;
    const sonar_window *window = given->window;
    if (specs->mvdr_enabled && specs->own_mvdr_dft)
        job->plan = plan_from(specs, window->first_sample, given->lookback, &e->history.next);
    else
        job->plan.count = specs->mvdr_enabled;
    job->keep = e->keep;
    for (size_t i = 0; i < job->plan.count; i++)
        e->keep[i] =
            !given->absent &&
            sonar_window_is_whole(window, sonar_snapshots_first(specs, window, &job->plan, i),
                                  specs->mvdr.length);
    sonar_code code = job->plan.count ? e->crossing->keep(e, job->plan.count, err) : SONAR_OK;
    for (size_t i = 0; i < job->plan.count && !code; i++)
        if (e->keep[i]) {
            note(&e->history, sonar_snapshots_first(specs, window, &job->plan, i),
                 specs->mvdr.length);
            job->taken++;
        }
    return code;
}

bool sonar_snapshots_usual(const sonar_specs *specs, struct plan *plan) {
    *plan = (struct plan){.count = specs->mvdr_enabled};
    if (!specs->mvdr_enabled || !specs->own_mvdr_dft)
        return true;
    uint64_t next = 0;
    for (uint64_t window = 0; window < 4;
         window++) /* the plan is constant after the first two windows at most */
        *plan = plan_from(specs, window * specs->hop, window ? specs->mvdr_lookback : 0, &next);
    return specs->hop % specs->mvdr_hop == 0;
}
