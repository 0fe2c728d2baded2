/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Launches the kernels of cuda/sums.cuh and cuda/points.cuh, which update the sums over the sensors
 * after new snapshots, parameters and tones. */
#ifndef SONAR_MVDR_JACOBI_CUDA_RUN_SUMS_CUH
#define SONAR_MVDR_JACOBI_CUDA_RUN_SUMS_CUH

#include "mvdr_jacobi/cuda/points.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr::host {

/* ---- parts of the sensors, added in their order ---------------------------------------------- */

inline sonar_code fold_sums_of(const mvdr::view *v, const mvdr::slots &rows,
                               const mvdr::parts &parts, cudaStream_t stream, sonar_error *err) {
    const size_t items = v->spec.bins * rows.count * v->columns;
    mvdr::fold_sums<<<blocks_for(items, 128), 128, 0, stream>>>(*v, rows, parts);
    return CUDA_LAUNCHED(where, "fold_sums", err);
}

inline sonar_code fold_projections_of(const mvdr::view *v, const mvdr::points &p,
                                      const mvdr::slots &rows, const mvdr::parts &parts, bool stale,
                                      cudaStream_t stream, sonar_error *err) {
    const size_t items = v->spec.bins * rows.count * v->images * p.count;
    mvdr::fold_projections<<<blocks_for(items, 128), 128, 0, stream>>>(*v, p, rows, parts, stale);
    return CUDA_LAUNCHED(where, "fold_projections", err);
}

/* ---- by the number of snapshots -------------------------------------------------------------- */

/* Makes the sums of a few new snapshots. */
inline sonar_code add_few(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                          sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::points *p = &stage->grid;
    const unsigned bins = (unsigned)v->spec.bins;
    const dim3 sums(bins, stage->few.count, rows.count * blocks_for(v->length, 32));
    if (v->images == 2)
        mvdr::few_sums<true><<<sums, 256, 0, stream>>>(*v, rows, stage->few);
    else
        mvdr::few_sums<false><<<sums, 256, 0, stream>>>(*v, rows, stage->few);
    sonar_code code = CUDA_LAUNCHED(where, "few_sums", err);
    if (code)
        return code;
    if ((code = fold_sums_of(v, rows, stage->few, stream, err)) != SONAR_OK)
        return code;
    const dim3 looks(blocks_for(p->count, mvdr::LOOK_WARPS * mvdr::LOOK_DIRECTIONS),
                     blocks_for((size_t)bins * v->images, mvdr::LOOK_ROWS),
                     rows.count * stage->few.count);
    if (v->images == 2)
        mvdr::few_projections<true><<<looks, 256, 0, stream>>>(*v, *p, rows, stage->few);
    else
        mvdr::few_projections<false><<<looks, 256, 0, stream>>>(*v, *p, rows, stage->few);
    if ((code = CUDA_LAUNCHED(where, "few_projections", err)) != SONAR_OK)
        return code;
    return fold_projections_of(v, *p, rows, stage->few, false, stream, err);
}

/* Makes the sums of several new snapshots. */
inline sonar_code add_several(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                              sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::points *p = &stage->grid;
    const unsigned bins = (unsigned)v->spec.bins, threads = mvdr::SEVERAL_WARPS * mvdr::WARP,
                   wide = mvdr::SEVERAL_WARPS * 16; /* columns or directions of a block */
    const dim3 sums(bins, stage->few.count,
                    blocks_for(rows.count, mvdr::SEVERAL) * blocks_for(v->columns, wide));
    mvdr::several_sums<<<sums, threads, 0, stream>>>(*v, rows, stage->few);
    sonar_code code = CUDA_LAUNCHED(where, "several_sums", err);
    if (code)
        return code;
    if ((code = fold_sums_of(v, rows, stage->few, stream, err)) != SONAR_OK)
        return code;
    const dim3 looks(blocks_for(p->count, wide), blocks_for(bins, mvdr::SEVERAL_BINS),
                     blocks_for((size_t)v->images * rows.count, mvdr::SEVERAL) * stage->few.count);
    if (v->images == 2)
        mvdr::several_projections<true><<<looks, threads, 0, stream>>>(*v, *p, rows, stage->few);
    else
        mvdr::several_projections<false><<<looks, threads, 0, stream>>>(*v, *p, rows, stage->few);
    if ((code = CUDA_LAUNCHED(where, "several_projections", err)) != SONAR_OK)
        return code;
    return fold_projections_of(v, *p, rows, stage->few, false, stream, err);
}

