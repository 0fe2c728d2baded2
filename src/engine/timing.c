/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <string.h>

#include "engine/internal.h"

/* ---- stages ---------------------------------------------------------------------------------- */

static uint64_t in_ns(double us) {
    return us > 0 ? (uint64_t)(us * 1e3) : 0;
}

static void add_us(sonar_engine *e, int stage, sonar_stage_part part, double us) {
    sonar_histogram_add(&e->spec.times->part[stage][part], in_ns(us));
}

/* Also keeps the last time of each stage, for the status. */
static void note_last(sonar_engine *e, int stage, uint64_t ns) {
    e->timestamps.last_ns[stage] = ns;
    atomic_store_explicit(&e->spec.times->last_ns[stage], ns, memory_order_relaxed);
}

/* The device's side, if it is this stage's and has timestamps; else NULL. */
static const struct side *timed_side(const sonar_engine *e, int stage) {
    const struct stage *const stages[] = {&e->dft, &e->cbf, &e->mvdr};
    const struct side *side = stages[stage]->side;
    return e->timestamps.window && side == &e->side[DEVICE_SIDE] ? side : NULL;
}

static sonar_code record_timestamp(sonar_engine *e, const struct side *side, int edge,
                                   sonar_error *err) {
    struct timestamps *m = &e->timestamps;
    sonar_code code = side->backend->record(side->queue, m->edge[edge], err);
    if (!code)
        m->recorded |= 1u << edge;
    return code;
}

sonar_code sonar_timing_window(sonar_engine *e, sonar_error *err) {
    struct timestamps *m = &e->timestamps;
    const struct side *device = &e->side[DEVICE_SIDE];
    m->recorded = m->timed = 0;
    m->copy_recorded = false;
    m->copy_ns = 0;
    memset(m->last_ns, 0, sizeof m->last_ns);
    m->window_ns = sonar_monotonic_ns();
    return m->window ? device->backend->record(device->queue, m->window, err) : SONAR_OK;
}

sonar_code sonar_timing_begin(sonar_engine *e, int stage, sonar_error *err) {
    struct timestamps *m = &e->timestamps;
    const struct side *side = timed_side(e, stage);
    m->began_ns[stage] = sonar_monotonic_ns();
    return side && !(m->recorded & 1u << stage) ? record_timestamp(e, side, stage, err) : SONAR_OK;
}

sonar_code sonar_timing_end(sonar_engine *e, int stage, sonar_error *err) {
    struct timestamps *m = &e->timestamps;
    const struct side *side = timed_side(e, stage);
    uint64_t host_ns = (uint64_t)(sonar_monotonic_ns() - m->began_ns[stage]);
    if (!e->recording) {
        sonar_histogram_add(&e->spec.times->part[stage][SONAR_PART_HOST], host_ns);
        note_last(e, stage, host_ns);
    }
    if (!side)
        return SONAR_OK;
    m->timed |= 1u << stage;
    return record_timestamp(e, side, stage + 1, err);
}

/* The graph's single launch counts for the first stage. */
void sonar_timing_replayed(sonar_engine *e, unsigned timed) {
    struct timestamps *m = &e->timestamps;
    int64_t now = sonar_monotonic_ns();
    sonar_histogram_add(&e->spec.times->part[SONAR_ENGINE_DFT][SONAR_PART_HOST],
                        (uint64_t)(now - m->window_ns));
    for (int i = 0; i < SONAR_ENGINE_STAGES; i++)
        m->began_ns[i] = now;
    m->timed = timed;
}

/* A stage waits in the queue from when the host began it until the device does; both are counted
 * from the window's timestamp, which the idle device passes at once. A time that cannot be read is
 * omitted, so that measuring never makes a window fail. */
void sonar_engine_collect_times(sonar_engine *e) {
    struct timestamps *m = &e->timestamps;
    const sonar_backend *backend = e->side[DEVICE_SIDE].backend;
    double us, edge_us[SONAR_ENGINE_STAGES + 1];
    for (int i = 0; i <= SONAR_ENGINE_STAGES; i++) {
        unsigned either = 3u << i >> 1; /* the stages before and after this edge */
        if (!(m->timed & either) || backend->elapsed(m->window, m->edge[i], &edge_us[i], NULL))
            edge_us[i] = NAN;
    }
    for (int i = 0; i < SONAR_ENGINE_STAGES; i++) {
        us = edge_us[i + 1] - edge_us[i];
        if (!(m->timed & 1u << i) || isnan(us))
            continue;
        add_us(e, i, SONAR_PART_DEVICE, us);
        add_us(e, i, SONAR_PART_QUEUE, edge_us[i] - (double)(m->began_ns[i] - m->window_ns) * 1e-3);
        note_last(e, i, in_ns(us));
    }
    if (m->copy_recorded && !backend->elapsed(m->copy_begin, e->copied, &us, NULL)) {
        add_us(e, SONAR_ENGINE_DFT, SONAR_PART_COPY, us);
        m->copy_ns = in_ns(us);
    }
}

void sonar_engine_last_times(const sonar_engine *e, uint64_t stage_ns[SONAR_ENGINE_STAGES],
                             uint64_t *copy_ns) {
    memcpy(stage_ns, e->timestamps.last_ns, sizeof e->timestamps.last_ns);
    *copy_ns = e->timestamps.copy_ns;
}

/* ---- the events they need -------------------------------------------------------------------- */

sonar_code sonar_timing_create(sonar_engine *e, sonar_error *err) {
    struct timestamps *m = &e->timestamps;
    const sonar_backend *backend = e->side[DEVICE_SIDE].backend;
    if (!backend || !backend->elapsed)
        return SONAR_OK;
    sonar_code code = backend->event_create(backend, &m->window, err);
    for (int i = 0; i <= SONAR_ENGINE_STAGES && !code; i++)
        code = backend->event_create(backend, &m->edge[i], err);
    return code || !e->copies ? code : backend->event_create(backend, &m->copy_begin, err);
}

void sonar_timing_destroy(sonar_engine *e) {
    struct timestamps *m = &e->timestamps;
    sonar_event *const events[] = {m->window,  m->copy_begin, m->edge[0],
                                   m->edge[1], m->edge[2],    m->edge[3]};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            e->side[DEVICE_SIDE].backend->event_destroy(events[i]);
}
