/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A few new snapshots: a warp multiplies one with a few others, at the speed of the memory. */
#ifndef SONAR_MVDR_JACOBI_CUDA_SUMS_FEW_CUH
#define SONAR_MVDR_JACOBI_CUDA_SUMS_FEW_CUH

#include "mvdr_jacobi/cuda/sums/common.cuh"

namespace mvdr {

/* A sensor's value, or 0 if the sensor is not in use. The load does not wait for the mirror. */
__device__ inline complex64 used_value(const complex32 *x, uint32_t sensor, uint32_t mirror) {
    const complex32 value = x[sensor];
    return mirror == UNUSED ? complex64{0, 0} : wide(value);
}

/* The value of the mirror image at a sensor, without the conjugation. */
__device__ inline complex64 mirrored_value(const complex32 *x, uint32_t mirror) {
    return mirror == UNUSED ? complex64{0, 0} : wide(x[mirror]);
}

/* Computes x^H x_j of each new snapshot x with four others for each warp. Grid: bins, parts, (new
 * snapshot, 32 slots). */
template <bool BACKWARD>
__global__ void __launch_bounds__(256) few_sums(view v, slots rows, parts parts) {
    constexpr uint32_t EACH = 4;
    const uint32_t bin = blockIdx.x, part = blockIdx.y, i = blockIdx.z % rows.count;
    const uint32_t first = (blockIdx.z / rows.count * warps() + warp()) * EACH;
    const complex32 *x = snapshot_of(v, bin, rows.at(v, i)), *y[EACH];
    complex64 sum[EACH] = {}, image[EACH] = {};
    for (uint32_t j = 0; j < EACH; j++)
        y[j] = snapshot_of(v, bin, min(first + j, v.length - 1));
    const uint32_t end = parts.end(part, (uint32_t)v.spec.sensors);
#pragma unroll 4
    for (uint32_t k = parts.begin(part) + lane(); k < end; k += WARP) {
        const uint32_t mirror = v.mirror[k];
        complex32 other[EACH];
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++)
            other[j] = y[j][k];
        const complex64 a = conj(used_value(x, k, mirror));
        const complex64 b = BACKWARD ? conj(mirrored_value(x, mirror)) : complex64{0, 0};
#pragma unroll
        for (uint32_t j = 0; j < EACH; j++) {
            add_product(sum[j], a, wide(other[j]));
            if (BACKWARD)
                add_product(image[j], b, conj(wide(other[j])));
        }
    }
    complex64 *to = partial_of(v, parts, bin, part, rows, i, v.columns);
    for (uint32_t j = 0; j < EACH; j++) {
        sum[j] = sum_lanes(sum[j]);
        if (BACKWARD)
            image[j] = sum_lanes(image[j]);
        if (lane() == 0 && first + j < v.length) {
            to[first + j] = sum[j];
            if (BACKWARD)
                to[v.length + first + j] = image[j];
        }
    }
}

constexpr uint32_t LOOK_DIRECTIONS = 2;                /* directions of a warp */
constexpr uint32_t LOOK_ROWS = WARP / LOOK_DIRECTIONS; /* bins and their mirror images */
constexpr uint32_t LOOK_WARPS = 8, LOOK_TAKEN = LOOK_ROWS / LOOK_WARPS;

/* The samples of a thread block's bins, and of their mirror images, at the lanes' sensors. A thread
 * reads them while the products of the previous ones are computed. */
template <bool BACKWARD> struct look_samples {
    static constexpr uint32_t IMAGES = BACKWARD ? 2 : 1, BINS = LOOK_ROWS / IMAGES;
    const column_operand columns;
    column_operand::row row[LOOK_TAKEN];
    column_operand::term term[LOOK_TAKEN];
    bool any;

    __device__ look_samples(const view &v, uint32_t first, uint32_t slot) : columns{v} {
#pragma unroll
        for (uint32_t i = 0; i < LOOK_TAKEN; i++) {
            const uint32_t at = warp() + i * LOOK_WARPS;
            const uint32_t bin = min(first + at / IMAGES, (uint32_t)v.spec.bins - 1);
            row[i] = {snapshot_of(v, bin, slot), BACKWARD && at % IMAGES != 0};
        }
    }
    __device__ void read(uint32_t sensor, uint32_t end) {
        any = sensor < end;
#pragma unroll
        for (uint32_t i = 0; i < LOOK_TAKEN; i++)
            term[i] = columns.read(row[i], min(sensor, end - 1));
    }
    __device__ void store(complex64 to[LOOK_ROWS][WARP]) const {
#pragma unroll
        for (uint32_t i = 0; i < LOOK_TAKEN; i++)
            to[warp() + i * LOOK_WARPS][lane()] =
                any ? conj(columns.value(row[i], term[i])) : complex64{0, 0};
    }
};

/* The turns of a warp's directions. */
struct look_directions {
    const uint64_t *turns[LOOK_DIRECTIONS];
    uint64_t middle[LOOK_DIRECTIONS], own[LOOK_DIRECTIONS], next[LOOK_DIRECTIONS];

    __device__ look_directions(const view &v, const points &p, uint32_t direction) {
#pragma unroll
        for (uint32_t t = 0; t < LOOK_DIRECTIONS; t++) {
            turns[t] = p.turns + min(direction + t, p.count - 1) * p.stride;
            middle[t] = middle_of(v, turns[t]);
        }
    }
    __device__ void read(uint32_t sensor, uint32_t end) {
#pragma unroll
        for (uint32_t t = 0; t < LOOK_DIRECTIONS; t++)
            next[t] = turns[t][min(sensor, end - 1)];
    }
    __device__ void take() {
#pragma unroll
        for (uint32_t t = 0; t < LOOK_DIRECTIONS; t++)
            own[t] = next[t];
    }
};

