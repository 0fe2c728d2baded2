/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Products of columns and the Cholesky factor, on panels of eight rows (internal.h). Both consist
 * of sums over k of b_k c_k^H for the eight rows of one panel and four rows of another. The columns
 * k of a panel lie one behind the other.
 */
#include "mvdr_jacobi/cpu/kernels.h"

#include <math.h>
#include <string.h>

enum { ROWS = MVDR_LANES, STEP = 2 * MVDR_LANES /* from column to column */ };

/* A block of a panel: eight columns of eight rows. */
typedef struct block {
    mvdr_lanes re[ROWS], im[ROWS];
} block;

/* sum = sum over k of b_k c_k^H. Computes the columns `first` to first + 3 of the block, which
 * correspond to rows of c. */
MVDR_INLINE void outer(const double *b, const double *c, size_t count, size_t first, block *sum) {
    mvdr_lanes re[4] = {0}, im[4] = {0};
    for (size_t k = 0; k < count; k++, b += STEP, c += STEP) {
        const mvdr_lanes br = *(const mvdr_lanes *)b, bi = *(const mvdr_lanes *)(b + ROWS);
        for (size_t q = 0; q < 4; q++) {
            const double cr = c[first + q], ci = c[ROWS + first + q];
            re[q] += br * cr;
            re[q] += bi * ci;
            im[q] += bi * cr;
            im[q] -= br * ci;
        }
    }
    for (size_t q = 0; q < 4; q++) {
        sum->re[first + q] = re[q];
        sum->im[first + q] = im[q];
    }
}

/* ---- A + sum of x x^H ------------------------------------------------------------------------ */

SONAR_MULTIARCH static void add_products(double *a, size_t panel_count, double sign,
                                         const double *panels, size_t count) {
    for (size_t b = 0; b < panel_count; b++)
        for (size_t c = 0; c <= b; c++) {
            block sum;
            mvdr_lanes *to = (mvdr_lanes *)(mvdr_panel(a, b) + c * ROWS * STEP);
            outer(panels + b * count * STEP, panels + c * count * STEP, count, 0, &sum);
            outer(panels + b * count * STEP, panels + c * count * STEP, count, 4, &sum);
            for (size_t q = 0; q < ROWS; q++, to += 2) {
                to[0] += sign * sum.re[q];
                to[1] += sign * sum.im[q];
            }
        }
}

void mvdr_add_products(double *a, size_t order, double sign, const double *panels, size_t count) {
    if (count)
        add_products(a, mvdr_pad(order, ROWS) / ROWS, sign, panels, count);
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
        const mvdr_lanes xr = take * *(const mvdr_lanes *)(re + b * ROWS);
        const mvdr_lanes xi = take * *(const mvdr_lanes *)(im + b * ROWS);
        mvdr_lanes *to = (mvdr_lanes *)mvdr_panel(a, b);
        for (size_t j = 0; j < (b + 1) * ROWS; j++, to += 2) {
            to[0] = keep * to[0] + (xr * re[j] + xi * im[j]);
            to[1] = keep * to[1] + (xi * re[j] - xr * im[j]);
        }
    }
}

