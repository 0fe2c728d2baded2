/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Projections of all snapshots on a few points off the grid: x^H a as in sums.cuh, in float64.
 * Tiles of 64 points would multiply mostly columns that are not wanted. Here a thread block
 * computes up to 32 points, with 16 columns for each warp. The block makes the steering vectors
 * once, in shared memory. The snapshots are read once for all points of the block.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_SUMS_POINTS_CUH
#define SONAR_MVDR_JACOBI_CUDA_SUMS_POINTS_CUH

#include "mvdr_jacobi/cuda/sums/many.cuh"

namespace mvdr {

constexpr uint32_t POINT_WARPS = 4, POINT_COLUMNS = 16 * POINT_WARPS;
constexpr uint32_t POINT_GROUP = 8; /* columns of a fragment */
constexpr uint32_t POINT_GROUPS =
    MVDR_DEVICE_FEW_POINTS / POINT_GROUP;  /* fragments of a thread block at most */
constexpr uint32_t POINT_PITCH = WARP + 4; /* puts two rows of a fragment on different banks */

/* Grid: (groups of points, of columns), bins, parts. */
template <uint32_t GROUPS>
__global__ void __launch_bounds__(POINT_WARPS *WARP)
    few_points(view v, points p, slots rows, parts parts) {
    constexpr uint32_t STEPS = WARP / 8, OWN = GROUPS * POINT_GROUP / POINT_WARPS;
    __shared__ complex64 a[2][GROUPS * POINT_GROUP][POINT_PITCH];
    const uint32_t across = (v.columns + POINT_COLUMNS - 1) / POINT_COLUMNS, bin = blockIdx.y;
    const uint32_t column = blockIdx.x % across * POINT_COLUMNS + warp() * 16,
                   first = blockIdx.x / across * GROUPS * POINT_GROUP, part = blockIdx.z;
    const uint32_t end = parts.end(part, (uint32_t)v.spec.sensors);
    const column_operand columns{v};
    const steering_operand looks{v, p, frequency_of(v, bin), first};
    const column_operand::row x[2] = {columns.column(bin, min(column + a_row(0), v.columns - 1)),
                                      columns.column(bin, min(column + a_row(1), v.columns - 1))};
    steering_operand::row look[OWN];
    steering_operand::term next[OWN];
    fragment_c sum[GROUPS] = {};
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++) {
        look[i] = looks.find(warp() + i * POINT_WARPS);
        next[i] = looks.read(look[i], min(parts.begin(part) + lane(), end - 1));
    }
    for (uint32_t k = parts.begin(part), side = 0; k < end; k += WARP, side ^= 1) {
        column_operand::term term[STEPS][4];
#pragma unroll
        for (uint32_t s = 0; s < STEPS; s++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                term[s][i] = columns.read(x[i % 2], min(k + 8 * s + a_column(i), end - 1));
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            a[side][warp() + i * POINT_WARPS][lane()] =
                k + lane() < end ? looks.value(look[i], next[i]) : complex64{0, 0};
            next[i] = looks.read(look[i], min(k + WARP + lane(), end - 1));
        }
        __syncthreads(); /* the other side may still be read */
#pragma unroll
        for (uint32_t s = 0; s < STEPS; s++) {
            fragment_a left;
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const complex64 value = columns.value(x[i % 2], term[s][i]);
                left.re[i] = value.re, left.im[i] = -value.im;
            }
#pragma unroll
            for (uint32_t g = 0; g < GROUPS; g++) {
                fragment_b right;
#pragma unroll
                for (uint32_t i = 0; i < 2; i++) {
                    const complex64 value = a[side][g * POINT_GROUP + b_column()][8 * s + b_row(i)];
                    right.re[i] = value.re, right.im[i] = value.im;
                }
                multiply(sum[g], left, right);
            }
        }
    }
#pragma unroll
    for (uint32_t g = 0; g < GROUPS; g++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = column + c_row(i), point = first + g * POINT_GROUP + c_column(i);
            if (row < v.columns && point < p.count)
                partial_of(v, parts, bin, part, rows, row % rows.count,
                           v.images * p.count)[row / rows.count * p.count + point] = {sum[g].re[i],
                                                                                      sum[g].im[i]};
        }
}

} // namespace mvdr

namespace mvdr::host {

/* Makes projections of all snapshots on points whose projections are not kept. */
inline sonar_code project_points(const mvdr_stage *stage, const mvdr::points &p,
                                 cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::slots all = {0, 0, v->length};
    const unsigned groups = blocks_for(p.count, mvdr::POINT_GROUP),
                   threads = mvdr::POINT_WARPS * mvdr::WARP,
                   columns = blocks_for(v->columns, mvdr::POINT_COLUMNS);
    if (groups > mvdr::POINT_GROUPS)
        return project_many(stage, p, all, false, stream, err);
    const dim3 grid(columns, (unsigned)v->spec.bins, stage->points.count);
    if (groups == 1)
        mvdr::few_points<1><<<grid, threads, 0, stream>>>(*v, p, all, stage->points);
    else if (groups == 2)
        mvdr::few_points<2><<<grid, threads, 0, stream>>>(*v, p, all, stage->points);
    else
        mvdr::few_points<mvdr::POINT_GROUPS>
            <<<grid, threads, 0, stream>>>(*v, p, all, stage->points);
    const sonar_code code = CUDA_LAUNCHED(where, "few_points", err);
    if (code)
        return code;
    return fold_projections_of(v, p, all, stage->points, false, stream, err);
}

} // namespace mvdr::host

#endif
