/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The streaming inverse M on the GPU (inverse.h). In a window that updates it, the kernels do the
 * following, in this order:
 *
 * - Note the columns x that enter and leave, before the ring stores the new ones.
 * - Compute y = M x for all of them in one pass over M.
 * - Choose the loading, and decide for each bin whether M is updated (a thread block for each bin).
 * - Subtract sum y y^H / s from M: the lower triangle is computed and mirrored.
 * - Compute p = a^H M a and q = |M a|^2 for all directions on the tensor cores, and from them the
 *   powers.
 * - Measure the rounding error of M.
 *
 * A bin without M, or whose M has too different a loading or too large an error, is left unsolved:
 * the solver computes its factor X, and M = X X^H follows from it. Kernels return at once for bins
 * in which they have nothing to do.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_INVERSE_INVERSE_CUH
#define SONAR_MVDR_JACOBI_CUDA_INVERSE_INVERSE_CUH

#include "mvdr_jacobi/cuda/inverse/moments.cuh"
#include "mvdr_jacobi/cuda/inverse/probe.cuh"

namespace mvdr::host {

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
