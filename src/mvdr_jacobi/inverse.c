/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The streaming inverse on the CPU (inverse.h). |M a|^2 of every direction follows from the same y
 * as M; e is small, so that it need not be exact. S is not kept for the probe: the snapshots are
 * there. */
#include "mvdr_jacobi/internal.h"
#include "mvdr_jacobi/inverse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/random.h"

enum { LANES = MVDR_LANES, STEP = 2 * MVDR_LANES, MOST = MVDR_MOST_MOVED };

/* ---- memory ---------------------------------------------------------------------------------- */

/* Of one worker: vectors are planar, [re, im][ld]. */
struct mvdr_change {
    double *x, *y, *t; /* [MOST] what comes and goes, M x and M y */
    double *back;      /* [ld][4][lane] products from the left, before the lanes are added */
    double *probe;     /* [ld][re, im][lane] */
    double *v, *z;     /* two vectors each */
    double sign[MOST], over[MOST], energy[MOST]; /* +1 or -1; 1/s; |y|^2 */
    size_t count;                                /* of what comes and goes */
    size_t listed;                               /* snapshots that count */
};

bool mvdr_change_create(size_t order, mvdr_change **out) {
    const size_t ld = mvdr_pad(order, LANES), vector = 2 * ld;
    mvdr_change *c = *out = sonar_alloc(1, sizeof *c);
    if (!c)
        return false;
    c->x = sonar_alloc(MOST * vector, sizeof(double));
    c->y = sonar_alloc(MOST * vector, sizeof(double));
    c->t = sonar_alloc(MOST * vector, sizeof(double));
    c->back = sonar_alloc(2 * vector * LANES, sizeof(double));
    c->probe = sonar_alloc(vector * LANES, sizeof(double));
    c->v = sonar_alloc(2 * vector, sizeof(double));
    c->z = sonar_alloc(2 * vector, sizeof(double));
    return c->x && c->y && c->t && c->back && c->probe && c->v && c->z;
}

void mvdr_change_destroy(mvdr_change *c) {
    if (!c)
        return;
    void *owned[] = {c->x, c->y, c->t, c->back, c->probe, c->v, c->z, c};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
}

/* ---- products with M ------------------------------------------------------------------------- */

MVDR_INLINE void add_product(mvdr_lanes sum[2], mvdr_lanes re, mvdr_lanes im, double x, double y) {
    sum[0] += re * x;
    sum[0] -= im * y;
    sum[1] += re * y;
    sum[1] += im * x;
}

MVDR_INLINE void add_adjoint(mvdr_lanes *sum, mvdr_lanes re, mvdr_lanes im, const mvdr_lanes *u) {
    sum[0] += re * u[0];
    sum[0] += im * u[1];
    sum[1] += re * u[1];
    sum[1] -= im * u[0];
}

MVDR_INLINE void rows_of(const double *vector, size_t ld, size_t b, mvdr_lanes to[2]) {
    to[0] = *(const mvdr_lanes *)(vector + b * LANES);
    to[1] = *(const mvdr_lanes *)(vector + ld + b * LANES);
}

/* y = M u of two vectors, one after the other. */
SONAR_MULTIARCH static void apply_two(double *m, size_t many, const double *u, double *y,
                                      double *back) {
    const size_t ld = many * LANES;
    const double *first = u, *second = u + 2 * ld;
    memset(back, 0, 4 * ld * LANES * sizeof *back);
    for (size_t b = 0; b < many; b++) {
        const mvdr_lanes *panel = (const mvdr_lanes *)mvdr_panel(m, b);
        mvdr_lanes own[4], sum[4] = {0}, *to = (mvdr_lanes *)back;
        rows_of(first, ld, b, own);
        rows_of(second, ld, b, own + 2);
        for (size_t j = 0; j < (b + 1) * LANES; j++, panel += 2, to += 4) {
            add_product(sum, panel[0], panel[1], first[j], first[ld + j]);
            add_product(sum + 2, panel[0], panel[1], second[j], second[ld + j]);
            if (j >= b * LANES)
                continue;
            add_adjoint(to, panel[0], panel[1], own);
            add_adjoint(to + 2, panel[0], panel[1], own + 2);
        }
        for (size_t k = 0; k < 4; k++)
            memcpy(y + k * ld + b * LANES, &sum[k], sizeof sum[k]);
    }
    const mvdr_lanes *from = (const mvdr_lanes *)back;
    for (size_t j = 0; j < ld; j++)
        for (size_t k = 0; k < 4; k++)
            y[k * ld + j] += mvdr_add_lanes(from++);
}

