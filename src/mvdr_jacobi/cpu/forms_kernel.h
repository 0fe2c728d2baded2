/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Quadratic forms of eight vectors (kernels.h), for one instruction set, WIDTH vectors at a time:
 * set_kernel.h defines the macros. The powers follow from them. */

typedef struct NAME(group) {
    VECTOR re[GROUP], im[GROUP];
} NAME(group);

/* g -= F z over columns 0 .. count - 1. f: column 0 of the group's first row. */
TARGET INLINE void NAME(gather)(NAME(group) * g, const double *f, const double *z, size_t count) {
    NAME(group) sum = *g;
    for (size_t j = 0; j < count; j++, f += STEP, z += STEP) {
        VECTOR zr, zi;
        LOAD(zr, z);
        LOAD(zi, z + MVDR_LANES);
#pragma GCC unroll 4
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
TARGET INLINE void NAME(finish)(NAME(group) * g, const double *f) {
#pragma GCC unroll 4
    for (size_t j = 0; j < GROUP; j++) {
        g->re[j] *= f[j * STEP + j];
        g->im[j] *= f[j * STEP + j];
#pragma GCC unroll 4
        for (size_t q = j + 1; q < GROUP; q++) {
            const double re = f[j * STEP + q], im = f[j * STEP + MVDR_LANES + q];
            g->re[q] -= g->re[j] * re;
            g->re[q] += g->im[j] * im;
            g->im[q] -= g->im[j] * re;
            g->im[q] -= g->re[j] * im;
        }
    }
}

TARGET INLINE void NAME(energy)(const NAME(group) * g, VECTOR *sum) {
#pragma GCC unroll 4
    for (size_t q = 0; q < GROUP; q++) {
        *sum += g->re[q] * g->re[q];
        *sum += g->im[q] * g->im[q];
    }
}

TARGET static void NAME(substitute)(double *factor, size_t begin, size_t padded, double *z,
                                    double *out) {
    for (size_t lane = 0; lane < MVDR_LANES; lane += WIDTH) {
        VECTOR sum = {0};
        for (size_t i = 0; begin + i < padded; i += GROUP) {
            const double *f = mvdr_at(factor, begin + i, begin);
            double *own = z + i * STEP + lane;
            NAME(group) g;
#pragma GCC unroll 4
            for (size_t q = 0; q < GROUP; q++) {
                LOAD(g.re[q], own + q * STEP);
                LOAD(g.im[q], own + q * STEP + MVDR_LANES);
            }
            NAME(gather)(&g, f, z + lane, i);
            NAME(finish)(&g, f + i * STEP);
            NAME(energy)(&g, &sum);
#pragma GCC unroll 4
            for (size_t q = 0; q < GROUP; q++) {
                STORE(own + q * STEP, g.re[q]);
                STORE(own + q * STEP + MVDR_LANES, g.im[q]);
            }
        }
        STORE(out + lane, sum);
    }
}

TARGET static void NAME(quadratic)(double *inverse, const double *z, size_t m, double *out) {
    for (size_t lane = 0; lane < MVDR_LANES; lane += WIDTH) {
        VECTOR sum = {0};
        for (size_t i = 0; i < m; i += GROUP) {
            const double *f = mvdr_at(inverse, i, 0), *at = z + i * STEP + lane;
            NAME(group) beside = {0}, own = {0};
            NAME(gather)(&beside, f, z + lane, i);
            NAME(gather)(&own, f + i * STEP, at, GROUP);
#pragma GCC unroll 4
            for (size_t q = 0; q < GROUP; q++) {
                VECTOR zr, zi;
                LOAD(zr, at + q * STEP);
                LOAD(zi, at + q * STEP + MVDR_LANES);
                sum -= zr * (2 * beside.re[q] + own.re[q]);
                sum -= zi * (2 * beside.im[q] + own.im[q]);
            }
        }
        STORE(out + lane, sum);
    }
}

TARGET static void NAME(multiplied)(const double *factor, size_t rows, const double *z, size_t m,
                                    double *each, double *out) {
    for (size_t lane = 0; lane < MVDR_LANES; lane += WIDTH) {
        VECTOR sum = {0};
        for (size_t i = 0; i < rows; i += GROUP) {
            NAME(group) g = {0};
            NAME(gather)(&g, factor + i / MVDR_LANES * m * STEP + i % MVDR_LANES, z + lane, m);
            NAME(energy)(&g, &sum);
            for (size_t q = 0; q < GROUP && each; q++) {
                const VECTOR own = g.re[q] * g.re[q] + g.im[q] * g.im[q];
                STORE(each + (i + q) * MVDR_LANES + lane, own);
            }
        }
        STORE(out + lane, sum);
    }
}
