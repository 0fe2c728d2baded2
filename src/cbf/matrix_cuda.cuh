/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Many snapshots on tensor cores, for any geometry, in the far and the near field.
 *
 * A weight, once made, serves all snapshots. The sums are then a product of matrices, weights times
 * input. With conj(a) = C - jS it splits into two real products, Y.re = C x.re + S x.im and Y.im =
 * C x.im - S x.re. The tensor cores' m16n8k8 takes 16 points as rows, C of four sensors and S of
 * the same four as the eight columns of the one factor, and eight snapshots as columns of the
 * other, whose eight rows are x.re and x.im for Y.re, and x.im and -x.re for Y.im. With g = lane /
 * 4 and t = lane % 4 a lane then owns the weights of points g and g + 8 for sensor t and needs x of
 * sensor t and snapshot g: both are made and used in its own registers, and lanes exchange nothing.
 *
 * Tensor cores multiply numbers of 11 bits (TF32). Weights and input are split into two such parts,
 * big and small; big big + big small + small big has an error of float32 rounding. Tensor cores
 * also round sums more coarsely than float32, so they sum only MATRIX_STRETCH sensors before the
 * sum is added in memory.
 *
 * A warp has 16 points, 4 bins and 8 or 16 snapshots. For each point and sensor the weight of one
 * middle bin and the rotation from bin to bin come from exact turns; no chain is longer than two
 * rotations. The four warps of a thread block have different points and share the input, which is
 * shaded and split once on its way into shared memory, already in the order in which the lanes read
 * it. A second kernel adds the chunks of sensors in double precision and the snapshots' powers in
 * order.
 */
#ifndef SONAR_CBF_MATRIX_CUDA_CUH
#define SONAR_CBF_MATRIX_CUDA_CUH

#include "cbf/pass_cuda.cuh"

enum {
    MATRIX_BINS = 4,   /* bins of an item */
    MATRIX_MIDDLE = 1, /* index of the item's bin with exact weights */
    MATRIX_ROWS = 16,  /* points of a warp */
    MATRIX_WARPS = 4,
    MATRIX_POINTS = MATRIX_WARPS * MATRIX_ROWS,
    MATRIX_DEPTH = 4,                  /* sensors of one product */
    MATRIX_TILE = 16,                  /* sensors in shared memory at a time */
    MATRIX_COLUMNS = 8,                /* snapshots of one product */
    MATRIX_GROUPS = 2,                 /* most groups of snapshots that share a weight */
    MATRIX_STRETCH = 128,              /* sensors whose products the tensor cores sum */
    MATRIX_SUMS = MATRIX_BINS * 2 * 4, /* sums of a lane, for each group of snapshots */
    MATRIX_ITEMS = 2048,               /* most items times chunks whose partial sums are kept */
    MATRIX_LEAST =
        8 /* number of snapshots from which this path is faster, unless training finds another */
};

/* One pass over a slab of at most MATRIX_GROUPS groups of snapshots and of look points, passed by
 * value to the kernels. Groups of `field` have MATRIX_POINTS points. */
struct matrix_pass {
    struct field field;
    const struct block *block;
    uint32_t first_group, groups; /* of points; an item is a group and a block of bins */
    const float2 *x;              /* [snapshot][bin][sensor] */
    size_t x_snapshot, x_row;
    uint32_t done, snapshots; /* snapshots of earlier slabs, and of this one */
    bool first_snapshots, last_snapshots;
    const float *shading;
    uint32_t sensors, share, chunks; /* share: sensors of a chunk, whole tiles */
    uint32_t input_bin;              /* absolute number of the input's first bin */
    uint32_t first_bin;              /* first bin of the pass, counted from the input's first */
    float *partial;                  /* [chunk][item][bin, group, re or im, 4][thread] */
    double *power;                   /* [bin of the pass][groups * MATRIX_POINTS], sum so far */
    float *lofar;                    /* [bin][direction], or NULL */
    size_t lofar_row;
    uint32_t band_first, band_bins; /* counted from the pass's first */
    double power_scale, bin_hz;
};

struct matrix_place {
    struct block block;
    uint32_t row; /* the warp's first point */
};

/* The assignment of points to warps is rotated from block to block of bins. Warps that get no
 * points are then not the same in every thread block; this matters because each warp uses its own
 * part of the tensor cores. */
__device__ inline struct matrix_place matrix_place_of(const struct matrix_pass &pass) {
    uint32_t block = blockIdx.x / pass.groups, group = pass.first_group + blockIdx.x % pass.groups;
    uint32_t part = (threadIdx.x / LANES + block) % MATRIX_WARPS;
    return {pass.block[pass.field.first_block + block], group * MATRIX_POINTS + part * MATRIX_ROWS};
}

