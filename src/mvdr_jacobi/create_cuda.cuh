/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes and frees the GPU's MVDR stage: all of its memory, and cuSOLVER where that was chosen. */
#ifndef SONAR_MVDR_JACOBI_CREATE_CUDA_CUH
#define SONAR_MVDR_JACOBI_CREATE_CUDA_CUH

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mvdr_jacobi/fit_cuda.cuh"
#include "mvdr_jacobi/run_factor_cuda.cuh"
#include "mvdr_jacobi/run_inverse_cuda.cuh"

namespace mvdr::host {

inline void destroy(void *opaque) {
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
                      v->turned,
                      v->descending,
                      v->record,
                      v->decomposed,
                      v->kept,
                      stage->jacobi.own,
                      stage->jacobi.worst,
                      stage->jacobi.arrived,
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
                      v->slide,
                      v->m,
                      v->moved,
                      v->inverse_part,
                      v->moment,
                      v->probe,
                      v->listed,
                      v->listed_bin,
                      v->done,
                      v->searches,
                      v->counted_bin,
                      v->corner,
                      v->pivot,
                      v->form,
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
inline size_t partial_size(const mvdr_stage *stage) {
    const mvdr::view *v = &stage->view;
    const size_t directions = sonar_max_size(v->spec.directions, stage->look.pitch) * v->images;
    const size_t few = sonar_min_size((size_t)MVDR_MOST_SEVERAL, v->length);
    const size_t rows =
        sonar_max_size(stage->few.count * few, stage->many.count * (size_t)v->length);
    return v->by_snapshots ? rows * sonar_max_size(directions, v->columns) : 0;
}

inline sonar_code allocate_snapshots(mvdr_stage *stage, sonar_error *err) {
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

inline sonar_code allocate_results(mvdr_stage *stage, bool on_grid, sonar_error *err) {
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
    memory.make(&v->listed, on_grid);
    memory.make(&v->listed_bin, on_grid ? bins : 0);
    memory.make(&v->done, on_grid ? bins : 0, mvdr::squares(v->most));
    const size_t counted = on_grid ? bins : 0;
    memory.make(&v->searches, counted);
    memory.make(&v->counted_bin, counted, 2);
    memory.make(&v->corner, counted * mvdr::squares(v->most), mvdr::SQUARE * mvdr::SQUARE);
    memory.make(&v->pivot, counted, mvdr::squares(v->most));
    memory.make(&v->form, on_grid && !v->by_snapshots ? bins * mvdr::squares(v->most) : 0,
                sonar_max_size(v->spec.directions, stage->look.pitch));
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

/* Whether the stage may take a route in some window. */
inline bool has_route(const mvdr_stage *stage, mvdr_route_id id) {
    return mvdr_route_exists(&stage->view.spec, MVDR_ON_GPU, &stage->choices, id);
}

inline sonar_code allocate_inverse(mvdr_stage *stage, sonar_error *err) {
    mvdr::view *v = &stage->view;
    const size_t bins = v->spec.bins, most = v->most;
    const size_t points = sonar_max_size(v->spec.directions, stage->look.pitch);
    allocator memory = {err, SONAR_OK};
    v->inverse_parts = (uint32_t)sonar_max_size(inverse_parts(v->most), most / 8);
    memory.make(&v->slide, bins);
    memory.make(&v->m, bins * most, most);
    memory.make(&v->moved, bins * most, 2 * MVDR_MOST_MOVED);
    memory.make(&v->inverse_part, bins * 2, v->inverse_parts);
    memory.make(&v->moment, bins * 2 * moment_parts(v->most), points);
    memory.make(&v->probe, bins, v->spec.directions);
    return memory.code;
}

/* Of eigenvectors, the spectrum's or MUSIC's. */
inline sonar_code allocate_vectors(mvdr_stage *stage, sonar_error *err) {
    mvdr::view *v = &stage->view;
    const size_t bins = v->spec.bins, most = v->most;
    jacobi_batch *b = &stage->jacobi;
    allocator memory = {err, SONAR_OK};
    memory.make(&v->work, bins * most, most);
    memory.make(&v->turned, bins * most, most);
    memory.make(&v->descending, bins, most);
    memory.make(&v->record, bins);
    memory.make(&v->decomposed, bins);
    memory.make(&v->kept, bins);
    memory.make(&b->own, bins, most);
    memory.make(&b->worst, bins, mvdr::JACOBI_MOST_SWEEPS);
    memory.make(&b->arrived, bins + 1);
    b->order = v->most, b->count = (uint32_t)bins;
    b->a = v->work, b->x = v->turned, b->vectors = v->vectors ? v->factor : v->signal;
    b->wanted = v->decomposed, b->d = v->descending, b->record = v->record;
    return memory.code ? memory.code : fit_jacobi(stage, err);
}

inline sonar_code check_spec(const sonar_mvdr_spec *spec, sonar_error *err) {
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
inline void set_view(mvdr_stage *stage, const sonar_mvdr_spec *spec) {
    mvdr::view *v = &stage->view;
    const mvdr_shape *shape = &stage->shape;
    v->spec = *spec;
    stage->held = spec->parts == SONAR_MVDR_JOINED ? 0 : spec->sensors;
    v->by_snapshots = shape->by_snapshots;
    v->vectors = mvdr_has_vectors(spec);
    v->music_decomposes = mvdr_music_decomposes(spec);
    v->gain = mvdr_least_gain(spec);
    v->length = (uint32_t)shape->slots;
    v->images = (uint32_t)shape->each;
    v->columns = v->images * v->length;
    v->most = mvdr::padded((uint32_t)shape->order);
    v->modes = (uint32_t)sonar_mvdr_modes(spec);
    v->pairs = (uint32_t)(spec->alpha > 0 ? spec->max_new : spec->snapshots);
    v->sums_stride = v->by_snapshots ? (size_t)v->length * v->columns : (size_t)v->most * v->most;
    stage->look.pitch = (uint32_t)sonar_max_size(AT_ONCE, spec->ranges ? spec->directions : 0);
    const mvdr_parts few = mvdr_parts_of_few(spec), many = mvdr_parts_of_many(spec);
    stage->few = {(uint32_t)few.count, (uint32_t)few.size};
    stage->many = {(uint32_t)many.count, (uint32_t)many.size};
    stage->stale = true;
}

inline sonar_code prepare(mvdr_stage *stage, sonar_error *err) {
    bool on_grid = has_route(stage, MVDR_ROUTE_FACTOR_GRID);
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
    if (!code && on_grid)
        code = fit_grid(stage, &on_grid, err);
    if (!code)
        code = allocate_results(stage, on_grid, err);
    if (!code && has_route(stage, MVDR_ROUTE_UPDATE))
        code = allocate_inverse(stage, err);
    if (!code && (stage->view.vectors || stage->view.music_decomposes))
        code = allocate_vectors(stage, err);
    if (!code && stage->view.tones)
        code = CUDA_CHECK(where,
                          cudaMemcpy(stage->view.tones, stage->view.spec.tones,
                                     sizeof *stage->view.tones, cudaMemcpyHostToDevice),
                          err);
    stage->view.spec.tones = NULL; /* borrowed */
    return code;
}

/* Where cuSOLVER is wanted and cannot be had, Jacobi's method finds eigenvectors. */
inline void choose_library(mvdr_stage *stage, const sonar_host *host) {
    mvdr::view *v = &stage->view;
    if (!mvdr_takes_library(&v->spec, &stage->choices))
        return;
    mvdr::cusolver *s = &stage->library;
    char library[64];
    sonar_error err = {};
    snprintf(library, sizeof library, "libcusolver.so.%d", CUSOLVER_VER_MAJOR);
    s->order = v->most, s->count = (uint32_t)v->spec.bins;
    s->matrix = v->vectors ? v->factor : v->signal;
    if (mvdr::cusolver_open(s, library, &err))
        sonar_log(host, SONAR_WARN, where,
                  "eigenvectors by Jacobi's method, as cuSOLVER cannot be used: %s: %s", err.where,
                  err.text);
    v->ascending = s->d, v->failed = s->failed;
}

inline sonar_code create(const void *opaque, const sonar_host *host, void **out, sonar_error *err) {
    const sonar_mvdr_spec *spec = (const sonar_mvdr_spec *)opaque;
    *out = NULL;
    sonar_code code = check_spec(spec, err);
    if (code)
        return code;
    mvdr_stage *stage = (mvdr_stage *)sonar_alloc(1, sizeof *stage);
    if (!stage)
        return sonar_fail(err, SONAR_ENOMEM, where, "no memory for the stage");
    stage->shape = mvdr_shape_of(spec);
    stage->choices = mvdr_choices_of(spec, host);
    set_view(stage, spec);
    if ((code = prepare(stage, err)) != SONAR_OK) {
        destroy(stage);
        return code;
    }
    choose_library(stage, host);
    *out = stage;
    return SONAR_OK;
}

} // namespace mvdr::host

#endif
