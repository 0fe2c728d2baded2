/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The CPU's MVDR stage: one task for each bin. All operations on a bin have a fixed order, so that
 * results do not depend on the number of workers. */
#include "mvdr_jacobi/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char where[] = "mvdr_jacobi";

/* ---- create, destroy ------------------------------------------------------------------------- */

/* Sizes that follow from the specification. */
static void set_sizes(mvdr_stage *stage) {
    const sonar_mvdr_spec *spec = &stage->spec;
    stage->shape = mvdr_shape_of(spec);
    stage->columns = mvdr_slot_columns(&stage->shape) * stage->shape.slots;
    stage->held = spec->parts == SONAR_MVDR_JOINED ? 1 : spec->sensors;
    stage->ld = mvdr_pad(stage->held, MVDR_LANES);
    stage->directions = mvdr_pad(spec->directions, MVDR_LANES);
    stage->near_points = mvdr_pad(spec->ranges * spec->directions, MVDR_LANES);
    stage->modes = sonar_mvdr_modes(spec);
    const size_t order = mvdr_pad(stage->shape.order, MVDR_LANES);
    stage->factor_size =
        mvdr_has_vectors(spec) ? sonar_times(order, 2 * order) : mvdr_triangle(order);
    stage->basis_size = mvdr_has_vectors(spec) || spec->music ? sonar_times(order, 2 * order) : 0;
    stage->may_slide = mvdr_route_exists(spec, MVDR_ON_CPU, stage->named, MVDR_ROUTE_UPDATE);
}

static void lay_out_sums(mvdr_stage *stage, sonar_arena *arena) {
    const size_t bins = stage->spec.bins, slots = stage->shape.slots;
    const bool grams = stage->shape.by_snapshots;
    const size_t columns = grams ? stage->columns : 0, gram = sonar_times(bins * columns, columns);
    SONAR_ARENA(arena, stage->ring, sonar_times(bins * 2 * stage->ld, stage->columns));
    SONAR_ARENA(arena, stage->valid, slots * bins);
    SONAR_ARENA(arena, stage->gram_re, gram);
    SONAR_ARENA(arena, stage->gram_im, gram);
    SONAR_ARENA(arena, stage->project, sonar_times(bins * columns * 2, stage->directions));
    SONAR_ARENA(arena, stage->covariance,
                sonar_times(grams ? 1 : bins, mvdr_triangle(grams ? 1 : stage->spec.sensors)));
}

/* Lays out all memory of the stage except the workers' scratch. */
static void lay_out(mvdr_stage *stage, sonar_arena *arena) {
    const sonar_mvdr_spec *spec = &stage->spec;
    const size_t sensors = spec->sensors, bins = spec->bins, held = stage->held;
    const bool tones = spec->tones || stage->tones;
    SONAR_ARENA(arena, stage->rows.used, sensors);
    SONAR_ARENA(arena, stage->rows.before, sensors);
    SONAR_ARENA(arena, stage->rows.mirror, sensors);
    SONAR_ARENA(arena, stage->rows.turns, stage->directions * held);
    SONAR_ARENA(arena, stage->rows.near, stage->near_points * held);
    SONAR_ARENA(arena, stage->list, 3 * sensors);
    lay_out_sums(stage, arena);
    SONAR_ARENA(arena, stage->bin, bins);
    SONAR_ARENA(arena, stage->factor, sonar_times(bins, stage->factor_size));
    if (stage->basis_size)
        SONAR_ARENA(arena, stage->basis, sonar_times(bins, stage->basis_size));
    if (stage->may_slide)
        SONAR_ARENA(arena, stage->inverse, bins);
    SONAR_ARENA(arena, stage->slope, stage->may_slide ? bins * stage->directions : 1);
    SONAR_ARENA(arena, stage->energy, stage->may_slide ? bins * stage->shape.slots : 1);
    SONAR_ARENA(arena, stage->lambda,
                (spec->white_noise_gain_db < 0 ? bins : 1) * 2 * (stage->shape.order + 1));
    SONAR_ARENA(arena, stage->power, bins * stage->directions);
    SONAR_ARENA(arena, stage->near_power, bins * stage->near_points);
    SONAR_ARENA(arena, stage->share, spec->music ? bins * stage->directions : 1);
    SONAR_ARENA(arena, stage->info, bins * SONAR_MVDR_INFO_FIELDS);
    SONAR_ARENA(arena, stage->eigenvalue, bins * stage->modes);
    if (tones)
        SONAR_ARENA(arena, stage->tones, 1);
    SONAR_ARENA(arena, stage->pair, tones ? spec->snapshots * bins : 1);
    SONAR_ARENA(arena, stage->points, held * MVDR_AT_ONCE);
    SONAR_ARENA(arena, stage->sample, bins * MVDR_AT_ONCE);
}

