/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Triangular factors of all bins by all multiprocessors together, for matrices so large that one
 * thread block for each bin leaves most of the device idle. First the eigenvalues of the bins are
 * counted: the negative pivots of A - s I. Then X = L^-H of the loaded matrices is computed. The
 * sums are those of cuda/factor.cuh, in squares of 64 rows and columns:
 *
 *     T(i, j) = A(i, j) - sum_k L(i, k) S_k L(j, k)^H   below the diagonal, and on it
 *     T(i, j) =         - sum_k X(i, k) L(j, k)^H       above it, if X is wanted
 *
 * The block that computes a square on the diagonal also factors it; the result is X(j, j). All
 * other squares of the column are T(i, j) X(j, j). A is stored on and above the diagonal, as A(j,
 * i)^H, and L below it, so that a count does not change A. X overwrites the parts of A that are no
 * longer needed.
 *
 * One launch does all of this. A running block takes the next square of the agenda, waits until the
 * data for its sums exist, and goes on to the next square. A square depends only on squares that
 * are earlier in the agenda, which running blocks already have. So any number of blocks works. The
 * result does not depend on which block computes a square, since its sums have a fixed order.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_FACTOR_GRID_CUH
#define SONAR_MVDR_JACOBI_CUDA_FACTOR_GRID_CUH

#include "mvdr_jacobi/cuda/solve.cuh"
#include "mvdr_jacobi/cuda/squares.cuh"
#include "mvdr_jacobi/cuda/state.cuh"

namespace mvdr {

/* ---- the agenda ------------------------------------------------------------------------------ */

/* Number of squares along the diagonal of a matrix. */
__host__ __device__ inline uint32_t squares(uint32_t rows) {
    return (rows + SQUARE - 1) / SQUARE;
}

/* The square in row i and column j of a bin's matrix. */
struct task {
    uint32_t listed, i, j; /* `listed`: index of the bin in the list */
};

/*
 * The order of the squares. First the corners (0, 0) of all bins. Then for each column:
 *
 * - the square that the next corner waits for, in each bin;
 * - half of the other squares, longest sums first, bin after bin, because the squares of a bin
 *   share a factor;
 * - the next corners, at a time when few blocks have to wait for them;
 * - the other half.
 */
struct plan {
    uint32_t bins, along; /* squares */
    bool inverse;         /* squares above the diagonal are wanted, too */

    /* Finds the square at place `ticket`. False if that is beyond the end; ticket is then the
     * distance beyond it. */
    __device__ bool look_up(uint64_t *ticket, task *d) const {
        if (*ticket < bins) {
            *d = {(uint32_t)*ticket, 0, 0};
            return true;
        }
        *ticket -= bins;
        for (uint32_t j = 0; j < along; j++) {
            const uint32_t others = inverse ? along - 1 : along - 1 - j;
            const uint64_t column = (uint64_t)bins * (others + (j + 1 < along));
            if (*ticket < column) {
                in_column((uint32_t)*ticket, j, others, d);
                return true;
            }
            *ticket -= column;
        }
        return false;
    }

    __device__ void in_column(uint32_t left, uint32_t j, uint32_t others, task *d) const {
        const uint32_t half = (others - 1) / 2, corners = j + 1 < along ? bins : 0;
        uint32_t place;
        if (left < bins) {
            *d = {left, 0, j};
            place = 0;
        } else if ((left -= bins) < half * bins) {
            *d = {left / half, 0, j};
            place = 1 + left % half;
        } else if ((left -= half * bins) < corners) {
            *d = {left, j + 1, j + 1};
            return;
        } else {
            left -= corners;
            const uint32_t rest = others - 1 - half;
            *d = {left / rest, 0, j};
            place = 1 + half + left % rest;
        }
        const uint32_t below = along - 1 - j;
        d->i = place < below ? j + 1 + place : place - below;
    }
};

/* Takes the next place of the agenda. All threads call. */
__device__ inline uint64_t draw(unsigned long long *next) {
    __shared__ unsigned long long ticket;
    __syncthreads();
    if (threadIdx.x == 0)
        ticket = atomicAdd(next, 1ull);
    __syncthreads();
    return ticket;
}

/* Waits until a row of squares is done up to column `columns`, or until another counter has reached
 * that value. All threads call. */
__device__ inline void wait_for(const uint32_t *done, uint32_t columns) {
    if (threadIdx.x == 0) {
        while (*(const volatile uint32_t *)done < columns)
            __nanosleep(64);
        __threadfence();
    }
    __syncthreads();
}

/* Publishes how many columns of a row are done. All threads call. */
__device__ inline void tell(uint32_t *done, uint32_t columns) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        *(volatile uint32_t *)done = columns;
    }
}

