/* SPDX-License-Identifier: GPL-3.0-or-later */
/* NVIDIA GPUs as a backend: device memory, streams and events of CUDA's runtime. */
#include "core/cuda_common.cuh"

#include <chrono>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- checked calls --------------------------------------------------------------------------- */

/* Set by open, before any other thread calls. */
static long fail_at, calls;
static std::chrono::nanoseconds awake;

bool sonar_cuda_injected(void) {
    if (fail_at == 0)
        return false;
    long call = __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED);
    return fail_at > 0 ? call == fail_at : call >= -fail_at;
}

static sonar_code code_of(cudaError_t status) {
    switch (status) {
    case cudaErrorMemoryAllocation:
        return SONAR_ENOMEM;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorDevicesUnavailable:
        return SONAR_EUNAVAILABLE;
    default:
        return SONAR_ESYS;
    }
}

sonar_code sonar_cuda_check(cudaError_t status, const char *part, const char *file, int line,
                            const char *call, sonar_error *err) {
    if (status == cudaSuccess)
        return SONAR_OK;
    cudaGetLastError(); /* clears the reported error, so that the next call does not return it again
                         */
    const char *name = strrchr(file, '/');
    char where[160];
    snprintf(where, sizeof where, "%s (%s:%d)", part, name ? name + 1 : file, line);
    return sonar_fail(err, code_of(status), where, "%.200s: %s (CUDA error %d)", call,
                      cudaGetErrorString(status), (int)status);
}

/* ---- the device ------------------------------------------------------------------------------ */

static __global__ void nothing() {}

/* Explains errors whose text in CUDA is not enough. */
static sonar_code no_device(cudaError_t status, sonar_error *err) {
    cudaGetLastError();
    switch (status) {
    case cudaErrorInsufficientDriver:
        return sonar_fail(err, SONAR_EUNAVAILABLE, "cuda",
                          "the NVIDIA driver is missing or older than this program needs (CUDA "
                          "%d.%d)",
                          CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    case cudaErrorNoDevice:
        return sonar_fail(err, SONAR_EUNAVAILABLE, "cuda",
                          "there is no NVIDIA GPU, or none that this process may see");
    default:
        return sonar_fail(err, SONAR_EUNAVAILABLE, "cuda", "no GPU can be used: %s (CUDA error %d)",
                          cudaGetErrorString(status), (int)status);
    }
}

/* Succeeds if device `index` exists and this plugin has kernels for it. */
static sonar_code probe(size_t index, char *description, size_t bytes, sonar_error *err) {
    int count = 0;
    cudaDeviceProp device;
    cudaFuncAttributes attributes;
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess || count == 0)
        return no_device(status == cudaSuccess ? cudaErrorNoDevice : status, err);
    if (index >= (size_t)count)
        return sonar_fail(err, SONAR_EUNAVAILABLE, "cuda", "there is no GPU %zu, only %d", index,
                          count);
    CUDA_TRY("cuda", cudaSetDevice((int)index), err);
    CUDA_TRY("cuda", cudaGetDeviceProperties(&device, (int)index), err);
    status = cudaFuncGetAttributes(&attributes, nothing);
    if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction)
        return sonar_fail(err, SONAR_EUNAVAILABLE, "cuda",
                          "%s has compute capability %d.%d, for which this plugin was not built",
                          device.name, device.major, device.minor);
    CUDA_TRY("cuda", status, err);
    int used =
        snprintf(description, bytes, "%s, compute capability %d.%d, %d multiprocessors, %.0f GiB",
                 device.name, device.major, device.minor, device.multiProcessorCount,
                 (double)device.totalGlobalMem / (1024.0 * 1024 * 1024));
    if (count > 1 && used > 0 && (size_t)used < bytes)
        snprintf(description + used, bytes - (size_t)used, "; GPU %zu of %d", index, count);
    return SONAR_OK;
}

static sonar_code use(const sonar_backend *backend, sonar_error *err) {
    return CUDA_CHECK("cuda", cudaSetDevice((int)backend->device), err);
}

/* ---- buffers --------------------------------------------------------------------------------- */

/* Allocates pinned memory in huge pages from this size on, as sonar_alloc does. With
 * cudaHostAlloc's small pages, a thread that writes a sample ring with large strides spends its
 * time on page lookups. */
