/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A bin's matrix, G over its columns or R over its rows, from its sums. */
#ifndef SONAR_MVDR_JACOBI_CUDA_MATRIX_CUH
#define SONAR_MVDR_JACOBI_CUDA_MATRIX_CUH

#include "mvdr_jacobi/cuda/factor.cuh"
#include "mvdr_jacobi/cuda/sums/common.cuh"

namespace mvdr {

/* The snapshots in R and their weights, which are equal or fade. */
struct weights {
    double count;     /* valid snapshots; with forgetting those accepted since the reset */
    double effective; /* L, or L_eff with forgetting */
    double divisor;   /* sensor space: divisor of the sums */
    uint32_t order;   /* eigenvalues, without those of empty slots */
};

/* Computes each slot's root. Only the first warp works, since a fading weight depends on the number
 * of later valid snapshots. All threads call. */
__device__ inline void weigh_slots(const view &v, uint32_t bin, double each, double fade) {
    const uint8_t *valid = v.valid + bin * (size_t)v.length;
    const uint32_t filled = v.ring->filled;
    uint32_t later = 0;
    for (uint32_t base = 0; base < v.length && warp() == 0; base += WARP) {
        const uint32_t age = base + lane();
        const uint32_t slot =
            (uint32_t)(((size_t)v.ring->next + 2 * (size_t)v.length - 1 - age) % v.length);
        const bool counts = age < filled && valid[slot];
        const unsigned votes = __ballot_sync(ALL_LANES, counts);
        const uint32_t newer = later + __popc(votes & ((1u << lane()) - 1));
        if (age < v.length)
            v.root[bin * (size_t)v.length + slot] =
                counts ? each * (fade < 1 ? pow(fade, (double)newer) : 1) : 0;
        later += __popc(votes);
    }
    __syncthreads();
}

__device__ inline weights weights_of(const view &v, uint32_t bin) {
    const double alpha = v.spec.alpha;
    double count = 0;
    for (uint32_t i = threadIdx.x; i < v.ring->filled; i += blockDim.x)
        count += v.valid[bin * (size_t)v.length + i];
    count = block_sum(count);
    weights w = {count, count, count, v.by_snapshots ? v.images * (uint32_t)count : v.order};
    if (alpha > 0) {
        w.count = (double)v.bin[bin].seen;
        const double faded = pow(alpha, w.count);
        w.effective = (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded);
        w.divisor = 1 - faded;
    }
    if (v.by_snapshots && w.count > 0)
        weigh_slots(v, bin, sqrt((alpha > 0 ? 1 - alpha : 1) / (w.divisor * v.images)),
                    alpha > 0 ? sqrt(alpha) : 1);
    return w;
}

/* Element (i, j) of the bin's matrix: G over the columns or R over the rows. */
struct bin_matrix {
    const view &v;
    const complex64 *sums, *rest; /* rest: may be NULL */
    const double *root;
    double scale; /* sensor space: 1/divisor */

    __device__ bin_matrix(const view &view, uint32_t bin, const weights &weights)
        : bin_matrix(view, bin, weights.divisor) {}

    __device__ bin_matrix(const view &view, uint32_t bin, double divisor)
        : v(view), sums(sums_of(view, bin)),
          rest(view.rest ? view.rest + bin * view.sums_stride : nullptr),
          root(view.root + bin * (size_t)view.length), scale(1 / divisor) {}

    __device__ complex64 gram(uint32_t i, uint32_t j) const {
        const uint32_t si = i % v.length, sj = j % v.length;
        const double weight = root[si] * root[sj];
        if (weight == 0) /* such sums may be NaN */
            return {0, 0};
        complex64 x;
        if (i >= v.length && j >= v.length)
            x = conj(sums[(size_t)sj * v.length + si]);
        else
            x = i < v.length ? sums[(size_t)j * v.length + i]
                             : conj(sums[(size_t)i * v.length + j]);
        return {weight * x.re, weight * x.im};
    }

    __device__ complex64 covariance(uint32_t row, uint32_t column) const {
        const size_t i = v.sensor[row], j = v.sensor[column];
        const size_t at = i >= j ? j * v.most + i : i * v.most + j;
        complex64 x = sums[at];
        if (rest)
            x = {x.re + rest[at].re, x.im + rest[at].im};
        return i >= j ? x : conj(x);
    }

    __device__ complex64 at(uint32_t i, uint32_t j) const {
        if (v.by_snapshots)
            return gram(i, j);
        complex64 x = covariance(i, j);
        if (v.spec.forward_backward) {
            const complex64 y = covariance((uint32_t)v.partner[i], (uint32_t)v.partner[j]);
            x = {0.5 * (x.re + y.re), 0.5 * (x.im - y.im)};
        }
        return {scale * x.re, scale * x.im};
    }
};

/* A power of two that brings `most` to between a half and 1, so that squares neither overflow nor
 * vanish. */
__device__ inline double scale_for(double most) {
    int exponent;
    frexp(most, &exponent);
    return ldexp(1.0, -exponent);
}

/* A bin's memory for its factor. */
__device__ inline tiles factor_of(const view &v, uint32_t bin) {
    return {v.factor + (size_t)bin * v.most * v.most, v.most};
}

/* Writes unit times the matrix, with rows and columns of zeros up to `rows`. */
__device__ inline void assemble(const bin_matrix &x, matrix a, uint32_t m, uint32_t rows,
                                double unit) {
    for (uint32_t j = warp(); j < rows; j += warps())
        for (uint32_t i = lane(); i < rows; i += WARP) {
            const complex64 e = i < m && j < m ? x.at(i, j) : complex64{0, 0};
            a(i, j) = {unit * e.re, i == j ? 0 : unit * e.im};
        }
    __syncthreads();
}

/* Writes rows begin <= i < end of four columns from `four` on: unit times the matrix plus `shift`
 * on the diagonal, and the identity up to whole panels. A warp calls; it processes eight rows at a
 * time, whose elements are adjacent in f. */
__device__ inline void assemble_columns(const bin_matrix &x, tiles f, uint32_t m, double unit,
                                        double shift, uint32_t four, uint32_t begin, uint32_t end) {
    const uint32_t j = four + lane() % 4;
#pragma unroll 4
    for (uint32_t i = begin + lane() / 4; i < end; i += 8) {
        complex64 e = {i == j ? 1.0 : 0.0, 0};
        if (i < m && j < m) {
            e = x.at(i, j);
            e = {unit * e.re + (i == j ? shift : 0), i == j ? 0 : unit * e.im};
        }
        f(i, j) = e;
    }
}

/* Writes the matrix for factor(). */
__device__ inline void assemble_panels(const bin_matrix &x, tiles f, uint32_t m, double unit,
                                       double shift) {
    const uint32_t rows = padded(m);
    for (uint32_t j = 4 * warp(); j < rows; j += 4 * warps())
        assemble_columns(x, f, m, unit, shift, j, j / PANEL * PANEL, rows);
    __syncthreads();
}

__device__ inline double trace_of(const bin_matrix &x, uint32_t m) {
    double sum = 0;
    for (uint32_t i = threadIdx.x; i < m; i += blockDim.x)
        sum += x.at(i, i).re;
    return block_sum(sum);
}

} // namespace mvdr

#endif
