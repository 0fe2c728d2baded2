/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Launches the kernels of cuda/arrive.cuh and cuda/tone.cuh, which store new snapshots and detect
 * tones. */
#ifndef SONAR_MVDR_JACOBI_CUDA_RUN_ARRIVE_CUH
#define SONAR_MVDR_JACOBI_CUDA_RUN_ARRIVE_CUH

#include "mvdr_jacobi/cuda/arrive.cuh"
#include "mvdr_jacobi/cuda/run_inverse.cuh"
#include "mvdr_jacobi/cuda/run_sums.cuh"
#include "mvdr_jacobi/cuda/tone.cuh"

namespace mvdr::host {

inline mvdr::arrivals arrivals_of(const sonar_buffer *in) {
    return {(const complex32 *)in->data, in->stride[0], in->stride[1], (uint32_t)in->shape[0]};
}

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