/* ---- a bin ----------------------------------------------------------------------------------- */

/* A bin's matrix plus `shift` on its diagonal, and the progress of each of its rows of squares.
 * DEFINITE: the matrix is definite, and X is wanted. Otherwise the signs of its pivots are
 * wanted. */
template <bool DEFINITE> struct large {
    tiles f;
    uint32_t m, rows; /* rows: padded to whole panels */
    double shift, least;
    uint32_t *done, before; /* the largest value of `done` before this factor */
    complex64 *corners;     /* unless DEFINITE */
    pivots *pivot;

    __device__ tiles square_at(uint32_t i, uint32_t j) const {
        return {&f(i * SQUARE, j * SQUARE), f.rows};
    }
    /* Memory of X(j, j). */
    __device__ tiles corner_at(uint32_t j) const {
        return DEFINITE ? square_at(j, j) : tiles{corners + (size_t)j * SQUARE * SQUARE, SQUARE};
    }
    __device__ uint32_t width(uint32_t j) const { return min(SQUARE, rows - j * SQUARE); }

    /* Computes T(i, j), in place. */
    __device__ __noinline__ void gather(uint32_t i, uint32_t j, chunk *room) const {
        share sum = {};
        const bool above = i < j, corner = i == j;
        const uint32_t end = j * SQUARE;
        const rows_from left = {f, i * SQUARE, rows};
        if (DEFINITE)
            add_terms(sum, left, rows_from{f, end, rows}, above ? i * SQUARE : 0, end, end, room);
        else
            add_terms(sum, left, signed_rows_from{f, end, rows, pivot}, 0, end, end, room);
        const tiles to = corner ? corner_at(j) : square_at(i, j);
        const tiles own = corner ? square_at(j, j) : square_at(j, i);
        sum.each([&](uint32_t row, uint32_t column, complex64 product) {
            if (row >= width(i) || column >= width(j))
                return;
            complex64 a = {0, 0};
            if (!above)
                a = corner ? own(row, column) : conj(own(column, row));
            if (corner && row == column && i * SQUARE + row < m)
                a.re += shift;
            to(row, column) = {a.re - product.re, a.im - product.im};
        });
        __syncthreads();
    }

    /* Factors a square on the diagonal: stores X(j, j), with zeros below its diagonal, and the
     * pivots' signs. */
    __device__ __noinline__ void factor_corner(uint32_t j) const {
        __shared__ double sign[SQUARE];
        const tiles own = corner_at(j);
        const inertia made =
            factor<SQUARE_THREADS / WARP>(own, width(j), least, DEFINITE ? nullptr : sign, true);
        for (uint32_t at = threadIdx.x; at < PANEL * PANEL && width(j) > PANEL;
             at += SQUARE_THREADS)
            own(PANEL + at / PANEL, at % PANEL) = {0, 0};
        if (DEFINITE || threadIdx.x >= SQUARE)
            return;
        const bool negative = threadIdx.x < width(j) && sign[threadIdx.x] < 0;
        const unsigned minus = __ballot_sync(ALL_LANES, negative);
        if (lane() == 0)
            pivot[j].minus[warp()] = minus;
        if (threadIdx.x == 0)
            pivot[j].logarithm = made.logarithm;
    }

    /* Multiplies T(i, j) by X(j, j), in place. */
    __device__ __noinline__ void finish(uint32_t i, uint32_t j, chunk *room) const {
        share sum = {};
        add_terms(sum, rows_from{square_at(0, j), i * SQUARE, rows},
                  columns_from{corner_at(j), 0, width(j)}, 0, width(j),
                  share::column() + SHARE_COLUMNS, room);
        const tiles to = square_at(i, j);
        sum.each([&](uint32_t row, uint32_t column, complex64 x) {
            if (row < width(i) && column < width(j))
                to(row, column) = x;
        });
    }

    /* Computes the square (i, j), waiting for the squares that it needs. */
    __device__ void make(uint32_t i, uint32_t j, chunk *room) const {
        if (j > 0) {
            wait_for(&done[i], before + j);
            wait_for(&done[j], before + j);
        }
        gather(i, j, room);
        if (i == j) {
            factor_corner(j);
        } else {
            wait_for(&done[j], before + j + 1);
            finish(i, j, room);
        }
        tell(&done[i], before + j + 1);
    }
};

