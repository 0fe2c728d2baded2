/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Solves a bin: from its matrix to eigenvalues, loading, level and factor. */
#include "mvdr_jacobi/cpu/kernels.h"
#include "mvdr_jacobi/rules/modes.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { STEP = 2 * MVDR_LANES };

/* The snapshots that R is made of. */
typedef struct looks {
    double effective; /* L, or L_eff with forgetting */
    double seen;      /* L, or with forgetting all accepted snapshots */
    size_t order;     /* rows of the matrix; 0: no data */
} looks;

/* Forms the bin's matrix in scratch->a. */
static looks form(const mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    const double alpha = stage->spec.alpha, seen = (double)stage->bin[bin].seen;
    const double faded = alpha > 0 ? pow(alpha, seen) : 0;
    size_t count = stage->shape.slots ? mvdr_list_columns(stage, bin, scratch) : (size_t)seen;
    const size_t m = count * stage->shape.each;
    looks looks = {(double)count, (double)count, 0};
    if (alpha > 0) {
        looks.effective = (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded);
        looks.seen = seen;
    }
    if (!count || !stage->rows.n)
        return looks;
    looks.order = stage->shape.by_snapshots ? m : stage->spec.sensors;
    if (stage->shape.by_snapshots)
        mvdr_form_gram(stage, bin, m, scratch);
    else
        mvdr_form_covariance(stage, bin, alpha > 0 ? 1 - faded : (double)count, scratch);
    return looks;
}

/* ---- eigenvalues ----------------------------------------------------------------------------- */

/* Copies the triangle scratch->a to the lower triangle of a square of columns. */
static mvdr_square spread(const mvdr_scratch *scratch, size_t n) {
    const mvdr_square h = {scratch->h_re, scratch->h_im, n, mvdr_pad(n, MVDR_LANES)};
    memset(h.re, 0, n * h.ld * sizeof *h.re);
    memset(h.im, 0, n * h.ld * sizeof *h.im);
    for (size_t j = 0; j < n; j++)
        for (size_t i = j; i < n; i++) {
            const double *from = mvdr_at(scratch->a, i, j);
            h.re[j * h.ld + i] = from[0];
            h.im[j * h.ld + i] = i > j ? from[MVDR_LANES] : 0;
        }
    return h;
}

/* Sorts scratch->d in falling order and sets `order`. Eigenvalues that rounding made negative
 * become 0. */
static void sort(mvdr_scratch *scratch, size_t n) {
    mvdr_descending(scratch->d, n, scratch->order);
    memcpy(scratch->e, scratch->d, n * sizeof *scratch->d);
    for (size_t i = 0; i < n; i++)
        scratch->d[i] = fmax(scratch->e[scratch->order[i]], 0);
}

mvdr_sweeps mvdr_decompose(mvdr_stage *stage, size_t bin, size_t n, bool vectors,
                           mvdr_scratch *scratch) {
    mvdr_sweeps sweeps = {.converged = true};
    if (vectors) {
        const mvdr_square v = {scratch->v_re, scratch->v_im, n, mvdr_pad(n, MVDR_LANES)};
        const bool taken = mvdr_take_vectors(stage, bin, n, scratch);
        sweeps =
            mvdr_jacobi(scratch->kernels, scratch->a, stage->spec.tolerance, stage->spec.max_sweeps,
                        taken ? &scratch->start : NULL, scratch->inverse, v, scratch->d);
    } else {
        sweeps.converged = mvdr_eigenvalues(scratch->kernels, spread(scratch, n), scratch->v_re,
                                            scratch->v_im, scratch->d, scratch->e);
    }
    sort(scratch, n);
    if (vectors && sweeps.converged)
        mvdr_keep_vectors(stage, bin, n, scratch);
    else
        stage->bin[bin].based = false;
    return sweeps;
}

/* ---- the factor ------------------------------------------------------------------------------ */

