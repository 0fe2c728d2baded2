/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The CPU's MVDR stage: one task per bin, everything of a bin in a fixed order inside it, so that
 * results do not depend on the number of workers. */
#include "mvdr_jacobi/internal.h"
#include "mvdr_jacobi/level.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char where[] = "mvdr_jacobi";

/* ---- create, destroy ------------------------------------------------------------------------- */

static bool allocate(mvdr_stage *stage) {
    const sonar_mvdr_spec *spec = &stage->spec;
    size_t sensors = spec->sensors, bins = spec->bins, kept = stage->limits.kept;
    size_t q, stored;
    if (__builtin_mul_overflow(bins * kept, stage->ld, &q) ||
        __builtin_mul_overflow(bins * sensors, spec->snapshots, &stored))
        return false;
    stage->rows.sensor = sonar_alloc(sensors, sizeof(size_t));
    stage->rows.partner = sonar_alloc(sensors, sizeof(size_t));
    stage->rows.turns = sonar_alloc(stage->directions * sensors, sizeof(uint64_t));
    stage->previous = sonar_alloc(sensors, sizeof(size_t));
    stage->row_of = sonar_alloc(sensors, sizeof(size_t));
    stage->snapshot = sonar_alloc(stored, sizeof(sonar_c32));
    stage->valid = sonar_alloc(spec->snapshots * bins, 1);
    stage->bin = sonar_alloc(bins, sizeof *stage->bin);
    stage->q_re = sonar_alloc(q, sizeof(float));
    stage->q_im = sonar_alloc(q, sizeof(float));
    stage->d = sonar_alloc(bins * kept, sizeof(double));
    stage->weight = sonar_alloc(bins * kept, sizeof(float));
    stage->gain = sonar_alloc(spec->correct_level ? bins * kept : 1, sizeof(float));
    stage->power = sonar_alloc(bins * stage->directions, sizeof(float));
    stage->info = sonar_alloc(bins * SONAR_MVDR_INFO_FIELDS, sizeof(float));
    stage->tones = spec->tones ? sonar_alloc(1, sizeof *stage->tones) : NULL;
    stage->pair = sonar_alloc(spec->tones ? spec->snapshots * bins : 1, sizeof *stage->pair);
    stage->points = sonar_alloc(sensors * MVDR_LANES, sizeof(uint64_t));
    stage->sample = sonar_alloc(bins * MVDR_LANES, sizeof(float));
    stage->scratch = sonar_alloc(stage->host->workers, sizeof *stage->scratch);
    return stage->rows.sensor && stage->rows.partner && stage->rows.turns && stage->previous &&
           stage->row_of && stage->snapshot && stage->valid && stage->bin && stage->q_re &&
           stage->q_im && stage->d && stage->weight && stage->gain && stage->power && stage->info &&
           stage->points && stage->sample && stage->scratch && stage->pair &&
           !spec->tones == !stage->tones;
}

static void destroy(void *opaque) {
    mvdr_stage *stage = opaque;
    if (!stage)
        return;
    for (size_t i = 0; stage->scratch && i < stage->host->workers; i++)
        mvdr_scratch_destroy(&stage->scratch[i]);
    void *owned[] = {stage->rows.sensor, stage->rows.partner, stage->rows.turns, stage->previous,
                     stage->row_of,      stage->snapshot,     stage->valid,      stage->bin,
                     stage->q_re,        stage->q_im,         stage->d,          stage->weight,
                     stage->power,       stage->info,         stage->points,     stage->sample,
                     stage->scratch,     stage->gain,         stage->tones,      stage->pair};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    free(stage);
}

