/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Launches the kernels of cuda/inverse.cuh, which update the streaming inverse or make it from this
 * window's factor. */
#ifndef SONAR_MVDR_JACOBI_CUDA_RUN_INVERSE_CUH
#define SONAR_MVDR_JACOBI_CUDA_RUN_INVERSE_CUH

#include "mvdr_jacobi/cuda/inverse.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr::host {

/* Thread blocks of make_inverse for each bin. No other sums over M have more parts. */
inline unsigned inverse_parts(uint32_t rows) {
    return blocks_for(rows, mvdr::INVERSE_THREADS / mvdr::WARP * mvdr::TILE_ROWS) *
           (rows / mvdr::PANEL);
}

inline unsigned moment_parts(uint32_t rows) {
    return blocks_for(rows, mvdr::MOMENT_ROWS);
}

/* ---- columns that enter and leave ------------------------------------------------------------ */

/* Decides how this window treats the inverses, before the ring stores its snapshots. */
inline sonar_code begin_inverse(mvdr_stage *stage, uint32_t count, bool slides, cudaStream_t stream,
                                sonar_error *err) {
    const mvdr::view *v = &stage->view;
    stage->slides = v->slide && slides;
    stage->little = mvdr_moves_little(count, v->images, v->length);
    stage->moved = 0;
    for (uint32_t columns = 2; stage->little && count && stage->moved < 2 * count * v->images;
         columns *= 2)
        stage->moved = columns;
    if (!v->slide || slides)
        return SONAR_OK;
    mvdr::leave_inverse<<<blocks_for(v->spec.bins, 64), 64, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "leave_inverse", err);
}

inline sonar_code launch_note_moves(const mvdr_stage *stage, const mvdr::arrivals &in,
                                    cudaStream_t stream, sonar_error *err) {
    if (!stage->slides || !stage->moved)
        return SONAR_OK;
    const dim3 grid(stage->moved, (unsigned)stage->view.spec.bins);
    mvdr::note_moves<<<grid, 128, 0, stream>>>(stage->view, in);
    return CUDA_LAUNCHED(where, "note_moves", err);
}

/* ---- M --------------------------------------------------------------------------------------- */

/* y = M x for 1, 2, 4 or 8 columns. */
inline sonar_code launch_apply_inverse(const mvdr_stage *stage, uint32_t columns,
                                       cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid(mvdr::padded(v->order) / 32, (unsigned)v->spec.bins);
    const unsigned threads = mvdr::INVERSE_THREADS;
    if (columns == 1)
        mvdr::apply_inverse<1><<<grid, threads, 0, stream>>>(*v);
    else if (columns == 2)
        mvdr::apply_inverse<2><<<grid, threads, 0, stream>>>(*v);
    else if (columns == 4)
        mvdr::apply_inverse<4><<<grid, threads, 0, stream>>>(*v);
    else
        mvdr::apply_inverse<8><<<grid, threads, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "apply_inverse", err);
}

inline sonar_code launch_subtract_products(const mvdr_stage *stage, cudaStream_t stream,
                                           sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid(mvdr::padded(v->order) / 8, (unsigned)v->spec.bins);
    const unsigned threads = mvdr::INVERSE_THREADS;
    if (stage->moved == 2)
        mvdr::subtract_products<2><<<grid, threads, 0, stream>>>(*v);
    else if (stage->moved == 4)
        mvdr::subtract_products<4><<<grid, threads, 0, stream>>>(*v);
    else
        mvdr::subtract_products<8><<<grid, threads, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "subtract_products", err);
}

/* Chooses the bins' loading, and updates M by the snapshots that entered and left. */
inline sonar_code launch_update(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, moved = stage->moved;
    sonar_code code = moved ? launch_apply_inverse(stage, moved, stream, err) : SONAR_OK;
    if (code)
        return code;
    mvdr::choose_update<<<bins, 256, 0, stream>>>(*v, moved, stage->little);
    code = CUDA_LAUNCHED(where, "choose_update", err);
    if (!code && moved)
        code = launch_subtract_products(stage, stream, err);
    if (code || !stage->little)
        return code;
    mvdr::report_updated<<<bins, mvdr::INVERSE_THREADS, 0, stream>>>(
        *v, moved ? mvdr::padded(v->order) / 8 : 0);
    return CUDA_LAUNCHED(where, "report_updated", err);
}

/* Makes M for the bins that need one, after the solver. */
inline sonar_code make_inverses(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, parts = inverse_parts(mvdr::padded(v->order));
    if (!v->order)
        return SONAR_OK;
    mvdr::make_inverse<<<dim3(parts, bins), mvdr::INVERSE_THREADS, 0, stream>>>(*v);
    sonar_code code = CUDA_LAUNCHED(where, "make_inverse", err);
    if (code)
        return code;
    mvdr::keep_inverse<<<bins, mvdr::INVERSE_THREADS, 0, stream>>>(*v, parts);
    return CUDA_LAUNCHED(where, "keep_inverse", err);
}

/* ---- the spectrum ---------------------------------------------------------------------------- */

/* Computes P of the bins that have been solved by M, at points whose steering vectors exist. */
inline sonar_code run_moments(const mvdr_stage *stage, const mvdr::points &points, bool probes,
                              cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, parts = moment_parts(mvdr::padded(v->order));
    if (!v->order)
        return SONAR_OK;
    const dim3 grid(blocks_for(points.count, mvdr::LOOKS), bins, parts);
    mvdr::moments<<<grid, mvdr::SPECTRUM_WARPS * mvdr::WARP, 0, stream>>>(*v, points);
    sonar_code code = CUDA_LAUNCHED(where, "moments", err);
    if (code)
        return code;
    const dim3 each(blocks_for(points.count, 64), bins);
    mvdr::add_up_moments<<<each, 64, 0, stream>>>(*v, points, parts, probes);
    return CUDA_LAUNCHED(where, "add_up_moments", err);
}

/* Measures the rounding error of M. Bins in which it is too large are left to the solver. */
inline sonar_code probe_inverses(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, rows = mvdr::padded(v->order);
    const unsigned threads = mvdr::INVERSE_THREADS, parts = rows / 32;
    mvdr::make_probe<<<dim3(rows / 16, bins), threads, 0, stream>>>(*v, stage->grid);
    sonar_code code = CUDA_LAUNCHED(where, "make_probe", err);
    if (!code)
        code = launch_apply_inverse(stage, 1, stream, err);
    if (code)
        return code;
    mvdr::square_probe<<<dim3(parts, bins), threads, 0, stream>>>(*v);
    if ((code = CUDA_LAUNCHED(where, "square_probe", err)) != SONAR_OK)
        return code;
    mvdr::judge_inverse<<<bins, 256, 0, stream>>>(*v, parts);
    return CUDA_LAUNCHED(where, "judge_inverse", err);
}

/* In a window that updates inverses: updates them, and computes P of the grid in the bins that use
 * them. The grid's steering vectors exist. */
inline sonar_code update_inverses(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    if (!stage->view.order)
        return SONAR_OK;
    sonar_code code = launch_update(stage, stream, err);
    if (!code && stage->little)
        code = run_moments(stage, stage->grid, true, stream, err);
    return code || !stage->little ? code : probe_inverses(stage, stream, err);
}

} // namespace mvdr::host

#endif
