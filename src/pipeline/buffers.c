/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Everything that lies between the stages and behind them. What belongs to an engine is made with
 * it; results and scratch are made once, before the threads start, in host memory that any engine
 * can fill. */
#include <stdlib.h>

#include "pipeline/internal.h"

static sonar_code make(sonar_pipeline *pipeline, sonar_space space, sonar_dtype dtype, size_t a,
                       size_t b, size_t c, sonar_buffer *buffer, sonar_error *err) {
    size_t shape[3] = {a, b, c};
    int rank = c ? 3 : b ? 2 : 1;
    return pipeline->engine.backend->buffer_create(space, dtype, rank, shape, buffer, err);
}

/* Rows [from, from + bins) of bins[bin][sensor]. */
static sonar_buffer rows(const sonar_buffer *bins, size_t from, size_t count) {
    size_t shape[2] = {count, bins->shape[1]};
    sonar_buffer view =
        sonar_buffer_view((sonar_c32 *)bins->data + from * bins->shape[1], SONAR_C32, 2, shape);
    view.space = bins->space;
    return view;
}

static sonar_code make_bins(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    struct buffers *b = &p->engine.buffers;
    sonar_space native = p->engine.backend->native_space;
    sonar_code code = make(p, native, SONAR_C32, p->bins, c->sensors, 0, &b->bins, err);
    if (code)
        return code;
    b->cbf_bins = rows(&b->bins, c->lofar_band.first_bin - p->first_bin, c->lofar_band.bins);
    if (native == SONAR_HOST)
        b->host_bins = b->cbf_bins;
    else
        code =
            make(p, SONAR_PINNED, SONAR_C32, c->lofar_band.bins, c->sensors, 0, &b->host_bins, err);
    if (code || !c->mvdr_enabled)
        return code;
    if (p->own_mvdr_dft)
        return make(p, native, SONAR_C32, sonar_specs_max_snapshots(c), c->mvdr_band.bins,
                    c->sensors, &b->mvdr_bins, err);
    sonar_buffer view = rows(&b->bins, c->mvdr_band.first_bin - p->first_bin, c->mvdr_band.bins);
    size_t shape[3] = {1, c->mvdr_band.bins, c->sensors};
    b->mvdr_bins = sonar_buffer_view(view.data, SONAR_C32, 3, shape);
    b->mvdr_bins.space = native;
    return SONAR_OK;
}

static sonar_code make_surfaces(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    struct buffers *b = &p->engine.buffers;
    sonar_space native = p->engine.backend->native_space;
    size_t looks = c->cbf_scan.count;
    sonar_code code = make(p, native, SONAR_F32, looks, 0, 0, &b->cbf[SONAR_CBF_AZIMUTH], err);
    if (!code && c->ranges)
        code = make(p, native, SONAR_F32, c->ranges, looks, 0, &b->cbf[SONAR_CBF_NEARFIELD], err);
    if (!code)
        code =
            make(p, native, SONAR_F32, c->lofar_band.bins, looks, 0, &b->cbf[SONAR_CBF_LOFAR], err);
    if (code || !c->mvdr_enabled)
        return code;
    looks = c->mvdr_scan.count;
    code = make(p, native, SONAR_F32, looks, 0, 0, &b->mvdr[SONAR_MVDR_OUT_AZIMUTH], err);
    if (!code)
        code = make(p, native, SONAR_F32, c->mvdr_band.bins, looks, 0,
                    &b->mvdr[SONAR_MVDR_OUT_SPECTRUM], err);
    if (!code)
        code = make(p, native, SONAR_F32, c->mvdr_band.bins, SONAR_MVDR_INFO_FIELDS, 0,
                    &b->mvdr[SONAR_MVDR_OUT_INFO], err);
    if (!code)
        code = make(p, SONAR_PINNED, SONAR_F32, c->mvdr_band.bins, SONAR_MVDR_INFO_FIELDS, 0,
                    &b->host_info, err);
    return code;
}

static sonar_code make_history(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    if (!c->mvdr_enabled)
        return SONAR_OK;
    struct history *h = &p->history;
    h->forgets = c->mvdr_alpha > 0;
    h->length = h->forgets ? 1 : c->mvdr_snapshots;
    h->first_sample = sonar_alloc(h->length, sizeof *h->first_sample);
    p->delta = sonar_alloc(c->mvdr_band.bins, sizeof *p->delta);
    if (!h->first_sample || !p->delta)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for the snapshots' history");
    return SONAR_OK;
}

static sonar_code make_points(sonar_pipeline *p, sonar_error *err) {
    struct buffers *b = &p->engine.buffers;
    sonar_space native = p->engine.backend->native_space;
    size_t sensors = p->config->sensors;
    sonar_code code = make(p, native, SONAR_U64, SONAR_DETECT_POINTS, sensors, 0, &b->points, err);
    if (!code)
        code = make(p, native, SONAR_F32, SONAR_DETECT_POINTS, 0, 0, &b->point_power, err);
    if (!code)
        code =
            make(p, SONAR_PINNED, SONAR_U64, SONAR_DETECT_POINTS, sensors, 0, &b->host_points, err);
    if (!code)
        code =
            make(p, SONAR_PINNED, SONAR_F32, SONAR_DETECT_POINTS, 0, 0, &b->host_point_power, err);
    return code;
}

