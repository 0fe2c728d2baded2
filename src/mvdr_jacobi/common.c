/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "mvdr_jacobi/common.h"

#include <math.h>

#include "core/core.h"
#include "manifold/mirror.h"
#include "mvdr_jacobi/route.h"

static const char where[] = "mvdr_jacobi";

/* ---- the specification ----------------------------------------------------------------------- */

/* Checks the members that can change while the stage runs. */
static sonar_code check_live(const sonar_mvdr_spec *s, sonar_error *err) {
    if (!(s->eps > 0) || !isfinite(s->eps))
        return sonar_fail(err, SONAR_EINVAL, where, "loading eps %g is not positive", s->eps);
    if (s->dmr < SONAR_MODES_COUNTED ||
        (s->dmr == SONAR_MODES_COUNTED && s->source_count == SONAR_COUNT_OFF))
        return sonar_fail(err, SONAR_EINVAL, where, "to count dominant modes wants a rule");
    if (!(s->white_noise_gain_db <= 0))
        return sonar_fail(err, SONAR_EINVAL, where, "a white noise gain of %g dB is impossible",
                          s->white_noise_gain_db);
    if (mvdr_least_gain(s) > 0 && (s->dmr || s->correct_level))
        return sonar_fail(err, SONAR_EINVAL, where,
                          "a limit on the white noise gain wants loading, and levels as they are");
    if (s->music < SONAR_MODES_COUNTED ||
        (s->music == SONAR_MODES_COUNTED && s->source_count == SONAR_COUNT_OFF))
        return sonar_fail(err, SONAR_EINVAL, where, "to count MUSIC's sources wants a rule");
    if (!(s->tolerance > 0 && s->tolerance < 1) || !s->max_sweeps)
        return sonar_fail(err, SONAR_EINVAL, where, "tolerance %g in %zu sweeps is not possible",
                          s->tolerance, s->max_sweeps);
    return SONAR_OK;
}

sonar_code mvdr_check_spec(const sonar_mvdr_spec *s, sonar_error *err) {
    if (!s->sensors || !s->directions || !s->bins || s->length < 2 || !(s->fs_hz > 0) ||
        s->bins > s->length || s->first_bin > s->length / 2 ||
        s->ranges > SIZE_MAX / s->directions / s->sensors)
        return sonar_fail(err, SONAR_EINVAL, where, "empty or impossible shape");
    if (s->edge_below >= s->bins || s->edge_above >= s->bins - s->edge_below)
        return sonar_fail(err, SONAR_EINVAL, where, "%zu bins are all edge", s->bins);
    if (!(s->alpha >= 0 && s->alpha < 1))
        return sonar_fail(err, SONAR_EINVAL, where, "alpha %g is not in [0, 1)", s->alpha);
    if (s->parts && (!sonar_mvdr_adds(s) || s->edge_below || s->edge_above))
        return sonar_fail(err, SONAR_EINVAL, where,
                          "sums over parts of the sensors cannot be added here");
    if (isinf(s->white_noise_gain_db))
        return sonar_fail(err, SONAR_EINVAL, where, "a white noise gain of %g dB is impossible",
                          s->white_noise_gain_db);
    if ((s->alpha > 0) == (s->snapshots > 0))
        return sonar_fail(err, SONAR_EINVAL, where,
                          "either a block of snapshots or a forgetting factor is needed");
    return check_live(s, err);
}

mvdr_shape mvdr_shape_of(const sonar_mvdr_spec *spec) {
    const size_t each = spec->forward_backward ? 2 : 1;
    const bool by_snapshots = sonar_mvdr_by_snapshots(spec);
    const size_t slots = spec->alpha == 0 || by_snapshots ? (size_t)sonar_mvdr_slots(spec) : 0;
    return (mvdr_shape){.by_snapshots = by_snapshots,
                        .each = each,
                        .slots = slots,
                        .order = by_snapshots ? each * slots : spec->sensors};
}

