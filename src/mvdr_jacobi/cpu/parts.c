/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A part of an array computes the sums of its own sensors; a joined stage solves the bins from the
 * sums added over all parts. A part decides by itself which sums to compute, from what all parts
 * have in common: the new snapshots, the version of the parameters, and the tones, which follow
 * from the added products. */
#include "mvdr_jacobi/cpu/internal.h"

#include <math.h>
#include <string.h>

/* ---- new snapshots of a part ----------------------------------------------------------------- */

static double *products_at(const sonar_buffer *products, size_t row, size_t bin) {
    return (double *)products->data + (ptrdiff_t)row * products->stride[0] +
           (ptrdiff_t)bin * products->stride[1];
}

static void give_products(const mvdr_stage *stage, size_t row, size_t bin, mvdr_pair p) {
    double *to = products_at(stage->out, row, bin);
    to[0] = p.lower;
    to[1] = p.upper;
    to[2] = p.cross;
    to[3] = (double)stage->rows.n;
}

/* Gives the products of the block's snapshots, before new ones take their slots. */
static void block_task(void *arg, size_t bin, size_t worker) {
    const mvdr_stage *stage = arg;
    (void)worker;
    for (size_t row = stage->arrived; row < stage->out->shape[0]; row++) {
        const size_t slot = row - stage->arrived;
        const bool there = stage->tones && slot < stage->filled && bin + 1 < stage->spec.bins;
        const mvdr_pair none = {0, 0, 0};
        give_products(stage, row, bin, there ? mvdr_pair_in_ring(stage, slot, bin) : none);
    }
}

static void part_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    mvdr_store(stage, bin, &stage->scratch[worker]);
    for (size_t i = 0; i < stage->arrived; i++) {
        mvdr_pair p = {0, 0, 0};
        if (stage->tones && bin + 1 < stage->spec.bins)
            p = mvdr_pair_of(stage, mvdr_arrival(stage, i, bin), mvdr_arrival(stage, i, bin + 1));
        give_products(stage, i, bin, p);
    }
}

sonar_code mvdr_part_execute(mvdr_stage *stage, const sonar_buffer *in, sonar_buffer *out,
                             const sonar_work *work, sonar_error *err) {
    sonar_code code = mvdr_check_part(&stage->spec, in, out, err);
    if (!code)
        code = mvdr_rows_update(stage, work->params, err);
    if (code)
        return code;
    stage->in = in;
    stage->out = out;
    stage->arrived = in->shape[0];
    if (out->shape[0] > stage->arrived)
        stage->host->parallel(stage->host->ctx, stage->spec.bins, block_task, stage);
    stage->host->parallel(stage->host->ctx, stage->spec.bins, part_task, stage);
    return SONAR_OK;
}

/* ---- the sums of a part ---------------------------------------------------------------------- */

/* Real part of a slot's projection on a direction. The imaginary part follows MVDR_LANES later. */
static double *projection_at(const mvdr_stage *stage, size_t bin, size_t slot, size_t direction) {
    const size_t at = bin * stage->directions + direction;
    return stage->project + (at / MVDR_LANES * stage->columns + slot) * 2 * MVDR_LANES +
           at % MVDR_LANES;
}

/* Copies a slot's sums to a row, or below from a row; returns the end of the row. */
static double *give_row(const mvdr_stage *stage, size_t bin, size_t slot, double *row) {
    const size_t columns = stage->columns, at = (bin * columns + slot) * columns;
    for (size_t j = 0; j < columns; j++) {
        *row++ = stage->gram_re[at + j];
        *row++ = stage->gram_im[at + j];
    }
    for (size_t t = 0; t < stage->spec.directions; t++) {
        const double *from = projection_at(stage, bin, slot, t);
        *row++ = from[0];
        *row++ = from[MVDR_LANES];
    }
    return row;
}

static const double *take_row(mvdr_stage *stage, size_t bin, size_t slot, const double *row) {
    const size_t columns = stage->columns, at = (bin * columns + slot) * columns;
    for (size_t j = 0; j < columns; j++) {
        stage->gram_re[at + j] = *row++;
        stage->gram_im[at + j] = *row++;
    }
    for (size_t t = 0; t < stage->spec.directions; t++) {
        double *to = projection_at(stage, bin, slot, t);
        to[0] = *row++;
        to[MVDR_LANES] = *row++;
    }
    /* a sum of squares: not finite where a sample is not */
    stage->valid[slot * stage->spec.bins + bin] = isfinite(stage->gram_re[at + slot]) != 0;
    return row;
}

static void sum_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    if (stage->tones && (stage->arrived || stage->mask_changed))
        mvdr_tone_steer(stage, bin);
    mvdr_sum(stage, bin, &stage->scratch[worker]);
}

static void give_task(void *arg, size_t bin, size_t worker) {
    const mvdr_stage *stage = arg;
    const size_t slots = stage->shape.slots;
    const bool whole = stage->bin[bin].whole;
    const sonar_buffer *out = stage->out;
    double *plan = (double *)out[0].data + (ptrdiff_t)bin * out[0].stride[0];
    double *to = (double *)out[1].data + (ptrdiff_t)bin * out[1].stride[0];
    (void)worker;
    plan[SONAR_MVDR_PLAN_OFFSET] = stage->bin[bin].offset;
    plan[SONAR_MVDR_PLAN_WHOLE] = whole;
    for (size_t slot = 0; slot < slots && whole; slot++)
        to = give_row(stage, bin, slot, to);
    for (size_t t = 0; t < stage->spec.directions && whole; t++)
        to[t] = (double)stage->rows.n; /* |a|^2 */
    for (size_t i = mvdr_skipped(stage); i < stage->arrived && !whole; i++)
        to = give_row(stage, bin, (stage->next + i) % slots, to);
}