/* Input of a tile of sensors: as loaded, [bin][snapshot][sensor], and in the order in which the
 * lanes read it, [bin][product][group][lane]: big re, big im, small re, small im. */
template <int N> struct matrix_tile {
    float2 raw[MATRIX_BINS * N * MATRIX_COLUMNS * MATRIX_TILE];
    float4 split[MATRIX_BINS * (MATRIX_TILE / MATRIX_DEPTH) * N][LANES];
};

/* ---- input ----------------------------------------------------------------------------------- */

/* Starts copying the thread's own share of the tile at sensor k; sensors that do not exist are
 * zero. */
template <int N>
__device__ inline void copy_matrix_tile(const struct matrix_pass &pass, const struct block &block,
                                        uint32_t k, uint32_t end, float2 *raw) {
    uint32_t sensor = k + threadIdx.x % MATRIX_TILE;
#pragma unroll
    for (uint32_t i = threadIdx.x; i < MATRIX_BINS * N * MATRIX_COLUMNS * MATRIX_TILE;
         i += MATRIX_WARPS * LANES) {
        uint32_t snapshot = i / MATRIX_TILE % (N * MATRIX_COLUMNS);
        uint32_t bin = i / (MATRIX_TILE * N * MATRIX_COLUMNS);
        bool there = sensor < end && snapshot < pass.snapshots && bin < block.bins;
        size_t from = snapshot * pass.x_snapshot + (block.first + bin) * pass.x_row + sensor;
        __pipeline_memcpy_async(&raw[i], pass.x + (there ? from : 0), sizeof(float2),
                                there ? 0 : sizeof(float2));
    }
    __pipeline_commit();
}

/* Rounded to the tensor cores' 11 bits. Numbers too small for their range are negligible. */
__device__ inline float upper_bits(float x) {
    return __uint_as_float((__float_as_uint(x) + 0x1000u) & 0xffffe000u);
}

/* Shades and splits the samples that this thread copied. */
template <int N>
__device__ inline void split_matrix_tile(float gain, const float2 *raw, float4 (*split)[LANES]) {
    uint32_t sensor = threadIdx.x % MATRIX_TILE;
#pragma unroll
    for (uint32_t i = threadIdx.x; i < MATRIX_BINS * N * MATRIX_COLUMNS * MATRIX_TILE;
         i += MATRIX_WARPS * LANES) {
        uint32_t snapshot = i / MATRIX_TILE % (N * MATRIX_COLUMNS);
        uint32_t bin = i / (MATRIX_TILE * N * MATRIX_COLUMNS);
        uint32_t product = bin * (MATRIX_TILE / MATRIX_DEPTH) + sensor / MATRIX_DEPTH;
        uint32_t lane = snapshot % MATRIX_COLUMNS * MATRIX_DEPTH + sensor % MATRIX_DEPTH;
        float re = gain * raw[i].x, im = gain * raw[i].y;
        float big_re = upper_bits(re), big_im = upper_bits(im);
        split[product * N + snapshot / MATRIX_COLUMNS][lane] =
            make_float4(big_re, big_im, upper_bits(re - big_re), upper_bits(im - big_im));
    }
}

/* ---- sums over sensors ----------------------------------------------------------------------- */

/* sum += a b on a tensor core. A lane's places, g = lane / 4 and t = lane % 4: a in row g, column
 * t; g + 8, t; g, t + 4; g + 8, t + 4; b in row t, column g; t + 4, g; sum in row g, columns 2t and
 * 2t + 1; row g + 8, the same columns. */
__device__ inline void multiply_matrix(const uint32_t (&a)[4], float b0, float b1,
                                       float (&sum)[4]) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(__float_as_uint(b0)),
          "r"(__float_as_uint(b1)));
#else
    __trap(); /* never launched there */
#endif
}

/* The weights of two points at one bin, times x of all snapshots: small terms first. */
template <int N>
__device__ inline void add_matrix_bin(const float2 (&w)[2], const float4 (*x)[LANES],
                                      float (&sum)[N][2][4]) {
    const float part[4] = {w[0].x, w[1].x, w[0].y, w[1].y};
    uint32_t big[4], small[4];
    float4 v[N];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float upper = upper_bits(part[i]);
        big[i] = __float_as_uint(upper);
        small[i] = __float_as_uint(part[i] - upper);
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        v[n] = x[n][threadIdx.x % LANES];
        multiply_matrix(small, v[n].x, v[n].y, sum[n][0]);
        multiply_matrix(small, v[n].y, -v[n].x, sum[n][1]);
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        multiply_matrix(big, v[n].z, v[n].w, sum[n][0]);
        multiply_matrix(big, v[n].w, -v[n].z, sum[n][1]);
    }
