/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Products of columns and the Cholesky factor, on panels of eight rows (internal.h). Both consist
 * of sums over k of b_k c_k^H for the eight rows of one panel and four rows of another. The columns
 * k of a panel lie one behind the other.
 */
#include "mvdr_jacobi/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { ROWS = MVDR_LANES, STEP = 2 * MVDR_LANES /* from column to column */ };

enum { BLOCK = ROWS * STEP /* doubles of eight columns of eight rows */ };

/* ---- A + sum of x x^H ------------------------------------------------------------------------ */

SONAR_MULTIARCH static void add_block(double *to, double factor, const double *block) {
    for (size_t i = 0; i < BLOCK; i++)
        to[i] += factor * block[i];
}

void mvdr_add_products(const mvdr_kernels *kernels, double *a, size_t order, double sign,
                       const double *panels, size_t count) {
    for (size_t b = 0; count && b < mvdr_pad(order, ROWS) / ROWS; b++)
        for (size_t c = 0; c <= b; c++) {
            _Alignas(64) double sum[BLOCK];
            kernels->outer(panels + b * count * STEP, panels + c * count * STEP, count, sum);
            add_block(mvdr_panel(a, b) + c * BLOCK, sign, sum);
        }
}

SONAR_MULTIARCH static void scale_all(double *a, size_t count, double scale, const double *r) {
    for (size_t i = 0; i < count; i++)
        a[i] = scale * r[i];
}

void mvdr_scale(double *a, size_t order, double scale, const double *r) {
    scale_all(a, mvdr_triangle(order), scale, r);
}

SONAR_MULTIARCH static void rank_one(double *a, size_t panel_count, double keep, double take,
                                     const double *re, const double *im) {
    for (size_t b = 0; b < panel_count; b++) {
        const double *xr = re + b * ROWS, *xi = im + b * ROWS;
        double *restrict to = mvdr_panel(a, b);
        for (size_t j = 0; j < (b + 1) * ROWS; j++, to += STEP) {
            const double x = take * re[j], y = take * im[j];
            for (size_t i = 0; i < ROWS; i++) {
                to[i] = keep * to[i] + (xr[i] * x + xi[i] * y);
                to[ROWS + i] = keep * to[ROWS + i] + (xi[i] * x - xr[i] * y);
            }
        }
    }
}