double sonar_mvdr_bytes(const sonar_mvdr_spec *spec, size_t workers) {
    mvdr_stage stage = {.spec = *spec};
    mvdr_scratch scratch = {0};
    sonar_arena all = {0}, each = {0};
    set_sizes(&stage);
    lay_out(&stage, &all);
    mvdr_scratch_lay_out(&stage, &scratch, &each);
    return (double)sizeof stage + all.bytes +
           (double)workers * ((double)sizeof scratch + each.bytes);
}

static sonar_arena run_arena(mvdr_stage *stage, sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    lay_out(stage, &arena);
    for (size_t i = 0; i < stage->host->workers; i++)
        mvdr_scratch_lay_out(stage, &stage->scratch[i], &arena);
    return arena;
}

static void destroy(void *opaque) {
    mvdr_stage *stage = opaque;
    if (!stage)
        return;
    run_arena(stage, SONAR_ARENA_FREE);
    free(stage);
}

static sonar_code create(const void *spec, const sonar_host *host, void **out, sonar_error *err) {
    *out = NULL;
    sonar_code code = mvdr_check_spec(spec, err);
    if (code)
        return code;
    mvdr_stage *stage = sonar_alloc(1, sizeof *stage + host->workers * sizeof *stage->scratch);
    if (!stage)
        return sonar_fail(err, SONAR_ENOMEM, where, "no memory for the stage");
    memcpy(&stage->spec, spec, sizeof stage->spec);
    stage->host = host;
    stage->named = mvdr_routes_named(host);
    set_sizes(stage);
    if (run_arena(stage, SONAR_ARENA_ALLOCATE).failed) {
        code = sonar_fail(err, SONAR_ENOMEM, where, "no memory for %zu bins of %zu sensors",
                          stage->spec.bins, stage->spec.sensors);
        destroy(stage);
        return code;
    }
    const mvdr_kernels *kernels = mvdr_kernels_here();
    for (size_t i = 0; i < host->workers; i++)
        stage->scratch[i].kernels = kernels;
    if (stage->tones)
        *stage->tones = *stage->spec.tones;
    stage->spec.tones = NULL; /* borrowed */
    *out = stage;
    return SONAR_OK;
}

/* `projected` is kept, because the memory of the projections is. */
static void reset(void *opaque) {
    mvdr_stage *stage = opaque;
    stage->filled = stage->next = 0;
    stage->solved = false;
    for (size_t b = 0; b < stage->spec.bins; b++)
        stage->bin[b] = (mvdr_bin){.projected = stage->bin[b].projected};
    for (size_t b = 0; stage->inverse && b < stage->spec.bins; b++)
        stage->inverse[b] = (mvdr_inverse){0};
    if (!stage->shape.by_snapshots)
        memset(stage->covariance, 0,
               stage->spec.bins * mvdr_triangle(stage->spec.sensors) * sizeof(double));
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static void accumulate_products(void *arg, size_t bin, size_t worker) {
    (void)worker;
    mvdr_tone_accumulate(arg, bin);
}

static bool in_band(const mvdr_stage *stage, size_t bin) {
    return bin >= stage->band.begin && bin < stage->band.end;
}

static void take_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    mvdr_scratch *scratch = &stage->scratch[worker];
    if (stage->spec.parts == SONAR_MVDR_JOINED) {
        mvdr_take_joined(stage, bin);
        return;
    }
    if (stage->tones && (stage->arrived || stage->changed))
        mvdr_tone_steer(stage, bin);
    if (stage->inverse)
        mvdr_inverse_before(stage, bin, stage->slides && in_band(stage, bin), scratch);
    mvdr_take(stage, bin, scratch);
}

static void look_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    mvdr_scratch *scratch = &stage->scratch[worker];
    if (!in_band(stage, bin))
        return;
    if (stage->wants.any)
        mvdr_solve(stage, bin, scratch);
    if (stage->wants.music)
        mvdr_music(stage, bin, scratch);
    if (stage->wants.far)
        mvdr_spectrum(stage, bin, scratch);
    if (stage->wants.near)
        mvdr_spectrum_near(stage, bin, scratch);
}

