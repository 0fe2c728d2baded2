/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which sensors are the rows of the problem, where each one's mirror is, and their turns. */
#include "mvdr_jacobi/internal.h"

#include <math.h>
#include <string.h>

/* The sensor at minus this one's position, or sensors if there is none. */
static size_t mirror_of(const sonar_params *params, size_t sensor, double tolerance) {
    const double *p = params->position_m + 3 * sensor;
    for (size_t j = 0; j < params->sensors; j++) {
        const double *q = params->position_m + 3 * j;
        if (hypot(hypot(p[0] + q[0], p[1] + q[1]), p[2] + q[2]) <= tolerance)
            return j;
    }
    return params->sensors;
}

/* Positions count as mirrored within a millionth of the array's reach. */
static double mirror_tolerance(const sonar_params *params) {
    double reach = 0;
    for (size_t i = 0; i < 3 * params->sensors; i++)
        reach = fmax(reach, fabs(params->position_m[i]));
    return 1e-6 * reach + 1e-9;
}

static void list_used(mvdr_rows *rows, const sonar_params *params) {
    rows->n = 0;
    for (size_t i = 0; i < params->sensors; i++)
        if (params->used[i])
            rows->sensor[rows->n++] = i;
}

/* Keeps sensors whose mirror is used as well, and notes the mirror's row. */
static void list_mirrored(mvdr_rows *rows, const sonar_params *params, size_t *row_of) {
    double tolerance = mirror_tolerance(params);
    rows->n = 0;
    for (size_t i = 0; i < params->sensors; i++) {
        size_t j = params->used[i] ? mirror_of(params, i, tolerance) : params->sensors;
        if (j == params->sensors || !params->used[j])
            continue;
        row_of[i] = rows->n;
        rows->partner[rows->n] = j; /* a sensor, until all rows are known */
        rows->sensor[rows->n++] = i;
    }
    for (size_t i = 0; i < rows->n; i++)
        rows->partner[i] = row_of[rows->partner[i]];
}

static void transpose_turns(mvdr_stage *stage, const sonar_params *params) {
    const mvdr_rows *rows = &stage->rows;
    const uint64_t *from = params->far_mvdr.turns;
    for (size_t t = 0; t < stage->directions; t++) {
        uint64_t *to = rows->turns + t / MVDR_LANES * rows->n * MVDR_LANES + t % MVDR_LANES;
        for (size_t i = 0; i < rows->n; i++)
            to[i * MVDR_LANES] =
                t < stage->spec.directions ? from[t * params->sensors + rows->sensor[i]] : 0;
    }
}

/* Moves the carried eigenvectors' entries to the sensors' new rows; new sensors start at zero. */
static void move_rows(mvdr_stage *stage, mvdr_bin *bin, float *q, float *column) {
    const mvdr_rows *rows = &stage->rows;
    for (size_t j = 0; j < bin->k; j++, q += stage->ld) {
        memcpy(column, q, stage->ld * sizeof *q);
        memset(q, 0, stage->ld * sizeof *q);
        for (size_t i = 0; i < rows->n; i++) {
            size_t before = stage->previous[rows->sensor[i]];
            q[i] = before < SIZE_MAX ? column[before] : 0;
        }
    }
}

static void note_rows(mvdr_stage *stage) {
    memset(stage->previous, 0xff, stage->spec.sensors * sizeof *stage->previous);
    for (size_t i = 0; i < stage->rows.n; i++)
        stage->previous[stage->rows.sensor[i]] = i;
}

static sonar_code check(const mvdr_stage *stage, const sonar_params *params, sonar_error *err) {
    const sonar_mvdr_spec *spec = &stage->spec;
    double width = spec->fs_hz / (double)spec->length;
    const sonar_manifold *far = &params->far_mvdr;
    if (params->sensors != spec->sensors || far->sensors != spec->sensors ||
        far->directions != spec->directions || !far->turns)
        return sonar_fail(err, SONAR_EINVAL, "mvdr_jacobi",
                          "parameters for %zu sensors and %zu directions, expected %zu and %zu",
                          params->sensors, far->directions, spec->sensors, spec->directions);
    if (fabs(far->bin_width_hz - width) > 1e-9 * width)
        return sonar_fail(err, SONAR_EINVAL, "mvdr_jacobi",
                          "turns made for %g Hz a bin, expected %g", far->bin_width_hz, width);
    return SONAR_OK;
}

sonar_code mvdr_rows_update(mvdr_stage *stage, const sonar_params *params, sonar_error *err) {
    if (stage->versioned && stage->version == params->version)
        return SONAR_OK;
    sonar_code code = check(stage, params, err);
    if (code)
        return code;
    note_rows(stage);
    if (stage->spec.forward_backward)
        list_mirrored(&stage->rows, params, stage->row_of);
    else
        list_used(&stage->rows, params);
    transpose_turns(stage, params);
    if (stage->spec.alpha > 0)
        for (size_t b = 0; b < stage->spec.bins; b++) {
            size_t first = b * stage->limits.kept * stage->ld;
            move_rows(stage, &stage->bin[b], stage->q_re + first, stage->scratch[0].s_re);
            move_rows(stage, &stage->bin[b], stage->q_im + first, stage->scratch[0].s_re);
        }
    stage->version = params->version;
    stage->versioned = true;
    return SONAR_OK;
}
