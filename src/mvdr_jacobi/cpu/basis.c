/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Columns from which Jacobi begins, from the eigenvectors V of the last window: X = V L with
 * V^H R V = L L^H, so that X X^H = R. If R has changed little, they are nearly orthogonal. The
 * largest eigenvalue comes first: a column of L then adds little of louder vectors to a quiet one.
 *
 * Matrices with all columns are in panels of eight rows, `ld` columns apart.
 */
#include "mvdr_jacobi/cpu/kernels.h"

#include <string.h>

enum { LANES = MVDR_LANES, STEP = 2 * MVDR_LANES, BLOCK = LANES * STEP };

static double *element(double *panels, size_t ld, size_t i, size_t j) {
    return panels + i / LANES * ld * STEP + j * STEP + i % LANES;
}

static void set(double *panels, size_t ld, size_t i, size_t j, double re, double im) {
    double *to = element(panels, ld, i, j);
    to[0] = re;
    to[LANES] = im;
}

static void clear(double *panels, size_t ld) {
    memset(panels, 0, 2 * ld * ld * sizeof *panels);
}

static void spread(double *a, size_t n, size_t ld, double *to) {
    clear(to, ld);
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n; i++) {
            const double *x = mvdr_at(a, i, j);
            const double im = i > j ? x[LANES] : 0;
            set(to, ld, i, j, x[0], im);
            set(to, ld, j, i, x[0], -im);
        }
}

/* L^H of a factor with 1/L_ii on the diagonal. */
static void take_adjoint(double *factor, size_t n, size_t ld, double *to) {
    clear(to, ld);
    for (size_t j = 0; j < n; j++) {
        set(to, ld, j, j, 1 / *mvdr_at(factor, j, j), 0);
        for (size_t i = j + 1; i < n; i++) {
            const double *x = mvdr_at(factor, i, j);
            set(to, ld, j, i, x[0], -x[LANES]);
        }
    }
}

static void transpose(double *rows, size_t n, size_t ld, double *to) {
    clear(to, ld);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            const double *x = element(rows, ld, i, j);
            set(to, ld, j, i, x[0], -x[LANES]);
        }
}

bool mvdr_begin_from_rows(const mvdr_kernels *kernels, double *a, const mvdr_start *start,
                          double *factor, mvdr_square x) {
    const size_t n = x.n, ld = x.ld, panel = ld * STEP;
    double *rows = start->rows, *left = start->left, *right = start->right;
    _Alignas(64) double block[BLOCK];
    spread(a, n, ld, right);
    for (size_t i = 0; i < ld / LANES; i++) /* V^H R */
        for (size_t j = 0; j < ld / LANES; j++)
            kernels->outer(rows + i * panel, right + j * panel, n, left + i * panel + j * BLOCK);
    for (size_t i = 0; i < ld / LANES; i++) /* V^H R V */
        for (size_t j = 0; j <= i; j++)
            kernels->outer(left + i * panel, rows + j * panel, n,
                           mvdr_panel(start->turned, i) + j * BLOCK);
    if (!mvdr_factor_loaded(kernels, start->turned, n, 0, factor))
        return false;
    take_adjoint(factor, n, ld, right);
    transpose(rows, n, ld, left);
    for (size_t j = 0; j < n; j += LANES) /* V L, the columns j .. j + 7 */
        for (size_t i = 0; i < ld; i += LANES) {
            const size_t at = i / LANES * panel + j * STEP, other = j / LANES * panel + j * STEP;
            kernels->outer(left + at, right + other, n - j, block);
            for (size_t c = 0; c < LANES && j + c < n; c++) {
                memcpy(x.re + (j + c) * ld + i, block + c * STEP, LANES * sizeof *x.re);
                memcpy(x.im + (j + c) * ld + i, block + c * STEP + LANES, LANES * sizeof *x.im);
            }
        }
    return true;
}

/* ---- a bin's vectors, from window to window -------------------------------------------------- */

/* Whether a matrix has a row for each sensor or each column of the ring. */
static bool is_whole(const mvdr_stage *stage, size_t n) {
    return !stage->shape.by_snapshots || n == stage->columns;
}

/* Where a row of the matrix is kept: a column of the ring changes its row with its age. */
static size_t place_of(const mvdr_stage *stage, const mvdr_scratch *scratch, size_t row) {
    return stage->shape.by_snapshots ? scratch->column[row] : row;
}

bool mvdr_take_vectors(const mvdr_stage *stage, size_t bin, size_t n, mvdr_scratch *scratch) {
    const size_t ld = mvdr_pad(n, LANES);
    const double *kept = stage->basis + bin * stage->basis_size;
    if (!stage->bin[bin].based || !is_whole(stage, n))
        return false;
    for (size_t i = 0; i < ld; i += LANES)
        for (size_t j = 0; j < n; j++)
            memcpy(scratch->start.rows + i * 2 * ld + j * STEP,
                   kept + i * 2 * ld + place_of(stage, scratch, j) * STEP, STEP * sizeof *kept);
    return true;
}

void mvdr_keep_vectors(mvdr_stage *stage, size_t bin, size_t n, const mvdr_scratch *scratch) {
    const size_t ld = mvdr_pad(n, LANES);
    double *to = stage->basis + bin * stage->basis_size;
    stage->bin[bin].based = is_whole(stage, n);
    if (!stage->bin[bin].based)
        return;
    clear(to, ld);
    for (size_t i = 0; i < n; i++) {
        const double *re = scratch->v_re + scratch->order[i] * ld;
        const double *im = scratch->v_im + scratch->order[i] * ld;
        for (size_t j = 0; j < n; j++)
            set(to, ld, i, place_of(stage, scratch, j), re[j], -im[j]);
    }
}
