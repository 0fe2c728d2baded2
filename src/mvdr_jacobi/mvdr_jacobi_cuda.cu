/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The GPU's MVDR stage, the CPU stage's twin: the same factor, the same two QR reductions and
 * one-sided Jacobi, the same spectrum. Every bin is decomposed by one thread block from its
 * snapshots to its weights, so that nothing is decided on the host and no intermediate result
 * leaves the device.
 */
#include <stdlib.h>
#include <string.h>

#include "backend/cuda_common.cuh"
#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/decompose_cuda.cuh"
#include "mvdr_jacobi/tone_cuda.cuh"
#include "mvdr_jacobi/spectrum_cuda.cuh"

static const char where[] = "mvdr_jacobi";

namespace {

using complex32 = mvdr::complex<float>;
using complex64 = mvdr::complex<double>;

struct mvdr_stage {
    mvdr::view view; /* with the stage's device memory; kernels get a copy */
    mvdr_limits limits;
    mvdr::decompose_function decompose;
    mvdr::spectrum_function spectrum;
    unsigned decompose_threads, spectrum_threads; /* of a block */
    size_t slots;                                 /* bins decomposed by one launch */
    size_t spectrum_blocks; /* thread blocks of the spectrum kernel, each with its own scratch */
    complex32 *spectrum_scratch;
    size_t *device_rows;              /* sensor, partner, previous: `sensors` entries each */
    size_t *rows, *previous, *row_of; /* the same on the host */
    uint64_t version;
    bool versioned, forgotten;
};

/* ---- create, destroy ------------------------------------------------------------------------- */

void destroy(void *opaque) {
    mvdr_stage *stage = (mvdr_stage *)opaque;
    if (!stage)
        return;
    mvdr::view *v = &stage->view;
    mvdr::scratch *s = &v->all;
    void *device[] = {stage->spectrum_scratch,
                      stage->device_rows,
                      (void *)v->turns,
                      v->snapshot,
                      v->valid,
                      v->q,
                      v->d,
                      v->weight,
                      v->gain,
                      v->power,
                      v->info,
                      v->bin,
                      v->ring,
                      v->tones,
                      v->pair,
                      s->t,
                      s->u,
                      s->w,
                      s->norm2,
                      s->tau,
                      s->spare_tau,
                      s->d,
                      s->order,
                      s->pick,
                      s->column};
    for (void *memory : device)
        cudaFree(memory);
    free(stage->rows);
    free(stage->previous);
    free(stage->row_of);
    free(stage);
}

/* Strides of the scratch for the largest problem there can be. */
void measure_scratch(mvdr_stage *stage) {
    mvdr::view *v = &stage->view;
    size_t n = stage->limits.rows, m = stage->limits.columns, c = sonar_min_size(n, m);
    v->t_stride = n * m;
    v->u_stride = c * mvdr::odd((uint32_t)c);
    v->w_stride = c * mvdr::odd((uint32_t)n);
    v->vector_stride = c;
    v->column_stride = m;
}

size_t bytes_a_slot(const mvdr::view *v) {
    return (v->t_stride + v->u_stride + v->w_stride) * sizeof(complex64) +
           v->vector_stride * (4 * sizeof(double) + sizeof(uint32_t)) +
           v->column_stride * (sizeof(uint32_t) + sizeof(mvdr::source));
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

sonar_code allocate_results(mvdr_stage *stage, sonar_error *err) {
    mvdr::view *v = &stage->view;
    size_t sensors = v->spec.sensors, bins = v->spec.bins, directions = v->spec.directions;
    allocator memory = {err, SONAR_OK};
    uint64_t *turns = NULL;
    memory.make(&stage->device_rows, 3, sensors);
    memory.make(&turns, directions, sensors);
    memory.make(&v->snapshot, bins * sensors, v->spec.snapshots);
    memory.make(&v->valid, bins, v->length);
    memory.make(&v->q, bins * v->kept, sensors);
    memory.make(&v->d, bins, v->kept);
    memory.make(&v->weight, bins, v->kept);
    memory.make(&v->gain, v->spec.correct_level ? bins : 1, v->kept);
    memory.make(&v->power, bins, directions);
    memory.make(&v->info, bins, SONAR_MVDR_INFO_FIELDS);
    memory.make(&v->bin, bins);
    memory.make(&v->ring, 1);
    if (v->spec.tones) {
        memory.make(&v->tones, 1);
        memory.make(&v->pair, v->length, bins);
    }
    memory.make(&stage->spectrum_scratch, stage->spectrum_blocks, (sensors + v->kept) * mvdr::TILE);
    v->turns = turns;
    v->sensor = stage->device_rows;
    v->partner = stage->device_rows + sensors;
    v->previous = stage->device_rows + 2 * sensors;
    return memory.code;
}

/* As many bins at a time as half of the free memory has scratch for. */
sonar_code allocate_scratch(mvdr_stage *stage, sonar_error *err) {
    mvdr::view *v = &stage->view;
    mvdr::scratch *s = &v->all;
    size_t available, total;
    CUDA_TRY(where, cudaMemGetInfo(&available, &total), err);
    size_t slots = sonar_max_size(1, available / 2 / bytes_a_slot(v));
    stage->slots = slots = sonar_min_size(slots, v->spec.bins);
    allocator memory = {err, SONAR_OK};
    memory.make(&s->t, slots, v->t_stride);
    memory.make(&s->u, slots, v->u_stride);
    memory.make(&s->w, slots, v->w_stride);
    memory.make(&s->norm2, slots, v->vector_stride);
    memory.make(&s->tau, slots, v->vector_stride);
    memory.make(&s->spare_tau, slots, v->vector_stride);
    memory.make(&s->d, slots, v->vector_stride);
    memory.make(&s->order, slots, v->vector_stride);
    memory.make(&s->pick, slots, v->column_stride);
    memory.make(&s->column, slots, v->column_stride);
    return memory.code;
}

/* What the device offers: shared memory for decompose, blocks at a time for the spectrum. */
sonar_code fit_device(mvdr_stage *stage, sonar_error *err) {
    mvdr::view *v = &stage->view;
    int device, most, processors, resident;
    cudaFuncAttributes own;
    CUDA_TRY(where, cudaGetDevice(&device), err);
    CUDA_TRY(where, cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             err);
    CUDA_TRY(where, cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device),
             err);
    CUDA_TRY(where, cudaFuncGetAttributes(&own, stage->decompose), err);
    CUDA_TRY(where,
             cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, stage->spectrum,
                                                           (int)stage->spectrum_threads, 0),
             err);
    size_t tiles = (v->spec.directions + mvdr::TILE - 1) / mvdr::TILE;
    stage->spectrum_blocks = sonar_min_size(tiles * v->spec.bins, (size_t)processors * resident);
    /* Both triangles, the norms and a column a warp in double, if there is room. */
    size_t columns = 2 * v->u_stride + stage->decompose_threads / mvdr::WARP *
                                           mvdr::odd((uint32_t)stage->limits.rows);
    size_t wanted = columns * sizeof(complex64) + v->vector_stride * sizeof(double) + 64;
    v->shared_bytes = sonar_min_size(wanted, (size_t)most - own.sharedSizeBytes) / 16 * 16;
    CUDA_TRY(where,
             cudaFuncSetAttribute(stage->decompose, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                  (int)((size_t)most - own.sharedSizeBytes)),
             err);
    return SONAR_OK;
}