/* Adds the lane's sensor to the sums [bin][image][direction]. TONAL: some bin may be steered off
 * its centre. */
template <bool BACKWARD, bool TONAL>
__device__ inline void look_at(const complex64 x[LOOK_ROWS][WARP], const frequency *f,
                               uint32_t bins, const look_directions &l, complex64 (&sum)[WARP]) {
    constexpr uint32_t IMAGES = look_samples<BACKWARD>::IMAGES, BINS = LOOK_ROWS / IMAGES;
    bin_after_bin a[LOOK_DIRECTIONS];
#pragma unroll
    for (uint32_t t = 0; t < LOOK_DIRECTIONS; t++)
        a[t].start(f[0].bin, l.own[t]);
#pragma unroll
    for (uint32_t b = 0; b < BINS; b++) {
        if (b % BINS_AT_ONCE == 0 && b >= bins)
            break;
#pragma unroll
        for (uint32_t t = 0; t < LOOK_DIRECTIONS; t++) {
            const complex64 own =
                TONAL && f[b].offset ? phasor(phase_of(f[b], l.own[t], l.middle[t])) : a[t].at;
#pragma unroll
            for (uint32_t row = b * IMAGES; row < (b + 1) * IMAGES; row++)
                add_product(sum[row * LOOK_DIRECTIONS + t], x[row][lane()], own);
            a[t].step();
        }
    }
}

/* Computes x^H a of each new snapshot, and with BACKWARD of its mirror image. Grid: groups of 16
 * directions, groups of bins, (new snapshot, part). */
template <bool BACKWARD>
__global__ void __launch_bounds__(LOOK_WARPS *WARP, 1)
    few_projections(view v, points p, slots rows, parts parts) {
    constexpr uint32_t IMAGES = look_samples<BACKWARD>::IMAGES, BINS = LOOK_ROWS / IMAGES;
    __shared__ complex64 x[2][LOOK_ROWS][WARP];
    __shared__ frequency f[BINS];
    const uint32_t i = blockIdx.z % rows.count, part = blockIdx.z / rows.count;
    const uint32_t direction = (blockIdx.x * LOOK_WARPS + warp()) * LOOK_DIRECTIONS;
    const uint32_t first = blockIdx.y * BINS, bins = min(BINS, (uint32_t)v.spec.bins - first);
    const uint32_t end = parts.end(part, (uint32_t)v.spec.sensors);
    uint32_t sensor = parts.begin(part) + lane();
    look_samples<BACKWARD> samples(v, first, rows.at(v, i));
    look_directions looks(v, p, direction);
    complex64 sum[WARP] = {};
    if (threadIdx.x < BINS)
        f[threadIdx.x] = frequency_of(v, first + min(threadIdx.x, bins - 1));
    const bool tonal = __syncthreads_or(threadIdx.x < BINS && f[threadIdx.x].offset);
    samples.read(sensor, end);
    looks.read(sensor, end);
    for (uint32_t side = 0; sensor - lane() < end; side ^= 1) {
        samples.store(x[side]);
        looks.take();
        __syncthreads();
        sensor += WARP;
        samples.read(sensor, end);
        looks.read(sensor, end);
        if (direction >= p.count)
            continue;
        if (tonal)
            look_at<BACKWARD, true>(x[side], f, bins, looks, sum);
        else
            look_at<BACKWARD, false>(x[side], f, bins, looks, sum);
    }
    const complex64 own = sum_to_lanes(sum);
    const uint32_t t = direction + lane() % LOOK_DIRECTIONS,
                   image = lane() / LOOK_DIRECTIONS % IMAGES, b = lane() / LOOK_DIRECTIONS / IMAGES;
    if (b < bins && t < p.count)
        partial_of(v, parts, first + b, part, rows, i, IMAGES * p.count)[image * p.count + t] = own;
}

} // namespace mvdr

namespace mvdr::host {

/* Makes the sums of a few new snapshots. */
inline sonar_code add_few(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                          sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::points *p = &stage->grid;
    const unsigned bins = (unsigned)v->spec.bins;
    const dim3 sums(bins, stage->few.count, rows.count * blocks_for(v->length, 32));
    if (v->images == 2)
        mvdr::few_sums<true><<<sums, 256, 0, stream>>>(*v, rows, stage->few);
    else
        mvdr::few_sums<false><<<sums, 256, 0, stream>>>(*v, rows, stage->few);
    sonar_code code = CUDA_LAUNCHED(where, "few_sums", err);
    if (code)
        return code;
    if ((code = fold_sums_of(v, rows, stage->few, stream, err)) != SONAR_OK)
        return code;
    const dim3 looks(blocks_for(p->count, mvdr::LOOK_WARPS * mvdr::LOOK_DIRECTIONS),
                     blocks_for((size_t)bins * v->images, mvdr::LOOK_ROWS),
                     rows.count * stage->few.count);
    if (v->images == 2)
        mvdr::few_projections<true><<<looks, 256, 0, stream>>>(*v, *p, rows, stage->few);
    else
        mvdr::few_projections<false><<<looks, 256, 0, stream>>>(*v, *p, rows, stage->few);
    if ((code = CUDA_LAUNCHED(where, "few_projections", err)) != SONAR_OK)
        return code;
    return fold_projections_of(v, *p, rows, stage->few, false, stream, err);
}

} // namespace mvdr::host

#endif
