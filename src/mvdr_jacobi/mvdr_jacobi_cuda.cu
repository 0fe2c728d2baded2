/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The GPU's MVDR stage, the CPU stage's twin, all in float64: sums over the sensors
 * (sums_cuda.cuh) or over the snapshots (arrive_cuda.cuh), a thread block a bin from these to
 * loading and inverse factor (solve_cuda.cuh), one for 32 of its directions (spectrum_cuda.cuh).
 * Nothing is decided on the host and no intermediate result leaves the device.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/cuda_common.cuh"
#include "mvdr_jacobi/arrive_cuda.cuh"
#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/cusolver_cuda.cuh"
#include "mvdr_jacobi/music_cuda.cuh"
#include "mvdr_jacobi/parts_cuda.cuh"
#include "mvdr_jacobi/solve_cuda.cuh"
#include "mvdr_jacobi/spectrum_cuda.cuh"
#include "mvdr_jacobi/sums_cuda.cuh"
#include "mvdr_jacobi/tone_cuda.cuh"

static const char where[] = "mvdr_jacobi";

namespace {

using mvdr::complex32;
using mvdr::complex64;

constexpr uint32_t AT_ONCE = 64; /* points of an evaluation */
constexpr unsigned SOLVE_THREADS = 512;
constexpr size_t FEW_ROWS = 192; /* so far all eigenvalues take less time than two of them */

/* Shared memory of a solving block. */
struct fit {
    size_t shared_bytes; /* most that it has use for, */
    bool matrix_fits;    /* with one of its matrices or more */
};

struct mvdr_stage {
    mvdr::view view; /* with the stage's device memory; kernels get a copy */
    mvdr_shape shape;
    mvdr::points grid, look; /* the stage's directions, and room for others: AT_ONCE of them, or
                                a range of the near field */
    uint64_t *near_turns;    /* [range][direction][sensor] */
    mvdr::parts few, many;   /* of the sensors */
    mvdr::cusolver library;  /* closed: eigenvectors are found by Jacobi's method */
    size_t *device_rows;     /* sensor, partner: `sensors` entries each */
    uint32_t *mirror;        /* [sensor] on the host */
    size_t *rows, *row_of;   /* the same as on the device; scratch */
    fit solver, music;       /* of mvdr::solve, of mvdr::find_subspace */
    uint8_t *used;           /* [sensor] of the last parameters */
    uint64_t version, far_made, near_made; /* of these, and of their tables */
    bool versioned, forgotten;
    bool changed;     /* new parameters have come: tones are looked at again */
    bool stale;       /* the sums are of other sensors or turns */
    size_t held;      /* sensors that have snapshots here: joined, none have */
    uint32_t arrived; /* a part: snapshots of the last execute, until join */
};

/* ---- create, destroy ------------------------------------------------------------------------- */

void destroy(void *opaque) {
    mvdr_stage *stage = (mvdr_stage *)opaque;
    if (!stage)
        return;
    mvdr::view *v = &stage->view;
    void *device[] = {stage->device_rows,
                      stage->near_turns,
                      stage->grid.steering,
                      stage->look.projection,
                      stage->look.steering,
                      stage->look.norm,
                      stage->look.power,
                      (void *)v->mirror,
                      (void *)v->turns,
                      v->snapshot,
                      v->fresh,
                      v->valid,
                      v->root,
                      v->sums,
                      v->rest,
                      v->projection,
                      v->norm,
                      v->made,
                      v->stale,
                      v->partial,
                      v->factor,
                      v->work,
                      v->vector,
                      v->d,
                      v->inverse,
                      v->signal,
                      v->member,
                      v->share,
                      v->own,
                      v->energy,
                      v->power,
                      v->info,
                      v->eigenvalue,
                      v->unsolved,
                      v->bin,
                      v->ring,
                      v->tones,
                      v->pair};
    for (void *memory : device)
        cudaFree(memory);
    mvdr::cusolver_close(&stage->library);
    free(stage->mirror);
    free(stage->rows);
    free(stage->row_of);
    free(stage->used);
    free(stage);
}

/* Several allocations, one verdict: the first failure sticks. */
struct allocator {
    sonar_error *err;
    sonar_code code;

