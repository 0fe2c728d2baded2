/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The sums over the sensors, in float64 from float32 samples: x_i^H x_j of pairs of snapshots, x^H
 * a of snapshots and directions, and |a|^2. There are three ways to compute them:
 *
 * - A few new snapshots: a warp multiplies one with a few others, at the speed of the memory.
 *   Steering vectors are rotated from bin to bin.
 * - Several new snapshots: eight at a time on the tensor cores. A lane rotates its elements of the
 *   steering vectors from bin to bin, for all eight snapshots.
 * - Many: tiles on the tensor cores, with the steering vectors of each bin computed from the start.
 *
 * All ways split the sensors into parts, which depend on their number alone, and add the parts in
 * order.
 *
 * The projections of old and new snapshots on a direction must use the same vector a: where P is
 * 1e-8 of |a|^2, another rounding of a would be visible. So in snapshot space a is always float64.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_SUMS_CUH
#define SONAR_MVDR_JACOBI_CUDA_SUMS_CUH

#include <cuda_pipeline.h>

#include "mvdr_jacobi/cuda/stage.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr {

/* Up to this many new snapshots are processed one by one, and up to MVDR_MOST_SEVERAL eight at a
 * time. */
constexpr uint32_t FEW = 2;

/* Sums of one part: [bin][part][snapshot i][width]. */
__device__ inline complex64 *partial_of(const view &v, const parts &parts, uint32_t bin,
                                        uint32_t part, const slots &rows, uint32_t i,
                                        uint32_t width) {
    return v.partial + (((size_t)bin * parts.count + part) * rows.count + i) * width;
}

__device__ inline complex64 *sums_of(const view &v, uint32_t bin) {
    return v.sums + bin * v.sums_stride;
}

/* Stores the sum of slot i and column j, and the sum of j and i that follows from it. */
__device__ inline void store_sum(const view &v, uint32_t bin, uint32_t i, uint32_t j,
                                 complex64 sum) {
    complex64 *at = sums_of(v, bin);
    at[(size_t)j * v.length + i] = sum;
    if (j < v.length)
        at[(size_t)i * v.length + j] = conj(sum);
    else /* x_i^H of the image of x_k is x_k^H of the image of x_i */
        at[(size_t)(v.length + i) * v.length + (j - v.length)] = sum;
}

__device__ inline complex64 *projection_of(const view &v, const points &p, uint32_t bin,
                                           uint32_t direction) {
    return p.projection + ((size_t)bin * p.pitch + direction) * v.columns;
}

/* ---- columns --------------------------------------------------------------------------------- */

/* The columns of a bin at the sensors in use: the snapshots, followed by their mirror images. */
struct column_operand {
    struct row {
        const complex32 *x;
        bool image;
    };
    struct term {
        complex32 x;
        uint32_t mirror;
    };
    const view &v;

    __device__ row column(uint32_t bin, uint32_t at) const {
        const bool image = at >= v.length;
        return {snapshot_of(v, bin, image ? at - v.length : at), image};
    }
    __device__ term read(const row &row, uint32_t sensor) const {
        const uint32_t mirror = v.mirror[sensor];
        return {row.x[row.image && mirror != UNUSED ? mirror : sensor], mirror};
    }
    __device__ complex64 value(const row &row, const term &term) const {
        if (term.mirror == UNUSED)
            return {0, 0};
        return row.image ? conj(wide(term.x)) : wide(term.x);
    }
};

/* ---- a few new snapshots --------------------------------------------------------------------- */

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

/* Adds the parts of the sums. A thread for each bin, snapshot and column. */
__global__ void fold_sums(view v, slots rows, parts parts) {
    const size_t width = v.columns, item = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= v.spec.bins * rows.count * width)
        return;
    const uint32_t bin = (uint32_t)(item / (rows.count * width)),
                   i = (uint32_t)(item / width % rows.count), j = (uint32_t)(item % width);
    complex64 sum = {0, 0};
    for (uint32_t part = 0; part < parts.count; part++) {
        const complex64 more = partial_of(v, parts, bin, part, rows, i, (uint32_t)width)[j];
        sum.re += more.re, sum.im += more.im;
    }
    /* of two new snapshots each has computed the sum; the earlier one's is used, so that a pair has
     * one value */
    const uint32_t slot = rows.at(v, i),
                   other = (j % v.length + v.length - rows.at(v, 0)) % v.length;
    if (other >= i || other >= rows.count)
        store_sum(v, bin, slot, j, sum);
}

