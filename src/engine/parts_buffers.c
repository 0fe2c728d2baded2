/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The additional buffers of an engine with ranks. Allocated once. */
#include <stdlib.h>
#include <string.h>

#include "engine/internal.h"

/* ---- a stage's inputs and outputs ------------------------------------------------------------ */

static sonar_code make_both(const sonar_engine *e, const struct stage *stage, sonar_dtype dtype,
                            int rank, const size_t *shape, struct both *both, sonar_error *err) {
    const sonar_backend *owner = sonar_engine_owner(e), *backend = stage->side->backend;
    sonar_code code =
        owner->buffer_create(owner, SONAR_PINNED, dtype, rank, shape, &both->host, err);
    both->native = both->host;
    if (code || stage->side == &e->side[HOST_SIDE])
        return code;
    both->native.data = NULL;
    return backend->buffer_create(backend, backend->native_space, dtype, rank, shape, &both->native,
                                  err);
}

static void free_both(const sonar_engine *e, const struct stage *stage, struct both *both) {
    if (both->native.data && both->native.data != both->host.data)
        stage->side->backend->buffer_destroy(&both->native);
    if (both->host.data)
        sonar_engine_owner(e)->buffer_destroy(&both->host);
}

struct row {
    struct both *both;
    const struct stage *stage; /* the stage that reads or writes it */
    bool there;
    sonar_dtype dtype;
    int rank;
    size_t shape[3];
};

enum { BUFFERS = 17 };

/* Lists the buffers, without those of stages that are not made. */
static void list(sonar_engine *e, struct row rows[BUFFERS]) {
    struct parts *p = &e->parts;
    const sonar_cbf_spec *cbf = &e->spec.specs->cbf;
    const sonar_mvdr_spec *part = &e->spec.specs->mvdr, *own = &e->solves;
    const bool adds = e->sums.ops, solves = e->mvdr.ops, joins = adds && solves;
    const size_t n = cbf->max_snapshots, angles = own->directions;
    const size_t each = adds ? sonar_exchange_point_doubles(part) : 0;
    const size_t of_part = adds ? sonar_mvdr_sums_most(part) : 0;
    const size_t of_own = joins ? sonar_mvdr_sums_most(own) : 0;
    const struct row all[BUFFERS] = {
        {&p->far, &e->cbf, true, SONAR_C32, 3, {n, cbf->bins, cbf->directions}},
        {&p->near,
         &e->cbf,
         cbf->ranges,
         SONAR_C32,
         3,
         {n, cbf->cbf_bins, cbf->ranges * cbf->directions}},
        {&p->point_parts, &e->cbf, true, SONAR_C32, 3, {n, cbf->bins, SLAB}},
        {&p->products,
         &e->sums,
         adds,
         SONAR_F64,
         3,
         {part->max_new + part->snapshots, part->bins, SONAR_MVDR_PRODUCTS}},
        {&p->plan, &e->sums, adds, SONAR_F64, 2, {part->bins, SONAR_MVDR_PLAN}},
        {&p->of_bins, &e->sums, adds, SONAR_F64, 2, {part->bins, of_part}},
        {&p->of_points, &e->sums, adds, SONAR_F64, 3, {part->bins, SLAB, each}},
        {&p->share_plan, &e->mvdr, joins, SONAR_F64, 2, {own->bins, SONAR_MVDR_PLAN}},
        {&p->added, &e->mvdr, joins, SONAR_F64, 2, {own->bins, of_own}},
        {&p->added_points, &e->mvdr, joins, SONAR_F64, 3, {own->bins, SLAB, each}},
        {&p->input,
         &e->mvdr,
         solves && !adds,
         SONAR_C32,
         3,
         {own->max_new, own->bins, own->sensors}},
        {&p->spectrum, &e->mvdr, solves, SONAR_F32, 2, {own->bins, angles}},
        {&p->info, &e->mvdr, solves, SONAR_F32, 2, {own->bins, SONAR_MVDR_INFO_FIELDS}},
        {&p->eigenvalues,
         &e->mvdr,
         solves,
         SONAR_F32,
         2,
         {own->bins, solves ? sonar_mvdr_modes(own) : 0}},
        {&p->close, &e->mvdr, solves && own->ranges, SONAR_F32, 2, {own->ranges, angles}},
        {&p->music, &e->mvdr, solves && own->music, SONAR_F32, 1, {angles}},
        {&p->point_power, &e->mvdr, solves, SONAR_F32, 1, {SLAB}},
    };
    memcpy(rows, all, sizeof all);
}

/* The stage that makes this rank's sums, where sums are added, and the steering beside it; else the
 * steering of all sensors. Ranks that exchange transforms send them from the host. */
static sonar_code make_sums(sonar_engine *e, sonar_error *err) {
    sonar_mvdr_spec sums = e->spec.specs->mvdr;
    sums.parts = SONAR_MVDR_PART;
    e->reads_snapshots = &e->side[HOST_SIDE];
    if (!sonar_exchange_adds(e->exchange))
        return e->mvdr.ops ? sonar_engine_make_aim(e, SONAR_ENGINE_MVDR, e->solves.sensors,
                                                   &e->parts.whole, err)
                           : SONAR_OK;
    const sonar_code code =
        sonar_engine_make_stage(e, SONAR_ENGINE_MVDR, "mvdr_jacobi", &sums, &e->sums, err);
    if (code)
        return code;
    e->reads_snapshots = e->sums.side;
    return sonar_engine_make_aim(e, SONAR_ENGINE_MVDR, e->spec.specs->cbf.sensors,
                                 &e->sums.side->aim, err);
}

sonar_code sonar_parts_make(sonar_engine *e, sonar_error *err) {
    struct row rows[BUFFERS];
    sonar_code code = make_sums(e, err);
    list(e, rows);
    for (struct row *r = rows; r < rows + BUFFERS && !code; r++)
        if (r->there)
            code = make_both(e, r->stage, r->dtype, r->rank, r->shape, r->both, err);
    if (code)
        return code;
    e->parts.psd =
        sonar_alloc(e->spec.specs->dft.channels * e->spec.specs->cbf.bins, sizeof *e->parts.psd);
    return e->parts.psd ? SONAR_OK
                        : sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for power spectra");
}

void sonar_parts_free_buffers(sonar_engine *e) {
    struct row rows[BUFFERS];
    list(e, rows);
    for (struct row *r = rows; r < rows + BUFFERS; r++)
        free_both(e, r->stage, r->both);
    sonar_engine_free_aim(&e->parts.whole);
    free(e->parts.psd);
}
