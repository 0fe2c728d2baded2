/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The matrix A of a bin, in scratch->a. It is the Gram matrix of the valid columns, or the
 * covariance from sums over all sensors: of a block, to which snapshots are added and from which
 * they are subtracted, or with forgetting. Masked sensors have zero rows in a covariance. */
#include "mvdr_jacobi/cpu/internal.h"

#include <math.h>
#include <string.h>

enum { STEP = 2 * MVDR_LANES };

/* Weight of the l-th newest of `count` valid snapshots; all weights sum to 1. */
static double weight_of(const mvdr_stage *stage, const mvdr_bin *state, size_t l, size_t count) {
    const double alpha = stage->spec.alpha;
    return alpha > 0 ? (1 - alpha) * pow(alpha, (double)l) / (1 - pow(alpha, (double)state->seen))
                     : 1 / (double)count;
}

size_t mvdr_list_columns(const mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const size_t slots = stage->shape.slots, bins = stage->spec.bins;
    const size_t each = mvdr_slot_columns(&stage->shape);
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

/* Loads the valid snapshots in `count` slots from `first` on, if the slots are below `in_use`, as
 * panels of all sensors, masked or not. Returns the number of snapshots. */
static size_t load_panels(const mvdr_stage *stage, size_t bin, size_t first, size_t count,
                          size_t in_use, double *panel) {
    const size_t slots = stage->shape.slots, bins = stage->spec.bins, ld = stage->ld;
    size_t slot[MVDR_CHUNK], m = 0;
    for (size_t i = 0; i < count; i++)
        if ((first + i) % slots < in_use && stage->valid[(first + i) % slots * bins + bin])
            slot[m++] = (first + i) % slots;
    for (size_t c = 0; c < m; c++) {
        const float *x = mvdr_column(stage, slot[c], bin);
        for (size_t i = 0; i < ld; i++) {
            double *to = panel + (i / MVDR_LANES * m + c) * STEP + i % MVDR_LANES;
            to[0] = (double)x[i];
            to[MVDR_LANES] = (double)x[ld + i];
        }
    }
    return m;
}

static double *sums_of(const mvdr_stage *stage, size_t bin) {
    return stage->covariance + bin * mvdr_triangle(stage->spec.sensors);
}

void mvdr_slide(mvdr_stage *stage, size_t bin, size_t begin, size_t end, double sign,
                mvdr_scratch *scratch) {
    const size_t sensors = stage->spec.sensors;
    double *r = sums_of(stage, bin), *loudest = &stage->bin[bin].loudest;
    const size_t in_use = sign > 0 ? stage->shape.slots : stage->filled;
    const size_t m =
        load_panels(stage, bin, stage->next + begin, end - begin, in_use, scratch->panel);
    mvdr_add_products(scratch->kernels, r, sensors, sign, scratch->panel, m);
    *loudest = fmax(*loudest, mvdr_trace(r, sensors));
}

/* Adding and subtracting snapshots leaves a rounding error relative to the largest value that the
 * sum has had. So each bin recomputes its sum once in a round of the ring, bins at different times,
 * and after loud snapshots have left the block. */
void mvdr_refresh(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const double loud = 4; /* ratio to the present trace */
    const size_t sensors = stage->spec.sensors, slots = stage->shape.slots;
    const size_t filled = sonar_min_size(stage->filled + stage->arrived, slots);
    const size_t own = bin * slots / stage->spec.bins, skip = mvdr_skipped(stage);
    const size_t ahead = (own + slots - (stage->next + skip) % slots) % slots;
    double *r = sums_of(stage, bin), *loudest = &stage->bin[bin].loudest;
    if (ahead >= stage->arrived - skip && !(*loudest > loud * mvdr_trace(r, sensors)))
        return;
    memset(r, 0, mvdr_triangle(sensors) * sizeof *r);
    for (size_t slot = 0; slot < filled; slot += MVDR_CHUNK) {
        const size_t count = sonar_min_size(filled - slot, MVDR_CHUNK);
        mvdr_add_products(scratch->kernels, r, sensors, 1, scratch->panel,
                          load_panels(stage, bin, slot, count, filled, scratch->panel));
    }
    *loudest = mvdr_trace(r, sensors);
}

/* Element (i, j) of a Hermitian matrix whose lower triangle is stored. */
static void element(double *r, size_t i, size_t j, double *re, double *im) {
    const double *at = i >= j ? mvdr_at(r, i, j) : mvdr_at(r, j, i);
    *re = at[0];
    *im = i >= j ? at[MVDR_LANES] : -at[MVDR_LANES];
}

/* a = (R + J R* J) scale / 2 over the sensors in use. */
static void form_mirrored(double *r, const mvdr_rows *rows, size_t sensors, double scale,
                          double *a) {
    double re, im, back_re, back_im;
    for (size_t j = 0; j < sensors; j++)
        for (size_t i = j; i < sensors && rows->used[j]; i++) {
            double *to = mvdr_at(a, i, j);
            if (!rows->used[i])
                continue;
            element(r, i, j, &re, &im);
            element(r, rows->mirror[i], rows->mirror[j], &back_re, &back_im);
            to[0] = scale * (re + back_re) / 2;
            to[MVDR_LANES] = scale * (im - back_im) / 2;
        }
}

/* Zeros in the rows and columns of unused sensors. */
static void clear_unused(const mvdr_rows *rows, size_t sensors, double *a) {
    for (size_t j = 0; j < sensors; j++)
        for (size_t i = j; i < sensors && rows->n < sensors; i++)
            if (!rows->used[i] || !rows->used[j])
                mvdr_at(a, i, j)[0] = mvdr_at(a, i, j)[MVDR_LANES] = 0;
}

void mvdr_form_covariance(const mvdr_stage *stage, size_t bin, double total,
                          mvdr_scratch *scratch) {
    const size_t sensors = stage->spec.sensors;
    double *r = sums_of(stage, bin);
    if (stage->shape.each == 2) {
        memset(scratch->a, 0, mvdr_triangle(sensors) * sizeof *scratch->a);
        form_mirrored(r, &stage->rows, sensors, 1 / total, scratch->a);
    } else {
        mvdr_scale(scratch->a, sensors, 1 / total, r);
        clear_unused(&stage->rows, sensors, scratch->a);
    }
}
