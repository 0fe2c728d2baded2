/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A part of an array gives its sums; a joined stage takes the sums of all parts together, as in
 * cpu/parts.c. A row has sonar_mvdr_sums_row doubles: x_i^H x_j for every slot j, and x_i^H a for
 * every direction. */
#ifndef SONAR_MVDR_JACOBI_CUDA_PARTS_CUH
#define SONAR_MVDR_JACOBI_CUDA_PARTS_CUH

#include "mvdr_jacobi/cuda/sums/sums.cuh"
#include "mvdr_jacobi/cuda/tone.cuh"
#include "mvdr_jacobi/cuda/arrive.cuh"
#include "mvdr_jacobi/cuda/params.cuh"
#include "mvdr_jacobi/cuda/window.cuh"

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

namespace mvdr::host {

/* ---- windows --------------------------------------------------------------------------------- */

inline uint32_t skipped(const mvdr_stage *stage, uint32_t count) {
    return count > stage->view.length ? count - stage->view.length : 0;
}

/* Gives the block's products, in the rows after those of the new snapshots. */
inline sonar_code launch_give_products_of_block(const mvdr_stage *stage, mvdr::part_products to,
                                                cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(v->length, 1024));
    to.data = to.at(stage->arrived, 0);
    mvdr::give_products_of_block<<<grid, 512, 0, stream>>>(*v, to);
    return CUDA_LAUNCHED(where, "give_products_of_block", err);
}

inline sonar_code execute_part(mvdr_stage *stage, cudaStream_t stream, const sonar_buffer *in,
                               sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    sonar_code code = mvdr_check_part(&v->spec, in, out, err);
    if (!code)
        code = check_spaces(in, 1, err);
    if (!code)
        code = check_spaces(out, 1, err);
    if (!code)
        code = forget(stage, stream, err);
    if (!code)
        code = update_rows(stage, work->params, stream, err);
    const mvdr::arrivals arrivals = arrivals_of(in);
    const mvdr::part_products to = {(double *)out->data, out->stride[0], out->stride[1]};
    stage->arrived = code ? 0 : arrivals.count;
    if (!code && out->shape[0] > arrivals.count)
        code = launch_give_products_of_block(stage, to, stream, err);
    if (code || !arrivals.count)
        return code;
    if ((code = launch_store_arrivals(stage, arrivals, skipped(stage, arrivals.count), stream,
                                      err)) != SONAR_OK)
        return code;
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(arrivals.count, 1024));
    mvdr::give_products<<<grid, 512, 0, stream>>>(*v, arrivals, to);
    return CUDA_LAUNCHED(where, "give_products", err);
}

/* Finds the tones from the products of all parts. */
inline sonar_code steer_joined(const mvdr_stage *stage, const sonar_buffer *in, cudaStream_t stream,
                               sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::part_products from = {(double *)in->data, in->stride[0], in->stride[1]};
    sonar_code code = SONAR_OK;
    if (in->shape[0] > stage->arrived && v->spec.bins > 1) {
        mvdr::part_products block = from;
        block.data = from.at(stage->arrived, 0);
        mvdr::restart_tones_joined<<<1, 1024, 0, stream>>>(*v, block);
        code = CUDA_LAUNCHED(where, "restart_tones_joined", err);
    }
    if (!code) {
        mvdr::note_products<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(
            *v, from, v->spec.alpha > 0 ? 0 : skipped(stage, stage->arrived), stage->arrived);
        code = CUDA_LAUNCHED(where, "note_products", err);
    }
    if (!code)
        code = launch_tone_accumulate(stage, stage->arrived, stream, err);
    return code ? code : steer_at_tones(stage, from.data + 3, stream, err);
}

inline sonar_code join(void *opaque, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                       const sonar_work *work, sonar_error *err) {
    (void)work;
    mvdr_stage *stage = (mvdr_stage *)opaque;
    const mvdr::view *v = &stage->view;
    const cudaStream_t stream = queue->stream;
    const uint32_t count = stage->arrived, skip = skipped(stage, count);
    const bool renewed = stage->stale, steered = v->tones && in->shape[0];
    sonar_code code = mvdr_check_join(&v->spec, in, count, out, err);
    if (!code)
        code = check_spaces(in, 1, err);
    if (!code)
        code = check_spaces(out, 2, err);
    if (!code && steered)
        code = steer_joined(stage, in, stream, err);
    if (!code)
        code = bring_up_to_date(stage, skip, count, steered, stream, err);
    if (code)
        return code;
    const mvdr::part_sums to = {(double *)out[0].data, (double *)out[1].data, out[0].stride[0],
                                out[1].stride[0]};
    const mvdr::slots fresh = {mvdr::NEXT, skip, count - skip};
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(v->length, 1024));
    mvdr::give_sums<<<grid, 256, 0, stream>>>(*v, fresh, renewed, steered, to);
    code = CUDA_LAUNCHED(where, "give_sums", err);
    stage->arrived = 0;
    return code || !count ? code : launch_advance_ring(stage, count, stream, err);
}

