/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One window through the engine. Device work is enqueued first and all at once, then the host does
 * what is its own, then it waits for the device: once a window. */
#include <string.h>

#include "pipeline/internal.h"

/* ---- transform ------------------------------------------------------------------------------- */

/* Samples [first, first + length): where they are, or by way of the column. Those before the window
 * are whole. */
static sonar_code transform(sonar_pipeline *p, const struct job *job, const struct stage *dft,
                            uint64_t first, size_t length, sonar_buffer *out, sonar_error *err) {
    struct engine *e = &p->engine;
    sonar_buffer in[SONAR_DFT_INPUTS];
    sonar_work work = job->work;
    work.offset = (size_t)(first - job->seen.first_sample);
    work.gaps = sonar_window_is_whole(&job->seen, first, length) ? NULL : &job->seen.gaps;
    if (e->buffers.column.data) {
        in[SONAR_DFT_HEAD] = e->buffers.ring;
        in[SONAR_DFT_TAIL] = sonar_buffer_view(NULL, e->buffers.ring.dtype, 2,
                                               (size_t[]){e->buffers.ring.shape[0], 0});
        work.column = e->buffers.column.data;
        if ((int64_t)work.offset < 0) /* the ring is a circle */
            work.offset += e->buffers.ring.shape[1];
    } else {
        sonar_window_span(&job->seen, first, length, in);
    }
    return dft->ops->execute(dft->self, dft->side->queue, in, out, &work, err);
}

/* Snapshots [0, count) of the MVDR's input on one side. */
static sonar_buffer snapshots_of(const struct side *side, size_t count) {
    sonar_buffer in = side->spectra.mvdr;
    in.shape[0] = count;
    in.bytes = sonar_buffer_count(&in) * sizeof(sonar_c32);
    return in;
}

static sonar_code transform_cbf(sonar_pipeline *p, const struct job *job, sonar_error *err) {
    const sonar_config *c = p->config;
    const struct stage *dft = &p->engine.dft;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < c->cbf_snapshots && !code; i++) {
        sonar_buffer out = sonar_buffer_part(&dft->side->spectra.all, i);
        code = transform(p, job, dft, job->seen.first_sample + i * c->cbf_hop, c->cbf_length, &out,
                         err);
    }
    return code;
}

/* Those with missing samples never enter the covariance: *taken counts the others. */
static sonar_code transform_mvdr(sonar_pipeline *p, const struct job *job, size_t *taken,
                                 sonar_error *err) {
    const sonar_config *c = p->config;
    const struct stage *dft = &p->engine.mvdr_dft;
    for (size_t i = 0; i < job->plan.count; i++) {
        uint64_t first = sonar_snapshots_first(c, &job->seen, &job->plan, i);
        if (!sonar_window_is_whole(&job->seen, first, c->mvdr_length))
            continue;
        if (p->own_mvdr_dft) {
            sonar_buffer out = sonar_buffer_part(&dft->side->spectra.mvdr, *taken);
            sonar_code code = transform(p, job, dft, first, c->mvdr_length, &out, err);
            if (code)
                return code;
        }
        ++*taken;
    }
    return SONAR_OK;
}

static sonar_code run_dft(sonar_pipeline *p, const struct job *job, size_t *taken,
                          sonar_error *err) {
    sonar_code code = sonar_timing_begin(p, STAGE_DFT, err);
    if (!code)
        code = transform_cbf(p, job, err);
    if (!code)
        code = transform_mvdr(p, job, taken, err);
    return code ? code : sonar_timing_end(p, STAGE_DFT, err);
}

/* ---- beamformers ----------------------------------------------------------------------------- */

enum {
    CBF_SURFACES = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
                   SONAR_WANT(SONAR_CBF_LOFAR)
};

