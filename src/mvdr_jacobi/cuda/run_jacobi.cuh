/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Launches the kernels of cuda/jacobi.cuh and cuda/follow.cuh for a batch of matrices. */
#ifndef SONAR_MVDR_JACOBI_CUDA_RUN_JACOBI_CUH
#define SONAR_MVDR_JACOBI_CUDA_RUN_JACOBI_CUH

#include "mvdr_jacobi/cuda/follow.cuh"

namespace mvdr {

/* The number of blocks of a team that turns all pairs at once: the one with the least estimated
 * time for all matrices. The estimate for a matrix counts 24 Hermitian products, 6 full ones and 8
 * rounds of pairs, each in turns of the team's warps or blocks. */
inline uint32_t jacobi_members(const jacobi_batch *b, uint32_t most, uint32_t resident) {
    const uint32_t columns = b->order / JACOBI_PIVOT, warps = JACOBI_THREADS / WARP,
                   half = columns * (columns + 1), whole = 2 * columns * columns;
    uint64_t least = UINT64_MAX;
    uint32_t members = 1;
    for (uint32_t m = 1; m <= whole && m <= resident; m++) {
        const uint32_t teams = most < resident / m ? most : resident / m;
        const uint64_t turns = 24 * ((half + m * warps - 1) / (m * warps)) +
                               6 * ((whole + m * warps - 1) / (m * warps)) +
                               8 * ((columns + m - 1) / m),
                       all = turns * ((b->count + teams - 1) / teams);
        if (all < least)
            least = all, members = m;
    }
    return members;
}

/* Sets the teams: as many blocks as run at a time on this number of multiprocessors. */
inline cudaError_t jacobi_fit(jacobi_batch *b, int processors) {
    const uint32_t most = (uint32_t)mvdr_jacobi_teams(b->order, b->count),
                   pairs = b->order / JACOBI_PIVOT;
    b->fit[1] = {0, 0};
    for (int together = 0; together < (most ? 2 : 1); together++) {
        int blocks = 0;
        const cudaError_t error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
            &blocks, together ? jacobi_together : jacobi_sweeps, JACOBI_THREADS, 0);
        if (error)
            return error;
        const uint32_t resident = (uint32_t)((blocks > 1 ? blocks : 1) * processors),
                       members = together           ? jacobi_members(b, most, resident)
                                 : pairs < resident ? pairs
                                                    : resident,
                       teams = members ? resident / members : 0, bound = together ? most : b->count;
        b->fit[together] = {teams < bound ? teams : bound, members};
    }
    return cudaSuccess;
}

/* Launches all kernels of a batch. cudaGetLastError has the errors. */
inline void jacobi_run(const jacobi_batch &b, cudaStream_t stream) {
    const uint32_t n = b.order;
    const dim3 tiles((n + TILE_ROWS_64 - 1) / TILE_ROWS_64, n / TILE_COLUMNS_32, b.count),
        columns((n + 7) / 8, b.count);
    if (!n || !b.count)
        return;
    if (b.kept) {
        follow_change(b, stream);
        jacobi_products<TIMES_VECTORS><<<tiles, JACOBI_THREADS, 0, stream>>>(b);
        jacobi_products<BETWEEN_VECTORS><<<tiles, JACOBI_THREADS, 0, stream>>>(b);
    }
    jacobi_factor<<<b.count, CHOLESKY_THREADS, 0, stream>>>(b);
    jacobi_products<VECTORS_TIMES_FACTOR><<<tiles, JACOBI_THREADS, 0, stream>>>(b);
    if (b.kept)
        jacobi_norms<<<columns, 256, 0, stream>>>(b);
    const bool together = b.kept && b.fit[1].teams;
    jacobi_batch own = b;
    own.teams = b.fit[together].teams, own.members = b.fit[together].members;
    const auto sweeps = together ? jacobi_together : jacobi_sweeps;
    sweeps<<<own.teams * own.members, JACOBI_THREADS, 0, stream>>>(own);
    jacobi_norms<<<columns, 256, 0, stream>>>(b);
    jacobi_order<<<columns, 256, 0, stream>>>(b);
}

} // namespace mvdr

#endif
