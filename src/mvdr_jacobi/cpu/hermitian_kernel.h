/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Products with Hermitian matrices, with which the streaming inverse is updated and applied
 * (kernels.h), for one instruction set, WIDTH rows or vectors at a time: set_kernel.h defines the
 * macros. */

/* sum += (re + j im) (x + j y) */
TARGET INLINE void NAME(add_product)(VECTOR sum[2], VECTOR re, VECTOR im, double x, double y) {
    sum[0] += re * x;
    sum[0] -= im * y;
    sum[1] += re * y;
    sum[1] += im * x;
}

/* to += (re - j im) u, in memory. */
TARGET INLINE void NAME(add_adjoint)(double *to, VECTOR re, VECTOR im, const VECTOR u[2]) {
    VECTOR sum[2];
    LOAD(sum[0], to);
    LOAD(sum[1], to + MVDR_LANES);
    sum[0] += re * u[0];
    sum[0] += im * u[1];
    sum[1] += re * u[1];
    sum[1] -= im * u[0];
    STORE(to, sum[0]);
    STORE(to + MVDR_LANES, sum[1]);
}

TARGET INLINE void NAME(rows_of)(const double *vector, size_t ld, size_t row, VECTOR to[2]) {
    LOAD(to[0], vector + row);
    LOAD(to[1], vector + ld + row);
}

TARGET static void NAME(apply)(double *m, size_t ld, const double *u, double *y, double *back) {
    const double *second = u + 2 * ld;
    memset(back, 0, 4 * ld * MVDR_LANES * sizeof *back);
    for (size_t row = 0; row < ld; row += WIDTH) {
        const size_t diagonal = row / MVDR_LANES * MVDR_LANES, lane = row % MVDR_LANES;
        const double *from = mvdr_at(m, row, 0);
        double *to = back + lane;
        VECTOR own[4], sum[4] = {0};
        NAME(rows_of)(u, ld, row, own);
        NAME(rows_of)(second, ld, row, own + 2);
        for (size_t j = 0; j < diagonal + MVDR_LANES; j++, from += STEP, to += 2 * STEP) {
            VECTOR re, im;
            LOAD(re, from);
            LOAD(im, from + MVDR_LANES);
            NAME(add_product)(sum, re, im, u[j], u[ld + j]);
            NAME(add_product)(sum + 2, re, im, second[j], second[ld + j]);
            if (j >= diagonal)
                continue;
            NAME(add_adjoint)(to, re, im, own);
            NAME(add_adjoint)(to + STEP, re, im, own + 2);
        }
#pragma GCC unroll 4
        for (size_t k = 0; k < 4; k++)
            STORE(y + k * ld + row, sum[k]);
    }
    for (size_t j = 0; j < ld; j++)
        for (size_t k = 0; k < 4; k++, back += MVDR_LANES)
            y[k * ld + j] += mvdr_add_eight(back);
}

TARGET static double NAME(subtract)(double *m, size_t ld, const double *y, const double *over,
                                    size_t count) {
    double energy[MVDR_LANES] = {0}, each[MVDR_LANES];
    for (size_t row = 0; row < ld; row += WIDTH) {
        const size_t diagonal = row / MVDR_LANES * MVDR_LANES, lane = row % MVDR_LANES;
        double *to = mvdr_at(m, row, 0);
        VECTOR own[2 * MVDR_MOST_MOVED], sum = {0}, re, im;
        for (size_t k = 0; k < count; k++) {
            NAME(rows_of)(y + 2 * k * ld, ld, row, own + 2 * k);
            own[2 * k] *= over[k];
            own[2 * k + 1] *= over[k];
        }
        for (size_t j = 0; j < diagonal + MVDR_LANES; j++, to += STEP) {
            LOAD(re, to);
            LOAD(im, to + MVDR_LANES);
            for (size_t k = 0; k < count; k++) {
                const double x = y[2 * k * ld + j], z = y[(2 * k + 1) * ld + j];
                re -= own[2 * k] * x;
                re -= own[2 * k + 1] * z;
                im -= own[2 * k + 1] * x;
                im += own[2 * k] * z;
            }
            STORE(to, re);
            STORE(to + MVDR_LANES, im);
            if (j == diagonal)
                sum += sum; /* elements above the diagonal are not stored */
            sum += re * re;
            sum += im * im;
        }
        STORE(each + lane, sum);
#pragma GCC unroll 8
        for (size_t k = lane; k < lane + WIDTH; k++)
            energy[k] += each[k];
    }
    return mvdr_add_eight(energy);
}

/* Four rows of M, times WIDTH vectors. */
TARGET INLINE void NAME(moments_of)(double *m, size_t i, const double *a, double *y) {
    const double *from = mvdr_at(m, i, 0);
    VECTOR sum[2 * GROUP] = {0};
    for (size_t j = 0; j < i + GROUP; j++, from += STEP) {
        VECTOR back[2] = {0}, x[2];
        NAME(rows_of)(a, MVDR_LANES, j * STEP, x);
#pragma GCC unroll 4
        for (size_t k = 0; k < GROUP; k++) {
            const double re = from[k], im = from[MVDR_LANES + k];
            VECTOR own[2];
            NAME(rows_of)(a, MVDR_LANES, (i + k) * STEP, own);
            sum[2 * k] += x[0] * re;
            sum[2 * k] -= x[1] * im;
            sum[2 * k + 1] += x[1] * re;
            sum[2 * k + 1] += x[0] * im;
            back[0] += own[0] * re;
            back[0] += own[1] * im;
            back[1] += own[1] * re;
            back[1] -= own[0] * im;
        }
        if (j >= i)
            continue;
        NAME(rows_of)(y, MVDR_LANES, j * STEP, x);
        x[0] += back[0];
        x[1] += back[1];
        STORE(y + j * STEP, x[0]);
        STORE(y + j * STEP + MVDR_LANES, x[1]);
    }
#pragma GCC unroll 8
    for (size_t k = 0; k < 2 * GROUP; k++) {
        VECTOR before;
        LOAD(before, y + i * STEP + k * MVDR_LANES);
        sum[k] += before;
        STORE(y + i * STEP + k * MVDR_LANES, sum[k]);
    }
}

TARGET static void NAME(moments)(double *m, size_t ld, const double *vectors, double *y, double *p,
                                 double *q) {
    memset(y, 0, ld * STEP * sizeof *y);
    for (size_t lane = 0; lane < MVDR_LANES; lane += WIDTH) {
        VECTOR first = {0}, second = {0};
        for (size_t i = 0; i < ld; i += GROUP)
            NAME(moments_of)(m, i, vectors + lane, y + lane);
        for (size_t i = lane; i < ld * STEP; i += MVDR_LANES) {
            VECTOR a, b;
            LOAD(a, vectors + i);
            LOAD(b, y + i);
            first += a * b;
            second += b * b;
        }
        STORE(p + lane, first);
        STORE(q + lane, second);
    }
}

TARGET static void NAME(along)(const double *y, const double *vectors, size_t ld, double *re,
                               double *im) {
    for (size_t lane = 0; lane < MVDR_LANES; lane += WIDTH) {
        VECTOR sum[2] = {0}, a[2];
        for (size_t i = 0; i < ld; i++) {
            NAME(rows_of)(vectors + lane, MVDR_LANES, i * STEP, a);
            NAME(add_product)(sum, a[0], a[1], y[i], -y[ld + i]);
        }
        STORE(re + lane, sum[0]);
        STORE(im + lane, sum[1]);
    }
}
