/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Snapshot space: the columns' products with steering vectors, eight directions at a time, one in
 * each vector lane. Those with all directions are kept from window to window. There a direction's
 * steering vector of a bin is that of the bin before, turned by e^{j 2 pi turns}. It is in double:
 * after RUN bins each element is right to 1e-14, so that projections made in different windows,
 * from different first bins, belong to the same vector, and |a|^2 is the number of sensors.
 *
 * A loud ship needs this. Beside one of 80 dB in each of 16384 sensors, what 1/P leaves of |a|^2 is
 * 6e-13 of it.
 */
#include "mvdr_jacobi/cpu/kernels.h"

#include <string.h>

enum {
    FEW = 8,  /* columns of a bin: with more, turning steering vectors does not pay */
    RUN = 64, /* bins of a task; the first steering vectors cost as much as ten bins */
};

/* Eight directions, and a part of the sensors. */
typedef struct view {
    const mvdr_stage *stage;
    const mvdr_kernels *kernels;
    const uint64_t *turns; /* [sensor][lane] */
    size_t first, sensors; /* the part's first sensor, and their number */
} view;

/* A column to be multiplied, [re, im][ld], and the place of its products, [re, im][lane]. NULL:
 * none. */
typedef struct pair {
    const float *x;
    double *to;
} pair;

/* ---- steering vectors ------------------------------------------------------------------------ */

/* sin and cos of an angle of `turn` 2^-64 turns, at most an eighth of a turn: Taylor polynomials,
 * right to 1e-16. */
MVDR_INLINE void eighth(int64_t turn, double *sine, double *cosine) {
    const double x = (double)turn * (6.283185307179586476925 / 18446744073709551616.0), xx = x * x;
    double s = -1.0 / 1307674368000, c = 1.0 / 20922789888000;
    s = 1.0 / 6227020800 + xx * s;
    s = -1.0 / 39916800 + xx * s;
    s = 1.0 / 362880 + xx * s;
    s = -1.0 / 5040 + xx * s;
    s = 1.0 / 120 + xx * s;
    s = -1.0 / 6 + xx * s;
    c = -1.0 / 87178291200 + xx * c;
    c = 1.0 / 479001600 + xx * c;
    c = -1.0 / 3628800 + xx * c;
    c = 1.0 / 40320 + xx * c;
    c = -1.0 / 720 + xx * c;
    c = 1.0 / 24 + xx * c;
    c = -1.0 / 2 + xx * c;
    *sine = x + x * xx * s;
    *cosine = 1 + xx * c;
}

/* e^{j 2 pi phase 2^-64} of eight phases. */
MVDR_INLINE void turned_by(const uint64_t phase[MVDR_LANES], double *re, double *im) {
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        const uint64_t quadrant = (phase[lane] + (UINT64_C(1) << 61)) >> 62;
        double s, c;
        eighth((int64_t)(phase[lane] - (quadrant << 62)), &s, &c);
        const double along = quadrant & 1 ? s : c, across = quadrant & 1 ? c : s;
        re[lane] = (quadrant + 1) & 2 ? -along : along;
        im[lane] = quadrant & 2 ? -across : across;
    }
}

/* Steering vectors of a bin, zero for sensors that are not in use. An offset is in 1/MVDR_TONE_ONE
 * bins, and multiplies whole turns, too. They are counted from the middle sensor or, in a part of
 * an array, from the origin. */
