/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Launches the kernels of cuda/parts.cuh, for stages that are a part of an array or join parts. */
#ifndef SONAR_MVDR_JACOBI_CUDA_RUN_PARTS_CUH
#define SONAR_MVDR_JACOBI_CUDA_RUN_PARTS_CUH

#include "mvdr_jacobi/cuda/params.cuh"
#include "mvdr_jacobi/cuda/parts.cuh"
#include "mvdr_jacobi/cuda/run_arrive.cuh"
#include "mvdr_jacobi/cuda/run_spectrum.cuh"

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
