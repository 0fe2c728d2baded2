/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The spectrum of a bin, eight directions at a time, one in each vector lane. */
#include "mvdr_jacobi/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { STEP = 2 * MVDR_LANES };

unsigned mvdr_spectrum_power(const mvdr_view *view, bool corrected, const double *norm,
                             mvdr_scratch *scratch, float *power) {
    const size_t m = mvdr_pad(view->m, MVDR_LANES);
    double s[MVDR_LANES] = {0};
    if (m && view->vectors)
        scratch->kernels->multiplied(view->factor, view->rows, scratch->z, m,
                                     view->gain > 0 ? scratch->energy : NULL, s);
    else if (m && view->inverse)
        mvdr_inverse_energies(view, norm, scratch, s);
    else if (m)
        scratch->kernels->substitute(view->factor, 0, m, scratch->z, s);
    mvdr_powers(view, corrected, norm, s, power);
    return m && view->gain > 0
               ? mvdr_gain_limit(scratch->kernels, view, norm, scratch->energy, power)
               : 0;
}

void mvdr_powers(const mvdr_view *view, bool corrected, const double *norm, const double *s,
                 float *power) {
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        const double least = 4 * DBL_EPSILON * norm[lane]; /* rounding of the difference */
        const double rest = view->left ? fmax(norm[lane] - s[lane], least) : view->delta * s[lane];
        const double inside = view->left ? s[lane] : fmax(norm[lane] - rest, 0);
        const double p = view->level / rest * (corrected ? inside : 1) + view->base;
        power[lane] = view->m && rest > 0 ? (float)fmin(p, (double)FLT_MAX) : 0;
    }
}

/* ---- the vectors v of a bin's directions ----------------------------------------------------- */

/* Copies the weighted projections on the valid columns to scratch->z, and zeros to the rows
 * beyond. */
static void take_projections(const mvdr_view *view, const double *project, mvdr_scratch *scratch) {
    for (size_t i = 0; i < view->m; i++) {
        const double *from = project + scratch->column[i] * STEP;
        for (size_t k = 0; k < STEP; k++)
            scratch->z[i * STEP + k] = scratch->root[i] * from[k];
    }
    const size_t padded = mvdr_pad(view->m, MVDR_LANES);
    memset(scratch->z + view->m * STEP, 0, (padded - view->m) * STEP * sizeof *scratch->z);
}

static void take_steering(const mvdr_view *view, mvdr_scratch *scratch) {
    for (size_t i = 0; i < view->m * STEP; i++)
        scratch->z[i] = (double)scratch->steer[i];
    const size_t padded = mvdr_pad(view->m, MVDR_LANES);
    memset(scratch->z + view->m * STEP, 0, (padded - view->m) * STEP * sizeof *scratch->z);
}

/* |a|^2 in snapshot space, where steering vectors are in double. */
static void count_sensors(const mvdr_stage *stage, double norm[MVDR_LANES]) {
    for (size_t lane = 0; lane < MVDR_LANES; lane++)
        norm[lane] = (double)stage->rows.n;
}

/* Sensor space: makes v and |a|^2. */
static void steer(const mvdr_stage *stage, size_t bin, const uint64_t *turns, mvdr_scratch *scratch,
                  double norm[MVDR_LANES]) {
    const mvdr_view *view = &stage->bin[bin].view;
    mvdr_steer(&stage->rows, stage->spec.sensors, turns, stage->spec.first_bin + bin, view->offset,
               scratch->steer);
    mvdr_norms(scratch->steer, stage->spec.sensors, norm);
    take_steering(view, scratch);
}

/* The spectrum in groups of eight directions whose projections are not kept, at most
 * MVDR_TOGETHER. */
static void spectrum_from(mvdr_stage *stage, size_t bin, const uint64_t *turns, size_t groups,
                          mvdr_scratch *scratch, float *power) {
    const mvdr_view *view = &stage->bin[bin].view;
    const bool by_snapshots = stage->shape.by_snapshots;
    double norm[MVDR_LANES];
    if (by_snapshots)
        mvdr_project(stage, bin, turns, groups, view->offset, scratch->column, view->m, scratch,
                     scratch->project);
    for (size_t g = 0; g < groups; g++) {
        if (by_snapshots) {
            take_projections(view, scratch->project + g * stage->columns * STEP, scratch);
            count_sensors(stage, norm);
        } else {
            steer(stage, bin, turns + g * stage->spec.sensors * MVDR_LANES, scratch, norm);
        }
        mvdr_spectrum_power(view, stage->spec.correct_level, norm, scratch, power + g * MVDR_LANES);
    }
}

void mvdr_look(mvdr_stage *stage, size_t bin, size_t first, mvdr_scratch *scratch,
               double norm[MVDR_LANES]) {
    const size_t at = bin * stage->directions + first;
    if (!stage->shape.by_snapshots) {
        steer(stage, bin, stage->rows.turns + first * stage->spec.sensors, scratch, norm);
        return;
    }
    take_projections(&stage->bin[bin].view,
                     stage->project + at / MVDR_LANES * stage->columns * STEP, scratch);
    count_sensors(stage, norm);
}

void mvdr_spectrum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    int limited = 0;
    if (stage->bin[bin].view.inverse) {
        mvdr_inverse_spectrum(stage, bin, scratch);
        return;
    }
    for (size_t t = 0; t < stage->directions; t += MVDR_LANES) {
        double norm[MVDR_LANES];
        mvdr_look(stage, bin, t, scratch, norm);
        const unsigned lanes =
            mvdr_spectrum_power(&stage->bin[bin].view, stage->spec.correct_level, norm, scratch,
                                stage->power + bin * stage->directions + t);
        const size_t there = sonar_min_size(stage->spec.directions - t, MVDR_LANES);
        limited += __builtin_popcount(lanes & ((1u << there) - 1));
    }
    stage->info[bin * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_LIMITED] = (float)limited;
}

/* The projections on the points are not kept from window to window, as those on the directions are.
 * They would take as many times more memory as there are ranges, and time in windows that do not
 * want the near field. */
void mvdr_spectrum_near(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const size_t points = stage->near_points;
    for (size_t p = 0; p < points; p += MVDR_AT_ONCE)
        spectrum_from(stage, bin, stage->rows.near + p * stage->spec.sensors,
                      sonar_min_size(points - p, MVDR_AT_ONCE) / MVDR_LANES, scratch,
                      stage->near_power + bin * points + p);
}

void mvdr_spectrum_joined(mvdr_stage *stage, size_t bin, const double *sums, size_t points,
                          mvdr_scratch *scratch, float *power) {
    const size_t each = 1 + 2 * stage->columns;
    double norm[MVDR_LANES];
    mvdr_list_columns(stage, bin, scratch);
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        const double *from = sums + sonar_min_size(lane, points - 1) * each;
        norm[lane] = from[0];
        for (size_t c = 0; c < stage->columns; c++) {
            scratch->project[c * STEP + lane] = from[1 + 2 * c];
            scratch->project[c * STEP + MVDR_LANES + lane] = from[2 + 2 * c];
        }
    }
    take_projections(&stage->bin[bin].view, scratch->project, scratch);
    mvdr_spectrum_power(&stage->bin[bin].view, stage->spec.correct_level, norm, scratch, power);
}

void mvdr_spectrum_at(mvdr_stage *stage, size_t bin, const uint64_t *turns, size_t groups,
                      mvdr_scratch *scratch, float *power) {
    mvdr_list_columns(stage, bin, scratch);
    spectrum_from(stage, bin, turns, groups, scratch, power);
}