SONAR_MULTIARCH static void steer(const view *v, uint64_t bin, int64_t offset, mvdr_steered *a) {
    const mvdr_rows *rows = &v->stage->rows;
    const bool whole = offset && rows->middle != MVDR_ORIGIN;
    const uint64_t origin[MVDR_LANES] = {0},
                   *from = whole ? v->turns + rows->middle * MVDR_LANES : origin;
    for (size_t i = 0; i < v->sensors; i++) {
        const uint64_t *own = v->turns + (v->first + i) * MVDR_LANES;
        uint64_t phase[MVDR_LANES];
        for (size_t lane = 0; lane < MVDR_LANES; lane++)
            phase[lane] = bin * own[lane];
        for (size_t lane = 0; lane < MVDR_LANES && offset; lane++)
            phase[lane] += (uint64_t)offset * (uint64_t)mvdr_turns_apart(own[lane], from[lane])
                           << 8;
        turned_by(phase, a->re[i], a->im[i]);
    }
    for (size_t i = 0; i < v->sensors; i++)
        if (!rows->used[v->first + i]) {
            memset(a->re[i], 0, sizeof a->re[i]);
            memset(a->im[i], 0, sizeof a->im[i]);
        }
}

/* ---- products -------------------------------------------------------------------------------- */

/* Whole vectors: columns are padded to them. */
SONAR_MULTIARCH static void widen(const view *v, const float *from, mvdr_part *x) {
    const size_t ld = v->stage->ld;
    if (!from)
        memset(x, 0, sizeof *x);
    for (size_t i = 0; from && i < v->sensors; i += MVDR_LANES)
        for (size_t lane = 0; lane < MVDR_LANES; lane++) {
            x->re[i + lane] = (double)from[v->first + i + lane];
            x->im[i + lane] = (double)from[ld + v->first + i + lane];
        }
}

/* Adds a part's products; those of the first part replace what was there. */
static void put(const view *v, const mvdr_sums *sums, double *to) {
    const bool add = v->first > 0;
    for (size_t lane = 0; to && lane < MVDR_LANES; lane++) {
        to[lane] = (add ? to[lane] : 0) + sums->re[lane];
        to[MVDR_LANES + lane] = (add ? to[MVDR_LANES + lane] : 0) + sums->im[lane];
    }
}

static void read_parts(const view *v, const pair p[MVDR_COLUMNS], mvdr_part x[MVDR_COLUMNS]) {
    for (size_t k = 0; k < MVDR_COLUMNS; k++)
        widen(v, p[k].x, &x[k]);
}

/* The products go `beyond` elements beyond their places. */
static void project(const view *v, const pair p[MVDR_COLUMNS], const mvdr_part x[MVDR_COLUMNS],
                    const mvdr_steered *turn, mvdr_steered *a, size_t beyond) {
    mvdr_sums sums[MVDR_COLUMNS];
    v->kernels->project(x, v->sensors, turn, a, sums);
    for (size_t k = 0; k < MVDR_COLUMNS; k++)
        put(v, &sums[k], p[k].to ? p[k].to + beyond : NULL);
}

/* ---- one bin --------------------------------------------------------------------------------- */

static void project_part(const view *v, size_t bin, size_t groups, int64_t offset,
                         const size_t *column, size_t count, double *to) {
    const mvdr_stage *stage = v->stage;
    mvdr_steered a[MVDR_TOGETHER];
    mvdr_part x[MVDR_COLUMNS];
    for (size_t g = 0; g < groups; g++) {
        view group = *v;
        group.turns += g * stage->spec.sensors * MVDR_LANES;
        steer(&group, stage->spec.first_bin + bin, offset, &a[g]);
    }
    for (size_t i = 0; i < count; i += MVDR_COLUMNS) {
        pair p[MVDR_COLUMNS] = {{NULL, NULL}};
        for (size_t k = 0; k < MVDR_COLUMNS && i + k < count; k++)
            p[k] =
                (pair){mvdr_column(stage, column[i + k], bin), to + column[i + k] * 2 * MVDR_LANES};
        read_parts(v, p, x);
        for (size_t g = 0; g < groups; g++)
            project(v, p, x, NULL, &a[g], g * stage->columns * 2 * MVDR_LANES);
    }
}

void mvdr_project(const mvdr_stage *stage, size_t bin, const uint64_t *turns, size_t groups,
                  int64_t offset, const size_t *column, size_t count, const mvdr_scratch *scratch,
                  double *to) {
    view v = {.stage = stage, .kernels = scratch->kernels, .turns = turns};
    for (; v.first < stage->spec.sensors; v.first += MVDR_PART) {
        v.sensors = sonar_min_size(MVDR_PART, stage->spec.sensors - v.first);
        project_part(&v, bin, groups, offset, column, count, to);
    }
}

