/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Triangular factors of a Hermitian matrix A in float64 by one thread block, 32 columns at a time.
 * The products are computed on the tensor cores. L satisfies A = L S L^H, where S has the signs of
 * the pivots. If A is positive definite all signs are positive, and X = L^-H is computed with L,
 * since both follow from a sum over the finished columns k:
 *
 *     L(i, j) = (A(i, j) - sum_k L(i, k) S_k L(j, k)^H) L(j, j)^-H S_j     below the diagonal
 *     X(i, j) =          - sum_k X(i, k) S_k L(j, k)^H  L(j, j)^-H S_j     above it
 *
 * If A is not definite, S is the result: its signs are those of the eigenvalues (Sylvester's law of
 * inertia). For a block on the diagonal X = L^-H S is computed, too. There is no pivoting: a small
 * pivot makes large elements, which cost digits, so pivots are kept away from zero.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_FACTOR_CUH
#define SONAR_MVDR_JACOBI_CUDA_FACTOR_CUH

#include "mvdr_jacobi/cuda/block.cuh"

namespace mvdr {

constexpr uint32_t PANEL = 32;     /* columns of a panel */
constexpr uint32_t TILE_ROWS = 16; /* rows that a warp processes */

/* The order, padded to whole panels. The padding is the identity. */
__host__ __device__ inline uint32_t padded(uint32_t rows) {
    return (rows + PANEL - 1) / PANEL * PANEL;
}

/* A square matrix in tiles of eight rows and four columns, each tile row by row: the elements of a
 * tile lie in memory in the order of a fragment's lanes. */
struct tiles {
    complex64 *at;
    uint32_t rows; /* a multiple of eight */
    __device__ complex64 &operator()(uint32_t i, uint32_t j) const {
        return at[((size_t)(j / 4) * (rows / 8) + i / 8) * 32 + i % 8 * 4 + j % 4];
    }
};

/* The diagonal block of a panel, [row][column]. */
struct corner {
    complex64 column[2][PANEL],
        row[2][PANEL];             /* of an even and of an odd step of the elimination */
    complex64 a[PANEL][PANEL + 1]; /* the rest of A; after elimination the pivots on the diagonal */
    union {
        complex64 inverse[PANEL][PANEL + 1]; /* of L(j, j) */
        /* Before that: some columns of S L(j, .)^H, in the order of a fragment's lanes. */
        complex64 right[PANEL / 4][PANEL / 8][WARP];
    };
};

/* ---- products -------------------------------------------------------------------------------- */

/* F(row + ., k + .) */
__device__ inline fragment_a rows_of(tiles f, uint32_t row, uint32_t k) {
    fragment_a a;
    for (unsigned i = 0; i < 4; i++) {
        const complex64 x = f(row + a_row(i), k + a_column(i));
        a.re[i] = x.re, a.im[i] = x.im;
    }
    return a;
}

/* S F(row + ., k + .)^H */
__device__ inline fragment_b adjoint_of(tiles f, const double sign[2], uint32_t row, uint32_t k) {
    fragment_b b;
    for (unsigned i = 0; i < 2; i++) {
        const complex64 x = f(row + b_column(), k + b_row(i));
        b.re[i] = sign[i] * x.re, b.im[i] = -sign[i] * x.im;
    }
    return b;
}

/* 16 rows and a panel's columns. */
struct strip {
    fragment_c part[PANEL / 8];

