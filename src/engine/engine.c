/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Creates and destroys an engine. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/internal.h"

/* ---- sides ----------------------------------------------------------------------------------- */

/* Waits for work that may still use the other objects. */
static void stop_side(struct side *side) {
    if (side->beside && side->beside != side->queue)
        side->backend->queue_destroy(side->beside);
    if (side->queue)
        side->backend->queue_destroy(side->queue);
    side->queue = side->beside = NULL;
}

static void close_side(struct side *side) {
    sonar_event *const events[] = {side->done, side->transferred, side->beams};
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i])
            side->backend->event_destroy(events[i]);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static sonar_code make_stages(sonar_engine *e, sonar_error *err) {
    const sonar_specs *specs = e->spec.specs;
    sonar_dft_spec dft = specs->dft, mvdr_dft = specs->mvdr_dft;
    dft.planning = mvdr_dft.planning = e->spec.planning;
    dft.in_place = mvdr_dft.in_place = true;
    sonar_code code = sonar_engine_make_stage(e, SONAR_ENGINE_DFT, "dft", &dft, &e->dft, err);
    if (!code)
        code = sonar_engine_make_stage(e, SONAR_ENGINE_CBF, "cbf", &specs->cbf, &e->cbf, err);
    if (!code && e->solves.bins)
        code =
            sonar_engine_make_stage(e, SONAR_ENGINE_MVDR, "mvdr_jacobi", &e->solves, &e->mvdr, err);
    if (!code && specs->own_mvdr_dft)
        code = sonar_engine_make_stage(e, SONAR_ENGINE_DFT, "dft", &mvdr_dft, &e->mvdr_dft, err);
    return code ? code : e->crossing->make(e, err);
}

static void destroy_stage(struct stage *stage) {
    if (stage->ops)
        stage->ops->destroy(stage->self);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void give_name(sonar_engine *e) {
    const sonar_backend *host = e->side[HOST_SIDE].backend, *device = e->side[DEVICE_SIDE].backend;
    snprintf(e->name, sizeof e->name, "%s%s%s", device ? device->name : "",
             host && device ? "+" : "", host ? host->name : "");
}

/* Samples are copied to a device in a queue beside the stages' queue. */
static sonar_code make_copies(sonar_engine *e, sonar_error *err) {
    const struct side *side = e->dft.side;
    if (side == &e->side[HOST_SIDE])
        return SONAR_OK;
    sonar_code code = side->backend->queue_create(side->backend, &e->copies, err);
    return code ? code : side->backend->event_create(side->backend, &e->copied, err);
}

static sonar_code meet_ranks(sonar_engine *e, sonar_error *err) {
    const sonar_exchange_spec spec = {
        .ranks = e->spec.ranks, .part = e->spec.specs, .host = e->host};
    const sonar_code code = sonar_exchange_create(&spec, &e->exchange, err);
    if (!code)
        e->solves = *sonar_exchange_solves(e->exchange);
    e->crossing = &sonar_crossing_of_ranks;
    return code;
}

static sonar_code make_all(sonar_engine *e, sonar_error *err) {
    sonar_code code = e->spec.ranks ? meet_ranks(e, err) : SONAR_OK;
    if (!code)
        code = make_stages(e, err);
    if (!code)
        code = make_copies(e, err);
    if (!code)
        code = sonar_timing_create(e, err);
    if (!code)
        code = sonar_engine_make_buffers(e, err);
    if (!code)
        code = sonar_snapshots_create(e, err);
    return code ? code : sonar_graphs_create(e, err);
}

sonar_code sonar_engine_create(const sonar_engine_spec *spec, const sonar_host *host,
                               sonar_engine **engine, sonar_error *err) {
    *engine = NULL;
    sonar_engine *e = sonar_alloc(1, sizeof *e);
    if (!e)
        return sonar_fail(err, SONAR_ENOMEM, "engine", "no memory");
    e->spec = *spec;
    e->host = host;
    e->crossing = &sonar_crossing_alone;
    e->overlaps = spec->specs->mvdr_enabled && !spec->ranks;
    if (spec->specs->mvdr_enabled)
        e->solves = spec->specs->mvdr;
    sonar_code code = make_all(e, err);
    give_name(e);
    if (code)
        sonar_engine_destroy(e);
    else
        *engine = e;
    return code;
}

void sonar_engine_destroy(sonar_engine *e) {
    if (!e)
        return;
    if (e->copies)
        e->side[DEVICE_SIDE].backend->queue_destroy(e->copies);
    for (struct side *side = e->side; side < e->side + SIDES; side++)
        stop_side(side);
    sonar_graphs_destroy(e);
    if (e->copied)
        e->side[DEVICE_SIDE].backend->event_destroy(e->copied);
    sonar_timing_destroy(e);
    destroy_stage(&e->dft);
    destroy_stage(&e->mvdr_dft);
    destroy_stage(&e->cbf);
    destroy_stage(&e->mvdr);
    destroy_stage(&e->sums);
    sonar_parts_free_buffers(e);
    sonar_exchange_destroy(e->exchange);
    sonar_engine_free_buffers(e);
    for (struct side *side = e->side; side < e->side + SIDES; side++)
        close_side(side);
    free(e->history.first_sample);
    free(e->keep);
    free(e);
}

void sonar_engine_forget(sonar_engine *e) {
    if (e->mvdr.ops)
        e->mvdr.ops->reset(e->mvdr.self);
    if (e->sums.ops)
        e->sums.ops->reset(e->sums.self);
    e->not_as_recorded = true;
    sonar_snapshots_forget(&e->history);
}

/* ---- queries --------------------------------------------------------------------------------- */

const char *sonar_engine_name(const sonar_engine *e) {
    return e->name;
}

bool sonar_engine_has_device(const sonar_engine *e) {
    return e->side[DEVICE_SIDE].backend != NULL;
}

const sonar_buffer *sonar_engine_mvdr_info(const sonar_engine *e) {
    return &e->info;
}