/* M less y_k y_k^H over_k; returns the sum of |M_ij|^2. Diagonal blocks stay Hermitian. */
SONAR_MULTIARCH static double take_away(double *m, size_t many, const double *y, const double *over,
                                        size_t count) {
    const size_t ld = many * LANES;
    mvdr_lanes energy = {0};
    for (size_t b = 0; b < many; b++) {
        mvdr_lanes *to = (mvdr_lanes *)mvdr_panel(m, b), own[2 * MOST], sum = {0};
        for (size_t k = 0; k < count; k++) {
            rows_of(y + 2 * k * ld, ld, b, own + 2 * k);
            own[2 * k] *= over[k];
            own[2 * k + 1] *= over[k];
        }
        for (size_t j = 0; j < (b + 1) * LANES; j++, to += 2) {
            mvdr_lanes re = to[0], im = to[1];
            for (size_t k = 0; k < count; k++) {
                const double x = y[2 * k * ld + j], z = y[(2 * k + 1) * ld + j];
                re -= own[2 * k] * x;
                re -= own[2 * k + 1] * z;
                im -= own[2 * k + 1] * x;
                im += own[2 * k] * z;
            }
            to[0] = re, to[1] = im;
            if (j == b * LANES)
                sum += sum;
            sum += re * re;
            sum += im * im;
        }
        energy += sum;
    }
    return mvdr_add_lanes(&energy);
}

static void symmetrise(double *m, size_t many) {
    for (size_t b = 0; b < many; b++)
        for (size_t i = b * LANES; i < (b + 1) * LANES; i++) {
            mvdr_at(m, i, i)[LANES] = 0;
            for (size_t j = b * LANES; j < i; j++) {
                const double *from = mvdr_at(m, i, j);
                double *to = mvdr_panel(m, b) + j % LANES + i * STEP;
                to[0] = from[0];
                to[LANES] = -from[LANES];
            }
        }
}

/* The sums over M that levels follow from. */
static void measure(double *m, size_t ld, double energy, mvdr_inverse *inverse) {
    inverse->trace = 0;
    for (size_t i = 0; i < ld; i++)
        inverse->trace += *mvdr_at(m, i, i);
    inverse->energy = energy;
}

/* p = a^H M a and q = |M a|^2 in eight directions; y is scratch of a vector in each. */
SONAR_MULTIARCH static void moments(double *m, size_t ld, const double *vectors, double *y,
                                    double *p, double *q) {
    enum { GROUP = 4 };
    const mvdr_lanes *a = (const mvdr_lanes *)vectors;
    mvdr_lanes *to = (mvdr_lanes *)y, first = {0}, second = {0};
    memset(y, 0, ld * STEP * sizeof *y);
    for (size_t i = 0; i < ld; i += GROUP) {
        const double *from = mvdr_at(m, i, 0);
        mvdr_lanes sum[2 * GROUP] = {0};
        for (size_t j = 0; j < i + GROUP; j++, from += STEP) {
            mvdr_lanes back[2] = {0};
            for (size_t k = 0; k < GROUP; k++) {
                const double re = from[k], im = from[LANES + k];
                sum[2 * k] += a[2 * j] * re;
                sum[2 * k] -= a[2 * j + 1] * im;
                sum[2 * k + 1] += a[2 * j + 1] * re;
                sum[2 * k + 1] += a[2 * j] * im;
                back[0] += a[2 * (i + k)] * re;
                back[0] += a[2 * (i + k) + 1] * im;
                back[1] += a[2 * (i + k) + 1] * re;
                back[1] -= a[2 * (i + k)] * im;
            }
            if (j < i)
                to[2 * j] += back[0], to[2 * j + 1] += back[1];
        }
        for (size_t k = 0; k < 2 * GROUP; k++)
            to[2 * i + k] += sum[k];
    }
    for (size_t i = 0; i < 2 * ld; i++) {
        first += a[i] * to[i];
        second += to[i] * to[i];
    }
    memcpy(p, &first, sizeof first);
    memcpy(q, &second, sizeof second);
}

/* ---- M from nothing -------------------------------------------------------------------------- */

/* |x|^2 over the used sensors. */
static double energy_of(const mvdr_stage *stage, const float *x) {
    double sum = 0;
    for (size_t i = 0; i < stage->spec.sensors; i++)
        if (stage->rows.used[i]) {
            const double re = (double)x[i], im = (double)x[stage->ld + i];
            sum += re * re + im * im;
        }
    return sum;
}

