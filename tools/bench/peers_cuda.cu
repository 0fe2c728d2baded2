/* SPDX-License-Identifier: GPL-3.0-or-later */
/* cuBLAS, cuFFT, cuSOLVER, plain copies and a kernel that does only multiply-adds, each timed
 * separately. */
#include "peers.h"
#include "solvers_cuda.cuh"

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cufft.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <new>

struct bench_peer {
    bench_peer_spec spec;
    cudaStream_t stream;
    cudaEvent_t event;
    cublasHandle_t blas;
    cufftHandle fft;
    bench_solver solver;
    void *from, *to, *host, *weights;
    size_t sets, next,
        set_bytes; /* inputs used in turn, so that caches do not make the times too short */
};

namespace {

const size_t rotated_bytes = 128u << 20, sets_most = 64;

bool failed(char *why, size_t bytes, const char *what, const char *text) {
    snprintf(why, bytes, "%s: %s", what, text);
    return false;
}

bool cuda_ok(cudaError_t status, const char *what, char *why, size_t bytes) {
    if (status == cudaSuccess)
        return true;
    cudaGetLastError();
    return failed(why, bytes, what, cudaGetErrorString(status));
}

/* ---- kernels --------------------------------------------------------------------------------- */

/* Random in (-1, 1): a hash of the index (Steele's splitmix64). */
__global__ void fill(float *to, size_t count) {
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x) {
        uint64_t z = (i + 1) * 0x9e3779b97f4a7c15u;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        to[i] = (float)(int32_t)(z >> 32) * 4.6566129e-10f;
    }
}

/* Eight independent chains hide the latency of each. */
__global__ void multiply_add(float *to, size_t fmas, float a, float b) {
    float x[8];
    for (int k = 0; k < 8; k++)
        x[k] = (float)(threadIdx.x + k);
    for (size_t i = 0; i < fmas; i += 64)
#pragma unroll
        for (int round = 0; round < 8; round++)
#pragma unroll
            for (int k = 0; k < 8; k++)
                x[k] = fmaf(x[k], a, b);
    float sum = 0;
    for (int k = 0; k < 8; k++)
        sum += x[k];
    if (sum == 12345.678f) /* never true, but the compiler cannot know */
        to[0] = sum;
}

/* ---- set-up ---------------------------------------------------------------------------------- */

bool random_memory(void **memory, size_t bytes, cudaStream_t stream, char *why, size_t room) {
    if (!cuda_ok(cudaMalloc(memory, bytes), "cudaMalloc", why, room))
        return false;
    fill<<<2048, 256, 0, stream>>>((float *)*memory, bytes / sizeof(float));
    return cuda_ok(cudaGetLastError(), "fill", why, room);
}

void choose_sets(bench_peer *p, size_t set_bytes) {
    size_t wanted = (rotated_bytes + set_bytes - 1) / set_bytes;
    p->set_bytes = set_bytes;
    p->sets = wanted < 2 ? 2 : wanted > sets_most ? sets_most : wanted;
}

/* Weights are stored once, as in a program with stored weights; snapshots are used in turn. */
bool open_cgemm(bench_peer *p, char *why, size_t bytes) {
    const bench_peer_spec *s = &p->spec;
    const size_t element = sizeof(cuComplex);
    choose_sets(p, s->matrices * s->inner * s->columns * element);
    const bool tf32 = s->kind == BENCH_PEER_CGEMM_TF32;
    if (cublasCreate(&p->blas) || cublasSetStream(p->blas, p->stream) ||
        cublasSetMathMode(p->blas, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH))
        return failed(why, bytes, "cuBLAS", "cannot be started");
    return random_memory(&p->weights, s->matrices * s->rows * s->inner * element, p->stream, why,
                         bytes) &&
           random_memory(&p->from, p->sets * p->set_bytes, p->stream, why, bytes) &&
           random_memory(&p->to, s->matrices * s->rows * s->columns * element, p->stream, why,
                         bytes);
}

bool open_cufft(bench_peer *p, char *why, size_t bytes) {
    const bench_peer_spec *s = &p->spec;
    choose_sets(p, s->matrices * s->inner * sizeof(float));
    int length = (int)s->inner;
    if (cufftPlanMany(&p->fft, 1, &length, NULL, 1, length, NULL, 1, length / 2 + 1, CUFFT_R2C,
                      (int)s->matrices) ||
        cufftSetStream(p->fft, p->stream))
        return failed(why, bytes, "cuFFT", "no plan");
    return random_memory(&p->from, p->sets * p->set_bytes, p->stream, why, bytes) &&
           random_memory(&p->to, s->matrices * (s->inner / 2 + 1) * sizeof(cufftComplex), p->stream,
                         why, bytes);
}

