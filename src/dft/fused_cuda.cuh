/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The DFT of power-of-two lengths as one kernel: samples in, corrected bins out, and nothing in
 * between leaves the thread block. Pairs of real samples are taken as complex points, half as many;
 * length / 32 threads transform one sensor.
 */
#ifndef SONAR_DFT_FUSED_CUDA_CUH
#define SONAR_DFT_FUSED_CUDA_CUH

#include "dft/fft_cuda.cuh"
#include "dft/samples_cuda.cuh"

enum { FUSED_LEAST_THREADS = 256, FUSED_THREADS_EACH_SM = 1024, FUSED_BANKS = 16 };
enum { FUSED_STATIC = 1024 }; /* shared memory that the kernel itself takes, in bytes, at most */

/* What the kernel needs besides samples and sensors. In each of its `rounds`, a power of two, a
 * thread block transforms as many sensors as fit side by side. Neighbours in a row of the output
 * are then written together. */
struct fused {
    const float2 *taper;    /* the window function, [length / 2] pairs */
    const float2 *twiddle;  /* fft_twiddles() */
    const float2 *untangle; /* [bin] exp(-j 2 pi bin / length) */
    uint32_t first_bin, bins, rounds;
    bool remove_mean, equalise;
};

/* ---- the thread block ------------------------------------------------------------------------ */

__host__ __device__ constexpr uint32_t fused_threads(uint32_t points) {
    return points > FUSED_LEAST_THREADS * FFT_MINE ? points / FFT_MINE
                                                   : (uint32_t)FUSED_LEAST_THREADS;
}

/* Sensors that a thread block transforms side by side. */
__host__ __device__ constexpr uint32_t fused_groups(uint32_t points) {
    return fused_threads(points) / (points / FFT_MINE);
}

/* Points of shared memory for one sensor, such that the same bins of neighbours lie in different
 * banks. */
__host__ __device__ constexpr uint32_t fused_room(uint32_t points) {
    uint32_t groups = fused_groups(points);
    uint32_t whole = (fft_padded(points) + FUSED_BANKS - 1) / FUSED_BANKS * FUSED_BANKS;
    return whole + (groups > FUSED_BANKS ? 1 : FUSED_BANKS / groups);
}

/* Bytes of shared memory: the points, and the kept bins that wait for later rounds. */
static size_t fused_bytes(uint32_t points, uint32_t bins, uint32_t rounds) {
    size_t kept = rounds > 1 ? (size_t)bins * rounds : 0;
    return fused_groups(points) * (fused_room(points) + kept) * sizeof(float2);
}

/* ---- samples --------------------------------------------------------------------------------- */

/* Two neighbouring samples, and a type in which the sum of all samples of the longest transform is
 * exact, or nearly. */
template <typename T> struct pairs;
template <> struct pairs<float> {
    typedef float2 type;
    typedef double sum;
};
template <> struct pairs<int16_t> {
    typedef short2 type;
    typedef int sum;
};

