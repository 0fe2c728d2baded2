/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The order of a window's launches: solves the bins, computes spectra, publishes the results. */
#ifndef SONAR_MVDR_JACOBI_CUDA_WINDOW_CUH
#define SONAR_MVDR_JACOBI_CUDA_WINDOW_CUH

#include "mvdr_jacobi/cuda/factor_grid.cuh"
#include "mvdr_jacobi/cuda/inverse/inverse.cuh"
#include "mvdr_jacobi/cuda/music.cuh"
#include "mvdr_jacobi/cuda/sums/points.cuh"
#include "mvdr_jacobi/cuda/solve.cuh"
#include "mvdr_jacobi/cuda/spectrum_grid.cuh"

namespace mvdr::host {

/* ---- bins ------------------------------------------------------------------------------------ */

/* Whether a window with these wants updates the inverses. */
inline bool updates(const mvdr_stage *stage, const mvdr_wants &wants) {
    const mvdr_problem window = mvdr_problem_of(&stage->view.spec, &wants, MVDR_ON_GPU);
    return mvdr_route_of(&window, MVDR_ON_GPU, stage->named) == MVDR_ROUTE_UPDATE;
}

/* The view for a window with these wants, with the route of bins whose inverse is not updated. If
 * the shared memory of a solving block does not hold its matrix, it is useful only for eigenvalues
 * or eigenvectors. Otherwise it is left to the L1 cache. */
inline mvdr::view window_of(const mvdr_stage *stage, const mvdr_wants &wants) {
    mvdr::view v = stage->view;
    mvdr_problem window = mvdr_problem_of(&v.spec, &wants, MVDR_ON_GPU);
    window.from_scratch = true;
    const mvdr_route_id route = mvdr_route_of(&window, MVDR_ON_GPU, stage->named);
    v.eigenvalues = route == MVDR_ROUTE_EIGENVALUES;
    v.counts = v.listed && route == MVDR_ROUTE_MEDIAN_GRID;
    v.grid = v.counts || (v.listed && route == MVDR_ROUTE_FACTOR_GRID);
    const bool useful = stage->solver.matrix_fits || v.vectors || v.eigenvalues;
    v.shared_bytes = useful ? stage->solver.shared_bytes : 0;
    return v;
}

/* Computes loading and factor of all bins that are not solved. `all`: also all eigenvalues. */
inline sonar_code solve_bins(const mvdr::view &v, bool all, cudaStream_t stream, sonar_error *err) {
    const unsigned bins = (unsigned)v.spec.bins;
    const sonar_code code = factor_bins(v, stream, err);
    if (code)
        return code;
    if (v.vectors)
        mvdr::solve<true><<<bins, SOLVE_THREADS, v.shared_bytes, stream>>>(v, all);
    else
        mvdr::solve<false><<<bins, SOLVE_THREADS, v.shared_bytes, stream>>>(v, all);
    return CUDA_LAUNCHED(where, "solve", err);
}

/* Solves the bins that no window has solved yet. */
inline sonar_code solve_for_points(const mvdr_stage *stage, cudaStream_t stream, sonar_error *err) {
    const mvdr::view v = window_of(stage, {});
    const sonar_code code = v.vectors ? decompose(stage, stream, err) : SONAR_OK;
    return code ? code : solve_bins(v, false, stream, err);
}

/* ---- points ---------------------------------------------------------------------------------- */

/* Computes P of the bins that have a factor, at points whose steering vectors exist, and the band's
 * power if wanted. */
inline sonar_code run_factors(const mvdr_stage *stage, const mvdr::points &points, float *band,
                              ptrdiff_t stride, cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned bins = (unsigned)v->spec.bins;
    sonar_code code = v->form ? spectrum_in_squares(*v, points, stream, err)
                              : spectrum_of_looks(*v, points, stream, err);
    if (!code && v->gain > 0) {
        const bool counted = points.power == stage->grid.power;
        mvdr::limit_gain<<<dim3(blocks_for(points.count, 8), bins), 256, 0, stream>>>(*v, points,
                                                                                      counted);
        code = CUDA_LAUNCHED(where, "limit_gain", err);
    }
    if (code || !band)
        return code;
    mvdr::band_power<<<(points.count + 127) / 128, 128, 0, stream>>>(*v, points, band, stride);
    return CUDA_LAUNCHED(where, "band_power", err);
}

/* Computes P of every bin at the points, and the band's power if wanted. */
inline sonar_code run_spectrum(const mvdr_stage *stage, const mvdr::points &points, float *band,
                               ptrdiff_t stride, cudaStream_t stream, sonar_error *err) {
    sonar_code code = steer_at(stage, points, stream, err);
    if (!code && stage->view.slide)
        code = run_moments(stage, points, false, stream, err);
    return code ? code : run_factors(stage, points, band, stride, stream, err);
}

/* The spectrum at `count` points, at most look.pitch, whose projections are not kept, from all
 * snapshots of the ring. The band's power goes to `band`. */
inline sonar_code evaluate_points(const mvdr_stage *stage, const uint64_t *turns, size_t stride,
                                  size_t count, float *band, ptrdiff_t band_stride,
                                  cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    mvdr::points p = stage->look;
    p.turns = turns, p.stride = stride, p.count = (uint32_t)count;
    sonar_code code = launch_norms(stage, p, false, false, stream, err);
    if (!code && v->by_snapshots)
        code = project_points(stage, p, stream, err);
    return code ? code : run_spectrum(stage, p, band, band_stride, stream, err);
}

/* ---- a window -------------------------------------------------------------------------------- */

/* Copies the rows of the bins in use. */
inline sonar_code write_rows(const mvdr_band *band, const sonar_buffer *out, const float *from,
                             size_t columns, cudaStream_t stream, sonar_error *err) {
    const size_t rows = band->end - band->begin;
    if (!out->data || !rows)
        return SONAR_OK;
    size_t width = columns * sizeof *from, pitch = (size_t)out->stride[0] * sizeof *from;
    float *to = (float *)out->data + (ptrdiff_t)band->begin * out->stride[0];
    return CUDA_CHECK(where,
                      cudaMemcpy2DAsync(to, rows > 1 ? pitch : width, from + band->begin * columns,
                                        width, width, rows, cudaMemcpyDefault, stream),
                      err);
}

/* Evaluates the near field range by range, so that all ranges use the same memory for projections.
 * The tensor cores compute projections so fast that keeping those of all points, as for the
 * directions, is not worth the memory. */
inline sonar_code publish_near(const mvdr_stage *stage, const sonar_buffer *out,
                               cudaStream_t stream, sonar_error *err) {
    const sonar_mvdr_spec *spec = &stage->view.spec;
    sonar_code code = SONAR_OK;
    for (size_t r = 0; r < spec->ranges && !code; r++)
        code = evaluate_points(stage, stage->near_turns + r * spec->directions * spec->sensors,
                               spec->sensors, spec->directions,
                               (float *)out->data + (ptrdiff_t)r * out->stride[0], 1, stream, err);
    return code;
}

/* Solves the bins, and computes their spectrum and the azimuth. In a window that updates inverses,
 * bins that use theirs need no factor. */
inline sonar_code solve_and_look(const mvdr_stage *stage, const mvdr_wants &wants,
                                 const sonar_buffer *azimuth, cudaStream_t stream,
                                 sonar_error *err) {
    float *band = (float *)azimuth->data;
    sonar_code code = SONAR_OK;
    if (stage->slides)
        code = steer_at(stage, stage->grid, stream, err);
    if (!code && stage->slides)
        code = update_inverses(stage, stream, err);
    if (!code)
        code = solve_bins(window_of(stage, wants), wants.eigenvalues, stream, err);
    if (code || !wants.far)
        return code;
    if (!stage->slides)
        return run_spectrum(stage, stage->grid, band, azimuth->stride[0], stream, err);
    code = run_factors(stage, stage->grid, band, azimuth->stride[0], stream, err);
    return code ? code : make_inverses(stage, stream, err);
}

inline sonar_code publish(mvdr_stage *stage, cudaStream_t stream, sonar_buffer *out,
                          const sonar_work *work, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const sonar_mvdr_spec *spec = &v->spec;
    const sonar_buffer *azimuth = &out[SONAR_MVDR_OUT_AZIMUTH];
    const mvdr_wants wants = mvdr_wants_of(work, out);
    sonar_code code = SONAR_OK;
    if (v->vectors)
        code = decompose(stage, stream, err);
    if (!code)
        code = solve_and_look(stage, wants, azimuth, stream, err);
    if (!code && work->outputs & SONAR_WANT(SONAR_MVDR_SPECTRUM))
        code = write_rows(&v->band, &out[SONAR_MVDR_OUT_SPECTRUM], v->power, spec->directions,
                          stream, err);
    if (!code && wants.near)
        code = publish_near(stage, &out[SONAR_MVDR_OUT_NEARFIELD], stream, err);
    if (!code && wants.music)
        code = publish_music(stage, (float *)out[SONAR_MVDR_OUT_MUSIC].data, stream, err);
    if (!code && work->outputs & SONAR_WANT(SONAR_MVDR_EIGENVALUES))
        code = write_rows(&v->band, &out[SONAR_MVDR_OUT_EIGENVALUES], v->eigenvalue, v->modes,
                          stream, err);
    if (!code)
        code = write_rows(&v->band, &out[SONAR_MVDR_OUT_INFO], v->info, SONAR_MVDR_INFO_FIELDS,
                          stream, err);
    return code;
}

} // namespace mvdr::host

#endif