static sonar_code create(const void *spec, const sonar_host *host, void **out, sonar_error *err) {
    *out = NULL;
    sonar_code code = mvdr_check_spec(spec, err);
    if (code)
        return code;
    mvdr_stage *stage = sonar_alloc(1, sizeof *stage);
    if (!stage)
        return sonar_fail(err, SONAR_ENOMEM, where, "no memory for the stage");
    memcpy(&stage->spec, spec, sizeof stage->spec);
    stage->host = host;
    stage->limits = mvdr_limits_of(&stage->spec);
    stage->ld = mvdr_pad(stage->spec.sensors, MVDR_ALIGN);
    stage->directions = mvdr_pad(stage->spec.directions, MVDR_LANES);
    if (!allocate(stage)) {
        code = sonar_fail(err, SONAR_ENOMEM, where, "no memory for %zu bins of %zu sensors",
                          stage->spec.bins, stage->spec.sensors);
        destroy(stage);
        return code;
    }
    for (size_t i = 0; i < host->workers; i++)
        if ((code = mvdr_scratch_create(stage->limits, &stage->scratch[i], err)) != SONAR_OK) {
            destroy(stage);
            return code;
        }
    if (stage->tones)
        *stage->tones = *stage->spec.tones;
    stage->spec.tones = NULL; /* borrowed */
    *out = stage;
    return SONAR_OK;
}

static void reset(void *opaque) {
    mvdr_stage *stage = opaque;
    stage->next = stage->filled = 0;
    memset(stage->bin, 0, stage->spec.bins * sizeof *stage->bin);
}

/* ---- one bin --------------------------------------------------------------------------------- */

/* L_eff as statistics count it: forward-backward averaging uses every snapshot twice. */
static double effective_snapshots(const mvdr_stage *stage, const mvdr_factor *factor) {
    return factor->snapshots * (stage->spec.forward_backward ? 2 : 1);
}

/* With about as many snapshots as sensors float32 alone errs by 0.2 to 0.9 dB. */
static bool wants_double(double snapshots, size_t n) {
    return snapshots > 0.75 * (double)n && snapshots < 1.5 * (double)n;
}

static mvdr_solution solve(const mvdr_stage *stage, size_t bin, const mvdr_factor *factor,
                           mvdr_scratch *scratch, bool in_double) {
    size_t first = bin * stage->limits.kept * stage->ld;
    float *q_re = stage->q_re + first, *q_im = stage->q_im + first;
    const sonar_mvdr_spec *spec = &stage->spec;
    if (in_double)
        return mvdr_solve_f64(scratch, stage->rows.n, factor->m, 3e-10, spec->max_sweeps, q_re,
                              q_im, stage->ld, stage->limits.kept);
    return mvdr_solve_f32(scratch, stage->rows.n, factor->m, 3e-7, spec->max_sweeps, q_re, q_im,
                          stage->ld, stage->limits.kept);
}

/* Columns too short for the loading to notice, now or summed over all updates to come, are not
 * worth carrying on. While the average fills up delta may still stand on sources alone: all are
 * kept. */
static size_t worth_keeping(const mvdr_stage *stage, const mvdr_bin *state, const double *d,
                            size_t k, double delta) {
    double alpha = stage->spec.alpha, settled = 2 * (1 + alpha) / (1 - alpha);
    while ((double)state->seen > settled && k && d[k - 1] < 0.005 * (1 - alpha) * delta)
        k--;
    return k;
}

/* What the spectrum needs of the eigenvalues d, now of R itself. */
static void weigh(mvdr_stage *stage, size_t bin, const double *d, size_t k, double delta,
                  double share) {
    size_t n = stage->rows.n, first = bin * stage->limits.kept;
    float *weight = stage->weight + first;
    float *gain = stage->spec.correct_level ? stage->gain + first : NULL;
    for (size_t i = 0; i < k; i++) {
        weight[i] = (float)(delta / (d[i] + delta));
        if (gain)
            gain[i] = (float)(d[i] / (d[i] + delta));
    }
    double level = gain ? delta / ((double)n * share) : delta;
    stage->bin[bin].view = (mvdr_view){.q_re = stage->q_re + first * stage->ld,
                                       .q_im = stage->q_im + first * stage->ld,
                                       .weight = weight,
                                       .gain = gain,
                                       .n = n,
                                       .k = k,
                                       .ld = stage->ld,
                                       .middle = stage->rows.middle,
                                       .offset = llround(stage->bin[bin].offset * MVDR_TONE_ONE),
                                       .level = k ? level : 0};
}