sonar_code check_spec(const sonar_mvdr_spec *spec, sonar_error *err) {
    sonar_code code = mvdr_check_spec(spec, err);
    if (code)
        return code;
    mvdr_limits limits = mvdr_limits_of(spec);
    if (limits.rows > INT32_MAX || limits.columns > INT32_MAX || spec->bins > INT32_MAX ||
        spec->directions > INT32_MAX || spec->max_sweeps > INT32_MAX)
        return sonar_fail(err, SONAR_EINVAL, where, "empty or impossible shape");
    return SONAR_OK;
}

sonar_code prepare(mvdr_stage *stage, sonar_error *err) {
    size_t sensors = stage->view.spec.sensors;
    stage->rows = (size_t *)sonar_alloc(2 * sensors, sizeof(size_t));
    stage->previous = (size_t *)sonar_alloc(sensors, sizeof(size_t));
    stage->row_of = (size_t *)sonar_alloc(sensors, sizeof(size_t));
    if (!stage->rows || !stage->previous || !stage->row_of)
        return sonar_fail(err, SONAR_ENOMEM, where, "no memory for %zu sensors", sensors);
    measure_scratch(stage);
    sonar_code code = fit_device(stage, err);
    if (!code)
        code = allocate_results(stage, err);
    if (!code && stage->view.tones)
        code = CUDA_CHECK(where,
                          cudaMemcpy(stage->view.tones, stage->view.spec.tones,
                                     sizeof *stage->view.tones, cudaMemcpyHostToDevice),
                          err);
    stage->view.spec.tones = NULL; /* borrowed */
    return code ? code : allocate_scratch(stage, err);
}