/* Of the listed snapshots, loaded with delta. False where it is singular. */
static bool make(mvdr_stage *stage, size_t bin, size_t count, double delta, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    const size_t sensors = stage->spec.sensors, ld = stage->ld;
    double *to = stage->factor + bin * stage->factor_size;
    double trace, squares;
    mvdr_form_covariance(stage, bin, (double)count, scratch);
    if (!mvdr_factor_loaded(scratch->a, sensors, delta, to))
        return false;
    mvdr_invert(to, sensors, scratch->inverse, &trace, &squares);
    mvdr_multiply_out(scratch->inverse, sensors, to);
    symmetrise(to, ld / LANES);
    for (size_t i = 0; i < ld; i++)
        if (i >= sensors || !stage->rows.used[i])
            *mvdr_at(to, i, i) = 0; /* nothing of them in the sums over M */
    *inverse = (mvdr_inverse){.kept = true, .weight = scratch->root[0] * scratch->root[0]};
    inverse->delta = delta;
    measure(to, ld, take_away(to, ld / LANES, NULL, NULL, 0), inverse);
    return true;
}

/* ---- snapshots that come and go -------------------------------------------------------------- */

/* y = J x*, which forward-backward averaging takes for another snapshot. */
static void reflect(const mvdr_stage *stage, const double *x, double *y) {
    const mvdr_rows *rows = &stage->rows;
    memset(y, 0, 2 * stage->ld * sizeof *y);
    for (size_t i = 0; i < stage->spec.sensors; i++)
        if (rows->used[i]) {
            y[i] = x[rows->mirror[i]];
            y[stage->ld + i] = -x[stage->ld + rows->mirror[i]];
        }
}

/* A snapshot in double, zero where masked, and what averaging makes of it. */
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
    reflect(stage, to, to + 2 * stage->ld);
    change->sign[change->count++] = sign;
}

/* Takes the snapshots in the slots that the arrivals have or will have. */
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
    scratch->change->count = 0;
    if (!slides) /* a window like this one may follow */
        *inverse = (mvdr_inverse){.rest = 1};
    if (stage->renewed || !mvdr_moves_little(stage->arrived, stage->shape.each, stage->shape.slots))
        inverse->kept = false;
    if (inverse->kept)
        take_arrivals(stage, bin, stage->arrived, -1, scratch->change);
}

static double dot(const double *x, const double *y, size_t ld, double *im) {
    double re = 0, sum = 0;
    for (size_t i = 0; i < ld; i++) {
        re += x[i] * y[i] + x[ld + i] * y[ld + i];
        sum += x[i] * y[ld + i] - x[ld + i] * y[i];
    }
    *im = sum;
    return re;
}

/* y -= x (re + j im) */
static void subtract(double *y, const double *x, size_t ld, double re, double im) {
    for (size_t i = 0; i < ld; i++) {
        y[i] -= x[i] * re - x[ld + i] * im;
        y[ld + i] -= x[i] * im + x[ld + i] * re;
    }
}

/* y_k = M_k x_k of M less the y before; what comes goes first, so that all divisors but those of
 * what leaves are above 1. False where what leaves was all that M knew of a direction. */
static bool eliminate(mvdr_change *c, size_t ld) {
    const size_t vector = 2 * ld;
    double im;
    for (size_t i = 0; i < c->count; i++) {
        const size_t k = c->count - 1 - i;
        double *y = c->y + k * vector;
        for (size_t j = k + 1; j < c->count; j++) {
            const double *before = c->y + j * vector;
            const double re = dot(before, c->x + k * vector, ld, &im);
            subtract(y, before, ld, re * c->over[j], im * c->over[j]);
        }
        const double s = c->sign[k] + dot(c->x + k * vector, y, ld, &im);
        if (!(s * c->sign[k] >= MVDR_LEAST_LEFT))
            return false;
        c->over[k] = 1 / s;
        c->energy[k] = dot(y, y, ld, &im);
    }
    return true;
}

/* t_k = M_k y_k, from M y_k. */
static void eliminate_again(mvdr_change *c, size_t ld) {
    const size_t vector = 2 * ld;
    double im;
    for (size_t k = 0; k < c->count; k++)
        for (size_t j = k + 1; j < c->count; j++) {
            const double *before = c->y + j * vector;
            const double re = dot(before, c->y + k * vector, ld, &im);
            subtract(c->t + k * vector, before, ld, re * c->over[j], im * c->over[j]);
        }
}

static void apply(double *m, size_t ld, const double *x, double *y, size_t count, mvdr_change *c) {
    for (size_t k = 0; k < count; k += 2)
        apply_two(m, ld / LANES, x + k * 2 * ld, y + k * 2 * ld, c->back);
}

