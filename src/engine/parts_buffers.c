/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What an engine of several ranks has besides the others' buffers, made once. */
#include <math.h>
#include <stdlib.h>

#include "engine/internal.h"

static sonar_code no_memory(sonar_error *err) {
    return sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for what the ranks exchange");
}

/* Whether phases of a part of a bin, counted from the array's origin, are of less than half a turn
 * everywhere, with some to spare for another sound speed. */
static bool near_origin(const sonar_mvdr_spec *mvdr, const sonar_params *params) {
    double farthest_m = 0;
    for (size_t i = 0; i < params->sensors; i++) {
        const double *at = params->position_m + 3 * i;
        farthest_m = fmax(farthest_m, hypot(hypot(at[0], at[1]), at[2]));
    }
    const double bin_hz = mvdr->fs_hz / (double)mvdr->length;
    return !mvdr->tones || farthest_m / params->sound_speed_mps * bin_hz < 0.4;
}

/* Sums are added where they can be and are fewer numbers than the transforms. */
static bool adds(const sonar_engine_ranks *ranks) {
    const sonar_mvdr_spec *mvdr = &ranks->specs->mvdr;
    return ranks->specs->mvdr_enabled && sonar_mvdr_adds(mvdr) &&
           sonar_mvdr_sums_row(mvdr) <= mvdr->sensors && near_origin(mvdr, ranks->params);
}

sonar_code sonar_parts_create(sonar_engine *e, sonar_error *err) {
    const sonar_engine_ranks *ranks = e->spec.ranks;
    struct parts *parts = e->parts = sonar_alloc(1, sizeof *parts);
    if (!parts)
        return no_memory(err);
    parts->adds = adds(ranks);
    const struct share share = sonar_share_of(e, ranks->cluster->place.rank);
    parts->has_mvdr = share.bins > 0;
    parts->mvdr = ranks->specs->mvdr;
    parts->mvdr.first_bin += share.first - share.below;
    parts->mvdr.bins = sonar_share_rows(share);
    parts->mvdr.edge_below = share.below;
    parts->mvdr.edge_above = share.above;
    if (parts->adds) {
        parts->mvdr.parts = SONAR_MVDR_JOINED;
        parts->mvdr.tones = NULL; /* the parts have found them */
    }
    return SONAR_OK;
}

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
    struct parts *p = e->parts;
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
    struct parts *p = e->parts;
    const sonar_mvdr_spec *mvdr = &e->spec.specs->mvdr;
    const size_t bins = mvdr->bins, each = 1 + 2 * (size_t)sonar_mvdr_slots(mvdr);
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
    struct parts *p = e->parts;
    const sonar_mvdr_spec *mvdr = &p->mvdr;
    const size_t each = 1 + 2 * (size_t)sonar_mvdr_slots(mvdr);
    if (!p->adds)
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
    struct parts *p = e->parts;
    const sonar_mvdr_spec *mvdr = &p->mvdr;
    sonar_code code = p->adds ? make_sums(e, err) : SONAR_OK;
    if (code || !e->spec.specs->mvdr_enabled || !p->has_mvdr)
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
    if (!code && !p->adds)
        code = sonar_engine_make_aim(e, SONAR_ENGINE_MVDR, mvdr->sensors, &p->whole, err);
    if (!code)
        code = make_both(e, &e->mvdr, SONAR_F32, 1, (size_t[]){SLAB}, &p->point_power, err);
    return code;
}

/* ---- on their way ---------------------------------------------------------------------------- */

static size_t rows_of_all(const sonar_engine *e) {
    size_t rows = 0;
    for (size_t r = 0; r < e->spec.ranks->cluster->place.ranks; r++)
        rows += sonar_share_rows(sonar_share_of(e, r));
    return rows;
}

/* Sums on their way, of bins or of points: all bins of one rank, one's share of all ranks. */
static bool make_sum_transfers(sonar_engine *e) {
    const sonar_mvdr_spec *mvdr = &e->spec.specs->mvdr;
    struct parts *p = e->parts;
    const size_t ranks = e->spec.ranks->cluster->place.ranks;
    const size_t points = SLAB * (1 + 2 * (size_t)sonar_mvdr_slots(mvdr));
    const size_t of_bin = sonar_max_size(sonar_mvdr_sums_most(mvdr), points);
    const size_t products = mvdr->max_new * mvdr->bins * SONAR_MVDR_PRODUCTS;
    p->sent = sonar_alloc(mvdr->bins * of_bin, sizeof *p->sent);
    p->received =
        sonar_alloc(ranks * sonar_max_size(p->mvdr.bins * of_bin, products), sizeof *p->received);
    return p->sent && p->received;
}

static bool make_transfers(sonar_engine *e) {
    const sonar_specs *specs = e->spec.specs;
    struct parts *p = e->parts;
    const size_t ranks = e->spec.ranks->cluster->place.ranks;
    const size_t snapshots = specs->mvdr_enabled ? specs->mvdr.max_new : 1;
    p->psd = sonar_alloc(specs->dft.channels * specs->cbf.bins, sizeof *p->psd);
    p->keeps = sonar_alloc(ranks * snapshots, 1);
    if (p->adds)
        return p->psd && p->keeps && make_sum_transfers(e);
    if (specs->mvdr_enabled) {
        p->packed =
            sonar_alloc(snapshots * rows_of_all(e) * specs->mvdr.sensors, sizeof *p->packed);
        p->unpacked =
            sonar_alloc(snapshots * p->mvdr.bins * p->mvdr.sensors + 1, sizeof *p->unpacked);
    }
    return p->psd && p->keeps && (!specs->mvdr_enabled || (p->packed && p->unpacked));
}

static bool make_roots(sonar_engine *e) {
    const sonar_specs *specs = e->spec.ranks->specs;
    const sonar_cbf_spec *cbf = &specs->cbf;
    struct parts *p = e->parts;
    const size_t ranks = e->spec.ranks->cluster->place.ranks;
    const size_t far = cbf->bins * sonar_max_size(cbf->directions, SLAB);
    const size_t near = cbf->cbf_bins * cbf->ranges * cbf->directions;
    if (e->spec.ranks->cluster->place.rank > 0)
        return true;
    p->all = sonar_alloc(ranks * cbf->max_snapshots * sonar_max_size(far, near) +
                             ranks * (specs->mvdr.ranges + 1) * specs->mvdr.directions,
                         sizeof(sonar_c32));
    if (!p->all)
        return false;
    if (!specs->mvdr_enabled)
        return true;
    const size_t info[2] = {specs->mvdr.bins, SONAR_MVDR_INFO_FIELDS};
    p->whole_info =
        sonar_buffer_view(sonar_alloc(info[0] * info[1], sizeof(float)), SONAR_F32, 2, info);
    p->whole_spectrum =
        sonar_alloc(specs->mvdr.bins * specs->mvdr.directions, sizeof *p->whole_spectrum);
    return p->whole_info.data && p->whole_spectrum;
}

sonar_code sonar_parts_make_buffers(sonar_engine *e, sonar_error *err) {
    sonar_code code = make_cbf(e, err);
    if (!code)
        code = make_mvdr(e, err);
    if (code)
        return code;
    return make_transfers(e) && make_roots(e) ? SONAR_OK : no_memory(err);
}

void sonar_parts_destroy(sonar_engine *e) {
    struct parts *p = e->parts;
    if (!p)
        return;
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
    free(p->packed);
    free(p->unpacked);
    free(p->sent);
    free(p->received);
    free(p->keeps);
    free(p->all);
    free(p->whole_info.data);
    free(p->whole_spectrum);
    free(p);
    e->parts = NULL;
}
