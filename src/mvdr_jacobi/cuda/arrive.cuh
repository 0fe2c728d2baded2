/* SPDX-License-Identifier: GPL-3.0-or-later */
/* New snapshots on the GPU: the ring of a block's snapshots, and the covariance. */
#ifndef SONAR_MVDR_JACOBI_CUDA_ARRIVE_CUH
#define SONAR_MVDR_JACOBI_CUDA_ARRIVE_CUH

#include "mvdr_jacobi/cuda/stage.cuh"
#include "mvdr_jacobi/cuda/inverse/inverse.cuh"
#include "mvdr_jacobi/cuda/sums/sums.cuh"
#include "mvdr_jacobi/cuda/tone.cuh"

namespace mvdr {

/* Notes which new snapshots are finite, and stores those from `skip` on. One block of threads for
 * each bin and new snapshot. */
__global__ void store_arrivals(view v, arrivals in, uint32_t skip) {
    constexpr uint32_t AT_ONCE = 4; /* loads in flight */
    const uint32_t bin = blockIdx.x;
    const size_t sensors = v.spec.sensors;
    for (uint32_t i = blockIdx.y; i < in.count; i += gridDim.y) {
        const bool stored = v.length && i >= skip;
        const size_t slot = stored ? ((size_t)v.ring->next + i) % v.length : 0;
        const complex32 *x = in.at(i, bin);
        complex32 *to = stored ? v.snapshot + (bin * (size_t)v.length + slot) * sensors : nullptr;
        bool finite = true;
        for (size_t base = threadIdx.x; base < sensors; base += AT_ONCE * blockDim.x) {
            complex32 value[AT_ONCE];
#pragma unroll
            for (uint32_t k = 0; k < AT_ONCE; k++)
                value[k] =
                    base + k * blockDim.x < sensors ? x[base + k * blockDim.x] : complex32{0, 0};
#pragma unroll
            for (uint32_t k = 0; k < AT_ONCE; k++) {
                finite = finite && isfinite(value[k].re) && isfinite(value[k].im);
                if (stored && base + k * blockDim.x < sensors)
                    to[base + k * blockDim.x] = value[k];
            }
        }
        finite = __syncthreads_and(finite);
        if (threadIdx.x == 0) {
            v.fresh[bin * v.spec.max_new + i] = finite;
            if (stored)
                v.valid[bin * (size_t)v.length + slot] = finite;
            v.unsolved[bin] = 1;
        }
    }
}

/* Advances the ring by the new snapshots, after all kernels that use their places. One thread. */
__global__ void advance_ring(view v, uint32_t count) {
    v.ring->next = (uint32_t)(((uint64_t)v.ring->next + count) % v.length);
    v.ring->filled = (uint32_t)min((uint64_t)v.ring->filled + count, (uint64_t)v.length);
}

/* ---- sensor space ---------------------------------------------------------------------------- */

/* Notes which new snapshots are finite. One block of threads for each bin and new snapshot. */
__global__ void inspect(view v, arrivals in) {
    const uint32_t bin = blockIdx.x;
    for (uint32_t i = blockIdx.y; i < in.count; i += gridDim.y) {
        const complex32 *x = in.at(i, bin);
        bool finite = true;
        for (uint32_t k = threadIdx.x; k < v.spec.sensors; k += blockDim.x)
            finite = finite && isfinite(x[k].re) && isfinite(x[k].im);
        finite = __syncthreads_and(finite);
        if (threadIdx.x == 0)
            v.fresh[bin * v.spec.max_new + i] = finite;
    }
}

/* sum + rest += x y. The product of float32 numbers is exact in float64. The rounding error of the
 * sum is added to the rest (Neumaier 1974), so that a snapshot is subtracted exactly as it was
 * added, however loud it was. */
__device__ inline void add_exactly(double &sum, double &rest, double x, double y) {
    const double more = x * y, total = sum + more, taken = total - sum;
    rest += (sum - (total - taken)) + (more - taken);
    sum = total;
}

/* Adds x y^*. */
__device__ inline void add_exactly(complex64 &sum, complex64 &rest, complex64 x, complex64 y) {
    add_exactly(sum.re, rest.re, x.re, y.re);
    add_exactly(sum.re, rest.re, x.im, y.im);
    add_exactly(sum.im, rest.im, x.im, y.re);
    add_exactly(sum.im, rest.im, -x.re, y.im);
}

/* Updates the sum of x x^H over all sensors, its lower triangle: adds the new snapshots from `skip`
 * on, and subtracts the old ones in their places. Before the ring stores the new ones. Grid:
 * columns, bins. */
__global__ void slide_sums(view v, arrivals in, uint32_t skip) {
    const uint32_t bin = blockIdx.y, sensors = (uint32_t)v.spec.sensors;
    const uint8_t *fresh = v.fresh + bin * v.spec.max_new,
                  *valid = v.valid + bin * (size_t)v.length;
    const uint32_t next = v.ring->next, filled = v.ring->filled;
    for (uint32_t j = blockIdx.x; j < sensors; j += gridDim.x) {
        const size_t column = bin * v.sums_stride + (size_t)j * v.most;
        for (uint32_t i = j + threadIdx.x; i < sensors; i += blockDim.x) {
            complex64 sum = v.sums[column + i], rest = v.rest[column + i];
            for (uint32_t s = skip; s < in.count; s++) {
                const uint32_t slot = (uint32_t)(((uint64_t)next + s) % v.length);
                if (slot < filled && valid[slot]) {
                    const complex32 *old = snapshot_of(v, bin, slot);
                    add_exactly(sum, rest, {-(double)old[i].re, -(double)old[i].im}, wide(old[j]));
                }
                if (fresh[s])
                    add_exactly(sum, rest, wide(in.at(s, bin)[i]), wide(in.at(s, bin)[j]));
            }
            v.sums[column + i] = sum, v.rest[column + i] = rest;
        }
    }
}

/* ---- forgetting ------------------------------------------------------------------------------ */

/* R <- alpha R + (1 - alpha) x x^H for every new snapshot: the lower triangle over all sensors.
 * Grid: columns, bins. */
__global__ void forget_sums(view v, arrivals in) {
    const uint32_t bin = blockIdx.y, sensors = (uint32_t)v.spec.sensors;
    const uint8_t *valid = v.fresh + bin * v.spec.max_new;
    const double alpha = v.spec.alpha;
    for (uint32_t j = blockIdx.x; j < sensors; j += gridDim.x) {
        complex64 *r = v.sums + bin * v.sums_stride + (size_t)j * v.most;
        for (uint32_t i = j + threadIdx.x; i < sensors; i += blockDim.x) {
            complex64 sum = r[i];
            for (uint32_t s = 0; s < in.count; s++) {
                if (!valid[s])
                    continue;
                const complex64 x = wide(in.at(s, bin)[i]), y = wide(in.at(s, bin)[j]);
                sum = {alpha * sum.re, alpha * sum.im};
                add_product(sum, {(1 - alpha) * x.re, (1 - alpha) * x.im}, conj(y));
            }
            r[i] = sum;
        }
    }
}

/* Forgetting: counts the accepted snapshots. A thread for each bin. */
__global__ void count_seen(view v, uint32_t count) {
    const uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= v.spec.bins)
        return;
    for (uint32_t i = 0; i < count; i++)
        v.bin[bin].seen += v.fresh[bin * v.spec.max_new + i];
}

} // namespace mvdr

