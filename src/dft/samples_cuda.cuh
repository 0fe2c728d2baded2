/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What both ways through the GPU's DFT share: where samples are, means, corrections. */
#ifndef SONAR_DFT_SAMPLES_CUDA_CUH
#define SONAR_DFT_SAMPLES_CUDA_CUH

#include "core/cuda_common.cuh"

/* One used sensor. Its bins are multiplied by gain * exp(+j 2 pi (phase + bin * step)). */
struct source {
    uint64_t phase, step; /* turns, 2^64 = one */
    uint32_t sensor, channel;
    float gain;
};

/* The window's samples on the device, f32 or s16. The head of channel c begins at sample `c *
 * head_row` and holds the first `cut` samples; the tail holds the others. Or the head is a ring. */
struct input {
    const void *head, *tail;
    ptrdiff_t head_row, tail_row;
    size_t cut, length;
    const uint64_t *column;    /* NULL, or the head is a ring... */
    size_t offset, capacity;   /* ...and the window at *column + offset; offset < capacity */
    const uint32_t *gap_count; /* NULL, or as in sonar_gaps; on the device... */
    const sonar_gap *gap;
    uint32_t gaps_from; /* ...first sample of this transform, in the numbering of the gaps */
};

/* ---- samples --------------------------------------------------------------------------------- */

/* One channel's samples: sample i is in the head if i < `cut`, else in the tail. */
template <typename T> struct row {
    const T *head, *tail;
    uint32_t cut;
    __device__ T operator[](uint32_t i) const { return i < cut ? head[i] : tail[i]; }
};

/* The ring's column of the window's first sample. */
__device__ inline size_t start_of(const struct input &in) {
    if (!in.column)
        return 0;
    size_t start = *in.column % in.capacity + in.offset;
    return start < in.capacity ? start : start - in.capacity;
}

template <typename T>
__device__ inline struct row<T> row_of(const struct input &in, size_t start, ptrdiff_t channel) {
    const T *head = (const T *)in.head + channel * in.head_row;
    if (!in.column)
        return {head, (const T *)in.tail + channel *in.tail_row - (ptrdiff_t)in.cut,
                (uint32_t)in.cut};
    size_t left = in.capacity - start;
    return {head + start, head + start - in.capacity,
            (uint32_t)(left < in.length ? left : in.length)};
}

/* ---- gaps ------------------------------------------------------------------------------------ */

/* The gaps of one channel. */
struct lost {
    const sonar_gap *gap;
    uint32_t count, from, length;

    /* The part of a gap that lies within the transform; empty: end <= begin. */
    __device__ sonar_gap operator[](uint32_t i) const {
        uint32_t end = from + length;
        uint32_t last = gap[i].end < end ? gap[i].end : end;
        uint32_t first = gap[i].begin > from ? gap[i].begin : from;
        return {first - from, last > first ? last - from : first - from};
    }
    __device__ uint32_t samples() const {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < count; i++)
            sum += (*this)[i].end - (*this)[i].begin;
        return sum;
    }
};

__device__ inline struct lost lost_of(const struct input &in, uint32_t channel) {
    if (!in.gap_count)
        return {};
    return {in.gap + (size_t)channel * SONAR_GAPS_MOST, in.gap_count[channel], in.gaps_from,
            (uint32_t)in.length};
}

/* ---- means ----------------------------------------------------------------------------------- */

/* A mean as a float and the remainder: (x - high) - low is as accurate as a difference in double
 * precision that is then rounded, because x - high is exact if x is close to the mean. */
struct mean {
    float high, low;
};

__device__ inline struct mean mean_of(double mean) {
    float high = (float)mean;
    return {high, (float)(mean - (double)high)};
}

__device__ inline float tapered(float x, struct mean mean, float taper) {
    return __fmul_rn(x - mean.high - mean.low, taper);
}

/* ---- bins ------------------------------------------------------------------------------------ */

__device__ inline float2 to_unit(float2 y) {
    float size = hypotf(y.x, y.y);
    return size > 0 ? make_float2(y.x / size, y.y / size) : y;
}

/* The one-sided density counts every bin twice, except bins that are their own mirror image. */
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

#endif
