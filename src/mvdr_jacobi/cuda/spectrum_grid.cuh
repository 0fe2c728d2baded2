/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The quadratic forms of large matrices and of eigenvectors in sensor space: the same sums as in
 * cuda/spectrum.cuh, in squares of 64 directions and 64 columns of the basis, so that a single bin
 * occupies many multiprocessors.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_SPECTRUM_GRID_CUH
#define SONAR_MVDR_JACOBI_CUDA_SPECTRUM_GRID_CUH

#include "mvdr_jacobi/cuda/spectrum.cuh"
#include "mvdr_jacobi/cuda/squares.cuh"

namespace mvdr {

/* Conjugated steering vectors of 64 directions, as the left factor's rows. */
struct steering_from {
    const complex32 *at;
    uint32_t most, any; /* groups of eight directions that exist */

    /* Rows k.. of the vectors. All threads call. */
    __device__ void fetch(uint32_t k, complex64 to[CHUNK / 4][SQUARE / 8][WARP]) const {
        constexpr uint32_t EIGHT = CHUNK / 4 * WARP; /* adjacent elements of eight directions */
        for (uint32_t i = 2 * threadIdx.x; i < CHUNK * SQUARE; i += 2 * SQUARE_THREADS)
            copy_later((complex32 *)to + i, at + 8 * k + (size_t)(i / EIGHT) * 8 * most + i % EIGHT,
                       i / EIGHT < any);
    }
    __device__ static fragment_a left(const chunk &c, uint32_t row) {
        const complex32 *from = (const complex32 *)c.left;
        fragment_a a;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const complex32 x = from[((row / 8 + i % 2) * (CHUNK / 4) + i / 2) * WARP + lane()];
            a.re[i] = (double)x.re, a.im[i] = -(double)x.im;
        }
        return a;
    }
};

/* 64 eigenvectors, stored one after the other. */
struct vectors_from {
    const complex64 *at;
    uint32_t length, any; /* elements of a vector; vectors that exist */

    /* Elements k.. of the vectors. All threads call. */
    __device__ void fetch(uint32_t k, complex64 to[CHUNK / 4][SQUARE / 8][WARP]) const {
#pragma unroll
        for (uint32_t i = 0; i < CHUNK * SQUARE; i += SQUARE_THREADS) {
            const uint32_t vector = (i + threadIdx.x) / CHUNK, row = threadIdx.x % CHUNK;
            copy_later(&to[row / 4][vector / 8][vector % 8 * 4 + row % 4],
                       at + (size_t)vector * length + k + row, vector < any);
        }
    }
    __device__ static fragment_b right(const chunk &c, uint32_t tile, uint32_t) {
        const complex64 x = c.right[0][tile][lane()], y = c.right[1][tile][lane()];
        return {{x.re, y.re}, {x.im, y.im}};
    }
    __device__ void fetch_signs(uint32_t, chunk &) const {}
};

/* A bin's parts of the forms: [square of columns][direction]. */
__device__ inline double *forms_of(const view &v, const points &p, uint32_t bin) {
    return v.form + (size_t)bin * squares(v.most) * p.pitch;
}

/* The sums of weight |z|^2 over a square's columns before `columns`, to form[direction] for
 * directions before `looks`. `weight`: [column]; NULL: 1. All threads call. */
__device__ inline void add_up(const share &z, const double *weight, uint32_t columns,
                              uint32_t looks, double *form) {
    __shared__ double part[SQUARE / SHARE_COLUMNS][SQUARE];
    double sum[SHARE_ROWS / 8] = {};
#pragma unroll
    for (uint32_t t = 0; t < SHARE_COLUMNS / 8; t++)
#pragma unroll
        for (uint32_t half = 0; half < 2; half++) {
            const uint32_t column = share::column() + 8 * t + c_column(half);
            const double own = column >= columns ? 0 : weight ? weight[column] : 1;
#pragma unroll
            for (uint32_t r = 0; r < SHARE_ROWS / 8; r++) {
                const fragment_c &c = z.part[r / 2][t];
                const uint32_t i = r % 2 * 2 + half;
                sum[r] += own * square({c.re[i], c.im[i]});
            }
        }
#pragma unroll
    for (uint32_t r = 0; r < SHARE_ROWS / 8; r++) {
        const double all = sum_lanes(sum[r], 4);
        if (lane() % 4 == 0)
            part[share::column() / SHARE_COLUMNS][share::row() + 8 * r + lane() / 4] = all;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < min(SQUARE, looks); i += SQUARE_THREADS) {
        double all = 0;
        for (uint32_t half = 0; half < SQUARE / SHARE_COLUMNS; half++)
            all += part[half][i];
        form[i] = all;
    }
}