template <bool DEFINITE>
__device__ inline large<DEFINITE> large_of(const view &v, uint32_t bin, double shift, double least,
                                           uint32_t round) {
    const size_t along = squares(v.most);
    return {factor_of(v, bin),
            v.order,
            padded(v.order),
            shift,
            least,
            v.done + bin * along,
            round * squares(padded(v.order)),
            DEFINITE ? nullptr : v.corner + bin * along * SQUARE * SQUARE,
            DEFINITE ? nullptr : v.pivot + bin * along};
}

/* ---- bins ------------------------------------------------------------------------------------ */

/* Lists the bins to be solved: those whose eigenvalues have to be counted, and those whose loading
 * is known without a count. One thread block for each bin. */
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
    for (uint32_t i = threadIdx.x; i < squares(v.most); i += blockDim.x)
        v.done[(size_t)bin * squares(v.most) + i] = 0;
    if (threadIdx.x)
        return;
    bin_state &state = v.bin[bin];
    state.taken = true;
    state.unit = scale_for(trace);
    state.divisor = weights.divisor;
    state.trace = trace;
    state.snapshots = weights.effective * v.images;
    state.fallback = mvdr_falls_back(&v.spec, v.n, state.snapshots);
    if (v.counts && !state.fallback) {
        v.searches[bin] = search_for(v, bin, state.unit, state.snapshots);
        v.searches[bin].wants();
        v.counted_bin[atomicAdd(&v.listed->round[0].bins, 1u)] = bin;
    } else if (load_by_rule(v, bin, trace, 0)) {
        v.listed_bin[atomicAdd(&v.listed->bins, 1u)] = bin;
    }
}

/* Writes the matrices of the taken bins, on the diagonal and above it. Grid: blocks for each bin,
 * bins. */
__global__ void __launch_bounds__(256) assemble_taken(view v) {
    const uint32_t bin = blockIdx.y, rows = padded(v.order);
    const bin_state &state = v.bin[bin];
    if (!state.taken)
        return;
    const bin_matrix x(v, bin, state.divisor);
    for (uint32_t j = 4 * (blockIdx.x * warps() + warp()); j < rows; j += 4 * gridDim.x * warps())
        assemble_columns(x, factor_of(v, bin), v.order, state.unit, 0, j, 0,
                         min((j / SQUARE + 1) * SQUARE, rows));
}

/* Ends a bin's count in a round: its search continues in the next round, or its loading is known.
 * All threads call; one works. */
__device__ inline void conclude(const view &v, uint32_t bin, uint32_t round) {
    if (threadIdx.x)
        return;
    const pivots *made = v.pivot + (size_t)bin * squares(v.most);
    inertia all = {0, 0};
    for (uint32_t j = 0; j < squares(padded(v.order)); j++) {
        all.negative += __popc(made[j].minus[0]) + __popc(made[j].minus[1]);
        all.logarithm += made[j].logarithm;
    }
    search &s = v.searches[bin];
    const bin_state &state = v.bin[bin];
    agenda *const a = v.listed;
    s.take(all);
    if (s.wants() && round + 1 < MOST_ROUNDS)
        v.counted_bin[(round + 1) % 2 * v.spec.bins + atomicAdd(&a->round[round + 1].bins, 1u)] =
            bin;
    else if (load_by_rule(v, bin, state.trace, noise_found(v, bin, s, state.unit, state.snapshots)))
        v.listed_bin[atomicAdd(&a->bins, 1u)] = bin;
    __threadfence();
    atomicAdd(&a->round[round].done, 1u);
}

/* The number of bins in a round; waits for the end of the round before it. All threads call. */
__device__ inline uint32_t counted_in(agenda *a, uint32_t round) {
    if (round > 0)
        wait_for(&a->round[round - 1].done, a->round[round - 1].bins);
    return *(const volatile uint32_t *)&a->round[round].bins;
}

