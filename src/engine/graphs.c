/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Graphs of the usual window, one for each set of surfaces. They are recorded when the engine is
 * created, after one full run, so that nothing remains to be created, loaded or uploaded. A window
 * that differs from the usual one (after a reset, with samples missing) runs stage by stage. When
 * the parameters change, recordings are out of date, and all windows run stage by stage until some
 * usual windows with the same surfaces have run and no window waits. Then that set is recorded
 * again. */
#include <stdlib.h>
#include <string.h>

#include "status/topic.h"
#include "engine/internal.h"

/* The surfaces that may be wanted and on which the launches depend. */
static uint32_t deciding(const sonar_engine *e) {
    return e->spec.surfaces &
           (sonar_topics_by(SONAR_MADE_BY_CBF) | sonar_topics_by(SONAR_MADE_BY_MVDR));
}

static bool is_usual(const sonar_engine *e, const struct job *job) {
    return e->recorded && !e->not_as_recorded && !job->seen.lacks &&
           job->plan.offset == e->usual.offset && job->plan.count == e->usual.count;
}

const struct recording *sonar_graphs_find(sonar_engine *e, const struct job *job) {
    const struct missed now = {job->work.params->version, job->work.outputs & deciding(e), 1};
    struct missed *missed = &e->missed;
    const bool usual = is_usual(e, job);
    for (size_t i = 0; usual && e->recorded_version == now.version && i < e->recordings; i++)
        if (e->recorded[i].outputs == now.outputs) {
            missed->windows = 0;
            return &e->recorded[i];
        }
    if (usual && missed->windows && missed->version == now.version &&
        missed->outputs == now.outputs)
        missed->windows++;
    else
        *missed = usual ? now : (struct missed){0};
    return NULL;
}

/* A window of zeros. */
static struct job rehearsal(const sonar_engine *e, const sonar_params *params, uint32_t outputs) {
    return (struct job){
        .plan = e->usual, .taken = e->usual.count, .work = {.params = params, .outputs = outputs}};
}

static sonar_code rehearse(sonar_engine *e, sonar_error *err) {
    struct side *device = sonar_engine_device(e);
    struct job job = rehearsal(e, e->spec.params, deciding(e));
    sonar_code code = sonar_enqueue(e, &job, err);
    if (!code)
        code = device->backend->record(device->queue, device->done, err);
    return code ? code : device->backend->finish(device->done, err);
}

static sonar_code record(sonar_engine *e, const sonar_params *params, uint32_t outputs,
                         sonar_error *err) {
    struct side *device = sonar_engine_device(e);
    struct recording *to = &e->recorded[e->recordings];
    struct job job = rehearsal(e, params, outputs);
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

/* Enumerates the subsets of `mask`. */
static sonar_code record_all(sonar_engine *e, uint32_t mask, sonar_error *err) {
    e->recorded = sonar_alloc((size_t)1 << __builtin_popcount(mask), sizeof *e->recorded);
    if (!e->recorded)
        return sonar_fail(err, SONAR_ENOMEM, "graphs", "no memory for the list of graphs");
    sonar_code code = record(e, e->spec.params, 0, err);
    for (uint32_t set = mask; set && !code; set = (set - 1) & mask)
        code = record(e, e->spec.params, set, err);
    return code;
}

/* True where all stages are on one device that can record work. */
sonar_code sonar_graphs_create(sonar_engine *e, sonar_error *err) {
    if (!e->crossing->records || !e->buffers.column.data || e->side[HOST_SIDE].backend ||
        !sonar_snapshots_usual(e->spec.specs, &e->usual))
        return SONAR_OK;
    e->recording = true;
    sonar_code code = rehearse(e, err);
    if (!code)
        code = record_all(e, deciding(e), err);
    e->recording = false;
    e->recorded_version = e->spec.params->version;
    /* after recording, since the reset must not be part of a graph; the first window carries it out
     */
    if (!code && e->spec.specs->mvdr_enabled)
        e->mvdr.ops->reset(e->mvdr.self);
    e->not_as_recorded = true;
    return code;
}

static void forget_recordings(sonar_engine *e) {
    for (size_t i = 0; i < e->recordings; i++)
        e->side[DEVICE_SIDE].backend->graph_destroy(e->recorded[i].graph);
    e->recordings = 0;
}

void sonar_graphs_destroy(sonar_engine *e) {
    forget_recordings(e);
    free(e->recorded);
    e->recorded = NULL;
}

/* The last windows have loaded and uploaded everything that the recording launches, and the queues
 * are empty. Each set has a place for its graph. If recording fails now, windows continue stage by
 * stage; if the device has failed, the next window reports it. */
void sonar_engine_rest(sonar_engine *e) {
    if (e->missed.windows < SONAR_GRAPHS_STEADY)
        return;
    if (e->recorded_version != e->missed.version)
        forget_recordings(e);
    e->recorded_version = e->missed.version;
    e->recording = true;
    const sonar_code code = record(e, e->job.work.params, e->missed.outputs, NULL);
    e->recording = false;
    e->missed = (struct missed){0};
    if (code)
        sonar_graphs_destroy(e);
}
