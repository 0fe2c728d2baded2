/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * DFT stage on NVIDIA GPUs. The used sensors go through in batches: a kernel takes out the mean and
 * applies the window, cuFFT transforms, a second kernel picks the kept bins, corrects them and
 * turns [sensor][bin] into [bin][sensor]. Samples in host memory are first copied over, all used
 * channels of the window at once.
 */
#include "cuda/cuda_common.cuh"
#include "dft/dft.h"

#include <cufft.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_THREADS = 256, SELECT_TILE = 32, SELECT_ROWS = 8 };

/* Memory for signals, spectra and cuFFT's own work of one batch, where training says nothing. Large
 * batches fill the device, small ones stay in its cache from kernel to kernel. */
static const size_t BATCH_MIB = 2048;

/* One used sensor. Its bins are multiplied by gain * exp(+j 2 pi (phase + bin * step)). */
struct source {
    uint64_t phase, step; /* turns, 2^64 = one */
    uint32_t sensor, channel;
    float gain;
};

/* The window's samples on the device, f32 or s16. Of channel c the head begins `c * head_row`
 * samples on and holds the first `cut`, the tail has the others; or the head is a ring. */
struct input {
    const void *head, *tail;
    ptrdiff_t head_row, tail_row;
    size_t cut, length;
    const uint64_t *column; /* NULL, or the head is a ring and the window begins there plus... */
    size_t offset, capacity;
};

struct dft {
    sonar_dft_spec spec;
    double psd_gain;     /* sqrt(2 / (fs sum w^2)) */
    size_t batch;        /* sensors of one transform */
    long window_threads; /* of one thread block of window_rows */
    cufftHandle plan;
    cudaStream_t stream; /* the plan's */
    bool planned;
    void *work;                           /* cuFFT's */
    float *window;                        /* [length] */
    float *staging;                       /* [channel][length], or as many s16 */
    float *time;                          /* [batch][length] */
    float2 *spectrum;                     /* [batch][length / 2 + 1] */
    struct source *source, *host_source;  /* [used] on the device and here */
    size_t used, first_channel, channels; /* the used ones lie in this range */
    uint64_t version;                     /* of the params that source was made from */
    bool prepared;
};

/* ---- kernels --------------------------------------------------------------------------------- */

/* One channel's samples: i is in the head below `cut`, in the tail from there on. */
template <typename T> struct row {
    const T *head, *tail;
    uint32_t cut;
    __device__ T operator[](uint32_t i) const { return i < cut ? head[i] : tail[i]; }
};

template <typename T>
__device__ inline struct row<T> row_of(const struct input &in, ptrdiff_t channel) {
    const T *head = (const T *)in.head + channel * in.head_row;
    if (!in.column)
        return {head, (const T *)in.tail + channel *in.tail_row - (ptrdiff_t)in.cut,
                (uint32_t)in.cut};
    size_t start = (*in.column % in.capacity + in.offset) % in.capacity;
    size_t left = in.capacity - start;
    return {head + start, head + start - in.capacity,
            (uint32_t)(left < in.length ? left : in.length)};
}

/* What sums of samples are exact in, or nearly. */
template <typename T>
struct sum_of {
    typedef double type;
};
template <> struct sum_of<int16_t> { typedef long long type; };

/* Sum over the thread block in an order that never changes, for its first thread. */
template <uint32_t THREADS, typename T> __device__ inline T block_sum(T value) {
    __shared__ T shared[THREADS];
    shared[threadIdx.x] = value;
    for (uint32_t half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half)
            shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    return shared[0];
}

/* A mean as its float and what that lacks: (x - high) - low is as good as a difference in double
 * precision that is then rounded, for x - high is exact where x is close to the mean. */
struct mean {
    float high, low;
};

__device__ inline struct mean mean_of(double sum, uint32_t count) {
    double mean = sum / (double)count;
    float high = (float)mean;
    return {high, (float)(mean - (double)high)};
}

__device__ inline float windowed(float x, struct mean mean, float window) {
    return __fmul_rn(x - mean.high - mean.low, window);
}

