/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Products with Hermitian matrices in panels of eight rows (internal.h), whose diagonal blocks are
 * square. The streaming inverse is updated and applied with them.
 */
#include "mvdr_jacobi/cpu/inverse.h"

#include <string.h>

enum { LANES = MVDR_LANES, STEP = 2 * MVDR_LANES, MOST = MVDR_MOST_MOVED };

MVDR_INLINE void add_product(mvdr_lanes sum[2], mvdr_lanes re, mvdr_lanes im, double x, double y) {
    sum[0] += re * x;
    sum[0] -= im * y;
    sum[1] += re * y;
    sum[1] += im * x;
}

MVDR_INLINE void add_adjoint(mvdr_lanes *sum, mvdr_lanes re, mvdr_lanes im, const mvdr_lanes *u) {
    sum[0] += re * u[0];
    sum[0] += im * u[1];
    sum[1] += re * u[1];
    sum[1] -= im * u[0];
}

MVDR_INLINE void rows_of(const double *vector, size_t ld, size_t b, mvdr_lanes to[2]) {
    to[0] = *(const mvdr_lanes *)(vector + b * LANES);
    to[1] = *(const mvdr_lanes *)(vector + ld + b * LANES);
}

/* y = M u for two vectors. */
SONAR_MULTIARCH static void apply_two(double *m, size_t ld, const double *u, double *y,
                                      double *back) {
    const double *first = u, *second = u + 2 * ld;
    memset(back, 0, 4 * ld * LANES * sizeof *back);
    for (size_t b = 0; b < ld / LANES; b++) {
        const mvdr_lanes *panel = (const mvdr_lanes *)mvdr_panel(m, b);
        mvdr_lanes own[4], sum[4] = {0}, *to = (mvdr_lanes *)back;
        rows_of(first, ld, b, own);
        rows_of(second, ld, b, own + 2);
        for (size_t j = 0; j < (b + 1) * LANES; j++, panel += 2, to += 4) {
            add_product(sum, panel[0], panel[1], first[j], first[ld + j]);
            add_product(sum + 2, panel[0], panel[1], second[j], second[ld + j]);
            if (j >= b * LANES)
                continue;
            add_adjoint(to, panel[0], panel[1], own);
            add_adjoint(to + 2, panel[0], panel[1], own + 2);
        }
        for (size_t k = 0; k < 4; k++)
            memcpy(y + k * ld + b * LANES, &sum[k], sizeof sum[k]);
    }
    const mvdr_lanes *from = (const mvdr_lanes *)back;
    for (size_t j = 0; j < ld; j++)
        for (size_t k = 0; k < 4; k++)
            y[k * ld + j] += mvdr_add_lanes(from++);
}

void mvdr_apply(double *m, size_t ld, const double *x, double *y, size_t count, double *back) {
    for (size_t k = 0; k < count; k += 2)
        apply_two(m, ld, x + k * 2 * ld, y + k * 2 * ld, back);
}

SONAR_MULTIARCH static double subtract_products(double *m, size_t ld, const double *y,
                                                const double *over, size_t count) {
    mvdr_lanes energy = {0};
    for (size_t b = 0; b < ld / LANES; b++) {
        mvdr_lanes *to = (mvdr_lanes *)mvdr_panel(m, b), own[2 * MOST], sum = {0};
        for (size_t k = 0; k < count; k++) {
            rows_of(y + 2 * k * ld, ld, b, own + 2 * k);
            own[2 * k] *= over[k];
            own[2 * k + 1] *= over[k];
        }
        for (size_t j = 0; j < (b + 1) * LANES; j++, to += 2) {
            mvdr_lanes re = to[0], im = to[1];
            for (size_t k = 0; k < count; k++) {
                const double x = y[2 * k * ld + j], z = y[(2 * k + 1) * ld + j];
                re -= own[2 * k] * x;
                re -= own[2 * k + 1] * z;
                im -= own[2 * k + 1] * x;
                im += own[2 * k] * z;
            }
            to[0] = re, to[1] = im;
            if (j == b * LANES)
                sum += sum;
            sum += re * re;
            sum += im * im;
        }
        energy += sum;
    }
    return mvdr_add_lanes(&energy);
}

double mvdr_subtract_products(double *m, size_t ld, const double *y, const double *over,
                              size_t count) {
    return subtract_products(m, ld, y, over, count);
}

void mvdr_symmetrise(double *m, size_t ld) {
    for (size_t b = 0; b < ld / LANES; b++)
        for (size_t i = b * LANES; i < (b + 1) * LANES; i++) {
            mvdr_at(m, i, i)[LANES] = 0;
            for (size_t j = b * LANES; j < i; j++) {
                const double *from = mvdr_at(m, i, j);
                double *to = mvdr_panel(m, b) + j % LANES + i * STEP;
                to[0] = from[0];
                to[LANES] = -from[LANES];
            }
        }
}

SONAR_MULTIARCH static void moments(double *m, size_t ld, const double *vectors, double *y,
                                    double *p, double *q) {
    enum { GROUP = 4 };
    const mvdr_lanes *a = (const mvdr_lanes *)vectors;
    mvdr_lanes *to = (mvdr_lanes *)y, first = {0}, second = {0};
    memset(y, 0, ld * STEP * sizeof *y);
    for (size_t i = 0; i < ld; i += GROUP) {
        const double *from = mvdr_at(m, i, 0);
        mvdr_lanes sum[2 * GROUP] = {0};
        for (size_t j = 0; j < i + GROUP; j++, from += STEP) {
            mvdr_lanes back[2] = {0};
            for (size_t k = 0; k < GROUP; k++) {
                const double re = from[k], im = from[LANES + k];
                sum[2 * k] += a[2 * j] * re;
                sum[2 * k] -= a[2 * j + 1] * im;
                sum[2 * k + 1] += a[2 * j + 1] * re;
                sum[2 * k + 1] += a[2 * j] * im;
                back[0] += a[2 * (i + k)] * re;
                back[0] += a[2 * (i + k) + 1] * im;
                back[1] += a[2 * (i + k) + 1] * re;
                back[1] -= a[2 * (i + k)] * im;
            }
            if (j < i)
                to[2 * j] += back[0], to[2 * j + 1] += back[1];
        }
        for (size_t k = 0; k < 2 * GROUP; k++)
            to[2 * i + k] += sum[k];
    }
    for (size_t i = 0; i < 2 * ld; i++) {
        first += a[i] * to[i];
        second += to[i] * to[i];
    }
    memcpy(p, &first, sizeof first);
    memcpy(q, &second, sizeof second);
}

void mvdr_moments(double *m, size_t ld, const double *vectors, double *y, double *p, double *q) {
    moments(m, ld, vectors, y, p, q);
}

double mvdr_dot(const double *x, const double *y, size_t ld, double *im) {
    double re = 0, sum = 0;
    for (size_t i = 0; i < ld; i++) {
        re += x[i] * y[i] + x[ld + i] * y[ld + i];
        sum += x[i] * y[ld + i] - x[ld + i] * y[i];
    }
    *im = sum;
    return re;
}
