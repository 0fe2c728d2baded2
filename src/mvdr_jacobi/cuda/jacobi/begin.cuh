/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The first X of Jacobi's method: the Cholesky factor of the matrix, or the last vectors times that
 * of the matrix in their basis. */
#ifndef SONAR_MVDR_JACOBI_CUDA_JACOBI_BEGIN_CUH
#define SONAR_MVDR_JACOBI_CUDA_JACOBI_BEGIN_CUH

#include "mvdr_jacobi/cuda/jacobi/batch.cuh"

namespace mvdr {

/* ---- X from the matrix ----------------------------------------------------------------------- */

constexpr uint32_t TILE_ROWS_64 = 64, TILE_COLUMNS_32 = 32;

/* The products before the sweeps: R V, V^H (R V), V L. */
enum jacobi_product { TIMES_VECTORS, BETWEEN_VECTORS, VECTORS_TIMES_FACTOR };

/* Computes C (16 x 32 at row, column) by one warp. BETWEEN_VECTORS: C is Hermitian. */
template <jacobi_product WHAT>
__device__ inline void product_of(const jacobi_batch &b, uint32_t matrix, uint32_t row,
                                  uint32_t column) {
    const uint32_t n = b.order;
    const complex64 *vectors = b.vectors + b.first(matrix);
    complex64 *a = b.a + b.first(matrix), *x = b.x + b.first(matrix);
    complex64 *to = WHAT == BETWEEN_VECTORS ? a : x;
    fragment_c c[4] = {};
    for (uint32_t k = WHAT == VECTORS_TIMES_FACTOR ? column : 0; k < n; k += 8) {
        fragment_a left;
        if (WHAT == BETWEEN_VECTORS)
            load_adjoint(left, vectors, n, row, k);
        else
            load_a(left, WHAT == TIMES_VECTORS ? a : vectors, n, row, k);
#pragma unroll
        for (uint32_t j = 0; j < 4; j++) {
            const uint32_t at = column + 8 * j;
            fragment_b right;
            load_b(right,
                   WHAT == TIMES_VECTORS     ? vectors
                   : WHAT == BETWEEN_VECTORS ? x
                                             : a,
                   n, k, at);
            if (WHAT == VECTORS_TIMES_FACTOR) /* above its diagonal is the matrix */
#pragma unroll
                for (unsigned i = 0; i < 2; i++)
                    if (k + b_row(i) < at + b_column())
                        right.re[i] = right.im[i] = 0;
            multiply(c[j], left, right);
        }
    }
    each_element(c, row, column, [=](uint32_t p, uint32_t q, complex64 value) {
        if (WHAT == BETWEEN_VECTORS && p == q)
            value.im = 0;
        if (WHAT != BETWEEN_VECTORS || p >= q)
            to[(size_t)q * n + p] = value;
        if (WHAT == BETWEEN_VECTORS && p > q)
            to[(size_t)p * n + q] = conj(value);
    });
}

/* Computes a product of matrices that begin from vectors. For the others X is the factor itself. 64
 * rows and 32 columns for each thread block. */
template <jacobi_product WHAT>
__global__ void __launch_bounds__(JACOBI_THREADS, 3) jacobi_products(jacobi_batch b) {
    const uint32_t n = b.order, matrix = blockIdx.z, column = TILE_COLUMNS_32 * blockIdx.y,
                   row = TILE_ROWS_64 * blockIdx.x + 16 * warp();
    if (row >= n || !b.wants(matrix))
        return;
    if (b.begins_from_vectors(matrix)) {
        if (WHAT != BETWEEN_VECTORS || row + 16 > column)
            product_of<WHAT>(b, matrix, row, column);
    } else if (WHAT == VECTORS_TIMES_FACTOR) {
        const complex64 *from = b.a + b.first(matrix);
        complex64 *to = b.x + b.first(matrix);
        for (uint32_t e = lane(); e < 16 * TILE_COLUMNS_32; e += WARP) {
            const uint32_t i = row + e % 16, j = column + e / 16;
            const size_t at = (size_t)j * n + i;
            to[at] = i >= j ? from[at] : complex64{0, 0};
        }
    }
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* A lane's pivot must exceed `least`; otherwise `filler` replaces it. */
struct pivot_rule {
    double least, filler;
};

/* Factors a square of 32 rows on the diagonal: L goes to `square`, unless it is NULL, its columns n
 * apart, and (L^-1)^H to w, by elimination in the square and in the identity together. Lane i of
 * every warp has the rule of row i. A pivot of 0 leaves a column of zeros. Destroys s. Returns
 * whether all pivots exceed their least value or that is infinite. All threads call. */
__device__ __noinline__ bool factor_square(complex64 *s, pivot_rule rule, complex64 *square,
                                           uint32_t n, complex64 *w) {
    bool fine = true;
    double own_over = 0;
    for (uint32_t k = 0; k < JACOBI_PIVOT; k++) {
        const double least = __shfl_sync(ALL_LANES, rule.least, k),
                     filler = __shfl_sync(ALL_LANES, rule.filler, k),
                     found = s[k * PIVOT_LD + k].re, pivot = found > least ? found : filler;
        fine = fine && (found > least || isinf(least));
        const double over = pivot > 0 ? refine_rsqrt(pivot, near_rsqrt(pivot)) : 0;
        own_over = lane() == k ? over : own_over;
        complex64 column = s[k * PIVOT_LD + lane()], row = w[k * PIVOT_LD + lane()];
        column = lane() > k ? complex64{column.re * over, column.im * over}
                            : complex64{lane() == k ? pivot * over : 0, 0};
        row = {row.re * over, row.im * over};
        if (square && warp() == 0 && lane() >= k)
            square[(size_t)k * n + lane()] = column;
        for (uint32_t j = k + 1 + warp(); j < JACOBI_PIVOT; j += warps()) {
            const complex64 minus = {-__shfl_sync(ALL_LANES, column.re, j),
                                     __shfl_sync(ALL_LANES, column.im, j)}; /* -conj(L_jk) */
            complex64 left = s[j * PIVOT_LD + lane()], inverse = w[j * PIVOT_LD + lane()];
            add_product(left, minus, column);
            add_product(inverse, minus, row);
            s[j * PIVOT_LD + lane()] = left, w[j * PIVOT_LD + lane()] = inverse;
        }
        __syncthreads();
    }
    for (uint32_t k = warp(); k < JACOBI_PIVOT; k += warps()) {
        const double over = __shfl_sync(ALL_LANES, own_over, k);
        complex64 &x = w[k * PIVOT_LD + lane()];
        x = {x.re * over, x.im * over};
    }
    __syncthreads();
    return fine;
}

/* Subtracts the products of the 32 columns at `first` of the factor from the matrix after them: 16
 * rows of 32 columns for each of the team's warps at a time. */
__device__ __noinline__ void update_rest(complex64 *a, uint32_t n, uint32_t first,
                                         const team_member &own) {
    const uint32_t begin = first + JACOBI_PIVOT, all = own.members * warps();
    uint32_t tile = own.member * warps() + warp();
    for (uint32_t column = begin; column < n; column += JACOBI_PIVOT) {
        const uint32_t down = (n - column) / 16;
        for (; tile < down; tile += all) {
            const uint32_t row = column + 16 * tile;
            fragment_c c[4] = {};
#pragma unroll
            for (uint32_t k = first; k < begin; k += 8) {
                fragment_a left;
                load_a(left, a, n, row, k);
#pragma unroll
                for (uint32_t j = 0; j < 4; j++) {
                    fragment_b right; /* L^H */
#pragma unroll
                    for (unsigned i = 0; i < 2; i++) {
                        const complex64 x =
                            a[(size_t)(k + b_row(i)) * n + column + 8 * j + b_column()];
                        right.re[i] = -x.re, right.im[i] = x.im;
                    }
                    multiply(c[j], left, right);
                }
            }
            each_element(c, row, column, [=](uint32_t p, uint32_t q, complex64 sum) {
                complex64 *at = a + (size_t)q * n + p;
                if (p >= q) /* the matrix remains above its diagonal */
                    *at = {at->re + sum.re, at->im + sum.im};
            });
        }
        tile -= down;
    }
}

/* A matrix that a team factors. */
struct factoring {
    complex64 *a;       /* the matrix is the upper triangle with `diagonal` and shift */
    complex64 *squares; /* L's squares on the diagonal, in their places in a matrix of its own:
                           those of a are read by all members */
    const double *diagonal;
    uint32_t rows, n;
    complex64 *s, *w; /* shared memory for a square each */
};

/* Restores the lower triangle, with a shift of the diagonal. All threads of all members call. */
__device__ inline void restore_matrix(const factoring &f, double shift, const team_member &own) {
    const uint32_t n = f.n, step = own.members * blockDim.x,
                   begin = own.member * blockDim.x + threadIdx.x;
    for (uint32_t e = begin; e < n * n; e += step)
        if (e % n > e / n)
            f.a[e] = conj(f.a[(size_t)(e % n) * n + e / n]);
    for (uint32_t i = begin; i < n; i += step)
        f.a[(size_t)i * n + i] = {f.diagonal[i] + (i < f.rows ? shift : 0), 0};
}

/* Replaces the lower triangle by the factor, except for the squares on its diagonal. `again`: with
 * the shift, and pivots get a least value. False: a pivot is not above rounding. All threads of all
 * members call. */
__device__ inline bool factor_matrix(const factoring &f, double shift, bool again,
                                     team_member &own) {
    const uint32_t n = f.n, rows = f.rows;
    for (uint32_t first = 0; first < n; first += JACOBI_PIVOT) {
        complex64 *panel = f.a + (size_t)first * n;
        for (uint32_t e = threadIdx.x; e < JACOBI_PIVOT * JACOBI_PIVOT; e += blockDim.x) {
            const uint32_t i = e % JACOBI_PIVOT, j = e / JACOBI_PIVOT;
            f.s[j * PIVOT_LD + i] = panel[(size_t)j * n + first + i];
            f.w[j * PIVOT_LD + i] = {i == j ? 1. : 0., 0};
        }
        __syncthreads();
        pivot_rule rule = {INFINITY, 0}; /* rows beyond the matrix */
        if (first + lane() < rows && again)
            rule = {shift / 4, shift / 4};
        else if (first + lane() < rows)
            rule = {n * 0x1p-52 * f.diagonal[first + lane()], 0};
        complex64 *square = own.member ? nullptr : f.squares + (size_t)first * n + first;
        if (!factor_square(f.s, rule, square, n, f.w) && !again)
            return false;
        const uint32_t step = 16 * own.members * warps(),
                       row = first + JACOBI_PIVOT + 16 * (own.member * warps() + warp());
        turn_columns([=](uint32_t c) { return panel + (size_t)c * n; }, row, n, step, f.w);
        meet(own);
        update_rest(f.a, n, first, own);
        meet(own);
    }
    return true;
}

/* Moves the squares on the diagonal to the factor. */
__device__ inline void complete_factor(const factoring &f, const team_member &own) {
    for (uint32_t first = JACOBI_PIVOT * own.member; first < f.n;
         first += JACOBI_PIVOT * own.members)
        for (uint32_t e = threadIdx.x; e < JACOBI_PIVOT * JACOBI_PIVOT; e += blockDim.x) {
            const uint32_t i = first + e % JACOBI_PIVOT, j = first + e / JACOBI_PIVOT;
            if (i >= j)
                f.a[(size_t)j * f.n + i] = f.squares[(size_t)j * f.n + i];
        }
}

/* Computes the Cholesky factor of each matrix, with a shift if the matrix is not definite. A matrix
 * of zeros gets the identity's vectors. x is scratch. */
__global__ void __launch_bounds__(CHOLESKY_THREADS, 1) jacobi_factor(jacobi_batch b) {
    constexpr double TINY = 1e-280;
    __shared__ complex64 s[JACOBI_PIVOT * PIVOT_LD], w[JACOBI_PIVOT * PIVOT_LD];
    team_member own = join_team(b);
    const uint32_t n = b.order;
    for (uint32_t matrix = own.team; matrix < b.count; matrix += b.teams) {
        complex64 *a = b.a + b.first(matrix);
        double *diagonal = b.own + (size_t)matrix * n, trace = 0;
        for (uint32_t i = threadIdx.x; own.member == 0 && i < JACOBI_MOST_SWEEPS; i += blockDim.x)
            b.worst[(size_t)matrix * JACOBI_MOST_SWEEPS + i] = 0;
        if (!b.wants(matrix))
            continue;
        for (uint32_t i = threadIdx.x; i < n; i += blockDim.x)
            trace += diagonal[i] = a[(size_t)i * n + i].re; /* each member writes the same */
        trace = block_sum(trace);
        meet(own);
        const factoring f = {a, b.x + b.first(matrix), diagonal, b.rows, n, s, w};
        double shift = 0;
        if (!factor_matrix(f, 0, false, own)) {
            shift = fmax(n * 0x1p-51 * trace, TINY);
            meet(own);
            restore_matrix(f, shift, own);
            meet(own);
            factor_matrix(f, shift, true, own);
        }
        complete_factor(f, own);
        if (own.member == 0 && threadIdx.x == 0)
            b.record[matrix] = {0, shift, 0, 0};
    }
}

} // namespace mvdr

#endif
