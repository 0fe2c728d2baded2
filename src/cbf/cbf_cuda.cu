/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Conventional beamformer on NVIDIA GPUs, for any geometry: nothing is stored per direction and
 * bin.
 *
 * A lane is one look point (far-field direction, or point of the near field) and keeps the sums of
 * a block of up to 56 bins in registers while it walks along the sensors; all lanes of a warp need
 * the same input, which is broadcast from shared memory. So no sum is ever taken across lanes. The
 * four warps of a thread block share its chunk of sensors and add up at its end; the chunks of all
 * thread blocks are added by a second kernel. All orders are fixed, no atomics: the same input
 * gives the same bits.
 *
 * Steering vectors, per sensor and lane: bins are numbered i + 7 m (i < 7, m < 8). For i = 0 those
 * of the two middle m come from exact turns; from one i to the next both are rotated; the other m
 * follow from w(m+1) = 2 cos(7 phi) w(m) - w(m-1), which costs two multiply-adds instead of four.
 * No chain is longer than three steps of the one and six of the other, so that the error stays at
 * float32 rounding (it grows as the square of the steps). 6.5 multiply-adds per sensor, point and
 * bin, and some 100 instructions per 56 bins to begin with.
 *
 * Where array and scan are mirror images of themselves (a line, in the far and the near field), the
 * steering vector of sensor k and point p is that of sensor B-1-k and the mirrored point q. With
 * the weights v and w of the two sensors for p: y(p) + y(q) = sum (v + w)(x_k + x_B-1-k) and
 * y(p) - y(q) = sum (v - w)(x_k - x_B-1-k): half the weights and half the products, 4.4
 * multiply-adds per sensor, point and bin. The sums and differences of the input, shading included,
 * are made once beforehand.
 *
 * The far field of a uniform line splits exactly: with sensor k1 + span k2 the weight is that of k1
 * times that of span k2. A lane keeps the sums of 28 columns k2 of one bin in registers, so that
 * one weight, rotated from k1 to k1 + 1, serves 28 sensors; and since the mirrored point has the
 * conjugate weight, its products are the same: 2 multiply-adds per sensor, point and bin, and the
 * columns are joined with their phases at the end.
 *
 * Whether a table has these forms is read from the table itself.
 */
#include "cbf/cbf.h"
#include "cuda/cuda_common.cuh"

#include <cuda_pipeline.h>
#include <stdlib.h>
#include <string.h>