constexpr uint32_t LOOK_DIRECTIONS = 2;                /* directions of a warp */
constexpr uint32_t LOOK_ROWS = WARP / LOOK_DIRECTIONS; /* bins and their mirror images */
constexpr uint32_t LOOK_WARPS = 8, LOOK_TAKEN = LOOK_ROWS / LOOK_WARPS;
constexpr uint32_t BINS_AT_ONCE = 4; /* bins between two checks for the last one */

/*
 * The steering phasor of a sensor, from bin to bin:
 *
 *     e^{j (b + 1) w} = 2 cos w e^{j b w} - e^{j (b - 1) w}
 *
 * The rounding error grows with the square of the number of steps: 2e-14 after 16 bins.
 */
struct bin_after_bin {
    complex64 before, at;
    double twice_cos;

    __device__ void start(uint32_t bin, uint64_t turns) {
        const complex64 w = phasor(turns);
        at = phasor(bin * turns);
        before = {fma(at.re, w.re, at.im * w.im), fma(at.im, w.re, -at.re * w.im)};
        twice_cos = 2 * w.re;
    }
    __device__ void step() {
        const complex64 next = {fma(twice_cos, at.re, -before.re),
                                fma(twice_cos, at.im, -before.im)};
        before = at, at = next;
    }
};

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

/* ---- several new snapshots ------------------------------------------------------------------- */

constexpr uint32_t SEVERAL = 8; /* columns of a fragment: new snapshots, then mirror images */
constexpr uint32_t SEVERAL_AT_ONCE = 4; /* fragments that are read before they are multiplied */
constexpr uint32_t SEVERAL_WARPS = 4;

/* Computes x_i^H x_j of 8 new snapshots x_i with 16 columns x_j for each warp, on the tensor cores,
 * so that the columns are read once. Grid: bins, parts, (8 new snapshots, 64 columns). */