void mvdr_weigh_vectors(const mvdr_scratch *scratch, size_t n, size_t rows, double *factor) {
    const size_t ld = mvdr_pad(n, MVDR_LANES);
    memset(factor, 0, mvdr_pad(rows, MVDR_LANES) * ld * 2 * sizeof *factor);
    for (size_t i = 0; i < rows; i++) {
        const double *re = scratch->v_re + scratch->order[i] * ld;
        const double *im = scratch->v_im + scratch->order[i] * ld;
        double *to = factor + i / MVDR_LANES * ld * STEP + i % MVDR_LANES;
        const double weight = sqrt(scratch->e[i]);
        for (size_t j = 0; j < n; j++) {
            to[j * STEP] = weight * re[j];
            to[j * STEP + MVDR_LANES] = -weight * im[j];
        }
    }
}

/* Factors A + delta I. If rounding makes it indefinite, delta is raised. `most`: an upper bound of
 * A's eigenvalues. */
static void factorise(const mvdr_scratch *scratch, size_t n, double most, mvdr_load *load,
                      double *factor) {
    const double asked = load->delta;
    mvdr_factor_raised(scratch->kernels, scratch->a, n, most, &load->delta, factor);
    load->floored = load->floored || load->delta > asked;
}

/* Sets the view of the loaded matrix, by eigenvectors or by a factor (view->vectors). `most`: an
 * upper bound of its eigenvalues. */
static void view_loaded(const mvdr_stage *stage, mvdr_view *view, double most, mvdr_load *load,
                        mvdr_scratch *scratch) {
    mvdr_load used = *load;
    if (stage->spec.correct_level)
        used.delta = fmin(load->delta, MVDR_MOST_LOADING * most);
    for (size_t i = 0; i < view->m && view->vectors; i++)
        scratch->e[i] = 1 / (scratch->d[i] + used.delta);
    view->rows = view->m;
    if (view->vectors)
        mvdr_weigh_vectors(scratch, view->m, view->rows, view->factor);
    else
        factorise(scratch, view->m, most, &used, view->factor);
    if (used.floored)
        *load = used;
    view->left = stage->shape.by_snapshots;
    view->delta = used.delta;
}

/* Sets the view of the dominant modes whose eigenvalues are above the noise. */
static void view_dominant(const mvdr_stage *stage, mvdr_view *view, size_t modes, double noise,
                          mvdr_scratch *scratch) {
    view->rows = 0;
    for (size_t i = 0; i < modes && scratch->d[i] > noise; i++, view->rows++)
        scratch->e[i] = (1 - noise / scratch->d[i]) * mvdr_of_mode(stage, scratch, i);
    mvdr_weigh_vectors(scratch, view->m, view->rows, view->factor);
    view->left = true;
    view->delta = noise;
    view->base = stage->spec.correct_level ? noise / (double)stage->rows.n : 0;
}

/* ---- a bin ----------------------------------------------------------------------------------- */

static unsigned flags_of(const mvdr_stage *stage, const mvdr_load *load, double share) {
    const double least = stage->spec.correct_level ? MVDR_LEVEL_CORRECTED : MVDR_LEVEL_BIASED;
    return (load->fallback ? SONAR_MVDR_FLAG_TRACE_FALLBACK : 0) |
           (load->floored ? SONAR_MVDR_FLAG_LOADING_FLOOR : 0) |
           (share < least ? SONAR_MVDR_FLAG_LEVEL_BIASED : 0);
}

/* Notes the k eigenvalues that both spaces have in common. */
static void note_eigenvalues(mvdr_stage *stage, size_t bin, const mvdr_scratch *scratch, size_t k) {
    float *to = stage->eigenvalue + bin * stage->modes;
    for (size_t i = 0; i < stage->modes && i < k; i++)
        to[i] = (float)fmin(scratch->d[i], (double)FLT_MAX);
}