    template <typename Use> __device__ void each(const Use &use) const {
#pragma unroll
        for (uint32_t t = 0; t < PANEL / 8; t++)
#pragma unroll
            for (uint32_t i = 0; i < 4; i++)
                use(c_row(i), 8 * t + c_column(i), complex64{part[t].re[i], part[t].im[i]});
    }
};

/* The sum over columns begin <= k < end of F(row + ., k) S_k F(other + ., k)^H. A warp calls. */
__device__ inline strip products(tiles f, const double *sign, uint32_t row, uint32_t other,
                                 uint32_t begin, uint32_t end) {
    strip sum = {};
    for (uint32_t k = begin; k < end; k += 8) {
        const fragment_a left = rows_of(f, row, k);
        const double signs[2] = {sign ? sign[k + b_row(0)] : 1, sign ? sign[k + b_row(1)] : 1};
#pragma unroll
        for (uint32_t t = 0; t < PANEL / 8; t++)
            multiply(sum.part[t], left, adjoint_of(f, signs, other + 8 * t, k));
    }
    return sum;
}

/* ---- the diagonal block ---------------------------------------------------------------------- */

/* A pivot, limited. least > 0: smaller pivots are rounding errors, and become `least`. least < 0:
 * pivots may be negative, but are moved away from zero to -least in magnitude, as if the matrix had
 * a slightly different element. */
__device__ inline double limited(double pivot, double least) {
    return least > 0 ? fmax(pivot, least) : copysign(fmax(fabs(pivot), -least), pivot);
}

/* Pivot j from the block's diagonal. */
__device__ inline double pivot_of(const corner &c, uint32_t j, double least) {
    return limited(c.a[j][j].re, least);
}

/*
 * Gaussian elimination of the block's lower triangle and of the identity beside it, which becomes
 * L^-1. A lane is a column, and holds its elements of some rows. An element (i, j) is A's until
 * step j, in which it begins as an element of the inverse. Before step p its column of A and its
 * row of the inverse go to shared memory, by turns to one of two places, so that a step waits for
 * one barrier. If both triangles were used, the block would not stay Hermitian after a small pivot.
 */
template <uint32_t WARPS> __device__ inline void eliminate_corner(corner &c, double least) {
    constexpr uint32_t ROWS = PANEL / WARPS; /* of a warp */
    const uint32_t j = lane();
    complex64 own[ROWS];
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t i = warp() + r * WARPS;
        own[r] = j <= i ? c.a[i][j] : complex64{0, 0};
        if (j == 0)
            c.column[0][i] = own[r];
    }
    __syncthreads();
    for (uint32_t p = 0; p + 1 < PANEL; p++) {
        const complex64 *column = c.column[p % 2], *row = c.row[p % 2];
        const double by_pivot = reciprocal(limited(column[p].re, least));
        const complex64 inverse = j == p ? complex64{1, 0} : row[j], down = conj(column[j]);
        const complex64 across = j <= p ? inverse : down;
#pragma unroll
        for (uint32_t r = 0; r < ROWS; r++) {
            const uint32_t i = warp() + r * WARPS;
            complex64 product = {0, 0};
            add_product(product, column[i], across);
            const complex64 before = j == p ? complex64{0, 0} : own[r];
            const complex64 after = {fma(-by_pivot, product.re, before.re),
                                     fma(-by_pivot, product.im, before.im)};
            own[r] = i > p && j <= i ? after : own[r];
            if (j == p + 1)
                c.column[(p + 1) % 2][i] = own[r];
            if (i == p + 1)
                c.row[(p + 1) % 2][j] = own[r];
        }
        __syncthreads();
    }
#pragma unroll
    for (uint32_t r = 0; r < ROWS; r++) {
        const uint32_t i = warp() + r * WARPS;
        const double pivot = __shfl_sync(ALL_LANES, own[r].re, i);
        const double scale = reciprocal_root(fabs(limited(pivot, least)));
        const complex64 x = j == i ? complex64{1, 0} : own[r];
        c.inverse[i][j] = {scale * x.re, scale * x.im};
        if (j == i)
            c.a[i][i] = {pivot, 0};
    }
    __syncthreads();
}

/* The number of negative eigenvalues of a Hermitian matrix, and the logarithm of its determinant's
 * magnitude. */
struct inertia {
    uint32_t negative;
    double logarithm;
};

/* Adds the inertia of a panel's diagonal block. Every warp computes its own copy of the sum. */
__device__ inline void add_pivots(inertia &sum, const corner &c, double least) {
    const double pivot = pivot_of(c, lane(), least);
    sum.negative += __popc(__ballot_sync(ALL_LANES, pivot < 0));
    sum.logarithm += sum_lanes(log(fabs(pivot)));
}

/* ---- panels ---------------------------------------------------------------------------------- */