/* One thread block makes one row of `time`; rows that have no sensor become zero. */
template <typename T, uint32_t THREADS>
static __global__ void __launch_bounds__(THREADS)
    window_rows(struct input in, const struct source *source, uint32_t sources, const float *window,
                bool remove_mean, float *time) {
    __shared__ struct mean shared;
    uint32_t length = (uint32_t)in.length;
    float *to = time + (size_t)blockIdx.x * length;
    if (blockIdx.x >= sources) {
        for (uint32_t i = threadIdx.x; i < length; i += THREADS)
            to[i] = 0;
        return;
    }
    struct row<T> from = row_of<T>(in, source[blockIdx.x].channel);
    struct mean mean = {};
    if (remove_mean) {
        typename sum_of<T>::type sum = 0;
#pragma unroll 8
        for (uint32_t i = threadIdx.x; i < length; i += THREADS)
            sum += from[i];
        sum = block_sum<THREADS>(sum);
        if (threadIdx.x == 0)
            shared = mean_of((double)sum, length);
        __syncthreads();
        mean = shared;
    }
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < length; i += THREADS)
        to[i] = windowed(from[i], mean, window[i]);
}

/* The kernel for one of the numbers of threads that training tries; NULL for any other. */
typedef void (*window_function)(struct input, const struct source *, uint32_t, const float *, bool,
                                float *);
template <typename T> static window_function window_kernel(long threads) {
    switch (threads) {
    case 128:
        return window_rows<T, 128>;
    case 256:
        return window_rows<T, 256>;
    case 512:
        return window_rows<T, 512>;
    case 1024:
        return window_rows<T, 1024>;
    default:
        return NULL;
    }
}

__device__ inline float2 to_unit(float2 y) {
    float size = hypotf(y.x, y.y);
    return size > 0 ? make_float2(y.x / size, y.y / size) : y;
}

/* The one-sided density counts every bin twice but those that are their own mirror image. */
__device__ inline float2 correct(float2 x, const struct source &source, size_t bin, size_t length,
                                 bool equalise) {
    uint32_t phase = (uint32_t)((source.phase + bin * source.step) >> 32);
    float2 w = sonar_cuda_phasor(phase);
    float gain = bin == 0 || 2 * bin == length ? source.gain * 0.70710678f : source.gain;
    w.x *= gain;
    w.y *= gain;
    float2 y = make_float2(x.x * w.x - x.y * w.y, x.x * w.y + x.y * w.x);
    return equalise ? to_unit(y) : y;
}

/* A thread block turns one tile of 32 sensors by 32 bins. Grid: tiles, those of sensors first. */
static __global__ void __launch_bounds__(SELECT_TILE *SELECT_ROWS)
    select_bins(const float2 *spectrum, size_t length, const struct source *source,
                uint32_t sources, size_t first_bin, size_t bins, bool equalise, float2 *out,
                ptrdiff_t out_row) {
    __shared__ float2 tile[SELECT_TILE][SELECT_TILE + 1];
    uint32_t tiles = (sources + SELECT_TILE - 1) / SELECT_TILE;
    uint32_t row = blockIdx.x % tiles * SELECT_TILE;
    size_t bin = blockIdx.x / tiles * SELECT_TILE;
    for (uint32_t i = threadIdx.y; i < SELECT_TILE; i += SELECT_ROWS) {
        size_t b = bin + threadIdx.x;
        if (row + i < sources && b < bins)
            tile[i][threadIdx.x] = correct(spectrum[(row + i) * (length / 2 + 1) + first_bin + b],
                                           source[row + i], first_bin + b, length, equalise);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.y; i < SELECT_TILE; i += SELECT_ROWS)
        if (row + threadIdx.x < sources && bin + i < bins)
            out[(ptrdiff_t)(bin + i) * out_row + source[row + threadIdx.x].sensor] =
                tile[threadIdx.x][i];
}

/* ---- cuFFT ----------------------------------------------------------------------------------- */

