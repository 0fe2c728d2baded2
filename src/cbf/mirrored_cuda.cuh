/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sums over the sensors if array and scan are mirror images of themselves (a line, in the far and
 * the near field).
 *
 * The steering vector of sensor k and point p equals that of sensor B-1-k and the mirrored point q.
 * With the weights v and w of the two sensors for p: y(p) + y(q) = sum (v + w)(x_k + x_B-1-k) and
 * y(p) - y(q) = sum (v - w)(x_k - x_B-1-k). This halves the weights and the products, to 4.4
 * multiply-adds per sensor, point and bin. The sums and differences of the shaded input are
 * computed once beforehand.
 */
#ifndef SONAR_CBF_MIRRORED_CUDA_CUH
#define SONAR_CBF_MIRRORED_CUDA_CUH

#include "cbf/pass_cuda.cuh"

/* Grid: pairs of sensors x bins. An odd array's middle sensor is its own opposite, and is counted
 * once. */
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

/* The same as load_tile, for pairs. */
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

/* One sensor's steering vector at two neighbouring segments, and its rotation. */
struct chain {
    float2 low, high, step;
    float twice_cos;
};

/* Computes both segments, and the leap between them, from exact turns. A leap computed as a product
 * of single steps would have seven times the rounding error. */
__device__ inline struct chain start_chain(uint64_t turns, uint32_t middle) {
    struct chain chain;
    chain.low = sonar_cuda_phasor(sonar_cuda_phase(turns, middle));
    chain.high = sonar_cuda_phasor(sonar_cuda_phase(turns, middle + PAIR_STEPS));
    chain.step = sonar_cuda_phasor((uint32_t)(turns >> 32));
    chain.twice_cos = 2 * fmaf(chain.high.x, chain.low.x, chain.high.y * chain.low.y);
    return chain;
}

/* The weights of two sensors at one bin: v + w applies to the sum of the inputs, v - w to the
 * difference. */
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

/* As add_sensors; `turns` are those of one point, sensor by sensor. */
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
static __global__ void __launch_bounds__(SUM_WARPS *LANES, RESIDENT_WARPS / SUM_WARPS)
    sum_pairs(const __grid_constant__ pass pass) {
    __shared__ __align__(16) float4 tile[SUM_WARPS][2][TILE][PAIR_ROW];
    static_assert(sizeof tile >= SUM_WARPS / 2 * SLOTS * LANES * sizeof(float2),
                  "room for add_warps");
    static_assert(2 * PAIR_SLOTS == SLOTS, "one shape of partial sums");
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    struct place place = place_of(pass, blockIdx.x);
    const struct block block = pass.block[place.block];
    const struct field &field = *place.field;
    uint32_t pair = min(place.group * LANES + lane, field.points - 1);
    const uint64_t *turns = field.turns + field.mirror[pair].point * field.point_stride;
    uint32_t first = (blockIdx.y * SUM_WARPS + warp) * pass.share;
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

#endif
