/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One worker's scratch: everything a bin needs while it is being worked on. */
#include "mvdr_jacobi/internal.h"

#include <stdlib.h>

sonar_code mvdr_scratch_create(const sonar_mvdr_spec *spec, mvdr_shape shape, mvdr_scratch *s,
                               sonar_error *err) {
    const size_t order = shape.order, ld = mvdr_pad(order, MVDR_LANES);
    const size_t sensors = mvdr_pad(spec->sensors, MVDR_LANES);
    const size_t columns = sonar_max_size(mvdr_slot_columns(&shape) * shape.slots, 1);
    const size_t lanes = 2 * (size_t)MVDR_LANES;
    const bool vectors = mvdr_has_vectors(spec) || spec->music;
    *s = (mvdr_scratch){
        .a = sonar_alloc(mvdr_triangle(order), sizeof(double)),
        .panel =
            sonar_alloc(shape.by_snapshots ? 1 : 2 * (size_t)MVDR_CHUNK * sensors, sizeof(double)),
        .inverse = sonar_alloc(mvdr_triangle(mvdr_has_vectors(spec) ? 1 : order), sizeof(double)),
        .h_re = sonar_alloc(order * ld, sizeof(double)),
        .h_im = sonar_alloc(order * ld, sizeof(double)),
        .v_re = sonar_alloc((vectors ? sonar_max_size(order, 4) : 4) * ld, sizeof(double)),
        .v_im = sonar_alloc((vectors ? sonar_max_size(order, 4) : 4) * ld, sizeof(double)),
        .d = sonar_alloc(order, sizeof(double)),
        .e = sonar_alloc(order, sizeof(double)),
        .pair = sonar_alloc(7 * (order / 2 + 1), sizeof(double)),
        .order = sonar_alloc(order, sizeof(size_t)),
        .column = sonar_alloc(columns, sizeof(size_t)),
        .root = sonar_alloc(columns, sizeof(double)),
        .fresh_re = sonar_alloc(sensors, sizeof(double)),
        .fresh_im = sonar_alloc(sensors, sizeof(double)),
        .steer = sonar_alloc(sensors * lanes, sizeof(float)),
        .z = sonar_alloc(ld * lanes, sizeof(double)),
        .project = sonar_alloc(columns * lanes, sizeof(double)),
        .energy = sonar_alloc((ld + 1) * MVDR_LANES, sizeof(double)),
        .signal = sonar_alloc(spec->music ? ld * 2 * ld : 1, sizeof(double)),
    };
    if (!s->a || !s->panel || !s->h_re || !s->h_im || !s->v_re || !s->v_im || !s->d || !s->e ||
        !s->pair || !s->order || !s->column || !s->root || !s->fresh_re || !s->fresh_im ||
        !s->steer || !s->z || !s->project || !s->signal || !s->energy || !s->inverse) {
        mvdr_scratch_destroy(s);
        return sonar_fail(err, SONAR_ENOMEM, "mvdr_jacobi", "no memory for matrices of order %zu",
                          order);
    }
    return SONAR_OK;
}

void mvdr_scratch_destroy(mvdr_scratch *s) {
    mvdr_change_destroy(s->change);
    void *owned[] = {s->a,     s->panel, s->h_re,    s->h_im,   s->v_re,   s->v_im,     s->d,
                     s->e,     s->pair,  s->order,   s->column, s->root,   s->fresh_re, s->fresh_im,
                     s->steer, s->z,     s->project, s->signal, s->energy, s->inverse};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    *s = (mvdr_scratch){0};
}