void mvdr_rank_one(double *a, size_t order, double keep, double take, const double *re,
                   const double *im) {
    rank_one(a, mvdr_pad(order, ROWS) / ROWS, keep, take, re, im);
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* Factors the diagonal block column by column. False if a pivot is not positive. */
SONAR_MULTIARCH static bool factor_block(double *x) {
    for (size_t j = 0; j < ROWS; j++) {
        double *re = x + j * STEP, *im = re + ROWS;
        for (size_t t = 0; t < j; t++) {
            const double *other = x + t * STEP, lr = other[j], li = other[ROWS + j];
            for (size_t row = 0; row < ROWS; row++) {
                re[row] -= other[row] * lr;
                re[row] -= other[ROWS + row] * li;
                im[row] -= other[ROWS + row] * lr;
                im[row] += other[row] * li;
            }
        }
        const double pivot = re[j];
        if (!(pivot > 0))
            return false;
        const double inverse = 1 / sqrt(pivot);
        for (size_t row = 0; row < ROWS; row++) {
            re[row] *= inverse;
            im[row] *= inverse;
        }
        re[j] = inverse;
        im[j] = 0;
    }
    return true;
}

bool mvdr_factor(const mvdr_kernels *kernels, double *a, size_t order) {
    for (size_t b = 0; b < mvdr_pad(order, ROWS) / ROWS; b++)
        for (size_t c = 0; c <= b; c++) {
            double *own = mvdr_panel(a, b), *other = mvdr_panel(a, c);
            _Alignas(64) double sum[BLOCK];
            kernels->outer(own, other, c * ROWS, sum);
            add_block(own + c * BLOCK, -1, sum);
            if (c < b)
                kernels->solve(own + c * BLOCK, other + c * BLOCK);
            else if (!factor_block(own + c * BLOCK))
                return false;
        }
    return true;
}

bool mvdr_factor_loaded(const mvdr_kernels *kernels, const double *a, size_t order, double delta,
                        double *factor) {
    memcpy(factor, a, mvdr_triangle(order) * sizeof *factor);
    for (size_t i = 0; i < mvdr_pad(order, ROWS); i++)
        *mvdr_at(factor, i, i) = i < order ? *mvdr_at(factor, i, i) + delta : 1;
    return mvdr_factor(kernels, factor, order);
}

bool mvdr_factor_raised(const mvdr_kernels *kernels, const double *a, size_t order, double most,
                        double *delta, double *factor) {
    while (!mvdr_factor_loaded(kernels, a, order, *delta, factor)) {
        if (!(most > 0 && *delta < 8 * most))
            return false;
        *delta = fmax(4 * *delta, DBL_EPSILON * most);
    }
    return true;
}

double mvdr_trace(double *a, size_t order) {
    double sum = 0;
    for (size_t i = 0; i < order; i++)
        sum += *mvdr_at(a, i, i);
    return sum;
}

/* ---- the inverse ----------------------------------------------------------------------------- */

/* Sets eight columns to those of the identity, from the first one's diagonal element down. */
static void begin_columns(double *x, size_t rows) {
    memset(x, 0, rows * STEP * sizeof *x);
    for (size_t j = 0; j < ROWS; j++)
        x[j * STEP + j] = 1;
}

void mvdr_invert(const mvdr_kernels *kernels, double *factor, size_t order, double *x,
                 double *first, double *second) {
    const size_t padded = mvdr_pad(order, ROWS);
    *first = *second = 0;
    for (size_t c = 0; c < padded; c += ROWS) {
        double diagonal[ROWS];
        begin_columns(x, padded - c);
        kernels->substitute(factor, c, padded, x, diagonal);
        for (size_t j = 0; j < ROWS && c + j < order; j++) {
            *first += diagonal[j];
            *second += diagonal[j] * diagonal[j];
        }
        x += (padded - c) * STEP;
    }
}

/* Sum of the squared magnitudes in the first `count` rows and columns of a block. */
SONAR_MULTIARCH static double energy_of(const double *block, size_t count) {
    double sum[ROWS] = {0}, total = 0;
    for (size_t q = 0; q < count; q++, block += STEP)
        for (size_t row = 0; row < ROWS; row++)
            sum[row] += block[row] * block[row] + block[ROWS + row] * block[ROWS + row];
    for (size_t row = 0; row < count; row++)
        total += sum[row];
    return total;
}

/* Saves the conjugate of a block: x's lanes are columns, so that `outer` makes the conjugate of X^H
 * X. */
static void save_conjugate(const double *block, double *to) {
    for (size_t q = 0; q < ROWS; q++, block += STEP, to += STEP)
        for (size_t row = 0; row < ROWS; row++) {
            to[row] = block[row];
            to[ROWS + row] = -block[ROWS + row];
        }
}

double mvdr_multiply_out(const mvdr_kernels *kernels, const double *x, size_t order,
                         double *inverse) {
    const size_t padded = mvdr_pad(order, ROWS);
    double total = 0;
    for (size_t c = 0; c < padded; c += ROWS) {
        const double *own = x, *below = x;
        for (size_t b = c; b < padded; b += ROWS) {
            _Alignas(64) double sum[BLOCK];
            kernels->outer(below, own + (b - c) * STEP, padded - b, sum);
            total +=
                b == c ? energy_of(sum, sonar_min_size(ROWS, order - c)) : 2 * energy_of(sum, ROWS);
            if (inverse)
                save_conjugate(sum, mvdr_panel(inverse, b / ROWS) + c * STEP);
            below += (padded - b) * STEP;
        }
        x += (padded - c) * STEP;
    }
    return total;
}
