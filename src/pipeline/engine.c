/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An engine: one backend's queue, stages and the buffers between them, made and destroyed as one.
 */
#include <string.h>

#include "pipeline/internal.h"

static sonar_code find_stage(const sonar_backend *backend, const char *name, const void *spec,
                             const sonar_host *host, struct stage *to, sonar_error *err) {
    to->ops = backend->stage(name);
    if (!to->ops)
        return sonar_fail(err, SONAR_EUNAVAILABLE, name, "the %s backend has no such stage",
                          backend->name);
    return to->ops->create(spec, host, &to->self, err);
}

static sonar_dft_spec dft_spec(const sonar_config *c, size_t length, size_t first_bin, size_t bins,
                               sonar_planning planning) {
    return (sonar_dft_spec){.channels = c->channels,
                            .sensors = c->sensors,
                            .length = length,
                            .fs_hz = c->fs_hz,
                            .first_bin = first_bin,
                            .bins = bins,
                            .window = c->window,
                            .kaiser_beta = c->kaiser_beta,
                            .remove_mean = c->remove_mean,
                            .equalise_phase = c->equalise_phase,
                            .planning = planning};
}

/* One DFT serves both beamformers where they agree on its length and hop: it then keeps the bins of
 * both bands. */
void sonar_pipeline_choose_bins(sonar_pipeline *p) {
    const sonar_config *c = p->config;
    size_t first = c->lofar_band.first_bin, end = first + c->lofar_band.bins;
    p->own_mvdr_dft = c->mvdr_enabled && (c->mvdr_length != c->length || c->mvdr_hop != c->hop);
    if (c->mvdr_enabled && !p->own_mvdr_dft) {
        first = sonar_min_size(first, c->mvdr_band.first_bin);
        end = sonar_max_size(end, c->mvdr_band.first_bin + c->mvdr_band.bins);
    }
    p->first_bin = first;
    p->bins = end - first;
}

static sonar_code make_mvdr(sonar_pipeline *p, sonar_planning planning, sonar_error *err) {
    const sonar_config *c = p->config;
    const sonar_backend *backend = p->engine.backend;
    sonar_mvdr_spec spec = {
        .sensors = c->sensors,
        .directions = c->mvdr_scan.count,
        .fs_hz = c->fs_hz,
        .length = c->mvdr_length,
        .first_bin = c->mvdr_band.first_bin,
        .bins = c->mvdr_band.bins,
        .max_new = p->own_mvdr_dft ? sonar_pipeline_max_snapshots(c) : 1,
        .snapshots = c->mvdr_alpha > 0 ? 0 : c->mvdr_snapshots,
        .alpha = c->mvdr_alpha,
        .loading = c->mvdr_loading,
        .eps = c->mvdr_eps,
        .known_sources = c->mvdr_known_sources,
        .method = c->mvdr_method,
        .tolerance = c->mvdr_tolerance,
        .max_sweeps = c->mvdr_max_sweeps,
        .forward_backward = c->mvdr_forward_backward,
        .correct_level = c->mvdr_correct_level,
    };
    sonar_code code = find_stage(backend, "mvdr_jacobi", &spec, &p->host, &p->engine.mvdr, err);
    if (code || !p->own_mvdr_dft)
        return code;
    sonar_dft_spec dft =
        dft_spec(c, c->mvdr_length, c->mvdr_band.first_bin, c->mvdr_band.bins, planning);
    return find_stage(backend, "dft", &dft, &p->host, &p->engine.mvdr_dft, err);
}

static sonar_code make_stages(sonar_pipeline *p, sonar_planning planning, sonar_error *err) {
    const sonar_config *c = p->config;
    sonar_dft_spec dft = dft_spec(c, c->length, p->first_bin, p->bins, planning);
    sonar_cbf_spec cbf = {.sensors = c->sensors,
                          .directions = c->cbf_scan.count,
                          .ranges = c->ranges,
                          .fs_hz = c->fs_hz,
                          .length = c->length,
                          .first_bin = c->lofar_band.first_bin,
                          .bins = c->lofar_band.bins,
                          .cbf_first = c->cbf_band.first_bin,
                          .cbf_bins = c->cbf_band.bins};
    sonar_code code = find_stage(p->engine.backend, "dft", &dft, &p->host, &p->engine.dft, err);
    if (!code)
        code = find_stage(p->engine.backend, "cbf", &cbf, &p->host, &p->engine.cbf, err);
    if (!code && c->mvdr_enabled)
        code = make_mvdr(p, planning, err);
    return code;
}

sonar_code sonar_engine_create(sonar_pipeline *p, const sonar_backend *backend,
                               sonar_planning planning, sonar_error *err) {
    struct engine *e = &p->engine;
    *e = (struct engine){.backend = backend};
    sonar_code code = backend->queue_create(&p->host, &e->queue, err);
    if (!code)
        code = backend->event_create(&e->event, err);
    if (!code && backend->native_space != SONAR_HOST)
        code = backend->queue_create(&p->host, &e->copies, err);
    if (!code && backend->native_space != SONAR_HOST)
        code = backend->event_create(&e->copied, err);
    if (!code)
        code = sonar_timing_create(p, err);
    if (!code)
        code = make_stages(p, planning, err);
    if (!code)
        code = sonar_engine_make_buffers(p, err);
    if (code)
        sonar_engine_destroy(p);
    return code;
}

static void destroy_stage(struct stage *stage) {
    if (stage->ops)
        stage->ops->destroy(stage->self);
}

void sonar_engine_destroy(sonar_pipeline *p) {
    struct engine *e = &p->engine;
    if (!e->backend)
        return;
    /* first: they wait for work that may still use the rest */
    if (e->copies)
        e->backend->queue_destroy(e->copies);
    if (e->queue)
        e->backend->queue_destroy(e->queue);
    if (e->event)
        e->backend->event_destroy(e->event);
    if (e->copied)
        e->backend->event_destroy(e->copied);
    sonar_timing_destroy(p);
    destroy_stage(&e->dft);
    destroy_stage(&e->mvdr_dft);
    destroy_stage(&e->cbf);
    destroy_stage(&e->mvdr);
    sonar_engine_free_buffers(p);
    *e = (struct engine){0};
}
