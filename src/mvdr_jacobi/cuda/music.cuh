/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MUSIC on the GPU, as in music.c: eigenvectors of bins that were solved without them, each
 * direction's share outside of the signal subspace, and the mean over the bins. */
#ifndef SONAR_MVDR_JACOBI_CUDA_MUSIC_CUH
#define SONAR_MVDR_JACOBI_CUDA_MUSIC_CUH

#include "mvdr_jacobi/cuda/solve.cuh"
#include "mvdr_jacobi/cuda/spectrum.cuh"

namespace mvdr {

/* Finds which eigenvectors of the bin's matrix span the signal subspace. One thread block for each
 * bin; `shared_bytes` as view.shared_bytes. */
__global__ void __launch_bounds__(SOLVE_WARPS *WARP, 1) find_subspace(view v, size_t shared_bytes) {
    extern __shared__ __align__(16) unsigned char memory[];
    const uint32_t bin = blockIdx.x, m = v.order, rows = m + m % 2;
    float *info = v.info + (size_t)bin * SONAR_MVDR_INFO_FIELDS;
    if (!v.in_band(bin) || !(v.bin[bin].delta > 0)) /* no data */
        return;
    const weights weights = weights_of(v, bin);
    const bin_matrix x(v, bin, weights);
    const double unit = scale_for(trace_of(x, m));
    const room r = room_for(v, bin, {memory, shared_bytes}, nullptr);
    double *member = v.member + (size_t)bin * v.most;
    const outcome outcome = take_vectors(v, bin, r.d, member);
    scale_eigenvalues(r.d, m, unit);
    choose_members(v, bin, rows, unit,
                   music_sources(v, weights, (uint32_t)info[SONAR_MVDR_SOURCES]), r.d, member,
                   member);
    if (threadIdx.x)
        return;
    info[SONAR_MVDR_SWEEPS] = (float)outcome.sweeps;
    info[SONAR_MVDR_RESIDUAL] = (float)outcome.residual;
    if (!outcome.converged)
        info[SONAR_MVDR_FLAGS] =
            (float)((unsigned)info[SONAR_MVDR_FLAGS] | SONAR_MVDR_FLAG_NOT_CONVERGED);
}

/* The share of each direction outside of a bin's signal subspace. Grid: groups of directions,
 * bins. */
__global__ void __launch_bounds__(SPECTRUM_WARPS *WARP, 3) noise_share(view v, points p) {
    __shared__ stretch y;
    __shared__ double form[SPECTRUM_WARPS][LOOKS];
    const uint32_t bin = blockIdx.y, subspace = v.bin[bin].subspace;
    const looks l = {v, p, bin, blockIdx.x * LOOKS};
    const size_t direction = (size_t)l.first + threadIdx.x, at = (size_t)bin * p.pitch + direction;
    const size_t first = (size_t)bin * v.most * v.most;
    double inside = 0;
    if (!v.in_band(bin))
        return;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        v.info[(size_t)bin * SONAR_MVDR_INFO_FIELDS + SONAR_MVDR_SUBSPACE] = (float)subspace;
    if (!subspace) /* the output is not wanted */
        return;
    complex64 *vectors = (v.music_decomposes ? v.signal : v.factor) + first;
    add_up(l,
           eigenvectors{{vectors, v.most},
                        v.member + (size_t)bin * v.most,
                        v.order,
                        v.order + v.order % 2,
                        nullptr,
                        v.most,
                        0},
           y, form);
    if (threadIdx.x >= LOOKS || direction >= p.count)
        return;
    for (uint32_t i = 0; i < SPECTRUM_WARPS; i++)
        inside += form[i][threadIdx.x];
    v.share[at] = (float)fmax(1 - inside / p.norm[at], 4 * DBL_EPSILON);
}

/* 1 over the mean share of the bins that have sources, bin after bin. */
__global__ void pseudo_spectrum(view v, points p, float *out) {
    const uint32_t point = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0, count = 0;
    if (point >= p.count)
        return;
    for (size_t bin = v.band.sum_begin; bin < v.band.sum_end; bin++)
        if (v.bin[bin].subspace) {
            sum += (double)v.share[bin * p.pitch + point];
            count++;
        }
    out[point] = count > 0 ? (float)(count / sum) : 1.0f;
}

} // namespace mvdr

namespace mvdr::host {

/* Computes MUSIC of the bins that have just been solved. */
inline sonar_code publish_music(const mvdr_stage *stage, float *out, cudaStream_t stream,
                                sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::points *p = &stage->grid;
    const unsigned bins = (unsigned)v->spec.bins;
    sonar_code code = steer_at(stage, *p, stream, err);
    if (!code && v->music_decomposes)
        code = decompose(stage, stream, err);
    if (!code && v->music_decomposes) {
        const size_t bytes = stage->music.shared_bytes;
        mvdr::find_subspace<<<bins, SOLVE_THREADS, bytes, stream>>>(*v, bytes);
        code = CUDA_LAUNCHED(where, "find_subspace", err);
    }
    if (code)
        return code;
    mvdr::noise_share<<<dim3(blocks_for(p->count, mvdr::LOOKS), bins),
                        mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(*v, *p);
    if ((code = CUDA_LAUNCHED(where, "noise_share", err)) != SONAR_OK)
        return code;
    mvdr::pseudo_spectrum<<<blocks_for(p->count, 128), 128, 0, stream>>>(*v, *p, out);
    return CUDA_LAUNCHED(where, "pseudo_spectrum", err);
}

} // namespace mvdr::host

#endif