/* Computes the parts of the forms, and with eigenvectors the squared products that limit_gain
 * needs. Grid: squares of directions, squares of columns, bins. A factor's longest sums come first.
 */
template <bool VECTORS>
__global__ void __launch_bounds__(SQUARE_THREADS, 2) form_squares(view v, points p) {
    extern __shared__ __align__(16) unsigned char memory[];
    const uint32_t bin = blockIdx.z, rows = padded(v.order), along = squares(rows);
    const uint32_t column = along - 1 - blockIdx.y, first = blockIdx.x * SQUARE;
    if (!v.in_band(bin) || v.bin[bin].slid || !(v.bin[bin].delta > 0))
        return;
    const uint32_t begin = column * SQUARE, end = min(begin + SQUARE, rows);
    const uint32_t columns = v.order - begin, looks = p.pitch - first;
    const steering_from left = {p.steering + (size_t)bin * steering_size(p.pitch, v.most) +
                                    (size_t)first * v.most,
                                v.most, min(SQUARE, looks + 7) / 8};
    double *const form = forms_of(v, p, bin) + (size_t)column * p.pitch + first;
    chunk *const room = (chunk *)memory;
    share z = {};
    if (!VECTORS) {
        add_terms(z, left, columns_from(factor_of(v, bin), begin, rows), 0, end,
                  begin + share::column() + SHARE_COLUMNS, room);
        add_up(z, nullptr, columns, looks, form);
        return;
    }
    const vectors_from right = {factor_of(v, bin).at + (size_t)begin * v.most, v.most,
                                min(SQUARE, columns)};
    add_terms(z, left, right, 0, rows, rows, room);
    add_up(z, v.inverse + (size_t)bin * v.most + begin, columns, looks, form);
    if (!(v.gain > 0))
        return;
    double *const energy = v.energy + ((size_t)bin * p.pitch + first) * v.most + begin;
    z.each([&](uint32_t look, uint32_t own, complex64 x) {
        if (look < looks && own < columns)
            energy[(size_t)look * v.most + own] = square(x);
    });
}

/* P from the sums of the parts. Grid: groups of directions, bins. */
__global__ void power_of_forms(view v, points p) {
    const uint32_t bin = blockIdx.y, direction = blockIdx.x * blockDim.x + threadIdx.x;
    const bin_state &state = v.bin[bin];
    if (!v.in_band(bin) || state.slid || direction >= p.count)
        return;
    const size_t at = (size_t)bin * p.pitch + direction;
    const double *form = forms_of(v, p, bin) + direction;
    double power = 0, sum = 0;
    for (uint32_t i = 0; i < squares(v.order) && state.delta > 0; i++)
        sum += form[(size_t)i * p.pitch];
    if (state.delta > 0)
        power = power_of(v, state, sum, p.norm[at]);
    p.power[at] = (float)fmin(power, (double)FLT_MAX);
}

} // namespace mvdr

namespace mvdr::host {

/* The spectrum of large matrices and of eigenvectors in sensor space. */
inline sonar_code spectrum_in_squares(const mvdr::view &v, const mvdr::points &points,
                                      cudaStream_t stream, sonar_error *err) {
    const unsigned bins = (unsigned)v.spec.bins;
    const dim3 grid(blocks_for(points.count, mvdr::SQUARE), mvdr::squares(v.order), bins);
    if (v.order) {
        if (v.vectors)
            mvdr::form_squares<true>
                <<<grid, mvdr::SQUARE_THREADS, CHUNK_BYTES, stream>>>(v, points);
        else
            mvdr::form_squares<false>
                <<<grid, mvdr::SQUARE_THREADS, CHUNK_BYTES, stream>>>(v, points);
        const sonar_code code = CUDA_LAUNCHED(where, "form_squares", err);
        if (code)
            return code;
    }
    mvdr::power_of_forms<<<dim3(blocks_for(points.count, 64), bins), 64, 0, stream>>>(v, points);
    return CUDA_LAUNCHED(where, "power_of_forms", err);
}

} // namespace mvdr::host

#endif