static const size_t registered_bytes = (size_t)64 << 20;

static sonar_code allocate_host(size_t bytes, void **data, sonar_error *err) {
    *data = sonar_alloc(bytes, 1);
    return *data ? SONAR_OK
                 : sonar_fail(err, SONAR_ENOMEM, "cuda", "no memory for a buffer of %zu bytes",
                              bytes);
}

static sonar_code allocate_pinned(size_t bytes, void **data, sonar_error *err) {
    if (bytes < registered_bytes) {
        CUDA_TRY("cuda", cudaHostAlloc(data, bytes, cudaHostAllocDefault), err);
        memset(*data, 0, bytes);
        return SONAR_OK;
    }
    sonar_code code = allocate_host(bytes, data, err);
    if (!code)
        code = CUDA_CHECK("cuda", cudaHostRegister(*data, bytes, cudaHostRegisterDefault), err);
    if (code) {
        free(*data);
        *data = NULL;
    }
    return code;
}

static void free_pinned(void *data, size_t bytes) {
    if (bytes < registered_bytes) {
        cudaFreeHost(data);
    } else if (data) {
        cudaHostUnregister(data);
        free(data);
    }
}

static sonar_code allocate(sonar_space space, size_t bytes, void **data, sonar_error *err) {
    if (space == SONAR_DEVICE)
        return sonar_cuda_alloc("cuda", bytes, (unsigned char **)data, err);
    return space == SONAR_PINNED ? allocate_pinned(bytes, data, err)
                                 : allocate_host(bytes, data, err);
}

static sonar_code buffer_create(const sonar_backend *backend, sonar_space space, sonar_dtype dtype,
                                int rank, const size_t *shape, sonar_buffer *buffer,
                                sonar_error *err) {
    (void)backend; /* the calling thread has this device set, by `use`; also below */
    *buffer = sonar_buffer_view(NULL, dtype, rank, shape);
    buffer->space = space;
    return buffer->bytes ? allocate(space, buffer->bytes, &buffer->data, err) : SONAR_OK;
}

static void buffer_destroy(sonar_buffer *buffer) {
    if (buffer->space == SONAR_DEVICE)
        cudaFree(buffer->data);
    else if (buffer->space == SONAR_PINNED)
        free_pinned(buffer->data, buffer->bytes);
    else
        free(buffer->data);
    memset(buffer, 0, sizeof *buffer);
}

/* ---- queues and events ----------------------------------------------------------------------- */

static sonar_code queue_create(const sonar_backend *backend, sonar_queue **queue,
                               sonar_error *err) {
    (void)backend;
    *queue = (sonar_queue *)sonar_alloc(1, sizeof **queue);
    if (!*queue)
        return sonar_fail(err, SONAR_ENOMEM, "cuda", "no memory for a queue");
    sonar_code code = CUDA_CHECK(
        "cuda", cudaStreamCreateWithFlags(&(*queue)->stream, cudaStreamNonBlocking), err);
    if (code) {
        free(*queue);
        *queue = NULL;
    }
    return code;
}

