/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A batch of Hermitian matrices for Jacobi's method, and what its kernels share: fragments of
 * matrices, teams of thread blocks, turns of 32 columns. */
#ifndef SONAR_MVDR_JACOBI_CUDA_JACOBI_BATCH_CUH
#define SONAR_MVDR_JACOBI_CUDA_JACOBI_BATCH_CUH

#include "mvdr_jacobi/cuda/block.cuh"
#include "mvdr_jacobi/cuda/device.h"

namespace mvdr {

constexpr uint32_t JACOBI_BLOCK = 16, JACOBI_PIVOT = 32, JACOBI_PAIRS = 16;
constexpr uint32_t JACOBI_THREADS = 128,
                   JACOBI_RESIDENT = 4; /* thread blocks on a multiprocessor */
constexpr uint32_t JACOBI_TOGETHER = 3; /* the same where all pairs are turned at once */
constexpr uint32_t JACOBI_MOST_SWEEPS = 40;
constexpr uint32_t PIVOT_LD = 36; /* spreads the fragments of a product over the banks */
constexpr uint32_t CHOLESKY_THREADS = 512;

/* The report on a matrix. */
struct jacobi_record {
    double residual; /* largest |g_ij| / sqrt(g_ii g_jj) that the last sweep found */
    double shift;    /* added to the diagonal of a matrix that is not definite to rounding */
    uint32_t sweeps;
    uint32_t converged;
};

/* Where a matrix begins: from nothing, from vectors, or from vectors that were updated for its
 * change (jacobi/follow.cuh). */
enum jacobi_start : uint32_t { FROM_NOTHING, FROM_VECTORS, FROM_FOLLOWED };

/* The launches that teams of thread blocks make: the Cholesky factors, sweeps pair by pair, sweeps
 * of all pairs at once from vectors. */
enum jacobi_launch : uint32_t { FACTORING, BY_PAIRS, TOGETHER };

/* Matrices with the same number of rows. They are stored with a multiple of 32 rows and columns.
 * Rows and columns beyond `rows` are zero, in the results, too. */
struct jacobi_batch {
    uint32_t rows, order, count; /* order: rows stored */
    double tolerance; /* largest residual accepted; the last sweep leaves about its square. 0:
                         rounding */
    uint32_t max_sweeps;
    complex64 *a;           /* [matrix][order][order] both triangles; destroyed */
    complex64 *x;           /* the same size; scratch */
    complex64 *vectors;     /* the same size: eigenvectors of a similar matrix, where it begins from
                               vectors; then the eigenvectors, column by column in the order of d */
    const uint32_t *wanted; /* [matrix] 0: the matrix is skipped; NULL: none is */
    uint32_t *kept;         /* [matrix] a jacobi_start; then whether the matrix has converged */
    double *d; /* [matrix][order] eigenvalues, descending, none negative; at the start those of the
                  vectors from which it begins */
    double *own;           /* [matrix][order] scratch: squares of the columns in the order of x */
    jacobi_record *record; /* [matrix] */
    unsigned long long *worst; /* [matrix][JACOBI_MOST_SWEEPS] bits of squares of residuals */
    uint32_t *arrived; /* [1 + count], MVDR_DEVICE_LAUNCHES times. [0]: thread blocks that have
                          begun; [1 + team]: arrivals at the team's barriers */
    uint32_t teams, members; /* of a launch: number of teams, thread blocks of a team */
    struct {
        uint32_t teams, members;
    } fit[MVDR_DEVICE_LAUNCHES]; /* set by jacobi_fit; no teams: no launch */
    complex64 *squares;          /* [mvdr_jacobi_teams()][4][order][order] scratch of a team */
    double *sums;      /* [mvdr_jacobi_teams()][2][jacobi_parts()][order] scratch of a team */
    double *turn;      /* [matrix][order][order] scratch of jacobi/follow.cuh */
    complex64 *change; /* [matrix][2][FOLLOW_PROBES][order] the same */