__global__ void __launch_bounds__(SEVERAL_WARPS *WARP)
    several_sums(view v, slots rows, parts parts) {
    constexpr uint32_t DEEP = SEVERAL_AT_ONCE;
    const uint32_t bin = blockIdx.x, part = blockIdx.y,
                   tiles = (rows.count + SEVERAL - 1) / SEVERAL;
    const uint32_t first = blockIdx.z % tiles * SEVERAL,
                   column = (blockIdx.z / tiles * SEVERAL_WARPS + warp()) * 16;
    const uint32_t end = parts.end(part, (uint32_t)v.spec.sensors);
    const column_operand columns{v};
    if (column >= v.columns)
        return;
    const column_operand::row x = columns.column(
                                  bin, rows.at(v, min(first + b_column(), rows.count - 1))),
                              y[2] = {columns.column(bin, min(column + a_row(0), v.columns - 1)),
                                      columns.column(bin, min(column + a_row(1), v.columns - 1))};
    fragment_c sum = {};
    for (uint32_t k = parts.begin(part); k < end; k += 8 * DEEP) {
        column_operand::term own[DEEP][2], other[DEEP][4];
#pragma unroll
        for (uint32_t s = 0; s < DEEP; s++) {
#pragma unroll
            for (uint32_t i = 0; i < 2; i++)
                own[s][i] = columns.read(x, min(k + 8 * s + b_row(i), end - 1));
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                other[s][i] = columns.read(y[i % 2], min(k + 8 * s + a_column(i), end - 1));
        }
#pragma unroll
        for (uint32_t s = 0; s < DEEP; s++) {
            fragment_a left;
            fragment_b right;
#pragma unroll
            for (uint32_t i = 0; i < 4; i++) {
                const complex64 value = columns.value(y[i % 2], other[s][i]);
                left.re[i] = value.re, left.im[i] = value.im;
            }
#pragma unroll
            for (uint32_t i = 0; i < 2; i++) {
                const bool there = k + 8 * s + b_row(i) < end;
                const complex64 value = there ? columns.value(x, own[s][i]) : complex64{0, 0};
                right.re[i] = value.re, right.im[i] = -value.im;
            }
            multiply(sum, left, right);
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t arrival = first + c_column(i), j = column + c_row(i);
        if (arrival < rows.count && j < v.columns)
            partial_of(v, parts, bin, part, rows, arrival, v.columns)[j] = {sum.re[i], sum.im[i]};
    }
}

constexpr uint32_t SEVERAL_BINS = 8; /* bins of a thread block, with a fragment of sums each */

/* A thread block's samples at WARP sensors. The padding puts columns on different banks. */
typedef complex32 several_samples[SEVERAL_BINS][SEVERAL][WARP + 4];

/* The columns that a warp copies to shared memory: every SEVERAL_WARPS-th. */
template <bool BACKWARD> struct several_columns {
    static constexpr uint32_t TAKEN = SEVERAL / SEVERAL_WARPS;
    const view &v;
    const complex32 *x[TAKEN]; /* in the block's first bin */
    bool image[TAKEN];
    uint32_t bins;

    __device__ several_columns(const view &v, const slots &rows, uint32_t bin, uint32_t bins,
                               uint32_t first)
        : v(v), bins(bins) {
#pragma unroll
        for (uint32_t i = 0; i < TAKEN; i++) {
            const uint32_t at = min(first + warp() + i * SEVERAL_WARPS, v.images * rows.count - 1);
            x[i] = snapshot_of(v, bin, rows.at(v, at % rows.count));
            image[i] = BACKWARD && at >= rows.count;
        }
    }
    /* Begins to copy WARP sensors from `first` on. */
    __device__ void begin(several_samples &to, uint32_t first, uint32_t end) const {
        const uint32_t sensor = min(first + lane(), end - 1),
                       mirror = BACKWARD ? v.mirror[sensor] : sensor;
#pragma unroll
        for (uint32_t i = 0; i < TAKEN; i++) {
            const complex32 *from = x[i] + (image[i] && mirror != UNUSED ? mirror : sensor);
#pragma unroll
            for (uint32_t b = 0; b < SEVERAL_BINS; b++)
                __pipeline_memcpy_async(&to[b][warp() + i * SEVERAL_WARPS][lane()],
                                        from + (size_t)min(b, bins - 1) * v.length * v.spec.sensors,
                                        sizeof(complex32));
        }
        __pipeline_commit();
    }
};

/* The turns of a lane's sensors and directions in a fragment: a_row(), a_column(). */
struct several_looks {
    const view &v;
    const uint64_t *turns[2];
    uint64_t middle[2], own[4], next[4];
    bool used[2], next_used[2];

    __device__ several_looks(const view &v, const points &p, uint32_t direction) : v(v) {
#pragma unroll
        for (uint32_t t = 0; t < 2; t++) {
            turns[t] = p.turns + min(direction + a_row(t), p.count - 1) * p.stride;
            middle[t] = middle_of(v, turns[t]);
        }
    }
    __device__ void read(uint32_t first, uint32_t end) {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            next[i] = turns[i % 2][min(first + a_column(i), end - 1)];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t sensor = first + b_row(i);
            next_used[i] = sensor < end && v.mirror[min(sensor, end - 1)] != UNUSED;
        }
    }
    __device__ void take() {
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            own[i] = next[i];
#pragma unroll
        for (uint32_t i = 0; i < 2; i++)
            used[i] = next_used[i];
    }
};

/* Adds 8 sensors, from `first` in shared memory on, to the sums of all bins. `sign` is -1 if the
 * lane's column has to be conjugated, and 1 if it is a mirror image, which would be conjugated
 * twice. TONAL as in look_at. */
