/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The usual window as a graph, one for every set of surfaces: recorded when the engine is made,
 * after one run of everything that leaves nothing to be made, loaded or uploaded. A window that is
 * not like the usual one (after a reset, with samples missing) goes stage by stage, and so do all
 * once the mask has changed, until an engine is made anew.
 */
#include <stdlib.h>
#include <string.h>

#include "pipeline/internal.h"

/* Surfaces that may be wanted and decide what is launched; those of the MVDR but its spectrum cost
 * nothing. */
static uint32_t deciding(const sonar_pipeline *p) {
    return sonar_pipeline_needed(p, p->config->output_topics) &
           (SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
            SONAR_WANT(SONAR_CBF_LOFAR) | SONAR_WANT(SONAR_MVDR_SPECTRUM));
}

const struct recording *sonar_graphs_find(const sonar_pipeline *p, const struct job *job) {
    const struct engine *e = &p->engine;
    if (!e->recordings || e->not_as_recorded || e->recorded_version != p->params->version ||
        job->window->lacks || job->plan.offset != e->usual.offset ||
        job->plan.count != e->usual.count)
        return NULL;
    for (size_t i = 0; i < e->recordings; i++)
        if (e->recorded[i].outputs == (job->work.outputs & deciding(p)))
            return &e->recorded[i];
    return NULL;
}

/* A window of zeros. */
static struct job rehearsal(const sonar_pipeline *p, const sonar_window *window, uint32_t outputs) {
    return (struct job){.window = window,
                        .seen = *window,
                        .plan = p->engine.usual,
                        .work = {.params = p->params, .outputs = outputs}};
}

static sonar_code rehearse(sonar_pipeline *p, const sonar_window *window, sonar_error *err) {
    struct side *device = sonar_engine_device(&p->engine);
    struct job job = rehearsal(p, window, deciding(p));
    size_t taken;
    sonar_code code = sonar_window_enqueue(p, &job, &taken, err);
    if (!code)
        code = device->backend->record(device->queue, device->done, err);
    return code ? code : device->backend->finish(device->done, err);
}

static sonar_code record(sonar_pipeline *p, const sonar_window *window, uint32_t outputs,
                         sonar_error *err) {
    struct engine *e = &p->engine;
    struct side *device = sonar_engine_device(e);
    struct recording *to = &e->recorded[e->recordings];
    struct job job = rehearsal(p, window, outputs);
    size_t taken;
    sonar_code code = device->backend->graph_begin(device->queue, err);
    if (code)
        return code;
    e->marks.recorded = e->marks.timed = 0;
    code = sonar_window_enqueue(p, &job, &taken, err);
    sonar_code ended =
        device->backend->graph_end(device->queue, code ? NULL : &to->graph, code ? NULL : err);
    if (code || ended)
        return code ? code : ended;
    to->outputs = outputs;
    to->timed = e->marks.timed;
    e->recordings++;
    return SONAR_OK;
}

/* All subsets of `mask`. */
static sonar_code record_all(sonar_pipeline *p, const sonar_window *window, uint32_t mask,
                             sonar_error *err) {
    p->engine.recorded =
        sonar_alloc((size_t)1 << __builtin_popcount(mask), sizeof *p->engine.recorded);
    if (!p->engine.recorded)
        return sonar_fail(err, SONAR_ENOMEM, "graphs", "no memory for the list of graphs");
    sonar_code code = record(p, window, 0, err);
    for (uint32_t set = mask; set && !code; set = (set - 1) & mask)
        code = record(p, window, set, err);
    return code;
}

/* Only where all stages are on one device that can. */
sonar_code sonar_graphs_create(sonar_pipeline *p, sonar_error *err) {
    struct engine *e = &p->engine;
    const sonar_window window = {0};
    if (!e->buffers.column.data || e->side[HOST_SIDE].backend ||
        !sonar_snapshots_usual(p->config, p->own_mvdr_dft, &e->usual))
        return SONAR_OK;
    e->recording = true;
    sonar_code code = rehearse(p, &window, err);
    if (!code)
        code = record_all(p, &window, deciding(p), err);
    e->recording = false;
    e->recorded_version = p->params->version;
    /* after recording, or the reset would be part of a graph; the first window carries it out */
    if (!code && p->config->mvdr_enabled)
        e->mvdr.ops->reset(e->mvdr.self);
    e->not_as_recorded = true;
    return code;
}

void sonar_graphs_destroy(sonar_pipeline *p) {
    struct engine *e = &p->engine;
    for (size_t i = 0; i < e->recordings; i++)
        e->side[DEVICE_SIDE].backend->graph_destroy(e->recorded[i].graph);
    free(e->recorded);
    e->recorded = NULL;
    e->recordings = 0;
}
