/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A part of an array gives its sums; a joined stage takes the sums of all parts together, as in
 * cpu/parts.c. A row has sonar_mvdr_sums_row doubles: x_i^H x_j for every slot j, and x_i^H a for
 * every direction. */
#ifndef SONAR_MVDR_JACOBI_CUDA_PARTS_CUH
#define SONAR_MVDR_JACOBI_CUDA_PARTS_CUH

#include "mvdr_jacobi/cuda/sums.cuh"
#include "mvdr_jacobi/cuda/tone.cuh"

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

/* Access by element: a row of doubles may not have the alignment of complex64. */
__device__ inline void put(double *row, uint32_t at, complex64 value) {
    row[2 * (size_t)at] = value.re, row[2 * (size_t)at + 1] = value.im;
}
__device__ inline complex64 get(const double *row, uint32_t at) {
    return {row[2 * (size_t)at], row[2 * (size_t)at + 1]};
}

/* ---- a part ---------------------------------------------------------------------------------- */

/* Writes the products of a pair. All threads call; the first one writes. */
__device__ inline void give(const view &v, mvdr_pair p, double *to) {
    if (threadIdx.x == 0)
        to[0] = p.lower, to[1] = p.upper, to[2] = p.cross, to[3] = v.n;
    __syncthreads();
}

/* Gives the products of every new snapshot. One block of threads for each bin and new snapshot. */
__global__ void give_products(view v, arrivals in, part_products out) {
    const uint32_t bin = blockIdx.x;
    for (uint32_t i = blockIdx.y; i < in.count; i += gridDim.y) {
        mvdr_pair p = {0, 0, 0};
        if (v.tones && bin + 1 < v.spec.bins)
            p = pair_of(v, in.at(i, bin), in.at(i, bin + 1));
        give(v, p, out.at(i, bin));
    }
}

/* Gives the products of the block's snapshots, before new ones take their slots. Grid: bins,
 * slots. */
__global__ void give_products_of_block(view v, part_products out) {
    const uint32_t bin = blockIdx.x;
    for (uint32_t slot = blockIdx.y; slot < v.length; slot += gridDim.y) {
        mvdr_pair p = {0, 0, 0};
        if (v.tones && bin + 1 < v.spec.bins && slot < v.ring->filled)
            p = pair_of(v, snapshot_of(v, bin, slot), snapshot_of(v, bin + 1, slot));
        give(v, p, out.at(slot, bin));
    }
}

/* Stores the products of the block's snapshots, summed over all parts. If they differ from the
 * stored ones, the mask of some part has changed, and the detection of tones starts again. One
 * block of threads. */
__global__ void restart_tones_joined(view v, part_products in) {
    const uint32_t pairs = (uint32_t)v.spec.bins - 1;
    bool others = false;
    for (uint32_t i = threadIdx.x; i < v.ring->filled * pairs; i += blockDim.x) {
        mvdr_pair *kept = &v.pair[(size_t)(i / pairs) * v.spec.bins + i % pairs];
        const double *p = in.at(i / pairs, i % pairs);
        /* compares NaN, too */
        const long long *was = (const long long *)kept, *is = (const long long *)p;
        others = others || was[0] != is[0] || was[1] != is[1] || was[2] != is[2];
        *kept = {p[0], p[1], p[2]};
    }
    others = __syncthreads_or(others);
    for (uint32_t bin = threadIdx.x; others && bin < v.spec.bins; bin += blockDim.x) {
        v.bin[bin].offset = 0;
        v.bin[bin].tonal = false;
    }
}

/* Stores the products of the new snapshots, summed over all parts, for tone_accumulate. A thread
 * for each bin. */
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

/* Gives the rows of the new slots, or of all slots in bins in which all have changed. Before the
 * ring advances. Grid: bins, rows. */
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

/* Gives |a|^2 and the projections at points. Grid: points, bins. */
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

/* Takes the row of a slot. A pair of new snapshots is in both rows; the earlier one's is used, as
 * in fold_sums. */
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

/* Takes the sums of all parts. Before the ring advances. Grid: bins, rows. */
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

/* Forgetting: counts the accepted snapshots. A thread for each bin, after take_sums. */
__global__ void count_taken(view v, slots fresh) {
    const uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= v.spec.bins)
        return;
    for (uint32_t i = 0; i < fresh.count; i++)
        v.bin[bin].seen += v.valid[bin * (size_t)v.length + fresh.at(v, i)];
}

/* Takes |a|^2 and the projections at points. Grid: points, bins. */
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
