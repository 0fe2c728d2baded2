/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks of a beamformer's specification and tables, for all backends. */
#include "cbf/cbf.h"

#include <math.h>

#include "core/core.h"

sonar_code sonar_cbf_check(const sonar_cbf_spec *spec, sonar_error *err) {
    size_t points;
    if (!spec->sensors || !spec->directions || !spec->length || !(spec->fs_hz > 0) ||
        __builtin_mul_overflow(spec->directions, spec->ranges, &points))
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "%zu sensors, %zu directions, %zu ranges, length %zu, fs %g Hz",
                          spec->sensors, spec->directions, spec->ranges, spec->length, spec->fs_hz);
    if (!spec->cbf_bins || spec->cbf_bins > spec->bins || spec->cbf_first < spec->first_bin ||
        spec->cbf_first - spec->first_bin > spec->bins - spec->cbf_bins)
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "band of bins %zu + %zu is not inside %zu + %zu", spec->cbf_first,
                          spec->cbf_bins, spec->first_bin, spec->bins);
    if (!spec->max_snapshots)
        return sonar_fail(err, SONAR_EINVAL, "cbf", "at least one snapshot must be allowed");
    return SONAR_OK;
}

sonar_code sonar_cbf_renew(sonar_cbf_spec *spec, const sonar_params *params, bool *changed,
                           sonar_error *err) {
    const sonar_cbf_spec *live = params->cbf;
    sonar_cbf_spec renewed = *spec;
    *changed = live && (live->cbf_first != spec->cbf_first || live->cbf_bins != spec->cbf_bins);
    if (!*changed)
        return SONAR_OK;
    renewed.cbf_first = live->cbf_first;
    renewed.cbf_bins = live->cbf_bins;
    const sonar_code code = sonar_cbf_check(&renewed, err);
    if (code)
        *changed = false;
    else
        *spec = renewed;
    return code;
}

bool sonar_cbf_takes(const sonar_cbf_spec *spec, const sonar_manifold *manifold, size_t ranges) {
    double fs_hz = manifold->bin_width_hz * (double)spec->length;
    return manifold->turns && manifold->sensors == spec->sensors &&
           manifold->directions == spec->directions && manifold->ranges == ranges &&
           fabs(fs_hz / spec->fs_hz - 1) < 1e-9;
}

/* ---- one call -------------------------------------------------------------------------------- */

sonar_cbf_wanted sonar_cbf_wanted_of(const sonar_cbf_spec *spec, const sonar_work *work) {
    return (sonar_cbf_wanted){.azimuth = work->outputs & SONAR_WANT(SONAR_CBF_AZIMUTH),
                              .nearfield =
                                  spec->ranges && work->outputs & SONAR_WANT(SONAR_CBF_NEARFIELD),
                              .lofar = work->outputs & SONAR_WANT(SONAR_CBF_LOFAR)};
}

static bool is_f32(const sonar_buffer *buffer, size_t rows, size_t columns) {
    if (buffer->dtype != SONAR_F32 || !buffer->data)
        return false;
    if (buffer->rank == 1)
        return rows == 1 && buffer->shape[0] == columns && buffer->stride[0] == 1;
    return buffer->rank == 2 && buffer->shape[0] == rows && buffer->shape[1] == columns &&
           buffer->stride[1] == 1;
}

/* c32 [snapshot][bin][points], dense; the shape of the points' own array does not matter */
static bool is_part(const sonar_buffer *in, const sonar_buffer *buffer, size_t bins,
                    size_t points) {
    return buffer->dtype == SONAR_C32 && buffer->data && buffer->rank >= 3 &&
           buffer->shape[0] == in->shape[0] && buffer->shape[1] == bins &&
           sonar_buffer_count(buffer) == in->shape[0] * bins * points &&
           buffer->stride[1] == (ptrdiff_t)points;
}

