/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Everything that lies between the stages and behind them. What belongs to an engine is made with
 * it; results and scratch are made once, before the threads start, in host memory that any engine
 * can fill. */
#include <stdlib.h>

#include "pipeline/internal.h"

static sonar_code make(const sonar_backend *backend, sonar_space space, sonar_dtype dtype, size_t a,
                       size_t b, size_t c, sonar_buffer *buffer, sonar_error *err) {
    size_t shape[3] = {a, b, c};
    return backend->buffer_create(backend, space, dtype, c ? 3 : b ? 2 : 1, shape, buffer, err);
}

/* ---- spectra --------------------------------------------------------------------------------- */

/* Rows [from, from + count) of each snapshot: dense, for there is one or all rows are wanted. */
static sonar_buffer rows(const sonar_buffer *all, size_t from, size_t count) {
    size_t shape[3] = {all->shape[0], count, all->shape[2]};
    sonar_buffer view =
        sonar_buffer_view((sonar_c32 *)all->data + from * shape[2], SONAR_C32, 3, shape);
    view.space = all->space;
    return view;
}

/* The host's are in memory that the device copies to and from, if there is one. */
static const sonar_backend *owner_of(const struct engine *e) {
    const struct side *device = &e->side[DEVICE_SIDE];
    return device->backend ? device->backend : e->side[HOST_SIDE].backend;
}

static sonar_code make_spectra(sonar_pipeline *p, int which, sonar_error *err) {
    const sonar_config *c = p->config;
    struct engine *e = &p->engine;
    struct spectra *s = &e->side[which].spectra;
    const sonar_backend *owner = owner_of(e);
    sonar_space space = which == HOST_SIDE ? SONAR_PINNED : owner->native_space;
    sonar_code code =
        make(owner, space, SONAR_C32, c->cbf_snapshots, p->bins, c->sensors, &s->all, err);
    if (code)
        return code;
    s->cbf = rows(&s->all, c->lofar_band.first_bin - p->first_bin, c->lofar_band.bins);
    if (!c->mvdr_enabled)
        return SONAR_OK;
    if (p->own_mvdr_dft)
        return make(owner, space, SONAR_C32, c->mvdr_most_new, c->mvdr_band.bins, c->sensors,
                    &s->mvdr, err);
    sonar_buffer view = rows(&s->all, c->mvdr_band.first_bin - p->first_bin, c->mvdr_band.bins);
    s->mvdr =
        sonar_buffer_view(view.data, SONAR_C32, 3, (size_t[]){1, c->mvdr_band.bins, c->sensors});
    s->mvdr.space = view.space;
    return SONAR_OK;
}

/* On the sides that have stages; element.psd reads them on the host. */
static sonar_code make_all_spectra(sonar_pipeline *p, sonar_error *err) {
    const struct engine *e = &p->engine;
    bool psd = p->config->output_topics & SONAR_WANT(SONAR_ELEMENT_PSD);
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SIDES && !code; i++)
        if (e->side[i].backend || (i == HOST_SIDE && psd))
            code = make_spectra(p, i, err);
    return code;
}

/* ---- surfaces and points --------------------------------------------------------------------- */

static sonar_code make_cbf_surfaces(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    const sonar_backend *b = p->engine.cbf.side->backend;
    sonar_buffer *to = p->engine.buffers.cbf;
    size_t looks = c->cbf_scan.count;
    sonar_code code = make(b, b->native_space, SONAR_F32, looks, 0, 0, &to[SONAR_CBF_AZIMUTH], err);
    if (!code && c->ranges)
        code =
            make(b, b->native_space, SONAR_F32, c->ranges, looks, 0, &to[SONAR_CBF_NEARFIELD], err);
    return code ? code
                : make(b, b->native_space, SONAR_F32, c->lofar_band.bins, looks, 0,
                       &to[SONAR_CBF_LOFAR], err);
}

static sonar_code make_mvdr_surfaces(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    if (!c->mvdr_enabled)
        return SONAR_OK;
    const sonar_backend *b = p->engine.mvdr.side->backend;
    sonar_buffer *to = p->engine.buffers.mvdr;
    size_t looks = c->mvdr_scan.count, bins = c->mvdr_band.bins;
    sonar_code code =
        make(b, b->native_space, SONAR_F32, looks, 0, 0, &to[SONAR_MVDR_OUT_AZIMUTH], err);
    if (!code)
        code =
            make(b, b->native_space, SONAR_F32, bins, looks, 0, &to[SONAR_MVDR_OUT_SPECTRUM], err);
    if (!code)
        code = make(b, b->native_space, SONAR_F32, bins, SONAR_MVDR_INFO_FIELDS, 0,
                    &to[SONAR_MVDR_OUT_INFO], err);
    return code ? code
                : make(owner_of(&p->engine), SONAR_PINNED, SONAR_F32, bins, SONAR_MVDR_INFO_FIELDS,
                       0, &p->engine.buffers.host_info, err);
}

static sonar_code make_pair(const sonar_backend *backend, sonar_space space, size_t sensors,
                            sonar_buffer *points, sonar_buffer *power, sonar_error *err) {
    sonar_code code = make(backend, space, SONAR_U64, SONAR_DETECT_POINTS, sensors, 0, points, err);
    return code ? code : make(backend, space, SONAR_F32, SONAR_DETECT_POINTS, 0, 0, power, err);
}

