/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the paths of the GPU's beamformer share: a pass over the input, cut into items, and complex
 * arithmetic in registers.
 */
#ifndef SONAR_CBF_PASS_CUDA_CUH
#define SONAR_CBF_PASS_CUDA_CUH

#include "cbf/cbf.h"
#include "cbf/form.h"
#include "core/cuda_common.cuh"

#include <cuda_pipeline.h>

enum {
    LANES = 32,
    STEPS = 7,    /* i */
    SEGMENTS = 8, /* m */
    SLOTS = STEPS * SEGMENTS,
    PAIR_STEPS = 7,
    PAIR_SEGMENTS = 4,
    PAIR_SLOTS = PAIR_STEPS * PAIR_SEGMENTS, /* slots of each of two points */
    PAIR_ROW = PAIR_SLOTS + 1,
    COLUMNS = 28,
    COLUMN_ROW = COLUMNS + 2,
    LINE_LEAST =
        1024,        /* number of sensors from which a line's far field pays beside a near field */
    TILE = 8,        /* sensors in shared memory at a time, per warp */
    ROW = SLOTS + 2, /* padded against bank conflicts, whole 16 bytes */
    FIELDS = 2,      /* far and near field */
    SUM_WARPS = 4,   /* warps of a thread block that sums over the sensors */
    FINISH_WARPS = 8,
    RESIDENT_WARPS = 12, /* warps of a multiprocessor, at 168 registers a thread */
    TRANSPOSE = 32,
    WAVES_MOST = 8, /* thread blocks per place on the device, at most */
    STAGING_BYTES = 32 << 20,
    GRID_ROWS = 32768,
};

/* A run of at most SLOTS or PAIR_SLOTS bins, counted from the input's first; segments is 2, 4, 6 or
 * 8. */
struct block {
    uint32_t first, bins, segments;
};

/* Where a part of an array's y is stored, [snapshot][bin][point]; NULL: powers are computed
 * instead. */
struct part {
    float2 *y;
    uint32_t first, bins; /* counted from the input's first */
    size_t points;
    double scale; /* factor of sum g conj(a) X */

    __device__ void keep(uint32_t snapshot, uint32_t bin, uint32_t point, double re,
                         double im) const {
        y[((size_t)snapshot * bins + bin - first) * points + point] =
            make_float2((float)(scale * re), (float)(scale * im));
    }
};

/* Look points that take the same bins. */
struct field {
    const uint64_t *turns;
    const struct mirror *mirror; /* [points], or NULL: each lane is one point without an image */
    size_t sensor_stride, point_stride; /* in elements */
    uint32_t points, groups;            /* points or mirrored pairs; groups of 32 of them */
    uint32_t first_block, blocks;       /* of the list of blocks */
    uint32_t first_item;                /* items: [block][group], field by field */
    float *energy;                      /* [point], or NULL: not wanted */
    struct part part;
};

/* One pass over one snapshot of the input, passed by value to the kernels. */
struct pass {
    struct field field[FIELDS];
    const struct block *block;
    const float2 *x; /* [bin][sensor] */
    size_t x_row;
    float4 *folded; /* [bin][pair of sensors]: sum, difference */
    size_t folded_row;
    const float *shading;
    uint32_t sensors, share; /* share: sensors or pairs of one warp */
    uint32_t fold_first, fold_bins;
    uint32_t first_bin, items, chunks;
    float2 *partial; /* [chunk][item][slot][lane] */
    double *
        power; /* [item][slot][lane], sum over the snapshots so far; unused for a single snapshot */
    uint32_t snapshot;
    bool first_snapshot, last_snapshot;
    double *energy; /* [item][lane] */
    float *lofar;   /* [bin][direction] of field 0, or NULL */
    size_t lofar_row;
    uint32_t band_first, band_blocks; /* blocks of the band */
    double power_scale, bin_hz;
};

struct place {
    const struct field *field;
    uint32_t block, group;
};

__device__ inline struct place place_of(const struct pass &pass, uint32_t item) {
    const struct field *field = &pass.field[item >= pass.field[1].first_item];
    uint32_t local = item - field->first_item;
    return {field, field->first_block + local / field->groups, local % field->groups};
}

__device__ inline float2 times(float2 a, float2 b) {
    return make_float2(fmaf(a.x, b.x, -a.y * b.y), fmaf(a.x, b.y, a.y * b.x));
}

__device__ inline void add_product(float2 w, float2 x, float2 &sum) {
    sum.x = fmaf(w.x, x.x, sum.x);
    sum.y = fmaf(w.x, x.y, sum.y);
    sum.x = fmaf(-w.y, x.y, sum.x);
    sum.y = fmaf(w.y, x.x, sum.y);
}

/* Computes w(m+1) from w(m), which becomes w(m-1). */
__device__ inline void next_segment(float twice_cos, float2 &before, float2 &w) {
    float2 next = make_float2(fmaf(twice_cos, w.x, -before.x), fmaf(twice_cos, w.y, -before.y));
    before = w;
    w = next;
}

/* Adds the warps' sums through shared memory, in halves: of four warps (0 + 2) + (1 + 3). */
__device__ inline void add_warps(float2 (&sum)[SLOTS], float2 *shared) {
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
#pragma unroll
    for (uint32_t half = SUM_WARPS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (warp >= half && warp < 2 * half)
#pragma unroll
            for (int j = 0; j < SLOTS; j++)
                shared[((warp - half) * SLOTS + j) * LANES + lane] = sum[j];
        __syncthreads();
        if (warp < half)
#pragma unroll
            for (int j = 0; j < SLOTS; j++) {
                float2 other = shared[(warp * SLOTS + j) * LANES + lane];
                sum[j].x += other.x;
                sum[j].y += other.y;
            }
    }
}

/* The look point of a lane, or with mirrored points that of half `image`; NO_POINT if it has
 * none. */
__device__ inline uint32_t point_of(const struct field &field, uint32_t index, uint32_t image) {
    if (index >= field.points)
        return NO_POINT;
    if (!field.mirror)
        return index;
    return image ? field.mirror[index].image : field.mirror[index].point;
}

#endif
