/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The spectrum from the streaming inverse M: p = a^H M a and q = |M a|^2. */
#ifndef SONAR_MVDR_JACOBI_CUDA_INVERSE_MOMENTS_CUH
#define SONAR_MVDR_JACOBI_CUDA_INVERSE_MOMENTS_CUH

#include "core/random.h"
#include "mvdr_jacobi/cuda/spectrum.cuh"
#include "mvdr_jacobi/cuda/inverse/update.cuh"

namespace mvdr {

constexpr uint32_t MOMENT_ROWS =
    SPECTRUM_WARPS * TILE_ROWS; /* rows of M that a thread block multiplies */

/* Parts of p and q: [part][bin][point][2]. */
__device__ inline double *moments_of(const view &v, const points &p, uint32_t part, uint32_t bin,
                                     uint32_t point) {
    return v.moment + (((size_t)part * v.spec.bins + bin) * p.pitch + point) * 2;
}

__device__ inline bool has_moments(const view &v, uint32_t bin) {
    return v.in_band(bin) && v.bin[bin].slid && v.bin[bin].delta > 0;
}

/* Adds the terms of a^H M a and |M a|^2 in 16 rows of M a. */
__device__ inline void add_moments(const looks &l, uint32_t first, const strip &sum,
                                   double form[2][LOOKS / 8][2]) {
#pragma unroll
    for (uint32_t t = 0; t < LOOKS / 8; t++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t row = min(first + c_row(i), l.v.order - 1),
                           look = min(l.first + 8 * t + c_column(i), l.p.count - 1);
            const complex64 y = {sum.part[t].re[i], sum.part[t].im[i]}, a = l.steering(row, look);
            form[0][t][i % 2] += a.re * y.re + a.im * y.im;
            form[1][t][i % 2] += square(y);
        }
}

/* M as the left factor of a product. Its rows are the conjugates of its columns, and lie in memory
 * in the order of a fragment. */
struct inverse_columns {
    tiles m;
};
__device__ inline fragment_a columns_of(const inverse_columns &w, uint32_t first, uint32_t k) {
    return rows_of(w.m, first, k);
}

/* A thread's part of the next stretch of steering vectors. It is read from memory while the present
 * stretch is multiplied. */
struct next_stretch {
    static constexpr uint32_t DOWN = STRETCH / 4, COUNT = DOWN * LOOKS / 8 / SPECTRUM_WARPS;
    complex32 at[COUNT];

    __device__ static uint32_t tile(uint32_t i) { return warp() + i * SPECTRUM_WARPS; }

    __device__ void fetch(const looks &l, uint32_t row) {
        const complex32 *from = l.p.steering + (size_t)l.bin * steering_size(l.p.pitch, l.v.most);
        const uint32_t last = (l.p.count - 1) / 8, end = l.v.most / 4 - 1;
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++) {
            const uint32_t down = min(row / 4 + tile(i) % DOWN, end),
                           look = min(l.first / 8 + tile(i) / DOWN, last);
            at[i] = from[((size_t)look * (l.v.most / 4) + down) * WARP + lane()];
        }
    }

    __device__ void put(stretch &y) const {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i++)
            y.at[tile(i) % DOWN][tile(i) / DOWN][lane()] = wide(at[i]);
    }
};

/* Computes the parts of p and q in MOMENT_ROWS rows of M. M is padded with zeros, so that rows of
 * the steering vectors beyond the order add nothing. Grid: groups of points, bins, parts. */
__global__ void __launch_bounds__(SPECTRUM_WARPS *WARP, 3) moments(view v, points p) {
    __shared__ stretch y;
    __shared__ double form[SPECTRUM_WARPS][2][LOOKS];
    const uint32_t bin = blockIdx.y, part = blockIdx.z, rows = padded(v.order);
    if (!has_moments(v, bin))
        return;
    const looks l = {v, p, bin, blockIdx.x * LOOKS};
    const inverse_columns m = {inverse_of(v, bin)};
    const uint32_t first = part * MOMENT_ROWS + warp() * TILE_ROWS;
    const bool any = first < rows;
    strip sum = {};
    next_stretch next;
    next.fetch(l, 0);
    for (uint32_t row = 0; row < rows; row += STRETCH) {
        fragment_a left = {};
        if (any)
            left = columns_of(m, first, row);
        __syncthreads();
        next.put(y);
        __syncthreads();
        if (row + STRETCH < rows)
            next.fetch(l, row + STRETCH);
        if (any)
            add_rows(m, y, first, row, min(rows - row, STRETCH), left, sum);
    }
    double own[2][LOOKS / 8][2] = {};
    if (any)
        add_moments(l, first, sum, own);
#pragma unroll
    for (uint32_t t = 0; t < LOOKS / 8 * 4; t++) {
        double whole = own[t % 2][t / 4][t / 2 % 2];
        for (unsigned offset = 4; offset < WARP; offset *= 2)
            whole += __shfl_xor_sync(ALL_LANES, whole, offset);
        if (lane() < 4)
            form[warp()][t % 2][8 * (t / 4) + c_column(t / 2 % 2)] = whole;
    }
    __syncthreads();
    if (threadIdx.x >= 2 * LOOKS || l.first + threadIdx.x / 2 >= p.count)
        return;
    double whole = 0;
    for (uint32_t i = 0; i < SPECTRUM_WARPS; i++)
        whole += form[i][threadIdx.x % 2][threadIdx.x / 2];
    moments_of(v, p, part, bin, l.first + threadIdx.x / 2)[threadIdx.x % 2] = whole;
}

/* Computes P from p and q, and with `probes` also the point's weight in the probe. Grid: points,
 * bins. */
__global__ void add_up_moments(view v, points p, uint32_t parts, bool probes) {
    const uint32_t point = blockIdx.x * blockDim.x + threadIdx.x, bin = blockIdx.y;
    if (point >= p.count || !has_moments(v, bin))
        return;
    const bin_state &state = v.bin[bin];
    const size_t at = (size_t)bin * p.pitch + point;
    double first = 0, second = 0;
    for (uint32_t i = 0; i < parts; i++) {
        const double *part = moments_of(v, p, i, bin, point);
        first += part[0], second += part[1];
    }
    const double q = mvdr_bounded_slope(p.norm[at], state.kept, first, second);
    const double form = first * first / (first + state.apart * q);
    p.power[at] = (float)fmin(power_of(v, state, form, p.norm[at]), (double)FLT_MAX);
    if (probes)
        v.probe[at] = (sonar_random_at(v.slide[bin].windows, point) & 1 ? 1 : -1) / sqrt(first);
}

} // namespace mvdr

namespace mvdr::host {

inline unsigned moment_parts(uint32_t rows) {
    return blocks_for(rows, mvdr::MOMENT_ROWS);
}

/* Computes P of the bins that have been solved by M, at points whose steering vectors exist. */
inline sonar_code run_moments(const mvdr_stage *stage, const mvdr::points &points, bool probes,
                              cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, parts = moment_parts(mvdr::padded(v->order));
    if (!v->order)
        return SONAR_OK;
    const dim3 grid(blocks_for(points.count, mvdr::LOOKS), bins, parts);
    mvdr::moments<<<grid, mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(*v, points);
    sonar_code code = CUDA_LAUNCHED(where, "moments", err);
    if (code)
        return code;
    const dim3 each(blocks_for(points.count, 64), bins);
    mvdr::add_up_moments<<<each, 64, 0, stream>>>(*v, points, parts, probes);
    return CUDA_LAUNCHED(where, "add_up_moments", err);
}

} // namespace mvdr::host

#endif
