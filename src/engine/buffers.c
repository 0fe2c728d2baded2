/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The buffers between the stages and after them. */
#include "status/topic.h"
#include "engine/internal.h"

static sonar_code make(const sonar_backend *backend, sonar_space space, sonar_dtype dtype, size_t a,
                       size_t b, size_t c, sonar_buffer *buffer, sonar_error *err) {
    size_t shape[3] = {a, b, c};
    return backend->buffer_create(backend, space, dtype, c ? 3 : b ? 2 : 1, shape, buffer, err);
}

/* ---- spectra --------------------------------------------------------------------------------- */

/* Rows [from, from + count) of each snapshot. The view is dense because there is only one snapshot,
 * or all rows are taken. */
static sonar_buffer rows(const sonar_buffer *all, size_t from, size_t count) {
    size_t shape[3] = {all->shape[0], count, all->shape[2]};
    sonar_buffer view =
        sonar_buffer_view((sonar_c32 *)all->data + from * shape[2], SONAR_C32, 3, shape);
    view.space = all->space;
    return view;
}

const sonar_backend *sonar_engine_owner(const sonar_engine *e) {
    const struct side *device = &e->side[DEVICE_SIDE];
    return device->backend ? device->backend : e->side[HOST_SIDE].backend;
}

static sonar_code make_spectra(sonar_engine *e, int which, sonar_error *err) {
    const sonar_specs *specs = e->spec.specs;
    const sonar_dft_spec *dft = &specs->dft;
    const sonar_cbf_spec *cbf = &specs->cbf;
    const sonar_mvdr_spec *mvdr = &specs->mvdr;
    struct spectra *s = &e->side[which].spectra;
    const sonar_backend *owner = sonar_engine_owner(e);
    sonar_space space = which == HOST_SIDE ? SONAR_PINNED : owner->native_space;
    sonar_code code =
        make(owner, space, SONAR_C32, cbf->max_snapshots, dft->bins, dft->sensors, &s->all, err);
    if (code)
        return code;
    s->cbf = rows(&s->all, cbf->first_bin - dft->first_bin, cbf->bins);
    if (!specs->mvdr_enabled)
        return SONAR_OK;
    if (specs->own_mvdr_dft)
        return make(owner, space, SONAR_C32, mvdr->max_new, mvdr->bins, mvdr->sensors, &s->mvdr,
                    err);
    sonar_buffer view = rows(&s->all, mvdr->first_bin - dft->first_bin, mvdr->bins);
    s->mvdr = sonar_buffer_view(view.data, SONAR_C32, 3, (size_t[]){1, mvdr->bins, mvdr->sensors});
    s->mvdr.space = view.space;
    return SONAR_OK;
}

/* Makes the spectra on the sides that have stages. element.psd reads the transforms on the host. */
static sonar_code make_all_spectra(sonar_engine *e, sonar_error *err) {
    bool host = e->spec.surfaces & SONAR_WANT(SONAR_ELEMENT_PSD) || e->crossing->host_transforms;
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SIDES && !code; i++)
        if (e->side[i].backend || (i == HOST_SIDE && host))
            code = make_spectra(e, i, err);
    return code;
}

/* ---- surfaces and points --------------------------------------------------------------------- */

/* Makes a surface that the stage on this backend computes; empty if the topic is not made. */
static sonar_code make_surface(const sonar_engine *e, const sonar_backend *backend,
                               sonar_surface surface, sonar_buffer *buffer, sonar_error *err) {
    size_t shape[2];
    int rank = sonar_specs_surface(e->spec.specs, surface, shape);
    return rank ? backend->buffer_create(backend, backend->native_space,
                                         sonar_topic_table[surface].dtype, rank, shape, buffer, err)
                : SONAR_OK;
}