enum {
    LANES = 32,
    WARPS = 4,
    STEPS = 7,    /* i */
    SEGMENTS = 8, /* m */
    SLOTS = STEPS * SEGMENTS,
    PAIR_STEPS = 7,
    PAIR_SEGMENTS = 4,
    PAIR_SLOTS = PAIR_STEPS * PAIR_SEGMENTS, /* of each of two points */
    PAIR_ROW = PAIR_SLOTS + 1,
    COLUMNS = 28,
    COLUMN_ROW = COLUMNS + 2,
    TILE = 8,        /* sensors in shared memory at a time, per warp */
    ROW = SLOTS + 2, /* padded against bank conflicts, whole 16 bytes */
    FIELDS = 2,      /* far and near field */
    FINISH_WARPS = 8,
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

/* Two look points that are each other's mirror image; none: NO_POINT. */
struct mirror {
    uint32_t point, image;
};

constexpr uint32_t NO_POINT = UINT32_MAX;

/* Look points that share their bins. */
struct field {
    const uint64_t *turns;
    const struct mirror *mirror;        /* [points], or NULL: lane by lane, all different */
    size_t sensor_stride, point_stride; /* in elements */
    uint32_t points, groups;            /* points or mirrored pairs; groups of 32 of them */
    uint32_t first_block, blocks;       /* of the list of blocks */
    uint32_t first_item;                /* items: [block][group], field by field */
    float *energy;                      /* [point], or NULL: not wanted */
};

/* One pass over the input, by value to the kernels. */
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
    double *energy;  /* [item][lane] */
    float *lofar;    /* [bin][direction] of field 0, or NULL */
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

/* ---- sums over sensors ----------------------------------------------------------------------- */

/* Starts copying TILE sensors from `first` on of one block of bins. Slot i * SEGMENTS + m holds bin
 * i + STEPS * m; what does not exist is zero. */
__device__ inline void load_tile(const struct pass &pass, const struct block &block, uint32_t first,
                                 uint32_t end, float2 (*tile)[ROW]) {
    uint32_t lane = threadIdx.x % LANES, s = lane % TILE, q = lane / TILE;
    uint32_t k = first + s;
    const float2 *from = pass.x + (size_t)block.first * pass.x_row + min(k, end - 1);
#pragma unroll
    for (uint32_t i = 0; i < STEPS; i++)
#pragma unroll
        for (uint32_t h = 0; h < SEGMENTS; h += LANES / TILE) {
            uint32_t bin = i + STEPS * (q + h);
            bool there = k < end && bin < block.bins;
            __pipeline_memcpy_async(&tile[s][i * SEGMENTS + h + q],
                                    from + (there ? bin * pass.x_row : 0), sizeof(float2),
                                    there ? 0 : sizeof(float2));
        }
    __pipeline_commit();
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

/* w(m+1) from w(m), which becomes w(m-1). */
__device__ inline void next_segment(float twice_cos, float2 &before, float2 &w) {
    float2 next = make_float2(fmaf(twice_cos, w.x, -before.x), fmaf(twice_cos, w.y, -before.y));
    before = w;
    w = next;
}

/* Adds one sensor: sum += g conj(a) x for all slots. `turns` are those of conj(a); middle is the
 * absolute bin of slot m = M/2 - 1, i = 0. */
template <int M>
__device__ inline void add_sensor(uint64_t turns, float g, uint32_t middle, const float2 *x,
                                  float2 (&sum)[SLOTS]) {
    float2 low = sonar_cuda_phasor(sonar_cuda_phase(turns, middle));
    const float2 leap = sonar_cuda_phasor(sonar_cuda_phase(turns, STEPS));
    const float2 step = sonar_cuda_phasor((uint32_t)(turns >> 32));
    const float twice_cos = 2 * leap.x;
    low.x *= g;
    low.y *= g;
    float2 high = times(low, leap);
#pragma unroll
    for (int i = 0; i < STEPS; i++) {
        float2 v[SEGMENTS];
#pragma unroll
        for (int m = 0; m < M; m += 2)
            *(float4 *)&v[m] = *(const float4 *)&x[i * SEGMENTS + m];
        float2 before = low, w = high;
        add_product(w, v[M / 2], sum[i * SEGMENTS + M / 2]);
#pragma unroll
        for (int m = M / 2 + 1; m < M; m++) {
            next_segment(twice_cos, before, w);
            add_product(w, v[m], sum[i * SEGMENTS + m]);
        }
        before = high, w = low;
        add_product(w, v[M / 2 - 1], sum[i * SEGMENTS + M / 2 - 1]);
#pragma unroll
        for (int m = M / 2 - 2; m >= 0; m--) {
            next_segment(twice_cos, before, w);
            add_product(w, v[m], sum[i * SEGMENTS + m]);
        }
        if (i + 1 < STEPS) {
            low = times(low, step);
            high = times(high, step);
        }
    }
}

/* One warp's share of the sensors: while one tile is computed on, the next one is on its way. */
template <int M>
__device__ void add_sensors(const struct pass &pass, const struct block &block,
                            const uint64_t *turns, size_t sensor_stride, uint32_t first,
                            uint32_t end, float2 (*tile)[TILE][ROW], float2 (&sum)[SLOTS]) {
    uint32_t middle = pass.first_bin + block.first + STEPS * (M / 2 - 1);
    if (first >= end)
        return;
    turns += first * sensor_stride;
    uint64_t next_turns = *turns;
    float next_g = pass.shading[first];
    load_tile(pass, block, first, end, tile[0]);
    for (uint32_t k = first, which = 0; k < end; k += TILE, which ^= 1) {
        uint32_t count = min(end - k, (uint32_t)TILE);
        if (k + TILE < end)
            load_tile(pass, block, k + TILE, end, tile[which ^ 1]);
        else
            __pipeline_commit(); /* an empty stage keeps the count of those to wait for */
        __pipeline_wait_prior(1);
        __syncwarp();
#pragma unroll 1
        for (uint32_t s = 0; s < count; s++) {
            uint64_t own_turns = next_turns;
            float g = next_g;
            if (k + s + 1 < end) {
                turns += sensor_stride;
                next_turns = *turns;
                next_g = pass.shading[k + s + 1];
            }
            add_sensor<M>(0 - own_turns, g, middle, tile[which][s], sum);
        }
        __syncwarp();
    }
}

/* (0 + 2) + (1 + 3), through shared memory. */
__device__ inline void add_warps(float2 (&sum)[SLOTS], float2 *shared) {
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
#pragma unroll
    for (uint32_t half = WARPS / 2; half > 0; half /= 2) {
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

/* Grid: items x chunks. */
static __global__ void __launch_bounds__(WARPS *LANES, 3)
    sum_sensors(const __grid_constant__ pass pass) {
    __shared__ __align__(16) float2 tile[WARPS][2][TILE][ROW];
    static_assert(sizeof tile >= WARPS / 2 * SLOTS * LANES * sizeof(float2), "room for add_warps");
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    struct place place = place_of(pass, blockIdx.x);
    const struct block block = pass.block[place.block];
    const struct field &field = *place.field;
    uint32_t point = min(place.group * LANES + lane, field.points - 1);
    const uint64_t *turns = field.turns + point * field.point_stride;
    uint32_t first = (blockIdx.y * WARPS + warp) * pass.share;
    uint32_t end = min(first + pass.share, pass.sensors);
    float2 sum[SLOTS];
#pragma unroll
    for (int j = 0; j < SLOTS; j++)
        sum[j] = make_float2(0, 0);
    if (block.segments == 8)
        add_sensors<8>(pass, block, turns, field.sensor_stride, first, end, tile[warp], sum);
    else if (block.segments == 6)
        add_sensors<6>(pass, block, turns, field.sensor_stride, first, end, tile[warp], sum);
    else if (block.segments == 4)
        add_sensors<4>(pass, block, turns, field.sensor_stride, first, end, tile[warp], sum);
    else
        add_sensors<2>(pass, block, turns, field.sensor_stride, first, end, tile[warp], sum);
    add_warps(sum, &tile[0][0][0][0]);
    if (warp > 0)
        return;
    float2 *to = pass.partial + ((size_t)blockIdx.y * pass.items + blockIdx.x) * SLOTS * LANES;
#pragma unroll
    for (int j = 0; j < SLOTS; j++)
        to[j * LANES + lane] = sum[j];
}

/* ---- sums over mirrored sensors -------------------------------------------------------------- */

/* Grid: pairs of sensors x bins. An odd array's middle sensor is its own image and has no other. */
static __global__ void fold_input(const __grid_constant__ pass pass) {
    uint32_t k = blockIdx.x * blockDim.x + threadIdx.x, image = pass.sensors - 1 - k;
    if (k >= (pass.sensors + 1) / 2)
        return;
    size_t bin = pass.fold_first + blockIdx.y;
    const float2 *row = pass.x + bin * pass.x_row;
    float2 x = row[k], y = row[image];
    float g = pass.shading[k], h = image > k ? pass.shading[image] : 0;
    x.x *= g;
    x.y *= g;
    y.x *= h;
    y.y *= h;
    pass.folded[bin * pass.folded_row + k] =
        make_float4(x.x + y.x, x.y + y.y, x.x - y.x, x.y - y.y);
}

/* As load_tile. */
__device__ inline void load_pairs(const struct pass &pass, const struct block &block,
                                  uint32_t first, uint32_t end, float4 (*tile)[PAIR_ROW]) {
    uint32_t lane = threadIdx.x % LANES, s = lane % TILE, m = lane / TILE;
    uint32_t k = first + s;
    const float4 *from = pass.folded + (size_t)block.first * pass.folded_row + min(k, end - 1);
    static_assert(PAIR_SEGMENTS * TILE == LANES, "a warp copies one step of a tile");
#pragma unroll
    for (uint32_t i = 0; i < PAIR_STEPS; i++) {
        uint32_t bin = i + PAIR_STEPS * m;
        bool there = k < end && bin < block.bins;
        __pipeline_memcpy_async(&tile[s][i * PAIR_SEGMENTS + m],
                                from + (there ? bin * pass.folded_row : 0), sizeof(float4),
                                there ? 0 : sizeof(float4));
    }
    __pipeline_commit();
}

/* One sensor's steering vector at two neighbouring segments, and how it goes on. */
struct chain {
    float2 low, high, step;
    float twice_cos;
};

__device__ inline float2 square(float2 a) {
    return make_float2(fmaf(a.x, a.x, -a.y * a.y), 2 * a.x * a.y);
}

/* The leap over PAIR_STEPS bins is multiplied together: with four segments only one step of the
 * recurrence rests on it, and that saves a third exact phase. */
__device__ inline struct chain start_chain(uint64_t turns, uint32_t middle) {
    static_assert(PAIR_STEPS == 7, "the leap is step^7");
    struct chain chain;
    chain.low = sonar_cuda_phasor(sonar_cuda_phase(turns, middle));
    chain.step = sonar_cuda_phasor((uint32_t)(turns >> 32));
    float2 leap = times(square(times(square(chain.step), chain.step)), chain.step);
    chain.twice_cos = 2 * leap.x;
    chain.high = times(chain.low, leap);
    return chain;
}

/* The weights of two sensors at one bin: `v` and `w` meet the folded input. */
__device__ inline void add_folded(float2 v, float2 w, float4 x, float2 &sum, float2 &difference) {
    add_product(make_float2(v.x + w.x, v.y + w.y), make_float2(x.x, x.y), sum);
    add_product(make_float2(v.x - w.x, v.y - w.y), make_float2(x.z, x.w), difference);
}

/* Adds one pair of sensors, whose turns (of conj(a)) are `own` and `other`, to the sum and the
 * difference of the two points' beams. */
template <int M>
__device__ inline void add_pair(uint64_t own, uint64_t other, uint32_t middle, const float4 *x,
                                float2 (&sum)[2 * PAIR_SLOTS]) {
    struct chain a = start_chain(own, middle), b = start_chain(other, middle);
#pragma unroll
    for (int i = 0; i < PAIR_STEPS; i++) {
        constexpr int up = M / 2, down = M / 2 - 1;
        const int slot = i * PAIR_SEGMENTS;
        add_folded(a.low, b.low, x[slot + down], sum[slot + down], sum[PAIR_SLOTS + slot + down]);
        add_folded(a.high, b.high, x[slot + up], sum[slot + up], sum[PAIR_SLOTS + slot + up]);
        float2 v_before = a.low, v = a.high, w_before = b.low, w = b.high;
#pragma unroll
        for (int m = up + 1; m < M; m++) {
            next_segment(a.twice_cos, v_before, v);
            next_segment(b.twice_cos, w_before, w);
            add_folded(v, w, x[slot + m], sum[slot + m], sum[PAIR_SLOTS + slot + m]);
        }
        v_before = a.high, v = a.low, w_before = b.high, w = b.low;
#pragma unroll
        for (int m = down - 1; m >= 0; m--) {
            next_segment(a.twice_cos, v_before, v);
            next_segment(b.twice_cos, w_before, w);
            add_folded(v, w, x[slot + m], sum[slot + m], sum[PAIR_SLOTS + slot + m]);
        }
        if (i + 1 < PAIR_STEPS) {
            a.low = times(a.low, a.step);
            a.high = times(a.high, a.step);
            b.low = times(b.low, b.step);
            b.high = times(b.high, b.step);
        }
    }
}

/* As add_sensors; `turns` are one point's, sensor by sensor. */
template <int M>
__device__ void add_pairs(const struct pass &pass, const struct block &block, const uint64_t *turns,
                          size_t stride, uint32_t first, uint32_t end,
                          float4 (*tile)[TILE][PAIR_ROW], float2 (&sum)[2 * PAIR_SLOTS]) {
    uint32_t middle = pass.first_bin + block.first + PAIR_STEPS * (M / 2 - 1);
    if (first >= end)
        return;
    const uint64_t *image = turns + (pass.sensors - 1 - first) * stride;
    turns += first * stride;
    uint64_t next_own = *turns, next_other = *image;
    load_pairs(pass, block, first, end, tile[0]);
    for (uint32_t k = first, which = 0; k < end; k += TILE, which ^= 1) {
        uint32_t count = min(end - k, (uint32_t)TILE);
        if (k + TILE < end)
            load_pairs(pass, block, k + TILE, end, tile[which ^ 1]);
        else
            __pipeline_commit();
        __pipeline_wait_prior(1);
        __syncwarp();
#pragma unroll 1
        for (uint32_t s = 0; s < count; s++) {
            uint64_t own = next_own, other = next_other;
            if (k + s + 1 < end) {
                turns += stride;
                image -= stride;
                next_own = *turns;
                next_other = *image;
            }
            add_pair<M>(0 - own, 0 - other, middle, tile[which][s], sum);
        }
        __syncwarp();
    }
}

/* Grid: items x chunks. Partial sums: all slots of the points, then all of their images. */
static __global__ void __launch_bounds__(WARPS *LANES, 3)
    sum_pairs(const __grid_constant__ pass pass) {
    __shared__ __align__(16) float4 tile[WARPS][2][TILE][PAIR_ROW];
    static_assert(sizeof tile >= WARPS / 2 * SLOTS * LANES * sizeof(float2), "room for add_warps");
    static_assert(2 * PAIR_SLOTS == SLOTS, "one shape of partial sums");
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    struct place place = place_of(pass, blockIdx.x);
    const struct block block = pass.block[place.block];
    const struct field &field = *place.field;
    uint32_t pair = min(place.group * LANES + lane, field.points - 1);
    const uint64_t *turns = field.turns + field.mirror[pair].point * field.point_stride;
    uint32_t first = (blockIdx.y * WARPS + warp) * pass.share;
    uint32_t end = min(first + pass.share, (pass.sensors + 1) / 2);
    float2 sum[2 * PAIR_SLOTS];
#pragma unroll
    for (int j = 0; j < 2 * PAIR_SLOTS; j++)
        sum[j] = make_float2(0, 0);
    if (block.segments == 4)
        add_pairs<4>(pass, block, turns, field.sensor_stride, first, end, tile[warp], sum);
    else
        add_pairs<2>(pass, block, turns, field.sensor_stride, first, end, tile[warp], sum);
    add_warps(sum, (float2 *)&tile[0][0][0][0]);
    if (warp > 0)
        return;
    float2 *to = pass.partial + ((size_t)blockIdx.y * pass.items + blockIdx.x) * SLOTS * LANES;
#pragma unroll
    for (int j = 0; j < PAIR_SLOTS; j++) {
        float2 u = sum[j], v = sum[PAIR_SLOTS + j];
        to[j * LANES + lane] = make_float2(.5f * (u.x + v.x), .5f * (u.y + v.y));
        to[(PAIR_SLOTS + j) * LANES + lane] = make_float2(.5f * (u.x - v.x), .5f * (u.y - v.y));
    }
}

/* ---- powers ---------------------------------------------------------------------------------- */

__device__ inline double slot_power(const struct pass &pass, uint32_t slot) {
    const float2 *from =
        pass.partial + ((size_t)blockIdx.x * SLOTS + slot) * LANES + threadIdx.x % LANES;
    double re = 0, im = 0;
#pragma unroll 4
    for (uint32_t chunk = 0; chunk < pass.chunks; chunk++) {
        float2 y = from[(size_t)chunk * pass.items * SLOTS * LANES];
        re += (double)y.x;
        im += (double)y.y;
    }
    return pass.power_scale * (re * re + im * im);
}

/* The look point of a lane (with mirrored points: of half `image`); NO_POINT if there is none. */
__device__ inline uint32_t point_of(const struct field &field, uint32_t index, uint32_t image) {
    if (index >= field.points)
        return NO_POINT;
    if (!field.mirror)
        return index;
    return image ? field.mirror[index].image : field.mirror[index].point;
}

/* Bin of a slot, counted from the block's first. */
__device__ inline uint32_t bin_of(uint32_t slot, bool mirrored) {
    if (mirrored)
        return slot / PAIR_SEGMENTS + PAIR_STEPS * (slot % PAIR_SEGMENTS);
    return slot / SEGMENTS + STEPS * (slot % SEGMENTS);
}

/* Grid: items x 2 with mirrored points. Adds the chunks, writes the Lofar, sums the block's power.
 */
static __global__ void __launch_bounds__(FINISH_WARPS *LANES)
    finish_bins(const __grid_constant__ pass pass) {
    __shared__ double shared[FINISH_WARPS][LANES];
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    struct place place = place_of(pass, blockIdx.x);
    const struct block block = pass.block[place.block];
    bool mirrored = place.field->mirror != NULL;
    uint32_t slots = mirrored ? PAIR_SLOTS : SLOTS, first_slot = blockIdx.y * PAIR_SLOTS;
    uint32_t point = point_of(*place.field, place.group * LANES + lane, blockIdx.y);
    bool writes = pass.lofar && place.field == &pass.field[0] && point != NO_POINT;
    double energy = 0;
    for (uint32_t slot = warp; slot < slots; slot += FINISH_WARPS) {
        uint32_t bin = bin_of(slot, mirrored);
        if (bin >= block.bins)
            continue;
        double power = slot_power(pass, first_slot + slot);
        energy += power;
        if (writes)
            pass.lofar[(block.first + bin) * pass.lofar_row + point] = (float)power;
    }
    shared[warp][lane] = energy;
    __syncthreads();
    if (warp > 0)
        return;
    for (uint32_t i = 1; i < FINISH_WARPS; i++)
        energy += shared[i][lane];
    pass.energy[((size_t)blockIdx.y * pass.items + blockIdx.x) * LANES + lane] = energy;
}

/* Grid: points of both fields x 2 with mirrored points. (fs/N) sum over the band, block by block.
 */
static __global__ void finish_band(const __grid_constant__ pass pass) {
    uint32_t index = blockIdx.x * blockDim.x + threadIdx.x;
    const struct field *field = &pass.field[0];
    if (index >= field->groups * LANES) {
        index -= field->groups * LANES;
        field = &pass.field[1];
    }
    uint32_t point = point_of(*field, index, blockIdx.y);
    if (point == NO_POINT || !field->energy)
        return;
    uint32_t block = pass.band_first - field->first_block;
    double sum = 0;
    for (uint32_t i = 0; i < pass.band_blocks; i++) {
        uint32_t item = field->first_item + (block + i) * field->groups + index / LANES;
        sum += pass.energy[((size_t)blockIdx.y * pass.items + item) * LANES + index % LANES];
    }
    field->energy[point] = (float)(pass.bin_hz * sum);
}

/* ---- a uniform line's far field -------------------------------------------------------------- */

/* By value to the kernels below. `field` is the far field's, its mirror list never NULL. */
struct line_pass {
    struct field field;
    const float2 *x; /* [bin][sensor] */
    size_t x_row;
    const float *shading;
    uint32_t sensors, span; /* span: sensors of a column, COLUMNS * span >= sensors */
    uint32_t input_bin;     /* absolute number of the input's first bin */
    uint32_t first, bins;   /* bins of this pass, counted from the input's first */
    uint32_t band_first, band_bins;
    double *energy; /* [bin][point, image][groups * LANES] */
    float *lofar;   /* [bin][direction], or NULL */
    size_t lofar_row;
    double power_scale, bin_hz;
};

/* Tiles of one warp, double buffered. */
struct columns {
    float2 x[2][TILE][COLUMN_ROW];
    float gain[2][TILE][COLUMNS];
};

/* Starts copying TILE sensors from `first` on of every column; what does not exist is zero. */
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

/* Every lane shades what it copied itself. */
__device__ inline void shade_columns(struct columns *columns, uint32_t which) {
    uint32_t lane = threadIdx.x % LANES, s = lane % TILE;
#pragma unroll
    for (uint32_t c = lane / TILE; c < COLUMNS; c += LANES / TILE) {
        float g = columns->gain[which][s][c];
        float2 &x = columns->x[which][s][c];
        x = make_float2(g * x.x, g * x.y);
    }
}

/* Products of one weight w with one sensor of every column, kept apart so that they serve w and
 * conj(w): sums of re re, im im, re im, im re. */
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

/* conj(a) of a sensor against that of sensor 0. */
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

/* Adds the columns with their phases, exact every seventh: beams of the point and of its image. */
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

/* Grid: bins x groups of points, the groups of a bin side by side. */
static __global__ void __launch_bounds__(WARPS *LANES, 3)
    sum_line(const __grid_constant__ line_pass pass) {
    __shared__ __align__(16) struct columns columns[WARPS];
    __shared__ float2 beam[2][WARPS][LANES];
    const struct field &field = pass.field;
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    uint32_t row = pass.first + blockIdx.x / field.groups;
    uint32_t index = blockIdx.x % field.groups * LANES + lane, bin = pass.input_bin + row;
    struct mirror mirror = field.mirror[min(index, field.points - 1)];
    const uint64_t *turns = field.turns + mirror.point;
    uint32_t share = (pass.span + WARPS - 1) / WARPS, first = warp * share;
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
    for (uint32_t i = 0; i < WARPS; i++) {
        re += (double)beam[warp][i][lane].x;
        im += (double)beam[warp][i][lane].y;
    }
    double power = pass.power_scale * (re * re + im * im);
    pass.energy[((size_t)row * 2 + warp) * field.groups * LANES + index] = power;
    uint32_t point = warp ? mirror.image : mirror.point;
    if (pass.lofar && index < field.points && point != NO_POINT)
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

/* ---- tables ---------------------------------------------------------------------------------- */

/* to[sensor][from_point + point] = from[point][sensor]; neighbouring lanes are then neighbours in
 * memory. Grid: sensors x points in tiles. */
static __global__ void transpose(const uint64_t *from, uint32_t points, uint32_t sensors,
                                 uint64_t *to, size_t to_row) {
    __shared__ uint64_t tile[TRANSPOSE][TRANSPOSE + 1];
    uint32_t sensor = blockIdx.x * TRANSPOSE, point = blockIdx.y * TRANSPOSE;
    for (uint32_t i = threadIdx.y; i < TRANSPOSE; i += blockDim.y)
        if (sensor + threadIdx.x < sensors && point + i < points)
            tile[i][threadIdx.x] = from[(size_t)(point + i) * sensors + sensor + threadIdx.x];
    __syncthreads();
    for (uint32_t i = threadIdx.y; i < TRANSPOSE; i += blockDim.y)
        if (sensor + i < sensors && point + threadIdx.x < points)
            to[(size_t)(sensor + i) * to_row + point + threadIdx.x] = tile[threadIdx.x][i];
}

/* Turns of one field on the device, [sensor][row]. */
struct table {
    uint64_t *turns;
    size_t points, row;
    bool may_mirror, may_line;
    struct mirror *host_mirror, *mirror; /* [points]; on the host, on the device */
    size_t mirrors;                      /* 0: all points different */
    bool line;                           /* a uniform line's */
    uint64_t version;
    bool ready;
};

/* Blocks of bins on the device: below the band, in it, above it. */
struct cut {
    struct block *block;
    uint32_t blocks, band_first, band_blocks;
};

struct cbf {
    sonar_cbf_spec spec;
    struct cut cut[2]; /* for all points different; for mirrored points */
    float4 *folded;    /* [bin][pair of sensors], or NULL: no path wants it */
    struct table far_table, near_table;
    uint64_t *staging; /* [staging_points][sensor] */
    size_t staging_points;
    float *shading;
    uint64_t shading_version;
    bool shading_ready;
    size_t places[2];     /* thread blocks the device runs at once, by cut */
    size_t partial_items; /* room in `partial`, in items times chunks */
    float2 *partial;
    double *energy;
    size_t energy_items;
    double *line_energy; /* as line_pass's */
    const float2 *x;     /* input of the last execute, lent by the caller */
    size_t x_row;
};

/* Equal modulo one turn to within 1e-12 turns, which at bin 32768 is less than float32 resolves. */
static bool same_turns(uint64_t a, uint64_t b) {
    const int64_t most = 18446744;
    int64_t difference = (int64_t)(a - b);
    return difference <= most && difference >= -most;
}

static bool is_image(const uint64_t *point, const uint64_t *image, size_t sensors) {
    for (size_t k = 0; k < sensors; k++)
        if (!same_turns(point[k], image[sensors - 1 - k]))
            return false;
    return true;
}

/* Pairs every point with its image, the first that fits; the count is 0 if more than most_alone
 * have none: such a point costs as much as two. */
static size_t find_mirrors(const uint64_t *turns, size_t points, size_t sensors, size_t most_alone,
                           struct mirror *mirror) {
    size_t count = 0, alone = 0;
    for (size_t p = 0; p < points; p++)
        mirror[p].image = NO_POINT; /* here: the point that p is the image of */
    for (size_t p = 0; p < points; p++) {
        const uint64_t *own = turns + p * sensors;
        if (mirror[p].image != NO_POINT)
            continue;
        size_t q = p + 1;
        while (q < points &&
               !(mirror[q].image == NO_POINT && is_image(own, turns + q * sensors, sensors)))
            q++;
        if (q < points)
            mirror[q].image = (uint32_t)p;
        alone += q == points && !is_image(own, own, sensors);
        mirror[p].point = q < points ? (uint32_t)q : NO_POINT;
        if (alone > most_alone)
            return 0;
    }
    for (size_t p = 0; p < points; p++)
        if (mirror[p].image == NO_POINT) {
            uint32_t image = mirror[p].point;
            mirror[count++] = {(uint32_t)p, image};
        }
    return count;
}

/* Whether every sensor's weight is that of its place in the column times the column's, and both go
 * on evenly. */
static bool is_line(const uint64_t *turns, size_t points, size_t sensors, size_t span) {
    for (size_t p = 0; p < points; p++, turns += sensors)
        for (size_t k = 1; k < sensors; k++) {
            size_t place = k % span, column = k - place;
            if (!same_turns(turns[k] - turns[k - 1], turns[1] - turns[0]) ||
                !same_turns(turns[k] - turns[column], turns[place] - turns[0]) ||
                (k >= span && !same_turns(turns[k] - turns[k - span], turns[span] - turns[0])))
                return false;
        }
    return true;
}

static size_t line_span(size_t sensors) {
    return (sensors + COLUMNS - 1) / COLUMNS;
}

static sonar_code upload_mirrors(const struct cbf *cbf, struct table *table, const uint64_t *turns,
                                 cudaStream_t stream, sonar_error *err) {
    size_t sensors = cbf->spec.sensors, points = table->points;
    table->mirrors = 0;
    table->line = table->may_line && is_line(turns, points, sensors, line_span(sensors));
    if (!table->line && !table->may_mirror)
        return SONAR_OK;
    size_t most_alone = table->line ? points : (points + 9) / 10;
    size_t count = find_mirrors(turns, points, sensors, most_alone, table->host_mirror);
    if (!count)
        return SONAR_OK;
    CUDA_TRY("cbf",
             cudaMemcpyAsync(table->mirror, table->host_mirror, count * sizeof *table->mirror,
                             cudaMemcpyHostToDevice, stream),
             err);
    table->mirrors = count;
    return SONAR_OK;
}

static sonar_code upload_table(struct cbf *cbf, struct table *table, const uint64_t *turns,
                               uint64_t version, cudaStream_t stream, sonar_error *err) {
    if (table->ready && table->version == version)
        return SONAR_OK;
    size_t sensors = cbf->spec.sensors;
    table->ready = false;
    for (size_t done = 0; done < table->points; done += cbf->staging_points) {
        size_t points = sonar_min_size(table->points - done, cbf->staging_points);
        CUDA_TRY("cbf",
                 cudaMemcpyAsync(cbf->staging, turns + done * sensors,
                                 points * sensors * sizeof *turns, cudaMemcpyHostToDevice, stream),
                 err);
        dim3 grid((unsigned)((sensors + TRANSPOSE - 1) / TRANSPOSE),
                  (unsigned)((points + TRANSPOSE - 1) / TRANSPOSE));
        transpose<<<grid, dim3(TRANSPOSE, 8), 0, stream>>>(
            cbf->staging, (uint32_t)points, (uint32_t)sensors, table->turns + done, table->row);
        sonar_code code = CUDA_LAUNCHED("cbf", "transpose", err);
        if (code)
            return code;
    }
    sonar_code code = upload_mirrors(cbf, table, turns, stream, err);
    table->version = version;
    table->ready = !code;
    return code;
}

static sonar_code upload_shading(struct cbf *cbf, const sonar_params *params, cudaStream_t stream,
                                 sonar_error *err) {
    if (cbf->shading_ready && cbf->shading_version == params->version)
        return SONAR_OK;
    cbf->shading_ready = false;
    CUDA_TRY("cbf",
             cudaMemcpyAsync(cbf->shading, params->shading, cbf->spec.sensors * sizeof(float),
                             cudaMemcpyHostToDevice, stream),
             err);
    cbf->shading_version = params->version;
    cbf->shading_ready = true;
    return SONAR_OK;
}

/* ---- passes ---------------------------------------------------------------------------------- */

static void add_field(const struct cbf *cbf, struct field *field, const struct table *table,
                      bool whole, float *energy) {
    const struct cut *cut = &cbf->cut[table->mirrors > 0];
    field->turns = table->turns;
    field->mirror = table->mirrors ? table->mirror : NULL;
    field->sensor_stride = table->row;
    field->point_stride = 1;
    field->points = (uint32_t)(table->mirrors ? table->mirrors : table->points);
    field->groups = (field->points + LANES - 1) / LANES;
    field->first_block = whole ? 0 : cut->band_first;
    field->blocks = whole ? cut->blocks : cut->band_blocks;
    field->energy = energy;
}

/* Fewer chunks mean fewer sums to write, more of them a fuller device: takes the number whose last
 * wave of thread blocks wastes least. Each chunk costs as much as some 24 sensors besides. */
static uint32_t choose_chunks(const struct cbf *cbf, size_t places, size_t items, size_t all) {
    size_t most =
        sonar_min_size((all + WARPS - 1) / WARPS, sonar_max_size(cbf->partial_items / items, 1));
    size_t best = 1;
    double least = 0;
    for (size_t chunks = 1; chunks <= most; chunks++) {
        size_t waves = (items * chunks + places - 1) / places;
        size_t sensors = (all + chunks - 1) / chunks;
        double cost = (double)waves * (double)(sensors + 24);
        if (chunks == 1 || cost < least) {
            least = cost;
            best = chunks;
        }
    }
    return (uint32_t)best;
}

static bool is_mirrored(const struct pass *pass) {
    return pass->field[0].mirror || pass->field[1].mirror;
}

static void complete_pass(const struct cbf *cbf, struct pass *pass, const sonar_params *params) {
    struct field *far_field = &pass->field[0], *near_field = &pass->field[1];
    const struct cut *cut = &cbf->cut[is_mirrored(pass)];
    near_field->first_item = far_field->groups * far_field->blocks;
    pass->items = near_field->first_item + near_field->groups * near_field->blocks;
    pass->block = cut->block;
    pass->x = cbf->x;
    pass->x_row = cbf->x_row;
    pass->folded = cbf->folded;
    pass->folded_row = (cbf->spec.sensors + 1) / 2;
    pass->shading = cbf->shading;
    pass->sensors = (uint32_t)cbf->spec.sensors;
    pass->first_bin = (uint32_t)cbf->spec.first_bin;
    bool whole = far_field->blocks == cut->blocks;
    pass->fold_first = whole ? 0 : (uint32_t)(cbf->spec.cbf_first - cbf->spec.first_bin);
    pass->fold_bins = (uint32_t)(whole ? cbf->spec.bins : cbf->spec.cbf_bins);
    uint32_t all = is_mirrored(pass) ? (pass->sensors + 1) / 2 : pass->sensors;
    uint32_t parts = choose_chunks(cbf, cbf->places[is_mirrored(pass)], pass->items, all) * WARPS;
    pass->share = (all + parts - 1) / parts;
    pass->chunks = (all + pass->share * WARPS - 1) / (pass->share * WARPS);
    pass->partial = cbf->partial;
    pass->energy = cbf->energy;
    pass->band_first = cut->band_first;
    pass->band_blocks = cut->band_blocks;
    double sum = params->shading_sum;
    pass->power_scale = sum != 0 ? 1 / (sum * sum) : 0;
    pass->bin_hz = cbf->spec.fs_hz / (double)cbf->spec.length;
}

/* The sums of mirrored points, the input folded before. */
static sonar_code run_pairs(const struct pass *pass, cudaStream_t stream, sonar_error *err) {
    const uint32_t threads = 128;
    uint32_t pairs = (pass->sensors + 1) / 2;
    for (uint32_t done = 0; done < pass->fold_bins; done += GRID_ROWS) {
        struct pass part = *pass;
        part.fold_first += done;
        uint32_t rows = min(pass->fold_bins - done, (uint32_t)GRID_ROWS);
        fold_input<<<dim3((pairs + threads - 1) / threads, rows), threads, 0, stream>>>(part);
        sonar_code code = CUDA_LAUNCHED("cbf", "fold_input", err);
        if (code)
            return code;
    }
    sum_pairs<<<dim3(pass->items, pass->chunks), WARPS * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "sum_pairs", err);
}

static sonar_code run_sums(const struct pass *pass, cudaStream_t stream, sonar_error *err) {
    if (is_mirrored(pass))
        return run_pairs(pass, stream, err);
    sum_sensors<<<dim3(pass->items, pass->chunks), WARPS * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "sum_sensors", err);
}

static sonar_code run(const struct pass *pass, cudaStream_t stream, sonar_error *err) {
    uint32_t halves = is_mirrored(pass) ? 2 : 1;
    sonar_code code = run_sums(pass, stream, err);
    if (code)
        return code;
    finish_bins<<<dim3(pass->items, halves), FINISH_WARPS * LANES, 0, stream>>>(*pass);
    code = CUDA_LAUNCHED("cbf", "finish_bins", err);
    if (code || (!pass->field[0].energy && !pass->field[1].energy))
        return code;
    uint32_t groups = pass->field[0].groups + pass->field[1].groups, per_block = 4;
    dim3 grid((groups + per_block - 1) / per_block, halves);
    finish_band<<<grid, per_block * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "finish_band", err);
}

static sonar_code run_line(const struct cbf *cbf, struct line_pass *pass,
                           const sonar_params *params, cudaStream_t stream, sonar_error *err) {
    double sum = params->shading_sum;
    pass->x = cbf->x;
    pass->x_row = cbf->x_row;
    pass->shading = cbf->shading;
    pass->sensors = (uint32_t)cbf->spec.sensors;
    pass->span = (uint32_t)line_span(cbf->spec.sensors);
    pass->input_bin = (uint32_t)cbf->spec.first_bin;
    pass->band_first = (uint32_t)(cbf->spec.cbf_first - cbf->spec.first_bin);
    pass->band_bins = (uint32_t)cbf->spec.cbf_bins;
    pass->first = pass->lofar ? 0 : pass->band_first;
    pass->bins = pass->lofar ? (uint32_t)cbf->spec.bins : pass->band_bins;
    pass->energy = cbf->line_energy;
    pass->power_scale = sum != 0 ? 1 / (sum * sum) : 0;
    pass->bin_hz = cbf->spec.fs_hz / (double)cbf->spec.length;
    uint32_t groups = pass->field.groups;
    sum_line<<<pass->bins * groups, WARPS * LANES, 0, stream>>>(*pass);
    sonar_code code = CUDA_LAUNCHED("cbf", "sum_line", err);
    if (code || !pass->field.energy)
        return code;
    finish_line<<<dim3(groups, 2), FINISH_WARPS * LANES, 0, stream>>>(*pass);
    return CUDA_LAUNCHED("cbf", "finish_line", err);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static sonar_code check_spec(const sonar_cbf_spec *spec, sonar_error *err) {
    sonar_code code = sonar_cbf_check(spec, err);
    if (code)
        return code;
    const size_t most = 1u << 30, points = spec->directions * spec->ranges;
    if (spec->sensors > most || spec->directions > most || points > most || spec->bins > most ||
        spec->first_bin > most)
        return sonar_fail(err, SONAR_EINVAL, "cbf", "more than 2^30 sensors, points or bins");
    return SONAR_OK;
}

/* Whole blocks first, then one that is as small as what is left. */
static uint32_t cut_run(size_t first, size_t bins, size_t slots, size_t steps,
                        struct block *block) {
    uint32_t count = 0;
    for (size_t done = 0; done < bins; done += slots, count++) {
        size_t here = sonar_min_size(bins - done, slots), pair = 2 * steps;
        block[count].first = (uint32_t)(first + done);
        block[count].bins = (uint32_t)here;
        block[count].segments = (uint32_t)(2 * ((here + pair - 1) / pair));
    }
    return count;
}

static sonar_code make_cut(const sonar_cbf_spec *spec, size_t slots, size_t steps, struct cut *cut,
                           sonar_error *err) {
    size_t below = spec->cbf_first - spec->first_bin, band = spec->cbf_bins;
    size_t most = spec->bins / slots + 3; /* three runs, each rounded up */
    struct block *block = (struct block *)sonar_alloc(most, sizeof *block);
    if (!block)
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for %zu blocks of bins", most);
    cut->band_first = cut_run(0, below, slots, steps, block);
    cut->band_blocks = cut_run(below, band, slots, steps, block + cut->band_first);
    cut->blocks = cut->band_first + cut->band_blocks;
    cut->blocks +=
        cut_run(below + band, spec->bins - below - band, slots, steps, block + cut->blocks);
    sonar_code code = sonar_cuda_alloc("cbf", cut->blocks, &cut->block, err);
    if (!code)
        code = CUDA_CHECK(
            "cbf",
            cudaMemcpy(cut->block, block, cut->blocks * sizeof *block, cudaMemcpyHostToDevice),
            err);
    free(block);
    return code;
}

static sonar_code make_table(const struct cbf *cbf, size_t points, struct table *table,
                             sonar_error *err) {
    size_t count;
    table->points = points;
    table->row = (points + LANES - 1) / LANES * LANES;
    if (__builtin_mul_overflow(table->row, cbf->spec.sensors, &count))
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "table too large to count");
    sonar_code code = sonar_cuda_alloc("cbf", count, &table->turns, err);
    if (code || (!table->may_mirror && !table->may_line) || !points)
        return code;
    table->host_mirror = (struct mirror *)sonar_alloc(points, sizeof *table->host_mirror);
    if (!table->host_mirror)
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for %zu points", points);
    return sonar_cuda_alloc("cbf", points, &table->mirror, err);
}

static sonar_code count_places(const void *kernel, int threads, int processors, size_t *places,
                               sonar_error *err) {
    int per_processor = 0;
    CUDA_TRY("cbf",
             cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_processor, kernel, threads, 0),
             err);
    *places = (size_t)(per_processor > 0 ? per_processor : 1) * (size_t)processors;
    return SONAR_OK;
}

/* How many thread blocks run at once; asking also loads the kernels, which are otherwise loaded at
 * their first launch. */
static sonar_code measure_device(struct cbf *cbf, sonar_error *err) {
    int processors = 0;
    size_t unused;
    CUDA_TRY("cbf", cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0), err);
    const struct {
        const void *kernel;
        int threads;
        size_t *places;
    } ask[] = {{(const void *)sum_sensors, WARPS * LANES, &cbf->places[0]},
               {(const void *)sum_pairs, WARPS * LANES, &cbf->places[1]},
               {(const void *)sum_line, WARPS * LANES, &unused},
               {(const void *)finish_line, FINISH_WARPS * LANES, &unused},
               {(const void *)finish_bins, FINISH_WARPS * LANES, &unused},
               {(const void *)finish_band, 4 * LANES, &unused},
               {(const void *)fold_input, 4 * LANES, &unused},
               {(const void *)transpose, TRANSPOSE * 8, &unused}};
    for (const auto &one : ask) {
        sonar_code code = count_places(one.kernel, one.threads, processors, one.places, err);
        if (code)
            return code;
    }
    return SONAR_OK;
}

