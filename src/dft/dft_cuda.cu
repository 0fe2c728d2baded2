/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * DFT stage on NVIDIA GPUs, in one of two ways. Powers of two go through one kernel of our own
 * (fused_cuda.cuh) if the device has enough shared memory. All other lengths go through cuFFT, the
 * used sensors in batches: a kernel subtracts the mean and multiplies by the taper, cuFFT
 * transforms, a second kernel picks the kept bins, corrects them and turns [sensor][bin] into
 * [bin][sensor]. Samples in host memory are first copied to the device, all used channels of the
 * window at once.
 */
#include "dft/dft.h"
#include "dft/fused_cuda.cuh"
#include "dft/samples_cuda.cuh"

#include <cufft.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW_THREADS = 256, SELECT_TILE = 32, SELECT_ROWS = 8, CLEAR_THREADS = 256 };
/* TILE: sensors per thread block of the fused kernel, if every multiprocessor gets FULL_TILES
 * blocks. More sensors would be written faster, in longer rows of the output, but would take shared
 * memory that otherwise caches the tables. */
enum { TILE = 2, FULL_TILES = 16 };

/* Memory of one batch for signals, spectra and cuFFT's work area, unless training chose another.
 * Large batches fill the device; small ones stay in its cache from kernel to kernel. */

struct dft {
    sonar_dft_spec spec;
    double psd_gain; /* sqrt(2 / (fs sum w^2)) */
    float *taper;    /* [length] */
    float *staging;  /* [channel][length], f32 or s16; NULL if the samples are read in place */
    struct source *source,
        *host_source; /* the used sensors, then the masked ones; on the device and on the host */
    size_t used, first_channel, channels; /* the used sensors' channels lie in this range */
    uint32_t *gap_count;                  /* [channel] of the current window... */
    sonar_gap *gap;                       /* ...[channel][SONAR_GAPS_MOST] */
    uint64_t version;                     /* of the params that source was made from */
    bool prepared;
    /* the fused kernel is used */
    bool is_fused;
    struct fused fused;
    float2 *tables; /* twiddle and untangle of the fused kernel */
    /* members for cuFFT */
    size_t batch; /* sensors of one transform */
    cufftHandle plan;
    cudaStream_t stream; /* the stream that the plan uses */
    bool planned;
    void *work;       /* cuFFT's work area */
    float *time;      /* [batch][length] */
    float2 *spectrum; /* [batch][length / 2 + 1] */
};

/* ---- kernels --------------------------------------------------------------------------------- */

/* A type in which sums of samples are exact, or nearly. */
template <typename T> struct sum_of { typedef double type; };
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
    return shared[threadIdx.x]; /* shared memory of its own, which no other thread writes after this
                                 */
}

/* This thread's share of the present samples. */
template <typename T, uint32_t THREADS>
__device__ inline typename sum_of<T>::type sum_there(const struct row<T> &from, uint32_t length,
                                                     const struct lost &lost) {
    typename sum_of<T>::type sum = 0;
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < length; i += THREADS)
        sum += from[i];
    for (uint32_t gap = 0; gap < lost.count; gap++)
        for (uint32_t i = lost[gap].begin + threadIdx.x; i < lost[gap].end; i += THREADS)
            sum -= from[i];
    return sum;
}