static sonar_code run_cbf(sonar_pipeline *p, const struct job *job, sonar_error *err) {
    struct engine *e = &p->engine;
    if (!(job->work.outputs & CBF_SURFACES))
        return SONAR_OK;
    sonar_code code = sonar_timing_begin(p, STAGE_CBF, err);
    if (!code)
        code = e->cbf.ops->execute(e->cbf.self, e->cbf.side->queue, &e->cbf.side->spectra.cbf,
                                   e->buffers.cbf, &job->work, err);
    return code ? code : sonar_timing_end(p, STAGE_CBF, err);
}

/* Runs even when nobody looks: the covariance must not miss a snapshot. */
static sonar_code run_mvdr(sonar_pipeline *p, const struct job *job, size_t taken,
                           sonar_error *err) {
    struct engine *e = &p->engine;
    if (!p->config->mvdr_enabled)
        return SONAR_OK;
    sonar_buffer in = snapshots_of(e->mvdr.side, taken);
    sonar_code code = sonar_timing_begin(p, STAGE_MVDR, err);
    if (!code)
        code = e->mvdr.ops->execute(e->mvdr.self, e->mvdr.side->queue, &in, e->buffers.mvdr,
                                    &job->work, err);
    return code ? code : sonar_timing_end(p, STAGE_MVDR, err);
}

static sonar_code run_beamformers(sonar_pipeline *p, const struct job *job, const struct side *side,
                                  size_t taken, sonar_error *err) {
    sonar_code code = p->engine.cbf.side == side ? run_cbf(p, job, err) : SONAR_OK;
    return !code && p->engine.mvdr.side == side ? run_mvdr(p, job, taken, err) : code;
}

/* ---- from side to side ----------------------------------------------------------------------- */

static bool wants_psd(const struct job *job) {
    return job->result && job->work.outputs & SONAR_WANT(SONAR_ELEMENT_PSD);
}

/* Copies what the other side reads of the DFT's results; element.psd reads them on the host. */
static sonar_code cross(sonar_pipeline *p, const struct job *job, size_t taken, sonar_error *err) {
    struct engine *e = &p->engine;
    struct side *from = e->dft.side, *to = &e->side[from == e->side ? DEVICE_SIDE : HOST_SIDE];
    struct side *device = sonar_engine_device(e);
    bool cbf = e->cbf.side == to && job->work.outputs & CBF_SURFACES;
    bool psd = to == &e->side[HOST_SIDE] && wants_psd(job);
    bool mvdr = e->mvdr.side == to && taken;
    sonar_code code = SONAR_OK;
    if (cbf || psd)
        code = device->backend->copy(device->queue, &from->spectra.cbf, &to->spectra.cbf, err);
    if (mvdr && !code) {
        sonar_buffer out = snapshots_of(from, taken), in = snapshots_of(to, taken);
        code = device->backend->copy(device->queue, &out, &in, err);
    }
    if ((cbf || mvdr) && from == device && !code)
        code = device->backend->record(device->queue, device->crossed, err);
    return code;
}

/* Before the host reads what the device's DFT made for it. */
static sonar_code await_crossing(sonar_pipeline *p, sonar_error *err) {
    struct engine *e = &p->engine;
    struct side *host = &e->side[HOST_SIDE], *device = sonar_engine_device(e);
    if (e->dft.side == host || (e->cbf.side != host && e->mvdr.side != host))
        return SONAR_OK;
    return device->backend->finish(device->crossed, err);
}

/* ---- results --------------------------------------------------------------------------------- */

static sonar_code fetch(const struct side *side, const sonar_buffer *from, sonar_buffer *to,
                        sonar_error *err) {
    return side->backend->copy(side->queue, from, to, err);
}

static sonar_code fetch_surface(const struct stage *stage, const sonar_buffer *from, int surface,
                                const struct job *job, sonar_error *err) {
    if (!(job->work.outputs & SONAR_WANT(surface)))
        return SONAR_OK;
    return fetch(stage->side, from, &job->result->surface[surface], err);
}

