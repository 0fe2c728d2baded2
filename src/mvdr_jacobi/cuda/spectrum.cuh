/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MVDR spectrum on the GPU. In snapshot space, with the projections c = X^H a of weighted
 * snapshots and q = c^H (G + delta I)^-1 c, P = delta / (|a|^2 - q). In sensor space 1/P = s = a^H
 * (R + delta I)^-1 a. With y = c or y = a, both quadratic forms are sums of |w_i^H y|^2 over the
 * columns of the inverse Cholesky factor, or of |w_i^H y|^2 / (d_i + delta) over eigenvectors.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_SPECTRUM_CUH
#define SONAR_MVDR_JACOBI_CUDA_SPECTRUM_CUH

#include <float.h>

#include "mvdr_jacobi/cuda/factor.cuh"
#include "mvdr_jacobi/cuda/stage.cuh"
#include "mvdr_jacobi/rules/white_noise.h"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr {

constexpr uint32_t LOOKS = PANEL; /* directions of a thread block */
constexpr uint32_t SPECTRUM_WARPS =
    4;                           /* warps of a block, with 16 columns of the basis each at a time */
constexpr uint32_t STRETCH = 64; /* rows of the directions' vectors in shared memory at a time */

/* Index of an element of a bin's steering vectors. They are stored in tiles of eight directions and
 * four rows, in the order of a fragment. */
__device__ inline size_t steering_at(const view &v, uint32_t row, uint32_t direction) {
    return ((size_t)(direction / 8) * (v.most / 4) + row / 4) * 32 + direction % 8 * 4 + row % 4;
}

/* Sensor space: computes the steering vectors. Grid: directions, bins. */
__global__ void steer(view v, points p) {
    const uint32_t direction = blockIdx.x, bin = blockIdx.y;
    if (!v.in_band(bin))
        return;
    const uint64_t *turns = p.turns + direction * p.stride;
    const uint64_t middle = turns[v.middle];
    const frequency f = frequency_of(v, bin);
    complex32 *to = p.steering + (size_t)bin * steering_size(p.pitch, v.most);
    for (uint32_t i = threadIdx.x; i < v.n; i += blockDim.x)
        to[steering_at(v, i, direction)] = steering(f, turns[v.sensor[i]], middle);
}

/* Some rows of the directions' vectors, in tiles of four rows and eight directions, in the order of
 * a fragment's lanes. */
struct stretch {
    complex64 at[STRETCH / 4][LOOKS / 8][WARP];

    __device__ complex64 &operator()(uint32_t row, uint32_t look) {
        return at[row / 4][look / 8][look % 8 * 4 + row % 4];
    }
    __device__ fragment_b fragment(uint32_t row, uint32_t tile) const {
        const complex64 x = at[row / 4][tile][lane()], y = at[row / 4 + 1][tile][lane()];
        return {{x.re, y.re}, {x.im, y.im}};
    }
};

/* The vectors y of a block's directions: weighted projections of the valid snapshots, or steering
 * vectors. A value is loaded even if it is not used, since loads without a condition overlap. */
struct looks {
    const view &v;
    const points &p;
    uint32_t bin, first;

    __device__ complex64 projection(uint32_t row, uint32_t direction) const {
        const uint32_t slot = row < v.length ? row : row - v.length;
        const double root = v.root[bin * (size_t)v.length + slot];
        const complex64 c = p.projection[((size_t)bin * p.pitch + direction) * v.columns + row];
        return root > 0 ? complex64{root * c.re, root * c.im} : complex64{0, 0};
    }

    __device__ complex64 steering(uint32_t row, uint32_t direction) const {
        return wide(p.steering[(size_t)bin * steering_size(p.pitch, v.most) +
                               steering_at(v, row, direction)]);
    }