template <bool TONAL>
__device__ inline void several_at(const several_samples &x, uint32_t first, float sign,
                                  const frequency *f, uint32_t bins, const several_looks &l,
                                  fragment_c (&sum)[SEVERAL_BINS]) {
    bin_after_bin a[4];
#pragma unroll
    for (uint32_t i = 0; i < 4; i++)
        a[i].start(f[0].bin, l.own[i]);
#pragma unroll
    for (uint32_t b = 0; b < SEVERAL_BINS; b++) {
        if (b % BINS_AT_ONCE == 0 && b >= bins)
            break;
        fragment_a left;
        fragment_b right;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const complex64 own =
                TONAL && f[b].offset ? phasor(phase_of(f[b], l.own[i], l.middle[i % 2])) : a[i].at;
            left.re[i] = own.re, left.im[i] = own.im;
            a[i].step();
        }
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            const complex32 value = x[b][b_column()][first + b_row(i)];
            right.re[i] = l.used[i] ? (double)value.re : 0;
            right.im[i] = l.used[i] ? (double)(sign * value.im) : 0;
        }
        multiply(sum[b], left, right);
    }
}

/* Computes x^H a of 8 new snapshots or mirror images for 16 directions of each warp, on the tensor
 * cores. A lane rotates its elements of a from bin to bin. Grid: groups of 64 directions, groups of
 * bins, (8 columns, part). */
template <bool BACKWARD>
__global__ void __launch_bounds__(SEVERAL_WARPS *WARP, 2)
    several_projections(view v, points p, slots rows, parts parts) {
    __shared__ several_samples x[2];
    __shared__ frequency f[SEVERAL_BINS];
    const uint32_t across = v.images * rows.count, tiles = (across + SEVERAL - 1) / SEVERAL;
    const uint32_t column = blockIdx.z % tiles * SEVERAL, part = blockIdx.z / tiles;
    const uint32_t direction = (blockIdx.x * SEVERAL_WARPS + warp()) * 16;
    const uint32_t bin = blockIdx.y * SEVERAL_BINS,
                   bins = min(SEVERAL_BINS, (uint32_t)v.spec.bins - bin);
    const uint32_t begin = parts.begin(part), end = parts.end(part, (uint32_t)v.spec.sensors);
    const several_columns<BACKWARD> columns(v, rows, bin, bins, column);
    const float sign = column + b_column() < rows.count ? -1 : 1;
    several_looks looks(v, p, direction);
    fragment_c sum[SEVERAL_BINS] = {};
    if (threadIdx.x < SEVERAL_BINS)
        f[threadIdx.x] = frequency_of(v, bin + min(threadIdx.x, bins - 1));
    const bool tonal = __syncthreads_or(threadIdx.x < SEVERAL_BINS && f[threadIdx.x].offset);
    columns.begin(x[0], begin, end);
    looks.read(begin, end);
    for (uint32_t k = begin, side = 0; k < end; k += WARP, side ^= 1) {
        columns.begin(x[side ^ 1], k + WARP, end);
        __pipeline_wait_prior(1);
        __syncthreads();
#pragma unroll 1
        for (uint32_t at = 0; at < WARP && direction < p.count; at += 8) {
            looks.take();
            looks.read(k + at + 8, end);
            if (tonal)
                several_at<true>(x[side], at, sign, f, bins, looks, sum);
            else
                several_at<false>(x[side], at, sign, f, bins, looks, sum);
        }
        __syncthreads();
    }
    const uint32_t width = v.images * p.count;
#pragma unroll
    for (uint32_t b = 0; b < SEVERAL_BINS; b++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t at = column + c_column(i), t = direction + c_row(i);
            if (b < bins && at < across && t < p.count)
                partial_of(v, parts, bin + b, part, rows, at % rows.count,
                           width)[at / rows.count * p.count + t] = {sum[b].re[i], sum[b].im[i]};
        }
}

/* Adds the parts of the projections. A thread for each bin, snapshot and direction, and mirror
 * image. `stale`: only bins whose offset has changed. */
