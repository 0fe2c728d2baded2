/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The matrix A of a bin, in scratch->a: of the columns that count their Gram matrix or their
 * covariance, or the covariance that forgets. Masked sensors have zero rows in a covariance. */
#include "mvdr_jacobi/internal.h"

#include <math.h>
#include <string.h>

enum { STEP = 2 * MVDR_LANES };

/* Weight of the l-th newest of the snapshots that count; all weights sum to 1. */
static double weight_of(const mvdr_stage *stage, const mvdr_bin *state, size_t l, size_t count) {
    const double alpha = stage->spec.alpha;
    return alpha > 0 ? (1 - alpha) * pow(alpha, (double)l) / (1 - pow(alpha, (double)state->seen))
                     : 1 / (double)count;
}

size_t mvdr_list_columns(const mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const size_t slots = stage->shape.slots, each = stage->shape.each, bins = stage->spec.bins;
    const size_t filled = sonar_min_size(stage->filled + stage->arrived, slots);
    size_t count = 0, m = 0;
    for (size_t age = 0; age < filled; age++) {
        const size_t slot = (stage->next + stage->arrived % slots + 2 * slots - 1 - age) % slots;
        if (!stage->valid[slot * bins + bin])
            continue;
        for (size_t k = 0; k < each; k++)
            scratch->column[m++] = slot * each + k;
        count++;
    }
    for (size_t i = 0; i < m; i++)
        scratch->root[i] = sqrt(weight_of(stage, &stage->bin[bin], i / each, count) / (double)each);
    return count;
}

/* ---- snapshot space -------------------------------------------------------------------------- */

void mvdr_form_gram(const mvdr_stage *stage, size_t bin, size_t m, mvdr_scratch *scratch) {
    const size_t columns = stage->columns, *column = scratch->column;
    const double *g_re = stage->gram_re + bin * columns * columns;
    const double *g_im = stage->gram_im + bin * columns * columns;
    memset(scratch->a, 0, mvdr_triangle(m) * sizeof *scratch->a);
    for (size_t j = 0; j < m; j++)
        for (size_t i = j; i < m; i++) {
            const size_t at = column[j] * columns + column[i];
            const double weight = scratch->root[i] * scratch->root[j];
            double *to = mvdr_at(scratch->a, i, j);
            to[0] = weight * g_re[at];
            to[MVDR_LANES] = weight * g_im[at];
        }
}

/* ---- sensor space ---------------------------------------------------------------------------- */

/* The columns, weighted, as panels of sensors. */
static void load_panels(const mvdr_stage *stage, size_t bin, size_t m, mvdr_scratch *scratch) {
    const size_t ld = stage->ld, sensors = stage->spec.sensors;
    for (size_t c = 0; c < m; c++) {
        const float *x = stage->ring + (scratch->column[c] * stage->spec.bins + bin) * 2 * ld;
        for (size_t i = 0; i < ld; i++) {
            const bool used = i < sensors && stage->rows.used[i];
            double *to = scratch->panel + (i / MVDR_LANES * m + c) * STEP + i % MVDR_LANES;
            to[0] = used ? scratch->root[c] * (double)x[i] : 0;
            to[MVDR_LANES] = used ? scratch->root[c] * (double)x[ld + i] : 0;
        }
    }
}

void mvdr_form_covariance(const mvdr_stage *stage, size_t bin, size_t m, mvdr_scratch *scratch) {
    load_panels(stage, bin, m, scratch);
    mvdr_square_up(scratch->panel, m, scratch->a, stage->spec.sensors);
}

/* Element (i, j) of a Hermitian matrix of which the lower triangle is there. */
static void element(double *r, size_t i, size_t j, double *re, double *im) {
    const double *at = i >= j ? mvdr_at(r, i, j) : mvdr_at(r, j, i);
    *re = at[0];
    *im = i >= j ? at[MVDR_LANES] : -at[MVDR_LANES];
}

/* Of the used sensors; with forward-backward (R + J R* J)/2. */
void mvdr_form_faded(const mvdr_stage *stage, size_t bin, double share, mvdr_scratch *scratch) {
    const size_t sensors = stage->spec.sensors;
    const mvdr_rows *rows = &stage->rows;
    double *r = stage->covariance + bin * mvdr_triangle(sensors), re, im, back_re, back_im;
    memset(scratch->a, 0, mvdr_triangle(sensors) * sizeof *scratch->a);
    for (size_t j = 0; j < sensors; j++)
        for (size_t i = j; i < sensors && rows->used[j]; i++) {
            double *to = mvdr_at(scratch->a, i, j);
            if (!rows->used[i])
                continue;
            element(r, i, j, &re, &im);
            if (stage->shape.each == 2) {
                element(r, rows->mirror[i], rows->mirror[j], &back_re, &back_im);
                re = (re + back_re) / 2;
                im = (im - back_im) / 2;
            }
            to[0] = re / share;
            to[MVDR_LANES] = im / share;
        }
}
