/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What a part of an array gives of its sums, and what those that solve take of all parts' together,
 * as parts_cpu.c does. Rows are sonar_mvdr_sums_row doubles: x_i^H x_j of every slot j, x_i^H a of
 * every direction. */
#ifndef SONAR_MVDR_JACOBI_PARTS_CUDA_CUH
#define SONAR_MVDR_JACOBI_PARTS_CUDA_CUH

#include "mvdr_jacobi/sums_cuda.cuh"
#include "mvdr_jacobi/tone_cuda.cuh"

namespace mvdr {

/* Buffers of doubles; strides in elements. */
struct part_products {
    double *data; /* [snapshot][bin][SONAR_MVDR_PRODUCTS] */
    ptrdiff_t snapshot_stride, bin_stride;

    __host__ __device__ double *at(uint32_t snapshot, uint32_t bin) const {
        return data + (ptrdiff_t)snapshot * snapshot_stride + (ptrdiff_t)bin * bin_stride;
    }
};

struct part_sums {
    double *plan, *row; /* [bin][SONAR_MVDR_PLAN], [bin][sonar_mvdr_sums_most] */
    ptrdiff_t plan_stride, row_stride;

    __device__ double *plan_of(uint32_t bin) const { return plan + (ptrdiff_t)bin * plan_stride; }
    __device__ double *row_of(const view &v, uint32_t bin, uint32_t i) const {
        return row + (ptrdiff_t)bin * row_stride + (size_t)i * 2 * (v.length + v.spec.directions);
    }
};

/* Rows of doubles begin anywhere, and complex64 may not. */
__device__ inline void put(double *row, uint32_t at, complex64 value) {
    row[2 * (size_t)at] = value.re, row[2 * (size_t)at + 1] = value.im;
}
__device__ inline complex64 get(const double *row, uint32_t at) {
    return {row[2 * (size_t)at], row[2 * (size_t)at + 1]};
}

/* ---- a part ---------------------------------------------------------------------------------- */

/* All threads call; the first one writes. */
__device__ inline void give(const view &v, mvdr_pair p, double *to) {
    if (threadIdx.x == 0)
        to[0] = p.lower, to[1] = p.upper, to[2] = p.cross, to[3] = v.n;
    __syncthreads();
}

/* Of every new snapshot. One block of threads a bin and arrival. */
__global__ void give_products(view v, arrivals in, part_products out) {
    const uint32_t bin = blockIdx.x;
    for (uint32_t i = blockIdx.y; i < in.count; i += gridDim.y) {
        mvdr_pair p = {0, 0, 0};
        if (v.tones && bin + 1 < v.spec.bins)
            p = pair_of(v, in.at(i, bin), in.at(i, bin + 1));
        give(v, p, out.at(i, bin));
    }
}

/* Of the block's snapshots, before new ones take their slots. Grid: bins, slots. */
__global__ void give_products_of_block(view v, part_products out) {
    const uint32_t bin = blockIdx.x;
    for (uint32_t slot = blockIdx.y; slot < v.length; slot += gridDim.y) {
        mvdr_pair p = {0, 0, 0};
        if (v.tones && bin + 1 < v.spec.bins && slot < v.ring->filled)
            p = pair_of(v, snapshot_of(v, bin, slot), snapshot_of(v, bin + 1, slot));
        give(v, p, out.at(slot, bin));
    }
}

/* All parts' products of the block's snapshots. They are others where a sensor of any part has been
 * masked or is used again; whether there is a tone is then decided as at the start. One block of
 * threads. */
__global__ void restart_tones_joined(view v, part_products in) {
    const uint32_t pairs = (uint32_t)v.spec.bins - 1;
    bool others = false;
    for (uint32_t i = threadIdx.x; i < v.ring->filled * pairs; i += blockDim.x) {
        mvdr_pair *kept = &v.pair[(size_t)(i / pairs) * v.spec.bins + i % pairs];
        const double *p = in.at(i / pairs, i % pairs);
        const long long *was = (const long long *)kept, *is = (const long long *)p; /* NaN too */
        others = others || was[0] != is[0] || was[1] != is[1] || was[2] != is[2];
        *kept = {p[0], p[1], p[2]};
    }
    others = __syncthreads_or(others);
    for (uint32_t bin = threadIdx.x; others && bin < v.spec.bins; bin += blockDim.x) {
        v.bin[bin].offset = 0;
        v.bin[bin].tonal = false;
    }
}

/* All parts' products, to where tone_accumulate finds them. A thread a bin. */
__global__ void note_products(view v, part_products in, uint32_t skip, uint32_t count) {
    const uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= v.spec.bins)
        return;
    for (uint32_t i = skip; i < count; i++) {
        const size_t slot = v.spec.alpha > 0 ? i : ((size_t)v.ring->next + i) % v.length;
        const double *p = in.at(i, bin);
        v.pair[slot * v.spec.bins + bin] = {p[0], p[1], p[2]};
    }
}

/* Rows of the new slots, or of all where these have changed. Before the ring moves on. Grid: bins,
 * rows. */
