/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Sums over the sensors for any geometry.
 *
 * A lane is one look point (far-field direction, or point of the near field) and keeps the sums of
 * a block of up to 56 bins in registers while it walks along the sensors; all lanes of a warp need
 * the same input, which is broadcast from shared memory, so no sum crosses lanes. The warps of a
 * thread block share its chunk of sensors and add up their sums at the end; the chunks of all
 * thread blocks are added by a second kernel.
 *
 * Steering vectors, per sensor and lane: bins are numbered i + 7 m (i < 7, m < 8). For i = 0 the
 * vectors of the two middle m come from exact turns. From one i to the next both are rotated. The
 * other m follow from w(m+1) = 2 cos(7 phi) w(m) - w(m-1), which costs two multiply-adds instead of
 * four. No chain has more than three steps of this recurrence and six rotations, so that the error,
 * which grows as the square of the steps, stays at float32 rounding. The cost is 6.5 multiply-adds
 * per sensor, point and bin, and some 100 instructions of preparation per 56 bins.
 */
#ifndef SONAR_CBF_GENERAL_CUDA_CUH
#define SONAR_CBF_GENERAL_CUDA_CUH

#include "cbf/pass_cuda.cuh"

/* Starts copying TILE sensors from `first` on of one block of bins. Slot i * SEGMENTS + m holds bin
 * i + STEPS * m; sensors and bins that do not exist are zero. */
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

/* Adds one sensor: sum += g conj(a) x for all slots. `turns` belong to conj(a); `middle` is the
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

/* One warp's share of the sensors. The next tile is copied while the current one is computed. */
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
            __pipeline_commit(); /* an empty stage keeps the number of stages to wait for */
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

/* Grid: items x chunks. */
static __global__ void __launch_bounds__(SUM_WARPS *LANES, RESIDENT_WARPS / SUM_WARPS)
    sum_sensors(const __grid_constant__ pass pass) {
    __shared__ __align__(16) float2 tile[SUM_WARPS][2][TILE][ROW];
    static_assert(sizeof tile >= SUM_WARPS / 2 * SLOTS * LANES * sizeof(float2),
                  "room for add_warps");
    uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / LANES;
    struct place place = place_of(pass, blockIdx.x);
    const struct block block = pass.block[place.block];
    const struct field &field = *place.field;
    uint32_t point = min(place.group * LANES + lane, field.points - 1);
    const uint64_t *turns = field.turns + point * field.point_stride;
    uint32_t first = (blockIdx.y * SUM_WARPS + warp) * pass.share;
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

#endif
