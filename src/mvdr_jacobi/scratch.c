/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One worker's scratch: everything a bin needs while it is being worked on. */
#include "mvdr_jacobi/internal.h"

#include <stdlib.h>

sonar_code mvdr_scratch_create(mvdr_limits limits, mvdr_scratch *s, sonar_error *err) {
    size_t n = limits.rows, m = limits.columns, c = sonar_min_size(n, m);
    size_t ld = mvdr_pad(n, MVDR_ALIGN);
    size_t tall = c * ld, wide = m > n ? n * mvdr_pad(m, MVDR_ALIGN) : 0;
    size_t t = sonar_max_size(tall, wide);
    size_t lanes = 2 * (size_t)MVDR_LANES, k = mvdr_pad(limits.kept, MVDR_GROUP);
    size_t small = c;
    *s = (mvdr_scratch){
        .s_re = sonar_alloc(m * ld, sizeof(float)),
        .s_im = sonar_alloc(m * ld, sizeof(float)),
        .t_re = sonar_alloc(t, sizeof(double)),
        .t_im = sonar_alloc(t, sizeof(double)),
        .u_re = sonar_alloc(small * mvdr_pad(small, MVDR_ALIGN), sizeof(double)),
        .u_im = sonar_alloc(small * mvdr_pad(small, MVDR_ALIGN), sizeof(double)),
        .q_re = sonar_alloc(tall, sizeof(double)),
        .q_im = sonar_alloc(tall, sizeof(double)),
        .norm2 = sonar_alloc(n, sizeof(double)),
        .tau = sonar_alloc(2 * n, sizeof(double)),
        .pair = sonar_alloc(7 * (n / 2 + 1), sizeof(double)),
        .d = sonar_alloc(sonar_max_size(n, k), sizeof(double)),
        .order = sonar_alloc(n, sizeof(size_t)),
        .steer = sonar_alloc(ld * lanes, sizeof(float)),
        .rest = sonar_alloc(ld * lanes, sizeof(float)),
        .project = sonar_alloc(k * lanes, sizeof(float)),
    };
    if (!s->s_re || !s->s_im || !s->t_re || !s->t_im || !s->u_re || !s->u_im || !s->q_re ||
        !s->q_im || !s->norm2 || !s->tau || !s->pair || !s->d || !s->order || !s->steer ||
        !s->rest || !s->project) {
        mvdr_scratch_destroy(s);
        return sonar_fail(err, SONAR_ENOMEM, "mvdr_jacobi", "no memory for %zu x %zu problems", n,
                          m);
    }
    return SONAR_OK;
}

void mvdr_scratch_destroy(mvdr_scratch *s) {
    void *owned[] = {s->s_re,  s->s_im, s->t_re, s->t_im, s->u_re,  s->u_im,  s->q_re, s->q_im,
                     s->norm2, s->tau,  s->pair, s->d,    s->order, s->steer, s->rest, s->project};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    *s = (mvdr_scratch){0};
}