/* 0 for want of training. */
long trained_threads(const sonar_host *host, const char *decision) {
    const char *trained = sonar_host_choice(host, decision);
    return trained ? strtol(trained, NULL, 10) : 0;
}

/* A number that is none of the kernels' comes from a table edited by hand: as if there were none.
 */
void choose_threads(mvdr_stage *stage, const sonar_host *host) {
    long decompose = trained_threads(host, "mvdr.decompose_threads");
    long wanted = trained_threads(host, "mvdr.look_threads");
    stage->decompose_threads = mvdr::decompose_kernel(decompose) ? (unsigned)decompose : 512;
    stage->decompose = mvdr::decompose_kernel(stage->decompose_threads);
    stage->spectrum_threads = mvdr::spectrum_kernel(wanted) ? (unsigned)wanted : 256;
    stage->spectrum = mvdr::spectrum_kernel(stage->spectrum_threads);
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
    stage->limits = mvdr_limits_of(spec);
    choose_threads(stage, host);
    stage->view.spec = *spec;
    stage->view.kept = (uint32_t)stage->limits.kept;
    stage->view.length = (uint32_t)(spec->alpha > 0 ? spec->max_new : spec->snapshots);
    if ((code = prepare(stage, err)) != SONAR_OK) {
        destroy(stage);
        return code;
    }
    *out = stage;
    return SONAR_OK;
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* There is no queue to do it on here: the next call does. */
void reset(void *opaque) {
    mvdr_stage *stage = (mvdr_stage *)opaque;
    stage->forgotten = true;
}

sonar_code forget(mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    if (!stage->forgotten)
        return SONAR_OK;
    const mvdr::view *v = &stage->view;
    CUDA_TRY(where, cudaMemsetAsync(v->bin, 0, v->spec.bins * sizeof *v->bin, stream), err);
    CUDA_TRY(where, cudaMemsetAsync(v->ring, 0, sizeof *v->ring, stream), err);
    stage->forgotten = false;
    return SONAR_OK;
}

/* Pageable memory is read before these copies return, so that the arrays may change again. */
sonar_code upload(const mvdr_stage *stage, const sonar_params *params, cudaStream_t stream,
                  sonar_error *err) {
    size_t sensors = stage->view.spec.sensors, directions = stage->view.spec.directions;
    CUDA_TRY(where,
             cudaMemcpyAsync(stage->device_rows, stage->rows, 2 * sensors * sizeof(size_t),
                             cudaMemcpyHostToDevice, stream),
             err);
    CUDA_TRY(where,
             cudaMemcpyAsync(stage->device_rows + 2 * sensors, stage->previous,
                             sensors * sizeof(size_t), cudaMemcpyHostToDevice, stream),
             err);
    CUDA_TRY(where,
             cudaMemcpyAsync((void *)stage->view.turns, params->far_mvdr.turns,
                             directions * sensors * sizeof(uint64_t), cudaMemcpyHostToDevice,
                             stream),
             err);
    return SONAR_OK;
}

/* Takes the rows, mirrors and turns of new parameters over. */
sonar_code update_rows(mvdr_stage *stage, const sonar_params *params, cudaStream_t stream,
                       sonar_error *err) {
    mvdr::view *v = &stage->view;
    size_t sensors = v->spec.sensors;
    if (stage->versioned && stage->version == params->version)
        return SONAR_OK;
    sonar_code code = mvdr_check_params(&v->spec, params, err);
    if (code)
        return code;
    memset(stage->previous, 0xff, sensors * sizeof *stage->previous);
    for (uint32_t i = 0; i < v->n; i++)
        stage->previous[stage->rows[i]] = i;
    v->n = (uint32_t)mvdr_list_rows(params, v->spec.forward_backward, stage->rows,
                                    stage->rows + sensors, stage->row_of);
    v->middle = v->n ? stage->rows[mvdr_middle_row(params, stage->rows, v->n)] : 0;
    if ((code = upload(stage, params, stream, err)) != SONAR_OK)
        return code;
    if (v->spec.alpha > 0) {
        mvdr::move_rows<<<(unsigned)stage->slots, 256, 0, stream>>>(*v, (uint32_t)stage->slots);
        if ((code = CUDA_LAUNCHED(where, "move_rows", err)) != SONAR_OK)
            return code;
    }
    stage->version = params->version;
    stage->versioned = true;
    return SONAR_OK;
}

/* ---- execute --------------------------------------------------------------------------------- */

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

/* Which frequency each bin is steered at, after the ring has moved on. */
sonar_code steer_at_tones(const mvdr_stage *stage, uint32_t count, cudaStream_t stream,
                          sonar_error *err) {
    const mvdr::view *v = &stage->view;
    unsigned blocks = (unsigned)((v->spec.bins + 63) / 64);
    mvdr::tone_accumulate<<<blocks, 64, 0, stream>>>(*v, count);
    sonar_code code = CUDA_LAUNCHED(where, "tone_accumulate", err);
    if (code)
        return code;
    mvdr::tone_steer<<<blocks, 64, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "tone_steer", err);
}