bool mvdr_can_follow(const sonar_mvdr_spec *spec) {
    return spec->alpha == 0 && !mvdr_shape_of(spec).by_snapshots && !mvdr_has_vectors(spec);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static sonar_code check_manifold(const sonar_mvdr_spec *spec, const sonar_manifold *m,
                                 size_t ranges, sonar_error *err) {
    const double width = spec->fs_hz / (double)spec->length;
    if (m->sensors != spec->sensors || m->directions != spec->directions || m->ranges != ranges ||
        !m->turns)
        return sonar_fail(err, SONAR_EINVAL, where,
                          "turns of %zu sensors and %zu x %zu directions, expected %zu and %zu x "
                          "%zu",
                          m->sensors, m->ranges, m->directions, spec->sensors, ranges,
                          spec->directions);
    if (fabs(m->bin_width_hz - width) > 1e-9 * width)
        return sonar_fail(err, SONAR_EINVAL, where, "turns made for %g Hz a bin, expected %g",
                          m->bin_width_hz, width);
    return SONAR_OK;
}

sonar_code mvdr_check_params(const sonar_mvdr_spec *spec, const sonar_params *params,
                             sonar_error *err) {
    if (params->sensors != spec->sensors)
        return sonar_fail(err, SONAR_EINVAL, where, "parameters for %zu sensors, expected %zu",
                          params->sensors, spec->sensors);
    sonar_code code = check_manifold(spec, &params->far_mvdr, 1, err);
    if (!code && spec->ranges)
        code = check_manifold(spec, &params->near_mvdr, spec->ranges, err);
    if (code || !params->mvdr)
        return code;
    sonar_mvdr_spec renewed = *spec;
    mvdr_renew_spec(&renewed, params);
    if (mvdr_has_vectors(&renewed) != mvdr_has_vectors(spec))
        return sonar_fail(err, SONAR_EINVAL, where,
                          "dominant modes come or go, for which the solver is to be Jacobi");
    if ((params->mvdr->white_noise_gain_db < 0 && !(spec->white_noise_gain_db < 0)) ||
        (params->mvdr->music && !spec->music))
        return sonar_fail(err, SONAR_EINVAL, where,
                          "a limit on the white noise gain or MUSIC comes, for which the stage was "
                          "made without room");
    return check_live(&renewed, err);
}

void mvdr_renew_spec(sonar_mvdr_spec *spec, const sonar_params *params) {
    const sonar_mvdr_spec *live = params->mvdr;
    if (!live)
        return;
    spec->loading = live->loading;
    spec->eps = live->eps;
    spec->known_sources = live->known_sources;
    spec->correct_level = live->correct_level;
    spec->source_count = live->source_count;
    spec->dmr = live->dmr;
    spec->tolerance = live->tolerance;
    spec->max_sweeps = live->max_sweeps;
    if (spec->white_noise_gain_db < 0)
        spec->white_noise_gain_db =
            live->white_noise_gain_db != 0 ? live->white_noise_gain_db : -INFINITY;
    if (spec->music)
        spec->music = live->music ? live->music : 1;
}

mvdr_band mvdr_band_of(const sonar_mvdr_spec *spec, const sonar_params *params) {
    const sonar_mvdr_spec *live = params->mvdr ? params->mvdr : spec;
    const size_t first = spec->first_bin, last = first + spec->bins;
    mvdr_band band;
    band.begin = sonar_min_size(sonar_max_size(live->first_bin, first), last) - first;
    band.end =
        sonar_max_size(sonar_min_size(live->first_bin + live->bins, last), first + band.begin);
    band.end -= first;
    band.sum_begin = sonar_max_size(band.begin, spec->edge_below);
    band.sum_end =
        sonar_max_size(sonar_min_size(band.end, spec->bins - spec->edge_above), band.sum_begin);
    return band;
}

static size_t list_used(const sonar_params *params, size_t *sensor) {
    size_t n = 0;
    for (size_t i = 0; i < params->sensors; i++)
        if (params->used[i])
            sensor[n++] = i;
    return n;
}

size_t mvdr_list_rows(const sonar_params *params, bool forward_backward, size_t *sensor,
                      size_t *partner, size_t *row_of) {
    if (!forward_backward)
        return list_used(params, sensor);
    double tolerance_m = sonar_mirror_tolerance_m(params);
    size_t n = 0;
    for (size_t i = 0; i < params->sensors; i++) {
        size_t j = sonar_mirror_of(params, i, tolerance_m);
        if (j == params->sensors)
            continue;
        row_of[i] = n;
        partner[n] = j; /* a sensor, replaced by its row below */
        sensor[n++] = i;
    }
    for (size_t i = 0; i < n; i++)
        partner[i] = row_of[partner[i]];
    return n;
}

size_t mvdr_middle_row(const sonar_params *params, const size_t *sensor, size_t rows) {
    double mean[3] = {0, 0, 0}, nearest = INFINITY;
    size_t middle = 0;
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; k < 3; k++)
            mean[k] += params->position_m[3 * sensor[i] + k] / (double)rows;
    for (size_t i = 0; i < rows; i++) {
        const double *p = params->position_m + 3 * sensor[i];
        double away = hypot(hypot(p[0] - mean[0], p[1] - mean[1]), p[2] - mean[2]);
        if (away < nearest)
            nearest = away, middle = i;
    }
    return middle;
}