/* Runs the searches of the listed bins in rounds: each round has one count for each bin whose
 * search continues. Any number of blocks. */
__global__ void __launch_bounds__(SQUARE_THREADS, 2) count_listed(view v) {
    extern __shared__ __align__(16) unsigned char memory[];
    chunk *room = (chunk *)memory;
    agenda *const a = v.listed;
    uint64_t past = 0; /* places in the earlier rounds */
    uint32_t round = 0;
    plan plan = {counted_in(a, 0), squares(padded(v.order)), false};
    while (plan.bins) {
        const uint64_t ticket = draw(&a->next_counted);
        uint64_t place = ticket - past;
        task d;
        while (plan.bins && !plan.look_up(&place, &d)) {
            plan.bins = counted_in(a, ++round);
            past = ticket - place;
        }
        if (!plan.bins)
            return;
        const uint32_t bin = v.counted_bin[round % 2 * v.spec.bins + d.listed];
        const double s = v.searches[bin].shift();
        large_of<false>(v, bin, -s, -SMALL_PIVOT * s, round).make(d.i, d.j, room);
        if (d.i == d.j && d.j + 1 == plan.along)
            conclude(v, bin, round);
    }
}

/* Computes X of the listed bins. Any number of blocks. */
__global__ void __launch_bounds__(SQUARE_THREADS, 2) factor_listed(view v) {
    extern __shared__ __align__(16) unsigned char memory[];
    chunk *room = (chunk *)memory;
    const plan plan = {v.listed->bins, squares(padded(v.order)), true};
    for (;;) {
        uint64_t place = draw(&v.listed->next);
        task d;
        if (!plan.look_up(&place, &d))
            return;
        const uint32_t bin = v.listed_bin[d.listed];
        const double delta = v.bin[bin].unit * v.bin[bin].delta;
        large_of<true>(v, bin, delta, delta, MOST_ROUNDS).make(d.i, d.j, room);
    }
}

/* Computes the diagonal of X X^H of each listed bin, for the level. Grid: blocks for each bin,
 * bins. */
__global__ void __launch_bounds__(256) invert_diagonal(view v) {
    if (blockIdx.y >= v.listed->bins)
        return;
    const uint32_t bin = v.listed_bin[blockIdx.y];
    inverse_diagonal(factor_of(v, bin), v.order, v.d + (size_t)bin * v.most, blockIdx.x, gridDim.x);
}

} // namespace mvdr

namespace mvdr::host {

/* On the routes with "-grid": computes the inverse factors of bins whose loading does not need all
 * eigenvalues. mvdr::solve uses them. */
inline sonar_code factor_bins(const mvdr::view &v, cudaStream_t stream, sonar_error *err) {
    constexpr uint32_t WARPS = 8;
    const unsigned bins = (unsigned)v.spec.bins;
    if (!v.grid || !v.order)
        return SONAR_OK;
    CUDA_TRY(where, cudaMemsetAsync(v.listed, 0, sizeof *v.listed, stream), err);
    mvdr::list_bins<<<bins, SOLVE_THREADS, 0, stream>>>(v);
    sonar_code code = CUDA_LAUNCHED(where, "list_bins", err);
    if (code)
        return code;
    const dim3 columns(blocks_for(v.order, 4 * WARPS), bins),
        rows(blocks_for(v.order, 8 * WARPS), bins);
    mvdr::assemble_taken<<<columns, WARPS * mvdr::WARP, 0, stream>>>(v);
    if ((code = CUDA_LAUNCHED(where, "assemble_taken", err)) != SONAR_OK)
        return code;
    if (v.counts) {
        mvdr::count_listed<<<v.resident, mvdr::SQUARE_THREADS, CHUNK_BYTES, stream>>>(v);
        if ((code = CUDA_LAUNCHED(where, "count_listed", err)) != SONAR_OK)
            return code;
    }
    mvdr::factor_listed<<<v.resident, mvdr::SQUARE_THREADS, CHUNK_BYTES, stream>>>(v);
    if ((code = CUDA_LAUNCHED(where, "factor_listed", err)) != SONAR_OK)
        return code;
    mvdr::invert_diagonal<<<rows, WARPS * mvdr::WARP, 0, stream>>>(v);
    return CUDA_LAUNCHED(where, "invert_diagonal", err);
}

} // namespace mvdr::host

#endif
