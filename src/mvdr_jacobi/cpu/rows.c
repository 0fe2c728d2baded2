/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Adopts new parameters: the sensors in use, their mirrors and turns, and the live members of the
 * specification. */
#include "mvdr_jacobi/cpu/internal.h"

#include <string.h>

/* Transposes turns[point][sensor] of `count` points to [point / 8][sensor][lane]. */
static void transpose(const uint64_t *turns, size_t count, size_t sensors, uint64_t *vectors) {
    for (size_t t = 0; t < mvdr_pad(count, MVDR_LANES); t++) {
        uint64_t *to = vectors + t / MVDR_LANES * sensors * MVDR_LANES + t % MVDR_LANES;
        for (size_t i = 0; i < sensors; i++)
            to[i * MVDR_LANES] = t < count ? turns[t * sensors + i] : 0;
    }
}

static void list_sensors(mvdr_stage *stage, const sonar_params *params) {
    mvdr_rows *rows = &stage->rows;
    const size_t sensors = params->sensors;
    size_t *sensor = stage->list, *partner = sensor + sensors, *row_of = partner + sensors;
    rows->n = mvdr_list_rows(params, stage->spec.forward_backward, sensor, partner, row_of);
    rows->middle = rows->n ? sensor[mvdr_middle_row(params, sensor, rows->n)] : 0;
    if (stage->spec.parts)
        rows->middle = MVDR_ORIGIN;
    rows->all = rows->n;
    memset(rows->used, 0, sensors);
    for (size_t i = 0; i < rows->n; i++) {
        rows->used[sensor[i]] = 1;
        if (stage->spec.forward_backward)
            rows->mirror[sensor[i]] = sensor[partner[i]];
    }
}

static bool same_turns(uint64_t *made, const sonar_manifold *manifold) {
    const bool same = manifold->made && manifold->made == *made;
    *made = manifold->made;
    return same;
}

/* Lists the sensors in use; returns whether they have changed. Mirrors change only with them. */
static bool list_changed(mvdr_stage *stage, const sonar_params *params) {
    mvdr_rows *rows = &stage->rows;
    memcpy(rows->before, rows->used, params->sensors);
    list_sensors(stage, params);
    return memcmp(rows->before, rows->used, params->sensors) != 0;
}

/* Copies the tables of turns, unless they are the same as before. A part of an array always
 * recomputes its sums when the version changes: it does not know which part's mask has changed, and
 * all parts have to recompute together. */
static void take_tables(mvdr_stage *stage, const sonar_params *params) {
    const sonar_mvdr_spec *spec = &stage->spec;
    const bool read = spec->parts != SONAR_MVDR_JOINED,
               far = same_turns(&stage->far_made, &params->far_mvdr) && stage->versioned,
               near = same_turns(&stage->near_made, &params->near_mvdr) && stage->versioned;
    stage->mask_changed = list_changed(stage, params);
    if (!far && read)
        transpose(params->far_mvdr.turns, spec->directions, spec->sensors, stage->rows.turns);
    if (!near && read)
        transpose(params->near_mvdr.turns, spec->ranges * spec->directions, spec->sensors,
                  stage->rows.near);
    stage->renewed = stage->mask_changed || !far || spec->parts;
}

sonar_code mvdr_rows_update(mvdr_stage *stage, const sonar_params *params, sonar_error *err) {
    stage->renewed = stage->mask_changed = false;
    stage->changed = !stage->versioned || stage->version != params->version;
    if (!stage->changed)
        return SONAR_OK;
    sonar_code code = mvdr_check_params(&stage->spec, params, err);
    if (code)
        return code;
    mvdr_renew_spec(&stage->spec, params);
    stage->band = mvdr_band_of(&stage->spec, params);
    take_tables(stage, params);
    for (size_t bin = 0; bin < stage->spec.bins; bin++)
        stage->bin[bin].based = false;
    stage->version = params->version;
    stage->versioned = true;
    return SONAR_OK;
}
