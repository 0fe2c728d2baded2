/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finds the tone that dominates a bin (tone.h). The products of neighbouring bins are summed over
 * the sensors once, when a snapshot arrives. Three numbers are kept for each snapshot and bin, or
 * with forgetting for each bin. */
#include "mvdr_jacobi/cpu/internal.h"

#include <math.h>

/* Adds the products of a sensor. */
static void add(mvdr_pair *p, double xr, double xi, double yr, double yi) {
    p->lower += xr * xr + xi * xi;
    p->upper += yr * yr + yi * yi;
    p->cross -= xr * yr + xi * yi;
}

mvdr_pair mvdr_pair_of(const mvdr_stage *stage, const sonar_c32 *x, const sonar_c32 *y) {
    mvdr_pair p = {0, 0, 0};
    for (size_t s = 0; s < stage->spec.sensors; s++)
        if (stage->rows.used[s])
            add(&p, (double)x[s].re, (double)x[s].im, (double)y[s].re, (double)y[s].im);
    return p;
}

static bool usable(mvdr_pair p) {
    return isfinite(p.lower + p.upper + p.cross);
}

void mvdr_tone_note(mvdr_stage *stage, size_t bin, size_t arrival, mvdr_pair p) {
    size_t length = stage->spec.snapshots;
    mvdr_bin *state = &stage->bin[bin];
    double alpha = stage->spec.alpha;
    if (length) {
        stage->pair[(stage->next + arrival) % length * stage->spec.bins + bin] = p;
    } else if (usable(p)) {
        state->products.lower = alpha * state->products.lower + (1 - alpha) * p.lower;
        state->products.upper = alpha * state->products.upper + (1 - alpha) * p.upper;
        state->products.cross = alpha * state->products.cross + (1 - alpha) * p.cross;
        state->products_weight = alpha * state->products_weight + 1 - alpha;
    }
}

mvdr_pair mvdr_pair_in_ring(const mvdr_stage *stage, size_t slot, size_t bin) {
    const size_t column = slot * mvdr_slot_columns(&stage->shape);
    const size_t ld = stage->ld;
    const float *x = mvdr_column(stage, column, bin), *y = mvdr_column(stage, column, bin + 1);
    mvdr_pair p = {0, 0, 0};
    for (size_t s = 0; s < stage->spec.sensors; s++)
        if (stage->rows.used[s])
            add(&p, (double)x[s], (double)x[ld + s], (double)y[s], (double)y[ld + s]);
    return p;
}

/* After a change of the mask the sums belong to other sensors. Those of a block are computed again
 * from its snapshots, and the detection of the bin's tone starts again. With forgetting the old
 * sums are kept, since they fade, and without them the frequency would be unknown for a while. */
static void restart(mvdr_stage *stage, size_t bin) {
    mvdr_bin *state = &stage->bin[bin];
    for (size_t slot = 0; slot < stage->filled && bin + 1 < stage->spec.bins; slot++)
        stage->pair[slot * stage->spec.bins + bin] = mvdr_pair_in_ring(stage, slot, bin);
    state->tonal = false;
    state->offset = 0;
}

void mvdr_tone_accumulate(mvdr_stage *stage, size_t bin) {
    size_t length = stage->spec.snapshots;
    if (stage->mask_changed && length)
        restart(stage, bin);
    size_t skip = length && stage->arrived > length ? stage->arrived - length : 0;
    for (size_t i = skip; i < stage->arrived && bin + 1 < stage->spec.bins; i++)
        mvdr_tone_note(
            stage, bin, i,
            mvdr_pair_of(stage, mvdr_arrival(stage, i, bin), mvdr_arrival(stage, i, bin + 1)));
}

/* Sum of the products of bin and bin + 1, up to a factor, and the number of snapshots in it. */
static mvdr_pair products_of(const mvdr_stage *stage, size_t bin, double *snapshots) {
    size_t bins = stage->spec.bins, length = stage->spec.snapshots, count = 0;
    double alpha = stage->spec.alpha;
    if (!length) {
        double weight = stage->bin[bin].products_weight;
        *snapshots = (1 + alpha) / (1 - alpha) * weight / (2 - weight);
        return stage->bin[bin].products;
    }
    size_t filled = sonar_min_size(stage->filled + stage->arrived, length);
    mvdr_pair sum = {0, 0, 0};
    for (size_t slot = 0; slot < filled; slot++) {
        mvdr_pair p = stage->pair[slot * bins + bin];
        if (!usable(p))
            continue;
        sum.lower += p.lower, sum.upper += p.upper, sum.cross += p.cross;
        count++;
    }
    *snapshots = (double)count;
    return sum;
}

void mvdr_tone_steer(mvdr_stage *stage, size_t bin) {
    mvdr_bin *state = &stage->bin[bin];
    mvdr_tone tone = {0, 0, 0};
    double snapshots = 0;
    if (bin < stage->band.begin || bin >= stage->band.end) {
        state->tonal = false;
        state->offset = 0;
        return;
    }
    if (bin + 1 < stage->band.end) {
        mvdr_pair above = products_of(stage, bin, &snapshots);
        tone = mvdr_tone_of(stage->tones, above, false, snapshots);
    }
    if (bin > stage->band.begin) {
        mvdr_pair below = products_of(stage, bin - 1, &snapshots);
        tone = mvdr_tone_better(tone, mvdr_tone_of(stage->tones, below, true, snapshots));
    }
    const double so_far = state->tonal ? state->offset : 0, rows = (double)stage->rows.all;
    state->tonal = mvdr_tone_holds(tone, state->tonal);
    state->offset = state->tonal ? mvdr_tone_offset(tone, so_far, rows, snapshots) : 0;
}
