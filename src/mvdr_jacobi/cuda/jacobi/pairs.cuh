/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sweeps pair by pair: in each round every block of columns is paired with one other. */
#ifndef SONAR_MVDR_JACOBI_CUDA_JACOBI_PAIRS_CUH
#define SONAR_MVDR_JACOBI_CUDA_JACOBI_PAIRS_CUH

#include "mvdr_jacobi/cuda/jacobi/pivot.cuh"

namespace mvdr {

/* Squares of residuals. ORTHOGONAL2: pairs below it are orthogonal to rounding and are not turned.
 * Sweeps continue until all pairs are. NEARLY2: after a sweep that found nothing above it, columns
 * of one block are compared in the first round only. */
constexpr double ORTHOGONAL2 = 2.25e-30, NEARLY2 = 1e-3;

/* Turns a pair's columns of the matrix at x; d has the squares of the columns. Returns the square
 * of the residual before. */
__device__ inline double turn_pair(complex64 *x, uint32_t n, double *d, index_pair pair,
                                   bool across, pivot_room &r) {
    const pivot_columns column = {x + (size_t)pair.x * JACOBI_BLOCK * n,
                                  x + (size_t)pair.y * JACOBI_BLOCK * n, n};
    const uint32_t own =
        JACOBI_BLOCK * (threadIdx.x < JACOBI_BLOCK ? pair.x : pair.y) + threadIdx.x % JACOBI_BLOCK;
    const bool keeps = threadIdx.x < JACOBI_PIVOT;
    const double worst = gram_of(column, across, keeps && across ? d[own] : 0, r);
    if (worst > ORTHOGONAL2) {
        if (threadIdx.x == 0)
            r.turned = false;
        sweep_pivot(r, across);
        __syncthreads();
        if (r.turned)
            straighten(r);
        turn_columns(column, 16 * warp(), n, 16 * warps(), r.w);
    }
    if (keeps)
        d[own] = r.d[0][threadIdx.x];
    __syncthreads();
    return worst;
}

/* A member's part of a sweep over a matrix. Returns the square of the residual of all members. */
__device__ inline double sweep_matrix(const jacobi_batch &b, team_member &own, uint32_t matrix,
                                      bool nearly, unsigned long long *shared_worst,
                                      pivot_room &r) {
    const uint32_t n = b.order, blocks = n / JACOBI_BLOCK;
    complex64 *x = b.x + b.first(matrix);
    double *d = b.own + (size_t)matrix * n, worst = 0;
    for (uint32_t round = 0; round + 1 < blocks; round++) {
        for (uint32_t p = own.member; p < blocks / 2; p += own.members)
            worst =
                fmax(worst, turn_pair(x, n, d, jacobi_pair(blocks, round, p), nearly && round, r));
        if (round + 2 == blocks && threadIdx.x == 0)
            atomicMax(shared_worst, (unsigned long long)__double_as_longlong(worst));
        meet(own);
    }
    return __longlong_as_double((long long)__ldcg(shared_worst));
}

/* The progress of a matrix. */
struct sweep_progress {
    uint32_t most, sweeps;
    double limit, found; /* squares of the residual */

    __device__ sweep_progress(const jacobi_batch &b, uint32_t matrix)
        : most(b.wants(matrix) ? min(b.max_sweeps, JACOBI_MOST_SWEEPS) : 0), sweeps(0),
          limit(fmax(ORTHOGONAL2, b.tolerance * b.tolerance)),
          found(b.start(matrix) == FROM_FOLLOWED ? NEARLY2 : 1) {}

    __device__ bool goes_on() const { return sweeps < most && found > limit; }

    __device__ void tell(const jacobi_batch &b, uint32_t matrix) const {
        jacobi_record &record = b.record[matrix];
        if (most)
            record = {sqrt(found), record.shift, sweeps, found <= limit};
    }
};

/* Makes all sweeps of all matrices pair by pair, but leaves those to jacobi_together that begin
 * from vectors, if it runs. b.teams * b.members thread blocks. */
__global__ void __launch_bounds__(JACOBI_THREADS, JACOBI_RESIDENT) jacobi_sweeps(jacobi_batch b) {
    __shared__ pivot_room r;
    team_member place = join_team(b);
    for (uint32_t across = 0; across < 2; across++)
        r.games[across][threadIdx.x] = games_of(threadIdx.x, across);
    for (uint32_t matrix = place.team; matrix < b.count; matrix += b.teams) {
        if (b.fit[TOGETHER].teams && b.begins_from_vectors(matrix))
            continue;
        unsigned long long *worst = b.worst + (size_t)matrix * JACOBI_MOST_SWEEPS;
        sweep_progress now(b, matrix);
        for (; now.goes_on(); now.sweeps++)
            now.found = sweep_matrix(b, place, matrix, now.found <= NEARLY2, worst + now.sweeps, r);
        if (place.member == 0 && threadIdx.x == 0)
            now.tell(b, matrix);
    }
}

} // namespace mvdr

#endif