/* Copies PANEL columns from k on of S F(first + ., .)^H to shared memory. All threads call. */
__device__ inline void share_rows(tiles f, const double *sign, uint32_t first, uint32_t k,
                                  corner &c) {
    __syncthreads();
    for (uint32_t at = threadIdx.x; at < PANEL * PANEL; at += blockDim.x) {
        const uint32_t own = at % WARP, tile = at / WARP % (PANEL / 8),
                       four = at / (WARP * PANEL / 8);
        const uint32_t column = k + 4 * four + own % 4;
        const complex64 x = f(first + 8 * tile + own / 4, column);
        const double s = sign ? sign[column] : 1;
        c.right[four][tile][own] = {s * x.re, -s * x.im};
    }
    __syncthreads();
}

/* Adds the product of a panel's columns from k on of 16 rows with the shared columns. A warp
 * calls. */
__device__ inline void add_products(strip &sum, tiles f, uint32_t row, uint32_t k,
                                    const corner &c) {
#pragma unroll 1
    for (uint32_t four = 0; four < PANEL / 4; four += 2) {
        const fragment_a left = rows_of(f, row, k + 4 * four);
#pragma unroll
        for (uint32_t t = 0; t < PANEL / 8; t++) {
            const complex64 x = c.right[four][t][lane()], y = c.right[four + 1][t][lane()];
            multiply(sum.part[t], left, {{x.re, y.re}, {x.im, y.im}});
        }
    }
}

/* The rows of a panel in groups of 16, in the order in which warps take them: those from the
 * panel's first row down, then those above it. The longest sums come first. */
struct shares {
    uint32_t first, below, count;

    __device__ uint32_t row(uint32_t t) const {
        return t < below ? first + t * TILE_ROWS : (t - below) * TILE_ROWS;
    }
    /* First column of the sums of group t. */
    __device__ uint32_t begin(uint32_t t) const { return t < below ? 0 : row(t) / PANEL * PANEL; }
};

/* Computes the panel's rows before their product with the panel's own inverse: in place, the
 * diagonal block in c. All threads call. */
__device__ __noinline__ void gather(tiles f, const double *sign, shares s, corner &c) {
    for (uint32_t base = 0; base < s.count; base += warps()) {
        const uint32_t t = base + warp(), row = t < s.count ? s.row(t) : 0;
        const uint32_t begin = t < s.count ? s.begin(t) : s.first;
        strip sum = {};
        for (uint32_t k = s.begin(base); k < s.first; k += PANEL) {
            share_rows(f, sign, s.first, k, c);
            if (k >= begin)
                add_products(sum, f, row, k, c);
        }
        if (t >= s.count)
            continue;
        const bool above = t >= s.below, diagonal = t < PANEL / TILE_ROWS;
        sum.each([&](uint32_t i, uint32_t j, complex64 product) {
            complex64 &own = f(row + i, s.first + j), x = above ? complex64{0, 0} : own;
            (diagonal ? c.a[row - s.first + i][j] : own) = {x.re - product.re, x.im - product.im};
        });
    }
}

/* Multiplies 16 rows by L(j, j)^-H S_j, in place. The last columns come first, because the others
 * do not need them. */
__device__ inline void finish(tiles f, const corner &c, double least, uint32_t row,
                              uint32_t first) {
    for (uint32_t column = PANEL; column > 0;) {
        column -= 8;
        fragment_c sum = {};
        for (uint32_t k = 0; k <= column; k += 8) {
            fragment_b b;
            for (unsigned i = 0; i < 2; i++) {
                const complex64 x = c.inverse[column + b_column()][k + b_row(i)];
                b.re[i] = x.re, b.im[i] = -x.im;
            }
            multiply(sum, rows_of(f, row, first + k), b);
        }
        __syncwarp();
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t j = column + c_column(i);
            const double s = pivot_of(c, j, least) < 0 ? -1 : 1;
            f(row + c_row(i), first + j) = {s * sum.re[i], s * sum.im[i]};
        }
    }
}

