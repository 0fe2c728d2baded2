/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What an engine has besides the others' buffers where there are ranks, made once. */
#include <stdlib.h>

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

static sonar_code make_cbf(sonar_engine *e, sonar_error *err) {
    const sonar_cbf_spec *cbf = &e->spec.specs->cbf;
    struct parts *p = &e->parts;
    const size_t n = cbf->max_snapshots;
    sonar_code code = make_both(e, &e->cbf, SONAR_C32, 3, (size_t[]){n, cbf->bins, cbf->directions},
                                &p->far, err);
    if (!code && cbf->ranges)
        code =
            make_both(e, &e->cbf, SONAR_C32, 3,
                      (size_t[]){n, cbf->cbf_bins, cbf->ranges * cbf->directions}, &p->near, err);
    if (!code)
        code = make_both(e, &e->cbf, SONAR_C32, 3, (size_t[]){n, cbf->bins, SLAB}, &p->point_parts,
                         err);
    return code;
}

/* What a rank's own sums are in. */
static sonar_code make_sums(sonar_engine *e, sonar_error *err) {
    struct parts *p = &e->parts;
    const sonar_mvdr_spec *mvdr = &e->spec.specs->mvdr;
    const size_t bins = mvdr->bins, each = sonar_exchange_point_doubles(mvdr);
    const size_t most = sonar_mvdr_sums_most(mvdr);
    sonar_code code =
        make_both(e, &e->sums, SONAR_F64, 3, (size_t[]){mvdr->max_new, bins, SONAR_MVDR_PRODUCTS},
                  &p->products, err);
    if (!code)
        code =
            make_both(e, &e->sums, SONAR_F64, 2, (size_t[]){bins, SONAR_MVDR_PLAN}, &p->plan, err);
    if (!code)
        code = make_both(e, &e->sums, SONAR_F64, 2, (size_t[]){bins, most}, &p->of_bins, err);
    if (!code)
        code =
            make_both(e, &e->sums, SONAR_F64, 3, (size_t[]){bins, SLAB, each}, &p->of_points, err);
    return code;
}

/* The input of the stage that solves. */
static sonar_code make_input(sonar_engine *e, sonar_error *err) {
    struct parts *p = &e->parts;
    const sonar_mvdr_spec *mvdr = &e->solves;
    const size_t each = sonar_exchange_point_doubles(mvdr);
    if (!e->sums.ops)
        return make_both(e, &e->mvdr, SONAR_C32, 3,
                         (size_t[]){mvdr->max_new, mvdr->bins, mvdr->sensors}, &p->input, err);
    sonar_code code = make_both(e, &e->mvdr, SONAR_F64, 2, (size_t[]){mvdr->bins, SONAR_MVDR_PLAN},
                                &p->share_plan, err);
    if (!code)
        code = make_both(e, &e->mvdr, SONAR_F64, 2,
                         (size_t[]){mvdr->bins, sonar_mvdr_sums_most(mvdr)}, &p->added, err);
    if (!code)
        code = make_both(e, &e->mvdr, SONAR_F64, 3, (size_t[]){mvdr->bins, SLAB, each},
                         &p->added_points, err);
    return code;
}

static sonar_code make_mvdr(sonar_engine *e, sonar_error *err) {
    struct parts *p = &e->parts;
    const sonar_mvdr_spec *mvdr = &e->solves;
    sonar_code code = e->sums.ops ? make_sums(e, err) : SONAR_OK;
    if (code || !mvdr->bins)
        return code;
    code = make_input(e, err);
    if (!code)
        code = make_both(e, &e->mvdr, SONAR_F32, 2, (size_t[]){mvdr->bins, mvdr->directions},
                         &p->spectrum, err);
    if (!code)
        code = make_both(e, &e->mvdr, SONAR_F32, 2, (size_t[]){mvdr->bins, SONAR_MVDR_INFO_FIELDS},
                         &p->info, err);
    if (!code)
        code = make_both(e, &e->mvdr, SONAR_F32, 2, (size_t[]){mvdr->bins, sonar_mvdr_modes(mvdr)},
                         &p->eigenvalues, err);
    if (!code && mvdr->ranges)
        code = make_both(e, &e->mvdr, SONAR_F32, 2, (size_t[]){mvdr->ranges, mvdr->directions},
                         &p->close, err);
    if (!code && mvdr->music)
        code = make_both(e, &e->mvdr, SONAR_F32, 1, (size_t[]){mvdr->directions}, &p->music, err);
    if (!code && !e->sums.ops)
        code = sonar_engine_make_aim(e, SONAR_ENGINE_MVDR, mvdr->sensors, &p->whole, err);
    if (!code)
        code = make_both(e, &e->mvdr, SONAR_F32, 1, (size_t[]){SLAB}, &p->point_power, err);
    return code;
}

sonar_code sonar_parts_make_buffers(sonar_engine *e, sonar_error *err) {
    sonar_code code = make_cbf(e, err);
    if (!code)
        code = make_mvdr(e, err);
    if (code)
        return code;
    e->parts.psd =
        sonar_alloc(e->spec.specs->dft.channels * e->spec.specs->cbf.bins, sizeof *e->parts.psd);
    return e->parts.psd ? SONAR_OK
                        : sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for power spectra");
}

void sonar_parts_free_buffers(sonar_engine *e) {
    struct parts *p = &e->parts;
    struct both *const of_cbf[] = {&p->far, &p->near, &p->point_parts};
    struct both *const of_mvdr[] = {
        &p->input,       &p->spectrum,   &p->info,  &p->eigenvalues,  &p->close,
        &p->point_power, &p->share_plan, &p->added, &p->added_points, &p->music};
    struct both *const of_sums[] = {&p->products, &p->plan, &p->of_bins, &p->of_points};
    for (size_t i = 0; i < sizeof of_sums / sizeof *of_sums; i++)
        free_both(e, &e->sums, of_sums[i]);
    for (size_t i = 0; i < sizeof of_cbf / sizeof *of_cbf; i++)
        free_both(e, &e->cbf, of_cbf[i]);
    for (size_t i = 0; i < sizeof of_mvdr / sizeof *of_mvdr; i++)
        free_both(e, &e->mvdr, of_mvdr[i]);
    sonar_engine_free_aim(&p->whole);
    free(p->psd);
}