#pragma unroll
    for (int n = 0; n < N; n++) {
        multiply_matrix(big, v[n].x, v[n].y, sum[n][0]);
        multiply_matrix(big, v[n].y, -v[n].x, sum[n][1]);
    }
}

/* Four sensors; this lane has the turns of one of them, for two points. x: input of this product,
 * bins `stride` apart. */
template <int N>
__device__ inline void add_matrix(const uint64_t (&turns)[2], uint32_t middle,
                                  const float4 (*x)[LANES], float (&sum)[MATRIX_BINS][N][2][4]) {
    const int stride = MATRIX_TILE / MATRIX_DEPTH * N;
    float2 start[2], step[2], w[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        w[i] = start[i] = sonar_cuda_phasor(sonar_cuda_phase(turns[i], middle));
        step[i] = sonar_cuda_phasor((uint32_t)(turns[i] >> 32));
    }
    add_matrix_bin<N>(w, x + MATRIX_MIDDLE * stride, sum[MATRIX_MIDDLE]);
#pragma unroll
    for (int bin = MATRIX_MIDDLE + 1; bin < MATRIX_BINS; bin++) {
        w[0] = times(w[0], step[0]);
        w[1] = times(w[1], step[1]);
        add_matrix_bin<N>(w, x + bin * stride, sum[bin]);
    }
    step[0].y = -step[0].y;
    step[1].y = -step[1].y;
#pragma unroll
    for (int bin = MATRIX_MIDDLE - 1; bin >= 0; bin--) {
        start[0] = times(start[0], step[0]);
        start[1] = times(start[1], step[1]);
        add_matrix_bin<N>(start, x + bin * stride, sum[bin]);
    }
}

/* Adds the sums to this thread's place in memory, or stores the first ones, and resets them to
 * zero. */
template <int N>
__device__ inline void flush_matrix(float (&sum)[MATRIX_BINS][N][2][4], bool begins, float *to) {
#pragma unroll
    for (int i = 0; i < MATRIX_SUMS * N; i++) {
        float &own = sum[i / (8 * N)][i / 8 % N][i / 4 % 2][i % 4];
        to[i * MATRIX_WARPS * LANES] = begins ? own : to[i * MATRIX_WARPS * LANES] + own;
        own = 0;
    }
}

/* Grid: items x chunks. */
template <int N>
static __global__ void __launch_bounds__(MATRIX_WARPS *LANES, 4)
    sum_matrix(const __grid_constant__ matrix_pass pass) {
    __shared__ __align__(16) matrix_tile<N> tile;
    const struct matrix_place place = matrix_place_of(pass);
    const struct field &field = pass.field;
    const uint32_t lane = threadIdx.x % LANES;
    const uint32_t first = blockIdx.y * pass.share, end = min(first + pass.share, pass.sensors);
    const uint32_t middle = pass.input_bin + place.block.first + MATRIX_MIDDLE;
    float *to =
        pass.partial +
        ((size_t)blockIdx.y * gridDim.x + blockIdx.x) * MATRIX_SUMS * N * MATRIX_WARPS * LANES +
        threadIdx.x;
    const uint64_t *turns[2];
    uint64_t next[2], own[2];
    float sum[MATRIX_BINS][N][2][4] = {};
    uint32_t sensor = first + lane % MATRIX_DEPTH; /* the sensor whose turns are loaded next */
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t point = min(place.row + lane / MATRIX_DEPTH + 8 * i, field.points - 1);
        turns[i] = field.turns + point * field.point_stride;
        next[i] = turns[i][min(sensor, pass.sensors - 1) * field.sensor_stride];
    }
    copy_matrix_tile<N>(pass, place.block, first, end, tile.raw);
    float gain = pass.shading[min(first + threadIdx.x % MATRIX_TILE, pass.sensors - 1)];
    for (uint32_t k = first; k < end; k += MATRIX_TILE) {
        __pipeline_wait_prior(0);
        __syncthreads(); /* no thread reads the tile after this point */
        split_matrix_tile<N>(gain, tile.raw, tile.split);
        __syncthreads();
        if (k + MATRIX_TILE < end) {
            uint32_t later = k + MATRIX_TILE;
            copy_matrix_tile<N>(pass, place.block, later, end, tile.raw);
            gain = pass.shading[min(later + threadIdx.x % MATRIX_TILE, pass.sensors - 1)];
        }
#pragma unroll 1
        for (uint32_t product = 0; product < MATRIX_TILE / MATRIX_DEPTH; product++) {
            sensor += MATRIX_DEPTH;
#pragma unroll
            for (int i = 0; i < 2; i++) {
                own[i] = next[i];
                next[i] = turns[i][min(sensor, pass.sensors - 1) * field.sensor_stride];
            }
            if (place.row < field.points)
                add_matrix<N>(own, middle, tile.split + product * N, sum);
        }
        uint32_t done = k + MATRIX_TILE - first;
        if (done % MATRIX_STRETCH == 0 || k + MATRIX_TILE >= end)
            flush_matrix<N>(sum, done <= MATRIX_STRETCH, to);
    }
}