    /* Reads projections from `row` on, with zeros beyond the last row. All threads call. */
    __device__ void read_projections(uint32_t row, stretch &y) const {
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < STRETCH * LOOKS; i += SPECTRUM_WARPS * WARP) {
            const uint32_t at = row + i % STRETCH, in = min(at, v.order - 1);
            const complex64 x = projection(in, min(first + i / STRETCH, p.count - 1));
            y(i % STRETCH, i / STRETCH) = at < v.order ? x : complex64{0, 0};
        }
    }

    /* The same for steering vectors, a tile for each warp at a time. */
    __device__ void read_steering(uint32_t row, stretch &y) const {
        constexpr uint32_t DOWN = STRETCH / 4;
#pragma unroll 4
        for (uint32_t tile = warp(); tile < DOWN * LOOKS / 8; tile += SPECTRUM_WARPS) {
            const uint32_t at = row + tile % DOWN * 4 + lane() % 4, in = min(at, v.order - 1);
            const uint32_t direction = first + tile / DOWN * 8 + lane() / 4;
            const complex64 x = steering(in, min(direction, p.count - 1));
            y.at[tile % DOWN][tile / DOWN][lane()] = at < v.order ? x : complex64{0, 0};
        }
    }

    __device__ void read(uint32_t row, stretch &y) const {
        if (v.by_snapshots)
            read_projections(row, y);
        else
            read_steering(row, y);
    }
};

/* The basis X: the columns of a triangular matrix, with the identity beyond the matrix. */
struct inverse_factor {
    tiles x;
    uint32_t columns; /* whole panels */

    __device__ complex64 at(uint32_t row, uint32_t column) const { return x(row, column); }
    /* Number of rows of the columns before `end`. */
    __device__ uint32_t rows(uint32_t end) const { return min(end, columns); }
    __device__ double weight(uint32_t) const { return 1; }
    __device__ void note(uint32_t, uint32_t, double) const {}
};

/* The basis of eigenvectors, with the factors of their squared products. */
struct eigenvectors {
    matrix w;
    const double *inverse;
    uint32_t order, columns;
    double *energy; /* [look][most] from the block's first direction on; NULL: not wanted */
    uint32_t most, looks;

    __device__ complex64 at(uint32_t row, uint32_t column) const {
        const complex64 x = w(min(row, order - 1), min(column, columns - 1));
        return row < order && column < columns ? x : complex64{0, 0};
    }
    __device__ uint32_t rows(uint32_t) const { return (order + 7) / 8 * 8; }
    __device__ double weight(uint32_t column) const {
        return column < columns ? inverse[column] : 0;
    }
    /* Stores |w_i^H y|^2. */
    __device__ void note(uint32_t column, uint32_t look, double square) const {
        if (energy && column < columns && look < looks)
            energy[(size_t)look * most + column] = square;
    }
};

/* The conjugate transpose of columns `first`.. of w, from row k on, as the left factor of a
 * product. */
template <typename Basis>
__device__ inline fragment_a columns_of(const Basis &w, uint32_t first, uint32_t k) {
    fragment_a f;
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const complex64 x = w.at(k + a_column(i), first + a_row(i));
        f.re[i] = x.re, f.im[i] = -x.im;
    }
    return f;
}

/* Adds w_i^H y of 16 columns and all directions over `rows` rows of a stretch that begins at `row`.
 * left: the columns at its first rows. A warp calls. */
template <typename Basis>
__device__ inline void add_rows(const Basis &w, const stretch &y, uint32_t first, uint32_t row,
                                uint32_t rows, fragment_a left, strip &sum) {
    for (uint32_t k = 0; k < rows; k += 8) {
        const fragment_a own = left;
        if (k + 8 < rows)
            left = columns_of(w, first, row + k + 8);
#pragma unroll
        for (uint32_t t = 0; t < LOOKS / 8; t++)
            multiply(sum.part[t], own, y.fragment(k, t));
    }
}

