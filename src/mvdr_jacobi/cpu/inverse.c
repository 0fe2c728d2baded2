/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The streaming inverse M of a bin on the CPU (inverse.h): made from a factor, or updated by the
 * snapshots that enter and leave the block. */
#include "mvdr_jacobi/cpu/inverse.h"
#include "mvdr_jacobi/cpu/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = MVDR_LANES, MOST = MVDR_MOST_MOVED };

/* ---- M from a factor ------------------------------------------------------------------------- */

/* Makes the diagonal blocks exactly Hermitian from their lower triangles. */
static void symmetrise(double *m, size_t ld) {
    for (size_t b = 0; b < ld / LANES; b++)
        for (size_t i = b * LANES; i < (b + 1) * LANES; i++) {
            mvdr_at(m, i, i)[LANES] = 0;
            for (size_t j = b * LANES; j < i; j++) {
                const double *from = mvdr_at(m, i, j);
                double *to = mvdr_panel(m, b) + j % LANES + i * 2 * LANES;
                to[0] = from[0];
                to[LANES] = -from[LANES];
            }
        }
}

/* Sets the sums over M from which the level follows. */
static void set_sums(double *m, size_t ld, double energy, mvdr_inverse *inverse) {
    inverse->trace = 0;
    for (size_t i = 0; i < ld; i++)
        inverse->trace += *mvdr_at(m, i, i);
    inverse->energy = energy;
}

/* Makes M from the listed snapshots, loaded with delta. False if the matrix is singular. */
static bool make_inverse(mvdr_stage *stage, size_t bin, size_t count, double delta,
                         mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    const size_t sensors = stage->spec.sensors, ld = stage->ld;
    double *to = stage->factor + bin * stage->factor_size;
    double trace, squares;
    mvdr_form_covariance(stage, bin, (double)count, scratch);
    if (!mvdr_factor_loaded(scratch->kernels, scratch->a, sensors, delta, to))
        return false;
    mvdr_invert(scratch->kernels, to, sensors, scratch->inverse, &trace, &squares);
    mvdr_multiply_out(scratch->kernels, scratch->inverse, sensors, to);
    symmetrise(to, ld);
    for (size_t i = 0; i < ld; i++)
        if (i >= sensors || !stage->rows.used[i])
            *mvdr_at(to, i, i) = 0; /* excluded from the sums over M */
    *inverse = (mvdr_inverse){.kept = true, .weight = scratch->root[0] * scratch->root[0]};
    inverse->delta = delta;
    set_sums(to, ld, scratch->kernels->subtract(to, ld, NULL, NULL, 0), inverse);
    return true;
}

/* ---- snapshots that enter and leave ---------------------------------------------------------- */

void mvdr_reflect(const mvdr_stage *stage, const double *x, double *y) {
    const mvdr_rows *rows = &stage->rows;
    memset(y, 0, 2 * stage->ld * sizeof *y);
    for (size_t i = 0; i < stage->spec.sensors; i++)
        if (rows->used[i]) {
            y[i] = x[rows->mirror[i]];
            y[stage->ld + i] = -x[stage->ld + rows->mirror[i]];
        }
}

/* Adds a snapshot to the change, in double, with zeros at masked sensors; with forward-backward
 * averaging also its mirror image. */
static void take_snapshot(const mvdr_stage *stage, size_t bin, size_t slot, double sign,
                          mvdr_change *change) {
    const float *from = mvdr_column(stage, slot, bin);
    double *to = change->x + change->count * 2 * stage->ld;
    for (size_t i = 0; i < stage->ld; i++) {
        const bool used = i < stage->spec.sensors && stage->rows.used[i];
        to[i] = used ? (double)from[i] : 0;
        to[stage->ld + i] = used ? (double)from[stage->ld + i] : 0;
    }
    change->sign[change->count++] = sign;
    if (stage->shape.each < 2)
        return;
    mvdr_reflect(stage, to, to + 2 * stage->ld);
    change->sign[change->count++] = sign;
}

/* Adds the snapshots in the slots of the arrivals to the change: the new ones (sign 1), or the old
 * ones that they will overwrite (sign -1). */
static void take_arrivals(const mvdr_stage *stage, size_t bin, size_t arrived, double sign,
                          mvdr_change *change) {
    const size_t slots = stage->shape.slots;
    for (size_t i = 0; i < arrived; i++) {
        const size_t slot = (stage->next + i) % slots;
        const bool held = sign > 0 || slots - 1 - i < stage->filled;
        if (held && stage->valid[slot * stage->spec.bins + bin])
            take_snapshot(stage, bin, slot, sign, change);
    }
}

