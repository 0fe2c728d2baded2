/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What all ways to compute the sums share: the snapshots' columns, steering phasors, and the sums
 * over parts of the sensors, which are added in the order of the parts. */
#ifndef SONAR_MVDR_JACOBI_CUDA_SUMS_COMMON_CUH
#define SONAR_MVDR_JACOBI_CUDA_SUMS_COMMON_CUH

#include "mvdr_jacobi/cuda/stage.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr {

/* Sums of one part: [bin][part][snapshot i][width]. */
__device__ inline complex64 *partial_of(const view &v, const parts &parts, uint32_t bin,
                                        uint32_t part, const slots &rows, uint32_t i,
                                        uint32_t width) {
    return v.partial + (((size_t)bin * parts.count + part) * rows.count + i) * width;
}

__device__ inline complex64 *sums_of(const view &v, uint32_t bin) {
    return v.sums + bin * v.sums_stride;
}

/* Stores the sum of slot i and column j, and the sum of j and i that follows from it. */
__device__ inline void store_sum(const view &v, uint32_t bin, uint32_t i, uint32_t j,
                                 complex64 sum) {
    complex64 *at = sums_of(v, bin);
    at[(size_t)j * v.length + i] = sum;
    if (j < v.length)
        at[(size_t)i * v.length + j] = conj(sum);
    else /* x_i^H of the image of x_k is x_k^H of the image of x_i */
        at[(size_t)(v.length + i) * v.length + (j - v.length)] = sum;
}

__device__ inline complex64 *projection_of(const view &v, const points &p, uint32_t bin,
                                           uint32_t direction) {
    return p.projection + ((size_t)bin * p.pitch + direction) * v.columns;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* The columns of a bin at the sensors in use: the snapshots, followed by their mirror images. */
struct column_operand {
    struct row {
        const complex32 *x;
        bool image;
    };
    struct term {
        complex32 x;
        uint32_t mirror;
    };
    const view &v;

    __device__ row column(uint32_t bin, uint32_t at) const {
        const bool image = at >= v.length;
        return {snapshot_of(v, bin, image ? at - v.length : at), image};
    }
    __device__ term read(const row &row, uint32_t sensor) const {
        const uint32_t mirror = v.mirror[sensor];
        return {row.x[row.image && mirror != UNUSED ? mirror : sensor], mirror};
    }
    __device__ complex64 value(const row &row, const term &term) const {
        if (term.mirror == UNUSED)
            return {0, 0};
        return row.image ? conj(wide(term.x)) : wide(term.x);
    }
};

constexpr uint32_t BINS_AT_ONCE = 4; /* bins between two checks for the last one */

/*
 * The steering phasor of a sensor, from bin to bin:
 *
 *     e^{j (b + 1) w} = 2 cos w e^{j b w} - e^{j (b - 1) w}
 *
 * The rounding error grows with the square of the number of steps: 2e-14 after 16 bins.
 */
struct bin_after_bin {
    complex64 before, at;
    double twice_cos;

    __device__ void start(uint32_t bin, uint64_t turns) {
        const complex64 w = phasor(turns);
        at = phasor(bin * turns);
        before = {fma(at.re, w.re, at.im * w.im), fma(at.im, w.re, -at.re * w.im)};
        twice_cos = 2 * w.re;
    }
    __device__ void step() {
        const complex64 next = {fma(twice_cos, at.re, -before.re),
                                fma(twice_cos, at.im, -before.im)};
        before = at, at = next;
    }
};

/* ---- parts of the sensors, added in their order ---------------------------------------------- */

/* Adds the parts of the sums. A thread for each bin, snapshot and column. */
__global__ void fold_sums(view v, slots rows, parts parts) {
    const size_t width = v.columns, item = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= v.spec.bins * rows.count * width)
        return;
    const uint32_t bin = (uint32_t)(item / (rows.count * width)),
                   i = (uint32_t)(item / width % rows.count), j = (uint32_t)(item % width);
    complex64 sum = {0, 0};
    for (uint32_t part = 0; part < parts.count; part++) {
        const complex64 more = partial_of(v, parts, bin, part, rows, i, (uint32_t)width)[j];
        sum.re += more.re, sum.im += more.im;
    }
    /* of two new snapshots each has computed the sum; the earlier one's is used, so that a pair has
     * one value */
    const uint32_t slot = rows.at(v, i),
                   other = (j % v.length + v.length - rows.at(v, 0)) % v.length;
    if (other >= i || other >= rows.count)
        store_sum(v, bin, slot, j, sum);
}

/* Adds the parts of the projections. A thread for each bin, snapshot and direction, and mirror
 * image. `stale`: only bins whose offset has changed. */
__global__ void fold_projections(view v, points p, slots rows, parts parts, bool stale) {
    const size_t width = (size_t)v.images * p.count;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= v.spec.bins * rows.count * width)
        return;
    const uint32_t bin = (uint32_t)(item / (rows.count * width)),
                   i = (uint32_t)(item / width % rows.count), at = (uint32_t)(item % width);
    if (stale && !v.stale[bin])
        return;
    complex64 sum = {0, 0};
    for (uint32_t part = 0; part < parts.count; part++) {
        const complex64 more = partial_of(v, parts, bin, part, rows, i, (uint32_t)width)[at];
        sum.re += more.re, sum.im += more.im;
    }
    projection_of(v, p, bin, at % p.count)[at / p.count * v.length + rows.at(v, i)] = sum;
}

} // namespace mvdr

namespace mvdr::host {

inline sonar_code fold_sums_of(const mvdr::view *v, const mvdr::slots &rows,
                               const mvdr::parts &parts, cudaStream_t stream, sonar_error *err) {
    const size_t items = v->spec.bins * rows.count * v->columns;
    mvdr::fold_sums<<<blocks_for(items, 128), 128, 0, stream>>>(*v, rows, parts);
    return CUDA_LAUNCHED(where, "fold_sums", err);
}

inline sonar_code fold_projections_of(const mvdr::view *v, const mvdr::points &p,
                                      const mvdr::slots &rows, const mvdr::parts &parts, bool stale,
                                      cudaStream_t stream, sonar_error *err) {
    const size_t items = v->spec.bins * rows.count * v->images * p.count;
    mvdr::fold_projections<<<blocks_for(items, 128), 128, 0, stream>>>(*v, p, rows, parts, stale);
    return CUDA_LAUNCHED(where, "fold_projections", err);
}

} // namespace mvdr::host

#endif