/* Uses dominant modes instead of loading; returns the share of a source's power that P shows. */
static double reject(const mvdr_stage *stage, const mvdr_eigenspectrum *eigen, size_t modes,
                     mvdr_view *view, mvdr_load *load, mvdr_scratch *scratch) {
    const double noise = mvdr_noise_of(eigen, modes);
    const double least = mvdr_least_delta(scratch->d[0], 0, 0);
    *load = (mvdr_load){.delta = fmax(noise, least), .floored = noise < least};
    view_dominant(stage, view, modes, load->delta, scratch);
    return mvdr_modes_share(eigen, modes);
}

/* Begins the view of a solution. */
static mvdr_view *begin_view(mvdr_stage *stage, size_t bin, const looks *looks) {
    const sonar_mvdr_spec *spec = &stage->spec;
    mvdr_view *view = &stage->bin[bin].view;
    view->m = looks->order;
    view->factor = stage->factor + bin * stage->factor_size;
    view->vectors = mvdr_has_vectors(spec);
    view->gain = mvdr_least_gain(spec);
    view->lambda = stage->lambda + (view->gain > 0 ? bin : 0) * 2 * (stage->shape.order + 1);
    view->own = view->lambda + stage->shape.order + 1;
    return view;
}

unsigned mvdr_end_view(const mvdr_stage *stage, mvdr_view *view, const mvdr_load *load,
                       double share, float *info) {
    const double n = (double)stage->rows.n;
    view->level = stage->spec.correct_level ? view->delta / (n * share) : view->delta;
    info[SONAR_MVDR_DELTA] = (float)fmin(load->delta, (double)FLT_MAX);
    info[SONAR_MVDR_LEVEL] = (float)share;
    return flags_of(stage, load, share);
}

/* Loads the matrix from all its eigenvalues. Notes delta, level, sources and modes in info, and the
 * eigenvalues; returns flags. */
static unsigned process(mvdr_stage *stage, size_t bin, const looks *looks, mvdr_scratch *scratch,
                        float *info) {
    const sonar_mvdr_spec *spec = &stage->spec;
    mvdr_view *view = begin_view(stage, bin, looks);
    const mvdr_eigenspectrum eigen = {.d = scratch->d,
                                      .k = stage->shape.by_snapshots ? looks->order : stage->rows.n,
                                      .n = stage->rows.n,
                                      .snapshots = looks->effective * (double)stage->shape.each,
                                      .real = spec->forward_backward};
    const size_t sources = spec->source_count ? mvdr_count_sources(spec->source_count, &eigen) : 0;
    const size_t modes = spec->dmr ? mvdr_modes_of(&eigen, spec->dmr, sources) : 0;
    mvdr_load load;
    double share;
    if (spec->dmr) {
        share = reject(stage, &eigen, modes, view, &load, scratch);
    } else {
        load = mvdr_loading(spec, eigen.d, eigen.k, eigen.n, eigen.snapshots);
        view_loaded(stage, view, eigen.d[0], &load, scratch);
        if (view->gain > 0)
            mvdr_gain_prepare(stage, view, scratch);
        const size_t rank = (size_t)fmin((double)eigen.k, looks->seen * (double)stage->shape.each);
        share = mvdr_level(spec, eigen.d, rank, load.delta, looks->seen, looks->effective);
    }
    note_eigenvalues(stage, bin, scratch, eigen.k);
    info[SONAR_MVDR_SOURCES] = (float)sources;
    info[SONAR_MVDR_MODES] = (float)modes;
    if (stage->wants.music)
        info[SONAR_MVDR_SUBSPACE] = (float)mvdr_modes_of(&eigen, spec->music, sources);
    return mvdr_end_view(stage, view, &load, share, info);
}

/* ---- without all eigenvalues ----------------------------------------------------------------- */

/* The level from tr A^-1 (`first`) and |A^-1|^2 (`second`) of the loaded matrix A: the sums in
 * mvdr_level are the order minus delta tr A^-1, and the order minus delta^2 |A^-1|^2. */