__global__ void fold_projections(view v, points p, slots rows, parts parts, bool stale) {
    const size_t width = (size_t)v.images * p.count;
    const size_t item = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (item >= v.spec.bins * rows.count * width)
        return;
    const uint32_t bin = (uint32_t)(item / (rows.count * width)),
                   i = (uint32_t)(item / width % rows.count), at = (uint32_t)(item % width);
    if (stale && !v.stale[bin])
        return;
    complex64 sum = {0, 0};
    for (uint32_t part = 0; part < parts.count; part++) {
        const complex64 more = partial_of(v, parts, bin, part, rows, i, (uint32_t)width)[at];
        sum.re += more.re, sum.im += more.im;
    }
    projection_of(v, p, bin, at % p.count)[at / p.count * v.length + rows.at(v, i)] = sum;
}

/* |a|^2 of every direction over the sensors in use; in snapshot space their number, since steering
 * vectors are not rounded there. A warp for each direction. Grid: groups of 8 directions, bins.
 * `stale`: only bins whose offset has changed. `grid`: the points are the stage's own directions,
 * and the offset is noted. */
__global__ void __launch_bounds__(256) norms(view v, points p, bool stale, bool grid) {
    const uint32_t direction = blockIdx.x * warps() + warp(), bin = blockIdx.y;
    if (direction >= p.count || (stale && !v.stale[bin]))
        return;
    const uint64_t *turns = p.turns + direction * p.stride;
    const frequency f = frequency_of(v, bin);
    double sum = 0;
    for (uint32_t k = lane(); k < v.spec.sensors && !v.by_snapshots; k += WARP)
        if (v.mirror[k] != UNUSED)
            sum += square(wide(steering(f, turns[k], middle_of(v, turns))));
    sum = v.by_snapshots ? v.n : sum_lanes(sum);
    if (lane())
        return;
    p.norm[(size_t)bin * p.pitch + direction] = sum;
    if (grid && direction == 0)
        v.made[bin] = v.bin[bin].offset;
}

/* ---- tiles ----------------------------------------------------------------------------------- */

constexpr uint32_t TILE = MVDR_TILE, /* rows and columns */
    DEPTH = 8;                       /* terms between two barriers */
constexpr uint32_t PITCH = TILE + 4; /* keeps a fragment's lanes on different banks */

struct tile_memory {
    double a_re[DEPTH][PITCH], a_im[DEPTH][PITCH], b_re[DEPTH][PITCH], b_im[DEPTH][PITCH];
};

/* The elements of a tile's operand that a thread copies to shared memory. Neighbouring threads copy
 * elements that are neighbours in memory and go to different banks. */
constexpr uint32_t TILE_THREADS = 256, TAKEN = DEPTH * TILE / TILE_THREADS;
__device__ inline uint32_t taken_term(uint32_t i) {
    return threadIdx.x % DEPTH;
}
__device__ inline uint32_t taken_row(uint32_t i) {
    return threadIdx.x / DEPTH + i * (TILE_THREADS / DEPTH);
}

/* The thread's elements of an operand. An operand finds the data of a row, reads a term of the row,
 * and converts the term to a value. While terms are multiplied, those two steps later are read and
 * those of the next step are converted. */
template <typename Operand> struct taken {
    typename Operand::row row[TAKEN];
    typename Operand::term term[TAKEN];
    complex64 value[TAKEN];

    __device__ explicit taken(const Operand &from) {
#pragma unroll
        for (uint32_t i = 0; i < TAKEN; i++)
            row[i] = from.find(taken_row(i));
    }
    __device__ void read(const Operand &from, uint32_t first, uint32_t end) {
#pragma unroll
        for (uint32_t i = 0; i < TAKEN; i++)
            term[i] = from.read(row[i], min(first + taken_term(i), end - 1));
    }
    __device__ void convert(const Operand &from, uint32_t first, uint32_t end) {
#pragma unroll
        for (uint32_t i = 0; i < TAKEN; i++) {
            const complex64 x = from.value(row[i], term[i]);
            value[i] = first + taken_term(i) < end ? x : complex64{0, 0};
        }
    }
    __device__ void store(double sign, double re[DEPTH][PITCH], double im[DEPTH][PITCH]) const {
#pragma unroll
        for (uint32_t i = 0; i < TAKEN; i++) {
            re[taken_term(i)][taken_row(i)] = value[i].re;
            im[taken_term(i)][taken_row(i)] = sign * value[i].im;
        }
    }
};

