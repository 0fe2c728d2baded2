/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <stdio.h>
#include <string.h>

#include "pipeline/internal.h"

struct side *sonar_engine_device(struct engine *engine) {
    struct side *device = &engine->side[DEVICE_SIDE];
    return device->backend ? device : NULL;
}

/* ---- sides ----------------------------------------------------------------------------------- */

static sonar_code open_side(struct side *side, const sonar_backend *backend, sonar_error *err) {
    side->backend = backend;
    sonar_code code = backend->use ? backend->use(backend, err) : SONAR_OK;
    if (!code)
        code = backend->queue_create(backend, &side->queue, err);
    if (!code)
        code = backend->event_create(backend, &side->done, err);
    return code ? code : backend->event_create(backend, &side->crossed, err);
}

/* The side of a backend, opened when it is first asked for. */
static sonar_code find_side(sonar_pipeline *p, const sonar_backend *backend, struct side **found,
                            sonar_error *err) {
    *found = &p->engine.side[backend->native_space == SONAR_HOST ? HOST_SIDE : DEVICE_SIDE];
    if ((*found)->backend == backend)
        return SONAR_OK;
    if ((*found)->backend)
        return sonar_fail(err, SONAR_EINVAL, "engine", "%s and %s cannot share a chain",
                          (*found)->backend->name, backend->name);
    return open_side(*found, backend, err);
}

/* Waits for work that may still use all the rest. */
static void stop_side(struct side *side) {
    if (side->queue)
        side->backend->queue_destroy(side->queue);
    side->queue = NULL;
}

static void close_side(struct side *side) {
    if (side->done)
        side->backend->event_destroy(side->done);
    if (side->crossed)
        side->backend->event_destroy(side->crossed);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static sonar_code make_stage(sonar_pipeline *p, const sonar_backend *backend, const char *name,
                             const void *spec, struct stage *to, sonar_error *err) {
    sonar_code code = find_side(p, backend, &to->side, err);
    if (code)
        return code;
    to->ops = backend->stage(name);
    if (!to->ops)
        return sonar_fail(err, SONAR_EUNAVAILABLE, name, "the %s backend has no such stage",
                          backend->name);
    return to->ops->create(spec, &p->host, &to->self, err);
}

static sonar_code make_stages(sonar_pipeline *p, const sonar_backend *const place[STAGE_DETECT],
                              sonar_planning planning, sonar_error *err) {
    struct engine *e = &p->engine;
    const sonar_specs *specs = &p->specs;
    sonar_dft_spec dft = specs->dft, mvdr_dft = specs->mvdr_dft;
    dft.planning = mvdr_dft.planning = planning;
    dft.in_place = mvdr_dft.in_place = true;
    sonar_code code = make_stage(p, place[STAGE_DFT], "dft", &dft, &e->dft, err);
    if (!code)
        code = make_stage(p, place[STAGE_CBF], "cbf", &specs->cbf, &e->cbf, err);
    if (!code && p->config->mvdr_enabled)
        code = make_stage(p, place[STAGE_MVDR], "mvdr_jacobi", &specs->mvdr, &e->mvdr, err);
    if (!code && p->own_mvdr_dft)
        code = make_stage(p, place[STAGE_DFT], "dft", &mvdr_dft, &e->mvdr_dft, err);
    return code;
}

static void destroy_stage(struct stage *stage) {
    if (stage->ops)
        stage->ops->destroy(stage->self);
}

/* ---- engines --------------------------------------------------------------------------------- */

static void give_name(struct engine *e) {
    const sonar_backend *host = e->side[HOST_SIDE].backend, *device = e->side[DEVICE_SIDE].backend;
    snprintf(e->name, sizeof e->name, "%s%s%s", device ? device->name : "",
             host && device ? "+" : "", host ? host->name : "");
}

/* Samples go to a device beside the stages' work. */
static sonar_code make_copies(sonar_pipeline *p, sonar_error *err) {
    struct engine *e = &p->engine;
    const struct side *side = e->dft.side;
    if (side == &e->side[HOST_SIDE])
        return SONAR_OK;
    sonar_code code = side->backend->queue_create(side->backend, &e->copies, err);
    return code ? code : side->backend->event_create(side->backend, &e->copied, err);
}

sonar_code sonar_engine_create(sonar_pipeline *p, const sonar_backend *const place[STAGE_DETECT],
                               sonar_planning planning, sonar_error *err) {
    struct engine *e = &p->engine;
    *e = (struct engine){0};
    sonar_code code = make_stages(p, place, planning, err);
    if (!code)
        code = make_copies(p, err);
    if (!code)
        code = sonar_timing_create(p, err);
    if (!code)
        code = sonar_engine_make_buffers(p, err);
    if (!code)
        code = sonar_graphs_create(p, err);
    give_name(e);
    if (code)
        sonar_engine_destroy(p);
    return code;
}

void sonar_engine_destroy(sonar_pipeline *p) {
    struct engine *e = &p->engine;
    if (e->copies)
        e->side[DEVICE_SIDE].backend->queue_destroy(e->copies);
    for (struct side *side = e->side; side < e->side + SIDES; side++)
        stop_side(side);
    sonar_graphs_destroy(p);
    if (e->copied)
        e->side[DEVICE_SIDE].backend->event_destroy(e->copied);
    sonar_timing_destroy(p);
    destroy_stage(&e->dft);
    destroy_stage(&e->mvdr_dft);
    destroy_stage(&e->cbf);
    destroy_stage(&e->mvdr);
    sonar_engine_free_buffers(p);
    for (struct side *side = e->side; side < e->side + SIDES; side++)
        close_side(side);
    *e = (struct engine){0};
}
