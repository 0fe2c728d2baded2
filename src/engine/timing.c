/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/histogram.h"

#include <math.h>

#include "pipeline/internal.h"

/* ---- stages ---------------------------------------------------------------------------------- */

static void add_us(sonar_pipeline *p, int stage, sonar_stage_part part, double us) {
    sonar_histogram_add(&p->timing[stage][part], us > 0 ? (uint64_t)(us * 1e3) : 0);
}

/* Kept for the status as well: the last time of each stage. */
static void note_last(sonar_pipeline *p, int stage, uint64_t ns) {
    atomic_store_explicit(&p->progress.stage_ns[stage], ns, memory_order_relaxed);
}

/* The device's side if it is this stage's and has marks, else NULL. */
static const struct side *marked_side(const sonar_pipeline *p, int stage) {
    const struct engine *e = &p->engine;
    const struct stage *const stages[] = {&e->dft, &e->cbf, &e->mvdr};
    const struct side *side = stages[stage]->side;
    return e->marks.window && side == &e->side[DEVICE_SIDE] ? side : NULL;
}

static sonar_code mark(sonar_pipeline *p, const struct side *side, int edge, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    sonar_code code = side->backend->record(side->queue, m->edge[edge], err);
    if (!code)
        m->recorded |= 1u << edge;
    return code;
}

sonar_code sonar_timing_window(sonar_pipeline *p, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    const struct side *device = &p->engine.side[DEVICE_SIDE];
    m->recorded = m->timed = 0;
    m->copy_recorded = false;
    m->window_ns = sonar_monotonic_ns();
    return m->window ? device->backend->record(device->queue, m->window, err) : SONAR_OK;
}

sonar_code sonar_timing_begin(sonar_pipeline *p, int stage, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    const struct side *side = marked_side(p, stage);
    m->began_ns[stage] = sonar_monotonic_ns();
    return side && !(m->recorded & 1u << stage) ? mark(p, side, stage, err) : SONAR_OK;
}

sonar_code sonar_timing_end(sonar_pipeline *p, int stage, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    const struct side *side = marked_side(p, stage);
    uint64_t host_ns = (uint64_t)(sonar_monotonic_ns() - m->began_ns[stage]);
    if (!p->engine.recording) {
        sonar_histogram_add(&p->timing[stage][SONAR_PART_HOST], host_ns);
        note_last(p, stage, host_ns);
    }
    if (!side)
        return SONAR_OK;
    m->timed |= 1u << stage;
    return mark(p, side, stage + 1, err);
}

/* The one launch counts for the first stage. */
void sonar_timing_replayed(sonar_pipeline *p, unsigned timed) {
    struct marks *m = &p->engine.marks;
    int64_t now = sonar_monotonic_ns();
    sonar_histogram_add(&p->timing[STAGE_DFT][SONAR_PART_HOST], (uint64_t)(now - m->window_ns));
    for (int i = 0; i < STAGE_DETECT; i++)
        m->began_ns[i] = now;
    m->timed = timed;
}

/* A stage waits in the queue from when the host has begun with it to when the device does; both are
 * counted from the window's mark, which the idle device passes at once. A time that cannot be told
 * is left out: measuring never fails a window. */
void sonar_timing_collect(sonar_pipeline *p) {
    struct marks *m = &p->engine.marks;
    const sonar_backend *backend = p->engine.side[DEVICE_SIDE].backend;
    double us, edge_us[STAGES];
    for (int i = 0; i < STAGES; i++) {
        unsigned either = 3u << i >> 1; /* the stages before and after this edge */
        if (!(m->timed & either) || backend->elapsed(m->window, m->edge[i], &edge_us[i], NULL))
            edge_us[i] = NAN;
    }
    for (int i = 0; i < STAGE_DETECT; i++) {
        us = edge_us[i + 1] - edge_us[i];
        if (!(m->timed & 1u << i) || isnan(us))
            continue;
        add_us(p, i, SONAR_PART_DEVICE, us);
        add_us(p, i, SONAR_PART_QUEUE, edge_us[i] - (double)(m->began_ns[i] - m->window_ns) * 1e-3);
        note_last(p, i, us > 0 ? (uint64_t)(us * 1e3) : 0);
    }
    if (m->copy_recorded && !backend->elapsed(m->copy_begin, p->engine.copied, &us, NULL))
        add_us(p, STAGE_DFT, SONAR_PART_COPY, us);
}

void sonar_timing_read(sonar_pipeline *p, sonar_status *status) {
    for (int i = 0; i < STAGES; i++)
        for (int part = 0; part < SONAR_STAGE_PARTS; part++)
            sonar_histogram_read(&p->timing[i][part], &p->timing_seen[i][part],
                                 &status->stage[i][part]);
}

/* ---- the events they need -------------------------------------------------------------------- */

sonar_code sonar_timing_create(sonar_pipeline *p, sonar_error *err) {
    struct marks *m = &p->engine.marks;
    const sonar_backend *backend = p->engine.side[DEVICE_SIDE].backend;
    if (!backend || !backend->elapsed)
        return SONAR_OK;
    sonar_code code = backend->event_create(backend, &m->window, err);
    for (int i = 0; i < STAGES && !code; i++)
        code = backend->event_create(backend, &m->edge[i], err);
    return code || !p->engine.copies ? code : backend->event_create(backend, &m->copy_begin, err);
}

void sonar_timing_destroy(sonar_pipeline *p) {
    struct marks *m = &p->engine.marks;
    sonar_event *const events[] = {m->window,  m->copy_begin, m->edge[0],
                                   m->edge[1], m->edge[2],    m->edge[3]};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            p->engine.side[DEVICE_SIDE].backend->event_destroy(events[i]);
}