/* Decisions "cbf.far_path": "general", "mirrored" or "line", and "cbf.near_path": "general" or
 * "mirrored". A form the table does not have is never taken; the rule is the last one it has. */
static void choose_paths(struct cbf *cbf, const sonar_host *host) {
    const char *far_path = host->choice ? host->choice(host->ctx, "cbf.far_path") : NULL;
    const char *near_path = host->choice ? host->choice(host->ctx, "cbf.near_path") : NULL;
    cbf->far_table.may_line = !far_path || !strcmp(far_path, "line");
    cbf->far_table.may_mirror = !far_path || strcmp(far_path, "general") != 0;
    cbf->near_table.may_mirror = !near_path || strcmp(near_path, "general") != 0;
}

static sonar_code make(struct cbf *cbf, sonar_error *err) {
    const sonar_cbf_spec *spec = &cbf->spec;
    size_t near_points = spec->directions * spec->ranges;
    size_t far_groups = (spec->directions + LANES - 1) / LANES;
    size_t near_groups = (near_points + LANES - 1) / LANES;
    size_t row_bytes = spec->sensors * sizeof(uint64_t);
    sonar_code code = measure_device(cbf, err);
    if (!code)
        code = make_cut(spec, SLOTS, STEPS, &cbf->cut[0], err);
    if (!code)
        code = make_cut(spec, PAIR_SLOTS, PAIR_STEPS, &cbf->cut[1], err);
    if (!code && (cbf->far_table.may_mirror || cbf->near_table.may_mirror))
        code = sonar_cuda_alloc("cbf", spec->bins * ((spec->sensors + 1) / 2), &cbf->folded, err);
    if (!code)
        code = make_table(cbf, spec->directions, &cbf->far_table, err);
    if (!code)
        code = make_table(cbf, near_points, &cbf->near_table, err);
    cbf->staging_points =
        sonar_min_size(sonar_max_size(spec->directions, near_points),
                       sonar_max_size(STAGING_BYTES / row_bytes / LANES, 1) * LANES);
    if (!code)
        code = sonar_cuda_alloc("cbf", cbf->staging_points * spec->sensors, &cbf->staging, err);
    if (!code)
        code = sonar_cuda_alloc("cbf", spec->sensors, &cbf->shading, err);
    /* mirrored points have no more items, counting each point */
    cbf->energy_items =
        2 * far_groups * cbf->cut[1].blocks + 2 * near_groups * cbf->cut[1].band_blocks;
    cbf->partial_items = sonar_max_size(
        cbf->energy_items, sonar_max_size(cbf->places[0], cbf->places[1]) * WAVES_MOST);
    if (!code)
        code = sonar_cuda_alloc("cbf", cbf->energy_items * LANES, &cbf->energy, err);
    if (!code && cbf->far_table.may_line)
        code = sonar_cuda_alloc("cbf", spec->bins * 2 * far_groups * LANES, &cbf->line_energy, err);
    return code ? code
                : sonar_cuda_alloc("cbf", cbf->partial_items * SLOTS * LANES, &cbf->partial, err);
}

