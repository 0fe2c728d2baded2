/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The columns' projections on all directions, which are kept from window to window. A direction's
 * steering vector of a bin is that of the bin before, turned by e^{j 2 pi turns}. It is in double:
 * after RUN bins each element is right to 1e-14, so that projections made in different windows,
 * from different first bins, belong to the same vector, and |a|^2 is the number of sensors.
 *
 * A loud ship needs this. Beside one of 80 dB in each of 16384 sensors, what 1/P leaves of |a|^2 is
 * 6e-13 of it.
 */
#include "mvdr_jacobi/cpu/internal.h"

#include <string.h>

enum {
    PART = 128,   /* sensors whose steering vectors are in the first cache */
    FEW = 8,      /* columns of a bin: with more, turning steering vectors does not pay */
    AT_ONCE = 4,  /* products that are summed at the same time, in registers */
    RUN = 64,     /* bins of a task; the first steering vectors cost as much as ten bins */
    TOGETHER = 2, /* groups of eight directions of a task, which share its columns in the cache */
};

/* A part of a column. */
typedef struct part {
    _Alignas(64) double re[PART], im[PART];
} part;

/* Steering vectors of a part, one direction in each lane. */
typedef struct steered {
    mvdr_lanes re[PART], im[PART];
} steered;

/* Eight directions, and a part of the sensors. */
typedef struct view {
    const mvdr_stage *stage;
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
MVDR_INLINE void turned_by(const uint64_t phase[MVDR_LANES], mvdr_lanes *re, mvdr_lanes *im) {
    double c[MVDR_LANES], s[MVDR_LANES];
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        const uint64_t quadrant = (phase[lane] + (UINT64_C(1) << 61)) >> 62;
        double sine, cosine;
        eighth((int64_t)(phase[lane] - (quadrant << 62)), &sine, &cosine);
        const double along = quadrant & 1 ? sine : cosine, across = quadrant & 1 ? cosine : sine;
        c[lane] = (quadrant + 1) & 2 ? -along : along;
        s[lane] = quadrant & 2 ? -across : across;
    }
    memcpy(re, c, sizeof *re);
    memcpy(im, s, sizeof *im);
}

/* Steering vectors of a bin, zero for sensors that are not in use. An offset is in 1/MVDR_TONE_ONE
 * bins, and multiplies whole turns, too. They are counted from the middle sensor or, in a part of
 * an array, from the origin. */
MVDR_INLINE void steer(const view *v, uint64_t bin, int64_t offset, steered *a) {
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
        turned_by(phase, &a->re[i], &a->im[i]);
    }
    for (size_t i = 0; i < v->sensors; i++)
        if (!rows->used[v->first + i])
            a->re[i] = a->im[i] = (mvdr_lanes){0};
}

/* ---- products -------------------------------------------------------------------------------- */

/* Whole vectors: columns are padded to them. */
MVDR_INLINE void widen(const view *v, const float *from, part *x) {
    const size_t ld = v->stage->ld;
    if (!from)
        memset(x, 0, sizeof *x);
    for (size_t i = 0; from && i < v->sensors; i += MVDR_LANES) {
        mvdr_lanes re, im;
        mvdr_widen(from + v->first + i, &re);
        mvdr_widen(from + ld + v->first + i, &im);
        memcpy(x->re + i, &re, sizeof re);
        memcpy(x->im + i, &im, sizeof im);
    }
}

/* Adds a part's products; those of the first part replace what was there. */
MVDR_INLINE void put(const view *v, const mvdr_lanes *re, const mvdr_lanes *im, double *to) {
    const bool add = v->first > 0;
    for (size_t lane = 0; to && lane < MVDR_LANES; lane++) {
        to[lane] = (add ? to[lane] : 0) + (*re)[lane];
        to[MVDR_LANES + lane] = (add ? to[MVDR_LANES + lane] : 0) + (*im)[lane];
    }
}

/* x^H a of AT_ONCE columns, for a steering vector that is turned after each; without `turn` it
 * stays. */
MVDR_INLINE void project(const view *v, const pair p[AT_ONCE], const steered *turn, steered *a) {
    part x[AT_ONCE];
    mvdr_lanes re[AT_ONCE] = {0}, im[AT_ONCE] = {0};
    for (size_t k = 0; k < AT_ONCE; k++)
        widen(v, p[k].x, &x[k]);
    for (size_t i = 0; i < v->sensors; i++) {
        mvdr_lanes ar = a->re[i], ai = a->im[i];
        for (size_t k = 0; k < AT_ONCE; k++) {
            re[k] += x[k].re[i] * ar;
            im[k] += x[k].re[i] * ai;
            re[k] += x[k].im[i] * ai;
            im[k] -= x[k].im[i] * ar;
            if (turn) {
                const mvdr_lanes last = ar;
                ar = ar * turn->re[i] - ai * turn->im[i];
                ai = last * turn->im[i] + ai * turn->re[i];
            }
        }
        a->re[i] = ar, a->im[i] = ai;
    }
    for (size_t k = 0; k < AT_ONCE; k++)
        put(v, &re[k], &im[k], p[k].to);
}