/* Samples are read only once and must not evict the tables from the L1 cache. */
__device__ inline float2 read_pair(const float *at) {
    float2 pair;
    asm("ld.global.L1::no_allocate.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "l"(at));
    return pair;
}

__device__ inline short2 read_pair(const int16_t *at) {
    short2 pair;
    asm("ld.global.L1::no_allocate.v2.s16 {%0, %1}, [%2];" : "=h"(pair.x), "=h"(pair.y) : "l"(at));
    return pair;
}

/* True if samples 2 i and 2 i + 1 can be read together. */
template <typename T> __device__ inline bool is_paired(const struct row<T> &row, uint32_t length) {
    size_t misfit = (size_t)row.head % (2 * sizeof(T));
    if (row.cut < length)
        misfit |= (size_t)row.tail % (2 * sizeof(T)) | row.cut % 2;
    return misfit == 0;
}

template <typename T, int POINTS>
__device__ inline void read_samples(const struct row<T> &row, uint32_t t,
                                    typename pairs<T>::type (&raw)[FFT_MINE]) {
    constexpr uint32_t STEP = 2 * (POINTS / FFT_MINE), LENGTH = 2 * POINTS;
    if (!is_paired(row, LENGTH)) {
#pragma unroll
        for (uint32_t m = 0; m < FFT_MINE; m++) {
            uint32_t i = 2 * t + STEP * m;
            raw[m] = {row[i], row[i + 1]};
        }
    } else if (row.cut < LENGTH) {
#pragma unroll
        for (uint32_t m = 0; m < FFT_MINE; m++) {
            uint32_t i = 2 * t + STEP * m;
            raw[m] = read_pair((i < row.cut ? row.head : row.tail) + i);
        }
    } else {
#pragma unroll
        for (uint32_t m = 0; m < FFT_MINE; m++)
            raw[m] = read_pair(row.head + 2 * t + STEP * m);
    }
}

/* Sum over the threads of a sensor, in a fixed order; all of them get it. Every thread of the block
 * must call it, and must pass a barrier before it calls it again. */
template <uint32_t THREADS, typename T> __device__ inline T group_sum(T value) {
    constexpr uint32_t WARP = 32;
    __shared__ T shared[1024 / WARP];
#pragma unroll
    for (uint32_t other = (THREADS < WARP ? THREADS : WARP) / 2; other > 0; other /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, other);
    if constexpr (THREADS > WARP) {
        if (threadIdx.x % WARP == 0)
            shared[threadIdx.x / WARP] = value;
        __syncthreads();
        const T *first = shared + threadIdx.x / THREADS * (THREADS / WARP);
        value = first[0];
        for (uint32_t warp = 1; warp < THREADS / WARP; warp++)
            value += first[warp];
    }
    return value;
}

/* Which of this thread's samples are missing: bits 2 m and 2 m + 1 for its pair m. Computed twice
 * rather than kept, because the registers are full and gaps are rare. */
template <int POINTS> __device__ inline uint32_t lost_pairs(const struct lost &lost, uint32_t t) {
    constexpr uint32_t STEP = 2 * (POINTS / FFT_MINE);
    uint32_t bits = 0;
    for (uint32_t i = 0; i < lost.count; i++) {
        sonar_gap gap = lost[i];
        uint32_t samples = gap.end - gap.begin;
        for (uint32_t m = 0; m < FFT_MINE; m++) {
            uint32_t first = 2 * t + STEP * m - gap.begin; /* wraps around below the gap */
            bits |= (uint32_t)(first < samples) << 2 * m;
            bits |= (uint32_t)(first + 1 < samples) << (2 * m + 1);
        }
    }
    return bits;
}

template <int POINTS, typename Pair>
__device__ inline void clear_lost(const struct lost &lost, uint32_t t, Pair (&v)[FFT_MINE]) {
    uint32_t bits = lost_pairs<POINTS>(lost, t);
#pragma unroll
    for (uint32_t m = 0; m < FFT_MINE; m++) {
        if (bits >> 2 * m & 1)
            v[m].x = 0;
        if (bits >> (2 * m + 1) & 1)
            v[m].y = 0;
    }
}

/* This thread's points, with the mean subtracted, times the taper. */
template <typename T, int POINTS>
__device__ inline void read_points(const struct input &in, size_t start, uint32_t channel,
                                   uint32_t t, const struct fused &plan, float2 (&v)[FFT_MINE]) {
    constexpr uint32_t THREADS = POINTS / FFT_MINE;
    typename pairs<T>::type raw[FFT_MINE];
    struct mean mean = {};
    read_samples<T, POINTS>(row_of<T>(in, start, channel), t, raw);
    if (in.gap_count)
        clear_lost<POINTS>(lost_of(in, channel), t, raw);
    if (plan.remove_mean) {
        typename pairs<T>::sum first = 0, second = 0;
#pragma unroll
        for (uint32_t m = 0; m < FFT_MINE; m++) {
            first += raw[m].x;
            second += raw[m].y;
        }
        double share = .5 / POINTS;
        if (in.gap_count) /* without samples it is 0 */
            share = 1. / (double)max(2 * POINTS - lost_of(in, channel).samples(), 1u);
        mean = mean_of((double)group_sum<THREADS>(first + second) * share);
    }
#pragma unroll
    for (uint32_t m = 0; m < FFT_MINE; m++) {
        float2 taper = __ldg(plan.taper + t + THREADS * m);
        v[m] = make_float2(tapered(raw[m].x, mean, taper.x), tapered(raw[m].y, mean, taper.y));
    }
    if (in.gap_count)
        clear_lost<POINTS>(lost_of(in, channel), t, v);
}

/* ---- the transform --------------------------------------------------------------------------- */

/* All passes from transforms of S points on. At the first barrier all threads have read what shared
 * memory held before, from the last pass or round; at the second all have written. */
template <int POINTS, int S>
__device__ inline void transform_points(float2 (&v)[FFT_MINE], uint32_t t, const float2 *twiddle,
                                        float2 *shared) {
    constexpr int LONGER = S * fft_radix(POINTS, S);
    fft_pass<POINTS, S>(v, (int)t, twiddle);
    __syncthreads();
    if constexpr (LONGER < POINTS) {
        fft_scatter<POINTS, S>(v, (int)t, shared);
        __syncthreads();
        fft_gather<POINTS>(v, (int)t, shared);
        transform_points<POINTS, LONGER>(v, t, twiddle, shared);
    } else {
        fft_place<POINTS>(v, (int)t, shared);
        __syncthreads();
    }
}

/* ---- bins ------------------------------------------------------------------------------------ */

/* Writes the kept bins of one round; neighbouring threads write those of neighbouring sensors. `to`
 * is the first sensor's first bin; its bins are `row` apart. */
template <int POINTS>
__device__ inline void write_round(const float2 *shared, const struct source *source,
                                   uint32_t sources, const struct fused &plan, float2 *kept,
                                   uint32_t kept_row, float2 *out, ptrdiff_t out_row) {
    constexpr uint32_t GROUPS = fused_groups(POINTS), THREADS = POINTS / FFT_MINE;
    uint32_t group = threadIdx.x % GROUPS;
    if (group >= sources)
        return;
    const float2 *z = shared + group * fused_room(POINTS);
    struct source mine = source[group];
    for (uint32_t b = threadIdx.x / GROUPS; b < plan.bins; b += THREADS) {
        uint32_t bin = plan.first_bin + b;
        float2 x = fft_untangle(z[fft_padded(bin % POINTS)], z[fft_padded((POINTS - bin) % POINTS)],
                                plan.untangle[b]);
        float2 y = correct(x, mine, bin, 2 * POINTS, plan.equalise);
        if (plan.rounds > 1)
            kept[b * kept_row + group] = y;
        else
            out[(ptrdiff_t)b * out_row + mine.sensor] = y;
    }
}

/* Writes what all rounds of this thread block have kept. */
static __device__ inline void write_kept(const float2 *kept, uint32_t tile,
                                         const struct source *source, uint32_t sources,
                                         uint32_t bins, float2 *out, ptrdiff_t out_row) {
    uint32_t k = threadIdx.x % tile;
    if (k >= sources)
        return;
    float2 *to = out + source[k].sensor;
    for (uint32_t b = threadIdx.x / tile; b < bins; b += blockDim.x / tile)
        to[(ptrdiff_t)b * out_row] = kept[b * tile + k];
}

/* ---- the kernel ------------------------------------------------------------------------------ */

/* A block of fused_threads() takes the next fused_groups() * rounds sensors. If there are no more,
 * it repeats the last one without writing it, because every thread must meet every barrier. */
template <typename T, int POINTS>
static __global__ void __launch_bounds__(fused_threads(POINTS),
                                         FUSED_THREADS_EACH_SM / fused_threads(POINTS))
    fused_rows(struct input in, const struct source *source, uint32_t sources, struct fused plan,
               float2 *out, ptrdiff_t out_row) {
    extern __shared__ float2 shared[];
    constexpr uint32_t GROUPS = fused_groups(POINTS), THREADS = POINTS / FFT_MINE;
    uint32_t group = threadIdx.x / THREADS, t = threadIdx.x % THREADS;
    uint32_t tile = GROUPS * plan.rounds, first = blockIdx.x * tile, left = sources - first;
    float2 *kept = shared + GROUPS * fused_room(POINTS);
    size_t start = start_of(in);
    source += first;
    for (uint32_t done = 0; done < tile; done += GROUPS) {
        float2 v[FFT_MINE];
        uint32_t k = done + group < left ? done + group : left - 1;
        read_points<T, POINTS>(in, start, source[k].channel, t, plan, v);
        transform_points<POINTS, 1>(v, t, plan.twiddle, shared + group * fused_room(POINTS));
        write_round<POINTS>(shared, source + done, left > done ? left - done : 0, plan, kept + done,
                            tile, out, out_row);
    }
    if (plan.rounds == 1)
        return;
    __syncthreads();
    write_kept(kept, tile, source, left, plan.bins, out, out_row);
}

/* The kernel for a length, or NULL if there is none. */
typedef void (*fused_function)(struct input, const struct source *, uint32_t, struct fused,
                               float2 *, ptrdiff_t);
template <typename T> static fused_function fused_kernel(size_t length) {
    switch (length) {
    case 256:
        return fused_rows<T, 128>;
    case 512:
        return fused_rows<T, 256>;
    case 1024:
        return fused_rows<T, 512>;
    case 2048:
        return fused_rows<T, 1024>;
    case 4096:
        return fused_rows<T, 2048>;
    case 8192:
        return fused_rows<T, 4096>;
    case 16384:
        return fused_rows<T, 8192>;
    case 32768:
        return fused_rows<T, 16384>;
    default:
        return NULL;
    }
}

#endif