static void free_table(struct table *table) {
    cudaFree(table->turns);
    cudaFree(table->mirror);
    free(table->host_mirror);
}

static void cbf_destroy(void *stage) {
    struct cbf *cbf = (struct cbf *)stage;
    if (!cbf)
        return;
    cudaFree(cbf->cut[0].block);
    cudaFree(cbf->cut[1].block);
    free_table(&cbf->far_table);
    free_table(&cbf->near_table);
    cudaFree(cbf->folded);
    cudaFree(cbf->line_energy);
    cudaFree(cbf->staging);
    cudaFree(cbf->shading);
    cudaFree(cbf->partial);
    cudaFree(cbf->energy);
    free(cbf);
}

static sonar_code cbf_create(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    *stage = NULL;
    sonar_code code = check_spec((const sonar_cbf_spec *)spec, err);
    if (code)
        return code;
    struct cbf *cbf = (struct cbf *)sonar_alloc(1, sizeof *cbf);
    if (!cbf)
        return sonar_fail(err, SONAR_ENOMEM, "cbf", "no memory for the stage");
    cbf->spec = *(const sonar_cbf_spec *)spec;
    choose_paths(cbf, host);
    code = make(cbf, err);
    if (code)
        cbf_destroy(cbf);
    else
        *stage = cbf;
    return code;
}

