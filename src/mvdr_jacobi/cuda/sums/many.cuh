/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Many snapshots: tiles on the tensor cores. */
#ifndef SONAR_MVDR_JACOBI_CUDA_SUMS_MANY_CUH
#define SONAR_MVDR_JACOBI_CUDA_SUMS_MANY_CUH

#include "mvdr_jacobi/cuda/sums/common.cuh"

namespace mvdr {

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

} // namespace mvdr::host

#endif
