/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The rounding error of the streaming inverse M, found by a probe. */
#ifndef SONAR_MVDR_JACOBI_CUDA_INVERSE_PROBE_CUH
#define SONAR_MVDR_JACOBI_CUDA_INVERSE_PROBE_CUH

#include "core/random.h"
#include "mvdr_jacobi/cuda/inverse/update.cuh"

namespace mvdr {

/* Computes the probe, the weighted sum of a over the grid's directions, as the column that M is
 * applied to. Four rows for each warp. Grid: rows, bins. */
__global__ void __launch_bounds__(INVERSE_THREADS) make_probe(view v, points p) {
    const uint32_t row = 4 * (blockIdx.x * warps() + warp()), bin = blockIdx.y;
    if (!uses_inverse(v, bin) || row >= padded(v.order))
        return;
    const complex32 *a = p.steering + (size_t)bin * steering_size(p.pitch, v.most);
    complex64 sum = {0, 0};
    for (uint32_t look = lane() / 4; look < p.count; look += 8) {
        const complex64 x = wide(a[steering_at(v, row + lane() % 4, look)]);
        const double weight = v.probe[(size_t)bin * p.pitch + look];
        sum.re += weight * x.re, sum.im += weight * x.im;
    }
    __syncwarp();
    for (unsigned offset = 4; offset < WARP; offset *= 2) {
        sum.re += __shfl_xor_sync(ALL_LANES, sum.re, offset);
        sum.im += __shfl_xor_sync(ALL_LANES, sum.im, offset);
    }
    const uint32_t i = row + lane() % 4;
    if (lane() < 4)
        moved_of(v, bin, 0)[i] = i < v.order ? sum : complex64{0, 0};
}

/* The terms of column j in z^H S z: twice Re z_j sum over i > j of conj(z_i) S_ij, plus S_jj
 * |z_j|^2. `backward`: with the mirrored z. A warp calls. */
__device__ inline double column_form(const bin_matrix &s, const complex64 *z, uint32_t j,
                                     bool backward) {
    const view &v = s.v;
    complex64 sum = {0, 0};
    const auto at = [&](uint32_t i) { return backward ? conj(z[v.partner[i]]) : z[i]; };
    for (uint32_t i = j + lane(); i < v.order; i += WARP) {
        const complex64 x = s.covariance(i, j);
        const double twice = i == j ? 1 : 2;
        add_product(sum, conj(at(i)), {twice * x.re, i == j ? 0 : twice * x.im});
    }
    const complex64 own = at(j);
    return sum.re * own.re - sum.im * own.im;
}

/* Computes parts of z^H S z. Grid: groups of columns, bins. */
__global__ void __launch_bounds__(INVERSE_THREADS) square_probe(view v) {
    const uint32_t bin = blockIdx.y;
    if (!uses_inverse(v, bin))
        return;
    const bin_matrix s(v, bin, {0, 0, 1, 0});
    const complex64 *z = product_of(v, bin, 0);
    double sum = 0;
    for (uint32_t j = blockIdx.x * warps() + warp(); j < v.order; j += gridDim.x * warps()) {
        sum += column_form(s, z, j, false);
        if (v.images == 2)
            sum += column_form(s, z, j, true);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        v.inverse_part[(size_t)bin * v.inverse_parts * 2 + blockIdx.x] = sum;
}

/* Decides by the probe whether M is accurate enough. One block of threads for each bin. */
__global__ void __launch_bounds__(256) judge_inverse(view v, uint32_t parts) {
    const uint32_t bin = blockIdx.x;
    if (!uses_inverse(v, bin))
        return;
    const sliding &s = v.slide[bin];
    const complex64 *probe = moved_of(v, bin, 0), *z = product_of(v, bin, 0);
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < parts; i += blockDim.x)
        sum += v.inverse_part[(size_t)bin * v.inverse_parts * 2 + i];
    sum = block_sum(sum) * s.weight + s.delta * inner(z, z, v.order).re;
    const bool right = fabs(sum - inner(probe, z, v.order).re) <= MVDR_MOST_WRONG;
    __syncthreads();
    if (threadIdx.x)
        return;
    if (right)
        v.unsolved[bin] = 0;
    else
        drop_inverse(v, bin, true);
}

} // namespace mvdr

namespace mvdr::host {

/* Measures the rounding error of M. Bins in which it is too large are left to the solver. */
inline sonar_code probe_inverses(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, rows = mvdr::padded(v->order);
    const unsigned threads = mvdr::INVERSE_THREADS, parts = rows / 32;
    mvdr::make_probe<<<dim3(rows / 16, bins), threads, 0, stream>>>(*v, stage->grid);
    sonar_code code = CUDA_LAUNCHED(where, "make_probe", err);
    if (!code)
        code = launch_apply_inverse(stage, 1, stream, err);
    if (code)
        return code;
    mvdr::square_probe<<<dim3(parts, bins), threads, 0, stream>>>(*v);
    if ((code = CUDA_LAUNCHED(where, "square_probe", err)) != SONAR_OK)
        return code;
    mvdr::judge_inverse<<<bins, 256, 0, stream>>>(*v, parts);
    return CUDA_LAUNCHED(where, "judge_inverse", err);
}

} // namespace mvdr::host

#endif