void mvdr_rank_one(double *a, size_t order, double keep, double take, const double *re,
                   const double *im) {
    rank_one(a, mvdr_pad(order, ROWS) / ROWS, keep, take, re, im);
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

MVDR_INLINE void load(const double *from, block *to) {
    for (size_t q = 0; q < ROWS; q++, from += STEP) {
        memcpy(&to->re[q], from, sizeof to->re[q]);
        memcpy(&to->im[q], from + ROWS, sizeof to->im[q]);
    }
}

MVDR_INLINE void save(const block *from, double *to) {
    for (size_t q = 0; q < ROWS; q++, to += STEP) {
        memcpy(to, &from->re[q], sizeof from->re[q]);
        memcpy(to + ROWS, &from->im[q], sizeof from->im[q]);
    }
}

MVDR_INLINE void subtract(const block *sum, block *x) {
    for (size_t q = 0; q < ROWS; q++) {
        x->re[q] -= sum->re[q];
        x->im[q] -= sum->im[q];
    }
}

/* Subtracts from x's column j its columns before j, times row j of the diagonal block at `l`. */
MVDR_INLINE void eliminate_column(block *x, size_t j, const double *l) {
    for (size_t t = 0; t < j; t++) {
        const double re = l[t * STEP + j], im = l[t * STEP + ROWS + j];
        x->re[j] -= x->re[t] * re;
        x->re[j] -= x->im[t] * im;
        x->im[j] -= x->im[t] * re;
        x->im[j] += x->re[t] * im;
    }
}

/* Solves a block below the diagonal. `l`: the diagonal block of its columns. */
MVDR_INLINE void solve_block(block *x, const double *l) {
    for (size_t j = 0; j < ROWS; j++) {
        eliminate_column(x, j, l);
        x->re[j] *= l[j * STEP + j];
        x->im[j] *= l[j * STEP + j];
    }
}

/* Factors the diagonal block, and writes it to `l` column by column. False if a pivot is not
 * positive. */
MVDR_INLINE bool factor_block(block *x, double *l) {
    for (size_t j = 0; j < ROWS; j++) {
        eliminate_column(x, j, l);
        const double pivot = x->re[j][j];
        if (!(pivot > 0))
            return false;
        const double inverse = 1 / sqrt(pivot);
        x->re[j] *= inverse;
        x->im[j] *= inverse;
        memcpy(l + j * STEP, &x->re[j], sizeof x->re[j]);
        memcpy(l + j * STEP + ROWS, &x->im[j], sizeof x->im[j]);
        l[j * STEP + j] = inverse;
        l[j * STEP + ROWS + j] = 0;
    }
    return true;
}

SONAR_MULTIARCH static bool factor(double *a, size_t panel_count) {
    for (size_t b = 0; b < panel_count; b++)
        for (size_t c = 0; c <= b; c++) {
            double *own = mvdr_panel(a, b), *other = mvdr_panel(a, c);
            block x, sum;
            outer(own, other, c * ROWS, 0, &sum);
            outer(own, other, c * ROWS, 4, &sum);
            load(own + c * ROWS * STEP, &x);
            subtract(&sum, &x);
            if (c == b && !factor_block(&x, own + b * ROWS * STEP))
                return false;
            if (c == b)
                continue;
            solve_block(&x, other + c * ROWS * STEP);
            save(&x, own + c * ROWS * STEP);
        }
    return true;
}

bool mvdr_factor(double *a, size_t order) {
    return factor(a, mvdr_pad(order, ROWS) / ROWS);
}

bool mvdr_factor_loaded(const double *a, size_t order, double delta, double *factor) {
    memcpy(factor, a, mvdr_triangle(order) * sizeof *factor);
    for (size_t i = 0; i < mvdr_pad(order, ROWS); i++)
        *mvdr_at(factor, i, i) = i < order ? *mvdr_at(factor, i, i) + delta : 1;
    return mvdr_factor(factor, order);
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
MVDR_INLINE double energy_of(const block *x, size_t count) {
    mvdr_lanes sum = {0};
    double total = 0;
    for (size_t q = 0; q < count; q++)
        sum += x->re[q] * x->re[q] + x->im[q] * x->im[q];
    for (size_t lane = 0; lane < count; lane++)
        total += sum[lane];
    return total;
}

/* Saves the conjugate of a block: x's lanes are columns, so that `outer` makes the conjugate of X^H
 * X. */
MVDR_INLINE void save_conjugate(const block *from, double *to) {
    block x = *from;
    for (size_t q = 0; q < ROWS; q++)
        x.im[q] = -x.im[q];
    save(&x, to);
}

/* Writes X^H X to `inverse`, unless that is NULL. Returns the sum of the squared magnitudes of its
 * elements. The identity beyond the matrix is left out: it has another unit, and beside it the
 * inverse of a loud matrix would be lost. */
SONAR_MULTIARCH static double multiply_out(const double *x, size_t order, double *inverse) {
    const size_t padded = mvdr_pad(order, ROWS);
    double total = 0;
    for (size_t c = 0; c < padded; c += ROWS) {
        const double *own = x, *below = x;
        for (size_t b = c; b < padded; b += ROWS) {
            block sum;
            outer(below, own + (b - c) * STEP, padded - b, 0, &sum);
            outer(below, own + (b - c) * STEP, padded - b, 4, &sum);
            total += b == c ? energy_of(&sum, sonar_min_size(ROWS, order - c))
                            : 2 * energy_of(&sum, ROWS);
            if (inverse)
                save_conjugate(&sum, mvdr_panel(inverse, b / ROWS) + c * STEP);
            below += (padded - b) * STEP;
        }
        x += (padded - c) * STEP;
    }
    return total;
}

double mvdr_inverse_energy(const double *x, size_t order) {
    return multiply_out(x, order, NULL);
}

void mvdr_multiply_out(const double *x, size_t order, double *inverse) {
    multiply_out(x, order, inverse);
}
