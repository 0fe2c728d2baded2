/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One window through the engine. Device work is enqueued first, all at once; then the host's stages
 * run; then the host waits for the CBF, and after what it does with that for the MVDR. */
#include <string.h>

#include "status/topic.h"
#include "engine/internal.h"

/* ---- the host's stages ----------------------------------------------------------------------- */

/* Waits until the device's DFT results are on the host, if the host reads them. */
static sonar_code await_transfer(sonar_engine *e, sonar_error *err) {
    struct side *host = &e->side[HOST_SIDE], *device = sonar_engine_device(e);
    if (e->dft.side == host || (e->cbf.side != host && e->mvdr.side != host))
        return SONAR_OK;
    return device->backend->finish(device->transferred, err);
}

/* ---- results --------------------------------------------------------------------------------- */

/* The live band's first bin, relative to the stage's first bin. */
static size_t first_row(const sonar_engine *e, const sonar_params *params, bool mvdr) {
    const sonar_specs *specs = e->spec.specs;
    if (mvdr)
        return sonar_engine_live_mvdr(e, params)->first_bin - specs->mvdr.first_bin;
    return sonar_engine_live_cbf(e, params)->first_bin - specs->cbf.first_bin;
}

/* Fetches a wanted surface. Of a surface over bins it fetches only the rows of the live band. */
static sonar_code fetch_surface(const sonar_engine *e, const sonar_backend *backend,
                                sonar_queue *queue, const sonar_buffer *from, int surface,
                                const struct job *job, sonar_error *err) {
    const sonar_topic *topic = &sonar_topic_table[surface];
    sonar_buffer *to = &job->surface[surface], rows = *from;
    if (!(job->work.outputs & SONAR_WANT(surface)))
        return SONAR_OK;
    if (topic->axis[0] == SONAR_AXIS_BIN)
        rows = sonar_engine_rows(
            from, first_row(e, job->work.params, topic->maker == SONAR_MADE_BY_MVDR), to->shape[0]);
    return backend->copy(queue, &rows, to, err);
}

/* A stage's outputs are its topics, in the order of the rows. */
static sonar_code fetch_outputs(const sonar_engine *e, const sonar_backend *backend,
                                sonar_queue *queue, sonar_maker maker, const sonar_buffer *from,
                                const struct job *job, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_SURFACES && !code; i++)
        if (sonar_topic_table[i].maker == maker)
            code = fetch_surface(e, backend, queue, from++, i, job, err);
    return code;
}

/* Fetches the surfaces that were computed on this side. */
static sonar_code fetch_surfaces(sonar_engine *e, const struct job *job, const struct side *side,
                                 sonar_error *err) {
    const sonar_backend *backend = side->backend;
    sonar_code code = SONAR_OK;
    if (!job->surface)
        return SONAR_OK;
    if (e->cbf.side == side)
        code = fetch_outputs(e, backend, side->beside, SONAR_MADE_BY_CBF, e->buffers.cbf, job, err);
    if (e->mvdr.side != side || code)
        return code;
    code = fetch_outputs(e, backend, side->queue, SONAR_MADE_BY_MVDR, e->buffers.mvdr, job, err);
    const sonar_params *params = job->work.params;
    e->info = sonar_engine_rows(&e->buffers.host_info, first_row(e, params, true),
                                sonar_engine_live_mvdr(e, params)->bins);
    return code ? code
                : backend->copy(side->queue, &e->buffers.mvdr[SONAR_MVDR_OUT_INFO],
                                &e->buffers.host_info, err);
}

/* ---- one process ----------------------------------------------------------------------------- */

static sonar_code keep_all(sonar_engine *e, size_t snapshots, sonar_error *err) {
    (void)e, (void)snapshots, (void)err;
    return SONAR_OK;
}

static sonar_buffer *own_beams(sonar_engine *e, const struct job *job,
                               sonar_buffer part[SONAR_CBF_OUTPUTS]) {
    (void)job, (void)part;
    return e->buffers.cbf;
}

