/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Several new snapshots: eight at a time on the tensor cores. */
#ifndef SONAR_MVDR_JACOBI_CUDA_SUMS_SEVERAL_CUH
#define SONAR_MVDR_JACOBI_CUDA_SUMS_SEVERAL_CUH

#include <cuda_pipeline.h>

#include "mvdr_jacobi/cuda/sums/common.cuh"

namespace mvdr {

constexpr uint32_t SEVERAL = 8; /* columns of a fragment: new snapshots, then mirror images */
constexpr uint32_t SEVERAL_AT_ONCE = 4; /* fragments that are read before they are multiplied */
constexpr uint32_t SEVERAL_WARPS = 4;

/* Computes x_i^H x_j of 8 new snapshots x_i with 16 columns x_j for each warp, on the tensor cores,
 * so that the columns are read once. Grid: bins, parts, (8 new snapshots, 64 columns). */
__global__ void __launch_bounds__(SEVERAL_WARPS *WARP)
    several_sums(view v, slots rows, parts parts) {
    constexpr uint32_t DEEP = SEVERAL_AT_ONCE;
    const uint32_t bin = blockIdx.x, part = blockIdx.y,
                   tiles = (rows.count + SEVERAL - 1) / SEVERAL;
    const uint32_t first = blockIdx.z % tiles * SEVERAL,
                   column = (blockIdx.z / tiles * SEVERAL_WARPS + warp()) * 16;
    const uint32_t end = parts.end(part, (uint32_t)v.spec.sensors);
    const column_operand columns{v};
    if (column >= v.columns)
        return;
    const column_operand::row x = columns.column(
                                  bin, rows.at(v, min(first + b_column(), rows.count - 1))),
                              y[2] = {columns.column(bin, min(column + a_row(0), v.columns - 1)),
                                      columns.column(bin, min(column + a_row(1), v.columns - 1))};
    fragment_c sum = {};
    for (uint32_t k = parts.begin(part); k < end; k += 8 * DEEP) {
        column_operand::term own[DEEP][2], other[DEEP][4];
#pragma unroll
        for (uint32_t s = 0; s < DEEP; s++) {
#pragma unroll
            for (uint32_t i = 0; i < 2; i++)
                own[s][i] = columns.read(x, min(k + 8 * s + b_row(i), end - 1));
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                other[s][i] = columns.read(y[i % 2], min(k + 8 * s + a_column(i), end - 1));
        }
#pragma unroll
        for (uint32_t s = 0; s < DEEP; s++) {
            fragment_a left;
            fragment_b right;
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const complex64 value = columns.value(y[i % 2], other[s][i]);
                left.re[i] = value.re, left.im[i] = value.im;
            }
#pragma unroll
            for (uint32_t i = 0; i < 2; i++) {
                const bool there = k + 8 * s + b_row(i) < end;
                const complex64 value = there ? columns.value(x, own[s][i]) : complex64{0, 0};
                right.re[i] = value.re, right.im[i] = -value.im;
            }
            multiply(sum, left, right);
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t arrival = first + c_column(i), j = column + c_row(i);
        if (arrival < rows.count && j < v.columns)
            partial_of(v, parts, bin, part, rows, arrival, v.columns)[j] = {sum.re[i], sum.im[i]};
    }
}

constexpr uint32_t SEVERAL_BINS = 8; /* bins of a thread block, with a fragment of sums each */

/* A thread block's samples at WARP sensors. The padding puts columns on different banks. */
typedef complex32 several_samples[SEVERAL_BINS][SEVERAL][WARP + 4];

/* The columns that a warp copies to shared memory: every SEVERAL_WARPS-th. */
template <bool BACKWARD> struct several_columns {
    static constexpr uint32_t TAKEN = SEVERAL / SEVERAL_WARPS;
    const view &v;
    const complex32 *x[TAKEN]; /* in the block's first bin */
    bool image[TAKEN];
    uint32_t bins;

    __device__ several_columns(const view &v, const slots &rows, uint32_t bin, uint32_t bins,
                               uint32_t first)
        : v(v), bins(bins) {
#pragma unroll
        for (uint32_t i = 0; i < TAKEN; i++) {
            const uint32_t at = min(first + warp() + i * SEVERAL_WARPS, v.images * rows.count - 1);
            x[i] = snapshot_of(v, bin, rows.at(v, at % rows.count));
            image[i] = BACKWARD && at >= rows.count;
        }
    }
    /* Begins to copy WARP sensors from `first` on. */
    __device__ void begin(several_samples &to, uint32_t first, uint32_t end) const {
        const uint32_t sensor = min(first + lane(), end - 1),
                       mirror = BACKWARD ? v.mirror[sensor] : sensor;
#pragma unroll
        for (uint32_t i = 0; i < TAKEN; i++) {
            const complex32 *from = x[i] + (image[i] && mirror != UNUSED ? mirror : sensor);
#pragma unroll
            for (uint32_t b = 0; b < SEVERAL_BINS; b++)
                __pipeline_memcpy_async(&to[b][warp() + i * SEVERAL_WARPS][lane()],
                                        from + (size_t)min(b, bins - 1) * v.length * v.spec.sensors,
                                        sizeof(complex32));
        }
        __pipeline_commit();
    }
};

/* The turns of a lane's sensors and directions in a fragment: a_row(), a_column(). */
struct several_looks {
    const view &v;
    const uint64_t *turns[2];
    uint64_t middle[2], own[4], next[4];
    bool used[2], next_used[2];