static void queue_destroy(sonar_queue *queue) {
    if (!queue)
        return;
    cudaStreamSynchronize(queue->stream);
    cudaStreamDestroy(queue->stream);
    free(queue);
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* An array as rows of bytes. A dense buffer is a single row. */
struct layout {
    size_t rows, row, from_step, to_step;
};

static struct layout layout_of(const sonar_buffer *from, const sonar_buffer *to) {
    if (from->rank != 2)
        return {1, from->bytes, from->bytes, from->bytes};
    size_t size = sonar_dtype_size(from->dtype);
    return {from->shape[0], from->bytes / from->shape[0], (size_t)from->stride[0] * size,
            (size_t)to->stride[0] * size};
}

static cudaMemcpyKind kind_of(bool from_device, bool to_device) {
    if (from_device)
        return to_device ? cudaMemcpyDeviceToDevice : cudaMemcpyDeviceToHost;
    return to_device ? cudaMemcpyHostToDevice : cudaMemcpyHostToHost;
}

/* Copies row by row: for a single row, or for rows farther apart than CUDA's copies of several rows
 * allow. */
static sonar_code copy_each(const void *from, void *to, const struct layout &l, cudaMemcpyKind kind,
                            cudaStream_t stream, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (size_t r = 0; r < l.rows && !code; r++)
        code =
            CUDA_CHECK("cuda",
                       cudaMemcpyAsync((char *)to + r * l.to_step,
                                       (const char *)from + r * l.from_step, l.row, kind, stream),
                       err);
    return code;
}

static sonar_code copy(sonar_queue *queue, const sonar_buffer *from, sonar_buffer *to,
                       sonar_error *err) {
    if (from->bytes != to->bytes)
        return sonar_fail(err, SONAR_EINVAL, "cuda", "copy of %zu bytes into %zu", from->bytes,
                          to->bytes);
    if (from->data == to->data || !from->bytes)
        return SONAR_OK;
    const struct layout l = layout_of(from, to);
    cudaMemcpyKind kind = kind_of(from->space == SONAR_DEVICE, to->space == SONAR_DEVICE);
    const size_t step_most = INT_MAX; /* cudaDeviceProp.memPitch of every device */
    if (l.rows == 1 || l.from_step > step_most || l.to_step > step_most)
        return copy_each(from->data, to->data, l, kind, queue->stream, err);
    return CUDA_CHECK("cuda",
                      cudaMemcpy2DAsync(to->data, l.to_step, from->data, l.from_step, l.row, l.rows,
                                        kind, queue->stream),
                      err);
}

/* A thread that waits for the event sleeps, at most after a short poll, because the daemon shares
 * its processors with the digitisers' readers. */
static sonar_code event_create(const sonar_backend *backend, sonar_event **event,
                               sonar_error *err) {
    (void)backend;
    *event = (sonar_event *)sonar_alloc(1, sizeof **event);
    if (!*event)
        return sonar_fail(err, SONAR_ENOMEM, "cuda", "no memory for an event");
    sonar_code code =
        CUDA_CHECK("cuda", cudaEventCreateWithFlags(&(*event)->event, cudaEventBlockingSync), err);
    if (code) {
        free(*event);
        *event = NULL;
    }
    return code;
}

static void event_destroy(sonar_event *event) {
    if (!event)
        return;
    cudaEventDestroy(event->event);
    free(event);
}

static sonar_code record(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    unsigned flags = queue->recording ? cudaEventRecordExternal : cudaEventRecordDefault;
    return CUDA_CHECK("cuda", cudaEventRecordWithFlags(event->event, queue->stream, flags), err);
}

static sonar_code wait(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    return CUDA_CHECK("cuda", cudaStreamWaitEvent(queue->stream, event->event, 0), err);
}

/* Polls first, because waking up takes longer than a copy. If the event failed, the sleeping wait
 * below reports it. */
static void await_awake(cudaEvent_t event) {
    const auto end = std::chrono::steady_clock::now() + awake;
    while (cudaEventQuery(event) == cudaErrorNotReady && std::chrono::steady_clock::now() < end)
        ;
    cudaGetLastError(); /* otherwise the next launch would report "not ready" */
}

static sonar_code finish(sonar_event *event, sonar_error *err) {
    if (awake.count() > 0)
        await_awake(event->event);
    return CUDA_CHECK("cuda", cudaEventSynchronize(event->event), err);
}

static sonar_code elapsed(sonar_event *from, sonar_event *to, double *us, sonar_error *err) {
    float ms = 0;
    cudaError_t status = cudaEventElapsedTime(&ms, from->event, to->event);
    if (status == cudaErrorNotReady) {
        cudaGetLastError(); /* otherwise the next launch would report it */
        return sonar_fail(err, SONAR_ESTATE, "cuda", "the event has not happened yet");
    }
    CUDA_TRY("cuda", status, err);
    *us = (double)ms * 1e3;
    return SONAR_OK;
}

static size_t memory_free(const sonar_backend *backend) {
    size_t free_bytes = 0, total = 0;
    (void)backend;
    return cudaMemGetInfo(&free_bytes, &total) == cudaSuccess ? free_bytes : 0;
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static sonar_code graph_begin(sonar_queue *queue, sonar_error *err) {
    CUDA_TRY("cuda", cudaStreamBeginCapture(queue->stream, cudaStreamCaptureModeThreadLocal), err);
    queue->recording = true;
    return SONAR_OK;
}

/* Uploads the graph now, so that its first run does not have to. */
static sonar_code instantiate(sonar_queue *queue, cudaGraph_t recorded, sonar_graph *graph,
                              sonar_error *err) {
    CUDA_TRY("cuda", cudaGraphInstantiate(&graph->exec, recorded, 0), err);
    sonar_code code = CUDA_CHECK("cuda", cudaGraphUpload(graph->exec, queue->stream), err);
    if (code)
        cudaGraphExecDestroy(graph->exec);
    return code;
}

static sonar_code graph_end(sonar_queue *queue, sonar_graph **graph, sonar_error *err) {
    cudaGraph_t recorded = NULL;
    if (graph)
        *graph = NULL;
    queue->recording = false;
    cudaError_t ended = cudaStreamEndCapture(queue->stream, &recorded);
    sonar_code code = CUDA_CHECK("cuda", ended, err);
    sonar_graph *made = code || !graph ? NULL : (sonar_graph *)sonar_alloc(1, sizeof *made);
    if (made)
        code = instantiate(queue, recorded, made, err);
    else if (!code && graph)
        code = sonar_fail(err, SONAR_ENOMEM, "cuda", "no memory for a graph");
    if (recorded)
        cudaGraphDestroy(recorded);
    if (code)
        free(made);
    else if (graph)
        *graph = made;
    return code;
}

static sonar_code graph_run(sonar_queue *queue, sonar_graph *graph, sonar_error *err) {
    return CUDA_CHECK("cuda", cudaGraphLaunch(graph->exec, queue->stream), err);
}

static void graph_destroy(sonar_graph *graph) {
    if (!graph)
        return;
    cudaGraphExecDestroy(graph->exec);
    free(graph);
}

/* ---- the table ------------------------------------------------------------------------------- */

static const sonar_stage_ops *stage(const char *name) {
    const sonar_stage_ops *const stages[] = {
#ifdef SONAR_HAVE_DFT_CUDA
        &sonar_dft_cuda,
#endif
#ifdef SONAR_HAVE_CBF_CUDA
        &sonar_cbf_cuda,
#endif
#ifdef SONAR_HAVE_STEER_CUDA
        &sonar_steer_cuda,
#endif
#ifdef SONAR_HAVE_MVDR_JACOBI_CUDA
        &sonar_mvdr_jacobi_cuda,
#endif
        NULL};
    for (size_t i = 0; stages[i]; i++)
        if (!strcmp(stages[i]->name, name))
            return stages[i];
    return NULL;
}

static const sonar_decision decisions[] = {{"cbf.far_path", "cbf", "line mirrored general matrix"},
                                           {"cbf.near_path", "cbf", "mirrored general matrix"},
                                           {NULL, NULL, NULL}};

/* Members in the order of sonar_backend: nvcc has no designated initialisers in C++17. */
static const sonar_backend opened = {
    "cuda",        0,       use,          buffer_create, buffer_destroy, SONAR_DEVICE, queue_create,
    queue_destroy, copy,    event_create, event_destroy, record,         wait,         finish,
    stage,         elapsed, memory_free,  decisions,     graph_begin,    graph_end,    graph_run,
    graph_destroy};

static sonar_code open_device(const sonar_host *host, size_t index, const sonar_backend **backend,
                              char *description, size_t bytes, sonar_error *err) {
    fail_at = host->fail_at;
    awake = std::chrono::nanoseconds(host->awake_ns);
    calls = 0;
    sonar_code code = probe(index, description, bytes, err);
    if (code)
        return code;
    sonar_backend *made = (sonar_backend *)sonar_alloc(1, sizeof *made);
    if (!made)
        return sonar_fail(err, SONAR_ENOMEM, "cuda", "no memory");
    *made = opened;
    made->device = index;
    *backend = made;
    return SONAR_OK;
}

static void close_device(const sonar_backend *backend) {
    free((void *)backend);
}

extern "C" __attribute__((visibility("default"))) const sonar_plugin_ops *sonar_plugin(void) {
    static const sonar_plugin_ops plugin = {SONAR_PLUGIN_INTERFACE, "cuda", open_device,
                                            close_device};
    return &plugin;
}