sonar_code run_bins(const mvdr_stage *stage, const mvdr::arrivals &in, cudaStream_t stream,
                    sonar_error *err) {
    const mvdr::view *v = &stage->view;
    size_t bins = v->spec.bins, length = v->length;
    sonar_code code = SONAR_OK;
    if (in.count) {
        size_t skip = v->spec.alpha == 0 && in.count > length ? in.count - length : 0;
        dim3 grid((unsigned)bins, (unsigned)sonar_min_size(in.count - skip, 1024));
        mvdr::take<<<grid, 128, 0, stream>>>(*v, in, (uint32_t)skip);
        code = CUDA_LAUNCHED(where, "take", err);
        if (v->tones && !code) {
            mvdr::tone_products<<<grid, 128, 0, stream>>>(*v, in, (uint32_t)skip);
            code = CUDA_LAUNCHED(where, "tone_products", err);
        }
    }
    if (in.count && v->spec.alpha == 0 && !code) {
        mvdr::move_on<<<1, 1, 0, stream>>>(*v, in.count);
        code = CUDA_LAUNCHED(where, "move_on", err);
    }
    if (in.count && v->tones && !code)
        code = steer_at_tones(stage, in.count, stream, err);
    for (size_t first = 0; first < bins && !code; first += stage->slots) {
        unsigned count = (unsigned)sonar_min_size(stage->slots, bins - first);
        stage->decompose<<<count, stage->decompose_threads, v->shared_bytes, stream>>>(
            *v, in, (uint32_t)first);
        code = CUDA_LAUNCHED(where, "decompose", err);
    }
    return code;
}

/* P of every bin at the points, and the band's power if wanted. */
sonar_code run_spectrum(const mvdr_stage *stage, const mvdr::points &points, float *band,
                        ptrdiff_t stride, cudaStream_t stream, sonar_error *err) {
    size_t tiles = (points.count + mvdr::TILE - 1) / mvdr::TILE;
    unsigned blocks =
        (unsigned)sonar_min_size(stage->spectrum_blocks, tiles * stage->view.spec.bins);
    stage->spectrum<<<blocks, stage->spectrum_threads, 0, stream>>>(stage->view, points,
                                                                    stage->spectrum_scratch);
    sonar_code code = CUDA_LAUNCHED(where, "spectrum", err);
    if (code || !band)
        return code;
    mvdr::band_power<<<(points.count + 127) / 128, 128, 0, stream>>>(stage->view, points, band,
                                                                     stride);
    return CUDA_LAUNCHED(where, "band_power", err);
}

