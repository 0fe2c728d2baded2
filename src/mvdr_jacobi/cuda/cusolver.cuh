/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * cuSOLVER's batched eigensolver, an alternative to Jacobi's method. The library is loaded only if
 * it is used, so that the plugin also runs without it.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_CUSOLVER_CUH
#define SONAR_MVDR_JACOBI_CUDA_CUSOLVER_CUH

#include <cusolverDn.h>
#include <stdlib.h>
#include <string.h>

#include "core/cuda_common.cuh"
#include "mvdr_jacobi/cuda/block.cuh"

namespace mvdr {

static const char *const cusolver_names[] = {
    "cusolverDnCreate",       "cusolverDnDestroy",       "cusolverDnSetStream",
    "cusolverDnCreateParams", "cusolverDnDestroyParams", "cusolverDnXsyevBatched_bufferSize",
    "cusolverDnXsyevBatched"};
constexpr size_t CUSOLVER_NAMES = sizeof cusolver_names / sizeof *cusolver_names;

/* The functions, in the order of their names. The types of the batched solver are written out, so
 * that headers of older releases suffice. */
struct cusolver_functions {
    decltype(&cusolverDnCreate) Create;
    decltype(&cusolverDnDestroy) Destroy;
    decltype(&cusolverDnSetStream) SetStream;
    decltype(&cusolverDnCreateParams) CreateParams;
    decltype(&cusolverDnDestroyParams) DestroyParams;
    cusolverStatus_t (*XsyevBatched_bufferSize)(cusolverDnHandle_t, cusolverDnParams_t,
                                                cusolverEigMode_t, cublasFillMode_t, int64_t,
                                                cudaDataType, const void *, int64_t, cudaDataType,
                                                const void *, cudaDataType, size_t *, size_t *,
                                                int64_t);
    cusolverStatus_t (*XsyevBatched)(cusolverDnHandle_t, cusolverDnParams_t, cusolverEigMode_t,
                                     cublasFillMode_t, int64_t, cudaDataType, void *, int64_t,
                                     cudaDataType, void *, cudaDataType, void *, size_t, void *,
                                     size_t, int *, int64_t);
};

/* A solver for `count` matrices of one order, in place. It borrows the matrices' memory. */
struct cusolver {
    cusolver_functions call;
    cusolverDnHandle_t handle;
    cusolverDnParams_t params; /* NULL: the solver is closed */
    uint32_t order, count;
    complex64 *matrix; /* [matrix][order][order], then the eigenvectors column by column */
    double *d;         /* [matrix][order] eigenvalues, ascending */
    int *failed;       /* [matrix] not 0: did not converge */
    unsigned char *work;
    void *host_work;
    size_t work_bytes, host_bytes;
    bool recordable; /* can be part of a graph */
};

inline sonar_code cusolver_check(cusolverStatus_t status, const char *call, sonar_error *err) {
    if (sonar_cuda_injected())
        status = CUSOLVER_STATUS_INTERNAL_ERROR;
    return status ? sonar_fail(err, SONAR_ESYS, "mvdr_jacobi", "cuSOLVER's %s: status %d", call,
                               (int)status)
                  : SONAR_OK;
}

inline void cusolver_close(cusolver *s) {
    if (s->params)
        s->call.DestroyParams(s->params);
    if (s->handle)
        s->call.Destroy(s->handle);
    cudaFree(s->work);
    cudaFree(s->d);
    cudaFree(s->failed);
    free(s->host_work);
    *s = {};
}

/* ---- start ----------------------------------------------------------------------------------- */

/* Releases since CUDA 12.6.2 have the batched solver. */
inline sonar_code cusolver_load(const char *library, cusolver_functions *functions,
                                sonar_error *err) {
    void *found[CUSOLVER_NAMES];
    static_assert(sizeof found == sizeof *functions, "a member for each name");
    sonar_code code =
        sonar_library_find(library, cusolver_names, CUSOLVER_NAMES, "it is too old", found, err);
    if (!code)
        memcpy(functions, found, sizeof found);
    return code;
}

/* Allocates all memory. */
inline sonar_code cusolver_size(cusolver *s, sonar_error *err) {
    const int64_t n = s->order;
    sonar_code code = sonar_cuda_alloc("mvdr_jacobi", (size_t)s->count * s->order, &s->d, err);
    if (!code)
        code = sonar_cuda_alloc("mvdr_jacobi", s->count, &s->failed, err);
    if (!code)
        code = cusolver_check(s->call.XsyevBatched_bufferSize(
                                  s->handle, s->params, CUSOLVER_EIG_MODE_VECTOR,
                                  CUBLAS_FILL_MODE_LOWER, n, CUDA_C_64F, s->matrix, n, CUDA_R_64F,
                                  s->d, CUDA_C_64F, &s->work_bytes, &s->host_bytes, s->count),
                              "XsyevBatched_bufferSize", err);
    if (!code)
        code = sonar_cuda_alloc("mvdr_jacobi", s->work_bytes, &s->work, err);
    if (!code && s->host_bytes && !(s->host_work = sonar_alloc(s->host_bytes, 1)))
        code = sonar_fail(err, SONAR_ENOMEM, "mvdr_jacobi", "no memory for cuSOLVER");
    return code;
}

inline sonar_code cusolver_run(const cusolver *s, cudaStream_t stream, sonar_error *err) {
    const int64_t n = s->order;
    sonar_code code = cusolver_check(s->call.SetStream(s->handle, stream), "SetStream", err);
    if (code)
        return code;
    return cusolver_check(s->call.XsyevBatched(s->handle, s->params, CUSOLVER_EIG_MODE_VECTOR,
                                               CUBLAS_FILL_MODE_LOWER, n, CUDA_C_64F, s->matrix, n,
                                               CUDA_R_64F, s->d, CUDA_C_64F, s->work, s->work_bytes,
                                               s->host_work, s->host_bytes, s->failed, s->count),
                          "XsyevBatched", err);
}

/* Whether a call can be recorded in a graph. For large orders the solver waits for its own results,
 * which cannot be recorded; release 12.0.4 does so somewhere above 512. */
inline bool cusolver_records(const cusolver *s, cudaStream_t stream) {
    cudaGraph_t graph = NULL;
    if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) != cudaSuccess)
        return false;
    const bool ran = cusolver_run(s, stream, NULL) == SONAR_OK;
    const bool ended = cudaStreamEndCapture(stream, &graph) == cudaSuccess;
    if (graph)
        cudaGraphDestroy(graph);
    cudaGetLastError(); /* clears the error, which the next check would find */
    return ran && ended;
}

/* Runs the solver once, so that later calls load nothing. */
inline sonar_code cusolver_warm_up(cusolver *s, sonar_error *err) {
    cudaStream_t stream;
    CUDA_TRY("mvdr_jacobi", cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), err);
    sonar_code code = cusolver_run(s, stream, err);
    if (!code)
        code = CUDA_CHECK("mvdr_jacobi", cudaStreamSynchronize(stream), err);
    s->recordable = !code && cusolver_records(s, stream);
    cudaStreamDestroy(stream);
    return code;
}

/* Opens the solver. On entry s has the matrices, their order and count, and nothing else. After an
 * error s is closed. */
inline sonar_code cusolver_open(cusolver *s, const char *library, sonar_error *err) {
    sonar_code code = cusolver_load(library, &s->call, err);
    if (!code)
        code = cusolver_check(s->call.Create(&s->handle), "Create", err);
    if (!code)
        code = cusolver_check(s->call.CreateParams(&s->params), "CreateParams", err);
    if (!code)
        code = cusolver_size(s, err);
    if (!code)
        code = cusolver_warm_up(s, err);
    if (code)
        cusolver_close(s);
    return code;
}

} // namespace mvdr

#endif
