/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The inverse factors X = L^-H of all bins by all multiprocessors, for matrices so large that one
 * thread block a bin leaves most of the device idle. The sums are those of factor_cuda.cuh, in
 * squares of 64 rows and columns:
 *
 *     T(i, j) = A(i, j) - sum_k L(i, k) L(j, k)^H   below the diagonal, and on it
 *     T(i, j) =         - sum_k X(i, k) L(j, k)^H   above it
 *
 * The square on the diagonal is factored by the block that made it, X(j, j) being the result, and
 * all others of its column are T(i, j) X(j, j).
 *
 * One launch does it all: a running block takes the next square of the agenda, waits until what its
 * sums need is there, and goes on to the next. A square waits only for squares that are earlier in
 * the agenda, which running blocks have, so that it does not matter how many blocks there are. Who
 * makes a square does not matter either: its sums have one order.
 */
#ifndef SONAR_MVDR_JACOBI_FACTOR_GRID_CUDA_CUH
#define SONAR_MVDR_JACOBI_FACTOR_GRID_CUDA_CUH

#include "mvdr_jacobi/solve_cuda.cuh"
#include "mvdr_jacobi/squares_cuda.cuh"

namespace mvdr {

/* ---- the agenda ------------------------------------------------------------------------------ */

/* Squares of a matrix, along its diagonal. */
__host__ __device__ inline uint32_t squares(uint32_t rows) {
    return (rows + SQUARE - 1) / SQUARE;
}

/* The square in row i and column j of a bin. */
struct duty {
    uint32_t listed, i, j; /* the bin is that one of the list */
};

/*
 * First the corners (0, 0) of all bins. Then column after column: what the next corner waits for,
 * half of the others, longest sums first and bin after bin, as one bin's squares share a factor;
 * the next corners, which few blocks are to wait for; and the other half. False behind the end;
 * j = squares: nothing is to be done.
 */
__device__ inline bool look_up(uint64_t ticket, uint32_t bins, uint32_t squares, duty *d) {
    if (ticket < bins) {
        *d = {(uint32_t)ticket, 0, 0};
        return true;
    }
    ticket -= bins;
    const uint64_t column = (uint64_t)bins * squares;
    const uint32_t j = (uint32_t)(ticket / column), others = squares - 1, half = (others - 1) / 2;
    uint32_t left = (uint32_t)(ticket % column), place;
    if (others == 0 || j >= squares)
        return false;
    if (left < bins) {
        *d = {left, 0, j};
        place = 0;
    } else if ((left -= bins) < half * bins) {
        *d = {left / half, 0, j};
        place = 1 + left % half;
    } else if ((left -= half * bins) < bins) {
        *d = {left, j + 1, j + 1};
        return true;
    } else {
        left -= bins;
        const uint32_t rest = others - 1 - half;
        *d = {left / rest, 0, j};
        place = 1 + half + left % rest;
    }
    const uint32_t below = squares - 1 - j;
    d->i = place < below ? j + 1 + place : place - below;
    return true;
}

/* Waits until a row of squares is done up to column `columns`. All threads call. */
__device__ inline void wait_for(const uint32_t *done, uint32_t columns) {
    if (threadIdx.x == 0) {
        while (*(const volatile uint32_t *)done < columns)
            __nanosleep(64);
        __threadfence();
    }
    __syncthreads();
}

/* Says that it is. All threads call. */
__device__ inline void tell(uint32_t *done, uint32_t columns) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        *(volatile uint32_t *)done = columns;
    }
}

/* ---- a bin ----------------------------------------------------------------------------------- */

/* A bin's matrix, and how far each of its rows of squares is done. */
struct large {
    tiles f;
    uint32_t rows; /* whole panels */
    double least;
    uint32_t *done;

    __device__ void put(const share &sum, uint32_t i, uint32_t j) const {
        sum.each([&](uint32_t row, uint32_t column, complex64 x) {
            if (i + row < rows && j + column < rows)
                f(i + row, j + column) = x;
        });
    }

    /* T, to its place; i and j are its first row and column. */
    __device__ __noinline__ void gather(uint32_t i, uint32_t j, chunk *room) const {
        share sum = {};
        const bool above = i < j;
        add_terms(sum, rows_from{f, i, rows}, rows_from{f, j, rows}, above ? i : 0, j, j, room);
        sum.each([&](uint32_t row, uint32_t column, complex64 product) {
            if (i + row >= rows || j + column >= rows)
                return;
            complex64 &own = f(i + row, j + column), x = above ? complex64{0, 0} : own;
            own = {x.re - product.re, x.im - product.im};
        });
        __syncthreads();
    }