    template <typename X> void make(X **memory, size_t count, size_t each = 1) {
        size_t total;
        if (code)
            return;
        code = __builtin_mul_overflow(count, each, &total)
                   ? sonar_fail(err, SONAR_ENOMEM, where, "%zu x %zu elements are too many", count,
                                each)
                   : sonar_cuda_alloc(where, total, memory, err);
    }
};

/* Sums over parts of the sensors: of a few snapshots or of all, with snapshots or directions. */
size_t partial_size(const mvdr_stage *stage) {
    const mvdr::view *v = &stage->view;
    const size_t directions = sonar_max_size(v->spec.directions, stage->look.pitch) * v->images;
    const size_t rows =
        sonar_max_size(stage->few.count * (size_t)mvdr::FEW, stage->many.count * (size_t)v->length);
    return v->by_snapshots ? rows * sonar_max_size(directions, v->columns) : 0;
}

sonar_code allocate_snapshots(mvdr_stage *stage, sonar_error *err) {
    mvdr::view *v = &stage->view;
    const size_t sensors = stage->held, bins = v->spec.bins, directions = v->spec.directions;
    const size_t spaces = v->by_snapshots ? bins : 0, columns = v->columns;
    const size_t covariances = bins - spaces;
    allocator memory = {err, SONAR_OK};
    memory.make(&v->snapshot, bins * sensors, v->length);
    memory.make(&v->fresh, bins, v->spec.max_new);
    memory.make(&v->valid, bins, v->length);
    memory.make(&v->root, bins, v->length);
    memory.make(&v->sums, bins, v->sums_stride);
    if (covariances && v->length)
        memory.make(&v->rest, bins, v->sums_stride);
    memory.make(&v->projection, spaces * directions, columns);
    memory.make(&v->norm, bins, directions);
    memory.make(&v->made, bins);
    memory.make(&v->stale, bins);
    memory.make(&v->partial, stage->held ? bins : 0, partial_size(stage));
    memory.make(&stage->look.projection, spaces * stage->look.pitch, columns);
    memory.make(&stage->grid.steering, covariances,
                mvdr::steering_size((uint32_t)directions, v->most));
    memory.make(&stage->look.steering, covariances,
                mvdr::steering_size(stage->look.pitch, v->most));
    memory.make(&stage->look.norm, bins, stage->look.pitch);
    memory.make(&stage->look.power, bins, stage->look.pitch);
    if (v->spec.tones) {
        memory.make(&v->tones, 1);
        memory.make(&v->pair, v->pairs, bins);
    }
    return memory.code;
}

sonar_code allocate_results(mvdr_stage *stage, sonar_error *err) {
    mvdr::view *v = &stage->view;
    const size_t sensors = v->spec.sensors, bins = v->spec.bins, most = v->most;
    allocator memory = {err, SONAR_OK};
    uint64_t *turns = NULL;
    uint32_t *mirror = NULL;
    memory.make(&stage->device_rows, 2, sensors);
    memory.make(&mirror, sensors);
    memory.make(&turns, v->spec.directions, stage->held);
    memory.make(&stage->near_turns, v->spec.ranges * v->spec.directions, stage->held);
    memory.make(&v->factor, bins * most, most);
    memory.make(&v->work, v->vectors || v->music_decomposes ? bins * most : 0, most);
    memory.make(&v->vector, bins * most, mvdr::VECTORS);
    memory.make(&v->d, bins, most);
    memory.make(&v->inverse, v->vectors ? bins : 0, most);
    memory.make(&v->signal, v->music_decomposes ? bins * most : 0, most);
    memory.make(&v->member, v->spec.music ? bins : 0, most);
    memory.make(&v->share, v->spec.music ? bins : 0, v->spec.directions);
    memory.make(&v->own, v->gain > 0 ? bins : 0, most);
    memory.make(&v->energy, v->gain > 0 ? bins * most : 0,
                sonar_max_size(v->spec.directions, stage->look.pitch));
    memory.make(&v->power, bins, v->spec.directions);
    memory.make(&v->info, bins, SONAR_MVDR_INFO_FIELDS);
    memory.make(&v->eigenvalue, bins, v->modes);
    memory.make(&v->unsolved, bins);
    memory.make(&v->bin, bins);
    memory.make(&v->ring, 1);
    v->turns = turns;
    v->mirror = mirror;
    v->sensor = stage->device_rows;
    v->partner = stage->device_rows + sensors;
    mvdr::points *grid = &stage->grid;
    grid->turns = turns;
    grid->stride = sensors;
    grid->count = grid->pitch = (uint32_t)v->spec.directions;
    grid->projection = v->projection;
    grid->norm = v->norm;
    grid->power = v->power;
    return memory.code;
}

/* Whether every bin's solution wants all eigenvalues, and the shared memory for it. Without any of
 * its matrices, vectors there are of use for eigenvalues alone, and else it is better left to the
 * cache. */
void prepare_solver(mvdr_stage *stage) {
    mvdr::view *v = &stage->view;
    const bool few = stage->shape.order + stage->shape.order % 2 <= FEW_ROWS;
    v->eigenvalues = v->spec.source_count ||
                     (v->spec.loading == SONAR_LOADING_NOISE && (few || v->spec.known_sources));
    const bool useful = stage->solver.matrix_fits || v->vectors || v->eigenvalues;
    v->shared_bytes = useful ? stage->solver.shared_bytes : 0;
}

/* Sizes a solving block's shared memory: its vectors, and as many of its one or two matrices as
 * fit. */
template <typename Kernel>
sonar_code fit_kernel(const mvdr_stage *stage, Kernel *kernel, bool two, fit *fit,
                      sonar_error *err) {
    cudaFuncAttributes own;
    int most;
    sonar_code code =
        sonar_cuda_attribute(where, cudaDevAttrMaxSharedMemoryPerBlockOptin, &most, err);
    if (code)
        return code;
    CUDA_TRY(where, cudaFuncGetAttributes(&own, kernel), err);
    const size_t room = (size_t)most - own.sharedSizeBytes;
    const size_t rows = stage->shape.order + stage->shape.order % 2;
    const size_t matrix = rows * mvdr::odd((uint32_t)rows) * sizeof(complex64) + 16;
    const size_t vectors = mvdr::VECTORS * (rows * sizeof(complex64) + 16);
    fit->matrix_fits = vectors + matrix <= room;
    size_t bytes = fit->matrix_fits ? vectors + matrix : vectors <= room ? vectors : 0;
    if (two && vectors + 2 * matrix <= room)
        bytes += matrix;
    fit->shared_bytes = bytes / 16 * 16;
    return CUDA_CHECK(
        where, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)room),
        err);
}

sonar_code fit_device(mvdr_stage *stage, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    sonar_code code = fit_kernel(stage, v->vectors ? mvdr::solve<true> : mvdr::solve<false>,
                                 v->vectors, &stage->solver, err);
    if (!code && v->music_decomposes)
        code = fit_kernel(stage, mvdr::find_subspace, true, &stage->music, err);
    prepare_solver(stage);
    return code;
}

sonar_code check_spec(const sonar_mvdr_spec *spec, sonar_error *err) {
    sonar_code code = mvdr_check_spec(spec, err);
    if (code)
        return code;
    const mvdr_shape shape = mvdr_shape_of(spec);
    if (shape.order > INT32_MAX || shape.slots > INT32_MAX || spec->sensors > INT32_MAX ||
        spec->bins > UINT16_MAX || spec->directions > INT32_MAX || spec->max_sweeps > INT32_MAX ||
        spec->max_new > INT32_MAX)
        return sonar_fail(err, SONAR_EINVAL, where, "empty or impossible shape");
    return SONAR_OK;
}