/* ---- all bins -------------------------------------------------------------------------------- */

/* Whether each bin makes its own steering vectors, because more than FEW columns are new. */
static bool many(const mvdr_stage *stage) {
    return (stage->arrived - mvdr_skipped(stage)) * stage->shape.each > FEW;
}

/* Whether a bin's steering vectors do not follow from those of its neighbours. */
static bool alone(const mvdr_stage *stage, size_t bin) {
    return stage->bin[bin].projected || stage->bin[bin].whole || many(stage);
}

/* The projections of a bin on eight directions, [column][re, im][lane]. */
static double *projections(const mvdr_stage *stage, size_t bin, size_t direction) {
    return stage->project + (bin * stage->directions + direction) * stage->columns * 2;
}

/* The bins begin .. end - 1, whose steering vectors follow from one another. */
static void project_run(const view *v, size_t begin, size_t end, size_t direction,
                        const size_t *column, size_t count) {
    const mvdr_stage *stage = v->stage;
    mvdr_steered turn, first, a;
    mvdr_part x[MVDR_COLUMNS];
    steer(v, 1, 0, &turn);
    steer(v, stage->spec.first_bin + begin, 0, &first);
    for (size_t i = 0; i < count; i++) {
        a = first;
        for (size_t bin = begin; bin < end; bin += MVDR_COLUMNS) {
            pair p[MVDR_COLUMNS] = {{NULL, NULL}};
            for (size_t k = 0; k < MVDR_COLUMNS && bin + k < end; k++)
                if (!alone(stage, bin + k))
                    p[k] =
                        (pair){mvdr_column(stage, column[i], bin + k),
                               projections(stage, bin + k, direction) + column[i] * 2 * MVDR_LANES};
            read_parts(v, p, x);
            project(v, p, x, &turn, &a, 0);
        }
    }
}

static size_t groups_of_directions(const mvdr_stage *stage) {
    const size_t each = MVDR_LANES * MVDR_TOGETHER;
    return (stage->directions + each - 1) / each;
}

static void project_task(void *arg, size_t task, size_t worker) {
    const mvdr_stage *stage = arg;
    const size_t groups = groups_of_directions(stage), sensors = stage->spec.sensors;
    const size_t begin = task / groups * RUN, end = sonar_min_size(begin + RUN, stage->spec.bins);
    const size_t from = task % groups * MVDR_LANES * MVDR_TOGETHER,
                 to = sonar_min_size(from + MVDR_LANES * MVDR_TOGETHER, stage->directions);
    const mvdr_scratch *scratch = &stage->scratch[worker];
    size_t *column = scratch->column;
    const bool all_alone = stage->renewed || many(stage);
    size_t count = all_alone ? 0 : mvdr_list_due(stage, false, column);
    view v = {.stage = stage, .kernels = scratch->kernels};
    for (; v.first < sensors && count; v.first += MVDR_PART)
        for (size_t t = from; t < to; t += MVDR_LANES) {
            v.sensors = sonar_min_size(MVDR_PART, sensors - v.first);
            v.turns = stage->rows.turns + t * sensors;
            project_run(&v, begin, end, t, column, count);
        }
    for (size_t bin = begin; bin < end; bin++) {
        if (!alone(stage, bin))
            continue;
        count = mvdr_list_due(stage, stage->bin[bin].whole, column);
        mvdr_project(stage, bin, stage->rows.turns + from * sensors, (to - from) / MVDR_LANES,
                     stage->bin[bin].projected, column, count, scratch,
                     projections(stage, bin, from));
    }
}

void mvdr_project_all(mvdr_stage *stage) {
    const size_t bins = stage->spec.bins, tasks = (bins + RUN - 1) / RUN;
    stage->host->parallel(stage->host->ctx, tasks * groups_of_directions(stage), project_task,
                          stage);
}