/* ---- one bin --------------------------------------------------------------------------------- */

SONAR_MULTIARCH static void project_part(const view *v, size_t bin, int64_t offset,
                                         const size_t *column, size_t count, double *to) {
    steered a;
    steer(v, v->stage->spec.first_bin + bin, offset, &a);
    for (size_t i = 0; i < count; i += AT_ONCE) {
        pair p[AT_ONCE] = {{NULL, NULL}};
        for (size_t k = 0; k < AT_ONCE && i + k < count; k++)
            p[k] = (pair){mvdr_column(v->stage, column[i + k], bin),
                          to + column[i + k] * 2 * MVDR_LANES};
        project(v, p, NULL, &a);
    }
}

void mvdr_project(const mvdr_stage *stage, size_t bin, const uint64_t *turns, int64_t offset,
                  const size_t *column, size_t count, double *to) {
    view v = {.stage = stage, .turns = turns};
    for (; v.first < stage->spec.sensors; v.first += PART) {
        v.sensors = sonar_min_size(PART, stage->spec.sensors - v.first);
        project_part(&v, bin, offset, column, count, to);
    }
}

/* ---- all bins -------------------------------------------------------------------------------- */

/* Whether a bin's steering vectors do not follow from those of its neighbours. */
static bool alone(const mvdr_stage *stage, size_t bin) {
    return stage->bin[bin].projected || stage->bin[bin].whole ||
           (stage->arrived - mvdr_skipped(stage)) * stage->shape.each > FEW;
}

/* The projections of a bin on eight directions, [column][re, im][lane]. */
static double *projections(const mvdr_stage *stage, size_t bin, size_t direction) {
    return stage->project + (bin * stage->directions + direction) * stage->columns * 2;
}

/* The bins begin .. end - 1, whose steering vectors follow from one another. */
SONAR_MULTIARCH static void project_run(const view *v, size_t begin, size_t end, size_t direction,
                                        const size_t *column, size_t count) {
    const mvdr_stage *stage = v->stage;
    steered turn, first, a;
    steer(v, 1, 0, &turn);
    steer(v, stage->spec.first_bin + begin, 0, &first);
    for (size_t i = 0; i < count; i++) {
        a = first;
        for (size_t bin = begin; bin < end; bin += AT_ONCE) {
            pair p[AT_ONCE] = {{NULL, NULL}};
            for (size_t k = 0; k < AT_ONCE && bin + k < end; k++)
                if (!alone(stage, bin + k))
                    p[k] =
                        (pair){mvdr_column(stage, column[i], bin + k),
                               projections(stage, bin + k, direction) + column[i] * 2 * MVDR_LANES};
            project(v, p, &turn, &a);
        }
    }
}

static size_t groups_of_directions(const mvdr_stage *stage) {
    const size_t each = MVDR_LANES * TOGETHER;
    return (stage->directions + each - 1) / each;
}

static void project_task(void *arg, size_t task, size_t worker) {
    const mvdr_stage *stage = arg;
    const size_t groups = groups_of_directions(stage), sensors = stage->spec.sensors;
    const size_t begin = task / groups * RUN, end = sonar_min_size(begin + RUN, stage->spec.bins);
    const size_t from = task % groups * MVDR_LANES * TOGETHER,
                 to = sonar_min_size(from + MVDR_LANES * TOGETHER, stage->directions);
    size_t *column = stage->scratch[worker].column;
    size_t count = mvdr_list_due(stage, false, column);
    if (stage->renewed || count > FEW)
        count = 0; /* all bins are alone */
    view v = {.stage = stage};
    for (; v.first < sensors && count; v.first += PART)
        for (size_t t = from; t < to; t += MVDR_LANES) {
            v.sensors = sonar_min_size(PART, sensors - v.first);
            v.turns = stage->rows.turns + t * sensors;
            project_run(&v, begin, end, t, column, count);
        }
    for (size_t bin = begin; bin < end; bin++) {
        if (!alone(stage, bin))
            continue;
        count = mvdr_list_due(stage, stage->bin[bin].whole, column);
        for (size_t t = from; t < to; t += MVDR_LANES)
            mvdr_project(stage, bin, stage->rows.turns + t * sensors, stage->bin[bin].projected,
                         column, count, projections(stage, bin, t));
    }
}

void mvdr_project_all(mvdr_stage *stage) {
    const size_t bins = stage->spec.bins, tasks = (bins + RUN - 1) / RUN;
    for (size_t i = 0; stage->renewed && i < bins * stage->directions; i++)
        stage->norm[i] = (double)stage->rows.n;
    stage->host->parallel(stage->host->ctx, tasks * groups_of_directions(stage), project_task,
                          stage);
}