/* The constants of the kernels' view. */
void set_view(mvdr_stage *stage, const sonar_mvdr_spec *spec) {
    mvdr::view *v = &stage->view;
    const mvdr_shape *shape = &stage->shape;
    v->spec = *spec;
    stage->held = spec->parts == SONAR_MVDR_JOINED ? 0 : spec->sensors;
    v->by_snapshots = shape->by_snapshots;
    v->vectors = mvdr_has_vectors(spec);
    v->music_decomposes = mvdr_music_decomposes(spec);
    v->gain = spec->white_noise_gain_db < 0 ? pow(10, spec->white_noise_gain_db / 10) : 0;
    v->length = (uint32_t)shape->slots;
    v->images = (uint32_t)shape->each;
    v->columns = v->images * v->length;
    v->most = mvdr::padded((uint32_t)shape->order);
    v->modes = (uint32_t)sonar_mvdr_modes(spec);
    v->pairs = (uint32_t)(spec->alpha > 0 ? spec->max_new : spec->snapshots);
    v->sums_stride = v->by_snapshots ? (size_t)v->length * v->columns : (size_t)v->most * v->most;
    stage->look.pitch = (uint32_t)sonar_max_size(AT_ONCE, spec->ranges ? spec->directions : 0);
    stage->few = mvdr::parts_of_few(spec->sensors);
    stage->many = mvdr::parts_of_many(spec->sensors);
    stage->stale = true;
}

sonar_code prepare(mvdr_stage *stage, sonar_error *err) {
    size_t sensors = stage->view.spec.sensors;
    stage->rows = (size_t *)sonar_alloc(2 * sensors, sizeof(size_t));
    stage->row_of = (size_t *)sonar_alloc(sensors, sizeof(size_t));
    stage->mirror = (uint32_t *)sonar_alloc(sensors, sizeof(uint32_t));
    stage->used = (uint8_t *)sonar_alloc(sensors, 1);
    if (!stage->rows || !stage->row_of || !stage->mirror || !stage->used)
        return sonar_fail(err, SONAR_ENOMEM, where, "no memory for %zu sensors", sensors);
    sonar_code code = fit_device(stage, err);
    if (!code)
        code = allocate_snapshots(stage, err);
    if (!code)
        code = allocate_results(stage, err);
    if (!code && stage->view.tones)
        code = CUDA_CHECK(where,
                          cudaMemcpy(stage->view.tones, stage->view.spec.tones,
                                     sizeof *stage->view.tones, cudaMemcpyHostToDevice),
                          err);
    stage->view.spec.tones = NULL; /* borrowed */
    return code;
}

/* Decision "mvdr.eigenvectors": "jacobi" or "cusolver". Where cuSOLVER cannot be had, Jacobi's
 * method finds them as it would untrained. Tests name a release that there is not. */
void choose_library(mvdr_stage *stage, const sonar_host *host) {
    mvdr::view *v = &stage->view;
    const bool wanted = v->vectors || v->music_decomposes;
    const char *way = wanted ? sonar_host_choice(host, "mvdr.eigenvectors") : NULL;
    if (!way || strcmp(way, "cusolver") != 0)
        return;
    const char *release = sonar_host_choice(host, "mvdr.cusolver");
    mvdr::cusolver *s = &stage->library;
    char library[64];
    sonar_error err = {};
    snprintf(library, sizeof library, "libcusolver.so.%d",
             release ? atoi(release) : CUSOLVER_VER_MAJOR);
    s->order = v->most, s->count = (uint32_t)v->spec.bins;
    s->matrix = v->vectors ? v->factor : v->signal;
    if (mvdr::cusolver_open(s, library, &err))
        sonar_log(host, SONAR_WARN, where,
                  "eigenvectors by Jacobi's method, as cuSOLVER cannot be used: %s: %s", err.where,
                  err.text);
    v->ascending = s->d, v->failed = s->failed;
}