/* One thread block makes one row of `time`. Rows without a sensor become zero. */
template <typename T>
static __global__ void __launch_bounds__(WINDOW_THREADS)
    taper_rows(struct input in, const struct source *source, uint32_t sources, const float *taper,
               bool remove_mean, float *time) {
    __shared__ struct mean shared;
    uint32_t length = (uint32_t)in.length;
    float *to = time + (size_t)blockIdx.x * length;
    if (blockIdx.x >= sources) {
        for (uint32_t i = threadIdx.x; i < length; i += WINDOW_THREADS)
            to[i] = 0;
        return;
    }
    struct row<T> from = row_of<T>(in, start_of(in), source[blockIdx.x].channel);
    struct lost lost = lost_of(in, source[blockIdx.x].channel);
    struct mean mean = {};
    if (remove_mean) {
        auto sum = block_sum<WINDOW_THREADS>(sum_there<T, WINDOW_THREADS>(from, length, lost));
        uint32_t there = length - lost.samples();
        if (threadIdx.x == 0)
            shared = mean_of(there ? (double)sum / (double)there : 0);
        __syncthreads();
        mean = shared;
    }
#pragma unroll 8
    for (uint32_t i = threadIdx.x; i < length; i += WINDOW_THREADS)
        to[i] = tapered(from[i], mean, taper[i]);
    if (lost.count) /* the same in the whole thread block */
        __syncthreads();
    for (uint32_t gap = 0; gap < lost.count; gap++)
        for (uint32_t i = lost[gap].begin + threadIdx.x; i < lost[gap].end; i += WINDOW_THREADS)
            to[i] = 0;
}

/* A thread block transposes one tile of 32 sensors by 32 bins. Grid: tiles, those of sensors
 * first. */
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

/* Writes zeros to all bins of the masked sensors; count is sensors times bins. */
static __global__ void __launch_bounds__(CLEAR_THREADS)
    clear_masked(const struct source *source, size_t masked, size_t count, float2 *out,
                 ptrdiff_t out_row) {
    size_t i = (size_t)blockIdx.x * CLEAR_THREADS + threadIdx.x;
    if (i < count)
        out[(ptrdiff_t)(i / masked) * out_row + source[i % masked].sensor] = make_float2(0, 0);
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

/* The plan's work area is our memory, so that cuFFT allocates nothing itself. The first transform
 * loads cuFFT's kernels: here, so that the first window does not have to wait for it. */
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
    size_t first = dft->spec.channels, end = 0, masked = dft->spec.sensors;
    dft->prepared = false;
    dft->used = 0;
    for (size_t k = 0; k < dft->spec.sensors; k++) {
        if (!params->used[k]) {
            dft->host_source[--masked].sensor = (uint32_t)k;
            continue;
        }
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
             cudaMemcpyAsync(dft->source, dft->host_source, dft->spec.sensors * sizeof *dft->source,
                             cudaMemcpyHostToDevice, stream),
             err);
    dft->version = params->version;
    dft->prepared = true;
    return SONAR_OK;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static sonar_code check_spec(const sonar_dft_spec *spec, sonar_error *err) {
    if (spec->sensors > INT_MAX) /* the limit of cuFFT and of the kernels */
        return sonar_fail(err, SONAR_EINVAL, "dft", "%zu channels and %zu sensors", spec->channels,
                          spec->sensors);
    return sonar_dft_check(spec, err);
}

static sonar_code make_taper(struct dft *dft, sonar_error *err) {
    size_t n = dft->spec.length;
    double *w = (double *)sonar_alloc(n, sizeof *w), energy = 0;
    float *rounded = (float *)sonar_alloc(n, sizeof *rounded);
    sonar_code code = SONAR_OK;
    if (w && rounded) {
        sonar_dft_taper(dft->spec.taper, dft->spec.kaiser_beta, n, w);
        for (size_t i = 0; i < n; i++) {
            energy += w[i] * w[i];
            rounded[i] = (float)w[i];
        }
        dft->psd_gain = sqrt(2 / (dft->spec.fs_hz * energy));
        code = CUDA_CHECK(
            "dft", cudaMemcpy(dft->taper, rounded, n * sizeof *rounded, cudaMemcpyHostToDevice),
            err);
    } else {
        code = sonar_fail(err, SONAR_ENOMEM, "dft", "no memory for a taper of %zu points", n);
    }
    free(w);
    free(rounded);
    return code;
}

/* Sensors per thread block: more than one if there are enough sensors to fill the device anyway and
 * their bins take less memory than the transform itself. */
static uint32_t choose_rounds(const sonar_dft_spec *spec, size_t processors) {
    const size_t tile = spec->sensors >= FULL_TILES * TILE * processors ? TILE : 1;
    uint32_t points = (uint32_t)spec->length / 2, rounds = 1;
    while (2 * rounds * fused_groups(points) <= tile &&
           2 * rounds * spec->bins <= fused_room(points) / 2)
        rounds *= 2;
    return rounds;
}

/* The limit of a kernel is shared by all stages, so it is set as high as possible. */
static sonar_code allow_shared(const void *kernel, int most, sonar_error *err) {
    return CUDA_CHECK("dft",
                      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           most - FUSED_STATIC),
                      err);
}

