/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "stages.h"

#include <string.h>

/* ---- buffers --------------------------------------------------------------------------------- */

static sonar_code make(const bench_stages *r, int rank, const size_t *shape, sonar_dtype dtype,
                       sonar_buffer *buffer, sonar_error *err) {
    return r->b->buffer_create(r->b, r->b->native_space, dtype, rank, shape, buffer, err);
}

/* A surface without a shape stays an empty view. */
static sonar_code make_surface(bench_stages *r, sonar_surface surface, sonar_buffer *to,
                               sonar_error *err) {
    size_t shape[2] = {0};
    const int rank = sonar_specs_surface(&r->scene->specs, surface, shape);
    *to = sonar_buffer_view(NULL, SONAR_F32, 2, shape);
    return rank ? make(r, rank, shape, SONAR_F32, to, err) : SONAR_OK;
}

static sonar_code make_surfaces(bench_stages *r, sonar_error *err) {
    const size_t info[] = {r->scene->c->mvdr.bins, SONAR_MVDR_INFO_FIELDS};
    sonar_buffer *mvdr = r->mvdr_out;
    sonar_code code = SONAR_OK;
    for (int i = SONAR_CBF_AZIMUTH; i <= SONAR_CBF_LOFAR && !code; i++)
        code = make_surface(r, (sonar_surface)i, &r->cbf_out[i], err);
    if (!code)
        code = make_surface(r, SONAR_MVDR_AZIMUTH, &mvdr[SONAR_MVDR_OUT_AZIMUTH], err);
    if (!code)
        code = make_surface(r, SONAR_MVDR_SPECTRUM, &mvdr[SONAR_MVDR_OUT_SPECTRUM], err);
    if (!code && info[0])
        code = make(r, 2, info, SONAR_F32, &mvdr[SONAR_MVDR_OUT_INFO], err);
    return code;
}

static sonar_code make_looks(bench_stages *r, sonar_error *err) {
    const size_t looks[] = {r->scene->c->angles, r->scene->c->sensors};
    const sonar_buffer turns = sonar_buffer_view(r->scene->far_turns, SONAR_U64, 2, looks);
    sonar_code code = make(r, 2, looks, SONAR_U64, &r->looks, err);
    if (!code)
        code = make(r, 1, looks, SONAR_F32, &r->look_power, err);
    return code ? code : r->b->copy(r->queue, &turns, &r->looks, err);
}

static sonar_code make_inputs(bench_stages *r, sonar_error *err) {
    const bench_scene *s = r->scene;
    const size_t bins[] = {s->specs.dft.bins, s->c->sensors};
    const size_t several[] = {s->c->snapshots, bins[0], bins[1]};
    sonar_code code = SONAR_OK;
    if (s->c->mvdr_alone)
        return SONAR_OK;
    if (s->device)
        code = make(r, 2, s->ring.shape, SONAR_F32, &r->on_device, err);
    if (!code && s->device)
        code = r->b->copy(r->queue, &s->ring, &r->on_device, err);
    r->bin_sets = bench_scene_sets(bins[0] * bins[1] * sizeof(sonar_c32), BENCH_BIN_SETS_MOST);
    for (size_t i = 0; i < r->bin_sets && !code; i++)
        code = make(r, 2, bins, SONAR_C32, &r->bins[i], err);
    if (!code && s->c->cbf_alone)
        code = make(r, 3, several, SONAR_C32, &r->several, err);
    return code;
}

