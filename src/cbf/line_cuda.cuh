/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The far field of a uniform line, where the weights factorise: sensor k1 + span k2 has the weight
 * of k1 times that of span k2. A lane keeps the sums of 28 columns k2 of one bin in registers. One
 * weight, rotated from k1 to k1 + 1, thus serves 28 sensors. The mirrored point has the conjugate
 * weight, so it uses the same products. This takes 2 multiply-adds per sensor, point and bin. At
 * the end the columns are added with their phases.
 */
#ifndef SONAR_CBF_LINE_CUDA_CUH
#define SONAR_CBF_LINE_CUDA_CUH

#include "cbf/pass_cuda.cuh"

/* Passed by value to the kernels below. `field` is the far field; its mirror list is never NULL. */
struct line_pass {
    struct field field;
    const float2 *x; /* [bin][sensor] */
    size_t x_row;
    const float *shading;
    uint32_t sensors, span; /* span: sensors of a column, COLUMNS * span >= sensors */
    uint32_t input_bin;     /* absolute number of the input's first bin */
    uint32_t first, bins;   /* bins of this pass, counted from the input's first */
    uint32_t band_first, band_bins;
    uint32_t snapshot;
    bool first_snapshot, last_snapshot;
    double *energy; /* [bin][point, image][groups * LANES], of the snapshots so far */
    float *lofar;   /* [bin][direction], or NULL */
    size_t lofar_row;
    double power_scale, bin_hz;
};

/* Tiles of one warp, double buffered. */
struct columns {
    float2 x[2][TILE][COLUMN_ROW];
    float gain[2][TILE][COLUMNS];
};

/* Starts copying TILE sensors from `first` on of every column; sensors that do not exist are
 * zero. */
__device__ inline void load_columns(const struct line_pass &pass, const float2 *x, uint32_t first,
                                    uint32_t end, struct columns *to, uint32_t which) {
    uint32_t lane = threadIdx.x % LANES, s = lane % TILE;
#pragma unroll
    for (uint32_t c = lane / TILE; c < COLUMNS; c += LANES / TILE) {
        uint32_t k = first + s + c * pass.span;
        bool there = first + s < end && k < pass.sensors;
        k = there ? k : 0;
        __pipeline_memcpy_async(&to->x[which][s][c], x + k, sizeof(float2),
                                there ? 0 : sizeof(float2));
        __pipeline_memcpy_async(&to->gain[which][s][c], pass.shading + k, sizeof(float),
                                there ? 0 : sizeof(float));
    }
    __pipeline_commit();
}

/* Each lane shades the samples that it copied. */
__device__ inline void shade_columns(struct columns *columns, uint32_t which) {
    uint32_t lane = threadIdx.x % LANES, s = lane % TILE;
#pragma unroll
    for (uint32_t c = lane / TILE; c < COLUMNS; c += LANES / TILE) {
        float g = columns->gain[which][s][c];
        float2 &x = columns->x[which][s][c];
        x = make_float2(g * x.x, g * x.y);
    }
}

/* Products of one weight w with one sensor of every column. The sums of re re, im im, re im and im
 * re are kept apart, so that they serve both w and conj(w). */
__device__ inline void add_columns(float2 w, const float2 *x, float4 (&sum)[COLUMNS]) {
#pragma unroll
    for (uint32_t c = 0; c < COLUMNS; c += 2) {
        float4 two = *(const float4 *)&x[c];
        sum[c].x = fmaf(w.x, two.x, sum[c].x);
        sum[c].y = fmaf(w.y, two.y, sum[c].y);
        sum[c].z = fmaf(w.x, two.y, sum[c].z);
        sum[c].w = fmaf(w.y, two.x, sum[c].w);
        sum[c + 1].x = fmaf(w.x, two.z, sum[c + 1].x);
        sum[c + 1].y = fmaf(w.y, two.w, sum[c + 1].y);
        sum[c + 1].z = fmaf(w.x, two.w, sum[c + 1].z);
        sum[c + 1].w = fmaf(w.y, two.z, sum[c + 1].w);
    }
}

/* conj(a) of a sensor relative to that of sensor 0. */
__device__ inline float2 line_weight(const struct line_pass &pass, const uint64_t *turns,
                                     uint32_t sensor, uint32_t bin) {
    const uint64_t *own = turns + min(sensor, pass.sensors - 1) * pass.field.sensor_stride;
    return sonar_cuda_phasor(sonar_cuda_phase(*turns - *own, bin));
}

/* Adds sensors first <= k1 < end of all columns; weights are exact once a tile. */
__device__ inline void sum_columns(const struct line_pass &pass, const float2 *x,
                                   const uint64_t *turns, uint32_t bin, uint32_t first,
                                   uint32_t end, struct columns *columns, float4 (&sum)[COLUMNS]) {
    if (first >= end)
        return;
    const float2 step = line_weight(pass, turns, 1, bin);
    load_columns(pass, x, first, end, columns, 0);
    for (uint32_t k = first, which = 0; k < end; k += TILE, which ^= 1) {
        uint32_t count = min(end - k, (uint32_t)TILE);
        float2 w = line_weight(pass, turns, k, bin);
        if (k + TILE < end)
            load_columns(pass, x, k + TILE, end, columns, which ^ 1);
        else
            __pipeline_commit();
        __pipeline_wait_prior(1);
        shade_columns(columns, which);
        __syncwarp();
#pragma unroll 1
        for (uint32_t s = 0; s < count; s++) {
            add_columns(w, columns->x[which][s], sum);
            w = times(w, step);
        }
        __syncwarp();
    }
}