static double level_of(const mvdr_stage *stage, const mvdr_view *view, const looks *looks,
                       double first, double second) {
    const double m = (double)view->m, sum = fmax(m - view->delta * first, 0);
    return mvdr_level_of(&stage->spec, sum, m - view->delta * view->delta * second, looks->seen,
                         looks->effective);
}

/* The level by the inverse factor. The diagonal of A^-1 gives its trace and bounds of its norm,
 * which contributes little. The norm itself is computed only if the bounds are too wide. */
static double level_by_inverse(const mvdr_stage *stage, const mvdr_view *view, const looks *looks,
                               mvdr_scratch *scratch) {
    double first, second;
    mvdr_invert(scratch->kernels, view->factor, view->m, scratch->inverse, &first, &second);
    const double least = level_of(stage, view, looks, first, second);
    const double most = level_of(stage, view, looks, first, first / view->delta);
    return most - least < MVDR_LEVEL_CLOSE * least
               ? least
               : level_of(stage, view, looks, first,
                          mvdr_multiply_out(scratch->kernels, scratch->inverse, view->m, NULL));
}

/* The loading by the noise rule from the median eigenvalue, of the matrix reduced to scratch->d and
 * e. False if all eigenvalues are needed. */
static bool load_by_median(const mvdr_stage *stage, const looks *looks, double trace,
                           double snapshots, mvdr_load *load, mvdr_scratch *scratch) {
    const size_t m = looks->order;
    size_t middle[2];
    mvdr_middle(stage->rows.n, snapshots, middle);
    if (!(trace > 0) || middle[1] >= m)
        return false;
    scratch->kernels->reduce(spread(scratch, m), scratch->v_re, scratch->v_im, scratch->d,
                             scratch->e);
    const size_t rank[2] = {m - 1 - middle[0], m - 1 - middle[1]};
    const double median =
        mvdr_ranked_mean(scratch->kernels, scratch->d, scratch->e, m, rank, trace);
    return mvdr_loading_by_median(&stage->spec, trace, median, stage->rows.n, snapshots, load);
}

/* Ends a route without all eigenvalues. False if rounding hides the level. */
static bool end_without(const mvdr_stage *stage, mvdr_view *view, const looks *looks, double trace,
                        const mvdr_load *load, double share, float *info, unsigned *flags) {
    const double each = (double)stage->shape.each;
    const double zeros = (double)view->m - looks->seen * each;
    if (mvdr_level_drowned(zeros, trace, view->delta, share * looks->effective * each))
        return false;
    *flags = mvdr_end_view(stage, view, load, share, info);
    return true;
}

/* ---- routes ---------------------------------------------------------------------------------- */

/* A route of route.h: sets the bin's view and info from its matrix in scratch->a. False if the
 * result would be inaccurate. */
typedef bool take_route(mvdr_stage *stage, size_t bin, const looks *looks, mvdr_scratch *scratch,
                        float *info, unsigned *flags);

static bool by_factor(mvdr_stage *stage, size_t bin, const looks *looks, mvdr_scratch *scratch,
                      float *info, unsigned *flags) {
    const double snapshots = looks->effective * (double)stage->shape.each;
    const double trace = mvdr_trace(scratch->a, looks->order);
    mvdr_load load;
    if (!mvdr_loading_by_trace(&stage->spec, trace, stage->rows.n, snapshots, &load))
        return false;
    mvdr_view *view = begin_view(stage, bin, looks);
    view_loaded(stage, view, trace, &load, scratch);
    const double share = level_by_inverse(stage, view, looks, scratch);
    return end_without(stage, view, looks, trace, &load, share, info, flags);
}

