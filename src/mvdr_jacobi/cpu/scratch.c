/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The scratch of a worker: all memory that solving a bin needs. */
#include "mvdr_jacobi/cpu/internal.h"

static void lay_out_change(size_t order, mvdr_change *c, sonar_arena *arena) {
    const size_t vector = 2 * mvdr_pad(order, MVDR_LANES);
    SONAR_ARENA(arena, c->x, MVDR_MOST_MOVED * vector);
    SONAR_ARENA(arena, c->y, MVDR_MOST_MOVED * vector);
    SONAR_ARENA(arena, c->t, MVDR_MOST_MOVED * vector);
    SONAR_ARENA(arena, c->back, 2 * vector * MVDR_LANES);
    SONAR_ARENA(arena, c->probe, vector * MVDR_LANES);
    SONAR_ARENA(arena, c->v, 2 * vector);
    SONAR_ARENA(arena, c->z, 2 * vector);
}

void mvdr_scratch_lay_out(const mvdr_stage *stage, mvdr_scratch *s, sonar_arena *arena) {
    const sonar_mvdr_spec *spec = &stage->spec;
    const mvdr_shape *shape = &stage->shape;
    const size_t order = shape->order, ld = mvdr_pad(order, MVDR_LANES);
    const size_t columns = sonar_max_size(stage->columns, 1), lanes = 2 * (size_t)MVDR_LANES;
    const bool vectors = mvdr_has_vectors(spec) || spec->music;
    const size_t sides = vectors ? sonar_max_size(order, 4) : 4;
    SONAR_ARENA(arena, s->a, mvdr_triangle(order));
    SONAR_ARENA(arena, s->panel, shape->by_snapshots ? 1 : 2 * (size_t)MVDR_CHUNK * stage->ld);
    SONAR_ARENA(arena, s->inverse, mvdr_triangle(order));
    SONAR_ARENA(arena, s->h_re, mvdr_has_vectors(spec) ? 1 : order * ld);
    SONAR_ARENA(arena, s->h_im, mvdr_has_vectors(spec) ? 1 : order * ld);
    SONAR_ARENA(arena, s->v_re, sides * ld);
    SONAR_ARENA(arena, s->v_im, sides * ld);
    SONAR_ARENA(arena, s->d, order);
    SONAR_ARENA(arena, s->e, order);
    SONAR_ARENA(arena, s->order, order);
    SONAR_ARENA(arena, s->column, columns);
    SONAR_ARENA(arena, s->root, columns);
    SONAR_ARENA(arena, s->fresh_re, stage->ld);
    SONAR_ARENA(arena, s->fresh_im, stage->ld);
    SONAR_ARENA(arena, s->steer, shape->by_snapshots ? 1 : stage->ld * lanes);
    SONAR_ARENA(arena, s->z, ld * lanes);
    SONAR_ARENA(arena, s->project, MVDR_TOGETHER * columns * lanes);
    SONAR_ARENA(arena, s->energy, (ld + 1) * MVDR_LANES);
    SONAR_ARENA(arena, s->signal, spec->music ? ld * 2 * ld : 1);
    SONAR_ARENA(arena, s->start.rows, vectors ? ld * 2 * ld : 1);
    SONAR_ARENA(arena, s->start.left, vectors ? ld * 2 * ld : 1);
    SONAR_ARENA(arena, s->start.right, vectors ? ld * 2 * ld : 1);
    SONAR_ARENA(arena, s->start.turned, vectors ? mvdr_triangle(order) : 1);
    if (stage->may_slide)
        lay_out_change(order, &s->change, arena);
}
