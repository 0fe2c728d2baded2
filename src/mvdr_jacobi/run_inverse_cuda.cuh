/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Launches the kernels of inverse_cuda.cuh: the inverse of the window before follows the snapshots,
 * or is made from this window's factor. */
#ifndef SONAR_MVDR_JACOBI_RUN_INVERSE_CUDA_CUH
#define SONAR_MVDR_JACOBI_RUN_INVERSE_CUDA_CUH

#include "mvdr_jacobi/inverse_cuda.cuh"
#include "mvdr_jacobi/state_cuda.cuh"

namespace mvdr::host {

/* Row groups and panels of make_inverse, the most that sums over M are made in. */
inline unsigned inverse_parts(uint32_t rows) {
    return blocks_for(rows, mvdr::INVERSE_THREADS / mvdr::WARP * mvdr::TILE_ROWS) *
           (rows / mvdr::PANEL);
}

inline unsigned moment_parts(uint32_t rows) {
    return blocks_for(rows, mvdr::MOMENT_ROWS);
}

/* ---- columns that come and go ---------------------------------------------------------------- */

/* What this window is to do with inverses, before the ring takes its snapshots. */
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

inline sonar_code note_moves(const mvdr_stage *stage, const mvdr::arrivals &in, cudaStream_t stream,
                             sonar_error *err) {
    if (!stage->slides || !stage->moved)
        return SONAR_OK;
    const dim3 grid(stage->moved, (unsigned)stage->view.spec.bins);
    mvdr::note_moves<<<grid, 128, 0, stream>>>(stage->view, in);
    return CUDA_LAUNCHED(where, "note_moves", err);
}

/* ---- M --------------------------------------------------------------------------------------- */

/* y = M x of 1, 2, 4 or 8 columns. */
inline sonar_code apply_inverse(const mvdr_stage *stage, uint32_t columns, cudaStream_t stream,
                                sonar_error *err) {
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

inline sonar_code take_away(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const dim3 grid(mvdr::padded(v->order) / 8, (unsigned)v->spec.bins);
    const unsigned threads = mvdr::INVERSE_THREADS;
    if (stage->moved == 2)
        mvdr::take_away<2><<<grid, threads, 0, stream>>>(*v);
    else if (stage->moved == 4)
        mvdr::take_away<4><<<grid, threads, 0, stream>>>(*v);
    else
        mvdr::take_away<8><<<grid, threads, 0, stream>>>(*v);
    return CUDA_LAUNCHED(where, "take_away", err);
}

/* M and the bins' loading follow what came and went. */
inline sonar_code follow(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, moved = stage->moved;
    sonar_code code = moved ? apply_inverse(stage, moved, stream, err) : SONAR_OK;
    if (code)
        return code;
    mvdr::follow<<<bins, 256, 0, stream>>>(*v, moved, stage->little);
    code = CUDA_LAUNCHED(where, "follow", err);
    if (!code && moved)
        code = take_away(stage, stream, err);
    if (code || !stage->little)
        return code;
    mvdr::settle<<<bins, mvdr::INVERSE_THREADS, 0, stream>>>(*v, moved ? mvdr::padded(v->order) / 8
                                                                       : 0);
    return CUDA_LAUNCHED(where, "settle", err);
}

/* After the solver: M of the bins that want it. */
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

/* P of the bins that have been solved by M, at points whose steering vectors are made. */
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

/* Measures M; bins where it is wrong are left to the solver. */
inline sonar_code probe(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins, rows = mvdr::padded(v->order);
    const unsigned threads = mvdr::INVERSE_THREADS, parts = rows / 32;
    mvdr::make_probe<<<dim3(rows / 16, bins), threads, 0, stream>>>(*v, stage->grid);
    sonar_code code = CUDA_LAUNCHED(where, "make_probe", err);
    if (!code)
        code = apply_inverse(stage, 1, stream, err);
    if (code)
        return code;
    mvdr::square_probe<<<dim3(parts, bins), threads, 0, stream>>>(*v);
    if ((code = CUDA_LAUNCHED(where, "square_probe", err)) != SONAR_OK)
        return code;
    mvdr::judge<<<bins, 256, 0, stream>>>(*v, parts);
    return CUDA_LAUNCHED(where, "judge", err);
}

/* A window that slides: P of the grid in bins whose inverse went on, whose steering vectors are
 * made. */
inline sonar_code slide(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    if (!stage->view.order)
        return SONAR_OK;
    sonar_code code = follow(stage, stream, err);
    if (!code && stage->little)
        code = run_moments(stage, stage->grid, true, stream, err);
    return code || !stage->little ? code : probe(stage, stream, err);
}

} // namespace mvdr::host

#endif