sonar_code create(const void *opaque, const sonar_host *host, void **out, sonar_error *err) {
    const sonar_mvdr_spec *spec = (const sonar_mvdr_spec *)opaque;
    *out = NULL;
    sonar_code code = check_spec(spec, err);
    if (code)
        return code;
    mvdr_stage *stage = (mvdr_stage *)sonar_alloc(1, sizeof *stage);
    if (!stage)
        return sonar_fail(err, SONAR_ENOMEM, where, "no memory for the stage");
    stage->shape = mvdr_shape_of(spec);
    set_view(stage, spec);
    if ((code = prepare(stage, err)) != SONAR_OK) {
        destroy(stage);
        return code;
    }
    choose_library(stage, host);
    *out = stage;
    return SONAR_OK;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* There is no queue to do it on here: the next call does. */
void reset(void *opaque) {
    mvdr_stage *stage = (mvdr_stage *)opaque;
    stage->forgotten = true;
}

/* What has been solved is to be solved again. */
sonar_code resolve(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    return CUDA_CHECK(
        where, cudaMemsetAsync(v->unsolved, 1, v->spec.bins * sizeof *v->unsolved, stream), err);
}

sonar_code forget(mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    if (!stage->forgotten)
        return SONAR_OK;
    const mvdr::view *v = &stage->view;
    CUDA_TRY(where, cudaMemsetAsync(v->bin, 0, v->spec.bins * sizeof *v->bin, stream), err);
    CUDA_TRY(where, cudaMemsetAsync(v->ring, 0, sizeof *v->ring, stream), err);
    if (!v->by_snapshots) {
        const size_t bytes = v->spec.bins * v->sums_stride * sizeof *v->sums;
        CUDA_TRY(where, cudaMemsetAsync(v->sums, 0, bytes, stream), err);
        if (v->rest)
            CUDA_TRY(where, cudaMemsetAsync(v->rest, 0, bytes, stream), err);
    }
    stage->forgotten = false;
    return resolve(stage, stream, err);
}

/* The used sensors as rows, and by sensor what the sums need. */
void list_rows(mvdr_stage *stage, const sonar_params *params) {
    mvdr::view *v = &stage->view;
    const size_t sensors = v->spec.sensors;
    size_t *partner = stage->rows + sensors;
    v->n = (uint32_t)mvdr_list_rows(params, v->spec.forward_backward, stage->rows, partner,
                                    stage->row_of);
    v->middle = v->n ? stage->rows[mvdr_middle_row(params, stage->rows, v->n)] : 0;
    if (v->spec.parts)
        v->middle = mvdr::ORIGIN;
    v->order = v->by_snapshots && v->n ? v->columns : v->n;
    memset(stage->mirror, 0xff, sensors * sizeof *stage->mirror);
    for (uint32_t i = 0; i < v->n; i++)
        stage->mirror[stage->rows[i]] =
            (uint32_t)stage->rows[v->spec.forward_backward ? partner[i] : i];
}

/* Pageable memory is read before these copies return, so that the arrays may change again. */
sonar_code upload_rows(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    size_t sensors = stage->view.spec.sensors;
    CUDA_TRY(where,
             cudaMemcpyAsync(stage->device_rows, stage->rows, 2 * sensors * sizeof(size_t),
                             cudaMemcpyHostToDevice, stream),
             err);
    return CUDA_CHECK(where,
                      cudaMemcpyAsync((void *)stage->view.mirror, stage->mirror,
                                      sensors * sizeof(uint32_t), cudaMemcpyHostToDevice, stream),
                      err);
}

/* A table that is not there yet. True in `*same`: it is. */
sonar_code upload_turns(const sonar_manifold *from, uint64_t *to, uint64_t *made, bool *same,
                        cudaStream_t stream, sonar_error *err) {
    const size_t count = from->ranges * from->directions * from->sensors;
    *same = from->made && from->made == *made;
    *made = from->made;
    return *same || !to ? SONAR_OK
                        : CUDA_CHECK(where,
                                     cudaMemcpyAsync(to, from->turns, count * sizeof *to,
                                                     cudaMemcpyHostToDevice, stream),
                                     err);
}

/* Takes the rows, mirrors, turns and live values of new parameters over. The last go to the kernels
 * with each launch: graphs, which repeat those of one version, are run for no other. What was made
 * of sensors and turns that stay is kept; but parts of an array make their sums anew together,
 * whoever's sensors are others, since all know the version alone. */
sonar_code update_rows(mvdr_stage *stage, const sonar_params *params, cudaStream_t stream,
                       sonar_error *err) {
    mvdr::view *v = &stage->view;
    const size_t sensors = v->spec.sensors;
    bool same_far, same_near;
    if (stage->versioned && stage->version == params->version)
        return SONAR_OK;
    sonar_code code = mvdr_check_params(&v->spec, params, err);
    if (!code)
        code = upload_turns(&params->far_mvdr, stage->held ? (uint64_t *)v->turns : NULL,
                            &stage->far_made, &same_far, stream, err);
    if (!code)
        code = upload_turns(&params->near_mvdr, stage->near_turns, &stage->near_made, &same_near,
                            stream, err);
    if (code)
        return code;
    mvdr_renew_spec(&v->spec, params);
    v->band = mvdr_band_of(&v->spec, params);
    prepare_solver(stage);
    const bool same = stage->versioned && !v->spec.parts && same_far &&
                      !memcmp(stage->used, params->used, sensors);
    memcpy(stage->used, params->used, sensors);
    if (!same) {
        list_rows(stage, params);
        stage->stale = true;
        code = upload_rows(stage, stream, err);
    }
    if (code)
        return code;
    stage->version = params->version;
    stage->versioned = stage->changed = true;
    return resolve(stage, stream, err);
}

/* ---- sums over the sensors ------------------------------------------------------------------- */

unsigned blocks_for(size_t items, size_t each) {
    return (unsigned)((items + each - 1) / each);
}

/* Of a few new snapshots. */
sonar_code add_few(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                   sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::points *p = &stage->grid;
    const unsigned bins = (unsigned)v->spec.bins;
    const dim3 sums(bins, stage->few.count, rows.count * blocks_for(v->length, 32));
    if (v->images == 2)
        mvdr::few_sums<true><<<sums, 256, 0, stream>>>(*v, rows, stage->few);
    else
        mvdr::few_sums<false><<<sums, 256, 0, stream>>>(*v, rows, stage->few);
    sonar_code code = CUDA_LAUNCHED(where, "few_sums", err);
    if (code)
        return code;
    mvdr::fold_sums<<<blocks_for((size_t)bins * rows.count * v->columns, 128), 128, 0, stream>>>(
        *v, rows, stage->few);
    if ((code = CUDA_LAUNCHED(where, "fold_sums", err)) != SONAR_OK)
        return code;
    const dim3 looks(blocks_for(p->count, 8 * mvdr::LOOK_DIRECTIONS),
                     blocks_for(bins, mvdr::LOOK_BINS), rows.count * stage->few.count);
    if (v->images == 2)
        mvdr::few_projections<true><<<looks, 256, 0, stream>>>(*v, *p, rows, stage->few);
    else
        mvdr::few_projections<false><<<looks, 256, 0, stream>>>(*v, *p, rows, stage->few);
    if ((code = CUDA_LAUNCHED(where, "few_projections", err)) != SONAR_OK)
        return code;
    const size_t items = (size_t)bins * rows.count * v->images * p->count;
    mvdr::fold_projections<<<blocks_for(items, 128), 128, 0, stream>>>(*v, *p, rows, stage->few,
                                                                       false);
    return CUDA_LAUNCHED(where, "fold_projections", err);
}

sonar_code add_many(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                    sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned tiles = blocks_for(rows.count, mvdr::TILE) * blocks_for(v->columns, mvdr::TILE);
    const dim3 grid(tiles, (unsigned)v->spec.bins, stage->many.count);
    mvdr::many_sums<<<grid, 256, 0, stream>>>(*v, rows, stage->many);
    sonar_code code = CUDA_LAUNCHED(where, "many_sums", err);
    if (code)
        return code;
    const size_t items = v->spec.bins * rows.count * v->columns;
    mvdr::fold_sums<<<blocks_for(items, 128), 128, 0, stream>>>(*v, rows, stage->many);
    return CUDA_LAUNCHED(where, "fold_sums", err);
}

/* `stale`: of the bins alone whose steering has changed. */
sonar_code project_many(const mvdr_stage *stage, const mvdr::points &p, const mvdr::slots &rows,
                        bool stale, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned tiles =
        blocks_for((size_t)v->images * rows.count, mvdr::TILE) * blocks_for(p.count, mvdr::TILE);
    const dim3 grid(tiles, (unsigned)v->spec.bins, stage->many.count);
    mvdr::many_projections<<<grid, 256, 0, stream>>>(*v, p, rows, stage->many, stale);
    sonar_code code = CUDA_LAUNCHED(where, "many_projections", err);
    if (code)
        return code;
    const size_t items = v->spec.bins * rows.count * v->images * p.count;
    mvdr::fold_projections<<<blocks_for(items, 128), 128, 0, stream>>>(*v, p, rows, stage->many,
                                                                       stale);
    return CUDA_LAUNCHED(where, "fold_projections", err);
}

sonar_code measure(const mvdr_stage *stage, const mvdr::points &p, bool stale, bool own,
                   cudaStream_t stream, sonar_error *err) {
    const dim3 grid(blocks_for(p.count, 8), (unsigned)stage->view.spec.bins);
    mvdr::norms<<<grid, 256, 0, stream>>>(stage->view, p, stale, own);
    return CUDA_LAUNCHED(where, "norms", err);
}

/* All there is, after new parameters; else the new snapshots, and all directions of those bins
 * whose steering has changed. */
sonar_code bring_up_to_date(mvdr_stage *stage, uint32_t skip, uint32_t count, bool steered,
                            cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::slots all = {0, 0, v->length}, fresh = {mvdr::NEXT, skip, count - skip};
    const bool whole = stage->stale;
    sonar_code code = SONAR_OK;
    stage->stale = true; /* if anything fails on the way */
    if (v->by_snapshots && whole) {
        code = add_many(stage, all, stream, err);
        if (!code)
            code = project_many(stage, stage->grid, all, false, stream, err);
    } else if (v->by_snapshots && fresh.count && fresh.count <= mvdr::FEW) {
        code = add_few(stage, fresh, stream, err);
    } else if (v->by_snapshots && fresh.count) {
        code = add_many(stage, fresh, stream, err);
        if (!code)
            code = project_many(stage, stage->grid, fresh, false, stream, err);
    }
    if (!code && v->by_snapshots && steered && !whole)
        code = project_many(stage, stage->grid, all, true, stream, err);
    if (!code && (whole || steered))
        code = measure(stage, stage->grid, !whole, true, stream, err);
    stage->stale = code != SONAR_OK;
    return code;
}

/* ---- new snapshots --------------------------------------------------------------------------- */

/* Buffers without data are not wanted, wherever they are. */
sonar_code check_spaces(const sonar_buffer *buffer, size_t count, sonar_error *err) {
    for (size_t i = 0; i < count; i++)
        if (buffer[i].data && buffer[i].shape[0] && !sonar_cuda_in_place(buffer[i].space))
            return sonar_fail(err, SONAR_EINVAL, where, "a buffer is not in device memory");
    return SONAR_OK;
}

mvdr::arrivals arrivals_of(const sonar_buffer *in) {
    return {(const complex32 *)in->data, in->stride[0], in->stride[1], (uint32_t)in->shape[0]};
}

/* The products that are noted of new snapshots. */
sonar_code add_products(const mvdr_stage *stage, uint32_t count, cudaStream_t stream,
                        sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::tone_accumulate<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v, count);
    return CUDA_LAUNCHED(where, "tone_accumulate", err);
}

