/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The usual window as a graph, one for every set of surfaces: recorded when the engine is made,
 * after one run of everything that leaves nothing to be made, loaded or uploaded. A window that is
 * not like the usual one (after a reset, with samples missing) goes stage by stage, and so do all
 * once the mask has changed, until an engine is made anew.
 */
#include <stdlib.h>
#include <string.h>

#include "core/topic.h"
#include "engine/internal.h"

/* Surfaces that may be wanted and decide what is launched. */
static uint32_t deciding(const sonar_engine *e) {
    return e->spec.surfaces &
           (sonar_topics_by(SONAR_MADE_BY_CBF) | sonar_topics_by(SONAR_MADE_BY_MVDR));
}

const struct recording *sonar_graphs_find(const sonar_engine *e, const struct job *job) {
    if (!e->recordings || e->not_as_recorded || e->recorded_version != job->work.params->version ||
        job->seen.lacks || job->plan.offset != e->usual.offset || job->plan.count != e->usual.count)
        return NULL;
    for (size_t i = 0; i < e->recordings; i++)
        if (e->recorded[i].outputs == (job->work.outputs & deciding(e)))
            return &e->recorded[i];
    return NULL;
}

/* A window of zeros. */
static struct job rehearsal(const sonar_engine *e, uint32_t outputs) {
    return (struct job){.plan = e->usual, .work = {.params = e->spec.params, .outputs = outputs}};
}

static sonar_code rehearse(sonar_engine *e, sonar_error *err) {
    struct side *device = sonar_engine_device(e);
    struct job job = rehearsal(e, deciding(e));
    sonar_code code = sonar_enqueue(e, &job, err);
    if (!code)
        code = device->backend->record(device->queue, device->done, err);
    return code ? code : device->backend->finish(device->done, err);
}

static sonar_code record(sonar_engine *e, uint32_t outputs, sonar_error *err) {
    struct side *device = sonar_engine_device(e);
    struct recording *to = &e->recorded[e->recordings];
    struct job job = rehearsal(e, outputs);
    sonar_code code = device->backend->graph_begin(device->queue, err);
    if (code)
        return code;
    e->timestamps.recorded = e->timestamps.timed = 0;
    code = sonar_enqueue(e, &job, err);
    sonar_code ended =
        device->backend->graph_end(device->queue, code ? NULL : &to->graph, code ? NULL : err);
    if (code || ended)
        return code ? code : ended;
    to->outputs = outputs;
    to->timed = e->timestamps.timed;
    e->recordings++;
    return SONAR_OK;
}

/* All subsets of `mask`. */
static sonar_code record_all(sonar_engine *e, uint32_t mask, sonar_error *err) {
    e->recorded = sonar_alloc((size_t)1 << __builtin_popcount(mask), sizeof *e->recorded);
    if (!e->recorded)
        return sonar_fail(err, SONAR_ENOMEM, "graphs", "no memory for the list of graphs");
    sonar_code code = record(e, 0, err);
    for (uint32_t set = mask; set && !code; set = (set - 1) & mask)
        code = record(e, set, err);
    return code;
}

/* Only where all stages are on one device that can. */
sonar_code sonar_graphs_create(sonar_engine *e, sonar_error *err) {
    if (!e->buffers.column.data || e->side[HOST_SIDE].backend ||
        !sonar_snapshots_usual(e->spec.specs, &e->usual))
        return SONAR_OK;
    e->recording = true;
    sonar_code code = rehearse(e, err);
    if (!code)
        code = record_all(e, deciding(e), err);
    e->recording = false;
    if (code == SONAR_EUNAVAILABLE) { /* a stage has work of which there can be no recording */
        sonar_graphs_destroy(e);
        code = SONAR_OK;
    }
    e->recorded_version = e->spec.params->version;
    /* after recording, or the reset would be part of a graph; the first window carries it out */
    if (!code && e->spec.specs->mvdr_enabled)
        e->mvdr.ops->reset(e->mvdr.self);
    e->not_as_recorded = true;
    return code;
}

void sonar_graphs_destroy(sonar_engine *e) {
    for (size_t i = 0; i < e->recordings; i++)
        e->side[DEVICE_SIDE].backend->graph_destroy(e->recorded[i].graph);
    free(e->recorded);
    e->recorded = NULL;
    e->recordings = 0;
}