static sonar_code finish(sonar_engine *e, const struct job *job, sonar_error *err) {
    (void)err;
    if (sonar_job_wants(job, SONAR_ELEMENT_PSD))
        sonar_engine_make_psd(e, job->work.params, &job->surface[SONAR_ELEMENT_PSD]);
    return SONAR_OK;
}

const struct crossing sonar_crossing_alone = {.records = true,
                                              .make = sonar_engine_make_surfaces,
                                              .keep = keep_all,
                                              .beams = own_beams,
                                              .mvdr = sonar_enqueue_mvdr,
                                              .fetch = fetch_surfaces,
                                              .finish = finish,
                                              .evaluate = sonar_look_evaluate};

/* ---- one window ------------------------------------------------------------------------------ */

/* Runs what sonar_enqueue does as one graph; the copy for element.psd is not part of the graph. */
static sonar_code run_graph(sonar_engine *e, const struct job *job,
                            const struct recording *recording, sonar_error *err) {
    struct side *device = sonar_engine_device(e);
    sonar_code code = device->backend->graph_run(device->queue, recording->graph, err);
    if (code)
        return code;
    sonar_timing_replayed(e, recording->timed);
    return sonar_enqueue_transfer(e, job, 0, err);
}

static sonar_code run_host(sonar_engine *e, const struct job *job, sonar_error *err) {
    struct side *host = &e->side[HOST_SIDE];
    if (!host->backend)
        return SONAR_OK;
    sonar_code code = await_transfer(e, err);
    if (!code)
        code = sonar_enqueue_beamformers(e, job, host, err);
    return code ? code : e->crossing->fetch(e, job, host, err);
}

/* Waits until all work in the sides' queues, or in those beside them, is done. */
static sonar_code settle(sonar_engine *e, bool beside, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (struct side *s = e->side; s < e->side + SIDES && !code; s++)
        if (s->backend && !(code = s->backend->record(beside ? s->beside : s->queue, s->done, err)))
            code = s->backend->finish(s->done, err);
    return code;
}

static sonar_code run(sonar_engine *e, struct job *job, sonar_error *err) {
    struct side *device = sonar_engine_device(e);
    sonar_code code = sonar_timing_window(e, err);
    if (!code && !job->absent)
        code = sonar_samples_upload(e, job, err);
    if (code)
        return code;
    const struct recording *recording = sonar_graphs_find(e, job);
    code = recording ? run_graph(e, job, recording, err) : sonar_enqueue(e, job, err);
    e->not_as_recorded = false;
    if (!code && device && e->overlaps)
        code = device->backend->wait(device->beside, device->beams, err);
    if (!code)
        sonar_engine_prefetch(e); /* concurrently with the stages */
    if (!code && device)
        code = e->crossing->fetch(e, job, device, err);
    if (!code)
        code = run_host(e, job, err);
    return code ? code : settle(e, true, err);
}

sonar_code sonar_engine_begin(sonar_engine *e, const sonar_engine_job *given, sonar_error *err) {
    struct job *job = &e->job;
    *job = (struct job){.held = given->absent ? NULL : given->window,
                        .absent = given->absent,
                        .work = {.first_sample = given->window->first_sample,
                                 .params = given->params,
                                 .outputs = given->outputs},
                        .surface = given->surface};
    sonar_code code = sonar_snapshots_choose(e, given, job, err);
    if (!code)
        code = run(e, job, err);
    sonar_job_release(e, job);
    return code || e->overlaps ? code : e->crossing->finish(e, job, err);
}

sonar_code sonar_engine_finish(sonar_engine *e, sonar_error *err) {
    if (!e->overlaps)
        return SONAR_OK;
    const sonar_code code = settle(e, false, err);
    return code ? code : e->crossing->finish(e, &e->job, err);
}

sonar_code sonar_engine_run(sonar_engine *e, const sonar_engine_job *job, sonar_error *err) {
    const sonar_code code = sonar_engine_begin(e, job, err);
    return code ? code : sonar_engine_finish(e, err);
}