/* Takes the fused kernel if one for this length exists and it fits into a multiprocessor. */
static sonar_code choose_path(struct dft *dft, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    int most = 0, processors = 0;
    if (!fused_kernel<float>(spec->length))
        return SONAR_OK;
    sonar_code code =
        sonar_cuda_attribute("dft", cudaDevAttrMaxSharedMemoryPerBlockOptin, &most, err);
    if (!code)
        code = sonar_cuda_attribute("dft", cudaDevAttrMultiProcessorCount, &processors, err);
    if (code)
        return code;
    uint32_t points = (uint32_t)spec->length / 2, bins = (uint32_t)spec->bins;
    uint32_t rounds = choose_rounds(spec, (size_t)processors);
    while (rounds > 1 && fused_bytes(points, bins, rounds) + FUSED_STATIC > (size_t)most)
        rounds /= 2;
    dft->fused.rounds = rounds;
    dft->is_fused = fused_bytes(points, bins, rounds) + FUSED_STATIC <= (size_t)most;
    if (!dft->is_fused)
        return SONAR_OK;
    code = allow_shared((const void *)fused_kernel<float>(spec->length), most, err);
    return code ? code : allow_shared((const void *)fused_kernel<int16_t>(spec->length), most, err);
}

/* exp(-j 2 pi part / whole), rounded once. */
static float2 unit_of(size_t part, size_t whole) {
    double angle = 2 * M_PI * (double)part / (double)whole;
    return make_float2((float)cos(angle), (float)-sin(angle));
}

static void fill_tables(const sonar_dft_spec *spec, float2 *twiddle, float2 *untangle) {
    int points = (int)spec->length / 2;
    for (int s = 16; s < points; s *= fft_radix(points, s))
        for (int q = 1; q < fft_radix(points, s); q++)
            for (int k = 0; k < s; k++)
                twiddle[q * s + k - 16] =
                    unit_of((size_t)(q * k), (size_t)(s * fft_radix(points, s)));
    for (size_t b = 0; b < spec->bins; b++)
        untangle[b] = unit_of(spec->first_bin + b, spec->length);
}

static sonar_code make_tables(struct dft *dft, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    size_t twiddles = (size_t)fft_twiddles((int)spec->length / 2), count = twiddles + spec->bins;
    sonar_code code = sonar_cuda_alloc("dft", count, &dft->tables, err);
    if (code)
        return code;
    float2 *table = (float2 *)sonar_alloc(count, sizeof *table);
    if (!table)
        return sonar_fail(err, SONAR_ENOMEM, "dft", "no memory for a table of %zu", count);
    fill_tables(spec, table, table + twiddles);
    code = CUDA_CHECK(
        "dft", cudaMemcpy(dft->tables, table, count * sizeof *table, cudaMemcpyHostToDevice), err);
    free(table);
    dft->fused.twiddle = dft->tables;
    dft->fused.untangle = dft->tables + twiddles;
    return code;
}

static sonar_code make_fused(struct dft *dft, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    struct fused *fused = &dft->fused;
    fused->taper = (const float2 *)dft->taper;
    fused->first_bin = (uint32_t)spec->first_bin;
    fused->bins = (uint32_t)spec->bins;
    fused->remove_mean = spec->remove_mean;
    fused->equalise = spec->equalise_phase;
    return make_tables(dft, err);
}