/* Adds the columns with their phases, of which every seventh is exact: beams of the point and of
 * its image. */
__device__ inline void join_columns(const struct line_pass &pass, const uint64_t *turns,
                                    uint32_t bin, const float4 (&sum)[COLUMNS], float2 &point,
                                    float2 &image) {
    const float2 step = line_weight(pass, turns, pass.span, bin);
    float2 v = make_float2(1, 0);
    point = image = make_float2(0, 0);
#pragma unroll
    for (uint32_t c = 0; c < COLUMNS; c++) {
        if (c && c % 7 == 0)
            v = line_weight(pass, turns, c * pass.span, bin);
        float4 z = sum[c];
        add_product(v, make_float2(z.x - z.y, z.z + z.w), point);
        add_product(make_float2(v.x, -v.y), make_float2(z.x + z.y, z.z - z.w), image);
        v = times(v, step);
    }
}

/* The weights of the sums are relative to sensor 0. A power does not depend on sensor 0's own
 * weight; a part does, so it is applied here. */
__device__ inline void keep_line_part(const struct line_pass &pass, uint32_t row, uint32_t point,
                                      double re, double im) {
    uint64_t own = pass.field.turns[point];
    float2 a = sonar_cuda_phasor(sonar_cuda_phase(0 - own, pass.input_bin + row));
    pass.field.part.keep(pass.snapshot, row, point, (double)a.x * re - (double)a.y * im,
                         (double)a.x * im + (double)a.y * re);
}

/* Grid: bins x groups of points, the groups of a bin side by side. */
static __global__ void __launch_bounds__(SUM_WARPS *LANES, RESIDENT_WARPS / SUM_WARPS)
    sum_line(const __grid_constant__ line_pass pass) {
    __shared__ __align__(16) struct columns columns[SUM_WARPS];
    __shared__ float2 beam[2][SUM_WARPS][LANES];
    static_assert(SUM_WARPS >= 2, "one warp for the points, one for their images");
    const struct field &field = pass.field;
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    uint32_t row = pass.first + blockIdx.x / field.groups;
    uint32_t index = blockIdx.x % field.groups * LANES + lane, bin = pass.input_bin + row;
    struct mirror mirror = field.mirror[min(index, field.points - 1)];
    const uint64_t *turns = field.turns + mirror.point;
    uint32_t share = (pass.span + SUM_WARPS - 1) / SUM_WARPS, first = warp * share;
    float4 sum[COLUMNS];
#pragma unroll
    for (uint32_t c = 0; c < COLUMNS; c++)
        sum[c] = make_float4(0, 0, 0, 0);
    sum_columns(pass, pass.x + row * pass.x_row, turns, bin, first, min(first + share, pass.span),
                &columns[warp], sum);
    join_columns(pass, turns, bin, sum, beam[0][warp][lane], beam[1][warp][lane]);
    __syncthreads();
    if (warp > 1)
        return;
    double re = 0, im = 0; /* warp 0: the points, warp 1: their images */
    for (uint32_t i = 0; i < SUM_WARPS; i++) {
        re += (double)beam[warp][i][lane].x;
        im += (double)beam[warp][i][lane].y;
    }
    uint32_t point = warp ? mirror.image : mirror.point;
    if (field.part.y) {
        if (index < field.points && point != NO_POINT)
            keep_line_part(pass, row, point, re, im);
        return;
    }
    double power = pass.power_scale * (re * re + im * im);
    double *energy = pass.energy + ((size_t)row * 2 + warp) * field.groups * LANES + index;
    if (!pass.first_snapshot)
        power += *energy;
    *energy = power;
    if (pass.last_snapshot && pass.lofar && index < field.points && point != NO_POINT)
        pass.lofar[row * pass.lofar_row + point] = (float)power;
}

/* Grid: groups x 2, the points and their images. (fs/N) sum over the band. */
static __global__ void __launch_bounds__(FINISH_WARPS *LANES)
    finish_line(const __grid_constant__ line_pass pass) {
    __shared__ double shared[FINISH_WARPS][LANES];
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    uint32_t index = blockIdx.x * LANES + lane, lanes = pass.field.groups * LANES;
    const double *from = pass.energy + ((size_t)pass.band_first * 2 + blockIdx.y) * lanes + index;
    double sum = 0;
#pragma unroll 8
    for (uint32_t b = warp; b < pass.band_bins; b += FINISH_WARPS)
        sum += from[(size_t)b * 2 * lanes];
    shared[warp][lane] = sum;
    __syncthreads();
    if (warp > 0)
        return;
    for (uint32_t i = 1; i < FINISH_WARPS; i++)
        sum += shared[i][lane];
    uint32_t point = point_of(pass.field, index, blockIdx.y);
    if (point != NO_POINT)
        pass.field.energy[point] = (float)(pass.bin_hz * sum);
}

#endif
