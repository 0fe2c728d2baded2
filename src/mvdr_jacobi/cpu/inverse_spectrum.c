/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The spectrum of a bin from its streaming inverse on the CPU (inverse.h), and the probe. |M a|^2
 * of every direction is updated with the same y as M. Its rounding error matters little, because
 * the loading differs little. S is not kept for the probe, which uses the snapshots. */
#include "mvdr_jacobi/cpu/inverse.h"

#include <math.h>
#include <string.h>

#include "core/random.h"
#include "mvdr_jacobi/cpu/kernels.h"

enum { LANES = MVDR_LANES, STEP = 2 * MVDR_LANES };

/* s = a^H (R + delta I)^-1 a from p and q. */
static void apply_loading(const mvdr_view *view, const double *norm, const double *p, double *q,
                          double *s) {
    for (size_t lane = 0; lane < LANES; lane++) {
        q[lane] = mvdr_bounded_slope(norm[lane], view->kept, p[lane], q[lane]);
        s[lane] = view->scale * p[lane] * p[lane] / (p[lane] + view->apart * q[lane]);
    }
}

void mvdr_inverse_energies(const mvdr_view *view, const double *norm, mvdr_scratch *scratch,
                           double *s) {
    const size_t ld = mvdr_pad(view->m, LANES);
    double p[LANES], q[LANES] = {0};
    if (view->apart != 0)
        scratch->kernels->moments(view->factor, ld, scratch->z, scratch->change.back, p, q);
    else
        scratch->kernels->quadratic(view->factor, scratch->z, ld, p);
    apply_loading(view, norm, p, q, s);
}

/* Updates q = |M a|^2 by the snapshots that entered and left. */
static void update_slopes(const mvdr_scratch *scratch, size_t ld, double *q) {
    const mvdr_change *c = &scratch->change;
    for (size_t k = c->count; k-- > 0;) {
        double br[LANES], bi[LANES], gr[LANES], gi[LANES];
        scratch->kernels->along(c->y + k * 2 * ld, scratch->z, ld, br, bi);
        scratch->kernels->along(c->t + k * 2 * ld, scratch->z, ld, gr, gi);
        const double over = c->over[k];
        for (size_t lane = 0; lane < LANES; lane++)
            q[lane] += (br[lane] * br[lane] + bi[lane] * bi[lane]) * (over * over * c->energy[k]) -
                       (gr[lane] * br[lane] + gi[lane] * bi[lane]) * (2 * over);
    }
}

/* probe += a +-1/sqrt(p) */
SONAR_MULTIARCH static void add_to_probe(const double *vectors, size_t ld,
                                         const double weight[LANES], double *restrict probe) {
    for (size_t i = 0; i < ld * STEP; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            probe[i + lane] += vectors[i + lane] * weight[lane];
}

static void probe_with(const mvdr_stage *stage, size_t bin, size_t first, const double *p,
                       mvdr_scratch *scratch) {
    double weight[LANES];
    for (size_t lane = 0; lane < LANES; lane++) {
        const uint64_t bits = sonar_random_at(stage->bin[bin].seen, first + lane);
        const bool there = first + lane < stage->spec.directions;
        weight[lane] = there ? (bits & 1 ? 1 : -1) / sqrt(p[lane]) : 0;
    }
    add_to_probe(scratch->z, stage->ld, weight, scratch->change.probe);
}

/* z^H S z from the listed snapshots. z has room for another vector behind it: with forward-backward
 * averaging, |(J x*)^H z| is |x^H J z*|. */
static double energy_along(const mvdr_stage *stage, size_t bin, double *z,
                           const mvdr_scratch *scratch) {
    const size_t ld = stage->ld, each = stage->shape.each;
    double sum = 0;
    if (each == 2)
        mvdr_reflect(stage, z, z + 2 * ld);
    for (size_t i = 0; i < scratch->change.listed * each; i++) {
        const double *along = z + i % each * 2 * ld;
        double re, im;
        scratch->kernels->inner(mvdr_column(stage, scratch->column[i / each], bin), along,
                                along + ld, ld, &re, &im);
        sum += re * re + im * im;
    }
    return sum / (double)each;
}

/* Whether the probe finds M accurate enough. */
static bool is_accurate(const mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const mvdr_inverse *inverse = &stage->inverse[bin];
    mvdr_change *c = &scratch->change;
    const size_t ld = stage->ld;
    const double *probe = c->probe;
    double im;
    for (size_t i = 0; i < ld; i++) {
        c->v[i] = mvdr_add_eight(probe + i * STEP);
        c->v[ld + i] = mvdr_add_eight(probe + i * STEP + LANES);
    }
    scratch->kernels->apply(stage->factor + bin * stage->factor_size, ld, c->v, c->z, c->back);
    const double sum = energy_along(stage, bin, c->z, scratch) * inverse->weight +
                       inverse->delta * mvdr_dot(c->z, c->z, ld, &im);
    return fabs(sum - mvdr_dot(c->v, c->z, ld, &im)) <= MVDR_MOST_WRONG;
}

/* Computes the powers of all directions, and the sum v of the probe. */
static void sum_moments(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const mvdr_view *view = &stage->bin[bin].view;
    mvdr_inverse *inverse = &stage->inverse[bin];
    mvdr_change *c = &scratch->change;
    const bool slopes = !inverse->sloped || inverse->offset != view->offset;
    const size_t ld = stage->ld;
    memset(c->probe, 0, ld * STEP * sizeof *c->probe);
    for (size_t t = 0; t < stage->directions; t += LANES) {
        const size_t at = bin * stage->directions + t;
        double norm[LANES], p[LANES], s[LANES], *q = stage->slope + at;
        mvdr_look(stage, bin, t, scratch, norm);
        if (slopes) {
            scratch->kernels->moments(view->factor, ld, scratch->z, c->back, p, q);
        } else {
            scratch->kernels->quadratic(view->factor, scratch->z, ld, p);
            update_slopes(scratch, ld, q);
        }
        apply_loading(view, norm, p, q, s);
        mvdr_powers(view, stage->spec.correct_level, norm, s, stage->power + at);
        probe_with(stage, bin, t, p, scratch);
    }
    inverse->sloped = true;
    inverse->offset = view->offset;
}

void mvdr_inverse_spectrum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    sum_moments(stage, bin, scratch);
    if (is_accurate(stage, bin, scratch))
        return;
    *inverse = (mvdr_inverse){.rest = inverse->age < MVDR_YOUNG ? MVDR_REST : 0};
    mvdr_solve_from_scratch(stage, bin, scratch);
    mvdr_spectrum(stage, bin, scratch);
}