static unsigned flags_of(const mvdr_stage *stage, const mvdr_load *loading, double share) {
    double least = stage->spec.correct_level ? MVDR_LEVEL_CORRECTED : MVDR_LEVEL_BIASED;
    return (loading->fallback ? SONAR_MVDR_FLAG_TRACE_FALLBACK : 0) |
           (loading->floored ? SONAR_MVDR_FLAG_LOADING_FLOOR : 0) |
           (share < least ? SONAR_MVDR_FLAG_LEVEL_BIASED : 0);
}

/* Loads the k eigenvalues of S S^H in scratch; notes delta and level in info and returns flags. */
static unsigned load(mvdr_stage *stage, size_t bin, size_t k, const mvdr_factor *factor,
                     mvdr_scratch *scratch, float *info) {
    mvdr_bin *state = &stage->bin[bin];
    bool forgets = stage->spec.alpha > 0;
    double *kept = stage->d + bin * stage->limits.kept, *d = scratch->d;
    for (size_t i = 0; i < k; i++) {
        kept[i] = d[i] * factor->factor;
        d[i] = kept[i] / (forgets ? state->share : 1);
    }
    mvdr_load loading =
        mvdr_loading(&stage->spec, d, k, stage->rows.n, effective_snapshots(stage, factor));
    double seen = forgets ? (double)state->seen : factor->snapshots;
    double share = mvdr_level(&stage->spec, d, k, loading.delta, seen, factor->snapshots);
    weigh(stage, bin, d, k, loading.delta, share);
    state->k = forgets ? worth_keeping(stage, state, d, k, loading.delta) : k;
    info[SONAR_MVDR_DELTA] = (float)fmin(loading.delta, (double)FLT_MAX);
    info[SONAR_MVDR_LEVEL] = (float)share;
    return flags_of(stage, &loading, share);
}

static void decompose(mvdr_stage *stage, size_t bin, mvdr_scratch *scratch) {
    mvdr_factor factor = stage->spec.alpha > 0 ? mvdr_factor_forget(stage, bin, scratch)
                                               : mvdr_factor_block(stage, bin, scratch);
    mvdr_solution solution = {.converged = true};
    float *info = stage->info + bin * SONAR_MVDR_INFO_FIELDS;
    unsigned flags = 0;
    info[SONAR_MVDR_DELTA] = 0;
    info[SONAR_MVDR_LEVEL] = 1;
    info[SONAR_MVDR_OFFSET] = (float)stage->bin[bin].offset;
    stage->bin[bin].k = 0;
    stage->bin[bin].view = (mvdr_view){0};
    if (factor.m && stage->rows.n) {
        bool in_double = wants_double(effective_snapshots(stage, &factor), stage->rows.n);
        solution = solve(stage, bin, &factor, scratch, in_double);
        flags = load(stage, bin, solution.kept, &factor, scratch, info) |
                (solution.converged ? 0 : SONAR_MVDR_FLAG_NOT_CONVERGED);
    }
    info[SONAR_MVDR_SWEEPS] = (float)solution.sweeps;
    info[SONAR_MVDR_RESIDUAL] = (float)solution.residual;
    info[SONAR_MVDR_FLAGS] = (float)flags;
    info[SONAR_MVDR_SNAPSHOTS] = (float)factor.snapshots;
}

static void accumulate_products(void *arg, size_t bin, size_t worker) {
    (void)worker;
    mvdr_tone_accumulate(arg, bin);
}

static void bin_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    mvdr_scratch *scratch = &stage->scratch[worker];
    if (stage->tones && stage->arrived)
        mvdr_tone_steer(stage, bin);
    decompose(stage, bin, scratch);
    for (size_t t = 0; t < stage->directions; t += MVDR_LANES)
        mvdr_spectrum_power(&stage->bin[bin].view, stage->rows.turns + t * stage->rows.n,
                            stage->spec.first_bin + bin, scratch,
                            stage->power + bin * stage->directions + t);
}