sonar_code write_rows(const sonar_buffer *out, const float *from, size_t rows, size_t columns,
                      cudaStream_t stream, sonar_error *err) {
    if (!out->data)
        return SONAR_OK;
    size_t width = columns * sizeof *from, pitch = (size_t)out->stride[0] * sizeof *from;
    return CUDA_CHECK(where,
                      cudaMemcpy2DAsync(out->data, rows > 1 ? pitch : width, from, width, width,
                                        rows, cudaMemcpyDefault, stream),
                      err);
}

sonar_code run(mvdr_stage *stage, cudaStream_t stream, const sonar_buffer *in, sonar_buffer *out,
               const sonar_work *work, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const sonar_mvdr_spec *spec = &v->spec;
    const sonar_buffer *azimuth = &out[SONAR_MVDR_OUT_AZIMUTH];
    mvdr::points grid = {v->turns, spec->sensors, (uint32_t)spec->directions, v->power,
                         spec->directions};
    sonar_code code = run_bins(stage, arrivals_of(in), stream, err);
    if (!code)
        code = run_spectrum(stage, grid, (float *)azimuth->data, azimuth->stride[0], stream, err);
    if (!code && work->outputs & SONAR_WANT(SONAR_MVDR_SPECTRUM))
        code = write_rows(&out[SONAR_MVDR_OUT_SPECTRUM], v->power, spec->bins, spec->directions,
                          stream, err);
    if (!code)
        code = write_rows(&out[SONAR_MVDR_OUT_INFO], v->info, spec->bins, SONAR_MVDR_INFO_FIELDS,
                          stream, err);
    return code;
}

sonar_code execute(void *opaque, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                   const sonar_work *work, sonar_error *err) {
    sonar_nvtx_range range("mvdr_jacobi");
    mvdr_stage *stage = (mvdr_stage *)opaque;
    sonar_code code = mvdr_check_shapes(&stage->view.spec, in, out, err);
    if (!code)
        code = check_spaces(in, 1, err);
    if (!code)
        code = check_spaces(out, SONAR_MVDR_OUTPUTS, err);
    if (!code)
        code = forget(stage, queue->stream, err);
    if (!code)
        code = update_rows(stage, work->params, queue->stream, err);
    if (!code)
        code = run(stage, queue->stream, in, out, work, err);
    return code;
}

/* ---- evaluate -------------------------------------------------------------------------------- */

/* As many points at a time as the grid has directions: the grid's power is no longer needed. */
sonar_code evaluate(void *opaque, sonar_queue *queue, const sonar_buffer *turns,
                    sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    (void)work;
    mvdr_stage *stage = (mvdr_stage *)opaque;
    const mvdr::view *v = &stage->view;
    size_t count = turns->shape[0];
    if (count == 0)
        return SONAR_OK;
    sonar_code code = mvdr_check_points(&v->spec, turns, power, err);
    if (!code)
        code = check_spaces(turns, 1, err);
    if (!code)
        code = check_spaces(power, 1, err);
    if (!code)
        code = forget(stage, queue->stream, err);
    for (size_t first = 0; first < count && !code; first += v->spec.directions) {
        size_t some = sonar_min_size(v->spec.directions, count - first);
        mvdr::points points = {(const uint64_t *)turns->data + (ptrdiff_t)first * turns->stride[0],
                               (size_t)turns->stride[0], (uint32_t)some, v->power, some};
        code =
            run_spectrum(stage, points, (float *)power->data + (ptrdiff_t)first * power->stride[0],
                         power->stride[0], queue->stream, err);
    }
    return code;
}

} // namespace

extern "C" const sonar_stage_ops sonar_mvdr_jacobi_cuda = {"mvdr_jacobi", create, execute,
                                                           evaluate,      reset,  destroy};
