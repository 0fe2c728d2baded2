/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "chain.h"

/* ---- samples --------------------------------------------------------------------------------- */

/* The ring holds whole windows: window w is slot w mod windows. */
static uint64_t ready(void *ctx) {
    const bench_chain *chain = ctx;
    return (chain->next + 1 + chain->ahead) * chain->scene->c->length;
}

static void release(void *ctx, const sonar_window *window) {
    (void)ctx, (void)window;
}

static sonar_code run(bench_chain *chain, bool wanted, sonar_error *err) {
    const bench_scene *s = chain->scene;
    const uint64_t first = chain->next * s->c->length;
    const sonar_window window = {.window = chain->next,
                                 .first_sample = first,
                                 .ring = chain->ahead && s->device ? s->ring_s16 : s->ring,
                                 .position = first,
                                 .ring_column = (size_t)(first % (s->windows * s->c->length))};
    const sonar_engine_job job = {.window = &window,
                                  .params = &s->params,
                                  .outputs = wanted ? chain->outputs : 0,
                                  .surface = wanted ? chain->surface : NULL};
    const sonar_code code = sonar_engine_run(chain->engine, &job, err);
    chain->next++;
    return code;
}

sonar_code bench_chain_run(void *ctx, sonar_error *err) {
    return run(ctx, true, err);
}

sonar_code bench_chain_run_minute(void *ctx, sonar_error *err) {
    bench_chain *chain = ctx;
    sonar_code code = SONAR_OK;
    for (size_t w = 0; w < chain->scene->c->windows && !code; w++)
        code = run(chain, true, err);
    return code;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static sonar_code make_surfaces(bench_chain *chain, sonar_error *err) {
    const bench_scene *s = chain->scene;
    const sonar_backend *b = s->site->backend;
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_SURFACES && !code; i++) {
        size_t shape[2];
        const int rank = sonar_specs_surface(&chain->specs, (sonar_surface)i, shape);
        if (chain->outputs & SONAR_WANT(i))
            code = b->buffer_create(b, bench_scene_host_space(s), SONAR_F32, rank, shape,
                                    &chain->surface[i], err);
    }
    return code;
}

static sonar_code make_engine(bench_chain *chain, bool minute, sonar_error *err) {
    const bench_scene *s = chain->scene;
    const sonar_backend *b = s->site->backend;
    const sonar_engine_spec spec = {
        .specs = &chain->specs,
        .params = &s->params,
        .place = {b, b, b},
        .surfaces = chain->outputs,
        .source = {.ring = minute && s->device ? s->ring_s16 : s->ring,
                   .ctx = chain,
                   .ready = ready,
                   .release = release},
        .times = &chain->times,
    };
    const sonar_code code = sonar_engine_create(&spec, s->site->host, &chain->engine, err);
    return code ? code : sonar_engine_use(chain->engine, err);
}

sonar_code bench_chain_create(const bench_scene *scene, bool minute, bench_chain *chain,
                              sonar_error *err) {
    *chain = (bench_chain){.scene = scene, .specs = scene->specs, .ahead = minute};
    chain->specs.mvdr_enabled = scene->specs.mvdr_enabled && !minute;
    chain->outputs =
        bench_scene_beams(scene) | (chain->specs.mvdr_enabled ? SONAR_WANT(SONAR_MVDR_AZIMUTH) : 0);
    sonar_code code = make_surfaces(chain, err);
    if (!code)
        code = make_engine(chain, minute, err);
    for (size_t i = 0; chain->specs.mvdr_enabled && i < scene->c->snapshots && !code; i++)
        code = run(chain, false, err);
    return code;
}

void bench_chain_destroy(bench_chain *chain) {
    sonar_engine_destroy(chain->engine);
    for (int i = 0; i < SONAR_SURFACES; i++)
        if (chain->surface[i].data)
            chain->scene->site->backend->buffer_destroy(&chain->surface[i]);
}