static bool is_f32(const sonar_buffer *buffer, size_t rows, size_t columns) {
    if (buffer->dtype != SONAR_F32 || !buffer->data || !sonar_cuda_in_place(buffer->space))
        return false;
    if (buffer->rank == 1)
        return rows == 1 && buffer->shape[0] == columns && buffer->stride[0] == 1;
    return buffer->rank == 2 && buffer->shape[0] == rows && buffer->shape[1] == columns &&
           buffer->stride[1] == 1;
}

static bool fits(const sonar_manifold *manifold, const struct cbf *cbf, size_t ranges) {
    return manifold->turns && manifold->sensors == cbf->spec.sensors &&
           manifold->directions == cbf->spec.directions && manifold->ranges == ranges;
}

/* Which surfaces this call makes. */
struct wanted {
    bool azimuth, nearfield, lofar;
};

static struct wanted wanted_of(const struct cbf *cbf, const sonar_work *work) {
    return {(work->outputs & SONAR_WANT(SONAR_CBF_AZIMUTH)) != 0,
            cbf->spec.ranges && (work->outputs & SONAR_WANT(SONAR_CBF_NEARFIELD)),
            (work->outputs & SONAR_WANT(SONAR_CBF_LOFAR)) != 0};
}

static sonar_code check_shapes(const struct cbf *cbf, const sonar_buffer *in,
                               const sonar_buffer *out, const sonar_work *work,
                               struct wanted wanted, sonar_error *err) {
    const sonar_cbf_spec *spec = &cbf->spec;
    if (in->dtype != SONAR_C32 || in->rank != 2 || in->shape[0] != spec->bins ||
        in->shape[1] != spec->sensors || in->stride[1] != 1 || in->space != SONAR_DEVICE)
        return sonar_fail(err, SONAR_EINVAL, "cbf", "input is not c32 [%zu][%zu] on the device",
                          spec->bins, spec->sensors);
    if ((wanted.azimuth && !is_f32(&out[SONAR_CBF_AZIMUTH], 1, spec->directions)) ||
        (wanted.lofar && !is_f32(&out[SONAR_CBF_LOFAR], spec->bins, spec->directions)) ||
        (wanted.nearfield && (!is_f32(&out[SONAR_CBF_NEARFIELD], spec->ranges, spec->directions) ||
                              out[SONAR_CBF_NEARFIELD].stride[0] != (ptrdiff_t)spec->directions)))
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "an output is not f32 of the right shape on the device");
    if (work->params->sensors != spec->sensors ||
        ((wanted.azimuth || wanted.lofar) && !fits(&work->params->far_cbf, cbf, 1)) ||
        (wanted.nearfield && !fits(&work->params->near_cbf, cbf, spec->ranges)))
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "the parameters' tables are not of %zu sensors, %zu directions",
                          spec->sensors, spec->directions);
    return SONAR_OK;
}