/* M follows what came and went. */
static bool follow(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    mvdr_change *c = scratch->change;
    const size_t ld = stage->ld;
    double *m = stage->factor + bin * stage->factor_size;
    take_arrivals(stage, bin, stage->arrived, 1, c);
    const double root = sqrt(inverse->weight / (double)stage->shape.each);
    for (size_t i = 0; i < c->count * 2 * ld; i++)
        c->x[i] *= root;
    apply(m, ld, c->x, c->y, c->count, c);
    if (!eliminate(c, ld))
        return false;
    apply(m, ld, c->y, c->t, c->count, c);
    eliminate_again(c, ld);
    const double energy = take_away(m, ld / LANES, c->y, c->over, c->count);
    symmetrise(m, ld / LANES);
    measure(m, ld, energy, inverse);
    inverse->age++;
    return true;
}

/* ---- a bin ----------------------------------------------------------------------------------- */

/* tr R of the listed snapshots, each of whose energies is found once; a mirror image has the same.
 */
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

/* Whether the loading follows from the trace, far from where eigenvalues would limit it. */
static bool load_by_trace(const mvdr_stage *stage, double trace, double count, mvdr_load *load) {
    const sonar_mvdr_spec *spec = &stage->spec;
    const double snapshots = count * (double)stage->shape.each;
    return mvdr_loading_by_trace(spec, trace, stage->rows.n, snapshots, load) &&
           mvdr_plainly_loaded(spec, load->delta, trace);
}

/* M after this window's snapshots, close enough to loading with delta; false: there is none. */
static bool have(mvdr_stage *stage, size_t bin, size_t count, double delta, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    const double weight = scratch->root[0] * scratch->root[0];
    if (inverse->kept && inverse->age < MVDR_OLDEST && follow(stage, bin, scratch) &&
        mvdr_loading_near(delta * inverse->weight / weight, inverse->delta))
        return true;
    if (inverse->kept && inverse->age < MVDR_YOUNG)
        inverse->rest = MVDR_REST;
    inverse->kept = false;
    if (inverse->rest) {
        inverse->rest--;
        return false;
    }
    return make(stage, bin, count, delta, scratch);
}

/* The view and the info. */
static void note(mvdr_stage *stage, size_t bin, double count, const mvdr_load *load,
                 double weight) {
    const mvdr_inverse *inverse = &stage->inverse[bin];
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
    const double share =
        mvdr_inverse_share((double)stage->rows.n, inverse->delta, view->apart, inverse->trace,
                           inverse->energy, count, (double)stage->shape.each);
    float *info = mvdr_begin_info(stage, bin, count);
    info[SONAR_MVDR_FLAGS] = (float)mvdr_end_view(stage, view, load, share, info);
}

bool mvdr_inverse_solve(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    const size_t count = mvdr_list_columns(stage, bin, scratch);
    mvdr_load load;
    double trace = 0;
    scratch->change->listed = count;
    if (count && stage->rows.n)
        trace = trace_of(stage, bin, count, scratch);
    if (!load_by_trace(stage, trace, (double)count, &load) ||
        !have(stage, bin, count, load.delta, scratch)) {
        inverse->kept = false;
        return false;
    }
    note(stage, bin, (double)count, &load, scratch->root[0] * scratch->root[0]);
    return true;
}

/* ---- the spectrum ---------------------------------------------------------------------------- */

/* s = a^H (R + delta I)^-1 a from p and q. */
static void load_anew(const mvdr_view *view, const double *norm, const double *p, double *q,
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
        moments(view->factor, ld, scratch->z, scratch->change->back, p, q);
    else
        mvdr_quadratic(view->factor, scratch->z, ld, p);
    load_anew(view, norm, p, q, s);
}

/* y^H a in eight directions. */
SONAR_MULTIARCH static void project_on(const double *y, const double *vectors, size_t ld,
                                       mvdr_lanes to[2]) {
    const mvdr_lanes *a = (const mvdr_lanes *)vectors;
    mvdr_lanes re = {0}, im = {0};
    for (size_t i = 0; i < ld; i++, a += 2) {
        re += a[0] * y[i];
        re += a[1] * y[ld + i];
        im += a[1] * y[i];
        im -= a[0] * y[ld + i];
    }
    to[0] = re, to[1] = im;
}

/* q = |M a|^2 after what came and went. */
static void follow_slopes(const mvdr_change *c, size_t ld, const double *a, double *q) {
    for (size_t k = c->count; k-- > 0;) {
        mvdr_lanes b[2], g[2], change;
        project_on(c->y + k * 2 * ld, a, ld, b);
        project_on(c->t + k * 2 * ld, a, ld, g);
        const double over = c->over[k];
        change = (b[0] * b[0] + b[1] * b[1]) * (over * over * c->energy[k]) -
                 (g[0] * b[0] + g[1] * b[1]) * (2 * over);
        for (size_t lane = 0; lane < LANES; lane++)
            q[lane] += change[lane];
    }
}

