/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Takes new parameters over: the rows, their turns, and what the bins have kept of them. */
#include "mvdr_jacobi/internal.h"

#include <string.h>

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

sonar_code mvdr_rows_update(mvdr_stage *stage, const sonar_params *params, sonar_error *err) {
    if (stage->versioned && stage->version == params->version)
        return SONAR_OK;
    sonar_code code = mvdr_check_params(&stage->spec, params, err);
    if (code)
        return code;
    note_rows(stage);
    stage->rows.n = mvdr_list_rows(params, stage->spec.forward_backward, stage->rows.sensor,
                                   stage->rows.partner, stage->row_of);
    stage->rows.middle = mvdr_middle_row(params, stage->rows.sensor, stage->rows.n);
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