/* In sensor space the bin's covariance stays in the cache from one to the other. */
static void take_and_look_task(void *arg, size_t bin, size_t worker) {
    take_task(arg, bin, worker);
    look_task(arg, bin, worker);
}

static void solve_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    if (in_band(stage, bin))
        mvdr_solve(stage, bin, &stage->scratch[worker]);
}

/* ---- execute --------------------------------------------------------------------------------- */

/* Writes the rows of the bins in use. */
static void write_rows(const mvdr_stage *stage, const sonar_buffer *out, const float *from,
                       size_t columns, size_t stride) {
    for (size_t i = stage->band.begin; out->data && i < stage->band.end; i++)
        memcpy((float *)out->data + (ptrdiff_t)i * out->stride[0], from + i * stride,
               columns * sizeof *from);
}

/* The power in the band, summed in double, bin after bin. */
static float band_power(const mvdr_stage *stage, const float *power, size_t stride) {
    double sum = 0;
    for (size_t bin = stage->band.sum_begin; bin < stage->band.sum_end; bin++)
        sum += (double)power[bin * stride];
    return (float)fmin(sum * stage->spec.fs_hz / (double)stage->spec.length, (double)FLT_MAX);
}

/* Writes the band powers of rows x columns points. `stride`: elements from bin to bin. */
static void write_bands(const mvdr_stage *stage, const sonar_buffer *out, const float *power,
                        size_t rows, size_t columns, size_t stride) {
    for (size_t i = 0; out->data && i < rows; i++)
        for (size_t t = 0; t < columns; t++)
            ((float *)out->data)[(ptrdiff_t)i * out->stride[0] + (ptrdiff_t)t] =
                band_power(stage, power + i * columns + t, stride);
}

static void publish(const mvdr_stage *stage, sonar_buffer *out, uint32_t outputs) {
    const sonar_mvdr_spec *spec = &stage->spec;
    if (stage->wants.far)
        write_bands(stage, &out[SONAR_MVDR_OUT_AZIMUTH], stage->power, 1, spec->directions,
                    stage->directions);
    if (outputs & SONAR_WANT(SONAR_MVDR_SPECTRUM))
        write_rows(stage, &out[SONAR_MVDR_OUT_SPECTRUM], stage->power, spec->directions,
                   stage->directions);
    if (stage->wants.near)
        write_bands(stage, &out[SONAR_MVDR_OUT_NEARFIELD], stage->near_power, spec->ranges,
                    spec->directions, stage->near_points);
    if (outputs & SONAR_WANT(SONAR_MVDR_EIGENVALUES))
        write_rows(stage, &out[SONAR_MVDR_OUT_EIGENVALUES], stage->eigenvalue, stage->modes,
                   stage->modes);
    if (stage->wants.music)
        mvdr_music_publish(stage, &out[SONAR_MVDR_OUT_MUSIC]);
    write_rows(stage, &out[SONAR_MVDR_OUT_INFO], stage->info, SONAR_MVDR_INFO_FIELDS,
               SONAR_MVDR_INFO_FIELDS);
}

static void take_and_look(mvdr_stage *stage) {
    const sonar_host *host = stage->host;
    const size_t bins = stage->spec.bins;
    if (!stage->shape.by_snapshots || stage->spec.parts) {
        host->parallel(host->ctx, bins, take_and_look_task, stage);
        return;
    }
    host->parallel(host->ctx, bins, take_task, stage);
    mvdr_project_all(stage);
    host->parallel(host->ctx, bins, look_task, stage);
}

static sonar_code execute(void *opaque, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    (void)queue;
    mvdr_stage *stage = opaque;
    const sonar_mvdr_spec *spec = &stage->spec;
    const bool joined = spec->parts == SONAR_MVDR_JOINED;
    if (spec->parts == SONAR_MVDR_PART)
        return mvdr_part_execute(stage, in, out, work, err);
    sonar_code code =
        joined ? mvdr_check_joined(spec, in, out, err) : mvdr_check_shapes(spec, in, out, err);
    if (!code)
        code = mvdr_rows_update(stage, work->params, err);
    if (code)
        return code;
    stage->in = in;
    stage->arrived = joined && in->shape[0] ? work->snapshots : in->shape[0];
    stage->wants = mvdr_wants_of(work, out);
    const mvdr_problem window = mvdr_problem_of(spec, &stage->wants, MVDR_ON_CPU);
    stage->slides = mvdr_route_of(&window, MVDR_ON_CPU, stage->named) == MVDR_ROUTE_UPDATE;
    if (stage->tones && (stage->arrived || stage->mask_changed) && !joined)
        stage->host->parallel(stage->host->ctx, spec->bins, accumulate_products, stage);
    take_and_look(stage);
    mvdr_advance(stage);
    stage->solved = stage->wants.any;
    stage->slides = false;
    if (stage->solved)
        publish(stage, out, work->outputs);
    return SONAR_OK;
}

