/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The sums over the sensors, in float64 from float32 samples: x_i^H x_j of pairs of snapshots, x^H
 * a of snapshots and directions, and |a|^2. There are three ways to compute them:
 *
 * - A few new snapshots: a warp multiplies one with a few others, at the speed of the memory.
 *   Steering vectors are rotated from bin to bin.
 * - Several new snapshots: eight at a time on the tensor cores. A lane rotates its elements of the
 *   steering vectors from bin to bin, for all eight snapshots.
 * - Many: tiles on the tensor cores, with the steering vectors of each bin computed from the start.
 *
 * All ways split the sensors into parts, which depend on their number alone, and add the parts in
 * order.
 *
 * The projections of old and new snapshots on a direction must use the same vector a: where P is
 * 1e-8 of |a|^2, another rounding of a would be visible. So in snapshot space a is always float64.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_SUMS_SUMS_CUH
#define SONAR_MVDR_JACOBI_CUDA_SUMS_SUMS_CUH

#include "mvdr_jacobi/cuda/sums/few.cuh"
#include "mvdr_jacobi/cuda/sums/many.cuh"
#include "mvdr_jacobi/cuda/sums/several.cuh"

namespace mvdr {

/* Up to this many new snapshots are processed one by one, and up to MVDR_MOST_SEVERAL eight at a
 * time. */
constexpr uint32_t FEW = 2;

/* |a|^2 of every direction over the sensors in use; in snapshot space their number, since steering
 * vectors are not rounded there. A warp for each direction. Grid: groups of 8 directions, bins.
 * `stale`: only bins whose offset has changed. `grid`: the points are the stage's own directions,
 * and the offset is noted. */
__global__ void __launch_bounds__(256) norms(view v, points p, bool stale, bool grid) {
    const uint32_t direction = blockIdx.x * warps() + warp(), bin = blockIdx.y;
    if (direction >= p.count || (stale && !v.stale[bin]))
        return;
    const uint64_t *turns = p.turns + direction * p.stride;
    const frequency f = frequency_of(v, bin);
    double sum = 0;
    for (uint32_t k = lane(); k < v.spec.sensors && !v.by_snapshots; k += WARP)
        if (v.mirror[k] != UNUSED)
            sum += square(wide(steering(f, turns[k], middle_of(v, turns))));
    sum = v.by_snapshots ? v.n : sum_lanes(sum);
    if (lane())
        return;
    p.norm[(size_t)bin * p.pitch + direction] = sum;
    if (grid && direction == 0)
        v.made[bin] = v.bin[bin].offset;
}

} // namespace mvdr

namespace mvdr::host {

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
