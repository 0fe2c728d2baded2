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

static sonar_code make_stages(sonar_pipeline *p, sonar_planning planning, sonar_error *err) {
    struct engine *e = &p->engine;
    const sonar_specs *specs = &p->specs;
    sonar_dft_spec dft = specs->dft, mvdr_dft = specs->mvdr_dft;
    dft.planning = mvdr_dft.planning = planning;
    sonar_code code = find_stage(e->backend, "dft", &dft, &p->host, &e->dft, err);
    if (!code)
        code = find_stage(e->backend, "cbf", &specs->cbf, &p->host, &e->cbf, err);
    if (!code && p->config->mvdr_enabled)
        code = find_stage(e->backend, "mvdr_jacobi", &specs->mvdr, &p->host, &e->mvdr, err);
    if (!code && p->own_mvdr_dft)
        code = find_stage(e->backend, "dft", &mvdr_dft, &p->host, &e->mvdr_dft, err);
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