/* Stores X's diagonal block, with zeros below the diagonal, and the signs. */
__device__ inline void finish_corner(tiles f, const corner &c, double least, double *sign,
                                     uint32_t first) {
    for (uint32_t at = threadIdx.x; at < PANEL * PANEL; at += blockDim.x) {
        const uint32_t i = at % PANEL, j = at / PANEL;
        const double s = pivot_of(c, j, least) < 0 ? -1 : 1;
        const complex64 x = c.inverse[j][i];
        f(first + i, first + j) = {s * x.re, -s * x.im};
    }
    for (uint32_t j = threadIdx.x; j < PANEL && sign; j += blockDim.x)
        sign[first + j] = pivot_of(c, j, least) < 0 ? -1 : 1;
}

/*
 * Factors a matrix of `rows` rows, a multiple of PANEL. f holds its diagonal blocks and the
 * elements below them. All threads call; they are WARPS warps.
 *
 *   sign NULL   A is definite. Its pivots are at least `least` > 0 except for rounding.
 *   sign        gets `rows` signs. A need not be definite; pivots nearer to zero than `least` < 0
 *               are moved to that distance. The inertia is returned.
 *   inverse     X remains on and above the diagonal of f, with zeros below the diagonal in its
 *               diagonal blocks. Otherwise f is lost.
 */
template <uint32_t WARPS>
__device__ inline inertia factor(tiles f, uint32_t rows, double least, double *sign, bool inverse) {
    __shared__ corner c;
    inertia result = {0, 0};
    for (uint32_t first = 0; first < rows; first += PANEL) {
        const uint32_t below = (rows - first) / TILE_ROWS;
        const shares s = {first, below, below + (inverse ? first / TILE_ROWS : 0)};
        gather(f, sign, s, c);
        __syncthreads();
        eliminate_corner<WARPS>(c, least);
        if (sign)
            add_pivots(result, c, least);
        for (uint32_t t = PANEL / TILE_ROWS + warp(); t < s.count; t += warps())
            finish(f, c, least, s.row(t), first);
        finish_corner(f, c, least, sign, first);
        __syncthreads();
    }
    return result;
}

/* ---- A^-1 = X X^H ---------------------------------------------------------------------------- */

/* Computes the first m diagonal elements of A^-1, eight for each warp. Block `part` of `parts`
 * computes its share. */
__device__ inline void inverse_diagonal(tiles x, uint32_t m, double *to, uint32_t part,
                                        uint32_t parts) {
    for (uint32_t row = 8 * (part * warps() + warp()); row < m; row += 8 * parts * warps()) {
        double element = 0;
#pragma unroll 8
        for (uint32_t j = row; j < padded(m); j += 4) {
            const complex64 own = x(row + lane() / 4, j + lane() % 4);
            element += j + lane() % 4 < m ? square(own) : 0;
        }
        element = sum_lanes(element, 4);
        if (lane() % 4 == 0 && row + lane() / 4 < m)
            to[row + lane() / 4] = element;
    }
}

/* The sum of the diagonal elements, and of their squares. All threads call. */
struct diagonal_sums {
    double first, second;
};

__device__ inline diagonal_sums sums_of_diagonal(const double *element, uint32_t m) {
    diagonal_sums sums = {0, 0};
    for (uint32_t i = threadIdx.x; i < m; i += blockDim.x)
        sums.first += element[i], sums.second += element[i] * element[i];
    return {block_sum(sums.first), block_sum(sums.second)};
}

/* |A^-1|^2, the sum over all its elements of the first m rows and columns. All threads call. */
__device__ inline double inverse_energy(tiles x, uint32_t m) {
    const uint32_t rows = padded(m), tiles = rows / TILE_ROWS;
    double energy = 0;
    uint32_t turn = 0;
    for (uint32_t tile = 0; tile < tiles; tile++)
        for (uint32_t other = tile * TILE_ROWS / PANEL * PANEL; other < rows; other += PANEL) {
            const uint32_t row = tile * TILE_ROWS;
            if (turn++ % warps() != warp())
                continue;
            products(x, nullptr, row, other, other, rows)
                .each([&](uint32_t i, uint32_t j, complex64 sum) {
                    if (other + j < m && row + i <= other + j)
                        energy += (row + i < other + j ? 2 : 1) * square(sum);
                });
        }
    return block_sum(energy);
}

} // namespace mvdr

#endif