    __device__ several_looks(const view &v, const points &p, uint32_t direction) : v(v) {
#pragma unroll
        for (uint32_t t = 0; t < 2; t++) {
            turns[t] = p.turns + min(direction + a_row(t), p.count - 1) * p.stride;
            middle[t] = middle_of(v, turns[t]);
        }
    }
    __device__ void read(uint32_t first, uint32_t end) {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            next[i] = turns[i % 2][min(first + a_column(i), end - 1)];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t sensor = first + b_row(i);
            next_used[i] = sensor < end && v.mirror[min(sensor, end - 1)] != UNUSED;
        }
    }
    __device__ void take() {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            own[i] = next[i];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
            used[i] = next_used[i];
    }
};

/* Adds 8 sensors, from `first` in shared memory on, to the sums of all bins. `sign` is -1 if the
 * lane's column has to be conjugated, and 1 if it is a mirror image, which would be conjugated
 * twice. TONAL as in look_at. */
template <bool TONAL>
__device__ inline void several_at(const several_samples &x, uint32_t first, float sign,
                                  const frequency *f, uint32_t bins, const several_looks &l,
                                  fragment_c (&sum)[SEVERAL_BINS]) {
    bin_after_bin a[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        a[i].start(f[0].bin, l.own[i]);
#pragma unroll
    for (uint32_t b = 0; b < SEVERAL_BINS; b++) {
        if (b % BINS_AT_ONCE == 0 && b >= bins)
            break;
        fragment_a left;
        fragment_b right;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const complex64 own =
                TONAL && f[b].offset ? phasor(phase_of(f[b], l.own[i], l.middle[i % 2])) : a[i].at;
            left.re[i] = own.re, left.im[i] = own.im;
            a[i].step();
        }
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const complex32 value = x[b][b_column()][first + b_row(i)];
            right.re[i] = l.used[i] ? (double)value.re : 0;
            right.im[i] = l.used[i] ? (double)(sign * value.im) : 0;
        }
        multiply(sum[b], left, right);
    }
}

/* Computes x^H a of 8 new snapshots or mirror images for 16 directions of each warp, on the tensor
 * cores. A lane rotates its elements of a from bin to bin. Grid: groups of 64 directions, groups of
 * bins, (8 columns, part). */
