/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Launches the kernels of cuda/factor_grid.cuh. */
#ifndef SONAR_MVDR_JACOBI_CUDA_RUN_FACTOR_CUH
#define SONAR_MVDR_JACOBI_CUDA_RUN_FACTOR_CUH

#include "mvdr_jacobi/cuda/factor_grid.cuh"
#include "mvdr_jacobi/cuda/spectrum_grid.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr::host {

constexpr size_t CHUNK_BYTES = mvdr::CHUNKS * sizeof(mvdr::chunk);

/* Allows the kernels their shared memory, and finds how many blocks run at a time. *fits becomes
 * false if a multiprocessor has too little shared memory. */
inline sonar_code fit_grid(mvdr_stage *stage, bool *fits, sonar_error *err) {
    constexpr cudaFuncAttribute ROOM = cudaFuncAttributeMaxDynamicSharedMemorySize;
    cudaFuncAttributes own;
    int most = 0, blocks = 0, processors = 0;
    sonar_code code =
        sonar_cuda_attribute(where, cudaDevAttrMaxSharedMemoryPerBlockOptin, &most, err);
    if (!code)
        code = sonar_cuda_attribute(where, cudaDevAttrMultiProcessorCount, &processors, err);
    if (code)
        return code;
    CUDA_TRY(where, cudaFuncGetAttributes(&own, mvdr::factor_listed), err);
    *fits = own.sharedSizeBytes + CHUNK_BYTES <= (size_t)most;
    if (!*fits)
        return SONAR_OK;
    CUDA_TRY(where, cudaFuncSetAttribute(mvdr::factor_listed, ROOM, (int)CHUNK_BYTES), err);
    CUDA_TRY(where, cudaFuncSetAttribute(mvdr::count_listed, ROOM, (int)CHUNK_BYTES), err);
    CUDA_TRY(where, cudaFuncSetAttribute(mvdr::form_squares, ROOM, (int)CHUNK_BYTES), err);
    CUDA_TRY(where,
             cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mvdr::factor_listed,
                                                           mvdr::SQUARE_THREADS, CHUNK_BYTES),
             err);
    stage->view.resident = (uint32_t)((blocks > 1 ? blocks : 1) * processors);
    return SONAR_OK;
}

/* On the routes with "-grid": computes the inverse factors of bins whose loading does not need all
 * eigenvalues. mvdr::solve uses them. */
inline sonar_code factor_bins(const mvdr::view &v, cudaStream_t stream, sonar_error *err) {
    constexpr uint32_t WARPS = 8;
    const unsigned bins = (unsigned)v.spec.bins;
    if (!v.grid || !v.order)
        return SONAR_OK;
    CUDA_TRY(where, cudaMemsetAsync(v.listed, 0, sizeof *v.listed, stream), err);
    mvdr::list_bins<<<bins, SOLVE_THREADS, 0, stream>>>(v);
    sonar_code code = CUDA_LAUNCHED(where, "list_bins", err);
    if (code)
        return code;
    const dim3 columns(blocks_for(v.order, 4 * WARPS), bins),
        rows(blocks_for(v.order, 8 * WARPS), bins);
    mvdr::assemble_taken<<<columns, WARPS * mvdr::WARP, 0, stream>>>(v);
    if ((code = CUDA_LAUNCHED(where, "assemble_taken", err)) != SONAR_OK)
        return code;
    if (v.counts) {
        mvdr::count_listed<<<v.resident, mvdr::SQUARE_THREADS, CHUNK_BYTES, stream>>>(v);
        if ((code = CUDA_LAUNCHED(where, "count_listed", err)) != SONAR_OK)
            return code;
    }
    mvdr::factor_listed<<<v.resident, mvdr::SQUARE_THREADS, CHUNK_BYTES, stream>>>(v);
    if ((code = CUDA_LAUNCHED(where, "factor_listed", err)) != SONAR_OK)
        return code;
    mvdr::invert_diagonal<<<rows, WARPS * mvdr::WARP, 0, stream>>>(v);
    return CUDA_LAUNCHED(where, "invert_diagonal", err);
}

} // namespace mvdr::host

#endif
