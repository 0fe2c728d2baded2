/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MVDR spectrum on the GPU: P = 1 / (sum_i |q_i^H a|^2 / (d_i + delta) + |a - Q Q^H a|^2 /
 * delta), as in spectrum_cpu.c. A block takes a tile of directions of one bin at a time; steering
 * vectors are made in shared memory from exact turns as often as they are needed and stored
 * nowhere.
 */
#ifndef SONAR_MVDR_JACOBI_SPECTRUM_CUDA_CUH
#define SONAR_MVDR_JACOBI_SPECTRUM_CUDA_CUH

#include <float.h>

#include "backend/cuda_common.cuh"
#include "mvdr_jacobi/stage_cuda.cuh"

namespace mvdr {

constexpr unsigned TILE = 32;    /* directions of a tile */
constexpr unsigned OUTPUTS = 64; /* rows of a product made together */
constexpr unsigned DEPTH = 32;   /* terms of a product between two barriers */

/* Sixteen threads side by side share the directions, two each, and COUNT / 16 one above the other
 * the rows, EACH of them. */
template <unsigned COUNT> constexpr unsigned ROWS = COUNT / 16;
template <unsigned COUNT> constexpr unsigned EACH = OUTPUTS / ROWS<COUNT>;

/* The residual as the difference |a|^2 - |Q^H a|^2 is good to 1e-6 |a|^2; below this share of
 * |a|^2 that is too coarse and it is formed as a vector, projected twice. */
constexpr float DIFFERENCE_SHARE = 0.0625f;

/* Directions whose power is wanted. */
struct points {
    const uint64_t *turns; /* [point][sensor] */
    size_t stride;         /* elements from point to point */
    uint32_t count;
    float *power; /* [bin][point] */
    size_t pitch;
};

/* One block's tile: a bin and the directions first.. of it. */
struct tile {
    const complex<float> *q;    /* columns ld apart */
    const float *weight, *gain; /* gain: NULL unless levels are corrected */
    size_t ld;
    uint32_t n, k, bin, first, count;
    int32_t offset;                 /* steered above the bin's centre, in 1/MVDR_TONE_ONE bins */
    complex<float> *project, *rest; /* [k][TILE], [n][TILE] of global scratch */
};

template <unsigned COUNT> struct tile_memory {
    complex<float> left[DEPTH][OUTPUTS + 1], right[DEPTH][TILE + 1];
    float part[ROWS<COUNT>][TILE];
};

/* A thread's share of a product: rows own_row() + ROWS i of its OUTPUTS, directions own_lane() and
 * own_lane() + 16. */
template <unsigned COUNT> struct share { complex<float> at[EACH<COUNT>][2]; };

__device__ inline unsigned own_lane() {
    return threadIdx.x % 16;
}

__device__ inline unsigned own_row() {
    return threadIdx.x / 16;
}

__device__ inline complex<float> steering(const view &v, const points &p, const tile &t,
                                          uint32_t row, uint32_t direction) {
    if (row >= t.n || direction >= t.count)
        return {0, 0};
    const uint64_t *at = p.turns + (t.first + direction) * p.stride;
    uint64_t turns = at[v.sensor[row]];
    uint32_t phase = sonar_cuda_phase(turns, t.bin);
    if (t.offset) { /* a part of a bin multiplies signed turns: those from the middle */
        int32_t apart = (int32_t)((turns - at[v.middle]) >> 32);
        phase += (uint32_t)((uint64_t)((int64_t)t.offset * apart) >> 24);
    }
    float2 a = sonar_cuda_phasor(phase);
    return {a.x, a.y};
}

/* Rows first.. of the right-hand factor: the steering vectors, or what `from` holds. */
template <unsigned COUNT>
__device__ void load_right(const view &v, const points &p, const tile &t,
                           const complex<float> *from, uint32_t first, uint32_t depth,
                           tile_memory<COUNT> *memory) {
    for (unsigned i = threadIdx.x; i < DEPTH * TILE; i += COUNT) {
        if (from) { /* directions are neighbours in memory */
            unsigned row = i / TILE, direction = i % TILE;
            memory->right[row][direction] = first + row < depth
                                                ? from[(size_t)(first + row) * TILE + direction]
                                                : complex<float>{0, 0};
        } else { /* sensors are */
            unsigned row = i % DEPTH, direction = i / DEPTH;
            memory->right[row][direction] = steering(v, p, t, first + row, direction);
        }
    }
}

/* left[l][r] = conj(Q[first + l, base + r]) for a projection, -Q[base + r, first + l] otherwise. */
template <unsigned COUNT>
__device__ void load_left(const tile &t, bool projection, uint32_t base, uint32_t first,
                          tile_memory<COUNT> *memory) {
    for (unsigned i = threadIdx.x; i < DEPTH * OUTPUTS; i += COUNT) {
        unsigned l = projection ? i % DEPTH : i / OUTPUTS, r = projection ? i / DEPTH : i % OUTPUTS;
        uint32_t row = projection ? first + l : base + r,
                 column = projection ? base + r : first + l;
        complex<float> x = {0, 0};
        if (row < t.n && column < t.k)
            x = t.q[column * t.ld + row];
        memory->left[l][r] =
            projection ? complex<float>{x.re, -x.im} : complex<float>{-x.re, -x.im};
    }
}

template <unsigned COUNT>
__device__ void multiply(const tile_memory<COUNT> *memory, share<COUNT> *sum) {
    for (unsigned l = 0; l < DEPTH; l++) {
        complex<float> x[2] = {memory->right[l][own_lane()], memory->right[l][own_lane() + 16]};
#pragma unroll
        for (unsigned i = 0; i < EACH<COUNT>; i++) {
            complex<float> a = memory->left[l][own_row() + ROWS<COUNT> * i];
#pragma unroll
            for (unsigned j = 0; j < 2; j++) {
                complex<float> *s = &sum->at[i][j];
                s->re = fmaf(a.re, x[j].re, s->re), s->re = fmaf(-a.im, x[j].im, s->re);
                s->im = fmaf(a.re, x[j].im, s->im), s->im = fmaf(a.im, x[j].re, s->im);
            }
        }
    }
}

/* sum += rows base.. of Q^H X (projection) or -Q X, X being `right` or the steering vectors. */
template <unsigned COUNT>
__device__ void product(const view &v, const points &p, const tile &t, bool projection,
                        const complex<float> *right, uint32_t base, tile_memory<COUNT> *memory,
                        share<COUNT> *sum) {
    uint32_t depth = projection ? t.n : t.k;
    for (uint32_t first = 0; first < depth; first += DEPTH) {
        __syncthreads();
        load_left(t, projection, base, first, memory);
        load_right(v, p, t, right, first, depth, memory);
        __syncthreads();
        multiply(memory, sum);
    }
}

/* Sums over the block's threads of each direction, in the order of the rows. */
template <unsigned COUNT>
__device__ float over_rows(const float value[2], tile_memory<COUNT> *memory) {
    __syncthreads();
    memory->part[own_row()][own_lane()] = value[0];
    memory->part[own_row()][own_lane() + 16] = value[1];
    __syncthreads();
    float sum = 0;
    if (threadIdx.x < TILE)
        for (unsigned i = 0; i < ROWS<COUNT>; i++)
            sum += memory->part[i][threadIdx.x];
    return sum;
}

/* Of thread t < TILE: sums of weight |c|^2, |c|^2 and gain |c|^2 over c = Q^H a of direction t. */
struct energies {
    float weighted, plain, raised;
};

/* project = Q^H X, and its energies. */
template <unsigned COUNT>
__device__ energies project(const view &v, const points &p, const tile &t,
                            const complex<float> *right, tile_memory<COUNT> *memory) {
    float w[2] = {0, 0}, e[2] = {0, 0}, g[2] = {0, 0};
    for (uint32_t base = 0; base < t.k; base += OUTPUTS) {
        share<COUNT> sum = {};
        product(v, p, t, true, right, base, memory, &sum);
        for (unsigned i = 0; i < EACH<COUNT>; i++) {
            uint32_t column = base + own_row() + ROWS<COUNT> * i;
            for (unsigned j = 0; j < 2 && column < t.k; j++) {
                complex<float> c = sum.at[i][j];
                float power = c.re * c.re + c.im * c.im;
                e[j] += power;
                w[j] += t.weight[column] * power;
                if (t.gain)
                    g[j] += t.gain[column] * power;
                t.project[(size_t)column * TILE + own_lane() + 16 * j] = c;
            }
        }
    }
    energies sums = {over_rows(w, memory), over_rows(e, memory), 0};
    if (t.gain)
        sums.raised = over_rows(g, memory);
    return sums;
}

/* rest = X - Q project; returns thread t's |rest|^2 of direction t. */
template <unsigned COUNT>
__device__ float subtract(const view &v, const points &p, const tile &t, const complex<float> *from,
                          tile_memory<COUNT> *memory) {
    float e[2] = {0, 0};
    for (uint32_t base = 0; base < t.n; base += OUTPUTS) {
        share<COUNT> sum;
        for (unsigned i = 0; i < EACH<COUNT>; i++)
            for (unsigned j = 0; j < 2; j++) {
                uint32_t row = base + own_row() + ROWS<COUNT> * i, direction = own_lane() + 16 * j;
                sum.at[i][j] = !from       ? steering(v, p, t, row, direction)
                               : row < t.n ? from[(size_t)row * TILE + direction]
                                           : complex<float>{0, 0};
            }
        product(v, p, t, false, t.project, base, memory, &sum);
        for (unsigned i = 0; i < EACH<COUNT>; i++) {
            uint32_t row = base + own_row() + ROWS<COUNT> * i;
            for (unsigned j = 0; j < 2 && row < t.n; j++) {
                complex<float> r = sum.at[i][j];
                e[j] += r.re * r.re + r.im * r.im;
                t.rest[(size_t)row * TILE + own_lane() + 16 * j] = r;
            }
        }
    }
    return over_rows(e, memory);
}

/* |a - Q Q^H a|^2 of thread t's direction, from `inside` = |Q^H a|^2 and the projection. */
template <unsigned COUNT>
__device__ float outside(const view &v, const points &p, const tile &t, float inside,
                         tile_memory<COUNT> *memory) {
    float left = (float)t.n - inside;
    bool coarse = threadIdx.x < t.count && left < DIFFERENCE_SHARE * (float)t.n;
    if (!__syncthreads_or(coarse))
        return left;
    subtract(v, p, t, nullptr, memory);
    __syncthreads();
    project(v, p, t, t.rest, memory);
    __syncthreads();
    float exact = subtract(v, p, t, t.rest, memory);
    return coarse ? exact : left;
}

template <unsigned COUNT>
__device__ void spectrum_of_tile(const view &v, const points &p, const tile &t, double level,
                                 tile_memory<COUNT> *memory, float *power) {
    energies sums = {0, 0, 0};
    float left = 0;
    if (level > 0) {
        sums = project(v, p, t, nullptr, memory);
        if (t.k < t.n)
            left = outside(v, p, t, sums.plain, memory);
    }
    double denominator = (double)sums.weighted + (double)left;
    double result = level > 0 && denominator > 0 ? level / denominator : 0;
    if (t.gain)
        result *= (double)sums.raised;
    if (threadIdx.x < t.count)
        power[t.first + threadIdx.x] = (float)fmin(result, (double)FLT_MAX);
}

/* Blocks share the tiles of all bins out among themselves; each has (n + kept) TILE of scratch. */
template <unsigned COUNT>
__global__ void __launch_bounds__(COUNT) spectrum(view v, points p, complex<float> *scratch) {
    __shared__ tile_memory<COUNT> memory;
    uint32_t tiles = (p.count + TILE - 1) / TILE;
    scratch += blockIdx.x * (v.spec.sensors + v.kept) * TILE;
    for (size_t item = blockIdx.x; item < tiles * v.spec.bins; item += gridDim.x) {
        size_t bin = item / tiles;
        uint32_t first = (uint32_t)(item % tiles) * TILE;
        tile t = {v.q + bin * v.kept * v.spec.sensors,
                  v.weight + bin * v.kept,
                  v.spec.correct_level ? v.gain + bin * v.kept : nullptr,
                  v.spec.sensors,
                  v.n,
                  v.bin[bin].pairs,
                  (uint32_t)(v.spec.first_bin + bin),
                  first,
                  min(TILE, p.count - first),
                  (int32_t)llrint(v.bin[bin].offset * MVDR_TONE_ONE),
                  scratch,
                  scratch + v.kept * TILE};
        spectrum_of_tile(v, p, t, v.bin[bin].level, &memory, p.power + bin * p.pitch);
        __syncthreads();
    }
}

using spectrum_function = void (*)(view, points, complex<float> *);

/* NULL for a number of threads that no kernel is made for. */
inline spectrum_function spectrum_kernel(long count) {
    switch (count) {
    case 128:
        return spectrum<128>;
    case 256:
        return spectrum<256>;
    case 512:
        return spectrum<512>;
    default:
        return nullptr;
    }
}

/* (fs/N) sum_b P, in double, bin after bin. */
__global__ void band_power(view v, points p, float *out, ptrdiff_t stride) {
    uint32_t point = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    if (point >= p.count)
        return;
    for (size_t bin = 0; bin < v.spec.bins; bin++)
        sum += (double)p.power[bin * p.pitch + point];
    out[point * stride] = (float)fmin(sum * v.spec.fs_hz / (double)v.spec.length, (double)FLT_MAX);
}

} // namespace mvdr

#endif