bool open_copy(bench_peer *p, char *why, size_t bytes) {
    const bool to_host = p->spec.kind == BENCH_PEER_D2H;
    choose_sets(p, p->spec.inner);
    if (!random_memory(&p->from, p->sets * p->set_bytes, p->stream, why, bytes))
        return false;
    if (p->spec.kind == BENCH_PEER_D2D)
        return cuda_ok(cudaMalloc(&p->to, p->set_bytes), "cudaMalloc", why, bytes);
    if (!cuda_ok(cudaHostAlloc(&p->host, p->sets * p->set_bytes, cudaHostAllocDefault),
                 "cudaHostAlloc", why, bytes))
        return false;
    return to_host || cuda_ok(cudaMemcpyAsync(p->host, p->from, p->sets * p->set_bytes,
                                              cudaMemcpyDeviceToHost, p->stream),
                              "copy", why, bytes);
}

bool run_solver(bench_peer *p, char *why, size_t bytes) {
    return solvers::run(&p->solver, p->blas, p->from, p->to, p->stream) ||
           failed(why, bytes, "cuSOLVER", "cannot solve this");
}

bool open_solver(bench_peer *p, char *why, size_t bytes) {
    const size_t size = p->spec.matrices * solvers::matrix_bytes(p->spec);
    p->sets = 1;
    if (cublasCreate(&p->blas) || cublasSetStream(p->blas, p->stream))
        return failed(why, bytes, "cuBLAS", "cannot be started");
    if (!cuda_ok(cudaMalloc(&p->from, size), "cudaMalloc", why, bytes) ||
        !cuda_ok(cudaMalloc(&p->to, size), "cudaMalloc", why, bytes))
        return false;
    if (!solvers::open(&p->solver, p->spec, p->from, p->to, p->stream))
        return failed(why, bytes, "cuSOLVER", "cannot be started");
    return run_solver(p, why, bytes); /* it refuses some sizes only here */
}

bool open_kind(bench_peer *p, char *why, size_t bytes) {
    switch (p->spec.kind) {
    case BENCH_PEER_CGEMM:
    case BENCH_PEER_CGEMM_TF32:
        return open_cgemm(p, why, bytes);
    case BENCH_PEER_CUFFT:
        return open_cufft(p, why, bytes);
    case BENCH_PEER_SYEV_C64:
    case BENCH_PEER_SYEV_C128:
    case BENCH_PEER_SYEVJ_C64:
    case BENCH_PEER_POTRF_C128:
        return open_solver(p, why, bytes);
    case BENCH_PEER_FMA:
        p->sets = 1;
        return random_memory(&p->to, 4096, p->stream, why, bytes);
    default:
        return open_copy(p, why, bytes);
    }
}

void close(bench_peer *p) {
    if (!p)
        return;
    if (p->stream)
        cudaStreamSynchronize(p->stream);
    solvers::close(&p->solver);
    if (p->blas)
        cublasDestroy(p->blas);
    if (p->fft)
        cufftDestroy(p->fft);
    cudaFree(p->from);
    cudaFree(p->to);
    cudaFree(p->weights);
    cudaFreeHost(p->host);
    if (p->event)
        cudaEventDestroy(p->event);
    if (p->stream)
        cudaStreamDestroy(p->stream);
    delete p;
}

bool finish(bench_peer *p, char *why, size_t bytes) {
    return cuda_ok(cudaEventRecord(p->event, p->stream), "cudaEventRecord", why, bytes) &&
           cuda_ok(cudaEventSynchronize(p->event), "cudaEventSynchronize", why, bytes);
}

bool open(const bench_peer_spec *spec, bench_peer **peer, char *why, size_t bytes) {
    bench_peer *p = new (std::nothrow) bench_peer();
    if (!p)
        return failed(why, bytes, "peer", "no memory");
    p->spec = *spec;
    const bool ok =
        cuda_ok(cudaStreamCreateWithFlags(&p->stream, cudaStreamNonBlocking), "cudaStreamCreate",
                why, bytes) &&
        cuda_ok(cudaEventCreateWithFlags(&p->event, cudaEventDisableTiming | cudaEventBlockingSync),
                "cudaEventCreate", why, bytes) &&
        open_kind(p, why, bytes) && finish(p, why, bytes);
    if (!ok) {
        close(p);
        p = NULL;
    }
    *peer = p;
    return ok;
}

