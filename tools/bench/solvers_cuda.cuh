/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuSOLVER's batched eigensolvers, and its Cholesky factor with cuBLAS's substitution: the peers of
 * an MVDR of full rank. All work in place, so that an execution begins with a copy. */
#ifndef BENCH_SOLVERS_CUDA_CUH
#define BENCH_SOLVERS_CUDA_CUH

#include "peers.h"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cusolverDn.h>
#include <stdint.h>
#include <stdlib.h>

/* `matrices` Hermitian matrices of order `inner`; Cholesky: each with `columns` right-hand sides.
 */
struct bench_solver {
    bench_peer_spec spec;
    cusolverDnHandle_t handle;
    cusolverDnParams_t params;
    syevjInfo_t jacobi;
    void *values, *right, *work, *host_work; /* right: right-hand sides */
    size_t work_bytes, host_bytes;
    int *info;
    void **at; /* [matrices] pointers to matrices, then [matrices] pointers to their right-hand
                  sides */
};

namespace solvers {

inline bool single(bench_peer_kind kind) {
    return kind == BENCH_PEER_SYEV_C64 || kind == BENCH_PEER_SYEVJ_C64;
}

inline size_t matrix_bytes(const bench_peer_spec &s) {
    return s.inner * s.inner * (single(s.kind) ? sizeof(cuComplex) : sizeof(cuDoubleComplex));
}

inline size_t right_bytes(const bench_peer_spec &s) {
    return s.inner * s.columns * sizeof(cuDoubleComplex);
}

/* Random elements of at most `size` off a unit diagonal. With `size` 1/(2 n) the matrix is
 * definite, and repeated solving keeps numbers in range. */
template <typename Complex>
__global__ void make_matrices(Complex *a, size_t n, size_t columns, size_t matrices, double size) {
    const size_t count = matrices * n * columns;
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x) {
        uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        const bool diagonal = i % n == i / n % columns;
        a[i].x = diagonal ? 1 : size * (int32_t)(z >> 32) * 0x1p-31;
        a[i].y = diagonal ? 0 : size * (int32_t)(uint32_t)z * 0x1p-31;
    }
}

inline void close(bench_solver *s) {
    if (s->jacobi)
        cusolverDnDestroySyevjInfo(s->jacobi);
    if (s->params)
        cusolverDnDestroyParams(s->params);
    if (s->handle)
        cusolverDnDestroy(s->handle);
    cudaFree(s->values);
    cudaFree(s->right);
    cudaFree(s->work);
    cudaFree(s->info);
    cudaFree(s->at);
    free(s->host_work);
}

/* ---- workspace ------------------------------------------------------------------------------- */

inline bool size_syev(bench_solver *s, void *a) {
    const bool wide = !single(s->spec.kind);
    const int64_t n = (int64_t)s->spec.inner;
    return !cusolverDnCreateParams(&s->params) &&
           !cusolverDnXsyevBatched_bufferSize(
               s->handle, s->params, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, n,
               wide ? CUDA_C_64F : CUDA_C_32F, a, n, wide ? CUDA_R_64F : CUDA_R_32F, s->values,
               wide ? CUDA_C_64F : CUDA_C_32F, &s->work_bytes, &s->host_bytes,
               (int64_t)s->spec.matrices);
}

inline bool size_syevj(bench_solver *s, void *a) {
    const int n = (int)s->spec.inner;
    int elements = 0;
    const bool ok = !cusolverDnCreateSyevjInfo(&s->jacobi) &&
                    !cusolverDnCheevjBatched_bufferSize(s->handle, CUSOLVER_EIG_MODE_VECTOR,
                                                        CUBLAS_FILL_MODE_LOWER, n, (cuComplex *)a,
                                                        n, (float *)s->values, &elements, s->jacobi,
                                                        (int)s->spec.matrices);
    s->work_bytes = (size_t)elements * sizeof(cuComplex);
    return ok;
}

/* Pointers to each matrix and its right-hand sides. */
inline bool point_at(bench_solver *s, void *a) {
    const size_t count = s->spec.matrices, bytes = 2 * count * sizeof(void *);
    void **at = (void **)malloc(bytes);
    if (!at)
        return false;
    for (size_t i = 0; i < count; i++) {
        at[i] = (char *)a + i * matrix_bytes(s->spec);
        at[count + i] = (char *)s->right + i * right_bytes(s->spec);
    }
    const bool ok = cudaMalloc(&s->at, bytes) == cudaSuccess &&
                    cudaMemcpy(s->at, at, bytes, cudaMemcpyHostToDevice) == cudaSuccess;
    free(at);
    return ok;
}