/* Stores the products of the block's snapshots, summed over all parts. If they differ from the
 * stored ones, the mask of some part has changed, and the detection of tones starts again. */
static void restart_tones(mvdr_stage *stage, const sonar_buffer *in) {
    bool others = false;
    for (size_t slot = 0; slot < stage->filled; slot++)
        for (size_t bin = 0; bin + 1 < stage->spec.bins; bin++) {
            mvdr_pair *kept = &stage->pair[slot * stage->spec.bins + bin];
            const double *p = products_at(in, stage->arrived + slot, bin);
            others = others || memcmp(kept, p, sizeof *kept) != 0;
            memcpy(kept, p, sizeof *kept);
        }
    for (size_t bin = 0; bin < stage->spec.bins && others; bin++) {
        stage->bin[bin].tonal = false;
        stage->bin[bin].offset = 0;
    }
}

/* Stores the products of the new snapshots. */
static void note_products(mvdr_stage *stage, const sonar_buffer *in) {
    for (size_t i = mvdr_skipped(stage); i < stage->arrived; i++)
        for (size_t bin = 0; bin + 1 < stage->spec.bins; bin++) {
            const double *p = products_at(in, i, bin);
            mvdr_tone_note(stage, bin, i, (mvdr_pair){p[0], p[1], p[2]});
        }
}

static void look_for_tones(mvdr_stage *stage, const sonar_buffer *in) {
    stage->mask_changed = in->shape[0] > stage->arrived;
    if (!stage->tones || !in->shape[0])
        return;
    stage->rows.all = (size_t)products_at(in, 0, 0)[3];
    if (stage->mask_changed)
        restart_tones(stage, in);
    note_products(stage, in);
}

sonar_code mvdr_part_join(mvdr_stage *stage, const sonar_buffer *in, sonar_buffer *out,
                          sonar_error *err) {
    sonar_code code = mvdr_check_join(&stage->spec, in, stage->arrived, out, err);
    if (code)
        return code;
    look_for_tones(stage, in);
    stage->out = out;
    stage->host->parallel(stage->host->ctx, stage->spec.bins, sum_task, stage);
    mvdr_project_all(stage);
    stage->host->parallel(stage->host->ctx, stage->spec.bins, give_task, stage);
    mvdr_advance(stage);
    return SONAR_OK;
}

/* ---- joined stages --------------------------------------------------------------------------- */

void mvdr_take_joined(mvdr_stage *stage, size_t bin) {
    const sonar_buffer *in = stage->in;
    const size_t slots = stage->shape.slots;
    if (!in[0].shape[0])
        return;
    const double *from = (const double *)in[0].data + (ptrdiff_t)bin * in[0].stride[0];
    const double *plan = (const double *)in[1].data + (ptrdiff_t)bin * in[1].stride[0];
    mvdr_bin *state = &stage->bin[bin];
    const bool whole = plan[SONAR_MVDR_PLAN_WHOLE] != 0;
    state->offset = plan[SONAR_MVDR_PLAN_OFFSET];
    for (size_t slot = 0; slot < slots && whole; slot++)
        from = take_row(stage, bin, slot, from);
    from += whole ? stage->spec.directions : 0; /* |a|^2: rows.n of the whole array */
    for (size_t i = mvdr_skipped(stage); i < stage->arrived; i++) {
        const size_t slot = (stage->next + i) % slots;
        if (!whole)
            from = take_row(stage, bin, slot, from);
        state->seen += stage->valid[slot * stage->spec.bins + bin];
    }
}

/* ---- points off the grid --------------------------------------------------------------------- */

static void point_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    mvdr_scratch *scratch = &stage->scratch[worker];
    const size_t sensors = stage->spec.sensors, each = 1 + 2 * stage->columns;
    const size_t step = 2 * MVDR_LANES, used = stage->filled * stage->shape.each;
    const sonar_buffer *out = stage->out;
    for (size_t c = 0; c < used; c++)
        scratch->column[c] = c;
    for (size_t p = 0; p < stage->looked_at; p++) {
        const size_t lane = p % MVDR_LANES;
        if (lane == 0)
            mvdr_project(stage, bin, stage->points + p * sensors, 1,
                         llround(stage->bin[bin].offset * MVDR_TONE_ONE), scratch->column, used,
                         scratch, scratch->project);
        double *to = (double *)out->data + (ptrdiff_t)bin * out->stride[0] +
                     (ptrdiff_t)((stage->first_looked + p) * each);
        *to++ = (double)stage->rows.n;
        for (size_t c = 0; c < stage->columns; c++) {
            *to++ = c < used ? scratch->project[c * step + lane] : 0;
            *to++ = c < used ? scratch->project[c * step + MVDR_LANES + lane] : 0;
        }
    }
}

sonar_code mvdr_part_evaluate(mvdr_stage *stage, const sonar_buffer *turns, sonar_buffer *sums,
                              sonar_error *err) {
    const size_t count = turns->shape[0];
    sonar_code code = mvdr_check_point_sums(&stage->spec, sums, count, err);
    if (code)
        return code;
    stage->out = sums;
    for (size_t first = 0; first < count; first += MVDR_AT_ONCE) {
        mvdr_take_points(stage, turns, first);
        stage->first_looked = first;
        stage->looked_at = sonar_min_size(count - first, MVDR_AT_ONCE);
        stage->host->parallel(stage->host->ctx, stage->spec.bins, point_task, stage);
    }
    return SONAR_OK;
}