/* ---- evaluate -------------------------------------------------------------------------------- */

/* Evaluates all points of a bin one after another, while its snapshots are in the cache. */
static void sample_task(void *arg, size_t bin, size_t worker) {
    mvdr_stage *stage = arg;
    const size_t each = 1 + 2 * stage->columns;
    const size_t most = in_band(stage, bin) ? stage->looked_at : 0;
    for (size_t p = 0; p < most && stage->spec.parts; p += MVDR_LANES)
        mvdr_spectrum_joined(
            stage, bin,
            (const double *)stage->in->data + (ptrdiff_t)bin * stage->in->stride[0] +
                (ptrdiff_t)((stage->first_looked + p) * each),
            most - p, &stage->scratch[worker], stage->sample + bin * MVDR_AT_ONCE + p);
    if (!stage->spec.parts)
        mvdr_spectrum_at(stage, bin, stage->points, most / MVDR_LANES, &stage->scratch[worker],
                         stage->sample + bin * MVDR_AT_ONCE);
}

void mvdr_take_points(mvdr_stage *stage, const sonar_buffer *turns, size_t first) {
    const size_t sensors = stage->spec.sensors, count = turns->shape[0];
    stage->looked_at = mvdr_pad(sonar_min_size(count - first, MVDR_AT_ONCE), MVDR_LANES);
    for (size_t p = 0; p < stage->looked_at; p++) {
        const size_t point = sonar_min_size(first + p, count - 1);
        const uint64_t *from = (const uint64_t *)turns->data + (ptrdiff_t)point * turns->stride[0];
        uint64_t *to = stage->points + p / MVDR_LANES * sensors * MVDR_LANES + p % MVDR_LANES;
        for (size_t i = 0; i < sensors; i++)
            to[i * MVDR_LANES] = from[i];
    }
}

static sonar_code evaluate(void *opaque, sonar_queue *queue, const sonar_buffer *turns,
                           sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    (void)queue, (void)work;
    mvdr_stage *stage = opaque;
    const bool joined = stage->spec.parts == SONAR_MVDR_JOINED;
    size_t count = turns->shape[joined ? 1 : 0];
    if (count == 0)
        return SONAR_OK;
    if (stage->spec.parts == SONAR_MVDR_PART)
        return mvdr_part_evaluate(stage, turns, power, err);
    sonar_code code = joined ? mvdr_check_point_sums(&stage->spec, turns, power->shape[0], err)
                             : mvdr_check_points(&stage->spec, turns, power, err);
    if (code)
        return code;
    if (!stage->solved)
        stage->host->parallel(stage->host->ctx, stage->spec.bins, solve_task, stage);
    stage->solved = true;
    for (size_t first = 0; first < count; first += MVDR_AT_ONCE) {
        stage->in = turns;
        stage->first_looked = first;
        stage->looked_at = sonar_min_size(count - first, MVDR_AT_ONCE);
        if (!joined)
            mvdr_take_points(stage, turns, first);
        stage->host->parallel(stage->host->ctx, stage->spec.bins, sample_task, stage);
        for (size_t i = first; i < count && i < first + MVDR_AT_ONCE; i++)
            ((float *)power->data)[(ptrdiff_t)i * power->stride[0]] =
                band_power(stage, stage->sample + (i - first), MVDR_AT_ONCE);
    }
    return SONAR_OK;
}

static sonar_code join(void *opaque, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                       const sonar_work *work, sonar_error *err) {
    (void)queue, (void)work;
    return mvdr_part_join(opaque, in, out, err);
}

const sonar_stage_ops sonar_mvdr_jacobi_cpu = {.name = "mvdr_jacobi",
                                               .create = create,
                                               .execute = execute,
                                               .evaluate = evaluate,
                                               .reset = reset,
                                               .destroy = destroy,
                                               .join = join};
