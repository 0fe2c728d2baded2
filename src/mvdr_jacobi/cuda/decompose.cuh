/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A bin's eigenvalues and eigenvectors, and the weights of the eigenvectors in the spectrum and in
 * MUSIC. */
#ifndef SONAR_MVDR_JACOBI_CUDA_DECOMPOSE_CUH
#define SONAR_MVDR_JACOBI_CUDA_DECOMPOSE_CUH

#include "mvdr_jacobi/cuda/eigen.cuh"
#include "mvdr_jacobi/cuda/loading.cuh"

namespace mvdr {

static_assert(SMALL_WARPS == SOLVE_WARPS, "a solving block has a thread for each 8 elements");

/* Memory in which a bin's eigenvalues are computed. */
struct room {
    matrix a;                   /* empty with eigenvectors */
    complex64 *vector[VECTORS]; /* each as long as the matrix */
    double *d;
};

/* Takes shared memory if there is enough, else global memory. For the matrix that is the bin's part
 * of `place`; NULL: no matrix. */
__device__ inline room room_for(const view &v, uint32_t bin, arena shared, complex64 *place) {
    const uint32_t rows = v.order + v.order % 2, ld = odd(rows);
    complex64 *spare = v.vector + (size_t)bin * VECTORS * v.most;
    room r = {};
    for (uint32_t i = 0; i < VECTORS; i++)
        r.vector[i] = shared.take(rows, spare + (size_t)i * v.most);
    r.d = v.d + (size_t)bin * v.most;
    if (!place)
        return r;
    complex64 *a = shared.take((size_t)rows * ld, (complex64 *)nullptr);
    r.a = {a ? a : place + (size_t)bin * v.most * v.most, a ? ld : v.most};
    return r;
}

/* Computes the eigenvalues into r.d. The trace of r.a is at most 1. The rows for the bisection need
 * the memory of up to four vectors. */
__device__ inline void eigenvalues(const room &r, uint32_t m) {
    double *diagonal = (double *)r.vector[4], *beside2 = diagonal + m;
    tridiagonal_row *row = (tridiagonal_row *)r.vector[0];
    if (m <= SMALL_ROWS)
        tridiagonalise_small(r.a, m, diagonal, beside2);
    else
        tridiagonalise(r.a, m, {{r.vector[0], r.vector[1]}, r.vector[2], r.vector[3]}, diagonal,
                       beside2);
    write_rows(diagonal, beside2, m, row);
    bisect(row, m, 1, r.d);
}

/* Computes the factors of the squared products with the eigenvectors, from by_column's eigenvalues
 * times unit. With loading a factor is 1/(d + delta), in that unit. With dominant modes it is the
 * part of |a|^2 to subtract. */
__device__ inline void weigh_vectors(const view &v, uint32_t bin, uint32_t rows, double unit,
                                     double *by_column) {
    const bin_state &state = v.bin[bin];
    for (uint32_t i = threadIdx.x; i < rows; i += blockDim.x) {
        const double d = by_column[i] / unit;
        const bool dominant = i < state.modes && d > state.delta;
        if (!v.spec.dmr)
            by_column[i] = 1 / (by_column[i] + state.delta * unit);
        else
            by_column[i] = dominant ? (1 - state.delta / d) / (v.by_snapshots ? d : 1) : 0;
    }
}

/* Chooses the eigenvectors of MUSIC's signal subspace, at most `sources`. d: the eigenvalues in
 * falling order; by_column: the eigenvalue of each column times unit. member may be by_column. All
 * threads call. */
__device__ inline void choose_members(const view &v, uint32_t bin, uint32_t rows, double unit,
                                      size_t sources, const double *d, const double *by_column,
                                      double *member) {
    double count = 0;
    for (uint32_t i = threadIdx.x; i < rows; i += blockDim.x) {
        const double own = by_column[i] / unit;
        const bool belongs = i < sources && own > MVDR_LEAST_MODE * d[0];
        member[i] = !belongs ? 0 : v.by_snapshots ? 1 / own : 1;
        count += belongs;
    }
    count = block_sum(count);
    if (threadIdx.x == 0)
        v.bin[bin].subspace = (uint32_t)count;
}

/* The number of sources for MUSIC. */
__device__ inline size_t music_sources(const view &v, const weights &weights, uint32_t counted) {
    const mvdr_eigenspectrum eigen = eigenspectrum_of(v, nullptr, weights);
    return mvdr_modes_of(&eigen, v.spec.music, counted);
}

struct outcome {
    uint32_t sweeps;
    double residual; /* largest relative off-diagonal element in the last sweep */
    bool converged;
};

/* Reads the result of Jacobi's method for a bin: eigenvalues to d, descending, and each column's
 * eigenvalue to by_column. All threads call. */
__device__ inline outcome take_vectors(const view &v, uint32_t bin, double *d, double *by_column) {
    const uint32_t m = v.order;
    const double *found = v.descending + (size_t)bin * v.most;
    for (uint32_t i = threadIdx.x; i < m; i += blockDim.x)
        by_column[i] = d[i] = fmax(found[i], 0.0);
    if (m % 2 && threadIdx.x == 0)
        by_column[m] = 0;
    __syncthreads();
    const jacobi_record &record = v.record[bin];
    return {record.sweeps, record.residual, record.converged != 0};
}

} // namespace mvdr

#endif