void mvdr_inverse_before(mvdr_stage *stage, size_t bin, bool slides, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    scratch->change.count = 0;
    if (!slides) /* no inverse in the next window either: it may be like this one */
        *inverse = (mvdr_inverse){.rest = 1};
    if (stage->renewed || !mvdr_moves_little(stage->arrived, stage->shape.each, stage->shape.slots))
        inverse->kept = false;
    if (inverse->kept)
        take_arrivals(stage, bin, stage->arrived, -1, &scratch->change);
}

/* y -= x (re + j im) */
static void subtract(double *y, const double *x, size_t ld, double re, double im) {
    for (size_t i = 0; i < ld; i++) {
        y[i] -= x[i] * re - x[ld + i] * im;
        y[ld + i] -= x[i] * im + x[ld + i] * re;
    }
}

double mvdr_dot(const double *x, const double *y, size_t ld, double *im) {
    double re = 0, sum = 0;
    for (size_t i = 0; i < ld; i++) {
        re += x[i] * y[i] + x[ld + i] * y[ld + i];
        sum += x[i] * y[ld + i] - x[ld + i] * y[i];
    }
    *im = sum;
    return re;
}

/* Turns y_k = M x_k into M_k x_k, where M_k includes the changes made before. Snapshots that enter
 * are applied first, so that only the divisors of those that leave can be below 1. False if a
 * snapshot that leaves had almost all the information on a direction in M. */
static bool correct_products(mvdr_change *c, size_t ld) {
    const size_t vector = 2 * ld;
    double im;
    for (size_t i = 0; i < c->count; i++) {
        const size_t k = c->count - 1 - i;
        double *y = c->y + k * vector;
        for (size_t j = k + 1; j < c->count; j++) {
            const double *before = c->y + j * vector;
            const double re = mvdr_dot(before, c->x + k * vector, ld, &im);
            subtract(y, before, ld, re * c->over[j], im * c->over[j]);
        }
        const double s = c->sign[k] + mvdr_dot(c->x + k * vector, y, ld, &im);
        if (!(s * c->sign[k] >= MVDR_LEAST_LEFT))
            return false;
        c->over[k] = 1 / s;
        c->energy[k] = mvdr_dot(y, y, ld, &im);
    }
    return true;
}

/* Turns t_k = M y_k into M_k y_k. */
static void correct_second_products(mvdr_change *c, size_t ld) {
    const size_t vector = 2 * ld;
    double im;
    for (size_t k = 0; k < c->count; k++)
        for (size_t j = k + 1; j < c->count; j++) {
            const double *before = c->y + j * vector;
            const double re = mvdr_dot(before, c->y + k * vector, ld, &im);
            subtract(c->t + k * vector, before, ld, re * c->over[j], im * c->over[j]);
        }
}

/* y = M x of all vectors, two at a time: x and y have room for one more. */
static void apply_to_all(const mvdr_kernels *kernels, double *m, size_t ld, const double *x,
                         double *y, const mvdr_change *c) {
    for (size_t k = 0; k < c->count; k += 2)
        kernels->apply(m, ld, x + k * 2 * ld, y + k * 2 * ld, c->back);
}

/* Updates M by the snapshots that entered and left. False: M is lost. */
static bool update_inverse(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    mvdr_change *c = &scratch->change;
    const size_t ld = stage->ld;
    double *m = stage->factor + bin * stage->factor_size;
    take_arrivals(stage, bin, stage->arrived, 1, c);
    const double root = sqrt(inverse->weight / (double)stage->shape.each);
    for (size_t i = 0; i < c->count * 2 * ld; i++)
        c->x[i] *= root;
    apply_to_all(scratch->kernels, m, ld, c->x, c->y, c);
    if (!correct_products(c, ld))
        return false;
    apply_to_all(scratch->kernels, m, ld, c->y, c->t, c);
    correct_second_products(c, ld);
    const double energy = scratch->kernels->subtract(m, ld, c->y, c->over, c->count);
    symmetrise(m, ld);
    set_sums(m, ld, energy, inverse);
    inverse->age++;
    return true;
}

/* ---- a bin ----------------------------------------------------------------------------------- */

