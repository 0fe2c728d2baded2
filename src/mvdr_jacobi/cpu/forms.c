/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Quadratic forms of eight vectors at a time, one in each vector lane. The powers follow from
 * them. */
#include "mvdr_jacobi/cpu/internal.h"

#include <string.h>

enum { STEP = 2 * MVDR_LANES, GROUP = 4 /* rows of the factor that are processed together */ };

typedef struct group {
    mvdr_lanes re[GROUP], im[GROUP];
} group;

/* g -= F z over columns 0 .. count - 1. f: column 0 of the group's first row. */
MVDR_INLINE void gather(group *g, const double *f, const mvdr_lanes *z, size_t count) {
    group sum = *g;
    for (size_t j = 0; j < count; j++, f += STEP) {
        const mvdr_lanes zr = z[2 * j], zi = z[2 * j + 1];
        for (size_t q = 0; q < GROUP; q++) {
            sum.re[q] -= zr * f[q];
            sum.re[q] += zi * f[MVDR_LANES + q];
            sum.im[q] -= zi * f[q];
            sum.im[q] -= zr * f[MVDR_LANES + q];
        }
    }
    *g = sum;
}

/* Solves for the group's own rows of z. f: their diagonal block, with 1/L_ii on the diagonal. */
MVDR_INLINE void finish(group *g, const double *f) {
    for (size_t j = 0; j < GROUP; j++) {
        g->re[j] *= f[j * STEP + j];
        g->im[j] *= f[j * STEP + j];
        for (size_t q = j + 1; q < GROUP; q++) {
            const double re = f[j * STEP + q], im = f[j * STEP + MVDR_LANES + q];
            g->re[q] -= g->re[j] * re;
            g->re[q] += g->im[j] * im;
            g->im[q] -= g->im[j] * re;
            g->im[q] -= g->re[j] * im;
        }
    }
}

MVDR_INLINE void energy(const group *g, mvdr_lanes *sum) {
    for (size_t q = 0; q < GROUP; q++) {
        *sum += g->re[q] * g->re[q];
        *sum += g->im[q] * g->im[q];
    }
}

SONAR_MULTIARCH static void substitute(double *factor, size_t begin, size_t padded, double *vectors,
                                       double *out) {
    mvdr_lanes *z = (mvdr_lanes *)vectors, sum = {0};
    for (size_t i = 0; begin + i < padded; i += GROUP) {
        const double *f = mvdr_at(factor, begin + i, begin);
        group g;
        for (size_t q = 0; q < GROUP; q++)
            g.re[q] = z[2 * (i + q)], g.im[q] = z[2 * (i + q) + 1];
        gather(&g, f, z, i);
        finish(&g, f + i * STEP);
        energy(&g, &sum);
        for (size_t q = 0; q < GROUP; q++)
            z[2 * (i + q)] = g.re[q], z[2 * (i + q) + 1] = g.im[q];
    }
    memcpy(out, &sum, sizeof sum);
}

void mvdr_substitute(double *factor, size_t begin, size_t padded, double *z, double *out) {
    substitute(factor, begin, padded, z, out);
}

SONAR_MULTIARCH static void quadratic(double *inverse, const double *vectors, size_t m,
                                      double *out) {
    const mvdr_lanes *z = (const mvdr_lanes *)vectors;
    mvdr_lanes sum = {0};
    for (size_t i = 0; i < m; i += GROUP) {
        const double *f = mvdr_at(inverse, i, 0);
        group beside = {0}, own = {0};
        gather(&beside, f, z, i);
        gather(&own, f + i * STEP, z + 2 * i, GROUP);
        for (size_t q = 0; q < GROUP; q++) {
            sum -= z[2 * (i + q)] * (2 * beside.re[q] + own.re[q]);
            sum -= z[2 * (i + q) + 1] * (2 * beside.im[q] + own.im[q]);
        }
    }
    memcpy(out, &sum, sizeof sum);
}

void mvdr_quadratic(double *inverse, const double *vectors, size_t m, double *out) {
    quadratic(inverse, vectors, m, out);
}

SONAR_MULTIARCH static void multiplied(const double *factor, size_t rows, const double *vectors,
                                       size_t m, double *each, double *out) {
    mvdr_lanes sum = {0};
    for (size_t i = 0; i < rows; i += GROUP) {
        group g = {0};
        gather(&g, factor + i / MVDR_LANES * m * STEP + i % MVDR_LANES, (const mvdr_lanes *)vectors,
               m);
        energy(&g, &sum);
        for (size_t q = 0; q < GROUP && each; q++) {
            const mvdr_lanes own = g.re[q] * g.re[q] + g.im[q] * g.im[q];
            memcpy(each + (i + q) * MVDR_LANES, &own, sizeof own);
        }
    }
    memcpy(out, &sum, sizeof sum);
}

void mvdr_multiplied(const double *factor, size_t rows, const double *vectors, size_t m,
                     double *each, double *out) {
    multiplied(factor, rows, vectors, m, each, out);
}