static sonar_code make_result(sonar_pipeline *p, sonar_result *result, sonar_error *err) {
    const sonar_config *c = p->config;
    const sonar_buffer *like[SONAR_SURFACES] = {
        [SONAR_CBF_AZIMUTH] = &p->engine.buffers.cbf[SONAR_CBF_AZIMUTH],
        [SONAR_CBF_NEARFIELD] = &p->engine.buffers.cbf[SONAR_CBF_NEARFIELD],
        [SONAR_CBF_LOFAR] = &p->engine.buffers.cbf[SONAR_CBF_LOFAR],
        [SONAR_MVDR_AZIMUTH] = &p->engine.buffers.mvdr[SONAR_MVDR_OUT_AZIMUTH],
        [SONAR_MVDR_SPECTRUM] = &p->engine.buffers.mvdr[SONAR_MVDR_OUT_SPECTRUM],
    };
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_SURFACES && !code; i++)
        if (like[i] && like[i]->data)
            code = make(p, SONAR_PINNED, SONAR_F32, like[i]->shape[0],
                        like[i]->rank > 1 ? like[i]->shape[1] : 0, 0, &result->surface[i], err);
    if (!code)
        code = make(p, SONAR_PINNED, SONAR_F32, c->channels, c->lofar_band.bins, 0,
                    &result->surface[SONAR_ELEMENT_PSD], err);
    if (!code)
        code = make(p, SONAR_PINNED, SONAR_F32, c->channels, 0, 0,
                    &result->surface[SONAR_ELEMENT_MISSING], err);
    return code;
}

static sonar_code make_results(sonar_pipeline *p, sonar_error *err) {
    p->results = p->config->output_queue_results + 2; /* one being filled, one being sent */
    p->result = sonar_alloc(p->results, sizeof *p->result);
    p->free_result = sonar_alloc(p->results, sizeof(sonar_result *));
    if (!p->result || !p->free_result)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for %zu results", p->results);
    for (size_t i = 0; i < p->results; i++) {
        sonar_code code = make_result(p, &p->result[i], err);
        if (code)
            return code;
        p->free_result[p->free_results++] = &p->result[i];
    }
    return SONAR_OK;
}

static sonar_code make_scratch(sonar_pipeline *p, sonar_error *err) {
    size_t looks = sonar_max_size(p->config->cbf_scan.count, p->config->mvdr_scan.count);
    p->detect_scratch = sonar_alloc(3 * looks, sizeof *p->detect_scratch);
    p->detect_power = sonar_alloc(looks, sizeof *p->detect_power);
    p->strongest_range = sonar_alloc(looks, sizeof *p->strongest_range);
    p->inverse_range = sonar_alloc(looks, sizeof *p->inverse_range);
    p->tau_s = sonar_alloc(p->config->sensors, sizeof *p->tau_s);
    if (!p->detect_scratch || !p->detect_power || !p->strongest_range || !p->inverse_range ||
        !p->tau_s)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for the detector");
    return SONAR_OK;
}

sonar_code sonar_engine_make_buffers(sonar_pipeline *pipeline, sonar_error *err) {
    sonar_code code = make_bins(pipeline, err);
    if (!code)
        code = make_surfaces(pipeline, err);
    if (!code)
        code = make_points(pipeline, err);
    const sonar_buffer *ring = &pipeline->ring;
    if (!code && pipeline->engine.backend->native_space != SONAR_HOST)
        code = make(pipeline, pipeline->engine.backend->native_space, ring->dtype, ring->shape[0],
                    ring->shape[1], 0, &pipeline->engine.buffers.ring, err);
    return code;
}

sonar_code sonar_pipeline_make_buffers(sonar_pipeline *pipeline, sonar_error *err) {
    sonar_code code = make_history(pipeline, err);
    if (!code)
        code = make_results(pipeline, err);
    return code ? code : make_scratch(pipeline, err);
}

static void release(const sonar_backend *backend, sonar_buffer *buffers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (buffers[i].data)
            backend->buffer_destroy(&buffers[i]);
}

void sonar_engine_free_buffers(sonar_pipeline *pipeline) {
    const sonar_backend *backend = pipeline->engine.backend;
    struct buffers *b = &pipeline->engine.buffers;
    if (b->host_bins.data != b->cbf_bins.data)
        release(backend, &b->host_bins, 1);
    if (pipeline->own_mvdr_dft)
        release(backend, &b->mvdr_bins, 1);
    release(backend, &b->bins, 1);
    release(backend, b->cbf, SONAR_CBF_OUTPUTS);
    release(backend, b->mvdr, SONAR_MVDR_OUTPUTS);
    release(backend, &b->host_info, 1);
    release(backend, &b->points, 1);
    release(backend, &b->point_power, 1);
    release(backend, &b->host_points, 1);
    release(backend, &b->host_point_power, 1);
    release(backend, &b->ring, 1);
    *b = (struct buffers){0};
}

void sonar_pipeline_free_buffers(sonar_pipeline *pipeline) {
    for (size_t i = 0; pipeline->result && i < pipeline->results; i++)
        release(pipeline->choice.backend, pipeline->result[i].surface, SONAR_SURFACES);
    free(pipeline->history.first_sample);
    free(pipeline->delta);
    free(pipeline->result);
    free(pipeline->free_result);
    free(pipeline->detect_scratch);
    free(pipeline->detect_power);
    free(pipeline->strongest_range);
    free(pipeline->inverse_range);
    free(pipeline->tau_s);
}
