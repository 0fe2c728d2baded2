/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MVDR spectrum on the GPU. With the projections c = X^H a of weighted snapshots and q = c^H (G
 * + delta I)^-1 c in snapshot space, P = delta / (|a|^2 - q); in sensor space 1/P = s = a^H (R +
 * delta I)^-1 a. Either quadratic form is a sum of |w_i^H y|^2 over the columns of the inverse
 * Cholesky factor, or of |w_i^H y|^2 / (d_i + delta) over eigenvectors.
 */
#ifndef SONAR_MVDR_JACOBI_SPECTRUM_CUDA_CUH
#define SONAR_MVDR_JACOBI_SPECTRUM_CUDA_CUH

#include <float.h>

#include "mvdr_jacobi/factor_cuda.cuh"
#include "mvdr_jacobi/stage_cuda.cuh"

namespace mvdr {

constexpr uint32_t LOOKS = PANEL; /* directions of a block of threads */
constexpr uint32_t SPECTRUM_WARPS = 8;

/* Where a bin's steering vectors lie: in tiles of eight directions and four rows, as a fragment
 * wants them. */
__device__ inline size_t steering_at(const view &v, uint32_t row, uint32_t direction) {
    return ((size_t)(direction / 8) * (v.most / 4) + row / 4) * 32 + direction % 8 * 4 + row % 4;
}

/* Sensor space: the steering vectors. Grid: directions, bins. */
__global__ void steer(view v, points p) {
    const uint32_t direction = blockIdx.x, bin = blockIdx.y;
    const uint64_t *turns = p.turns + direction * p.stride;
    const uint64_t middle = turns[v.middle];
    const frequency f = frequency_of(v, bin);
    complex32 *to = p.steering + (size_t)bin * steering_size(p.pitch, v.most);
    for (uint32_t i = threadIdx.x; i < v.n; i += blockDim.x)
        to[steering_at(v, i, direction)] = steering(f, turns[v.sensor[i]], middle);
}

/* The vectors y of a bin's directions: projections of the snapshots that count, weighted, or
 * steering vectors. */
struct looks {
    const view &v;
    const points &p;
    uint32_t bin, first;

    __device__ complex64 at(uint32_t row, uint32_t look) const {
        const uint32_t direction = first + look;
        if (row >= v.order || direction >= p.count)
            return {0, 0};
        const size_t vector = (size_t)bin * p.pitch + direction;
        if (!v.by_snapshots)
            return wide(p.steering[(size_t)bin * steering_size(p.pitch, v.most) +
                                   steering_at(v, row, direction)]);
        const double root = v.root[bin * (size_t)v.length + row % v.length];
        const complex64 c = p.projection[vector * v.columns + row];
        return root > 0 ? complex64{root * c.re, root * c.im} : complex64{0, 0};
    }

    __device__ fragment_b fragment(uint32_t row, uint32_t look) const {
        fragment_b f;
        for (unsigned i = 0; i < 2; i++) {
            const complex64 x = at(row + b_row(i), look + b_column());
            f.re[i] = x.re, f.im[i] = x.im;
        }
        return f;
    }
};

/* The columns of X, or eigenvectors. */
struct basis {
    tiles x;
    matrix w;
    const double *inverse; /* of the eigenvectors; NULL: X */

    __device__ complex64 operator()(uint32_t i, uint32_t j) const {
        return inverse ? w(i, j) : x(i, j);
    }
};

/* Conjugate transpose of columns `first`.. of w, from row k on, as rows of a product. */
__device__ inline fragment_a columns_of(const basis &w, uint32_t rows, uint32_t columns,
                                        uint32_t first, uint32_t k) {
    fragment_a f;
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t column = first + a_row(i), row = k + a_column(i);
        const complex64 x = row < rows && column < columns ? w(row, column) : complex64{0, 0};
        f.re[i] = x.re, f.im[i] = -x.im;
    }
    return f;
}