/* ---- execute --------------------------------------------------------------------------------- */

static void write_rows(const sonar_buffer *out, const float *from, size_t rows, size_t columns,
                       size_t stride) {
    for (size_t i = 0; out->data && i < rows; i++)
        memcpy((float *)out->data + (ptrdiff_t)i * out->stride[0], from + i * stride,
               columns * sizeof *from);
}

/* Sums in double, bin after bin. */
static float band_power(const mvdr_stage *stage, const float *power, size_t stride) {
    double sum = 0;
    for (size_t bin = 0; bin < stage->spec.bins; bin++)
        sum += (double)power[bin * stride];
    return (float)fmin(sum * stage->spec.fs_hz / (double)stage->spec.length, (double)FLT_MAX);
}

static sonar_code execute(void *opaque, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    (void)queue;
    mvdr_stage *stage = opaque;
    const sonar_mvdr_spec *spec = &stage->spec;
    sonar_code code = mvdr_check_shapes(spec, in, out, err);
    if (!code)
        code = mvdr_rows_update(stage, work->params, err);
    if (code)
        return code;
    stage->in = in;
    stage->arrived = in->shape[0];
    if (stage->tones && stage->arrived)
        stage->host->parallel(stage->host->ctx, spec->bins, accumulate_products, stage);
    stage->host->parallel(stage->host->ctx, spec->bins, bin_task, stage);
    mvdr_factor_advance(stage);
    float *azimuth = out[SONAR_MVDR_OUT_AZIMUTH].data;
    for (size_t t = 0; azimuth && t < spec->directions; t++)
        azimuth[t] = band_power(stage, stage->power + t, stage->directions);
    if (work->outputs & SONAR_WANT(SONAR_MVDR_SPECTRUM))
        write_rows(&out[SONAR_MVDR_OUT_SPECTRUM], stage->power, spec->bins, spec->directions,
                   stage->directions);
    write_rows(&out[SONAR_MVDR_OUT_INFO], stage->info, spec->bins, SONAR_MVDR_INFO_FIELDS,
               SONAR_MVDR_INFO_FIELDS);
    return SONAR_OK;
}

/* ---- evaluate -------------------------------------------------------------------------------- */

static void sample_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    mvdr_spectrum_power(&stage->bin[bin].view, stage->points, stage->spec.first_bin + bin,
                        &stage->scratch[worker], stage->sample + bin * MVDR_LANES);
}

/* Eight points' turns, transposed; the last ones repeat where there are fewer. */
static void take_points(mvdr_stage *stage, const sonar_buffer *turns, size_t first) {
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        size_t point = sonar_min_size(first + lane, turns->shape[0] - 1);
        const uint64_t *from = (const uint64_t *)turns->data + (ptrdiff_t)point * turns->stride[0];
        for (size_t i = 0; i < stage->rows.n; i++)
            stage->points[i * MVDR_LANES + lane] = from[stage->rows.sensor[i]];
    }
}

static sonar_code evaluate(void *opaque, sonar_queue *queue, const sonar_buffer *turns,
                           sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    (void)queue, (void)work;
    mvdr_stage *stage = opaque;
    size_t count = turns->shape[0];
    if (count == 0)
        return SONAR_OK;
    sonar_code code = mvdr_check_points(&stage->spec, turns, power, err);
    if (code)
        return code;
    for (size_t first = 0; first < count; first += MVDR_LANES) {
        take_points(stage, turns, first);
        stage->host->parallel(stage->host->ctx, stage->spec.bins, sample_task, stage);
        for (size_t i = first; i < count && i < first + MVDR_LANES; i++)
            ((float *)power->data)[(ptrdiff_t)i * power->stride[0]] =
                band_power(stage, stage->sample + (i - first), MVDR_LANES);
    }
    return SONAR_OK;
}

const sonar_stage_ops sonar_mvdr_jacobi_cpu = {.name = "mvdr_jacobi",
                                               .create = create,
                                               .execute = execute,
                                               .evaluate = evaluate,
                                               .reset = reset,
                                               .destroy = destroy};