/* ---- one execution --------------------------------------------------------------------------- */

bool run_cgemm(bench_peer *p, void *from, char *why, size_t bytes) {
    const bench_peer_spec *s = &p->spec;
    const int rows = (int)s->rows, inner = (int)s->inner, columns = (int)s->columns;
    const cuComplex one = {1, 0}, zero = {0, 0};
    /* column-major: weights [inner][rows] conjugate-transposed, so each beam's weights are
     * contiguous */
    const cublasStatus_t status = cublasCgemmStridedBatched(
        p->blas, CUBLAS_OP_C, CUBLAS_OP_N, rows, columns, inner, &one, (cuComplex *)p->weights,
        inner, (long long)rows * inner, (cuComplex *)from, inner, (long long)inner * columns, &zero,
        (cuComplex *)p->to, rows, (long long)rows * columns, (int)s->matrices);
    return status == CUBLAS_STATUS_SUCCESS || failed(why, bytes, "cuBLAS", "the product failed");
}

bool run(bench_peer *p, char *why, size_t bytes) {
    const size_t offset = (p->next++ % p->sets) * p->set_bytes;
    char *from = (char *)p->from + offset, *host = (char *)p->host + offset;
    switch (p->spec.kind) {
    case BENCH_PEER_CGEMM:
    case BENCH_PEER_CGEMM_TF32:
        return run_cgemm(p, from, why, bytes);
    case BENCH_PEER_CUFFT:
        return cufftExecR2C(p->fft, (cufftReal *)from, (cufftComplex *)p->to) == CUFFT_SUCCESS ||
               failed(why, bytes, "cuFFT", "the transform failed");
    case BENCH_PEER_H2D:
        return cuda_ok(cudaMemcpyAsync(from, host, p->set_bytes, cudaMemcpyHostToDevice, p->stream),
                       "copy", why, bytes);
    case BENCH_PEER_D2H:
        return cuda_ok(cudaMemcpyAsync(host, from, p->set_bytes, cudaMemcpyDeviceToHost, p->stream),
                       "copy", why, bytes);
    case BENCH_PEER_D2D:
        return cuda_ok(
            cudaMemcpyAsync(p->to, from, p->set_bytes, cudaMemcpyDeviceToDevice, p->stream), "copy",
            why, bytes);
    case BENCH_PEER_SYEV_C64:
    case BENCH_PEER_SYEV_C128:
    case BENCH_PEER_SYEVJ_C64:
    case BENCH_PEER_POTRF_C128:
        return run_solver(p, why, bytes);
    case BENCH_PEER_FMA:
        multiply_add<<<(unsigned)(p->spec.matrices / 256), 256, 0, p->stream>>>(
            (float *)p->to, p->spec.inner, 0.999f, 1e-3f);
        return cuda_ok(cudaGetLastError(), "kernel", why, bytes);
    }
    return failed(why, bytes, "peer", "unknown kind");
}

/* ---- the device ------------------------------------------------------------------------------ */

bool describe(bench_gpu *gpu, char *why, size_t bytes) {
    cudaDeviceProp device;
    int sm_khz = 0, memory_khz = 0;
    memset(gpu, 0, sizeof *gpu);
    if (!cuda_ok(cudaGetDeviceProperties(&device, 0), "no GPU", why, bytes))
        return false;
    cudaDriverGetVersion(&gpu->driver);
    cudaRuntimeGetVersion(&gpu->runtime);
    if (cudaDeviceGetAttribute(&sm_khz, cudaDevAttrClockRate, 0) != cudaSuccess ||
        cudaDeviceGetAttribute(&memory_khz, cudaDevAttrMemoryClockRate, 0) != cudaSuccess)
        cudaGetLastError();
    snprintf(gpu->name, sizeof gpu->name, "%s", device.name);
    gpu->capability_major = device.major;
    gpu->capability_minor = device.minor;
    gpu->multiprocessors = device.multiProcessorCount;
    gpu->memory_bytes = (double)device.totalGlobalMem;
    gpu->l2_bytes = (double)device.l2CacheSize;
    gpu->sm_clock_mhz = sm_khz * 1e-3;
    gpu->memory_clock_mhz = memory_khz * 1e-3;
    return true;
}

} // namespace

extern "C" __attribute__((visibility("default"))) const bench_peers *sonar_bench_peers(void) {
    static const bench_peers peers = {BENCH_PEERS_INTERFACE, describe, open, run, finish, close};
    return &peers;
}