/* ---- powers ---------------------------------------------------------------------------------- */

/* A lane has two points, g and g + 8, and for each of them two of every eight snapshots. */
template <int N>
__device__ inline void keep_matrix_part(const struct matrix_pass &pass,
                                        const struct matrix_place &place, uint32_t bin,
                                        const double (&y)[N][2][4]) {
    const uint32_t lane = threadIdx.x % LANES;
#pragma unroll
    for (uint32_t i = 0; i < 4 * N; i++) {
        uint32_t snapshot = i / 4 * MATRIX_COLUMNS + lane % 4 * 2 + i % 2;
        uint32_t point = place.row + lane / 4 + 8 * (i / 2 % 2);
        if (snapshot < pass.snapshots && point < pass.field.points)
            pass.field.part.keep(pass.done + snapshot, place.block.first + bin, point,
                                 y[i / 4][0][i % 4], y[i / 4][1][i % 4]);
    }
}

/* Grid: items x bins, threads as those of sum_matrix. Adds the chunks, the slab's snapshots and the
 * slabs; after the last one writes the Lofar. For a part it writes y instead. */
template <int N>
static __global__ void __launch_bounds__(MATRIX_WARPS *LANES)
    finish_matrix(const __grid_constant__ matrix_pass pass) {
    const struct matrix_place place = matrix_place_of(pass);
    const uint32_t lane = threadIdx.x % LANES, bin = blockIdx.y;
    if (bin >= place.block.bins)
        return;
    double y[N][2][4] = {}, power[2] = {};
    for (uint32_t chunk = 0; chunk < pass.chunks; chunk++) {
        const float *from =
            pass.partial + (((size_t)chunk * gridDim.x + blockIdx.x) * MATRIX_SUMS + bin * 8) * N *
                               MATRIX_WARPS * LANES;
#pragma unroll
        for (uint32_t i = 0; i < 8 * N; i++)
            y[i / 8][i / 4 % 2][i % 4] += (double)from[i * MATRIX_WARPS * LANES + threadIdx.x];
    }
    if (pass.field.part.y) {
        keep_matrix_part<N>(pass, place, bin, y);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4 * N; i++) {
        double re = y[i / 4][0][i % 4], im = y[i / 4][1][i % 4];
        power[i / 2 % 2] += re * re + im * im;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) { /* each of the four lanes of a row has two of eight snapshots */
        power[i] += __shfl_xor_sync(0xffffffffu, power[i], 1);
        power[i] += __shfl_xor_sync(0xffffffffu, power[i], 2);
    }
    uint32_t part = lane % MATRIX_DEPTH;
    if (part > 1)
        return;
    uint32_t point = place.row + lane / MATRIX_DEPTH + 8 * part, at = place.block.first + bin;
    double all = pass.power_scale * (part ? power[1] : power[0]);
    double *before = pass.power + (size_t)(at - pass.first_bin) * pass.groups * MATRIX_POINTS +
                     (point - pass.first_group * MATRIX_POINTS);
    if (!pass.first_snapshots)
        all += *before;
    *before = all;
    if (pass.last_snapshots && pass.lofar && point < pass.field.points)
        pass.lofar[at * pass.lofar_row + point] = (float)all;
}

/* Grid: warps of points. (fs/N) sum over the band. */
static __global__ void __launch_bounds__(FINISH_WARPS *LANES)
    finish_matrix_band(const __grid_constant__ matrix_pass pass) {
    __shared__ double shared[FINISH_WARPS][LANES];
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    uint32_t row = blockIdx.x * LANES + lane, rows = pass.groups * MATRIX_POINTS;
    const double *from = pass.power + (size_t)pass.band_first * rows + row;
    double sum = 0;
#pragma unroll 8
    for (uint32_t bin = warp; bin < pass.band_bins; bin += FINISH_WARPS)
        sum += from[(size_t)bin * rows];
    shared[warp][lane] = sum;
    __syncthreads();
    if (warp > 0)
        return;
    for (uint32_t i = 1; i < FINISH_WARPS; i++)
        sum += shared[i][lane];
    uint32_t point = pass.first_group * MATRIX_POINTS + row;
    if (point < pass.field.points)
        pass.field.energy[point] = (float)(pass.bin_hz * sum);
}

#endif