/* Surfaces that were made on this side. */
static sonar_code fetch_surfaces(sonar_pipeline *p, const struct job *job, const struct side *side,
                                 sonar_error *err) {
    struct engine *e = &p->engine;
    sonar_code code = SONAR_OK;
    if (!job->result)
        return SONAR_OK;
    for (int i = SONAR_CBF_AZIMUTH; i <= SONAR_CBF_LOFAR && e->cbf.side == side && !code; i++)
        code = fetch_surface(&e->cbf, &e->buffers.cbf[i], i, job, err);
    if (e->mvdr.side != side || code)
        return code;
    code = fetch_surface(&e->mvdr, &e->buffers.mvdr[SONAR_MVDR_OUT_AZIMUTH], SONAR_MVDR_AZIMUTH,
                         job, err);
    if (!code)
        code = fetch_surface(&e->mvdr, &e->buffers.mvdr[SONAR_MVDR_OUT_SPECTRUM],
                             SONAR_MVDR_SPECTRUM, job, err);
    return code ? code
                : fetch(side, &e->buffers.mvdr[SONAR_MVDR_OUT_INFO], &e->buffers.host_info, err);
}

/* ---- one window ------------------------------------------------------------------------------ */

/* Once the host's DFT has read them, the ring's samples are ingest's again. */
static void release(sonar_pipeline *p, struct job *job) {
    if (p->engine.dft.side != &p->engine.side[HOST_SIDE])
        return;
    sonar_ingest_release(p->ingest, job->window);
    job->released = true;
}

sonar_code sonar_window_enqueue(sonar_pipeline *p, struct job *job, size_t *taken,
                                sonar_error *err) {
    struct side *device = sonar_engine_device(&p->engine);
    *taken = 0;
    sonar_code code = run_dft(p, job, taken, err);
    if (!code)
        release(p, job);
    if (!code && device)
        code = cross(p, job, *taken, err);
    return !code && device ? run_beamformers(p, job, device, *taken, err) : code;
}

/* The same as one graph; what element.psd needs is no part of it. */
static sonar_code run_graph(sonar_pipeline *p, const struct job *job,
                            const struct recording *recording, sonar_error *err) {
    struct side *device = sonar_engine_device(&p->engine);
    sonar_code code = device->backend->graph_run(device->queue, recording->graph, err);
    if (code)
        return code;
    sonar_timing_replayed(p, recording->timed);
    return cross(p, job, 0, err);
}

static sonar_code run_host(sonar_pipeline *p, const struct job *job, size_t taken,
                           sonar_error *err) {
    struct side *host = &p->engine.side[HOST_SIDE];
    if (!host->backend)
        return SONAR_OK;
    sonar_code code = await_crossing(p, err);
    if (!code)
        code = run_beamformers(p, job, host, taken, err);
    return code ? code : fetch_surfaces(p, job, host, err);
}

/* Waits until all that was enqueued is done; what it read may then be reused. */
static sonar_code settle(sonar_pipeline *p, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (struct side *s = p->engine.side; s < p->engine.side + SIDES && !code; s++)
        if (s->backend && !(code = s->backend->record(s->queue, s->done, err)))
            code = s->backend->finish(s->done, err);
    return code;
}

sonar_code sonar_window_run(sonar_pipeline *p, struct job *job, sonar_error *err) {
    struct engine *e = &p->engine;
    struct side *device = sonar_engine_device(e);
    size_t taken = job->plan.count;
    sonar_code code = sonar_timing_window(p, err);
    if (!code)
        code = sonar_pipeline_upload(p, job, err);
    if (code)
        return code;
    const struct recording *recording = sonar_graphs_find(p, job);
    if (recording)
        code = run_graph(p, job, recording, err);
    else
        code = sonar_window_enqueue(p, job, &taken, err);
    e->not_as_recorded = false;
    if (!code)
        sonar_pipeline_upload_early(p); /* beside the stages */
    if (!code && device)
        code = fetch_surfaces(p, job, device, err);
    if (!code)
        code = run_host(p, job, taken, err);
    if (!code)
        code = settle(p, err);
    return code;
}