/* ---- executions ------------------------------------------------------------------------------ */

inline bool cholesky(bench_solver *s, cublasHandle_t blas) {
    const int n = (int)s->spec.inner, count = (int)s->spec.matrices, looks = (int)s->spec.columns;
    const cuDoubleComplex one = {1, 0};
    cuDoubleComplex **a = (cuDoubleComplex **)s->at;
    return !cusolverDnZpotrfBatched(s->handle, CUBLAS_FILL_MODE_LOWER, n, a, n, s->info, count) &&
           !cublasZtrsmBatched(blas, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N,
                               CUBLAS_DIAG_NON_UNIT, n, looks, &one, a, n, a + count, n, count);
}

inline bool eigen(bench_solver *s, void *a) {
    const int64_t n = (int64_t)s->spec.inner;
    const bool wide = !single(s->spec.kind);
    if (s->spec.kind == BENCH_PEER_SYEVJ_C64)
        return !cusolverDnCheevjBatched(
            s->handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, (int)n, (cuComplex *)a,
            (int)n, (float *)s->values, (cuComplex *)s->work,
            (int)(s->work_bytes / sizeof(cuComplex)), s->info, s->jacobi, (int)s->spec.matrices);
    return !cusolverDnXsyevBatched(s->handle, s->params, CUSOLVER_EIG_MODE_VECTOR,
                                   CUBLAS_FILL_MODE_LOWER, n, wide ? CUDA_C_64F : CUDA_C_32F, a, n,
                                   wide ? CUDA_R_64F : CUDA_R_32F, s->values,
                                   wide ? CUDA_C_64F : CUDA_C_32F, s->work, s->work_bytes,
                                   s->host_work, s->host_bytes, s->info, (int64_t)s->spec.matrices);
}

/* The right-hand sides are the results of the previous execution. */
inline bool run(bench_solver *s, cublasHandle_t blas, const void *from, void *a,
                cudaStream_t stream) {
    const size_t bytes = s->spec.matrices * matrix_bytes(s->spec);
    if (cudaMemcpyAsync(a, from, bytes, cudaMemcpyDeviceToDevice, stream) != cudaSuccess)
        return false;
    return s->spec.kind == BENCH_PEER_POTRF_C128 ? cholesky(s, blas) : eigen(s, a);
}

/* from: the matrices; a: work space of the same size. */
inline bool open(bench_solver *s, const bench_peer_spec &spec, void *from, void *a,
                 cudaStream_t stream) {
    const bool factor = spec.kind == BENCH_PEER_POTRF_C128;
    const size_t n = spec.inner, count = spec.matrices, rights = count * right_bytes(spec);
    s->spec = spec;
    if (single(spec.kind))
        make_matrices<<<2048, 256, 0, stream>>>((cuComplex *)from, n, n, count, 1);
    else
        make_matrices<<<2048, 256, 0, stream>>>((cuDoubleComplex *)from, n, n, count,
                                                factor ? 0.5 / (double)n : 1);
    if (cudaGetLastError() != cudaSuccess || cusolverDnCreate(&s->handle) ||
        cusolverDnSetStream(s->handle, stream) ||
        cudaMalloc(&s->values, count * n * sizeof(double)) != cudaSuccess ||
        cudaMalloc(&s->info, count * sizeof(int)) != cudaSuccess)
        return false;
    if (factor) {
        if (cudaMalloc(&s->right, rights) != cudaSuccess)
            return false;
        make_matrices<<<2048, 256, 0, stream>>>((cuDoubleComplex *)s->right, n, spec.columns, count,
                                                1);
    }
    if (factor ? !point_at(s, a)
               : !(spec.kind == BENCH_PEER_SYEVJ_C64 ? size_syevj(s, a) : size_syev(s, a)))
        return false;
    if (s->host_bytes && !(s->host_work = malloc(s->host_bytes)))
        return false;
    return !s->work_bytes || cudaMalloc(&s->work, s->work_bytes) == cudaSuccess;
}

} // namespace solvers

#endif