/* What the new snapshots say of tones. */
sonar_code look_for_tones(const mvdr_stage *stage, const mvdr::arrivals &in, cudaStream_t stream,
                          sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const uint32_t skip = v->spec.alpha == 0 && in.count > v->length ? in.count - v->length : 0;
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(in.count - skip, 1024));
    mvdr::tone_products<<<grid, 512, 0, stream>>>(*v, in, skip);
    sonar_code code = CUDA_LAUNCHED(where, "tone_products", err);
    return code ? code : add_products(stage, in.count, stream, err);
}

/* Which frequency each bin is steered at. `rows` as tone_steer's. */
sonar_code steer_at_tones(const mvdr_stage *stage, const double *rows, cudaStream_t stream,
                          sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::tone_steer<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v, rows);
    return CUDA_LAUNCHED(where, "tone_steer", err);
}

/* Into the covariance that forgets by itself. */
sonar_code add_forgetting(const mvdr_stage *stage, const mvdr::arrivals &in, cudaStream_t stream,
                          sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid((unsigned)sonar_min_size(v->spec.sensors, 4096), (unsigned)v->spec.bins);
    mvdr::forget_sums<<<grid, 128, 0, stream>>>(*v, in);
    return CUDA_LAUNCHED(where, "forget_sums", err);
}

/* Into the covariance of the ring's snapshots. */
sonar_code slide_covariance(const mvdr_stage *stage, const mvdr::arrivals &in, uint32_t skip,
                            cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins;
    const dim3 arrived(bins, (unsigned)sonar_min_size(in.count, 1024));
    mvdr::inspect<<<arrived, 256, 0, stream>>>(*v, in);
    sonar_code code = CUDA_LAUNCHED(where, "inspect", err);
    if (code)
        return code;
    const dim3 grid((unsigned)sonar_min_size(v->spec.sensors, 4096), bins);
    mvdr::slide_sums<<<grid, 128, 0, stream>>>(*v, in, skip);
    return CUDA_LAUNCHED(where, "slide_sums", err);
}

/* Into the ring's next slots. */
sonar_code store(const mvdr_stage *stage, const mvdr::arrivals &in, uint32_t skip,
                 cudaStream_t stream, sonar_error *err) {
    const dim3 grid((unsigned)stage->view.spec.bins, (unsigned)sonar_min_size(in.count, 1024));
    mvdr::take<<<grid, 512, 0, stream>>>(stage->view, in, skip);
    return CUDA_LAUNCHED(where, "take", err);
}

sonar_code move_on(const mvdr_stage *stage, uint32_t count, cudaStream_t stream, sonar_error *err) {
    mvdr::move_on<<<1, 1, 0, stream>>>(stage->view, count);
    return CUDA_LAUNCHED(where, "move_on", err);
}

sonar_code take_in(mvdr_stage *stage, const mvdr::arrivals &in, cudaStream_t stream,
                   sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const uint32_t skip = v->length && in.count > v->length ? in.count - v->length : 0;
    const bool steered = v->tones && (in.count || stage->changed);
    sonar_code code = SONAR_OK;
    if (in.count && v->rest)
        code = slide_covariance(stage, in, skip, stream, err);
    if (in.count && !code)
        code = store(stage, in, skip, stream, err);
    if (in.count && v->tones && !code)
        code = look_for_tones(stage, in, stream, err);
    if (steered && !code)
        code = steer_at_tones(stage, NULL, stream, err);
    if (in.count && v->spec.alpha > 0 && !code) {
        mvdr::count_seen<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v, in.count);
        code = CUDA_LAUNCHED(where, "count_seen", err);
    }
    if (in.count && !v->length && !code)
        code = add_forgetting(stage, in, stream, err);
    if (!code)
        code = bring_up_to_date(stage, skip, in.count, steered, stream, err);
    stage->changed = false;
    return code || !in.count || !v->length ? code : move_on(stage, in.count, stream, err);
}