template <bool BACKWARD>
__global__ void __launch_bounds__(SEVERAL_WARPS *WARP, 2)
    several_projections(view v, points p, slots rows, parts parts) {
    __shared__ several_samples x[2];
    __shared__ frequency f[SEVERAL_BINS];
    const uint32_t across = v.images * rows.count, tiles = (across + SEVERAL - 1) / SEVERAL;
    const uint32_t column = blockIdx.z % tiles * SEVERAL, part = blockIdx.z / tiles;
    const uint32_t direction = (blockIdx.x * SEVERAL_WARPS + warp()) * 16;
    const uint32_t bin = blockIdx.y * SEVERAL_BINS,
                   bins = min(SEVERAL_BINS, (uint32_t)v.spec.bins - bin);
    const uint32_t begin = parts.begin(part), end = parts.end(part, (uint32_t)v.spec.sensors);
    const several_columns<BACKWARD> columns(v, rows, bin, bins, column);
    const float sign = column + b_column() < rows.count ? -1 : 1;
    several_looks looks(v, p, direction);
    fragment_c sum[SEVERAL_BINS] = {};
    if (threadIdx.x < SEVERAL_BINS)
        f[threadIdx.x] = frequency_of(v, bin + min(threadIdx.x, bins - 1));
    const bool tonal = __syncthreads_or(threadIdx.x < SEVERAL_BINS && f[threadIdx.x].offset);
    columns.begin(x[0], begin, end);
    looks.read(begin, end);
    for (uint32_t k = begin, side = 0; k < end; k += WARP, side ^= 1) {
        columns.begin(x[side ^ 1], k + WARP, end);
        __pipeline_wait_prior(1);
        __syncthreads();
#pragma unroll 1
        for (uint32_t at = 0; at < WARP && direction < p.count; at += 8) {
            looks.take();
            looks.read(k + at + 8, end);
            if (tonal)
                several_at<true>(x[side], at, sign, f, bins, looks, sum);
            else
                several_at<false>(x[side], at, sign, f, bins, looks, sum);
        }
        __syncthreads();
    }
    const uint32_t width = v.images * p.count;
#pragma unroll
    for (uint32_t b = 0; b < SEVERAL_BINS; b++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t at = column + c_column(i), t = direction + c_row(i);
            if (b < bins && at < across && t < p.count)
                partial_of(v, parts, bin + b, part, rows, at % rows.count,
                           width)[at / rows.count * p.count + t] = {sum[b].re[i], sum[b].im[i]};
        }
}

} // namespace mvdr

namespace mvdr::host {

/* Makes the sums of several new snapshots. */
inline sonar_code add_several(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                              sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::points *p = &stage->grid;
    const unsigned bins = (unsigned)v->spec.bins, threads = mvdr::SEVERAL_WARPS * mvdr::WARP,
                   wide = mvdr::SEVERAL_WARPS * 16; /* columns or directions of a block */
    const dim3 sums(bins, stage->few.count,
                    blocks_for(rows.count, mvdr::SEVERAL) * blocks_for(v->columns, wide));
    mvdr::several_sums<<<sums, threads, 0, stream>>>(*v, rows, stage->few);
    sonar_code code = CUDA_LAUNCHED(where, "several_sums", err);
    if (code)
        return code;
    if ((code = fold_sums_of(v, rows, stage->few, stream, err)) != SONAR_OK)
        return code;
    const dim3 looks(blocks_for(p->count, wide), blocks_for(bins, mvdr::SEVERAL_BINS),
                     blocks_for((size_t)v->images * rows.count, mvdr::SEVERAL) * stage->few.count);
    if (v->images == 2)
        mvdr::several_projections<true><<<looks, threads, 0, stream>>>(*v, *p, rows, stage->few);
    else
        mvdr::several_projections<false><<<looks, threads, 0, stream>>>(*v, *p, rows, stage->few);
    if ((code = CUDA_LAUNCHED(where, "several_projections", err)) != SONAR_OK)
        return code;
    return fold_projections_of(v, *p, rows, stage->few, false, stream, err);
}

} // namespace mvdr::host

#endif
