/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The factor S of R = S S^H on the GPU: which columns it has, as in factor.c. */
#ifndef SONAR_MVDR_JACOBI_FACTOR_CUDA_CUH
#define SONAR_MVDR_JACOBI_FACTOR_CUDA_CUH

#include "mvdr_jacobi/stage_cuda.cuh"

namespace mvdr {

/* S of one bin: R = factor * S S^H, m columns listed in scratch.column. */
struct factor {
    uint32_t m;
    double factor;
    double snapshots; /* L, or L_eff with forgetting */
    double share;     /* forgetting: 1 - alpha^seen, by which R is too small */
};

/* Notes which new snapshots are finite and, for a block, stores them. One block of threads a bin
 * and arrival. */
__global__ void take(view v, arrivals in, uint32_t skip) {
    uint32_t bin = blockIdx.x;
    size_t sensors = v.spec.sensors;
    for (uint32_t i = skip + blockIdx.y; i < in.count; i += gridDim.y) {
        uint32_t at = v.spec.alpha > 0 ? i : (uint32_t)(((uint64_t)v.ring->next + i) % v.length);
        size_t slot = (size_t)bin * v.length + at;
        const complex<float> *x = in.at(i, bin);
        bool finite = true;
        for (size_t k = threadIdx.x; k < sensors; k += blockDim.x) {
            complex<float> value = x[k];
            finite = finite && isfinite(value.re) && isfinite(value.im);
            if (v.spec.alpha == 0)
                v.snapshot[slot * sensors + k] = value;
        }
        finite = __syncthreads_and(finite);
        if (threadIdx.x == 0)
            v.valid[slot] = finite;
    }
}

/* Block: advances the ring by the snapshots that were taken. One thread, between take and
 * decompose. */
__global__ void move_on(view v, uint32_t count) {
    v.ring->next = (uint32_t)(((uint64_t)v.ring->next + count) % v.length);
    v.ring->filled = (uint32_t)min((uint64_t)v.ring->filled + count, (uint64_t)v.length);
}

/* Writes the valid slots among the first `count` to pick, in order. Returns their number. */
__device__ inline uint32_t list_valid(const uint8_t *valid, uint32_t count, uint32_t *pick) {
    __shared__ uint32_t total;
    if (warp() == 0) {
        uint32_t found = 0;
        for (uint32_t base = 0; base < count; base += WARP) {
            uint32_t i = base + lane();
            bool good = i < count && valid[i];
            uint32_t votes = __ballot_sync(ALL_LANES, good);
            if (good)
                pick[found + __popc(votes & ((1u << lane()) - 1))] = i;
            found += __popc(votes);
        }
        if (lane() == 0)
            total = found;
    }
    __syncthreads();
    return total;
}

__device__ inline double largest_of(const view &v, const complex<float> *x) {
    float most = 0;
    for (uint32_t i = lane(); i < v.n; i += WARP) {
        complex<float> value = x[v.sensor[i]];
        most = fmaxf(most, fmaxf(fabsf(value.re), fabsf(value.im)));
    }
    return (double)most;
}

/* A power of two that brings `most` to about 1, so that squares neither overflow nor vanish. */
__device__ inline double scale_for(double most) {
    int exponent;
    frexp(most, &exponent);
    return ldexp(1.0, -exponent);
}

__device__ inline void list_columns(const view &v, source *to, const complex<float> *x,
                                    double gain) {
    to[0] = {x, gain, SNAPSHOT};
    if (v.spec.forward_backward)
        to[1] = {x, gain, MIRRORED};
}

__device__ inline factor block_factor(const view &v, uint32_t bin, const scratch &s) {
    const complex<float> *block = v.snapshot + (size_t)bin * v.length * v.spec.sensors;
    uint32_t good = list_valid(v.valid + (size_t)bin * v.length, v.ring->filled, s.pick);
    uint32_t each = v.spec.forward_backward ? 2 : 1;
    double most = 0;
    for (uint32_t i = warp(); i < good; i += warps())
        most = fmax(most, largest_of(v, block + s.pick[i] * v.spec.sensors));
    most = block_max(most);
    if (most == 0)
        return {0, 0, (double)good, 1};
    double scale = scale_for(most);
    for (uint32_t i = threadIdx.x; i < good; i += threads())
        list_columns(v, s.column + i * each, block + s.pick[i] * v.spec.sensors, scale);
    __syncthreads();
    uint32_t m = good * each;
    return {m, 1 / (m * scale * scale), (double)good, 1};
}

__device__ inline factor forget_factor(const view &v, const arrivals &in, uint32_t bin,
                                       const scratch &s) {
    uint32_t k = v.bin[bin].carried, each = v.spec.forward_backward ? 2 : 1;
    uint32_t good = list_valid(v.valid + (size_t)bin * v.length, in.count, s.pick);
    size_t first = (size_t)bin * v.kept;
    double alpha = v.spec.alpha, most = k ? sqrt(v.d[first]) : 0;
    for (uint32_t i = warp(); i < good; i += warps())
        most = fmax(most, largest_of(v, in.at(s.pick[i], bin)));
    most = block_max(most);
    uint64_t seen = v.bin[bin].seen + good;
    __syncthreads(); /* all have read */
    if (threadIdx.x == 0)
        v.bin[bin].seen = seen;
    double faded = pow(alpha, (double)seen);
    factor result = {0, 0, (1 + alpha) / (1 - alpha) * (1 - faded) / (1 + faded), 1 - faded};
    if (most == 0)
        return result;
    double scale = scale_for(most), fade = sqrt(alpha);
    double fresh = scale * sqrt(1 - alpha) * (each == 2 ? sqrt(0.5) : 1);
    double weaken = scale * pow(fade, (double)good);
    for (uint32_t j = threadIdx.x; j < k; j += threads())
        s.column[j] = {v.q + (first + j) * v.spec.sensors, sqrt(v.d[first + j]) * weaken, CARRIED};
    for (uint32_t i = threadIdx.x; i < good; i += threads())
        list_columns(v, s.column + k + i * each, in.at(s.pick[i], bin),
                     fresh * pow(fade, (double)(good - 1 - i)));
    __syncthreads();
    result.m = k + good * each;
    result.factor = 1 / (scale * scale);
    return result;
}

/* Row `row` of a column of S, rounded to float as it is carried. */
__device__ inline complex<float> element(const view &v, const source &column, uint32_t row) {
    if (column.kind == MIRRORED)
        row = (uint32_t)v.partner[row];
    complex<float> x = column.from[column.kind == CARRIED ? row : v.sensor[row]];
    float re = (float)(x.re * column.gain), im = (float)(x.im * column.gain);
    return {re, column.kind == MIRRORED ? -im : im};
}

/* S (n x m), or S^H where it is wider than tall, into t. */
template <typename T>
__device__ void fill(const view &v, const source *column, uint32_t m, bool transpose, matrix<T> t) {
    uint32_t rows = transpose ? m : v.n, columns = transpose ? v.n : m;
    for (uint32_t j = warp(); j < columns; j += warps())
        for (uint32_t i = lane(); i < rows; i += WARP) {
            complex<float> x = transpose ? element(v, column[i], j) : element(v, column[j], i);
            t.column(j)[i] = {(T)x.re, (T)(transpose ? -x.im : x.im)};
        }
    __syncthreads();
}

/* Moves the carried eigenvectors' entries to the sensors' new rows; new sensors start at zero.
 * previous[sensor] is its row before, or SIZE_MAX. One block a slot. */
__global__ void move_rows(view v, uint32_t slots) {
    complex<float> *column = (complex<float> *)scratch_of(v, blockIdx.x).t;
    for (uint32_t bin = blockIdx.x; bin < v.spec.bins; bin += slots)
        for (uint32_t j = 0; j < v.bin[bin].carried; j++) {
            complex<float> *q = v.q + ((size_t)bin * v.kept + j) * v.spec.sensors;
            for (size_t i = threadIdx.x; i < v.spec.sensors; i += blockDim.x)
                column[i] = q[i];
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < v.n; i += blockDim.x) {
                size_t before = v.previous[v.sensor[i]];
                q[i] = before < SIZE_MAX ? column[before] : complex<float>{0, 0};
            }
            __syncthreads();
        }
}

} // namespace mvdr

#endif