/* ---- parts of an array ----------------------------------------------------------------------- */

uint32_t skipped(const mvdr_stage *stage, uint32_t count) {
    return count > stage->view.length ? count - stage->view.length : 0;
}

sonar_code execute_part(mvdr_stage *stage, cudaStream_t stream, const sonar_buffer *in,
                        sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    sonar_code code = mvdr_check_part(&v->spec, in, out, err);
    if (!code)
        code = check_spaces(in, 1, err);
    if (!code)
        code = check_spaces(out, 1, err);
    if (!code)
        code = forget(stage, stream, err);
    if (!code)
        code = update_rows(stage, work->params, stream, err);
    const mvdr::arrivals arrivals = arrivals_of(in);
    stage->arrived = code ? 0 : arrivals.count;
    if (code || !arrivals.count)
        return code;
    if ((code = store(stage, arrivals, skipped(stage, arrivals.count), stream, err)) != SONAR_OK)
        return code;
    const mvdr::part_products to = {(double *)out->data, out->stride[0], out->stride[1]};
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(arrivals.count, 1024));
    mvdr::give_products<<<grid, 512, 0, stream>>>(*v, arrivals, to);
    return CUDA_LAUNCHED(where, "give_products", err);
}

/* The tones of all parts' products. */
sonar_code steer_joined(const mvdr_stage *stage, const sonar_buffer *in, cudaStream_t stream,
                        sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::part_products from = {(double *)in->data, in->stride[0], in->stride[1]};
    mvdr::note_products<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(
        *v, from, v->spec.alpha > 0 ? 0 : skipped(stage, stage->arrived), stage->arrived);
    sonar_code code = CUDA_LAUNCHED(where, "note_products", err);
    if (!code)
        code = add_products(stage, stage->arrived, stream, err);
    return code ? code : steer_at_tones(stage, from.data + 3, stream, err);
}

sonar_code join(void *opaque, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                const sonar_work *work, sonar_error *err) {
    (void)work;
    mvdr_stage *stage = (mvdr_stage *)opaque;
    const mvdr::view *v = &stage->view;
    const cudaStream_t stream = queue->stream;
    const uint32_t count = stage->arrived, skip = skipped(stage, count);
    const bool renewed = stage->stale, steered = v->tones && count;
    sonar_code code = mvdr_check_join(&v->spec, in, count, out, err);
    if (!code)
        code = check_spaces(in, 1, err);
    if (!code)
        code = check_spaces(out, 2, err);
    if (!code && steered)
        code = steer_joined(stage, in, stream, err);
    if (!code)
        code = bring_up_to_date(stage, skip, count, steered, stream, err);
    if (code)
        return code;
    const mvdr::part_sums to = {(double *)out[0].data, (double *)out[1].data, out[0].stride[0],
                                out[1].stride[0]};
    const mvdr::slots fresh = {mvdr::NEXT, skip, count - skip};
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(v->length, 1024));
    mvdr::give_sums<<<grid, 256, 0, stream>>>(*v, fresh, renewed, steered, to);
    code = CUDA_LAUNCHED(where, "give_sums", err);
    stage->arrived = 0;
    return code || !count ? code : move_on(stage, count, stream, err);
}

/* What all parts' sums add up to, in the place of snapshots. */
sonar_code take_in_joined(const mvdr_stage *stage, const sonar_buffer *in, size_t snapshots,
                          cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const uint32_t count = (uint32_t)snapshots, skip = skipped(stage, count);
    if (!in[0].shape[0])
        return SONAR_OK;
    const mvdr::part_sums from = {(double *)in[1].data, (double *)in[0].data, in[1].stride[0],
                                  in[0].stride[0]};
    const mvdr::slots fresh = {mvdr::NEXT, skip, count - skip};
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(v->length, 1024));
    mvdr::take_sums<<<grid, 256, 0, stream>>>(*v, fresh, from);
    sonar_code code = CUDA_LAUNCHED(where, "take_sums", err);
    if (code || !count)
        return code;
    mvdr::count_taken<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v, fresh);
    code = CUDA_LAUNCHED(where, "count_taken", err);
    return code ? code : move_on(stage, count, stream, err);
}

/* ---- spectrum -------------------------------------------------------------------------------- */

/* cuSOLVER's eigenvectors of all bins, in windows that want them. */
sonar_code decompose(const mvdr_stage *stage, const sonar_queue *queue, sonar_error *err) {
    const mvdr::cusolver *s = &stage->library;
    if (queue->recording && !s->recordable)
        return sonar_fail(err, SONAR_EUNAVAILABLE, where,
                          "cuSOLVER's eigenvectors of order %u cannot be recorded", s->order);
    mvdr::assemble_all<<<s->count, SOLVE_THREADS, 0, queue->stream>>>(stage->view, s->matrix);
    const sonar_code code = CUDA_LAUNCHED(where, "assemble_all", err);
    return code ? code : mvdr::cusolver_run(s, queue->stream, err);
}

/* Loading and factor of all that has been taken in and not been solved yet; `all`: eigenvalues too.
 */
sonar_code solve_bins(const mvdr::view &v, bool all, cudaStream_t stream, sonar_error *err) {
    const unsigned bins = (unsigned)v.spec.bins;
    if (v.vectors)
        mvdr::solve<true><<<bins, SOLVE_THREADS, v.shared_bytes, stream>>>(v, all);
    else
        mvdr::solve<false><<<bins, SOLVE_THREADS, v.shared_bytes, stream>>>(v, all);
    return CUDA_LAUNCHED(where, "solve", err);
}