static sonar_code upload(struct cbf *cbf, const sonar_params *params, struct wanted wanted,
                         cudaStream_t stream, sonar_error *err) {
    sonar_code code = upload_shading(cbf, params, stream, err);
    if (!code && (wanted.azimuth || wanted.lofar))
        code =
            upload_table(cbf, &cbf->far_table, params->far_cbf.turns, params->version, stream, err);
    if (!code && wanted.nearfield)
        code = upload_table(cbf, &cbf->near_table, params->near_cbf.turns, params->version, stream,
                            err);
    return code;
}

/* One pass over the far field, the near field or both; the far field takes all bins if the Lofar is
 * wanted. */
static sonar_code run_fields(const struct cbf *cbf, sonar_buffer *out, const sonar_params *params,
                             struct wanted wanted, cudaStream_t stream, sonar_error *err) {
    struct pass pass = {};
    const sonar_buffer *lofar = &out[SONAR_CBF_LOFAR];
    bool far_wanted = wanted.azimuth || wanted.lofar;
    float *azimuth = wanted.azimuth ? (float *)out[SONAR_CBF_AZIMUTH].data : NULL;
    if (far_wanted)
        add_field(cbf, &pass.field[0], &cbf->far_table, wanted.lofar, azimuth);
    if (wanted.nearfield)
        add_field(cbf, &pass.field[1], &cbf->near_table, false,
                  (float *)out[SONAR_CBF_NEARFIELD].data);
    pass.lofar = wanted.lofar ? (float *)lofar->data : NULL;
    pass.lofar_row = wanted.lofar ? (size_t)lofar->stride[0] : 0;
    if (far_wanted && cbf->far_table.line) {
        struct line_pass line = {};
        line.field = pass.field[0];
        line.lofar = pass.lofar;
        line.lofar_row = pass.lofar_row;
        return run_line(cbf, &line, params, stream, err);
    }
    complete_pass(cbf, &pass, params);
    return run(&pass, stream, err);
}