/* Takes the sums added over all parts, instead of snapshots. */
inline sonar_code take_in_joined(const mvdr_stage *stage, const sonar_buffer *in, size_t snapshots,
                                 cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const uint32_t count = (uint32_t)snapshots, skip = skipped(stage, count);
    if (!in[0].shape[0])
        return SONAR_OK;
    const mvdr::part_sums from = {(double *)in[1].data, (double *)in[0].data, in[1].stride[0],
                                  in[0].stride[0]};
    const mvdr::slots fresh = {mvdr::NEXT, skip, count - skip};
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(v->length, 1024));
    mvdr::take_sums<<<grid, 256, 0, stream>>>(*v, fresh, from);
    sonar_code code = CUDA_LAUNCHED(where, "take_sums", err);
    if (code || !count)
        return code;
    mvdr::count_taken<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v, fresh);
    code = CUDA_LAUNCHED(where, "count_taken", err);
    return code ? code : launch_advance_ring(stage, count, stream, err);
}

/* ---- points ---------------------------------------------------------------------------------- */

/* A part: gives the sums of `count` points from `first` on. */
inline sonar_code launch_give_points(const mvdr_stage *stage, const sonar_buffer *turns,
                                     size_t first, size_t count, sonar_buffer *sums,
                                     cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::points p = stage->look;
    p.turns = (const uint64_t *)turns->data + (ptrdiff_t)first * turns->stride[0];
    p.stride = (size_t)turns->stride[0];
    p.count = (uint32_t)count;
    sonar_code code = launch_norms(stage, p, false, false, stream, err);
    if (!code)
        code = project_points(stage, p, stream, err);
    if (code)
        return code;
    mvdr::give_points<<<dim3(p.count, (unsigned)v->spec.bins), 64, 0, stream>>>(
        *v, p, (double *)sums->data + (ptrdiff_t)first * sums->stride[1], sums->stride[0]);
    return CUDA_LAUNCHED(where, "give_points", err);
}

/* A joined stage: computes the power at points from the sums of all parts. */
inline sonar_code launch_take_points(const mvdr_stage *stage, const sonar_buffer *sums,
                                     size_t first, size_t count, const sonar_buffer *power,
                                     cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::points p = stage->look;
    p.count = (uint32_t)count;
    mvdr::take_points<<<dim3(p.count, (unsigned)v->spec.bins), 64, 0, stream>>>(
        *v, p, (const double *)sums->data + (ptrdiff_t)first * sums->stride[1], sums->stride[0]);
    sonar_code code = CUDA_LAUNCHED(where, "take_points", err);
    float *to = (float *)power->data + (ptrdiff_t)first * power->stride[0];
    return code ? code : run_spectrum(stage, p, to, power->stride[0], stream, err);
}

/* evaluate() of a part or of a joined stage. */
inline sonar_code evaluate_parts(mvdr_stage *stage, cudaStream_t stream, const sonar_buffer *from,
                                 sonar_buffer *to, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const bool joined = v->spec.parts == SONAR_MVDR_JOINED;
    const size_t count = joined ? to->shape[0] : from->shape[0];
    if (!count)
        return SONAR_OK;
    sonar_code code = mvdr_check_point_sums(&v->spec, joined ? from : to, count, err);
    if (!code)
        code = check_spaces(from, 1, err);
    if (!code)
        code = check_spaces(to, 1, err);
    if (!code)
        code = forget(stage, stream, err);
    if (!code && joined)
        code = solve_for_points(stage, stream, err);
    for (size_t first = 0; first < count && !code; first += AT_ONCE) {
        const size_t some = sonar_min_size(AT_ONCE, count - first);
        code = joined ? launch_take_points(stage, from, first, some, to, stream, err)
                      : launch_give_points(stage, from, first, some, to, stream, err);
    }
    return code;
}

} // namespace mvdr::host

#endif