/* Sensor space: the points' steering vectors. */
sonar_code steer_at(const mvdr_stage *stage, const mvdr::points &points, cudaStream_t stream,
                    sonar_error *err) {
    const mvdr::view *v = &stage->view;
    if (v->by_snapshots)
        return SONAR_OK;
    mvdr::steer<<<dim3(points.count, (unsigned)v->spec.bins), 128, 0, stream>>>(*v, points);
    return CUDA_LAUNCHED(where, "steer", err);
}

/* P of every bin at the points, and the band's power if wanted. */
sonar_code run_spectrum(const mvdr_stage *stage, const mvdr::points &points, float *band,
                        ptrdiff_t stride, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins;
    sonar_code code = steer_at(stage, points, stream, err);
    if (code)
        return code;
    const dim3 grid(blocks_for(points.count, mvdr::LOOKS), bins);
    if (v->vectors)
        mvdr::spectrum<true><<<grid, mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(*v, points);
    else
        mvdr::spectrum<false><<<grid, mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(*v, points);
    code = CUDA_LAUNCHED(where, "spectrum", err);
    if (!code && v->gain > 0) {
        const bool counted = points.power == stage->grid.power;
        mvdr::limit_gain<<<dim3(blocks_for(points.count, 8), bins), 256, 0, stream>>>(*v, points,
                                                                                      counted);
        code = CUDA_LAUNCHED(where, "limit_gain", err);
    }
    if (code || !band)
        return code;
    mvdr::band_power<<<(points.count + 127) / 128, 128, 0, stream>>>(*v, points, band, stride);
    return CUDA_LAUNCHED(where, "band_power", err);
}

/* Rows of the bins in use. */
sonar_code write_rows(const mvdr_band *band, const sonar_buffer *out, const float *from,
                      size_t columns, cudaStream_t stream, sonar_error *err) {
    const size_t rows = band->end - band->begin;
    if (!out->data || !rows)
        return SONAR_OK;
    size_t width = columns * sizeof *from, pitch = (size_t)out->stride[0] * sizeof *from;
    float *to = (float *)out->data + (ptrdiff_t)band->begin * out->stride[0];
    return CUDA_CHECK(where,
                      cudaMemcpy2DAsync(to, rows > 1 ? pitch : width, from + band->begin * columns,
                                        width, width, rows, cudaMemcpyDefault, stream),
                      err);
}

/* ---- execute --------------------------------------------------------------------------------- */

/* The spectrum of `count` points that nothing is kept of, at most look.pitch, from all snapshots of
 * the ring; its band's power to `band`. */
sonar_code look_at(const mvdr_stage *stage, const uint64_t *turns, size_t stride, size_t count,
                   float *band, ptrdiff_t band_stride, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::points p = stage->look;
    p.turns = turns, p.stride = stride, p.count = (uint32_t)count;
    sonar_code code = measure(stage, p, false, false, stream, err);
    if (!code && v->by_snapshots)
        code = project_many(stage, p, {0, 0, v->length}, false, stream, err);
    return code ? code : run_spectrum(stage, p, band, band_stride, stream, err);
}

/* Range by range, which shares the room for projections: kept for all points, as for the
 * directions, they would take ranges times as much, and the tensor cores make them in no time. */
sonar_code publish_near(const mvdr_stage *stage, const sonar_buffer *out, cudaStream_t stream,
                        sonar_error *err) {
    const sonar_mvdr_spec *spec = &stage->view.spec;
    sonar_code code = SONAR_OK;
    for (size_t r = 0; r < spec->ranges && !code; r++)
        code = look_at(stage, stage->near_turns + r * spec->directions * spec->sensors,
                       spec->sensors, spec->directions,
                       (float *)out->data + (ptrdiff_t)r * out->stride[0], 1, stream, err);
    return code;
}

/* MUSIC of the bins that have just been solved. */
sonar_code publish_music(const mvdr_stage *stage, float *out, const sonar_queue *queue,
                         sonar_error *err) {
    const cudaStream_t stream = queue->stream;
    const mvdr::view *v = &stage->view;
    const mvdr::points *p = &stage->grid;
    const unsigned bins = (unsigned)v->spec.bins;
    sonar_code code = steer_at(stage, *p, stream, err);
    if (!code && v->music_decomposes && v->ascending)
        code = decompose(stage, queue, err);
    if (!code && v->music_decomposes) {
        const size_t bytes = stage->music.shared_bytes;
        mvdr::find_subspace<<<bins, SOLVE_THREADS, bytes, stream>>>(*v, bytes);
        code = CUDA_LAUNCHED(where, "find_subspace", err);
    }
    if (code)
        return code;
    mvdr::noise_share<<<dim3(blocks_for(p->count, mvdr::LOOKS), bins),
                        mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(*v, *p);
    if ((code = CUDA_LAUNCHED(where, "noise_share", err)) != SONAR_OK)
        return code;
    mvdr::pseudo_spectrum<<<blocks_for(p->count, 128), 128, 0, stream>>>(*v, *p, out);
    return CUDA_LAUNCHED(where, "pseudo_spectrum", err);
}

sonar_code publish(mvdr_stage *stage, const sonar_queue *queue, sonar_buffer *out,
                   const sonar_work *work, sonar_error *err) {
    const cudaStream_t stream = queue->stream;
    const mvdr::view *v = &stage->view;
    const sonar_mvdr_spec *spec = &v->spec;
    const sonar_buffer *azimuth = &out[SONAR_MVDR_OUT_AZIMUTH];
    const mvdr_wants wants = mvdr_wants_of(work, out);
    const bool all = work->outputs & SONAR_WANT(SONAR_MVDR_EIGENVALUES);
    sonar_code code = SONAR_OK;
    if (v->vectors && v->ascending)
        code = decompose(stage, queue, err);
    if (!code)
        code = solve_bins(*v, all, stream, err);
    if (!code && wants.far)
        code = run_spectrum(stage, stage->grid, (float *)azimuth->data, azimuth->stride[0], stream,
                            err);
    if (!code && work->outputs & SONAR_WANT(SONAR_MVDR_SPECTRUM))
        code = write_rows(&v->band, &out[SONAR_MVDR_OUT_SPECTRUM], v->power, spec->directions,
                          stream, err);
    if (!code && wants.near)
        code = publish_near(stage, &out[SONAR_MVDR_OUT_NEARFIELD], stream, err);
    if (!code && wants.music)
        code = publish_music(stage, (float *)out[SONAR_MVDR_OUT_MUSIC].data, queue, err);
    if (!code && work->outputs & SONAR_WANT(SONAR_MVDR_EIGENVALUES))
        code = write_rows(&v->band, &out[SONAR_MVDR_OUT_EIGENVALUES], v->eigenvalue, v->modes,
                          stream, err);
    if (!code)
        code = write_rows(&v->band, &out[SONAR_MVDR_OUT_INFO], v->info, SONAR_MVDR_INFO_FIELDS,
                          stream, err);
    return code;
}

