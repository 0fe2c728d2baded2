/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the CUDA plugin's parts share: checked calls, memory, phases. The plugin carries its own
 * copies of the few core functions it needs (error.c, memory.c), all hidden: its one exported
 * symbol is sonar_plugin.
 */
#ifndef SONAR_CUDA_COMMON_CUH
#define SONAR_CUDA_COMMON_CUH

#include <cuda_runtime.h>
#include <nvtx3/nvToolsExt.h>

#include "core/core.h"
#include "sonar/backend.h"

struct sonar_queue {
    cudaStream_t stream;
    bool recording; /* between graph_begin and graph_end */
};

struct sonar_event {
    cudaEvent_t event;
};

struct sonar_graph {
    cudaGraphExec_t exec;
};

/* ---- checked calls --------------------------------------------------------------------------- */

/* True if this call is the one that host->fail_at wants to fail. Counts; any thread. */
bool sonar_cuda_injected(void);

/* SONAR_OK, or fills *err with "<part> (<file>:<line>)" and CUDA's text for `call`. */
sonar_code sonar_cuda_check(cudaError_t status, const char *part, const char *file, int line,
                            const char *call, sonar_error *err);

/* The sonar_code of a CUDA runtime call; the call is skipped if a failure is injected. */
#define CUDA_CHECK(part, call, err)                                                                \
    sonar_cuda_check(sonar_cuda_injected() ? cudaErrorUnknown : (call), part, __FILE__, __LINE__,  \
                     #call, err)
/* The same for the kernel launched just before. */
#define CUDA_LAUNCHED(part, kernel, err)                                                           \
    sonar_cuda_check(sonar_cuda_injected() ? cudaErrorUnknown : cudaGetLastError(), part,          \
                     __FILE__, __LINE__, "launch of " kernel, err)
/* Returns from the calling function if the call fails. */
#define CUDA_TRY(part, call, err)                                                                  \
    do {                                                                                           \
        sonar_code try_code = CUDA_CHECK(part, call, err);                                         \
        if (try_code)                                                                              \
            return try_code;                                                                       \
    } while (0)

/* A property of the device that the calling thread uses. */
inline sonar_code sonar_cuda_attribute(const char *part, cudaDeviceAttr attribute, int *value,
                                       sonar_error *err) {
    int device = 0;
    CUDA_TRY(part, cudaGetDevice(&device), err);
    return CUDA_CHECK(part, cudaDeviceGetAttribute(value, attribute, device), err);
}

/* ---- spaces ---------------------------------------------------------------------------------- */

/* True if kernels access memory of this space directly. */
inline bool sonar_cuda_in_place(sonar_space space) {
    return space == SONAR_DEVICE;
}

/* ---- profiling ------------------------------------------------------------------------------- */

/* A named range in a profilethat lasts as long as the variable; it costs almost nothing without a
 * profiler. */
struct sonar_nvtx_range {
    explicit sonar_nvtx_range(const char *name) { nvtxRangePushA(name); }
    ~sonar_nvtx_range() { nvtxRangePop(); }
    sonar_nvtx_range(const sonar_nvtx_range &) = delete;
    sonar_nvtx_range &operator=(const sonar_nvtx_range &) = delete;
};

/* ---- memory ---------------------------------------------------------------------------------- */

/* Zeroed device memory of `count` elements (0: NULL); release with cudaFree(), NULL included. */
template <typename T>
sonar_code sonar_cuda_alloc(const char *part, size_t count, T **memory, sonar_error *err) {
    size_t bytes;
    *memory = NULL;
    if (__builtin_mul_overflow(count, sizeof(T), &bytes))
        return sonar_fail(err, SONAR_ENOMEM, part, "%zu elements are too many to count", count);
    if (bytes == 0)
        return SONAR_OK;
    sonar_code code = CUDA_CHECK(part, cudaMalloc((void **)memory, bytes), err);
    if (code)
        return code;
    code = CUDA_CHECK(part, cudaMemsetAsync(*memory, 0, bytes, cudaStreamPerThread), err);
    if (!code) /* a kernel on another stream must not run before the memory is cleared */
        code = CUDA_CHECK(part, cudaStreamSynchronize(cudaStreamPerThread), err);
    if (code) {
        cudaFree(*memory);
        *memory = NULL;
    }
    return code;
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* exp(+j 2 pi phase / 2^32). Integer arithmetic reduces the phase to within 45 degrees exactly,
 * where Taylor series are accurate to float32 rounding. */
__device__ inline float2 sonar_cuda_phasor(uint32_t phase) {
    const float radians = 1.46291807926715968e-9f; /* 2 pi / 2^32 */
    uint32_t quadrant = (phase + (1u << 29)) >> 30;
    float a = (float)(int32_t)(phase - (quadrant << 30)) * radians, z = a * a;
    float s =
        fmaf(a * z, fmaf(z, fmaf(z, fmaf(z, 1.f / 362880, -1.f / 5040), 1.f / 120), -1.f / 6), a);
    float c = fmaf(z, fmaf(z, fmaf(z, fmaf(z, 1.f / 40320, -1.f / 720), 1.f / 24), -.5f), 1.f);
    float x = quadrant & 1 ? s : c, y = quadrant & 1 ? c : s;
    return make_float2((quadrant + 1) & 2 ? -x : x, quadrant & 2 ? -y : y);
}

/* The upper half of bin * turns modulo one turn. */
__device__ inline uint32_t sonar_cuda_phase(uint64_t turns, uint32_t bin) {
    uint32_t low = (uint32_t)turns, high = (uint32_t)(turns >> 32);
    return __umulhi(low, bin) + high * bin;
}

/* ---- stages ---------------------------------------------------------------------------------- */

extern "C" {
extern const sonar_stage_ops sonar_dft_cuda, sonar_cbf_cuda, sonar_steer_cuda,
    sonar_mvdr_jacobi_cuda;
}

#endif