static sonar_code make_batches(struct dft *dft, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    cudaFuncAttributes attributes;
    dft->batch = sonar_dft_batch(spec);
    CUDA_TRY("dft", cudaFuncGetAttributes(&attributes, taper_rows<float>), err);
    CUDA_TRY("dft", cudaFuncGetAttributes(&attributes, taper_rows<int16_t>), err);
    CUDA_TRY("dft", cudaFuncGetAttributes(&attributes, select_bins), err);
    sonar_code code = sonar_cuda_alloc("dft", dft->batch * spec->length, &dft->time, err);
    if (!code)
        code = sonar_cuda_alloc("dft", dft->batch * (spec->length / 2 + 1), &dft->spectrum, err);
    return code ? code : make_plan(dft, err);
}

/* Kernels are loaded at the first query: here and in the two functions above, and not in the first
 * window. */
static sonar_code make(struct dft *dft, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    cudaFuncAttributes attributes;
    dft->host_source = (struct source *)sonar_alloc(spec->sensors, sizeof *dft->host_source);
    sonar_code code = dft->host_source ? SONAR_OK
                                       : sonar_fail(err, SONAR_ENOMEM, "dft",
                                                    "no memory for %zu sensors", spec->sensors);
    if (!code)
        code = sonar_cuda_alloc("dft", spec->length, &dft->taper, err);
    if (!code)
        code = sonar_cuda_alloc("dft", spec->in_place ? 0 : spec->channels * spec->length,
                                &dft->staging, err);
    if (!code)
        code = sonar_cuda_alloc("dft", spec->sensors, &dft->source, err);
    if (!code)
        code = sonar_cuda_alloc("dft", spec->channels, &dft->gap_count, err);
    if (!code)
        code = sonar_cuda_alloc("dft", spec->channels * SONAR_GAPS_MOST, &dft->gap, err);
    if (!code)
        code = make_taper(dft, err);
    if (!code)
        code = CUDA_CHECK("dft", cudaFuncGetAttributes(&attributes, clear_masked), err);
    if (!code)
        code = choose_path(dft, err);
    if (code)
        return code;
    return dft->is_fused ? make_fused(dft, err) : make_batches(dft, err);
}

static void dft_destroy(void *stage) {
    struct dft *dft = (struct dft *)stage;
    if (!dft)
        return;
    if (dft->planned)
        cufftDestroy(dft->plan);
    cudaFree(dft->work);
    cudaFree(dft->taper);
    cudaFree(dft->staging);
    cudaFree(dft->time);
    cudaFree(dft->spectrum);
    cudaFree(dft->source);
    cudaFree(dft->gap_count);
    cudaFree(dft->gap);
    cudaFree(dft->tables);
    free(dft->host_source);
    free(dft);
}

