/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Eigenvalues and eigenvectors of many Hermitian matrices in float64 by the block Jacobi method, on
 * all multiprocessors, beginning from nothing or from the eigenvectors of similar matrices.
 *
 * The method is one-sided: R = X X^H, and unitary transformations make X's columns orthogonal. The
 * columns are then the eigenvectors times the square roots of the eigenvalues (Hestenes; Drmac and
 * Veselic 2008). From nothing, X is the Cholesky factor of R. From approximate eigenvectors V, X is
 * V times the factor of V^H R V, so that its columns are nearly orthogonal. An error e of V's
 * orthogonality causes an error of e |R| in this result. It does not affect the orthogonality of
 * the new vectors, so that errors do not add up over time.
 *
 * Columns are grouped in blocks of 16, and blocks in pairs (round-robin). The Gram matrix of a
 * pair's 32 columns is computed on the tensor cores. A sweep of 31 rounds of 16 rotations in shared
 * memory makes it nearly diagonal. The columns are multiplied by the product of these rotations, on
 * the tensor cores. The pairs of a round are independent. A team of thread blocks, one for each
 * pair of a round, makes all sweeps of a matrix in one launch, with a barrier after each round.
 *
 * All sums have a fixed order, so that results repeat to the bit.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_JACOBI_RUN_CUH
#define SONAR_MVDR_JACOBI_CUDA_JACOBI_RUN_CUH

#include "mvdr_jacobi/cuda/jacobi/begin.cuh"
#include "mvdr_jacobi/cuda/jacobi/follow.cuh"
#include "mvdr_jacobi/cuda/jacobi/pairs.cuh"
#include "mvdr_jacobi/cuda/jacobi/together.cuh"

namespace mvdr {

/* ---- results --------------------------------------------------------------------------------- */

__device__ inline uint32_t sum_counts(uint32_t value) {
    for (unsigned offset = WARP / 2; offset; offset /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, offset);
    return value;
}

/* Computes the squares of the columns. A warp for each column. */
__global__ void jacobi_norms(jacobi_batch b) {
    const uint32_t n = b.order, matrix = blockIdx.y, j = blockIdx.x * warps() + warp();
    if (j >= n || !b.wants(matrix))
        return;
    const complex64 *x = b.x + b.first(matrix) + (size_t)j * n;
    double sum = 0;
    for (uint32_t i = lane(); i < n; i += WARP)
        sum += square(x[i]);
    sum = sum_lanes(sum);
    if (lane() == 0)
        b.own[(size_t)matrix * n + j] = sum;
}

/* Writes the columns in falling order, equal ones in their order, as vectors of length 1. A warp
 * for each column. */
__global__ void jacobi_order(jacobi_batch b) {
    const uint32_t n = b.order, matrix = blockIdx.y, j = blockIdx.x * warps() + warp();
    if (j >= n || !b.wants(matrix))
        return;
    const complex64 *x = b.x + b.first(matrix) + (size_t)j * n;
    const double *all = b.own + (size_t)matrix * n, own = all[j];
    uint32_t place = 0;
    for (uint32_t i = lane(); i < n; i += WARP)
        place += all[i] > own || (all[i] == own && i < j);
    place = sum_counts(place);
    const double over = own > 0 ? 1 / sqrt(own) : 0;
    complex64 *to = b.vectors + b.first(matrix) + (size_t)place * n;
    for (uint32_t i = lane(); i < n; i += WARP)
        to[i] = {x[i].re * over, x[i].im * over};
    if (lane() == 0)
        b.d[(size_t)matrix * n + place] = fmax(own - b.record[matrix].shift, 0.0);
    if (j == 0 && lane() == 0)
        b.kept[matrix] = b.record[matrix].converged;
}

/* ---- a batch of matrices --------------------------------------------------------------------- */

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

/* The teams of one matrix each that factor at a time. A panel of 32 columns is too little work for
 * more members than there are panels. */
inline void fit_factoring(jacobi_batch *b, uint32_t processors) {
    const uint32_t each = processors / b->count, panels = b->order / JACOBI_PIVOT,
                   members = each < panels ? each : panels;
    b->fit[FACTORING] = {b->count, members ? members : 1};
}

/* Sets the teams: as many blocks as run at a time on this number of multiprocessors. */
inline cudaError_t jacobi_fit(jacobi_batch *b, int processors) {
    const uint32_t most = (uint32_t)mvdr_jacobi_teams(b->order, b->count),
                   pairs = b->order / JACOBI_PIVOT;
    fit_factoring(b, (uint32_t)processors);
    b->fit[TOGETHER] = {0, 0};
    for (uint32_t launch = BY_PAIRS; launch <= (most ? TOGETHER : BY_PAIRS); launch++) {
        const bool together = launch == TOGETHER;
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
        b->fit[launch] = {teams < bound ? teams : bound, members};
    }
    return cudaSuccess;
}

/* The batch for a launch by teams. */
inline jacobi_batch batch_for(const jacobi_batch &b, jacobi_launch launch) {
    jacobi_batch own = b;
    own.teams = b.fit[launch].teams, own.members = b.fit[launch].members;
    own.arrived += launch * (b.count + 1);
    return own;
}

/* Launches all kernels of a batch. cudaGetLastError has the errors. */
inline void jacobi_run(const jacobi_batch &b, cudaStream_t stream) {
    const uint32_t n = b.order;
    const dim3 tiles((n + TILE_ROWS_64 - 1) / TILE_ROWS_64, n / TILE_COLUMNS_32, b.count),
        columns((n + 7) / 8, b.count);
    if (!n || !b.count)
        return;
    cudaMemsetAsync(b.arrived, 0, MVDR_DEVICE_LAUNCHES * (b.count + 1) * sizeof *b.arrived, stream);
    follow_change(b, stream);
    jacobi_products<TIMES_VECTORS><<<tiles, JACOBI_THREADS, 0, stream>>>(b);
    jacobi_products<BETWEEN_VECTORS><<<tiles, JACOBI_THREADS, 0, stream>>>(b);
    const jacobi_batch factoring = batch_for(b, FACTORING), pairs = batch_for(b, BY_PAIRS),
                       together = batch_for(b, TOGETHER);
    jacobi_factor<<<factoring.teams * factoring.members, CHOLESKY_THREADS, 0, stream>>>(factoring);
    jacobi_products<VECTORS_TIMES_FACTOR><<<tiles, JACOBI_THREADS, 0, stream>>>(b);
    jacobi_norms<<<columns, 256, 0, stream>>>(b);
    jacobi_sweeps<<<pairs.teams * pairs.members, JACOBI_THREADS, 0, stream>>>(pairs);
    if (together.teams)
        jacobi_together<<<together.teams * together.members, JACOBI_THREADS, 0, stream>>>(together);
    jacobi_norms<<<columns, 256, 0, stream>>>(b);
    jacobi_order<<<columns, 256, 0, stream>>>(b);
}

} // namespace mvdr

#endif