namespace mvdr::host {

inline mvdr::arrivals arrivals_of(const sonar_buffer *in) {
    return {(const complex32 *)in->data, in->stride[0], in->stride[1], (uint32_t)in->shape[0]};
}

/* Adds the new snapshots to the covariance with forgetting. */
inline sonar_code add_forgetting(const mvdr_stage *stage, const mvdr::arrivals &in,
                                 cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid((unsigned)sonar_min_size(v->spec.sensors, 4096), (unsigned)v->spec.bins);
    mvdr::forget_sums<<<grid, 128, 0, stream>>>(*v, in);
    return CUDA_LAUNCHED(where, "forget_sums", err);
}

/* Updates the covariance of the ring's snapshots, and notes the columns for the streaming
 * inverse. */
inline sonar_code slide_covariance(const mvdr_stage *stage, const mvdr::arrivals &in, uint32_t skip,
                                   cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins;
    const dim3 arrived(bins, (unsigned)sonar_min_size(in.count, 1024));
    mvdr::inspect<<<arrived, 256, 0, stream>>>(*v, in);
    sonar_code code = CUDA_LAUNCHED(where, "inspect", err);
    if (code)
        return code;
    const dim3 grid((unsigned)sonar_min_size(v->spec.sensors, 4096), bins);
    mvdr::slide_sums<<<grid, 128, 0, stream>>>(*v, in, skip);
    code = CUDA_LAUNCHED(where, "slide_sums", err);
    return code ? code : launch_note_moves(stage, in, stream, err);
}

/* Stores new snapshots in the ring's next slots. */
inline sonar_code launch_store_arrivals(const mvdr_stage *stage, const mvdr::arrivals &in,
                                        uint32_t skip, cudaStream_t stream, sonar_error *err) {
    const dim3 grid((unsigned)stage->view.spec.bins, (unsigned)sonar_min_size(in.count, 1024));
    mvdr::store_arrivals<<<grid, 512, 0, stream>>>(stage->view, in, skip);
    return CUDA_LAUNCHED(where, "store_arrivals", err);
}

inline sonar_code launch_advance_ring(const mvdr_stage *stage, uint32_t count, cudaStream_t stream,
                                      sonar_error *err) {
    mvdr::advance_ring<<<1, 1, 0, stream>>>(stage->view, count);
    return CUDA_LAUNCHED(where, "advance_ring", err);
}

inline sonar_code take_in(mvdr_stage *stage, const mvdr::arrivals &in, cudaStream_t stream,
                          sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const uint32_t skip = v->length && in.count > v->length ? in.count - v->length : 0;
    const bool steered = v->tones && (in.count || stage->changed);
    const bool restarted = v->tones && v->length && stage->mask_changed;
    sonar_code code = restarted ? restart_tones(stage, stream, err) : SONAR_OK;
    if (in.count && v->rest && !code)
        code = slide_covariance(stage, in, skip, stream, err);
    if (in.count && !code)
        code = launch_store_arrivals(stage, in, skip, stream, err);
    if (in.count && v->tones && !code)
        code = look_for_tones(stage, in, stream, err);
    if (restarted && !in.count && !code)
        code = launch_tone_accumulate(stage, 0, stream, err);
    if (steered && !code)
        code = steer_at_tones(stage, NULL, stream, err);
    if (in.count && v->spec.alpha > 0 && !code) {
        mvdr::count_seen<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v, in.count);
        code = CUDA_LAUNCHED(where, "count_seen", err);
    }
    if (in.count && !v->length && !code)
        code = add_forgetting(stage, in, stream, err);
    if (!code)
        code = bring_up_to_date(stage, skip, in.count, steered, stream, err);
    stage->changed = stage->mask_changed = false;
    return code || !in.count || !v->length ? code
                                           : launch_advance_ring(stage, in.count, stream, err);
}

} // namespace mvdr::host

#endif