/* Multiplies DEPTH terms of a warp's 16 rows and 32 columns. */
__device__ inline void multiply_tile(const tile_memory &memory, uint32_t row, uint32_t column,
                                     fragment_c sum[4]) {
#pragma unroll
    for (uint32_t k = 0; k < DEPTH; k += 8) {
        fragment_a left;
        for (uint32_t i = 0; i < 4; i++) {
            left.re[i] = memory.a_re[k + a_column(i)][row + a_row(i)];
            left.im[i] = memory.a_im[k + a_column(i)][row + a_row(i)];
        }
#pragma unroll
        for (uint32_t t = 0; t < 4; t++) {
            fragment_b right;
            for (uint32_t i = 0; i < 2; i++) {
                right.re[i] = memory.b_re[k + b_row(i)][column + 8 * t + b_column()];
                right.im[i] = memory.b_im[k + b_row(i)][column + 8 * t + b_column()];
            }
            multiply(sum[t], left, right);
        }
    }
}

/* c(row, column) = sum over k of begin..end of conj(a(row, k)) b(column, k), for a tile of TILE x
 * TILE by 8 warps, with 16 rows and 32 columns each. `store(row, column, c)` gets every element
 * once, also those of rows and columns that the operands do not have. */
template <typename A, typename B, typename Store>
__device__ void tile_of_products(uint32_t begin, uint32_t end, const A &a, const B &b,
                                 Store store) {
    __shared__ tile_memory memory[2];
    const uint32_t row = warp() / 2 * 16, column = warp() % 2 * 32;
    fragment_c sum[4] = {};
    taken<A> left(a);
    taken<B> right(b);
    /* Converts the terms that were read, and reads the next ones. */
    const auto prepare = [&](uint32_t first) {
        left.convert(a, first, end), right.convert(b, first, end);
        left.read(a, first + DEPTH, end), right.read(b, first + DEPTH, end);
    };
    const auto share = [&](tile_memory &to) {
        left.store(-1, to.a_re, to.a_im), right.store(1, to.b_re, to.b_im);
    };
    if (begin < end) {
        left.read(a, begin, end), right.read(b, begin, end);
        prepare(begin);
        share(memory[0]);
    }
    for (uint32_t first = begin, side = 0; first < end; first += DEPTH, side ^= 1) {
        __syncthreads(); /* all have stored to this side, and have read the other one */
        prepare(first + DEPTH);
        multiply_tile(memory[side], row, column, sum);
        share(memory[side ^ 1]);
    }
#pragma unroll
    for (uint32_t t = 0; t < 4; t++)
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            store(row + c_row(i), column + 8 * t + c_column(i),
                  complex64{sum[t].re[i], sum[t].im[i]});
}

/* ---- operands of tiles ----------------------------------------------------------------------- */

/* All columns from `first` on. */
struct all_columns : column_operand {
    uint32_t bin, first;

    __device__ all_columns(const view &view, uint32_t bin, uint32_t first)
        : column_operand{view}, bin(bin), first(first) {}
    __device__ row find(uint32_t i) const { return column(bin, min(first + i, v.columns - 1)); }
};

/* The columns of some slots, followed by their mirror images. */
struct slot_columns : column_operand {
    const slots &rows;
    uint32_t bin, first;

    __device__ slot_columns(const view &view, const slots &rows, uint32_t bin, uint32_t first)
        : column_operand{view}, rows(rows), bin(bin), first(first) {}
    __device__ row find(uint32_t i) const {
        const uint32_t at = min(first + i, v.images * rows.count - 1);
        return column(bin, at / rows.count * v.length + rows.at(v, at % rows.count));
    }
};

/* The steering vectors of a bin. */
struct steering_operand {
    typedef const uint64_t *row;
    typedef uint64_t term;
    const view &v;
    const points &p;
    frequency f;
    uint32_t first;

    __device__ row find(uint32_t i) const {
        return p.turns + min(first + i, p.count - 1) * p.stride;
    }
    __device__ term read(row turns, uint32_t sensor) const { return turns[sensor]; }
    __device__ complex64 value(row turns, term own) const {
        return phasor(phase_of(f, own, f.offset ? middle_of(v, turns) : 0));
    }
};