static sonar_code make_snapshots(bench_stages *r, sonar_error *err) {
    const bench_scene *s = r->scene;
    const size_t shape[] = {s->c->snapshots + 1, s->c->mvdr.bins, s->c->sensors};
    if (!s->c->mvdr.bins)
        return SONAR_OK;
    const sonar_buffer from = sonar_buffer_view(s->snapshot, SONAR_C32, 3, shape);
    const sonar_code code = make(r, 3, shape, SONAR_C32, &r->snapshots, err);
    return code ? code : r->b->copy(r->queue, &from, &r->snapshots, err);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static sonar_code make_stage(bench_stages *r, const char *name, const void *spec, bench_stage *to,
                             sonar_error *err) {
    to->ops = r->b->stage(name);
    if (!to->ops)
        return sonar_fail(err, SONAR_EUNAVAILABLE, r->scene->c->name,
                          "the backend %s lacks the stage %s", r->b->name, name);
    return to->ops->create(spec, r->scene->site->host, &to->self, err);
}

static sonar_code make_stages(bench_stages *r, sonar_error *err) {
    const bench_case *c = r->scene->c;
    const sonar_specs *specs = &r->scene->specs;
    sonar_mvdr_spec mvdr = specs->mvdr;
    mvdr.max_new = sonar_min_size(sonar_max_size(c->snapshots, 1), BENCH_NEW_MOST);
    sonar_code code = SONAR_OK;
    if (!c->mvdr_alone)
        code = make_stage(r, "dft", &specs->dft, &r->dft, err);
    if (!code && !c->mvdr_alone)
        code = make_stage(r, "cbf", &specs->cbf, &r->cbf, err);
    if (!code && c->mvdr.bins)
        code = make_stage(r, "mvdr_jacobi", &mvdr, &r->mvdr, err);
    mvdr.loading = SONAR_LOADING_TRACE;
    mvdr.eps = 0.01;
    if (!code && c->mvdr_alone && c->peers)
        code = make_stage(r, "mvdr_jacobi", &mvdr, &r->trace, err);
    return code;
}

static sonar_work work_of(const bench_stages *r, uint32_t outputs) {
    return (sonar_work){.params = &r->scene->params, .outputs = outputs};
}

/* A part of a dense buffer's outermost dimension. */
static sonar_buffer rows_of(const sonar_buffer *all, size_t first, size_t count) {
    sonar_buffer part = *all;
    const size_t row = all->bytes / sonar_max_size(all->shape[0], 1);
    part.data = (char *)all->data + first * row;
    part.shape[0] = count;
    part.bytes = count * row;
    return part;
}

/* ---- DFT ------------------------------------------------------------------------------------- */

/* The turn's window of samples in a ring. */
static sonar_code transform(bench_stages *r, const sonar_buffer *ring, sonar_buffer *bins,
                            sonar_error *err) {
    const bench_scene *s = r->scene;
    const size_t length = s->c->length, column = r->turn % s->windows * length;
    sonar_buffer in[SONAR_DFT_INPUTS];
    const sonar_work work = work_of(r, 0);
    const sonar_window window = {.ring = *ring, .position = column, .ring_column = column};
    sonar_window_span(&window, 0, length, in);
    return r->dft.ops->execute(r->dft.self, r->queue, in, bins, &work, err);
}

static sonar_code transform_next(bench_stages *r, const sonar_buffer *ring, sonar_error *err) {
    r->turn++;
    return transform(r, ring, &r->bins[r->turn % r->bin_sets], err);
}

sonar_code bench_stages_dft(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    return transform_next(r, &r->scene->ring, err);
}

sonar_code bench_stages_dft_device(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    return transform_next(r, &r->on_device, err);
}

/* Different windows as snapshots, if there are enough. */
static sonar_code fill_several(bench_stages *r, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < r->scene->c->snapshots && !code; i++) {
        sonar_buffer bins = sonar_buffer_part(&r->several, i);
        r->turn = i;
        code = transform(r, &r->scene->ring, &bins, err);
    }
    return code;
}

/* ---- conventional beamformer ----------------------------------------------------------------- */

/* `in` is [snapshot][bin][sensor]. */
static sonar_code beams_of(bench_stages *r, const sonar_buffer *in, uint32_t outputs,
                           sonar_error *err) {
    const sonar_work work = work_of(r, outputs);
    return r->cbf.ops->execute(r->cbf.self, r->queue, in, r->cbf_out, &work, err);
}

/* Uses the next set of bins: all sets together exceed every cache. */
static sonar_code beams(bench_stages *r, uint32_t outputs, sonar_error *err) {
    const bench_scene *s = r->scene;
    const bench_band *lofar = &s->c->lofar;
    r->turn++;
    sonar_buffer band = rows_of(&r->bins[r->turn % r->bin_sets],
                                lofar->first - s->specs.dft.first_bin, lofar->bins);
    sonar_buffer in =
        sonar_buffer_view(band.data, SONAR_C32, 3, (size_t[]){1, lofar->bins, s->c->sensors});
    in.space = band.space;
    return beams_of(r, &in, outputs, err);
}

sonar_code bench_stages_far(void *ctx, sonar_error *err) {
    return beams(ctx, SONAR_WANT(SONAR_CBF_AZIMUTH), err);
}

sonar_code bench_stages_near(void *ctx, sonar_error *err) {
    return beams(ctx, SONAR_WANT(SONAR_CBF_NEARFIELD), err);
}

sonar_code bench_stages_lofar(void *ctx, sonar_error *err) {
    return beams(ctx, SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR), err);
}

sonar_code bench_stages_all_beams(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    return beams(r, bench_scene_beams(r->scene), err);
}

sonar_code bench_stages_several(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    return beams_of(r, &r->several, SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR),
                    err);
}