/* |x|^2 over the sensors in use. */
static double energy_of(const mvdr_stage *stage, const float *x) {
    double sum = 0;
    for (size_t i = 0; i < stage->spec.sensors; i++)
        if (stage->rows.used[i]) {
            const double re = (double)x[i], im = (double)x[stage->ld + i];
            sum += re * re + im * im;
        }
    return sum;
}

/* tr R from the energies of the listed snapshots. Each energy is computed once. A mirror image has
 * the same energy. */
static double trace_of(mvdr_stage *stage, size_t bin, size_t count, const mvdr_scratch *scratch) {
    const size_t slots = stage->shape.slots;
    double *energy = stage->energy + bin * slots, sum = 0;
    const bool all = !stage->inverse[bin].kept;
    for (size_t i = 0; i < stage->arrived && !all; i++) {
        const size_t slot = (stage->next + i) % slots;
        energy[slot] = energy_of(stage, mvdr_column(stage, slot, bin));
    }
    for (size_t i = 0; i < count; i++) {
        const size_t slot = scratch->column[i];
        if (all)
            energy[slot] = energy_of(stage, mvdr_column(stage, slot, bin));
        sum += energy[slot];
    }
    return sum * scratch->root[0] * scratch->root[0];
}

/* Sets the loading. False if it does not follow from the trace alone, or is near the least
 * delta. */
static bool load_by_trace(const mvdr_stage *stage, double trace, double count, mvdr_load *load) {
    const sonar_mvdr_spec *spec = &stage->spec;
    const double snapshots = count * (double)stage->shape.each;
    return mvdr_loading_by_trace(spec, trace, stage->rows.n, snapshots, load) &&
           mvdr_plainly_loaded(spec, load->delta, trace);
}

/* Updates or makes M for this window's snapshots. False if the bin has no M that is close enough to
 * a loading with delta. */
static bool ensure_inverse(mvdr_stage *stage, size_t bin, size_t count, double delta,
                           mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    const double weight = scratch->root[0] * scratch->root[0];
    if (inverse->kept && inverse->age < MVDR_OLDEST && update_inverse(stage, bin, scratch) &&
        mvdr_loading_near(delta * inverse->weight / weight, inverse->delta))
        return true;
    if (inverse->kept && inverse->age < MVDR_YOUNG)
        inverse->rest = MVDR_REST;
    inverse->kept = false;
    if (inverse->rest) {
        inverse->rest--;
        return false;
    }
    return make_inverse(stage, bin, count, delta, scratch);
}

/* Sets the bin's view and info. False if rounding hides the level. */
static bool note_solution(mvdr_stage *stage, size_t bin, double count, const mvdr_load *load,
                          double trace, double weight) {
    const mvdr_inverse *inverse = &stage->inverse[bin];
    const double n = (double)stage->rows.n, each = (double)stage->shape.each;
    mvdr_bin *state = &stage->bin[bin];
    mvdr_view *view = &state->view;
    *view = (mvdr_view){.m = stage->spec.sensors,
                        .factor = stage->factor + bin * stage->factor_size,
                        .inverse = true,
                        .scale = inverse->weight / weight,
                        .kept = inverse->delta,
                        .delta = load->delta,
                        .offset = llround(state->offset * MVDR_TONE_ONE)};
    view->apart = view->delta * view->scale - view->kept;
    const double share = mvdr_inverse_share(n, inverse->delta, view->apart, inverse->trace,
                                            inverse->energy, count, each);
    if (mvdr_level_drowned(n - count * each, trace, load->delta, share * count * each))
        return false;
    float *info = mvdr_begin_info(stage, bin, count);
    info[SONAR_MVDR_FLAGS] = (float)mvdr_end_view(stage, view, load, share, info);
    info[SONAR_MVDR_ROUTE] = MVDR_ROUTE_UPDATE;
    return true;
}

bool mvdr_inverse_solve(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    const size_t count = mvdr_list_columns(stage, bin, scratch);
    mvdr_load load;
    double trace = 0;
    scratch->change.listed = count;
    if (count && stage->rows.n)
        trace = trace_of(stage, bin, count, scratch);
    if (!load_by_trace(stage, trace, (double)count, &load) ||
        !ensure_inverse(stage, bin, count, load.delta, scratch) ||
        !note_solution(stage, bin, (double)count, &load, trace,
                       scratch->root[0] * scratch->root[0])) {
        inverse->kept = false;
        return false;
    }
    return true;
}