/* Adds |w_i^H y|^2 of 16 columns to energy[t][0..1], of directions 8 t + c_column. A warp. */
__device__ inline void add_columns(const looks &l, const basis &w, uint32_t first,
                                   double energy[LOOKS / 8][2]) {
    const double *inverse = w.inverse;
    const uint32_t rows = l.v.order, columns = inverse ? rows + rows % 2 : rows;
    const uint32_t end = inverse ? rows : min(rows, first + TILE_ROWS); /* X is triangular */
    strip sum = {};
    for (uint32_t k = 0; k < end; k += 8) {
        const fragment_a left = columns_of(w, rows, columns, first, k);
#pragma unroll
        for (uint32_t t = 0; t < LOOKS / 8; t++)
            multiply(sum.part[t], left, l.fragment(k, 8 * t));
    }
#pragma unroll
    for (uint32_t t = 0; t < LOOKS / 8; t++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t column = first + c_row(i);
            if (column < columns)
                energy[t][i % 2] += square({sum.part[t].re[i], sum.part[t].im[i]}) *
                                    (inverse ? inverse[column] : 1);
        }
}

/* The quadratic forms of a block's directions, to form[look]; warps share the columns. */
__device__ inline void add_up(const looks &l, const basis &w, double form[SPECTRUM_WARPS][LOOKS]) {
    double energy[LOOKS / 8][2] = {};
    for (uint32_t first = warp() * TILE_ROWS; first < l.v.order; first += warps() * TILE_ROWS)
        add_columns(l, w, first, energy);
#pragma unroll
    for (uint32_t t = 0; t < LOOKS / 8; t++)
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            double sum = energy[t][i];
            for (unsigned offset = 4; offset < WARP; offset *= 2)
                sum += __shfl_xor_sync(ALL_LANES, sum, offset);
            if (lane() < 4)
                form[warp()][8 * t + c_column(i)] = sum;
        }
    __syncthreads();
}

/* P from the quadratic form in what the factor was made of. 1/P is no less than |a|^2 over the
 * largest eigenvalue and delta. */
__device__ inline double power_of(const view &v, const bin_state &bin, double form, double norm) {
    const double delta = bin.delta, most = bin.most, each = v.n * bin.level;
    form *= bin.unit;
    if (bin.left) {
        const double q = fmin(form, norm * (most / (most + delta)));
        const double left = fmax(norm - q, norm * (delta / (most + delta)));
        return v.spec.correct_level ? delta / each * (q / left) + bin.base : delta / left;
    }
    const double s = fmax(form, norm / (most + delta));
    return v.spec.correct_level ? fmax(norm - delta * s, 0.0) / (each * s) : 1 / s;
}

/* Grid: groups of directions, bins. */
__global__ void __launch_bounds__(SPECTRUM_WARPS *WARP) spectrum(view v, points p) {
    __shared__ double form[SPECTRUM_WARPS][LOOKS];
    const uint32_t bin = blockIdx.y;
    const bin_state &state = v.bin[bin];
    const looks l = {v, p, bin, blockIdx.x * LOOKS};
    const size_t direction = (size_t)l.first + threadIdx.x, at = (size_t)bin * p.pitch + direction;
    double power = 0, sum = 0;
    complex64 *factor = v.factor + (size_t)bin * v.most * v.most;
    if (state.delta > 0)
        add_up(l,
               {{factor, v.most},
                {factor, v.most},
                v.vectors ? v.inverse + (size_t)bin * v.most : nullptr},
               form);
    if (threadIdx.x >= LOOKS || direction >= p.count)
        return;
    if (state.delta > 0) {
        for (uint32_t i = 0; i < SPECTRUM_WARPS; i++)
            sum += form[i][threadIdx.x];
        power = power_of(v, state, sum, p.norm[at]);
    }
    p.power[at] = (float)fmin(power, (double)FLT_MAX);
}

/* (fs/N) sum_b P, in double, bin after bin. */
__global__ void band_power(view v, points p, float *out, ptrdiff_t stride) {
    uint32_t point = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    if (point >= p.count)
        return;
    for (size_t bin = v.spec.edge_below; bin < v.spec.bins - v.spec.edge_above; bin++)
        sum += (double)p.power[bin * p.pitch + point];
    out[point * stride] = (float)fmin(sum * v.spec.fs_hz / (double)v.spec.length, (double)FLT_MAX);
}

} // namespace mvdr

#endif