__global__ void give_sums(view v, slots fresh, bool renewed, bool steered, part_sums out) {
    const uint32_t bin = blockIdx.x, directions = (uint32_t)v.spec.directions;
    const bool whole = renewed || (steered && v.stale[bin]);
    const uint32_t rows = whole ? v.length : fresh.count;
    for (uint32_t i = blockIdx.y; i < rows; i += gridDim.y) {
        const uint32_t slot = whole ? i : fresh.at(v, i);
        double *to = out.row_of(v, bin, i);
        for (uint32_t j = threadIdx.x; j < v.length; j += blockDim.x)
            put(to, j, sums_of(v, bin)[(size_t)j * v.length + slot]);
        for (uint32_t t = threadIdx.x; t < directions; t += blockDim.x)
            put(to, v.length + t, v.projection[((size_t)bin * directions + t) * v.columns + slot]);
    }
    if (blockIdx.y)
        return;
    double *norm = out.row_of(v, bin, v.length);
    for (uint32_t t = threadIdx.x; whole && t < directions; t += blockDim.x)
        norm[t] = v.norm[(size_t)bin * directions + t];
    if (threadIdx.x == 0) {
        out.plan_of(bin)[SONAR_MVDR_PLAN_OFFSET] = v.bin[bin].offset;
        out.plan_of(bin)[SONAR_MVDR_PLAN_WHOLE] = whole;
    }
}

/* |a|^2 and projections of points. Grid: points, bins. */
__global__ void give_points(view v, points p, double *out, ptrdiff_t bin_stride) {
    const uint32_t point = blockIdx.x, bin = blockIdx.y, each = 1 + 2 * v.columns;
    double *to = out + (ptrdiff_t)bin * bin_stride + (size_t)point * each;
    const complex64 *from = projection_of(v, p, bin, point);
    if (threadIdx.x == 0)
        to[0] = p.norm[(size_t)bin * p.pitch + point];
    for (uint32_t c = threadIdx.x; c < v.columns; c += blockDim.x)
        put(to + 1, c, from[c]);
}

/* ---- all parts together ---------------------------------------------------------------------- */

/* One slot's row. A pair of new ones is in both rows: the earlier one's counts, as in fold_sums. */
__device__ inline void take_row(const view &v, uint32_t bin, const double *row, uint32_t slot,
                                bool whole, const slots &fresh, uint32_t i) {
    const uint32_t directions = (uint32_t)v.spec.directions;
    for (uint32_t j = threadIdx.x; j < v.length; j += blockDim.x) {
        const uint32_t other = whole ? v.length : (j + v.length - fresh.at(v, 0)) % v.length;
        if (whole)
            sums_of(v, bin)[(size_t)j * v.length + slot] = get(row, j);
        else if (other >= i || other >= fresh.count)
            store_sum(v, bin, slot, j, get(row, j));
    }
    for (uint32_t t = threadIdx.x; t < directions; t += blockDim.x)
        v.projection[((size_t)bin * directions + t) * v.columns + slot] = get(row, v.length + t);
    /* a sum of squares: not finite where a sample is not */
    if (threadIdx.x == 0)
        v.valid[bin * (size_t)v.length + slot] = isfinite(get(row, slot).re);
}

/* Before the ring moves on. Grid: bins, rows. */
__global__ void take_sums(view v, slots fresh, part_sums in) {
    const uint32_t bin = blockIdx.x, directions = (uint32_t)v.spec.directions;
    const bool whole = in.plan_of(bin)[SONAR_MVDR_PLAN_WHOLE] != 0;
    const uint32_t rows = whole ? v.length : fresh.count;
    for (uint32_t i = blockIdx.y; i < rows; i += gridDim.y)
        take_row(v, bin, in.row_of(v, bin, i), whole ? i : fresh.at(v, i), whole, fresh, i);
    if (blockIdx.y)
        return;
    const double *norm = in.row_of(v, bin, v.length);
    for (uint32_t t = threadIdx.x; whole && t < directions; t += blockDim.x)
        v.norm[(size_t)bin * directions + t] = norm[t];
    if (threadIdx.x == 0) {
        v.bin[bin].offset = in.plan_of(bin)[SONAR_MVDR_PLAN_OFFSET];
        v.unsolved[bin] = 1;
    }
}

/* Forgetting: counts the snapshots that have been accepted. A thread a bin, after take_sums. */
__global__ void count_taken(view v, slots fresh) {
    const uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= v.spec.bins)
        return;
    for (uint32_t i = 0; i < fresh.count; i++)
        v.bin[bin].seen += v.valid[bin * (size_t)v.length + fresh.at(v, i)];
}

/* Grid: points, bins. */
__global__ void take_points(view v, points p, const double *in, ptrdiff_t bin_stride) {
    const uint32_t point = blockIdx.x, bin = blockIdx.y, each = 1 + 2 * v.columns;
    const double *from = in + (ptrdiff_t)bin * bin_stride + (size_t)point * each;
    complex64 *to = projection_of(v, p, bin, point);
    if (threadIdx.x == 0)
        p.norm[(size_t)bin * p.pitch + point] = from[0];
    for (uint32_t c = threadIdx.x; c < v.columns; c += blockDim.x)
        to[c] = get(from + 1, c);
}

} // namespace mvdr

#endif
