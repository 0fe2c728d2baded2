/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Chooses the shared memory of a solving block. */
#ifndef SONAR_MVDR_JACOBI_CUDA_FIT_CUH
#define SONAR_MVDR_JACOBI_CUDA_FIT_CUH

#include "mvdr_jacobi/cuda/factor_grid.cuh"
#include "mvdr_jacobi/cuda/jacobi/run.cuh"
#include "mvdr_jacobi/cuda/music.cuh"
#include "mvdr_jacobi/cuda/solve.cuh"
#include "mvdr_jacobi/cuda/spectrum_grid.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr::host {

/* Sets the bytes of a kernel's shared memory: for its vectors, and for its matrix if it has one
 * that fits. */
template <typename Kernel>
sonar_code fit_kernel(const mvdr_stage *stage, Kernel *kernel, bool has_matrix, fit *fit,
                      sonar_error *err) {
    cudaFuncAttributes own;
    int most;
    sonar_code code =
        sonar_cuda_attribute(where, cudaDevAttrMaxSharedMemoryPerBlockOptin, &most, err);
    if (code)
        return code;
    CUDA_TRY(where, cudaFuncGetAttributes(&own, kernel), err);
    const size_t room = (size_t)most - own.sharedSizeBytes;
    const size_t rows = stage->shape.order + stage->shape.order % 2;
    const size_t matrix = rows * mvdr::odd((uint32_t)rows) * sizeof(complex64) + 16;
    const size_t vectors = mvdr::VECTORS * (rows * sizeof(complex64) + 16);
    fit->matrix_fits = has_matrix && vectors + matrix <= room;
    const size_t bytes = fit->matrix_fits ? vectors + matrix : vectors <= room ? vectors : 0;
    fit->shared_bytes = bytes / 16 * 16;
    return CUDA_CHECK(
        where, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)room),
        err);
}

inline sonar_code fit_device(mvdr_stage *stage, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    sonar_code code = fit_kernel(stage, v->vectors ? mvdr::solve<true> : mvdr::solve<false>,
                                 !v->vectors, &stage->solver, err);
    if (!code && v->music_decomposes)
        code = fit_kernel(stage, mvdr::find_subspace, false, &stage->music, err);
    return code;
}

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
    CUDA_TRY(where, cudaFuncSetAttribute(mvdr::form_squares<false>, ROOM, (int)CHUNK_BYTES), err);
    CUDA_TRY(where, cudaFuncSetAttribute(mvdr::form_squares<true>, ROOM, (int)CHUNK_BYTES), err);
    CUDA_TRY(where,
             cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, mvdr::factor_listed,
                                                           mvdr::SQUARE_THREADS, CHUNK_BYTES),
             err);
    stage->view.resident = (uint32_t)((blocks > 1 ? blocks : 1) * processors);
    return SONAR_OK;
}

/* Sets the teams of Jacobi's method for this device. */
inline sonar_code fit_jacobi(mvdr_stage *stage, sonar_error *err) {
    int processors = 0;
    sonar_code code = sonar_cuda_attribute(where, cudaDevAttrMultiProcessorCount, &processors, err);
    return code ? code : CUDA_CHECK(where, mvdr::jacobi_fit(&stage->jacobi, processors), err);
}

} // namespace mvdr::host

#endif