#define BY_CBF(constant, name, outer, inner, quantity, dtype, maker, ...)                          \
    (SONAR_MADE_BY_##maker == SONAR_MADE_BY_CBF)
#define BY_MVDR(constant, name, outer, inner, quantity, dtype, maker, ...)                         \
    (SONAR_MADE_BY_##maker == SONAR_MADE_BY_MVDR)
_Static_assert(SONAR_TOPICS(BY_CBF, +) == SONAR_CBF_OUTPUTS, "each topic is an output");
_Static_assert(SONAR_TOPICS(BY_MVDR, +) == SONAR_MVDR_OUT_INFO, "each topic is an output");

/* A stage's outputs are its topics, in the order of the rows. */
static sonar_code make_surfaces(const sonar_engine *e, sonar_maker maker,
                                const sonar_backend *backend, sonar_buffer *to, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_SURFACES && !code; i++)
        if (sonar_topic_table[i].maker == maker)
            code = make_surface(e, backend, (sonar_surface)i, to++, err);
    return code;
}

sonar_code sonar_engine_make_surfaces(sonar_engine *e, sonar_error *err) {
    sonar_code code =
        make_surfaces(e, SONAR_MADE_BY_CBF, e->cbf.side->backend, e->buffers.cbf, err);
    if (code || !e->spec.specs->mvdr_enabled)
        return code;
    const sonar_backend *b = e->mvdr.side->backend;
    sonar_buffer *to = e->buffers.mvdr;
    const size_t bins = e->spec.specs->mvdr.bins;
    e->reads_snapshots = e->mvdr.side;
    code = sonar_engine_make_aim(e, SONAR_ENGINE_MVDR, e->spec.specs->cbf.sensors,
                                 &e->mvdr.side->aim, err);
    if (!code)
        code = make_surfaces(e, SONAR_MADE_BY_MVDR, b, to, err);
    if (!code)
        code = make(b, b->native_space, SONAR_F32, bins, SONAR_MVDR_INFO_FIELDS, 0,
                    &to[SONAR_MVDR_OUT_INFO], err);
    return code ? code
                : make(sonar_engine_owner(e), SONAR_PINNED, SONAR_F32, bins, SONAR_MVDR_INFO_FIELDS,
                       0, &e->buffers.host_info, err);
}

static sonar_code make_looks(const sonar_backend *backend, sonar_space space, sonar_buffer *looks,
                             sonar_buffer *powers, sonar_error *err) {
    sonar_code code =
        make(backend, space, SONAR_F64, SONAR_ENGINE_POINTS, SONAR_LOOK_FIELDS, 0, looks, err);
    return code ? code : make(backend, space, SONAR_F32, SONAR_ENGINE_POINTS, 0, 0, powers, err);
}

sonar_code sonar_engine_make_aim(sonar_engine *e, sonar_engine_stage place, size_t sensors,
                                 struct aim *aim, sonar_error *err) {
    const sonar_steer_spec spec = {sensors};
    if (aim->steer.ops)
        return SONAR_OK;
    sonar_code code = sonar_engine_make_stage(e, place, "steer", &spec, &aim->steer, err);
    if (code)
        return code;
    const sonar_backend *backend = aim->steer.side->backend;
    code = make_looks(backend, backend->native_space, &aim->looks, &aim->powers, err);
    return code ? code
                : make(backend, backend->native_space, SONAR_U64, SLAB, sensors, 0, &aim->turns,
                       err);
}

/* The steering beside the CBF, which an MVDR on the same side shares. */
static sonar_code make_looks_and_aim(sonar_engine *e, sonar_error *err) {
    sonar_code code = make_looks(sonar_engine_owner(e), SONAR_PINNED, &e->buffers.host_looks,
                                 &e->buffers.host_powers, err);
    return code ? code
                : sonar_engine_make_aim(e, SONAR_ENGINE_CBF, e->spec.specs->cbf.sensors,
                                        &e->cbf.side->aim, err);
}

/* ---- the device's ring ----------------------------------------------------------------------- */

static sonar_code make_ring(sonar_engine *e, sonar_error *err) {
    const sonar_backend *b = e->dft.side->backend;
    const sonar_buffer *ring = &e->spec.source.ring;
    if (e->dft.side != &e->side[DEVICE_SIDE])
        return SONAR_OK;
    sonar_code code = make(b, b->native_space, ring->dtype, ring->shape[0], ring->shape[1], 0,
                           &e->buffers.ring, err);
    if (!code && b->graph_begin)
        code = make(b, b->native_space, SONAR_U64, 1, 0, 0, &e->buffers.column, err);
    if (!code && b->graph_begin)
        code = make(b, SONAR_PINNED, SONAR_U64, 1, 0, 0, &e->buffers.host_column, err);
    return code;
}

/* ---- all of them ----------------------------------------------------------------------------- */

sonar_code sonar_engine_make_buffers(sonar_engine *e, sonar_error *err) {
    sonar_code code = make_all_spectra(e, err);
    if (!code)
        code = make_looks_and_aim(e, err);
    return code ? code : make_ring(e, err);
}

static void release(const sonar_backend *backend, sonar_buffer *buffers, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (buffers[i].data)
            backend->buffer_destroy(&buffers[i]);
}

void sonar_engine_free_aim(struct aim *aim) {
    if (!aim->steer.ops)
        return;
    const sonar_backend *backend = aim->steer.side->backend;
    aim->steer.ops->destroy(aim->steer.self);
    release(backend, &aim->looks, 1);
    release(backend, &aim->turns, 1);
    release(backend, &aim->powers, 1);
    *aim = (struct aim){0};
}

static void release_side(const sonar_engine *e, struct side *side, const sonar_backend *owner) {
    release(owner, &side->spectra.all, 1);
    if (e->spec.specs->own_mvdr_dft)
        release(owner, &side->spectra.mvdr, 1);
    sonar_engine_free_aim(&side->aim);
}

void sonar_engine_free_buffers(sonar_engine *e) {
    struct buffers *b = &e->buffers;
    const sonar_backend *owner = sonar_engine_owner(e);
    for (struct side *side = e->side; side < e->side + SIDES; side++)
        release_side(e, side, owner);
    if (e->cbf.side)
        release(e->cbf.side->backend, b->cbf, SONAR_CBF_OUTPUTS);
    if (e->mvdr.side)
        release(e->mvdr.side->backend, b->mvdr, SONAR_MVDR_OUTPUTS);
    release(owner, &b->host_info, 1);
    release(owner, &b->host_looks, 1);
    release(owner, &b->host_powers, 1);
    release(e->side[DEVICE_SIDE].backend, &b->ring, 1);
    release(e->side[DEVICE_SIDE].backend, &b->column, 1);
    release(e->side[DEVICE_SIDE].backend, &b->host_column, 1);
    *b = (struct buffers){0};
}