    __device__ size_t first(uint32_t matrix) const { return (size_t)matrix * order * order; }
    __device__ bool wants(uint32_t matrix) const { return !wanted || wanted[matrix]; }
    __device__ jacobi_start start(uint32_t matrix) const { return (jacobi_start)kept[matrix]; }
    __device__ bool begins_from_vectors(uint32_t matrix) const {
        return start(matrix) != FROM_NOTHING;
    }
};

/* Number of parts of the sums over a column's or a row's elements: one for each tile of 32 columns,
 * and one for each 16 rows. */
__host__ __device__ inline uint32_t jacobi_parts(uint32_t order) {
    return order / JACOBI_PIVOT + order / 16;
}

/* ---- fragments from global memory ------------------------------------------------------------ */

/* Loads rows row.. and columns k.. of a matrix stored column by column. */
__device__ inline void load_a(fragment_a &a, const complex64 *from, size_t ld, uint32_t row,
                              uint32_t k) {
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const complex64 x = from[(k + a_column(i)) * ld + row + a_row(i)];
        a.re[i] = x.re, a.im[i] = x.im;
    }
}

/* The same for the conjugate transpose. */
__device__ inline void load_adjoint(fragment_a &a, const complex64 *from, size_t ld, uint32_t row,
                                    uint32_t k) {
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const complex64 x = from[(row + a_row(i)) * ld + k + a_column(i)];
        a.re[i] = x.re, a.im[i] = -x.im;
    }
}

__device__ inline void load_b(fragment_b &b, const complex64 *from, size_t ld, uint32_t k,
                              uint32_t column) {
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        const complex64 x = from[(column + b_column()) * ld + k + b_row(i)];
        b.re[i] = x.re, b.im[i] = x.im;
    }
}

/* Passes each element of four adjacent tiles to `take`: row, column and value. */
template <typename TAKE>
__device__ inline void each_element(const fragment_c (&c)[4], uint32_t row, uint32_t column,
                                    TAKE take) {
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
#pragma unroll
        for (unsigned e = 0; e < 4; e++)
            take(row + c_row(e), column + 8 * j + c_column(e), complex64{c[j].re[e], c[j].im[e]});
}

/* ---- teams ----------------------------------------------------------------------------------- */

/* Waits for all thread blocks of a team. Afterwards each sees the others' results. */
__device__ inline void team_barrier(uint32_t *arrived, uint32_t target) {
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t seen;
        __threadfence();
        atomicAdd(arrived, 1);
        do
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
        while (seen < target);
    }
    __syncthreads();
}

/* A member of a team, and the count that its next barrier waits for. */
struct team_member {
    uint32_t team, member, members, *arrived, target;
};

/* Joins a team. Thread blocks take their places in the order in which they begin, so that a team
 * never waits for a block that could begin only after the team has ended. */
__device__ inline team_member join_team(const jacobi_batch &b) {
    __shared__ uint32_t ticket;
    if (threadIdx.x == 0)
        ticket = atomicAdd(b.arrived, 1);
    __syncthreads();
    const uint32_t team = ticket / b.members;
    return {team, ticket % b.members, b.members, b.arrived + 1 + team, 0};
}

__device__ inline void meet(team_member &own) {
    if (own.members == 1)
        __syncthreads();
    else
        team_barrier(own.arrived, own.target += own.members);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* 1/sqrt(x) of a normal number to 20 bits; refine_rsqrt makes it accurate to rounding by one step
 * of third order. */
__device__ inline double near_rsqrt(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

__device__ inline double refine_rsqrt(double x, double y) {
    const double e = fma(-x * y, y, 1.0);
    return fma(y * e, fma(e, 0.375, 0.5), y);
}

/* ---- columns --------------------------------------------------------------------------------- */

/*
 * This function and others below are not inlined, so that each has all registers. Otherwise the
 * values that do not fit would be spilled again and again, as nothing stays in the L1 cache.
 *
 * Multiplies 16 rows of 32 columns by w, in place, at begin, begin + step and so on. column(c) is
 * column c. A warp calls.
 */
template <typename AT>
__device__ __noinline__ void turn_columns(AT column, uint32_t begin, uint32_t end, uint32_t step,
                                          const complex64 *w) {
    for (uint32_t row = begin; row < end; row += step) {
        fragment_a left[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const complex64 x = column(8 * k + a_column(i))[row + a_row(i)];
                left[k].re[i] = x.re, left[k].im[i] = x.im;
            }
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            fragment_c c = {};
#pragma unroll
            for (unsigned k = 0; k < 4; k++) {
                fragment_b right;
                load_b(right, w, PIVOT_LD, 8 * k, 8 * j);
                multiply(c, left[k], right);
            }
#pragma unroll
            for (unsigned e = 0; e < 4; e++)
                column(8 * j + c_column(e))[row + c_row(e)] = {c.re[e], c.im[e]};
        }
    }
}

} // namespace mvdr

#endif
