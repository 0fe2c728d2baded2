/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Puts the stages' work on one window into their queues, one after the other. */
#include "engine/internal.h"

/* ---- transform ------------------------------------------------------------------------------- */

/* Transforms samples [first, first + length), read in place or, for recorded work, at the offset in
 * `column`. Samples before the window are complete. */
static sonar_code transform(sonar_engine *e, const struct job *job, const struct stage *dft,
                            uint64_t first, size_t length, sonar_buffer *out, sonar_error *err) {
    sonar_buffer in[SONAR_DFT_INPUTS];
    sonar_work work = job->work;
    work.offset = (size_t)(first - job->seen.first_sample);
    work.gaps = sonar_window_is_whole(&job->seen, first, length) ? NULL : &job->seen.gaps;
    if (e->buffers.column.data) {
        in[SONAR_DFT_HEAD] = e->buffers.ring;
        in[SONAR_DFT_TAIL] = sonar_buffer_view(NULL, e->buffers.ring.dtype, 2,
                                               (size_t[]){e->buffers.ring.shape[0], 0});
        work.column = e->buffers.column.data;
        if ((int64_t)work.offset < 0) /* the ring wraps around */
            work.offset += e->buffers.ring.shape[1];
    } else {
        sonar_window_span(&job->seen, first, length, in);
    }
    return dft->ops->execute(dft->self, dft->side->queue, in, out, &work, err);
}

static sonar_code transform_cbf(sonar_engine *e, const struct job *job, sonar_error *err) {
    const sonar_specs *specs = e->spec.specs;
    const struct stage *dft = &e->dft;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < specs->cbf.max_snapshots && !code; i++) {
        sonar_buffer out = sonar_buffer_part(&dft->side->spectra.all, i);
        code = transform(e, job, dft, job->seen.first_sample + i * specs->cbf_hop,
                         specs->dft.length, &out, err);
    }
    return code;
}

/* Snapshots with missing samples are left out of the covariance: job->taken counts the others. */
static sonar_code transform_mvdr(sonar_engine *e, const struct job *job, sonar_error *err) {
    const sonar_specs *specs = e->spec.specs;
    const struct stage *dft = &e->mvdr_dft;
    sonar_code code = SONAR_OK;
    for (size_t i = 0, taken = 0; i < job->plan.count && specs->own_mvdr_dft && !code; i++) {
        if (job->keep && !job->keep[i])
            continue;
        sonar_buffer out = sonar_buffer_part(&dft->side->spectra.mvdr, taken++);
        code = transform(e, job, dft, sonar_snapshots_first(specs, &job->seen, &job->plan, i),
                         specs->mvdr.length, &out, err);
    }
    return code;
}

static sonar_code run_dft(sonar_engine *e, const struct job *job, sonar_error *err) {
    sonar_code code = sonar_timing_begin(e, SONAR_ENGINE_DFT, err);
    if (!code)
        code = transform_cbf(e, job, err);
    if (!code)
        code = transform_mvdr(e, job, err);
    return code ? code : sonar_timing_end(e, SONAR_ENGINE_DFT, err);
}

/* ---- beamformers ----------------------------------------------------------------------------- */

enum {
    CBF_SURFACES = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
                   SONAR_WANT(SONAR_CBF_LOFAR)
};

static sonar_code run_cbf(sonar_engine *e, const struct job *job, sonar_error *err) {
    sonar_buffer part[SONAR_CBF_OUTPUTS];
    if (!(job->work.outputs & CBF_SURFACES) || job->absent)
        return SONAR_OK;
    sonar_code code = sonar_timing_begin(e, SONAR_ENGINE_CBF, err);
    if (!code)
        code = e->cbf.ops->execute(e->cbf.self, e->cbf.side->queue, &e->cbf.side->spectra.cbf,
                                   e->crossing->beams(e, job, part), &job->work, err);
    return code ? code : sonar_timing_end(e, SONAR_ENGINE_CBF, err);
}

/* Runs even if no surface is wanted, because the covariance must include every snapshot; it does
 * not solve then. */
sonar_code sonar_enqueue_mvdr(sonar_engine *e, const struct job *job, sonar_error *err) {
    if (!e->spec.specs->mvdr_enabled)
        return SONAR_OK;
    sonar_buffer in = sonar_engine_rows(&e->mvdr.side->spectra.mvdr, 0, job->taken);
    sonar_code code = sonar_timing_begin(e, SONAR_ENGINE_MVDR, err);
    if (!code)
        code = e->mvdr.ops->execute(e->mvdr.self, e->mvdr.side->queue, &in, e->buffers.mvdr,
                                    &job->work, err);
    return code ? code : sonar_timing_end(e, SONAR_ENGINE_MVDR, err);
}

sonar_code sonar_enqueue_beamformers(sonar_engine *e, const struct job *job,
                                     const struct side *side, sonar_error *err) {
    sonar_code code = e->cbf.side == side ? run_cbf(e, job, err) : SONAR_OK;
    if (!code && e->overlaps)
        code = side->backend->record(side->queue, side->beams, err);
    return !code && e->mvdr.side == side ? e->crossing->mvdr(e, job, err) : code;
}

/* ---- between host and device ----------------------------------------------------------------- */

/* Copies those results of the DFT that the other side reads; element.psd is computed on the host.
 */
sonar_code sonar_enqueue_transfer(sonar_engine *e, const struct job *job, size_t taken,
                                  sonar_error *err) {
    struct side *from = e->dft.side, *to = &e->side[from == e->side ? DEVICE_SIDE : HOST_SIDE];
    struct side *device = sonar_engine_device(e);
    bool cbf = e->cbf.side == to && job->work.outputs & CBF_SURFACES;
    bool psd = to == &e->side[HOST_SIDE] && sonar_job_wants(job, SONAR_ELEMENT_PSD);
    bool mvdr = taken && e->reads_snapshots == to;
    sonar_code code = SONAR_OK;
    if (cbf || psd)
        code = device->backend->copy(device->queue, &from->spectra.cbf, &to->spectra.cbf, err);
    if (mvdr && !code) {
        sonar_buffer out = sonar_engine_rows(&from->spectra.mvdr, 0, taken),
                     in = sonar_engine_rows(&to->spectra.mvdr, 0, taken);
        code = device->backend->copy(device->queue, &out, &in, err);
    }
    if ((cbf || mvdr) && from == device && !code)
        code = device->backend->record(device->queue, device->transferred, err);
    return code;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Once the host's DFT has read the ring's samples, they are released to ingest. */
static sonar_code enqueue_transforms(sonar_engine *e, struct job *job, sonar_error *err) {
    sonar_code code = run_dft(e, job, err);
    if (!code && e->dft.side == &e->side[HOST_SIDE])
        sonar_job_release(e, job);
    if (!code && sonar_engine_device(e))
        code = sonar_enqueue_transfer(e, job, job->taken, err);
    return code;
}

sonar_code sonar_enqueue(sonar_engine *e, struct job *job, sonar_error *err) {
    struct side *device = sonar_engine_device(e);
    sonar_code code = job->absent ? SONAR_OK : enqueue_transforms(e, job, err);
    return !code && device ? sonar_enqueue_beamformers(e, job, device, err) : code;
}
