/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ring of snapshots, and the sums that follow from it. A new snapshot overwrites the oldest
 * one's row of the Gram matrix, and its products with the steering vectors (directions.c). All
 * other entries stay. Each is computed once, so that rounding errors do not accumulate. A snapshot
 * with a value that is not finite keeps its slot and is not used.
 */
#include "mvdr_jacobi/cpu/kernels.h"

#include <math.h>
#include <string.h>

const sonar_c32 *mvdr_arrival(const mvdr_stage *stage, size_t index, size_t bin) {
    return (const sonar_c32 *)stage->in->data + (ptrdiff_t)index * stage->in->stride[0] +
           (ptrdiff_t)bin * stage->in->stride[1];
}

bool mvdr_finite(const sonar_c32 *x, size_t count) {
    const float *value = &x->re;
    float sum = 0; /* x * 0 is NaN for anything that is not finite */
    for (size_t i = 0; i < 2 * count; i++)
        sum += value[i] * 0;
    return sum == 0;
}

float *mvdr_column(const mvdr_stage *stage, size_t column, size_t bin) {
    return stage->ring + (column * stage->spec.bins + bin) * 2 * stage->ld;
}

static size_t filled_now(const mvdr_stage *stage) {
    return sonar_min_size(stage->filled + stage->arrived, stage->shape.slots);
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Makes the mirrored column: x of the mirrored sensors, conjugated. */
static void mirror(const mvdr_stage *stage, size_t slot, size_t bin) {
    const mvdr_rows *rows = &stage->rows;
    const float *x = mvdr_column(stage, 2 * slot, bin);
    float *y = mvdr_column(stage, 2 * slot + 1, bin);
    memset(y, 0, 2 * stage->ld * sizeof *y);
    for (size_t i = 0; i < stage->spec.sensors; i++)
        if (rows->used[i]) {
            y[i] = x[rows->mirror[i]];
            y[stage->ld + i] = -x[stage->ld + rows->mirror[i]];
        }
}

static void store(const mvdr_stage *stage, size_t slot, size_t bin, const sonar_c32 *x) {
    const size_t each = mvdr_slot_columns(&stage->shape);
    float *to = mvdr_column(stage, slot * each, bin);
    for (size_t i = 0; i < stage->spec.sensors; i++) {
        to[i] = x[i].re;
        to[stage->ld + i] = x[i].im;
    }
    stage->valid[slot * stage->spec.bins + bin] = mvdr_finite(x, stage->spec.sensors);
    if (each == 2)
        mirror(stage, slot, bin);
}

void mvdr_advance(mvdr_stage *stage) {
    if (stage->shape.slots) {
        stage->filled = filled_now(stage);
        stage->next = (stage->next + stage->arrived) % stage->shape.slots;
    }
    stage->arrived = 0;
}

/* ---- the Gram matrix ------------------------------------------------------------------------- */

/* Converts the column to double, with zeros at sensors that are not in use. */
static void freshen(const mvdr_stage *stage, const float *x, mvdr_scratch *scratch) {
    for (size_t i = 0; i < stage->spec.sensors; i++) {
        scratch->fresh_re[i] = stage->rows.used[i] ? (double)x[i] : 0;
        scratch->fresh_im[i] = stage->rows.used[i] ? (double)x[stage->ld + i] : 0;
    }
}

/* Computes the column's products with all columns of slots in use. An entry of a pair is valid in
 * the row of its newer column only, because the older column did not know the newer one. */
static void update_gram(mvdr_stage *stage, size_t bin, size_t column, mvdr_scratch *scratch) {
    const size_t columns = stage->columns, used = filled_now(stage) * stage->shape.each;
    const size_t row = (bin * columns + column) * columns;
    freshen(stage, mvdr_column(stage, column, bin), scratch);
    for (size_t i = 0; i < used; i++)
        scratch->kernels->inner(mvdr_column(stage, i, bin), scratch->fresh_re, scratch->fresh_im,
                                stage->ld, &stage->gram_re[row + i], &stage->gram_im[row + i]);
}

/* ---- new snapshots --------------------------------------------------------------------------- */

/* Forgetting in sensor space: R <- alpha R + (1 - alpha) x x^H over all sensors, masked ones
 * included. */
static void fade(mvdr_stage *stage, size_t bin, const sonar_c32 *x, mvdr_scratch *scratch) {
    const double alpha = stage->spec.alpha;
    double *r = stage->covariance + bin * mvdr_triangle(stage->spec.sensors);
    for (size_t i = 0; i < stage->spec.sensors; i++) {
        scratch->fresh_re[i] = (double)x[i].re;
        scratch->fresh_im[i] = (double)x[i].im;
    }
    mvdr_rank_one(r, stage->spec.sensors, alpha, 1 - alpha, scratch->fresh_re, scratch->fresh_im);
}

size_t mvdr_skipped(const mvdr_stage *stage) {
    const size_t slots = stage->shape.slots;
    return slots && stage->arrived > slots ? stage->arrived - slots : 0;
}

/* Stores the new snapshots begin .. end - 1 in their slots, and updates the covariance. */
static void store_some(mvdr_stage *stage, size_t bin, size_t begin, size_t end,
                       mvdr_scratch *scratch) {
    const size_t slots = stage->shape.slots;
    const bool sums = !stage->shape.by_snapshots;
    if (sums)
        mvdr_slide(stage, bin, begin, end, -1, scratch);
    for (size_t i = begin; i < end; i++)
        store(stage, (stage->next + i) % slots, bin, mvdr_arrival(stage, i, bin));
    if (sums)
        mvdr_slide(stage, bin, begin, end, 1, scratch);
}

void mvdr_store(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const size_t arrived = stage->arrived,
                 first = stage->shape.slots ? mvdr_skipped(stage) : arrived;
    for (size_t i = 0; i < arrived; i++) {
        const sonar_c32 *x = mvdr_arrival(stage, i, bin);
        const bool good = mvdr_finite(x, stage->spec.sensors);
        stage->bin[bin].seen += good;
        if (!stage->shape.slots && good)
            fade(stage, bin, x, scratch);
    }
    for (size_t i = first; i < arrived; i += MVDR_CHUNK)
        store_some(stage, bin, i, sonar_min_size(i + MVDR_CHUNK, arrived), scratch);
    if (first < arrived && !stage->shape.by_snapshots)
        mvdr_refresh(stage, bin, scratch);
}

size_t mvdr_list_due(const mvdr_stage *stage, bool whole, size_t *column) {
    const size_t slots = stage->shape.slots, each = stage->shape.each;
    const size_t skipped = whole ? 0 : mvdr_skipped(stage);
    const size_t first = whole ? 0 : stage->next + skipped;
    const size_t count = (whole ? filled_now(stage) : stage->arrived - skipped) * each;
    for (size_t i = 0; i < count; i++)
        column[i] = (first * each + i) % (slots * each);
    return count;
}

void mvdr_sum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_bin *state = &stage->bin[bin];
    const int64_t offset = llround(state->offset * MVDR_TONE_ONE);
    state->whole = stage->renewed || (stage->shape.by_snapshots && offset != state->projected);
    if (!stage->shape.by_snapshots)
        return;
    state->projected = offset;
    for (size_t slot = 0; stage->renewed && stage->shape.each == 2 && slot < filled_now(stage);
         slot++)
        mirror(stage, slot, bin);
    const size_t count = mvdr_list_due(stage, stage->renewed, scratch->column);
    for (size_t i = 0; i < count; i++)
        update_gram(stage, bin, scratch->column[i], scratch);
}

void mvdr_take(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_store(stage, bin, scratch);
    mvdr_sum(stage, bin, scratch);
}