/* Both fields share one pass if they take the same path. */
static sonar_code cbf_execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                              sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    sonar_nvtx_range range("cbf");
    struct cbf *cbf = (struct cbf *)stage;
    const struct table *far_table = &cbf->far_table, *near_table = &cbf->near_table;
    struct wanted wanted = wanted_of(cbf, work), rest = {};
    sonar_code code = check_shapes(cbf, in, out, work, wanted, err);
    if (!code)
        code = upload(cbf, work->params, wanted, queue->stream, err);
    if (code)
        return code;
    cbf->x = (const float2 *)in->data;
    cbf->x_row = (size_t)in->stride[0];
    if (!wanted.azimuth && !wanted.nearfield && !wanted.lofar)
        return SONAR_OK;
    if ((wanted.azimuth || wanted.lofar) &&
        (far_table->line || !far_table->mirrors != !near_table->mirrors)) {
        rest.nearfield = wanted.nearfield;
        wanted.nearfield = false;
    }
    code = run_fields(cbf, out, work->params, wanted, queue->stream, err);
    if (!code && rest.nearfield)
        code = run_fields(cbf, out, work->params, rest, queue->stream, err);
    return code;
}

/* Points in the near field's place: it has as many, or else the far field's. */
static sonar_code cbf_evaluate(void *stage, sonar_queue *queue, const sonar_buffer *turns,
                               sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    struct cbf *cbf = (struct cbf *)stage;
    size_t points = turns->shape[0], sensors = cbf->spec.sensors;
    if (!cbf->x)
        return sonar_fail(err, SONAR_ESTATE, "cbf", "evaluate before the first execute");
    if (points == 0)
        return SONAR_OK;
    if (turns->dtype != SONAR_U64 || turns->rank != 2 || turns->shape[1] != sensors ||
        turns->stride[1] != 1 || turns->space != SONAR_DEVICE || !is_f32(power, 1, points))
        return sonar_fail(err, SONAR_EINVAL, "cbf",
                          "points are not u64 [%zu][%zu] with f32 [%zu], both on the device",
                          points, sensors, points);
    sonar_code code = upload_shading(cbf, work->params, queue->stream, err);
    size_t most = sonar_max_size(cbf->energy_items / cbf->cut[0].band_blocks, 1) * LANES;
    for (size_t done = 0; done < points && !code; done += most) {
        struct table table = {};
        table.turns = (uint64_t *)turns->data + (ptrdiff_t)done * turns->stride[0];
        table.points = sonar_min_size(points - done, most);
        struct pass pass = {};
        add_field(cbf, &pass.field[0], &table, false, (float *)power->data + done);
        pass.field[0].sensor_stride = 1;
        pass.field[0].point_stride = (size_t)turns->stride[0];
        complete_pass(cbf, &pass, work->params);
        code = run(&pass, queue->stream, err);
    }
    return code;
}

extern "C" const sonar_stage_ops sonar_cbf_cuda = {"cbf",        cbf_create, cbf_execute,
                                                   cbf_evaluate, NULL,       cbf_destroy};