static sonar_code make_points(sonar_pipeline *p, sonar_error *err) {
    struct engine *e = &p->engine;
    size_t sensors = p->config->sensors;
    sonar_code code = make_pair(owner_of(e), p->layout.points, sensors, &e->buffers.host_points,
                                &e->buffers.host_point_power, err);
    for (struct side *s = e->side; s < e->side + SIDES && !code; s++)
        if (s->backend)
            code = make_pair(s->backend, s->backend->native_space, sensors, &s->points,
                             &s->point_power, err);
    return code;
}

/* ---- the device's ring ----------------------------------------------------------------------- */

static sonar_code make_ring(sonar_pipeline *p, sonar_error *err) {
    struct engine *e = &p->engine;
    const sonar_backend *b = e->dft.side->backend;
    const sonar_buffer *ring = &p->ring;
    sonar_code code = SONAR_OK;
    if (e->dft.side != &e->side[DEVICE_SIDE])
        return SONAR_OK;
    e->reads_in_place = ring->space == SONAR_MAPPED;
    if (e->reads_in_place)
        e->buffers.ring = *ring;
    else
        code = make(b, b->native_space, ring->dtype, ring->shape[0], ring->shape[1], 0,
                    &e->buffers.ring, err);
    if (!code && b->graph_begin)
        code = make(b, b->native_space, SONAR_U64, 1, 0, 0, &e->buffers.column, err);
    if (!code && b->graph_begin)
        code = make(b, SONAR_PINNED, SONAR_U64, 1, 0, 0, &e->buffers.host_column, err);
    return code;
}

/* ---- the pipeline's own ---------------------------------------------------------------------- */

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

/* Detections rest on the others. */
static bool may_be_asked_for(const sonar_config *c, int surface) {
    bool by_name = surface == SONAR_CBF_LOFAR || surface == SONAR_MVDR_SPECTRUM;
    return !by_name || c->output_topics & SONAR_WANT(surface);
}

/* Surfaces that may be asked for, in memory that the backend at start copies to. */
static sonar_code make_result(sonar_pipeline *p, sonar_result *result, sonar_error *err) {
    const sonar_config *c = p->config;
    const sonar_backend *owner = p->choice.backend;
    const sonar_space space = p->layout.surfaces;
    const sonar_buffer *like[SONAR_SURFACES] = {
        [SONAR_CBF_AZIMUTH] = &p->engine.buffers.cbf[SONAR_CBF_AZIMUTH],
        [SONAR_CBF_NEARFIELD] = &p->engine.buffers.cbf[SONAR_CBF_NEARFIELD],
        [SONAR_CBF_LOFAR] = &p->engine.buffers.cbf[SONAR_CBF_LOFAR],
        [SONAR_MVDR_AZIMUTH] = &p->engine.buffers.mvdr[SONAR_MVDR_OUT_AZIMUTH],
        [SONAR_MVDR_SPECTRUM] = &p->engine.buffers.mvdr[SONAR_MVDR_OUT_SPECTRUM],
    };
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_SURFACES && !code; i++)
        if (like[i] && like[i]->data && may_be_asked_for(c, i))
            code = make(owner, space, SONAR_F32, like[i]->shape[0],
                        like[i]->rank > 1 ? like[i]->shape[1] : 0, 0, &result->surface[i], err);
    if (!code && c->output_topics & SONAR_WANT(SONAR_ELEMENT_PSD))
        code = make(owner, SONAR_PINNED, SONAR_F32, c->channels, c->lofar_band.bins, 0,
                    &result->surface[SONAR_ELEMENT_PSD], err);
    if (!code)
        code = make(owner, SONAR_PINNED, SONAR_F32, c->channels, 0, 0,
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
    p->detect_scratch = sonar_alloc(4 * looks, sizeof *p->detect_scratch);
    p->tau_s = sonar_alloc(p->config->sensors, sizeof *p->tau_s);
    if (!p->detect_scratch || !p->tau_s)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for the detector");
    return SONAR_OK;
}

sonar_code sonar_engine_make_buffers(sonar_pipeline *pipeline, sonar_error *err) {
    sonar_code code = make_all_spectra(pipeline, err);
    if (!code)
        code = make_cbf_surfaces(pipeline, err);
    if (!code)
        code = make_mvdr_surfaces(pipeline, err);
    if (!code)
        code = make_points(pipeline, err);
    return code ? code : make_ring(pipeline, err);
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

static void release_side(const sonar_pipeline *p, struct side *side, const sonar_backend *owner) {
    release(owner, &side->spectra.all, 1);
    if (p->own_mvdr_dft)
        release(owner, &side->spectra.mvdr, 1);
    release(side->backend, &side->points, 1);
    release(side->backend, &side->point_power, 1);
}

void sonar_engine_free_buffers(sonar_pipeline *pipeline) {
    struct engine *e = &pipeline->engine;
    struct buffers *b = &e->buffers;
    const sonar_backend *owner = owner_of(e);
    for (struct side *side = e->side; side < e->side + SIDES; side++)
        release_side(pipeline, side, owner);
    if (e->cbf.side)
        release(e->cbf.side->backend, b->cbf, SONAR_CBF_OUTPUTS);
    if (e->mvdr.side)
        release(e->mvdr.side->backend, b->mvdr, SONAR_MVDR_OUTPUTS);
    release(owner, &b->host_info, 1);
    release(owner, &b->host_points, 1);
    release(owner, &b->host_point_power, 1);
    if (!e->reads_in_place)
        release(e->side[DEVICE_SIDE].backend, &b->ring, 1);
    release(e->side[DEVICE_SIDE].backend, &b->column, 1);
    release(e->side[DEVICE_SIDE].backend, &b->host_column, 1);
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
    free(pipeline->tau_s);
}