/* Computes the sums of many snapshots, without mirror images, with all columns, into partial. Grid:
 * (tiles of rows, of columns), bins, parts. */
__global__ void __launch_bounds__(256, 2) many_sums(view v, slots rows, parts parts) {
    const uint32_t across = (v.columns + TILE - 1) / TILE, bin = blockIdx.y, part = blockIdx.z;
    const uint32_t row = blockIdx.x / across * TILE, column = blockIdx.x % across * TILE;
    tile_of_products(parts.begin(part), parts.end(part, (uint32_t)v.spec.sensors),
                     slot_columns(v, rows, bin, row), all_columns(v, bin, column),
                     [&](uint32_t i, uint32_t j, complex64 sum) {
                         if (row + i < rows.count && column + j < v.columns)
                             partial_of(v, parts, bin, part, rows, row + i, v.columns)[column + j] =
                                 sum;
                     });
}

/* Computes the projections of many snapshots and their mirror images, into partial. Grid: (tiles of
 * rows, of directions), bins, parts. `stale`: only bins whose offset has changed. */
__global__ void __launch_bounds__(256, 2)
    many_projections(view v, points p, slots rows, parts parts, bool stale) {
    const uint32_t across = (p.count + TILE - 1) / TILE, bin = blockIdx.y, part = blockIdx.z;
    const uint32_t first = blockIdx.x / across * TILE, direction = blockIdx.x % across * TILE;
    const uint32_t images = v.images;
    if (stale && !v.stale[bin])
        return;
    tile_of_products(
        parts.begin(part), parts.end(part, (uint32_t)v.spec.sensors),
        slot_columns(v, rows, bin, first), steering_operand{v, p, frequency_of(v, bin), direction},
        [&](uint32_t i, uint32_t j, complex64 sum) {
            const uint32_t row = first + i;
            if (row < images * rows.count && direction + j < p.count)
                partial_of(v, parts, bin, part, rows, row % rows.count,
                           images * p.count)[row / rows.count * p.count + direction + j] = sum;
        });
}

} // namespace mvdr