/* ---- buffers --------------------------------------------------------------------------------- */

static sonar_code check_input(const sonar_mvdr_spec *spec, const sonar_buffer *in,
                              sonar_error *err) {
    if (in->shape[0] == 0)
        return SONAR_OK;
    if (in->dtype != SONAR_C32 || in->rank != 3 || in->shape[1] != spec->bins ||
        in->shape[2] != spec->sensors || in->stride[2] != 1 || !in->data)
        return sonar_fail(err, SONAR_EINVAL, where, "input is not c32 [snapshot][%zu][%zu]",
                          spec->bins, spec->sensors);
    if (in->shape[0] > spec->max_new)
        return sonar_fail(err, SONAR_EINVAL, where, "%zu new snapshots, at most %zu were announced",
                          in->shape[0], spec->max_new);
    return SONAR_OK;
}

/* Whether this is an f32 surface of that shape, or one without data, which is not wanted. */
static bool surface_fits(const sonar_buffer *out, int rank, size_t rows, size_t columns) {
    return !out->data || (out->dtype == SONAR_F32 && out->rank == rank && out->shape[0] == rows &&
                          out->stride[rank - 1] == 1 && (rank == 1 || out->shape[1] == columns));
}

static sonar_code check_outputs(const sonar_mvdr_spec *spec, const sonar_buffer *out,
                                sonar_error *err) {
    if (!surface_fits(&out[SONAR_MVDR_OUT_AZIMUTH], 1, spec->directions, 0) ||
        !surface_fits(&out[SONAR_MVDR_OUT_SPECTRUM], 2, spec->bins, spec->directions) ||
        !surface_fits(&out[SONAR_MVDR_OUT_NEARFIELD], 2, spec->ranges, spec->directions) ||
        !surface_fits(&out[SONAR_MVDR_OUT_EIGENVALUES], 2, spec->bins, sonar_mvdr_modes(spec)) ||
        !surface_fits(&out[SONAR_MVDR_OUT_MUSIC], 1, spec->directions, 0) ||
        !surface_fits(&out[SONAR_MVDR_OUT_INFO], 2, spec->bins, SONAR_MVDR_INFO_FIELDS))
        return sonar_fail(err, SONAR_EINVAL, where, "an output has the wrong shape");
    if (out[SONAR_MVDR_OUT_MUSIC].data && !spec->music)
        return sonar_fail(err, SONAR_EINVAL, where, "MUSIC is off");
    return SONAR_OK;
}

sonar_code mvdr_check_shapes(const sonar_mvdr_spec *spec, const sonar_buffer *in,
                             const sonar_buffer *out, sonar_error *err) {
    sonar_code code = check_outputs(spec, out, err);
    return code ? code : check_input(spec, in, err);
}

/* f64 [bins][columns], the last index dense. */
static bool is_f64(const sonar_buffer *b, size_t rows, size_t columns) {
    return b->dtype == SONAR_F64 && b->rank == 2 && b->shape[0] == rows && b->shape[1] == columns &&
           b->stride[1] == 1 && b->data;
}