inline sonar_code add_many(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                           sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned tiles = blocks_for(rows.count, mvdr::TILE) * blocks_for(v->columns, mvdr::TILE);
    const dim3 grid(tiles, (unsigned)v->spec.bins, stage->many.count);
    mvdr::many_sums<<<grid, 256, 0, stream>>>(*v, rows, stage->many);
    sonar_code code = CUDA_LAUNCHED(where, "many_sums", err);
    if (code)
        return code;
    return fold_sums_of(v, rows, stage->many, stream, err);
}

/* Makes the projections of many snapshots. `stale`: only in bins whose steering has changed. */
inline sonar_code project_many(const mvdr_stage *stage, const mvdr::points &p,
                               const mvdr::slots &rows, bool stale, cudaStream_t stream,
                               sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned tiles =
        blocks_for((size_t)v->images * rows.count, mvdr::TILE) * blocks_for(p.count, mvdr::TILE);
    const dim3 grid(tiles, (unsigned)v->spec.bins, stage->many.count);
    mvdr::many_projections<<<grid, 256, 0, stream>>>(*v, p, rows, stage->many, stale);
    sonar_code code = CUDA_LAUNCHED(where, "many_projections", err);
    if (code)
        return code;
    return fold_projections_of(v, p, rows, stage->many, stale, stream, err);
}

/* Makes projections of all snapshots on points whose projections are not kept. */
inline sonar_code project_points(const mvdr_stage *stage, const mvdr::points &p,
                                 cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::slots all = {0, 0, v->length};
    const unsigned groups = blocks_for(p.count, mvdr::POINT_GROUP),
                   threads = mvdr::POINT_WARPS * mvdr::WARP,
                   columns = blocks_for(v->columns, mvdr::POINT_COLUMNS);
    if (groups > mvdr::POINT_GROUPS)
        return project_many(stage, p, all, false, stream, err);
    const dim3 grid(columns, (unsigned)v->spec.bins, stage->many.count);
    if (groups == 1)
        mvdr::few_points<1><<<grid, threads, 0, stream>>>(*v, p, all, stage->many);
    else if (groups == 2)
        mvdr::few_points<2><<<grid, threads, 0, stream>>>(*v, p, all, stage->many);
    else
        mvdr::few_points<mvdr::POINT_GROUPS><<<grid, threads, 0, stream>>>(*v, p, all, stage->many);
    const sonar_code code = CUDA_LAUNCHED(where, "few_points", err);
    if (code)
        return code;
    return fold_projections_of(v, p, all, stage->many, false, stream, err);
}

inline sonar_code launch_norms(const mvdr_stage *stage, const mvdr::points &p, bool stale, bool own,
                               cudaStream_t stream, sonar_error *err) {
    const dim3 grid(blocks_for(p.count, 8), (unsigned)stage->view.spec.bins);
    mvdr::norms<<<grid, 256, 0, stream>>>(stage->view, p, stale, own);
    return CUDA_LAUNCHED(where, "norms", err);
}

/* Updates the sums: all of them after new parameters; otherwise those of the new snapshots, and all
 * projections of bins whose steering has changed. */
inline sonar_code bring_up_to_date(mvdr_stage *stage, uint32_t skip, uint32_t count, bool steered,
                                   cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::slots all = {0, 0, v->length}, fresh = {mvdr::NEXT, skip, count - skip};
    const bool whole = stage->stale;
    sonar_code code = SONAR_OK;
    stage->stale = true; /* remains true if a launch fails */
    if (v->by_snapshots && whole) {
        code = add_many(stage, all, stream, err);
        if (!code)
            code = project_many(stage, stage->grid, all, false, stream, err);
    } else if (v->by_snapshots && fresh.count && fresh.count <= mvdr::FEW) {
        code = add_few(stage, fresh, stream, err);
    } else if (v->by_snapshots && fresh.count && fresh.count <= MVDR_MOST_SEVERAL) {
        code = add_several(stage, fresh, stream, err);
    } else if (v->by_snapshots && fresh.count) {
        code = add_many(stage, fresh, stream, err);
        if (!code)
            code = project_many(stage, stage->grid, fresh, false, stream, err);
    }
    if (!code && v->by_snapshots && steered && !whole)
        code = project_many(stage, stage->grid, all, true, stream, err);
    if (!code && (whole || steered))
        code = launch_norms(stage, stage->grid, !whole, true, stream, err);
    stage->stale = code != SONAR_OK;
    return code;
}

} // namespace mvdr::host

#endif
