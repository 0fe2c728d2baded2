/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finds the tone that dominates a bin, as cpu/tone.c does (tone.h). */
#ifndef SONAR_MVDR_JACOBI_CUDA_TONE_CUH
#define SONAR_MVDR_JACOBI_CUDA_TONE_CUH

#include "mvdr_jacobi/cuda/stage.cuh"
#include "mvdr_jacobi/rules/tone.h"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr {

/* Products of neighbouring bins, summed over the sensors in use; not finite if a sample is not. A
 * block of threads calls; all threads get the result. */
__device__ inline mvdr_pair pair_of(const view &v, const complex32 *x, const complex32 *y) {
    mvdr_pair p = {0, 0, 0};
#pragma unroll 4
    for (uint32_t k = threadIdx.x; k < v.spec.sensors; k += blockDim.x) {
        if (v.mirror[k] == UNUSED)
            continue;
        const complex64 a = wide(x[k]), b = wide(y[k]);
        p.lower += square(a);
        p.upper += square(b);
        p.cross -= a.re * b.re + a.im * b.im;
    }
    return {block_sum(p.lower), block_sum(p.upper), block_sum(p.cross)};
}

/* Computes the products of new snapshots. One block of threads for each bin and new snapshot. */
__global__ void tone_products(view v, arrivals in, uint32_t skip) {
    const uint32_t bin = blockIdx.x;
    if (bin + 1 >= v.spec.bins)
        return;
    for (uint32_t i = skip + blockIdx.y; i < in.count; i += gridDim.y) {
        const size_t slot = v.spec.alpha > 0 ? i : ((size_t)v.ring->next + i) % v.length;
        const mvdr_pair p = pair_of(v, in.at(i, bin), in.at(i, bin + 1));
        if (threadIdx.x == 0)
            v.pair[slot * v.spec.bins + bin] = p;
        __syncthreads();
    }
}

/* After a change of the sensors in use: computes the products of the block's snapshots again, and
 * restarts the detection of tones. Before new snapshots are stored. Grid: bins, slots. */
__global__ void tone_restart(view v) {
    const uint32_t bin = blockIdx.x;
    for (uint32_t slot = blockIdx.y; bin + 1 < v.spec.bins && slot < v.ring->filled;
         slot += gridDim.y) {
        const mvdr_pair p = pair_of(v, snapshot_of(v, bin, slot), snapshot_of(v, bin + 1, slot));
        if (threadIdx.x == 0)
            v.pair[(size_t)slot * v.spec.bins + bin] = p;
        __syncthreads();
    }
    if (blockIdx.y != 0 || threadIdx.x != 0)
        return;
    bin_state *own = v.bin + bin;
    own->offset = 0;
    own->tonal = false;
}

__device__ inline bool usable(mvdr_pair p) {
    return isfinite(p.lower + p.upper + p.cross);
}

/* Sums the pairs of a block or, with forgetting, adds the new ones to the weighted sum. A thread
 * for each bin, before the ring advances by `count`. */
__global__ void tone_accumulate(view v, uint32_t count) {
    uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    double alpha = v.spec.alpha;
    if (bin + 1 >= v.spec.bins)
        return;
    mvdr_pair sum = alpha > 0 ? v.bin[bin].products : mvdr_pair{0, 0, 0};
    double share = alpha > 0 ? v.bin[bin].share : 0;
    const uint32_t slots = alpha > 0 ? count : min(v.ring->filled + count, v.length);
    for (uint32_t i = 0; i < slots; i++) {
        mvdr_pair p = v.pair[(size_t)i * v.spec.bins + bin];
        if (!usable(p))
            continue;
        double keep = alpha > 0 ? alpha : 1, take = alpha > 0 ? 1 - alpha : 1;
        sum.lower = keep * sum.lower + take * p.lower;
        sum.upper = keep * sum.upper + take * p.upper;
        sum.cross = keep * sum.cross + take * p.cross;
        share = keep * share + take;
    }
    v.bin[bin].products = sum;
    v.bin[bin].share = share;
}

__device__ inline double product_snapshots(const view &v, const bin_state &bin) {
    double alpha = v.spec.alpha;
    return alpha > 0 ? (1 + alpha) / (1 - alpha) * bin.share / (2 - bin.share) : bin.share;
}

/* Chooses the frequency at which each bin is steered. A thread for each bin, after tone_accumulate.
 * `rows`: number of sensors of all parts; NULL: there are no parts. */
__global__ void tone_steer(view v, const double *rows) {
    uint32_t bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= v.spec.bins)
        return;
    bin_state *own = v.bin + bin;
    mvdr_tone tone = {0, 0, 0};
    double snapshots = 0;
    const bool used = v.in_band(bin);
    if (used && bin + 1 < v.band.end) {
        snapshots = product_snapshots(v, *own);
        tone = mvdr_tone_of(v.tones, own->products, false, snapshots);
    }
    if (used && bin > v.band.begin) {
        const bin_state &below = v.bin[bin - 1];
        snapshots = product_snapshots(v, below);
        tone = mvdr_tone_better(tone, mvdr_tone_of(v.tones, below.products, true, snapshots));
    }
    const double so_far = own->tonal ? own->offset : 0;
    own->tonal = used && mvdr_tone_holds(tone, own->tonal);
    own->offset = own->tonal ? mvdr_tone_offset(tone, so_far, rows ? *rows : v.n, snapshots) : 0;
    v.stale[bin] = own->offset != v.made[bin];
}

} // namespace mvdr

namespace mvdr::host {

/* Adds the noted products of the new snapshots. */
inline sonar_code launch_tone_accumulate(const mvdr_stage *stage, uint32_t count,
                                         cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::tone_accumulate<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v, count);
    return CUDA_LAUNCHED(where, "tone_accumulate", err);
}

/* Computes and adds the new snapshots' products for tones. */
inline sonar_code look_for_tones(const mvdr_stage *stage, const mvdr::arrivals &in,
                                 cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const uint32_t skip = v->spec.alpha == 0 && in.count > v->length ? in.count - v->length : 0;
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(in.count - skip, 1024));
    mvdr::tone_products<<<grid, 512, 0, stream>>>(*v, in, skip);
    sonar_code code = CUDA_LAUNCHED(where, "tone_products", err);
    return code ? code : launch_tone_accumulate(stage, in.count, stream, err);
}

inline sonar_code restart_tones(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid((unsigned)v->spec.bins, (unsigned)sonar_min_size(v->length, 1024));
    mvdr::tone_restart<<<grid, 512, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "tone_restart", err);
}

/* Chooses each bin's frequency; `rows` as in tone_steer. */
inline sonar_code steer_at_tones(const mvdr_stage *stage, const double *rows, cudaStream_t stream,
                                 sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::tone_steer<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v, rows);
    return CUDA_LAUNCHED(where, "tone_steer", err);
}

} // namespace mvdr::host

#endif