static const char *fft_text(cufftResult result) {
    switch (result) {
    case CUFFT_ALLOC_FAILED:
        return "out of memory";
    case CUFFT_INVALID_SIZE:
        return "it has no transform of this size";
    case CUFFT_INTERNAL_ERROR:
        return "internal error";
    case CUFFT_EXEC_FAILED:
        return "the transform failed on the device";
    case CUFFT_SETUP_FAILED:
        return "the library could not be set up";
    default:
        return "unexpected result";
    }
}

static sonar_code fft_check(cufftResult result, const char *call, sonar_error *err) {
    if (result == CUFFT_SUCCESS)
        return SONAR_OK;
    cudaGetLastError();
    return sonar_fail(err, result == CUFFT_ALLOC_FAILED ? SONAR_ENOMEM : SONAR_ESYS, "dft",
                      "%s: %s (cuFFT result %d)", call, fft_text(result), (int)result);
}

#define FFT_TRY(call, err)                                                                         \
    do {                                                                                           \
        sonar_code try_code =                                                                      \
            fft_check(sonar_cuda_injected() ? CUFFT_INTERNAL_ERROR : (call), #call, err);          \
        if (try_code)                                                                              \
            return try_code;                                                                       \
    } while (0)

/* The plan's work area is ours, so that nothing is allocated behind our back. The first transform
 * loads cuFFT's kernels: here rather than in the first window. */
static sonar_code make_plan(struct dft *dft, sonar_error *err) {
    long long length = (long long)dft->spec.length;
    size_t bytes = 0;
    dft->stream = cudaStreamPerThread;
    FFT_TRY(cufftCreate(&dft->plan), err);
    dft->planned = true;
    FFT_TRY(cufftSetAutoAllocation(dft->plan, 0), err);
    FFT_TRY(cufftMakePlanMany64(dft->plan, 1, &length, NULL, 1, length, NULL, 1, length / 2 + 1,
                                CUFFT_R2C, (long long)dft->batch, &bytes),
            err);
    sonar_code code = sonar_cuda_alloc("dft", bytes, (unsigned char **)&dft->work, err);
    if (code)
        return code;
    FFT_TRY(cufftSetWorkArea(dft->plan, dft->work), err);
    FFT_TRY(cufftSetStream(dft->plan, dft->stream), err);
    FFT_TRY(cufftExecR2C(dft->plan, dft->time, (cufftComplex *)dft->spectrum), err);
    return CUDA_CHECK("dft", cudaStreamSynchronize(dft->stream), err);
}

/* ---- parameters ------------------------------------------------------------------------------ */

/* Turns modulo one, 2^64 = one turn; exact to double rounding. */
static uint64_t fixed_turns(double turns) {
    double rest = turns - rint(turns);
    uint64_t size = (uint64_t)rint(ldexp(fabs(rest), 64));
    return rest < 0 ? 0 - size : size;
}

static struct source source_of(const struct dft *dft, const sonar_params *params, size_t sensor) {
    double bin_hz = dft->spec.fs_hz / (double)dft->spec.length;
    struct source source;
    source.phase = fixed_turns(params->phase_turns[sensor]);
    source.step = fixed_turns(bin_hz * params->delay_s[sensor]);
    source.sensor = (uint32_t)sensor;
    source.channel = params->channel[sensor];
    source.gain = (float)(dft->psd_gain * (double)params->scale[sensor]);
    return source;
}

static sonar_code prepare(struct dft *dft, const sonar_params *params, cudaStream_t stream,
                          sonar_error *err) {
    if (dft->prepared && dft->version == params->version)
        return SONAR_OK;
    size_t first = dft->spec.channels, end = 0;
    dft->prepared = false;
    dft->used = 0;
    for (size_t k = 0; k < dft->spec.sensors; k++) {
        if (!params->used[k])
            continue;
        size_t channel = params->channel[k];
        if (channel >= dft->spec.channels)
            return sonar_fail(err, SONAR_EINVAL, "dft", "sensor %zu is fed by channel %zu of %zu",
                              k, channel, dft->spec.channels);
        first = sonar_min_size(first, channel);
        end = sonar_max_size(end, channel + 1);
        dft->host_source[dft->used++] = source_of(dft, params, k);
    }
    dft->first_channel = first;
    dft->channels = end > first ? end - first : 0;
    CUDA_TRY("dft",
             cudaMemcpyAsync(dft->source, dft->host_source, dft->used * sizeof *dft->source,
                             cudaMemcpyHostToDevice, stream),
             err);
    dft->version = params->version;
    dft->prepared = true;
    return SONAR_OK;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static sonar_code check_spec(const sonar_dft_spec *spec, sonar_error *err) {
    if (spec->sensors > INT_MAX) /* cuFFT's and the kernels' own limit */
        return sonar_fail(err, SONAR_EINVAL, "dft", "%zu channels and %zu sensors", spec->channels,
                          spec->sensors);
    return sonar_dft_check(spec, err);
}

static sonar_code make_window(struct dft *dft, sonar_error *err) {
    size_t n = dft->spec.length;
    double *w = (double *)sonar_alloc(n, sizeof *w), energy = 0;
    float *rounded = (float *)sonar_alloc(n, sizeof *rounded);
    sonar_code code = SONAR_OK;
    if (w && rounded) {
        sonar_dft_window(dft->spec.window, dft->spec.kaiser_beta, n, w);
        for (size_t i = 0; i < n; i++) {
            energy += w[i] * w[i];
            rounded[i] = (float)w[i];
        }
        dft->psd_gain = sqrt(2 / (dft->spec.fs_hz * energy));
        code = CUDA_CHECK(
            "dft", cudaMemcpy(dft->window, rounded, n * sizeof *rounded, cudaMemcpyHostToDevice),
            err);
    } else {
        code = sonar_fail(err, SONAR_ENOMEM, "dft", "no memory for a window of %zu", n);
    }
    free(w);
    free(rounded);
    return code;
}

/* Batches of equal size, so that one plan serves all. */
static size_t choose_batch(const sonar_dft_spec *spec, const sonar_host *host) {
    const char *trained = sonar_host_choice(host, "dft.batch_mib");
    size_t mib = trained ? strtoul(trained, NULL, 10) : BATCH_MIB;
    size_t bytes_each = spec->length * 2 * sizeof(float2);
    size_t most = sonar_max_size((mib << 20) / bytes_each, 1);
    size_t batches = (spec->sensors + most - 1) / most;
    return (spec->sensors + batches - 1) / batches;
}

/* A number that is none of the kernel's comes from a table edited by hand: as if there were none.
 */
static long choose_threads(const sonar_host *host) {
    const char *trained = sonar_host_choice(host, "dft.window_threads");
    long threads = trained ? strtol(trained, NULL, 10) : 0;
    return window_kernel<float>(threads) ? threads : (long)WINDOW_THREADS;
}

static sonar_code make(struct dft *dft, const sonar_host *host, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    cudaFuncAttributes attributes;
    dft->batch = choose_batch(spec, host);
    dft->window_threads = choose_threads(host);
    dft->host_source = (struct source *)sonar_alloc(spec->sensors, sizeof *dft->host_source);
    sonar_code code = dft->host_source ? SONAR_OK
                                       : sonar_fail(err, SONAR_ENOMEM, "dft",
                                                    "no memory for %zu sensors", spec->sensors);
    if (!code)
        code = sonar_cuda_alloc("dft", spec->length, &dft->window, err);
    if (!code)
        code = sonar_cuda_alloc("dft", spec->channels * spec->length, &dft->staging, err);
    if (!code)
        code = sonar_cuda_alloc("dft", dft->batch * spec->length, &dft->time, err);
    if (!code)
        code = sonar_cuda_alloc("dft", dft->batch * (spec->length / 2 + 1), &dft->spectrum, err);
    if (!code)
        code = sonar_cuda_alloc("dft", spec->sensors, &dft->source, err);
    if (!code)
        code = make_window(dft, err);
    /* kernels are loaded when first asked for: now, not with the first window */
    if (!code)
        code = CUDA_CHECK(
            "dft", cudaFuncGetAttributes(&attributes, window_kernel<float>(dft->window_threads)),
            err);
    if (!code)
        code = CUDA_CHECK(
            "dft", cudaFuncGetAttributes(&attributes, window_kernel<int16_t>(dft->window_threads)),
            err);
    if (!code)
        code = CUDA_CHECK("dft", cudaFuncGetAttributes(&attributes, select_bins), err);
    return code ? code : make_plan(dft, err);
}

static void dft_destroy(void *stage) {
    struct dft *dft = (struct dft *)stage;
    if (!dft)
        return;
    if (dft->planned)
        cufftDestroy(dft->plan);
    cudaFree(dft->work);
    cudaFree(dft->window);
    cudaFree(dft->staging);
    cudaFree(dft->time);
    cudaFree(dft->spectrum);
    cudaFree(dft->source);
    free(dft->host_source);
    free(dft);
}

static sonar_code dft_create(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    *stage = NULL;
    sonar_code code = check_spec((const sonar_dft_spec *)spec, err);
    if (code)
        return code;
    struct dft *dft = (struct dft *)sonar_alloc(1, sizeof *dft);
    if (!dft)
        return sonar_fail(err, SONAR_ENOMEM, "dft", "no memory for the stage");
    dft->spec = *(const sonar_dft_spec *)spec;
    code = make(dft, host, err);
    if (code)
        dft_destroy(dft);
    else
        *stage = dft;
    return code;
}

static size_t samples_of(const sonar_buffer *part) {
    return part->shape[0] ? part->shape[1] : 0;
}

static bool is_part(const sonar_buffer *in, size_t channels) {
    return samples_of(in) == 0 ||
           ((in->dtype == SONAR_F32 || in->dtype == SONAR_S16) && in->rank == 2 &&
            in->shape[0] == channels && in->stride[1] == 1 && in->data &&
            (channels == 1 || in->stride[0] >= (ptrdiff_t)in->shape[1]));
}

/* A window in one or two parts, or a ring on the device that is at least as long. */
static bool is_window(const struct dft *dft, const sonar_buffer *in, const sonar_work *work) {
    const sonar_buffer *head = &in[SONAR_DFT_HEAD], *tail = &in[SONAR_DFT_TAIL];
    size_t channels = dft->spec.channels, length = dft->spec.length;
    if (!is_part(head, channels) || !is_part(tail, channels))
        return false;
    if (work->column)
        return samples_of(head) >= length && !samples_of(tail) && sonar_cuda_in_place(head->space);
    return samples_of(head) + samples_of(tail) == length &&
           (!samples_of(tail) || tail->dtype == head->dtype);
}

static sonar_code check_shapes(const struct dft *dft, const sonar_buffer *in,
                               const sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    if (!is_window(dft, in, work))
        return sonar_fail(err, SONAR_EINVAL, "dft", "input is not f32 or s16 [%zu][%zu]%s",
                          spec->channels, spec->length,
                          work->column ? " or longer, a ring on the device" : "");
    if (out->dtype != SONAR_C32 || out->rank != 2 || out->shape[0] != spec->bins ||
        out->shape[1] != spec->sensors || out->stride[1] != 1 || out->space != SONAR_DEVICE)
        return sonar_fail(err, SONAR_EINVAL, "dft", "output is not c32 [%zu][%zu] on the device",
                          spec->bins, spec->sensors);
    if (work->params->sensors != spec->sensors)
        return sonar_fail(err, SONAR_EINVAL, "dft", "parameters of %zu sensors, stage of %zu",
                          work->params->sensors, spec->sensors);
    return SONAR_OK;
}

/* Where the device finds a part: in place, or in the staging buffer at `offset`. */
static sonar_code fetch(struct dft *dft, const sonar_buffer *in, size_t offset, const void **data,
                        ptrdiff_t *row, cudaStream_t stream, sonar_error *err) {
    size_t samples = samples_of(in), length = dft->spec.length, first = dft->first_channel;
    *data = in->data;
    *row = in->stride[0];
    if (samples == 0 || sonar_cuda_in_place(in->space))
        return SONAR_OK;
    size_t size = sonar_dtype_size(in->dtype);
    size_t from_row = dft->spec.channels == 1 ? samples : (size_t)in->stride[0];
    unsigned char *staging = (unsigned char *)dft->staging + offset * size;
    *data = staging;
    *row = (ptrdiff_t)length;
    return CUDA_CHECK("dft",
                      cudaMemcpy2DAsync(staging + first * length * size, length * size,
                                        (const unsigned char *)in->data + first * from_row * size,
                                        from_row * size, samples * size, dft->channels,
                                        cudaMemcpyHostToDevice, stream),
                      err);
}

static sonar_code locate(struct dft *dft, const sonar_buffer *in, const sonar_work *work,
                         struct input *at, cudaStream_t stream, sonar_error *err) {
    const sonar_buffer *head = &in[SONAR_DFT_HEAD];
    *at = {};
    at->cut = samples_of(head);
    at->length = dft->spec.length;
    if (work->column) {
        at->column = work->column;
        at->capacity = head->shape[1];
        at->offset = work->offset % at->capacity;
    }
    sonar_code code = fetch(dft, head, 0, &at->head, &at->head_row, stream, err);
    return code ? code
                : fetch(dft, &in[SONAR_DFT_TAIL], at->cut, &at->tail, &at->tail_row, stream, err);
}

static sonar_code transform(struct dft *dft, const struct input *in, bool in_s16, size_t first,
                            sonar_buffer *out, cudaStream_t stream, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    uint32_t count = (uint32_t)sonar_min_size(dft->used - first, dft->batch);
    window_function window_rows_of = in_s16 ? window_kernel<int16_t>(dft->window_threads)
                                            : window_kernel<float>(dft->window_threads);
    window_rows_of<<<(unsigned)dft->batch, (unsigned)dft->window_threads, 0, stream>>>(
        *in, dft->source + first, count, dft->window, spec->remove_mean, dft->time);
    sonar_code code = CUDA_LAUNCHED("dft", "window_rows", err);
    if (code)
        return code;
    FFT_TRY(cufftExecR2C(dft->plan, dft->time, (cufftComplex *)dft->spectrum), err);
    size_t tiles =
        (count + SELECT_TILE - 1) / SELECT_TILE * ((spec->bins + SELECT_TILE - 1) / SELECT_TILE);
    select_bins<<<(unsigned)tiles, dim3(SELECT_TILE, SELECT_ROWS), 0, stream>>>(
        dft->spectrum, spec->length, dft->source + first, count, spec->first_bin, spec->bins,
        spec->equalise_phase, (float2 *)out->data, out->stride[0]);
    return CUDA_LAUNCHED("dft", "select_bins", err);
}

static sonar_code clear(const struct dft *dft, sonar_buffer *out, cudaStream_t stream,
                        sonar_error *err) {
    size_t row_bytes = dft->spec.sensors * sizeof(float2);
    size_t pitch = dft->spec.bins == 1 ? row_bytes : (size_t)out->stride[0] * sizeof(float2);
    return CUDA_CHECK(
        "dft", cudaMemset2DAsync(out->data, pitch, 0, row_bytes, dft->spec.bins, stream), err);
}

/* Not while a graph is recorded, if it can be helped. */
static sonar_code use_stream(struct dft *dft, cudaStream_t stream, sonar_error *err) {
    if (dft->stream != stream)
        FFT_TRY(cufftSetStream(dft->plan, stream), err);
    dft->stream = stream;
    return SONAR_OK;
}

static sonar_code dft_execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                              sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    sonar_nvtx_range range("dft");
    struct dft *dft = (struct dft *)stage;
    struct input at;
    cudaStream_t stream = queue->stream;
    sonar_code code = check_shapes(dft, in, out, work, err);
    if (!code)
        code = prepare(dft, work->params, stream, err);
    if (!code && dft->used < dft->spec.sensors)
        code = clear(dft, out, stream, err);
    if (code || !dft->used)
        return code;
    code = use_stream(dft, stream, err);
    if (!code)
        code = locate(dft, in, work, &at, stream, err);
    for (size_t first = 0; first < dft->used && !code; first += dft->batch)
        code = transform(dft, &at, in[SONAR_DFT_HEAD].dtype == SONAR_S16, first, out, stream, err);
    return code;
}

extern "C" const sonar_stage_ops sonar_dft_cuda = {"dft", dft_create, dft_execute,
                                                   NULL,  NULL,       dft_destroy};