namespace mvdr::host {

/* ---- parts of the sensors, added in their order ---------------------------------------------- */

inline sonar_code fold_sums_of(const mvdr::view *v, const mvdr::slots &rows,
                               const mvdr::parts &parts, cudaStream_t stream, sonar_error *err) {
    const size_t items = v->spec.bins * rows.count * v->columns;
    mvdr::fold_sums<<<blocks_for(items, 128), 128, 0, stream>>>(*v, rows, parts);
    return CUDA_LAUNCHED(where, "fold_sums", err);
}

inline sonar_code fold_projections_of(const mvdr::view *v, const mvdr::points &p,
                                      const mvdr::slots &rows, const mvdr::parts &parts, bool stale,
                                      cudaStream_t stream, sonar_error *err) {
    const size_t items = v->spec.bins * rows.count * v->images * p.count;
    mvdr::fold_projections<<<blocks_for(items, 128), 128, 0, stream>>>(*v, p, rows, parts, stale);
    return CUDA_LAUNCHED(where, "fold_projections", err);
}

/* ---- by the number of snapshots -------------------------------------------------------------- */

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

/* Makes the sums of several new snapshots. */
inline sonar_code add_several(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                              sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::points *p = &stage->grid;
    const unsigned bins = (unsigned)v->spec.bins, threads = mvdr::SEVERAL_WARPS * mvdr::WARP,
                   wide = mvdr::SEVERAL_WARPS * 16; /* columns or directions of a block */
    const dim3 sums(bins, stage->few.count,
                    blocks_for(rows.count, mvdr::SEVERAL) * blocks_for(v->columns, wide));
    mvdr::several_sums<<<sums, threads, 0, stream>>>(*v, rows, stage->few);
    sonar_code code = CUDA_LAUNCHED(where, "several_sums", err);
    if (code)
        return code;
    if ((code = fold_sums_of(v, rows, stage->few, stream, err)) != SONAR_OK)
        return code;
    const dim3 looks(blocks_for(p->count, wide), blocks_for(bins, mvdr::SEVERAL_BINS),
                     blocks_for((size_t)v->images * rows.count, mvdr::SEVERAL) * stage->few.count);
    if (v->images == 2)
        mvdr::several_projections<true><<<looks, threads, 0, stream>>>(*v, *p, rows, stage->few);
    else
        mvdr::several_projections<false><<<looks, threads, 0, stream>>>(*v, *p, rows, stage->few);
    if ((code = CUDA_LAUNCHED(where, "several_projections", err)) != SONAR_OK)
        return code;
    return fold_projections_of(v, *p, rows, stage->few, false, stream, err);
}

inline sonar_code add_many(const mvdr_stage *stage, const mvdr::slots &rows, cudaStream_t stream,
                           sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned tiles = blocks_for(rows.count, mvdr::TILE) * blocks_for(v->columns, mvdr::TILE);
    const dim3 grid(tiles, (unsigned)v->spec.bins, stage->many.count);
    mvdr::many_sums<<<grid, 256, 0, stream>>>(*v, rows, stage->many);
    sonar_code code = CUDA_LAUNCHED(where, "many_sums", err);
    if (code)
        return code;
    return fold_sums_of(v, rows, stage->many, stream, err);
}

/* Makes the projections of many snapshots. `stale`: only in bins whose steering has changed. */
inline sonar_code project_many(const mvdr_stage *stage, const mvdr::points &p,
                               const mvdr::slots &rows, bool stale, cudaStream_t stream,
                               sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const unsigned tiles =
        blocks_for((size_t)v->images * rows.count, mvdr::TILE) * blocks_for(p.count, mvdr::TILE);
    const dim3 grid(tiles, (unsigned)v->spec.bins, stage->many.count);
    mvdr::many_projections<<<grid, 256, 0, stream>>>(*v, p, rows, stage->many, stale);
    sonar_code code = CUDA_LAUNCHED(where, "many_projections", err);
    if (code)
        return code;
    return fold_projections_of(v, p, rows, stage->many, stale, stream, err);
}

inline sonar_code launch_norms(const mvdr_stage *stage, const mvdr::points &p, bool stale, bool own,
                               cudaStream_t stream, sonar_error *err) {
    const dim3 grid(blocks_for(p.count, 8), (unsigned)stage->view.spec.bins);
    mvdr::norms<<<grid, 256, 0, stream>>>(stage->view, p, stale, own);
    return CUDA_LAUNCHED(where, "norms", err);
}

/* Updates the sums: all of them after new parameters; otherwise those of the new snapshots, and all
 * projections of bins whose steering has changed. */
inline sonar_code bring_up_to_date(mvdr_stage *stage, uint32_t skip, uint32_t count, bool steered,
                                   cudaStream_t stream, sonar_error *err) {
    const mvdr::view *v = &stage->view;
    const mvdr::slots all = {0, 0, v->length}, fresh = {mvdr::NEXT, skip, count - skip};
    const bool whole = stage->stale;
    sonar_code code = SONAR_OK;
    stage->stale = true; /* remains true if a launch fails */
    if (v->by_snapshots && whole) {
        code = add_many(stage, all, stream, err);
        if (!code)
            code = project_many(stage, stage->grid, all, false, stream, err);
    } else if (v->by_snapshots && fresh.count && fresh.count <= mvdr::FEW) {
        code = add_few(stage, fresh, stream, err);
    } else if (v->by_snapshots && fresh.count && fresh.count <= MVDR_MOST_SEVERAL) {
        code = add_several(stage, fresh, stream, err);
    } else if (v->by_snapshots && fresh.count) {
        code = add_many(stage, fresh, stream, err);
        if (!code)
            code = project_many(stage, stage->grid, fresh, false, stream, err);
    }
    if (!code && v->by_snapshots && steered && !whole)
        code = project_many(stage, stage->grid, all, true, stream, err);
    if (!code && (whole || steered))
        code = launch_norms(stage, stage->grid, !whole, true, stream, err);
    stage->stale = code != SONAR_OK;
    return code;
}

} // namespace mvdr::host

#endif