sonar_code execute(void *opaque, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                   const sonar_work *work, sonar_error *err) {
    sonar_nvtx_range range("mvdr_jacobi");
    mvdr_stage *stage = (mvdr_stage *)opaque;
    const sonar_mvdr_spec *spec = &stage->view.spec;
    const bool joined = spec->parts == SONAR_MVDR_JOINED;
    if (spec->parts == SONAR_MVDR_PART)
        return execute_part(stage, queue->stream, in, out, work, err);
    const mvdr_wants wants = mvdr_wants_of(work, out);
    sonar_code code =
        joined ? mvdr_check_joined(spec, in, out, err) : mvdr_check_shapes(spec, in, out, err);
    if (!code)
        code = check_spaces(in, joined ? 2 : 1, err);
    if (!code)
        code = check_spaces(out, SONAR_MVDR_OUTPUTS, err);
    if (!code)
        code = forget(stage, queue->stream, err);
    if (!code)
        code = update_rows(stage, work->params, queue->stream, err);
    if (!code)
        code = joined ? take_in_joined(stage, in, work->snapshots, queue->stream, err)
                      : take_in(stage, arrivals_of(in), queue->stream, err);
    if (!code && wants.any)
        code = publish(stage, queue, out, work, err);
    return code;
}

/* ---- evaluate -------------------------------------------------------------------------------- */

/* Bins are solved already, but where no window has wanted it: these by Jacobi. */
sonar_code solve_for_points(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    mvdr::view by_jacobi = stage->view;
    by_jacobi.ascending = NULL;
    return solve_bins(by_jacobi, false, stream, err);
}

/* Of a part: the sums of `count` points from `first` on. */
sonar_code give_points(const mvdr_stage *stage, const sonar_buffer *turns, size_t first,
                       size_t count, sonar_buffer *sums, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::points p = stage->look;
    p.turns = (const uint64_t *)turns->data + (ptrdiff_t)first * turns->stride[0];
    p.stride = (size_t)turns->stride[0];
    p.count = (uint32_t)count;
    sonar_code code = measure(stage, p, false, false, stream, err);
    if (!code)
        code = project_many(stage, p, {0, 0, v->length}, false, stream, err);
    if (code)
        return code;
    mvdr::give_points<<<dim3(p.count, (unsigned)v->spec.bins), 64, 0, stream>>>(
        *v, p, (double *)sums->data + (ptrdiff_t)first * sums->stride[1], sums->stride[0]);
    return CUDA_LAUNCHED(where, "give_points", err);
}

/* Of all parts' sums: their power. */
sonar_code take_points(const mvdr_stage *stage, const sonar_buffer *sums, size_t first,
                       size_t count, const sonar_buffer *power, cudaStream_t stream,
                       sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::points p = stage->look;
    p.count = (uint32_t)count;
    mvdr::take_points<<<dim3(p.count, (unsigned)v->spec.bins), 64, 0, stream>>>(
        *v, p, (const double *)sums->data + (ptrdiff_t)first * sums->stride[1], sums->stride[0]);
    sonar_code code = CUDA_LAUNCHED(where, "take_points", err);
    float *to = (float *)power->data + (ptrdiff_t)first * power->stride[0];
    return code ? code : run_spectrum(stage, p, to, power->stride[0], stream, err);
}

/* Of parts and what they add up to. */
sonar_code evaluate_parts(mvdr_stage *stage, cudaStream_t stream, const sonar_buffer *from,
                          sonar_buffer *to, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const bool joined = v->spec.parts == SONAR_MVDR_JOINED;
    const size_t count = joined ? to->shape[0] : from->shape[0];
    if (!count)
        return SONAR_OK;
    sonar_code code = mvdr_check_point_sums(&v->spec, joined ? from : to, count, err);
    if (!code)
        code = check_spaces(from, 1, err);
    if (!code)
        code = check_spaces(to, 1, err);
    if (!code)
        code = forget(stage, stream, err);
    if (!code && joined)
        code = solve_for_points(stage, stream, err);
    for (size_t first = 0; first < count && !code; first += AT_ONCE) {
        const size_t some = sonar_min_size(AT_ONCE, count - first);
        code = joined ? take_points(stage, from, first, some, to, stream, err)
                      : give_points(stage, from, first, some, to, stream, err);
    }
    return code;
}

/* As many points at a time as there is room for. */
sonar_code evaluate(void *opaque, sonar_queue *queue, const sonar_buffer *turns,
                    sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    (void)work;
    mvdr_stage *stage = (mvdr_stage *)opaque;
    const mvdr::view *v = &stage->view;
    const size_t count = turns->shape[0];
    const cudaStream_t stream = queue->stream;
    if (v->spec.parts)
        return evaluate_parts(stage, stream, turns, power, err);
    if (count == 0)
        return SONAR_OK;
    sonar_code code = mvdr_check_points(&v->spec, turns, power, err);
    if (!code)
        code = check_spaces(turns, 1, err);
    if (!code)
        code = check_spaces(power, 1, err);
    if (!code)
        code = forget(stage, stream, err);
    if (!code)
        code = solve_for_points(stage, stream, err);
    for (size_t first = 0; first < count && !code; first += AT_ONCE)
        code = look_at(stage, (const uint64_t *)turns->data + (ptrdiff_t)first * turns->stride[0],
                       (size_t)turns->stride[0], sonar_min_size(AT_ONCE, count - first),
                       (float *)power->data + (ptrdiff_t)first * power->stride[0], power->stride[0],
                       stream, err);
    return code;
}

} // namespace

extern "C" const sonar_stage_ops sonar_mvdr_jacobi_cuda = {
    "mvdr_jacobi", create, execute, evaluate, reset, destroy, join};