static sonar_code dft_create(const void *spec, const sonar_host *, void **stage, sonar_error *err) {
    *stage = NULL;
    sonar_code code = check_spec((const sonar_dft_spec *)spec, err);
    if (code)
        return code;
    struct dft *dft = (struct dft *)sonar_alloc(1, sizeof *dft);
    if (!dft)
        return sonar_fail(err, SONAR_ENOMEM, "dft", "no memory for the stage");
    dft->spec = *(const sonar_dft_spec *)spec;
    code = make(dft, err);
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

/* Address at which the device reads a part: in place, or in the staging buffer at `offset`. */
static sonar_code fetch(struct dft *dft, const sonar_buffer *in, size_t offset, const void **data,
                        ptrdiff_t *row, cudaStream_t stream, sonar_error *err) {
    size_t samples = samples_of(in), length = dft->spec.length, first = dft->first_channel;
    *data = in->data;
    *row = in->stride[0];
    if (samples == 0 || sonar_cuda_in_place(in->space))
        return SONAR_OK;
    if (dft->spec.in_place)
        return sonar_fail(err, SONAR_EINVAL, "dft",
                          "samples are in host memory, but there is no staging buffer");
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

/* Copies the gaps of the used channels. The source is pageable memory, which has been read when the
 * call returns. A call with gaps is never recorded in a graph. */
static sonar_code fetch_gaps(struct dft *dft, const sonar_work *work, struct input *at,
                             cudaStream_t stream, sonar_error *err) {
    const sonar_gaps *gaps = work->gaps;
    size_t first = dft->first_channel, most = SONAR_GAPS_MOST;
    if (!gaps)
        return SONAR_OK;
    at->gap_count = dft->gap_count;
    at->gap = dft->gap;
    at->gaps_from = (uint32_t)work->offset;
    CUDA_TRY("dft",
             cudaMemcpyAsync(dft->gap_count + first, gaps->count + first,
                             dft->channels * sizeof *gaps->count, cudaMemcpyHostToDevice, stream),
             err);
    return CUDA_CHECK("dft",
                      cudaMemcpyAsync(dft->gap + first * most, gaps->gap + first * most,
                                      dft->channels * most * sizeof *gaps->gap,
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
    sonar_code code = fetch_gaps(dft, work, at, stream, err);
    if (!code)
        code = fetch(dft, head, 0, &at->head, &at->head_row, stream, err);
    return code ? code
                : fetch(dft, &in[SONAR_DFT_TAIL], at->cut, &at->tail, &at->tail_row, stream, err);
}

static sonar_code run_fused(const struct dft *dft, const struct input *in, bool in_s16,
                            sonar_buffer *out, cudaStream_t stream, sonar_error *err) {
    size_t length = dft->spec.length;
    uint32_t points = (uint32_t)length / 2, tile = fused_groups(points) * dft->fused.rounds;
    fused_function fused_rows_of =
        in_s16 ? fused_kernel<int16_t>(length) : fused_kernel<float>(length);
    fused_rows_of<<<(unsigned)((dft->used + tile - 1) / tile), fused_threads(points),
                    fused_bytes(points, dft->fused.bins, dft->fused.rounds), stream>>>(
        *in, dft->source, (uint32_t)dft->used, dft->fused, (float2 *)out->data, out->stride[0]);
    return CUDA_LAUNCHED("dft", "fused_rows", err);
}

static sonar_code transform(struct dft *dft, const struct input *in, bool in_s16, size_t first,
                            sonar_buffer *out, cudaStream_t stream, sonar_error *err) {
    const sonar_dft_spec *spec = &dft->spec;
    uint32_t count = (uint32_t)sonar_min_size(dft->used - first, dft->batch);
    auto *taper_rows_of = in_s16 ? taper_rows<int16_t> : taper_rows<float>;
    taper_rows_of<<<(unsigned)dft->batch, WINDOW_THREADS, 0, stream>>>(
        *in, dft->source + first, count, dft->taper, spec->remove_mean, dft->time);
    sonar_code code = CUDA_LAUNCHED("dft", "taper_rows", err);
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
    size_t masked = dft->spec.sensors - dft->used, count = masked * dft->spec.bins;
    clear_masked<<<(unsigned)((count + CLEAR_THREADS - 1) / CLEAR_THREADS), CLEAR_THREADS, 0,
                   stream>>>(dft->source + dft->used, masked, count, (float2 *)out->data,
                             out->stride[0]);
    return CUDA_LAUNCHED("dft", "clear_masked", err);
}

/* Sets the stream of cuFFT's plan, if possible not while a graph is recorded. */
static sonar_code use_stream(struct dft *dft, cudaStream_t stream, sonar_error *err) {
    if (dft->stream != stream)
        FFT_TRY(cufftSetStream(dft->plan, stream), err);
    dft->stream = stream;
    return SONAR_OK;
}

static sonar_code run_batches(struct dft *dft, const struct input *in, bool in_s16,
                              sonar_buffer *out, cudaStream_t stream, sonar_error *err) {
    sonar_code code = use_stream(dft, stream, err);
    for (size_t first = 0; first < dft->used && !code; first += dft->batch)
        code = transform(dft, in, in_s16, first, out, stream, err);
    return code;
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
    code = locate(dft, in, work, &at, stream, err);
    if (code)
        return code;
    bool in_s16 = in[SONAR_DFT_HEAD].dtype == SONAR_S16;
    return dft->is_fused ? run_fused(dft, &at, in_s16, out, stream, err)
                         : run_batches(dft, &at, in_s16, out, stream, err);
}

extern "C" const sonar_stage_ops sonar_dft_cuda = {"dft", dft_create,  dft_execute, NULL,
                                                   NULL,  dft_destroy, NULL};