/* Adds |w_i^H y|^2 of 16 columns to energy[t][0..1], for directions 8 t + c_column. */
template <typename Basis>
__device__ inline void add_squares(const Basis &w, uint32_t first, const strip &sum,
                                   double energy[LOOKS / 8][2]) {
    const double weight[2] = {w.weight(first + c_row(0)), w.weight(first + c_row(2))};
#pragma unroll
    for (uint32_t t = 0; t < LOOKS / 8; t++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const double own = square({sum.part[t].re[i], sum.part[t].im[i]});
            energy[t][i % 2] += weight[i / 2] * own;
            w.note(first + c_row(i), 8 * t + c_column(i), own);
        }
}

/* Computes the quadratic forms of a block's directions, in parts form[warp][look]. The warps share
 * the columns. */
template <typename Basis>
__device__ inline void add_up(const looks &l, const Basis &w, stretch &y,
                              double form[SPECTRUM_WARPS][LOOKS]) {
    double energy[LOOKS / 8][2] = {};
    for (uint32_t group = 0; group < w.columns; group += SPECTRUM_WARPS * TILE_ROWS) {
        const uint32_t first = group + warp() * TILE_ROWS;
        const uint32_t end = w.rows(group + SPECTRUM_WARPS * TILE_ROWS);
        const uint32_t own = first < w.columns ? w.rows(first + TILE_ROWS) : 0;
        strip sum = {};
        for (uint32_t row = 0; row < end; row += STRETCH) {
            fragment_a left = {};
            if (row < own)
                left = columns_of(w, first, row);
            __syncthreads();
            l.read(row, y);
            __syncthreads();
            if (row < own)
                add_rows(w, y, first, row, min(own - row, STRETCH), left, sum);
        }
        if (own)
            add_squares(w, first, sum, energy);
    }
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

/* P from the quadratic form of the factored matrix. 1/P is limited to at least |a|^2 divided by the
 * sum of the largest eigenvalue and delta. */
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

/* The spectrum of bins that were not solved by the streaming inverse. Grid: groups of directions,
 * bins. */
template <bool VECTORS>
__global__ void __launch_bounds__(SPECTRUM_WARPS *WARP, 3) spectrum(view v, points p) {
    __shared__ stretch y;
    __shared__ double form[SPECTRUM_WARPS][LOOKS];
    const uint32_t bin = blockIdx.y;
    const bin_state &state = v.bin[bin];
    if (!v.in_band(bin) || state.slid)
        return;
    const looks l = {v, p, bin, blockIdx.x * LOOKS};
    const size_t direction = (size_t)l.first + threadIdx.x, at = (size_t)bin * p.pitch + direction;
    double power = 0, sum = 0;
    complex64 *factor = v.factor + (size_t)bin * v.most * v.most;
    if (state.delta > 0 && VECTORS)
        add_up(l,
               eigenvectors{{factor, v.most},
                            v.inverse + (size_t)bin * v.most,
                            v.order,
                            v.order + v.order % 2,
                            v.gain > 0 ? v.energy + ((size_t)bin * p.pitch + l.first) * v.most
                                       : nullptr,
                            v.most,
                            p.count - l.first},
               y, form);
    else if (state.delta > 0)
        add_up(l, inverse_factor{{factor, v.most}, padded(v.order)}, y, form);
    if (threadIdx.x >= LOOKS || direction >= p.count)
        return;
    if (state.delta > 0) {
        for (uint32_t i = 0; i < SPECTRUM_WARPS; i++)
            sum += form[i][threadIdx.x];
        power = power_of(v, state, sum, p.norm[at]);
    }
    p.power[at] = (float)fmin(power, (double)FLT_MAX);
}

/* A warp's sums over the columns, for the limit on the white noise gain. `left`: the part of |a|^2
 * beyond the columns. */
struct gain_terms {
    const view &v;
    const double *own, *energy; /* [column] */
    uint32_t columns;
    double delta, left;

    /* q_i; 0 for eigenvalues that are rounding errors, which count as beyond the columns. */
    __device__ double share(uint32_t i, double most) const {
        const double d = own[i];
        return !v.by_snapshots ? energy[i] : d > MVDR_LEAST_FLOAT64 * most ? energy[i] / d : 0;
    }

    __device__ double total(double most) const {
        double sum = 0;
        for (uint32_t i = lane(); i < columns; i += WARP)
            sum += share(i, most);
        return sum_lanes(sum);
    }

    __device__ mvdr_gain_sums at(double mu, double most) const {
        const double rest = 1 / (delta + mu), beyond = lane() ? 0 : left * rest;
        mvdr_gain_sums s = {beyond, beyond * rest, beyond * rest * rest, delta * beyond * rest};
        for (uint32_t i = lane(); i < columns; i += WARP) {
            const double lambda = own[i] + delta, inverse = 1 / (lambda + mu);
            const double x = share(i, most) * inverse, y = x * inverse;
            s.first += x, s.second += y, s.third += y * inverse, s.through += lambda * y;
        }
        return {sum_lanes(s.first), sum_lanes(s.second), sum_lanes(s.third), sum_lanes(s.through)};
    }
};

/* Computes P again in directions whose weights have too little gain, as in white_noise.c. `grid`:
 * the directions are the stage's own and are counted in the info. A warp for each direction. Grid:
 * groups of 8 directions, bins. */
__global__ void __launch_bounds__(256) limit_gain(view v, points p, bool grid) {
    const uint32_t direction = blockIdx.x * warps() + warp(), bin = blockIdx.y;
    const bin_state &state = v.bin[bin];
    if (!v.in_band(bin) || direction >= p.count || !(state.delta > 0))
        return;
    const size_t at = (size_t)bin * p.pitch + direction;
    const double norm = p.norm[at], most = state.most;
    gain_terms terms = {
        v, v.own + (size_t)bin * v.most, v.energy + at * v.most, v.order, state.delta, 0};
    if (v.by_snapshots)
        terms.left = fmax(norm - terms.total(most), 0.0);
    mvdr_gain_search search = mvdr_gain_begin(v.gain, state.delta, most + state.delta);
    mvdr_gain_sums sums = {0, 0, 0, 0};
    for (int step = 0; step < MVDR_GAIN_STEPS && !search.found; step++) {
        sums = terms.at(search.mu, most);
        mvdr_gain_step(&search, sums, v.gain * norm);
    }
    if (search.mu == 0 || lane())
        return;
    p.power[at] = (float)fmin(sums.through / (sums.first * sums.first), (double)FLT_MAX);
    if (grid)
        atomicAdd(&v.info[(size_t)bin * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_LIMITED], 1.0f);
}

/* (fs/N) sum_b P, in double, bin after bin. */
__global__ void band_power(view v, points p, float *out, ptrdiff_t stride) {
    uint32_t point = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    if (point >= p.count)
        return;
#pragma unroll 16
    for (size_t bin = v.band.sum_begin; bin < v.band.sum_end; bin++)
        sum += (double)p.power[bin * p.pitch + point];
    out[point * stride] = (float)fmin(sum * v.spec.fs_hz / (double)v.spec.length, (double)FLT_MAX);
}

} // namespace mvdr

namespace mvdr::host {

/* Sensor space: computes the points' steering vectors. */
inline sonar_code steer_at(const mvdr_stage *stage, const mvdr::points &points, cudaStream_t stream,
                           sonar_error *err) {
    const mvdr::view *v = &stage->view;
    if (v->by_snapshots)
        return SONAR_OK;
    mvdr::steer<<<dim3(points.count, (unsigned)v->spec.bins), 128, 0, stream>>>(*v, points);
    return CUDA_LAUNCHED(where, "steer", err);
}

/* The spectrum from 32 directions for each thread block, on any route. */
inline sonar_code spectrum_of_looks(const mvdr::view &v, const mvdr::points &points,
                                    cudaStream_t stream, sonar_error *err) {
    const dim3 grid(blocks_for(points.count, mvdr::LOOKS), (unsigned)v.spec.bins);
    if (v.vectors)
        mvdr::spectrum<true><<<grid, mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(v, points);
    else
        mvdr::spectrum<false><<<grid, mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(v, points);
    return CUDA_LAUNCHED(where, "spectrum", err);
}

} // namespace mvdr::host

#endif