static bool by_median(mvdr_stage *stage, size_t bin, const looks *looks, mvdr_scratch *scratch,
                      float *info, unsigned *flags) {
    const double snapshots = looks->effective * (double)stage->shape.each;
    const double trace = mvdr_trace(scratch->a, looks->order);
    double first, second;
    mvdr_load load;
    if (!load_by_median(stage, looks, trace, snapshots, &load, scratch))
        return false;
    mvdr_view *view = begin_view(stage, bin, looks);
    view_loaded(stage, view, trace, &load, scratch);
    if (!mvdr_shifted_inverse(scratch->d, scratch->e, view->m, view->delta, &first, &second))
        return false;
    const double share = level_of(stage, view, looks, first, second);
    return end_without(stage, view, looks, trace, &load, share, info, flags);
}

/* Finds all eigenvalues, and eigenvectors in stages that use them. */
static bool by_eigenvalues(mvdr_stage *stage, size_t bin, const looks *looks, mvdr_scratch *scratch,
                           float *info, unsigned *flags) {
    const mvdr_sweeps sweeps =
        mvdr_decompose(stage, bin, looks->order, mvdr_has_vectors(&stage->spec), scratch);
    if (scratch->d[0] > 0)
        *flags = process(stage, bin, looks, scratch, info);
    *flags |= sweeps.converged ? 0 : SONAR_MVDR_FLAG_NOT_CONVERGED;
    info[SONAR_MVDR_SWEEPS] = (float)sweeps.count;
    info[SONAR_MVDR_RESIDUAL] = (float)sweeps.residual;
    return true;
}

static take_route *const ROUTES[] = {[MVDR_ROUTE_JACOBI] = by_eigenvalues,
                                     [MVDR_ROUTE_FACTOR] = by_factor,
                                     [MVDR_ROUTE_MEDIAN] = by_median,
                                     [MVDR_ROUTE_EIGENVALUES] = by_eigenvalues};

/* The route of a bin whose inverse is not updated. */
static mvdr_route_id route_of(const mvdr_stage *stage, const looks *looks) {
    const sonar_mvdr_spec *spec = &stage->spec;
    mvdr_problem problem = mvdr_problem_of(spec, &stage->wants, MVDR_ON_CPU);
    problem.from_scratch = true;
    problem.fallback =
        mvdr_falls_back(spec, stage->rows.n, looks->effective * (double)stage->shape.each);
    return mvdr_route_of(&problem, MVDR_ON_CPU, stage->named);
}

/* ---- a bin ----------------------------------------------------------------------------------- */

void mvdr_solve(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    if (!stage->slides || !mvdr_inverse_solve(stage, bin, scratch))
        mvdr_solve_from_scratch(stage, bin, scratch);
}

float *mvdr_begin_info(mvdr_stage *stage, size_t bin, double snapshots) {
    float *info = stage->info + bin * SONAR_MVDR_INFO_FIELDS;
    memset(info, 0, SONAR_MVDR_INFO_FIELDS * sizeof *info);
    info[SONAR_MVDR_LEVEL] = 1;
    info[SONAR_MVDR_OFFSET] = (float)stage->bin[bin].offset;
    info[SONAR_MVDR_SNAPSHOTS] = (float)snapshots;
    return info;
}

void mvdr_solve_from_scratch(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_bin *state = &stage->bin[bin];
    unsigned flags = 0;
    const looks looks = form(stage, bin, scratch);
    float *info = mvdr_begin_info(stage, bin, looks.effective);
    state->view = (mvdr_view){.offset = llround(state->offset * MVDR_TONE_ONE)};
    memset(stage->eigenvalue + bin * stage->modes, 0, stage->modes * sizeof *stage->eigenvalue);
    if (!looks.order) {
        state->based = false;
        return;
    }
    mvdr_route_id route = route_of(stage, &looks);
    if (!ROUTES[route](stage, bin, &looks, scratch, info, &flags)) {
        route = MVDR_ROUTE_EIGENVALUES;
        ROUTES[route](stage, bin, &looks, scratch, info, &flags);
    }
    info[SONAR_MVDR_ROUTE] = state->view.m ? (float)route : MVDR_ROUTE_NONE;
    info[SONAR_MVDR_FLAGS] = (float)flags;
}