    /* On the diagonal: X(j, j), and zeros below its diagonal. */
    __device__ __noinline__ void factor_corner(uint32_t j) const {
        const uint32_t width = min(SQUARE, rows - j);
        const tiles own = {&f(j, j), f.rows};
        factor(own, width, least, nullptr);
        for (uint32_t at = threadIdx.x; at < PANEL * PANEL && width > PANEL; at += SQUARE_THREADS)
            own(PANEL + at / PANEL, at % PANEL) = {0, 0};
    }

    /* T X(j, j), to its place. */
    __device__ __noinline__ void finish(uint32_t i, uint32_t j, chunk *room) const {
        share sum = {};
        const uint32_t end = min(j + SQUARE, rows);
        add_terms(sum, rows_from{f, i, rows}, columns_from{f, j, rows}, j, end,
                  j + share::column() + SHARE_COLUMNS, room);
        put(sum, i, j);
    }

    /* The square (i, j). */
    __device__ void make(uint32_t i, uint32_t j, chunk *room) const {
        wait_for(&done[i], j);
        wait_for(&done[j], j);
        gather(i * SQUARE, j * SQUARE, room);
        if (i == j) {
            factor_corner(j * SQUARE);
        } else {
            wait_for(&done[j], j + 1);
            finish(i * SQUARE, j * SQUARE, room);
        }
        tell(&done[i], j + 1);
    }
};

/* ---- kernels --------------------------------------------------------------------------------- */

/* Lists the bins that are to be solved and whose loading is known without all eigenvalues, with
 * what the others need. One thread block each. */
__global__ void __launch_bounds__(512, 1) list_bins(view v) {
    const uint32_t bin = blockIdx.x, m = v.order;
    if (!v.in_band(bin) || !v.unsolved[bin] || !m)
        return;
    const weights weights = weights_of(v, bin);
    if (!weights.order || !(weights.count > 0))
        return;
    const bin_matrix x(v, bin, weights);
    const double trace = trace_of(x, m);
    if (!(trace > 0))
        return;
    loaded loaded;
    uint32_t *done = v.done + (size_t)bin * squares(v.most);
    const solution s = {v, x, weights, bin, m, trace, scale_for(trace)};
    if (!s.load_without(&loaded))
        return;
    for (uint32_t i = threadIdx.x; i < squares(v.most); i += blockDim.x)
        done[i] = 0;
    if (threadIdx.x)
        return;
    bin_state &state = v.bin[bin];
    state.unit = s.unit;
    state.divisor = weights.divisor;
    state.asked = loaded.delta;
    state.fallback = loaded.fallback;
    state.factored = true;
    v.listed_bin[atomicAdd(&v.listed->bins, 1u)] = bin;
}

/* Their matrices. Grid: blocks for each, bins. */
__global__ void __launch_bounds__(256) assemble_listed(view v) {
    if (blockIdx.y >= v.listed->bins)
        return;
    const uint32_t bin = v.listed_bin[blockIdx.y];
    const bin_state &state = v.bin[bin];
    assemble_panels(bin_matrix(v, bin, state.divisor), factor_of(v, bin), v.order, state.unit,
                    state.unit * state.delta, blockIdx.x, gridDim.x);
}

/* X of all that is listed. Any number of blocks. */
__global__ void __launch_bounds__(SQUARE_THREADS, 2) factor_listed(view v) {
    extern __shared__ __align__(16) unsigned char memory[];
    __shared__ unsigned long long ticket;
    const uint32_t bins = v.listed->bins, rows = padded(v.order), along = squares(rows);
    chunk *room = (chunk *)memory;
    for (;;) {
        duty d;
        __syncthreads();
        if (threadIdx.x == 0)
            ticket = atomicAdd(&v.listed->next, 1ull);
        __syncthreads();
        if (!bins || !look_up(ticket, bins, along, &d))
            return;
        if (d.j == along)
            continue;
        const uint32_t bin = v.listed_bin[d.listed];
        const bin_state &state = v.bin[bin];
        large{factor_of(v, bin), rows, state.unit * state.delta,
              v.done + (size_t)bin * squares(v.most)}
            .make(d.i, d.j, room);
    }
}

/* The diagonal of X X^H of each of them, for the level. Grid: blocks for each, bins. */
__global__ void __launch_bounds__(256) invert_diagonal(view v) {
    if (blockIdx.y >= v.listed->bins)
        return;
    const uint32_t bin = v.listed_bin[blockIdx.y];
    inverse_diagonal(factor_of(v, bin), v.order, v.d + (size_t)bin * v.most, blockIdx.x, gridDim.x);
}

} // namespace mvdr

#endif