sonar_code bench_stages_few(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    const sonar_work work = work_of(r, 0);
    const size_t few = sonar_min_size(r->scene->c->angles, BENCH_FEW);
    const sonar_buffer looks = rows_of(&r->looks, 0, few);
    sonar_buffer power = rows_of(&r->look_power, 0, few);
    return r->cbf.ops->evaluate(r->cbf.self, r->queue, &looks, &power, &work, err);
}

/* ---- MVDR ------------------------------------------------------------------------------------ */

static sonar_code adapt(bench_stages *r, const bench_stage *mvdr, size_t first, size_t count,
                        uint32_t outputs, sonar_error *err) {
    const sonar_buffer in = rows_of(&r->snapshots, first, count);
    const sonar_work work = work_of(r, outputs);
    return mvdr->ops->execute(mvdr->self, r->queue, &in, r->mvdr_out, &work, err);
}

/* The snapshot that enters a full block is the one that left it a window before. */
static sonar_code adapt_to_next(bench_stages *r, const bench_stage *mvdr, sonar_error *err) {
    return adapt(r, mvdr, r->fresh++ % (r->scene->c->snapshots + 1), 1,
                 SONAR_WANT(SONAR_MVDR_AZIMUTH), err);
}

sonar_code bench_stages_mvdr(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    return adapt_to_next(r, &r->mvdr, err);
}

sonar_code bench_stages_trace(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    return adapt_to_next(r, &r->trace, err);
}

sonar_code bench_stages_looks(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    const sonar_work work = work_of(r, 0);
    return r->mvdr.ops->evaluate(r->mvdr.self, r->queue, &r->looks, &r->look_power, &work, err);
}

static sonar_code fill_with(bench_stages *r, const bench_stage *mvdr, uint32_t outputs,
                            sonar_error *err) {
    const size_t all = r->scene->c->snapshots;
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < all && !code; i += BENCH_NEW_MOST) {
        const size_t some = sonar_min_size(all - i, BENCH_NEW_MOST);
        code = adapt(r, mvdr, i, some, i + some == all ? outputs : 0, err);
    }
    r->fresh = all;
    return code;
}

sonar_code bench_stages_fill_block(bench_stages *r, const bench_stage *mvdr, sonar_error *err) {
    return fill_with(r, mvdr, SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM),
                     err);
}

sonar_code bench_stages_refill(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    r->mvdr.ops->reset(r->mvdr.self);
    return fill_with(r, &r->mvdr, SONAR_WANT(SONAR_MVDR_AZIMUTH), err);
}

/* ---- the whole ------------------------------------------------------------------------------- */

sonar_code bench_stages_settle(void *ctx, sonar_error *err) {
    bench_stages *r = ctx;
    sonar_code code = r->b->record(r->queue, r->done, err);
    return code ? code : r->b->finish(r->done, err);
}

/* Data for all stages after the first. */
static sonar_code fill(bench_stages *r, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < r->bin_sets && !code; i++)
        code = bench_stages_dft(r, err);
    if (!code && r->several.data)
        code = fill_several(r, err);
    return code ? code : bench_stages_settle(r, err);
}

sonar_code bench_stages_create(const bench_scene *scene, bench_stages *r, sonar_error *err) {
    *r = (bench_stages){.scene = scene, .b = scene->site->backend};
    sonar_code code = r->b->queue_create(r->b, &r->queue, err);
    if (!code)
        code = r->b->event_create(r->b, &r->done, err);
    if (!code)
        code = make_surfaces(r, err);
    if (!code)
        code = make_looks(r, err);
    if (!code)
        code = make_inputs(r, err);
    if (!code)
        code = make_snapshots(r, err);
    if (!code)
        code = make_stages(r, err);
    return code ? code : fill(r, err);
}

static void release(bench_stages *r, sonar_buffer *buffer) {
    if (buffer->data)
        r->b->buffer_destroy(buffer);
}

void bench_stages_destroy(bench_stages *r) {
    bench_stage *const stages[] = {&r->dft, &r->cbf, &r->mvdr, &r->trace};
    if (r->queue && r->done)
        bench_stages_settle(r, NULL);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (stages[i]->self)
            stages[i]->ops->destroy(stages[i]->self);
    for (size_t i = 0; i < SONAR_CBF_OUTPUTS; i++)
        release(r, &r->cbf_out[i]);
    for (size_t i = 0; i < SONAR_MVDR_OUTPUTS; i++)
        release(r, &r->mvdr_out[i]);
    for (size_t i = 0; i < r->bin_sets; i++)
        release(r, &r->bins[i]);
    release(r, &r->on_device);
    release(r, &r->several);
    release(r, &r->snapshots);
    release(r, &r->looks);
    release(r, &r->look_power);
    if (r->done)
        r->b->event_destroy(r->done);
    if (r->queue)
        r->b->queue_destroy(r->queue);
}