/* Whether these are products of the new snapshots, or of these and the block's snapshots. */
static bool is_products(const sonar_mvdr_spec *spec, const sonar_buffer *b, size_t arrived) {
    const size_t rows = b->shape[0];
    return b->dtype == SONAR_F64 && b->rank == 3 &&
           (rows == arrived || rows == arrived + spec->snapshots) &&
           (!rows || (b->data && b->shape[1] == spec->bins && b->shape[2] == SONAR_MVDR_PRODUCTS &&
                      b->stride[2] == 1 && b->stride[1] == SONAR_MVDR_PRODUCTS));
}

sonar_code mvdr_check_part(const sonar_mvdr_spec *spec, const sonar_buffer *in,
                           const sonar_buffer *products, sonar_error *err) {
    if (!is_products(spec, products, in->shape[0]))
        return sonar_fail(err, SONAR_EINVAL, where, "products are not f64 [%zu or %zu][%zu][%d]",
                          in->shape[0], in->shape[0] + spec->snapshots, spec->bins,
                          SONAR_MVDR_PRODUCTS);
    return check_input(spec, in, err);
}

sonar_code mvdr_check_join(const sonar_mvdr_spec *spec, const sonar_buffer *products,
                           size_t arrived, const sonar_buffer out[2], sonar_error *err) {
    if (!is_products(spec, products, arrived) || !is_f64(&out[0], spec->bins, SONAR_MVDR_PLAN) ||
        !is_f64(&out[1], spec->bins, sonar_mvdr_sums_most(spec)))
        return sonar_fail(err, SONAR_EINVAL, where, "what parts join has the wrong shape");
    return SONAR_OK;
}

sonar_code mvdr_check_joined(const sonar_mvdr_spec *spec, const sonar_buffer in[2],
                             const sonar_buffer *out, sonar_error *err) {
    if (in[0].shape[0] && (!is_f64(&in[0], spec->bins, sonar_mvdr_sums_most(spec)) ||
                           !is_f64(&in[1], spec->bins, SONAR_MVDR_PLAN)))
        return sonar_fail(err, SONAR_EINVAL, where, "added sums have the wrong shape");
    return check_outputs(spec, out, err);
}

sonar_code mvdr_check_point_sums(const sonar_mvdr_spec *spec, const sonar_buffer *sums,
                                 size_t points, sonar_error *err) {
    const size_t columns = 1 + 2 * (size_t)sonar_mvdr_slots(spec);
    if (sums->dtype != SONAR_F64 || sums->rank != 3 || sums->shape[0] != spec->bins ||
        sums->shape[1] != points || sums->shape[2] != columns || sums->stride[2] != 1 ||
        sums->stride[1] != (ptrdiff_t)columns || !sums->data)
        return sonar_fail(err, SONAR_EINVAL, where, "points' sums are not f64 [%zu][%zu][%zu]",
                          spec->bins, points, columns);
    return SONAR_OK;
}

mvdr_wants mvdr_wants_of(const sonar_work *work, const sonar_buffer *out) {
    const uint32_t far = SONAR_WANT(SONAR_MVDR_AZIMUTH) | SONAR_WANT(SONAR_MVDR_SPECTRUM);
    const sonar_mvdr_spec *live = work->params->mvdr;
    mvdr_wants wants = {.far = work->outputs & far,
                        .near = work->outputs & SONAR_WANT(SONAR_MVDR_NEARFIELD) &&
                                out[SONAR_MVDR_OUT_NEARFIELD].data,
                        .music = work->outputs & SONAR_WANT(SONAR_MUSIC_AZIMUTH) &&
                                 out[SONAR_MVDR_OUT_MUSIC].data && (!live || live->music),
                        .eigenvalues = work->outputs & SONAR_WANT(SONAR_MVDR_EIGENVALUES)};
    wants.any = wants.far || wants.near || wants.music || wants.eigenvalues;
    return wants;
}

sonar_code mvdr_check_points(const sonar_mvdr_spec *spec, const sonar_buffer *turns,
                             const sonar_buffer *power, sonar_error *err) {
    if (turns->dtype != SONAR_U64 || turns->rank != 2 || turns->stride[1] != 1 ||
        turns->shape[1] != spec->sensors || power->dtype != SONAR_F32 || power->rank != 1 ||
        power->shape[0] != turns->shape[0])
        return sonar_fail(err, SONAR_EINVAL, where,
                          "evaluate wants u64 [point][%zu] and f32 [point]", spec->sensors);
    return SONAR_OK;
}