/* probe += a +-1/sqrt(p) */
SONAR_MULTIARCH static void add_to_probe(const double *vectors, size_t ld, const double *weights,
                                         double *probe) {
    const mvdr_lanes *a = (const mvdr_lanes *)vectors;
    mvdr_lanes *to = (mvdr_lanes *)probe, weight;
    memcpy(&weight, weights, sizeof weight);
    for (size_t i = 0; i < 2 * ld; i++)
        to[i] += a[i] * weight;
}

static void probe_with(const mvdr_stage *stage, size_t bin, size_t first, const double *p,
                       mvdr_scratch *scratch) {
    double weight[LANES];
    for (size_t lane = 0; lane < LANES; lane++) {
        const uint64_t bits = sonar_random_at(stage->bin[bin].seen, first + lane);
        const bool there = first + lane < stage->spec.directions;
        weight[lane] = there ? (bits & 1 ? 1 : -1) / sqrt(p[lane]) : 0;
    }
    add_to_probe(scratch->z, stage->ld, weight, scratch->change->probe);
}

/* z^H S z of the listed snapshots. z has room for another vector behind it; |(J x*)^H z| is
 * |x^H J z*|. */
static double energy_along(const mvdr_stage *stage, size_t bin, double *z,
                           const mvdr_scratch *scratch) {
    const size_t ld = stage->ld, each = stage->shape.each;
    double sum = 0;
    if (each == 2)
        reflect(stage, z, z + 2 * ld);
    for (size_t i = 0; i < scratch->change->listed * each; i++) {
        const double *along = z + i % each * 2 * ld;
        double re, im;
        mvdr_inner(mvdr_column(stage, scratch->column[i / each], bin), along, along + ld, ld, &re,
                   &im);
        sum += re * re + im * im;
    }
    return sum / (double)each;
}

/* Whether the probe finds M to be right. */
static bool holds(const mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const mvdr_inverse *inverse = &stage->inverse[bin];
    mvdr_change *c = scratch->change;
    const size_t ld = stage->ld;
    const mvdr_lanes *probe = (const mvdr_lanes *)c->probe;
    double im;
    for (size_t i = 0; i < ld; i++) {
        c->v[i] = mvdr_add_lanes(&probe[2 * i]);
        c->v[ld + i] = mvdr_add_lanes(&probe[2 * i + 1]);
    }
    apply_two(stage->factor + bin * stage->factor_size, ld / LANES, c->v, c->z, c->back);
    const double sum = energy_along(stage, bin, c->z, scratch) * inverse->weight +
                       inverse->delta * dot(c->z, c->z, ld, &im);
    return fabs(sum - dot(c->v, c->z, ld, &im)) <= MVDR_MOST_WRONG;
}

/* Powers of all directions, and the probe. */
static void look_around(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const mvdr_view *view = &stage->bin[bin].view;
    mvdr_inverse *inverse = &stage->inverse[bin];
    mvdr_change *c = scratch->change;
    const bool anew = !inverse->sloped || inverse->offset != view->offset;
    const size_t ld = stage->ld;
    memset(c->probe, 0, ld * STEP * sizeof *c->probe);
    for (size_t t = 0; t < stage->directions; t += LANES) {
        const size_t at = bin * stage->directions + t;
        double norm[LANES], p[LANES], s[LANES], *q = stage->slope + at;
        mvdr_look(stage, bin, t, scratch, norm);
        if (anew) {
            moments(view->factor, ld, scratch->z, c->back, p, q);
        } else {
            mvdr_quadratic(view->factor, scratch->z, ld, p);
            follow_slopes(c, ld, scratch->z, q);
        }
        load_anew(view, norm, p, q, s);
        mvdr_powers(view, stage->spec.correct_level, norm, s, stage->power + at);
        probe_with(stage, bin, t, p, scratch);
    }
    inverse->sloped = true;
    inverse->offset = view->offset;
}

void mvdr_inverse_spectrum(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_inverse *inverse = &stage->inverse[bin];
    look_around(stage, bin, scratch);
    if (holds(stage, bin, scratch))
        return;
    *inverse = (mvdr_inverse){.rest = inverse->age < MVDR_YOUNG ? MVDR_REST : 0};
    mvdr_solve_anew(stage, bin, scratch);
    mvdr_spectrum(stage, bin, scratch);
}
