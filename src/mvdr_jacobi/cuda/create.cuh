/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Creates and destroys the GPU's MVDR stage: all of its memory. */
#ifndef SONAR_MVDR_JACOBI_CUDA_CREATE_CUH
#define SONAR_MVDR_JACOBI_CUDA_CREATE_CUH

#include <stdlib.h>
#include <string.h>

#include <type_traits>

#include "mvdr_jacobi/cuda/fit.cuh"
#include "mvdr_jacobi/cuda/factor_grid.cuh"
#include "mvdr_jacobi/cuda/inverse/inverse.cuh"

namespace mvdr::host {

inline void destroy(void *opaque) {
    mvdr_stage *stage = (mvdr_stage *)opaque;
    if (!stage)
        return;
#define ARRAY(array, bytes, a, b) cudaFree((void *)stage->array);
    MVDR_DEVICE_ARRAYS(ARRAY)
#undef ARRAY
    free(stage->mirror);
    free(stage->rows);
    free(stage->row_of);
    free(stage->used);
    free(stage);
}

static_assert(mvdr::PANEL == MVDR_DEVICE_PANEL && mvdr::MOMENT_ROWS == MVDR_DEVICE_MOMENTS &&
                  mvdr::INVERSE_THREADS / mvdr::WARP * mvdr::TILE_ROWS == MVDR_DEVICE_GROUP &&
                  mvdr::JACOBI_MOST_SWEEPS == MVDR_DEVICE_SWEEPS &&
                  mvdr::FOLLOW_PROBES == MVDR_DEVICE_PROBES,
              "sizes that the table multiplies are the kernels'");

template <typename X> sonar_code make_array(X **memory, size_t a, size_t b, sonar_error *err) {
    std::remove_const_t<X> *made = NULL;
    size_t count;
    if (__builtin_mul_overflow(a, b, &count))
        return sonar_fail(err, SONAR_ENOMEM, where, "%zu x %zu elements are too many", a, b);
    const sonar_code code = sonar_cuda_alloc(where, count, &made, err);
    *memory = made;
    return code;
}

inline sonar_code make_arrays(mvdr_stage *stage, const mvdr_device *s, sonar_error *err) {
    sonar_code code = SONAR_OK;
#define ARRAY(array, bytes, a, b)                                                                  \
    static_assert(sizeof *stage->array == (bytes), "the table has the bytes of an element");       \
    if (!code)                                                                                     \
        code = make_array(&stage->array, a, b, err);
    MVDR_DEVICE_ARRAYS(ARRAY)
#undef ARRAY
    return code;
}

/* Sets the members that refer to arrays of other members. */
inline void share_arrays(mvdr_stage *stage, const mvdr_device *s) {
    mvdr::view *v = &stage->view;
    mvdr::points *grid = &stage->grid;
    jacobi_batch *b = &stage->jacobi;
    v->sensor = stage->device_rows;
    v->partner = stage->device_rows + s->sensors;
    v->inverse_parts = (uint32_t)s->inverse_parts;
    grid->turns = v->turns;
    grid->stride = s->sensors;
    grid->count = grid->pitch = (uint32_t)s->looks;
    grid->projection = v->projection;
    grid->norm = v->norm;
    grid->power = v->power;
    b->order = v->most, b->count = (uint32_t)s->bins;
    b->a = v->work, b->x = v->turned, b->vectors = v->vectors ? v->factor : v->signal;
    b->wanted = v->decomposed, b->d = v->descending, b->record = v->record;
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

/* Sets the constants of the kernels' view. */
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
    const mvdr_parts few = mvdr_parts_of_few(spec), many = mvdr_parts_of_many(spec),
                     points = mvdr_parts_of_points(spec);
    stage->few = {(uint32_t)few.count, (uint32_t)few.size};
    stage->many = {(uint32_t)many.count, (uint32_t)many.size};
    stage->points = {(uint32_t)points.count, (uint32_t)points.size};
    stage->stale = true;
}

inline sonar_code prepare(mvdr_stage *stage, sonar_error *err) {
    mvdr_device sizes = mvdr_device_of(&stage->view.spec, stage->named);
    size_t sensors = sizes.sensors;
    bool fits = true;
    stage->rows = (size_t *)sonar_alloc(2 * sensors, sizeof(size_t));
    stage->row_of = (size_t *)sonar_alloc(sensors, sizeof(size_t));
    stage->mirror = (uint32_t *)sonar_alloc(sensors, sizeof(uint32_t));
    stage->used = (uint8_t *)sonar_alloc(sensors, 1);
    if (!stage->rows || !stage->row_of || !stage->mirror || !stage->used)
        return sonar_fail(err, SONAR_ENOMEM, where, "no memory for %zu sensors", sensors);
    sonar_code code = fit_device(stage, err);
    if (!code && (sizes.grid || sizes.forms))
        code = fit_grid(stage, &fits, err);
    if (!fits)
        sizes.grid = sizes.forms = 0;
    if (!code)
        code = make_arrays(stage, &sizes, err);
    share_arrays(stage, &sizes);
    if (!code && sizes.decomposed)
        code = fit_jacobi(stage, err);
    if (!code && stage->view.tones)
        code = CUDA_CHECK(where,
                          cudaMemcpy(stage->view.tones, stage->view.spec.tones,
                                     sizeof *stage->view.tones, cudaMemcpyHostToDevice),
                          err);
    stage->view.spec.tones = NULL; /* borrowed */
    return code;
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
    stage->named = mvdr_routes_named(host);
    set_view(stage, spec);
    if ((code = prepare(stage, err)) != SONAR_OK) {
        destroy(stage);
        return code;
    }
    *out = stage;
    return SONAR_OK;
}

} // namespace mvdr::host

#endif