static bool outputs_fit(const sonar_cbf_spec *spec, const sonar_buffer *in, const sonar_buffer *out,
                        sonar_cbf_wanted wanted) {
    const sonar_buffer *far = &out[SONAR_CBF_LOFAR], *close = &out[SONAR_CBF_NEARFIELD];
    if (spec->parts)
        return (!(wanted.azimuth || wanted.lofar) ||
                is_part(in, far, wanted.lofar ? spec->bins : spec->cbf_bins, spec->directions)) &&
               (!wanted.nearfield ||
                is_part(in, close, spec->cbf_bins, spec->ranges * spec->directions));
    return (!wanted.azimuth || is_f32(&out[SONAR_CBF_AZIMUTH], 1, spec->directions)) &&
           (!wanted.lofar || is_f32(far, spec->bins, spec->directions)) &&
           (!wanted.nearfield || (is_f32(close, spec->ranges, spec->directions) &&
                                  close->stride[0] == (ptrdiff_t)spec->directions));
}

sonar_code sonar_cbf_check_shapes(const sonar_cbf_spec *spec, const sonar_buffer *in,
                                  const sonar_buffer *out, const sonar_work *work,
                                  sonar_error *err) {
    const sonar_cbf_wanted wanted = sonar_cbf_wanted_of(spec, work);
    if (in->dtype != SONAR_C32 || in->rank != 3 || in->shape[0] < 1 ||
        in->shape[0] > spec->max_snapshots || in->shape[1] != spec->bins ||
        in->shape[2] != spec->sensors || in->stride[2] != 1)
        return sonar_fail(err, SONAR_EINVAL, "cbf", "input is not c32 [1..%zu][%zu][%zu]",
                          spec->max_snapshots, spec->bins, spec->sensors);
    if (!outputs_fit(spec, in, out, wanted))
        return sonar_fail(err, SONAR_EINVAL, "cbf", "an output is not %s of the right shape",
                          spec->parts ? "c32" : "f32");
    if (work->params->sensors != spec->sensors ||
        ((wanted.azimuth || wanted.lofar) && !sonar_cbf_takes(spec, &work->params->far_cbf, 1)) ||
        (wanted.nearfield && !sonar_cbf_takes(spec, &work->params->near_cbf, spec->ranges)))
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "the parameters' tables do not match %zu sensors, %zu directions and "
                          "bins of %g Hz",
                          spec->sensors, spec->directions, spec->fs_hz / (double)spec->length);
    return SONAR_OK;
}

sonar_code sonar_cbf_check_points(const sonar_cbf_spec *spec, const sonar_buffer *in,
                                  const sonar_buffer *turns, const sonar_buffer *power,
                                  sonar_error *err) {
    const size_t points = turns->shape[0];
    if (turns->dtype != SONAR_U64 || turns->rank != 2 || turns->shape[1] != spec->sensors ||
        turns->stride[1] != 1 ||
        !(spec->parts ? is_part(in, power, spec->cbf_bins, points) : is_f32(power, 1, points)))
        return sonar_fail(err, SONAR_EINVAL, "cbf", "points are not u64 [%zu][%zu] with %s", points,
                          spec->sensors, spec->parts ? "their parts" : "f32 of as many");
    return SONAR_OK;
}

/* ---- a GPU's memory -------------------------------------------------------------------------- */

/* Memory is allocated for whole warps of 32 points. */
static double whole_warps(double points) {
    return 32 * ceil(points / 32);
}

double sonar_cbf_device_bytes(const sonar_cbf_spec *spec) {
    const double mib = 1048576, row = 8 * (double)spec->sensors, bins = (double)spec->bins;
    const double far = whole_warps((double)spec->directions),
                 near = whole_warps((double)spec->directions * (double)spec->ranges);
    const double on_their_way = fmin(fmax(far, near), fmax(whole_warps(32 * mib / row) - 32, 32));
    const double folded = 16 * bins * ceil((double)spec->sensors / 2);
    /* partial sums between two kernels: for each block of 28 bins, 56 sums a point */
    const double items = 2 * (far + near) * (bins / 28 + 3);
    const double sums = 8 * items * (1 + (spec->max_snapshots > 1 ? 2 * 56 : 56));
    const double matrix = spec->max_snapshots > 1 ? 72 * mib : 0;
    return row * (far + near + on_their_way) + folded + 16 * bins * far +
           fmax(fmax(sums, 45 * mib), matrix);
}
