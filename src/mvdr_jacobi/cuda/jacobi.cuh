/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Eigenvalues and eigenvectors of many Hermitian matrices in float64 by the block Jacobi method, on
 * all multiprocessors, beginning from nothing or from the eigenvectors of similar matrices.
 *
 * The method is one-sided: R = X X^H, and unitary transformations make X's columns orthogonal. The
 * columns are then the eigenvectors times the square roots of the eigenvalues (Hestenes; Drmac and
 * Veselic 2008). From nothing, X is the Cholesky factor of R. From approximate eigenvectors V, X is
 * V times the factor of V^H R V, so that its columns are nearly orthogonal. An error e of V's
 * orthogonality causes an error of e |R| in this result. It does not affect the orthogonality of
 * the new vectors, so that errors do not add up over time.
 *
 * Columns are grouped in blocks of 16, and blocks in pairs (round-robin). The Gram matrix of a
 * pair's 32 columns is computed on the tensor cores. A sweep of 31 rounds of 16 rotations in shared
 * memory makes it nearly diagonal. The columns are multiplied by the product of these rotations, on
 * the tensor cores. The pairs of a round are independent. A team of thread blocks, one for each
 * pair of a round, makes all sweeps of a matrix in one launch, with a barrier after each round.
 *
 * All sums have a fixed order, so that results repeat to the bit.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_JACOBI_CUH
#define SONAR_MVDR_JACOBI_CUDA_JACOBI_CUH

#include "mvdr_jacobi/cuda/block.cuh"
#include "mvdr_jacobi/cuda/device.h"

namespace mvdr {

constexpr uint32_t JACOBI_BLOCK = 16, JACOBI_PIVOT = 32, JACOBI_PAIRS = 16;
constexpr uint32_t JACOBI_THREADS = 128,
                   JACOBI_RESIDENT = 4; /* thread blocks on a multiprocessor */
constexpr uint32_t JACOBI_TOGETHER = 3; /* the same where all pairs are turned at once */
constexpr uint32_t JACOBI_MOST_SWEEPS = 40;
constexpr uint32_t PIVOT_LD = 36; /* spreads the fragments of a product over the banks */
constexpr uint32_t CHOLESKY_THREADS = 512;

/* The report on a matrix. */
struct jacobi_record {
    double residual; /* largest |g_ij| / sqrt(g_ii g_jj) that the last sweep found */
    double shift;    /* added to the diagonal of a matrix that is not definite to rounding */
    uint32_t sweeps;
    uint32_t converged;
};

/* Where a matrix begins: from nothing, from vectors, or from vectors that were updated for its
 * change (cuda/follow.cuh). */
enum jacobi_start : uint32_t { FROM_NOTHING, FROM_VECTORS, FROM_FOLLOWED };

/* The launches that teams of thread blocks make: the Cholesky factors, sweeps pair by pair, sweeps
 * of all pairs at once from vectors. */
enum jacobi_launch : uint32_t { FACTORING, BY_PAIRS, TOGETHER };

/* Matrices with the same number of rows. They are stored with a multiple of 32 rows and columns.
 * Rows and columns beyond `rows` are zero, in the results, too. */
struct jacobi_batch {
    uint32_t rows, order, count; /* order: rows stored */
    double tolerance; /* largest residual accepted; the last sweep leaves about its square. 0:
                         rounding */
    uint32_t max_sweeps;
    complex64 *a;           /* [matrix][order][order] both triangles; destroyed */
    complex64 *x;           /* the same size; scratch */
    complex64 *vectors;     /* the same size: eigenvectors of a similar matrix, where it begins from
                               vectors; then the eigenvectors, column by column in the order of d */
    const uint32_t *wanted; /* [matrix] 0: the matrix is skipped; NULL: none is */
    uint32_t *kept;         /* [matrix] a jacobi_start; then whether the matrix has converged */
    double *d; /* [matrix][order] eigenvalues, descending, none negative; at the start those of the
                  vectors from which it begins */
    double *own;           /* [matrix][order] scratch: squares of the columns in the order of x */
    jacobi_record *record; /* [matrix] */
    unsigned long long *worst; /* [matrix][JACOBI_MOST_SWEEPS] bits of squares of residuals */
    uint32_t *arrived; /* [1 + count], MVDR_DEVICE_LAUNCHES times. [0]: thread blocks that have
                          begun; [1 + team]: arrivals at the team's barriers */
    uint32_t teams, members; /* of a launch: number of teams, thread blocks of a team */
    struct {
        uint32_t teams, members;
    } fit[MVDR_DEVICE_LAUNCHES]; /* set by jacobi_fit; no teams: no launch */
    complex64 *squares;          /* [mvdr_jacobi_teams()][4][order][order] scratch of a team */
    double *sums;      /* [mvdr_jacobi_teams()][2][jacobi_parts()][order] scratch of a team */
    double *turn;      /* [matrix][order][order] scratch of cuda/follow.cuh */
    complex64 *change; /* [matrix][2][FOLLOW_PROBES][order] the same */

    __device__ size_t first(uint32_t matrix) const { return (size_t)matrix * order * order; }
    __device__ bool wants(uint32_t matrix) const { return !wanted || wanted[matrix]; }
    __device__ jacobi_start start(uint32_t matrix) const { return (jacobi_start)kept[matrix]; }
    __device__ bool begins_from_vectors(uint32_t matrix) const {
        return start(matrix) != FROM_NOTHING;
    }
};

/* Number of parts of the sums over a column's or a row's elements: one for each tile of 32 columns,
 * and one for each 16 rows. */
__host__ __device__ inline uint32_t jacobi_parts(uint32_t order) {
    return order / JACOBI_PIVOT + order / 16;
}

/* ---- fragments from global memory ------------------------------------------------------------ */

/* Loads rows row.. and columns k.. of a matrix stored column by column. */
__device__ inline void load_a(fragment_a &a, const complex64 *from, size_t ld, uint32_t row,
                              uint32_t k) {
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const complex64 x = from[(k + a_column(i)) * ld + row + a_row(i)];
        a.re[i] = x.re, a.im[i] = x.im;
    }
}

/* The same for the conjugate transpose. */
__device__ inline void load_adjoint(fragment_a &a, const complex64 *from, size_t ld, uint32_t row,
                                    uint32_t k) {
#pragma unroll
    for (unsigned i = 0; i < 4; i++) {
        const complex64 x = from[(row + a_row(i)) * ld + k + a_column(i)];
        a.re[i] = x.re, a.im[i] = -x.im;
    }
}

__device__ inline void load_b(fragment_b &b, const complex64 *from, size_t ld, uint32_t k,
                              uint32_t column) {
#pragma unroll
    for (unsigned i = 0; i < 2; i++) {
        const complex64 x = from[(column + b_column()) * ld + k + b_row(i)];
        b.re[i] = x.re, b.im[i] = x.im;
    }
}

/* Passes each element of four adjacent tiles to `take`: row, column and value. */
template <typename TAKE>
__device__ inline void each_element(const fragment_c (&c)[4], uint32_t row, uint32_t column,
                                    TAKE take) {
#pragma unroll
    for (uint32_t j = 0; j < 4; j++)
#pragma unroll
        for (unsigned e = 0; e < 4; e++)
            take(row + c_row(e), column + 8 * j + c_column(e), complex64{c[j].re[e], c[j].im[e]});
}

/* ---- teams ----------------------------------------------------------------------------------- */

/* Waits for all thread blocks of a team. Afterwards each sees the others' results. */
__device__ inline void team_barrier(uint32_t *arrived, uint32_t target) {
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t seen;
        __threadfence();
        atomicAdd(arrived, 1);
        do
            asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
        while (seen < target);
    }
    __syncthreads();
}

/* A member of a team, and the count that its next barrier waits for. */
struct team_member {
    uint32_t team, member, members, *arrived, target;
};

/* Joins a team. Thread blocks take their places in the order in which they begin, so that a team
 * never waits for a block that could begin only after the team has ended. */
__device__ inline team_member join_team(const jacobi_batch &b) {
    __shared__ uint32_t ticket;
    if (threadIdx.x == 0)
        ticket = atomicAdd(b.arrived, 1);
    __syncthreads();
    const uint32_t team = ticket / b.members;
    return {team, ticket % b.members, b.members, b.arrived + 1 + team, 0};
}

__device__ inline void meet(team_member &own) {
    if (own.members == 1)
        __syncthreads();
    else
        team_barrier(own.arrived, own.target += own.members);
}

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

/*
 * This function and others below are not inlined, so that each has all registers. Otherwise the
 * values that do not fit would be spilled again and again, as nothing stays in the L1 cache.
 *
 * Multiplies 16 rows of 32 columns by w, in place, at begin, begin + step and so on. column(c) is
 * column c. A warp calls.
 */
template <typename AT>
__device__ __noinline__ void turn_columns(AT column, uint32_t begin, uint32_t end, uint32_t step,
                                          const complex64 *w) {
    for (uint32_t row = begin; row < end; row += step) {
        fragment_a left[4];
#pragma unroll
        for (unsigned k = 0; k < 4; k++)
#pragma unroll
            for (unsigned i = 0; i < 4; i++) {
                const complex64 x = column(8 * k + a_column(i))[row + a_row(i)];
                left[k].re[i] = x.re, left[k].im[i] = x.im;
            }
#pragma unroll
        for (unsigned j = 0; j < 4; j++) {
            fragment_c c = {};
#pragma unroll
            for (unsigned k = 0; k < 4; k++) {
                fragment_b right;
                load_b(right, w, PIVOT_LD, 8 * k, 8 * j);
                multiply(c, left[k], right);
            }
#pragma unroll
            for (unsigned e = 0; e < 4; e++)
                column(8 * j + c_column(e))[row + c_row(e)] = {c.re[e], c.im[e]};
        }
    }
}

/* ---- Cholesky -------------------------------------------------------------------------------- */

/* A lane's pivot must exceed `least`; otherwise `filler` replaces it. */
struct pivot_rule {
    double least, filler;
};

/* 1/sqrt(x) of a normal number to 20 bits; refine_rsqrt makes it accurate to rounding by one step
 * of third order. */
__device__ inline double near_rsqrt(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    return y;
}

__device__ inline double refine_rsqrt(double x, double y) {
    const double e = fma(-x * y, y, 1.0);
    return fma(y * e, fma(e, 0.375, 0.5), y);
}

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

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* x <- c x - conj(w) y, y <- w x + c y on columns. */
struct pivot_rotation {
    double c;
    complex64 w;
};

/*
 * Within a pair of blocks the 32 columns have places. Game p is the pair of columns at the places p
 * and 16 + p. The columns change places after each round, so that a thread always reads the same
 * addresses. Elements of the Gram matrix are stored by place: first those between two different
 * games p < q, in four rows, by whether each column is at the lower or the upper place of its game;
 * last those within the games.
 */
constexpr uint32_t TWO_GAMES = JACOBI_PAIRS * (JACOBI_PAIRS - 1) / 2,
                   ELEMENTS = 4 * TWO_GAMES + JACOBI_PAIRS;
static_assert(TWO_GAMES <= JACOBI_THREADS, "a thread for each two games");

struct index_pair {
    uint32_t x, y;
};

/* The columns or blocks of game p in round r among an even number of `players` (circle method); x <
 * y. */
__device__ inline index_pair jacobi_pair(uint32_t players, uint32_t r, uint32_t p) {
    const uint32_t ring = players - 1;
    uint32_t a = p ? r + p : ring, b = r + ring - p;
    a -= p && a >= ring ? ring : 0;
    b -= b >= ring ? ring : 0;
    return {min(a, b), max(a, b)};
}

/* The next place of a column after a round. All columns meet all others, and the one at place 0
 * stays. `across`: columns of the second block meet all of the first. After 31 or 16 rounds all
 * columns are at their first places. */
__device__ inline uint32_t next_place(bool across, uint32_t place) {
    constexpr uint32_t P = JACOBI_PAIRS;
    if (across)
        return place < P ? place : P + (place + P - 1) % P;
    if (place < P)
        return place == 0 ? 0 : place + 1 < P ? place + 1 : 2 * P - 1;
    return place == P ? 1 : place - 1;
}

/* The columns of game p in a round. */
__device__ inline index_pair players_of(bool across, uint32_t round, uint32_t p) {
    constexpr uint32_t P = JACOBI_PAIRS, RING = 2 * P - 1;
    if (across)
        return {p, P + (p + round) % P};
    uint32_t low = p ? p - 1 + RING - round : 0,
             high = 2 * P - 2 - p + RING - round; /* places in the ring */
    low -= low >= RING ? RING : 0, high -= high >= RING ? RING : 0;
    low = low < P - 1 ? low + 1 : 3 * P - 2 - low,
    high = high < P - 1 ? high + 1 : 3 * P - 2 - high;
    return {p ? low : 0, high};
}

struct element_place {
    uint32_t at;
    bool conjugated;
};

/* The index of the element at two places. */
__device__ inline element_place place_of(uint32_t i, uint32_t j) {
    const uint32_t p = i % JACOBI_PAIRS, q = j % JACOBI_PAIRS, upper = i / JACOBI_PAIRS,
                   other = j / JACOBI_PAIRS, low = min(p, q), high = max(p, q);
    if (p == q)
        return {4 * TWO_GAMES + p, upper > 0};
    const uint32_t row = p < q ? 2 * upper + other : 2 * other + upper;
    return {row * TWO_GAMES + low * (2 * JACOBI_PAIRS - 1 - low) / 2 + high - low - 1, p > q};
}

__device__ inline complex64 conj_if(bool wanted, complex64 x) {
    return {x.re, wanted ? -x.im : x.im};
}

/* Two games p < q, and the next indices of their four elements after a round, with MIRRORED if the
 * element is conjugated. */
struct two_games {
    uint8_t p, q;
    uint16_t to[4];
};
constexpr uint16_t MIRRORED = 0x8000;

__device__ inline two_games games_of(uint32_t index, bool across) {
    uint32_t p = 0, q = index + 1;
    two_games own;
    while (p + 1 < JACOBI_PAIRS && q >= JACOBI_PAIRS)
        p++, q = q - JACOBI_PAIRS + p + 1;
    own.p = (uint8_t)p, own.q = (uint8_t)q;
#pragma unroll
    for (uint32_t row = 0; row < 4; row++) {
        const element_place to = place_of(next_place(across, p + JACOBI_PAIRS * (row / 2)),
                                          next_place(across, q + JACOBI_PAIRS * (row % 2)));
        own.to[row] = (uint16_t)(to.at | (to.conjugated ? MIRRORED : 0));
    }
    return own;
}

/* Shared memory for a pair of blocks. */
struct pivot_room {
    union {
        complex64 e[2][ELEMENTS];             /* before an even and before an odd round */
        complex64 t[JACOBI_PIVOT * PIVOT_LD]; /* in straighten */
    };
    double d[2][JACOBI_PIVOT]; /* the diagonal by places, before an even and before an odd round */
    double over[JACOBI_PIVOT]; /* 1 / the diagonal at the start */
    complex64 w[JACOBI_PIVOT * PIVOT_LD];     /* product of the rotations */
    pivot_rotation rotation[2][JACOBI_PAIRS]; /* of an even and of an odd round */
    two_games games[2][JACOBI_THREADS];       /* [across] of each thread, set once in the kernel */
    bool turned; /* some rotation changed more than half of the digits */
};

/* The rotation by the smaller angle that makes columns of squares dx and dy and product g
 * orthogonal. dx and dy become the squares of the new columns. It needs no division: with h = dy -
 * dx and u = 1/sqrt(h^2 + 4 |g|^2), c^2 = (1 + |h| u) / 2 and w = sign(h) g u / c. A last step
 * corrects c so that c^2 + |w|^2 is 1 to rounding, since small rotations must not change lengths.
 * All threads wait for this function, so 1/c begins from the first approximation of u. */
__device__ inline pivot_rotation orthogonalise(double &dx, double &dy, complex64 g) {
    constexpr double LEAST2 = 1e-32, TINY = 1e-290;
    const double g2 = square(g);
    if (!(g2 > LEAST2 * dx * dy) || !(g2 > TINY))
        return {1, {0, 0}};
    const double h = dy - dx, half = 0.5 * fabs(h), x = fma(h, h, 4 * g2), about = near_rsqrt(x),
                 u = refine_rsqrt(x, about), c2 = fma(half, u, 0.5),
                 over = refine_rsqrt(c2, near_rsqrt(fma(half, about, 0.5))),
                 factor = copysign(u * over, h), c = c2 * over,
                 missing = fma(-c, c, 1.0) - (g2 * factor) * factor, change = (factor * g2) * over;
    dx -= change, dy += change;
    return {fma(0.5 * over, missing, c), {factor * g.re, factor * g.im}};
}

__device__ inline void apply(double c, complex64 w, complex64 &x, complex64 &y) {
    complex64 a = {c * x.re, c * x.im}, b = {c * y.re, c * y.im};
    add_product(a, {-w.re, w.im}, y);
    add_product(b, w, x);
    x = a, y = b;
}

/* w <- w J for the columns of COUNT games from the first one on, by a warp. All columns are read
 * before any is written, since the compiler cannot know that they do not overlap. */
template <uint32_t COUNT>
__device__ inline void turn_product(complex64 *w, bool across, uint32_t round, uint32_t first,
                                    const pivot_rotation *r) {
    complex64 x[COUNT], y[COUNT];
    uint32_t at[COUNT], to[COUNT];
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i++) {
        const index_pair pair = players_of(across, round, first + i);
        at[i] = pair.x * PIVOT_LD + lane(), to[i] = pair.y * PIVOT_LD + lane();
        x[i] = w[at[i]], y[i] = w[to[i]];
    }
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i++)
        apply(r[first + i].c, r[first + i].w, x[i], y[i]);
#pragma unroll
    for (uint32_t i = 0; i < COUNT; i++)
        w[at[i]] = x[i], w[to[i]] = y[i];
}

/* e <- J^H e J for the elements of two games, written to their next places. */
__device__ inline void turn_elements(const complex64 *e, complex64 *next, const two_games &own,
                                     const pivot_rotation *r) {
    const uint32_t at = threadIdx.x;
    const pivot_rotation left = r[own.p], right = r[own.q];
    complex64 x[4];
#pragma unroll
    for (uint32_t row = 0; row < 4; row++)
        x[row] = e[row * TWO_GAMES + at];
    apply(right.c, right.w, x[0], x[1]);
    apply(right.c, right.w, x[2], x[3]);
    apply(left.c, conj(left.w), x[0], x[2]);
    apply(left.c, conj(left.w), x[1], x[3]);
#pragma unroll
    for (uint32_t row = 0; row < 4; row++)
        next[own.to[row] & ~MIRRORED] = conj_if(own.to[row] & MIRRORED, x[row]);
}

/* The columns of the matrix in a pair of blocks. */
struct pivot_columns {
    complex64 *low, *high;
    uint32_t n;
    __device__ complex64 *operator()(uint32_t c) const {
        return c < JACOBI_BLOCK ? low + (size_t)c * n : high + (size_t)(c - JACOBI_BLOCK) * n;
    }
};

/* The tiles of 16 x 8 of the Gram matrix that a warp computes: those at (0, 0), (0, 8) and (0, 16),
 * or SECOND those at (0, 24), (16, 16) and (16, 24). ACROSS, for products of different blocks only:
 * that at (0, 16) or (0, 24). */
template <bool SECOND, bool ACROSS> struct gram_share {
    static constexpr unsigned TILES = ACROSS ? 1 : 3;
    __device__ static constexpr unsigned row(unsigned tile) { return SECOND && tile ? 16 : 0; }
    __device__ static constexpr unsigned column(unsigned tile) {
        return ACROSS ? (SECOND ? 24 : 16) : !SECOND ? 8 * tile : tile == 1 ? 16 : 24;
    }
    __device__ static constexpr bool needs(unsigned eight) { /* group of eight columns */
        return ACROSS ? eight < 2 || eight == (SECOND ? 3 : 2) : SECOND || eight < 3;
    }
};

/* Computes a warp's tiles over every second group of 8 rows from `row` on. */
template <bool SECOND, bool ACROSS>
__device__ inline void gram_tiles(const pivot_columns &column, uint32_t row, fragment_c c[3]) {
    using share = gram_share<SECOND, ACROSS>;
    const complex64 *from[4];
#pragma unroll
    for (unsigned j = 0; j < 4; j++)
        from[j] = column(8 * j + b_column()) + b_row(0);
#pragma unroll 2
    for (uint32_t k = row; k < column.n; k += 16) {
        fragment_a left[2];
        fragment_b right[4];
#pragma unroll
        for (unsigned j = 0; j < 4; j++)
#pragma unroll
            for (unsigned i = 0; i < 2 && share::needs(j); i++) {
                const complex64 x = from[j][k + 4 * i];
                right[j].re[i] = x.re, right[j].im[i] = x.im;
                left[j / 2].re[2 * i + j % 2] = x.re, left[j / 2].im[2 * i + j % 2] = -x.im;
            }
#pragma unroll
        for (unsigned tile = 0; tile < share::TILES; tile++)
            multiply(c[tile], left[share::row(tile) / 16], right[share::column(tile) / 8]);
    }
}

template <bool SECOND, bool ACROSS>
__device__ inline void put_tiles(pivot_room &r, const fragment_c c[3], bool add) {
    using share = gram_share<SECOND, ACROSS>;
#pragma unroll
    for (unsigned tile = 0; tile < share::TILES; tile++)
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            const uint32_t row = share::row(tile) + c_row(e),
                           column = share::column(tile) + c_column(e);
            const element_place place = place_of(row, column);
            const complex64 x = conj_if(place.conjugated, {c[tile].re[e], c[tile].im[e]});
            complex64 &at = r.e[0][place.at];
            if (row < column)
                at = add ? complex64{at.re + x.re, at.im + x.im} : x;
            else if (row == column)
                r.d[0][row] = add ? r.d[0][row] + x.re : x.re;
        }
}

/* Computes the Gram matrix of a pair's columns into r: the terms of the first half of the rows,
 * then of the second. All threads call. */
template <bool ACROSS>
__device__ inline void gram_above(const pivot_columns &column, pivot_room &r) {
    const uint32_t part = warp() % 2;
    const bool second = warp() / 2;
    fragment_c c[3] = {};
    if (second)
        gram_tiles<true, ACROSS>(column, 8 * part, c);
    else
        gram_tiles<false, ACROSS>(column, 8 * part, c);
    for (uint32_t turn = 0; turn < 2; turn++) {
        if (part == turn && second)
            put_tiles<true, ACROSS>(r, c, turn);
        else if (part == turn)
            put_tiles<false, ACROSS>(r, c, turn);
        __syncthreads();
    }
}

/* Computes the Gram matrix of a pair's columns and its diagonal into r. `across`: only the products
 * of different blocks, since the others are nearly zero; the diagonal is `known`, of the thread's
 * column. Returns the largest |g_ij|^2 / (g_ii g_jj). All threads call. */
__device__ __noinline__ double gram_of(pivot_columns column, bool across, double known,
                                       pivot_room &r) {
    constexpr uint32_t P = JACOBI_PAIRS;
    double worst = 0;
    if (across)
        gram_above<true>(column, r);
    else
        gram_above<false>(column, r);
    if (threadIdx.x < JACOBI_PIVOT) {
        if (across)
            r.d[0][threadIdx.x] = known;
        const double d = r.d[0][threadIdx.x];
        r.over[threadIdx.x] = d > 0 ? 1 / d : 0;
    }
    for (uint32_t i = threadIdx.x; across && i < TWO_GAMES; i += JACOBI_THREADS)
        r.e[0][i] = r.e[0][3 * TWO_GAMES + i] = {0, 0};
    for (uint32_t i = threadIdx.x; i < JACOBI_PIVOT * JACOBI_PIVOT; i += JACOBI_THREADS)
        r.w[i / JACOBI_PIVOT * PIVOT_LD + i % JACOBI_PIVOT] = {i % (JACOBI_PIVOT + 1) ? 0. : 1., 0};
    __syncthreads();
    const two_games own = r.games[across][threadIdx.x];
    for (uint32_t row = 0; row < 4 && threadIdx.x < TWO_GAMES; row++)
        worst = fmax(worst, square(r.e[0][row * TWO_GAMES + threadIdx.x]) *
                                r.over[own.p + P * (row / 2)] * r.over[own.q + P * (row % 2)]);
    if (threadIdx.x < P)
        worst = fmax(worst, square(r.e[0][4 * TWO_GAMES + threadIdx.x]) * r.over[threadIdx.x] *
                                r.over[P + threadIdx.x]);
    return block_max(worst);
}

/* Makes a sweep over a pair of blocks. r.w gets the product of its rotations, r.d[0] the new
 * diagonal. While one warp finds the rotations of a round, the others apply those of the last round
 * to the product. All threads call. */
__device__ __noinline__ void sweep_pivot(pivot_room &r, bool across) {
    constexpr uint32_t P = JACOBI_PAIRS;
    const uint32_t rounds = across ? P : 2 * P - 1, low = threadIdx.x % P, high = P + low;
    const two_games own = r.games[across][threadIdx.x];
    const uint32_t next_low = next_place(across, low), next_high = next_place(across, high);
    const element_place moved = place_of(next_low, next_high);
    double largest = 0; /* |w|^2 of the thread's rotations */
    for (uint32_t round = 0; round <= rounds; round++) {
        const uint32_t now = round % 2, then = (round + 1) % 2;
        if (round < rounds && threadIdx.x < P) {
            double dx = r.d[now][low], dy = r.d[now][high];
            const complex64 g = r.e[now][4 * TWO_GAMES + low];
            const pivot_rotation found = orthogonalise(dx, dy, g);
            const bool turned = found.w.re != 0 || found.w.im != 0;
            largest = fmax(largest, square(found.w));
            r.rotation[now][low] = found;
            r.d[then][next_low] = dx, r.d[then][next_high] = dy;
            r.e[then][moved.at] = turned ? complex64{0, 0} : conj_if(moved.conjugated, g);
        }
        if (round && warp() == 1)
            turn_product<6>(r.w, across, round - 1, 0, r.rotation[then]);
        else if (round && warp())
            turn_product<5>(r.w, across, round - 1, 5 * warp() - 4, r.rotation[then]);
        __syncthreads();
        if (round < rounds && threadIdx.x < TWO_GAMES)
            turn_elements(r.e[now], r.e[then], own, r.rotation[now]);
        __syncthreads();
    }
    if (rounds % 2 && threadIdx.x < JACOBI_PIVOT)
        r.d[0][threadIdx.x] = r.d[1][threadIdx.x];
    if (warp() == 0 && __any_sync(ALL_LANES, largest > 1e-17) && lane() == 0)
        r.turned = true;
}

/* w <- w + w (1 - w^H w) / 2 restores the orthogonality of w's columns, so that rounding errors of
 * a few units do not add up over the sweeps. The correction is added to w: a product with (3 - w^H
 * w) / 2 would shorten the columns, since numbers above 1 are rounded to twice the spacing of those
 * below it. Destroys r.e. All threads call. */
__device__ __noinline__ void straighten(pivot_room &r) {
    const uint32_t row = 16 * (warp() % 2), column = 16 * (warp() / 2);
    for (uint32_t turn = 0; turn < 2; turn++) {
        fragment_c c[2] = {};
#pragma unroll
        for (uint32_t k = 0; k < JACOBI_PIVOT; k += 8) {
            fragment_a left;
            if (turn)
                load_a(left, r.w, PIVOT_LD, row, k);
            else
                load_adjoint(left, r.w, PIVOT_LD, row, k);
#pragma unroll
            for (uint32_t j = 0; j < 2; j++) {
                fragment_b right;
                load_b(right, turn ? r.t : r.w, PIVOT_LD, k, column + 8 * j);
                multiply(c[j], left, right);
            }
        }
        __syncthreads();
#pragma unroll
        for (uint32_t j = 0; j < 2; j++)
#pragma unroll
            for (unsigned e = 0; e < 4; e++) {
                const uint32_t p = row + c_row(e), q = column + 8 * j + c_column(e);
                complex64 &w = r.w[q * PIVOT_LD + p];
                if (turn)
                    w = {w.re + c[j].re[e], w.im + c[j].im[e]};
                else
                    r.t[q * PIVOT_LD + p] = {fma(-0.5, c[j].re[e], p == q ? 0.5 : 0.),
                                             -0.5 * c[j].im[e]};
            }
        __syncthreads();
    }
}

/* Squares of residuals. ORTHOGONAL2: pairs below it are orthogonal to rounding and are not turned.
 * Sweeps continue until all pairs are. NEARLY2: after a sweep that found nothing above it, columns
 * of one block are compared in the first round only. */
constexpr double ORTHOGONAL2 = 2.25e-30, NEARLY2 = 1e-3;

/* Turns a pair's columns of the matrix at x; d has the squares of the columns. Returns the square
 * of the residual before. */
__device__ inline double turn_pair(complex64 *x, uint32_t n, double *d, index_pair pair,
                                   bool across, pivot_room &r) {
    const pivot_columns column = {x + (size_t)pair.x * JACOBI_BLOCK * n,
                                  x + (size_t)pair.y * JACOBI_BLOCK * n, n};
    const uint32_t own =
        JACOBI_BLOCK * (threadIdx.x < JACOBI_BLOCK ? pair.x : pair.y) + threadIdx.x % JACOBI_BLOCK;
    const bool keeps = threadIdx.x < JACOBI_PIVOT;
    const double worst = gram_of(column, across, keeps && across ? d[own] : 0, r);
    if (worst > ORTHOGONAL2) {
        if (threadIdx.x == 0)
            r.turned = false;
        sweep_pivot(r, across);
        __syncthreads();
        if (r.turned)
            straighten(r);
        turn_columns(column, 16 * warp(), n, 16 * warps(), r.w);
    }
    if (keeps)
        d[own] = r.d[0][threadIdx.x];
    __syncthreads();
    return worst;
}

/* A member's part of a sweep over a matrix. Returns the square of the residual of all members. */
__device__ inline double sweep_matrix(const jacobi_batch &b, team_member &own, uint32_t matrix,
                                      bool nearly, unsigned long long *shared_worst,
                                      pivot_room &r) {
    const uint32_t n = b.order, blocks = n / JACOBI_BLOCK;
    complex64 *x = b.x + b.first(matrix);
    double *d = b.own + (size_t)matrix * n, worst = 0;
    for (uint32_t round = 0; round + 1 < blocks; round++) {
        for (uint32_t p = own.member; p < blocks / 2; p += own.members)
            worst =
                fmax(worst, turn_pair(x, n, d, jacobi_pair(blocks, round, p), nearly && round, r));
        if (round + 2 == blocks && threadIdx.x == 0)
            atomicMax(shared_worst, (unsigned long long)__double_as_longlong(worst));
        meet(own);
    }
    return __longlong_as_double((long long)__ldcg(shared_worst));
}

/* The progress of a matrix. */
struct sweep_progress {
    uint32_t most, sweeps;
    double limit, found; /* squares of the residual */

    __device__ sweep_progress(const jacobi_batch &b, uint32_t matrix)
        : most(b.wants(matrix) ? min(b.max_sweeps, JACOBI_MOST_SWEEPS) : 0), sweeps(0),
          limit(fmax(ORTHOGONAL2, b.tolerance * b.tolerance)),
          found(b.start(matrix) == FROM_FOLLOWED ? NEARLY2 : 1) {}

    __device__ bool goes_on() const { return sweeps < most && found > limit; }

    __device__ void tell(const jacobi_batch &b, uint32_t matrix) const {
        jacobi_record &record = b.record[matrix];
        if (most)
            record = {sqrt(found), record.shift, sweeps, found <= limit};
    }
};

/* Makes all sweeps of all matrices pair by pair, but leaves those to jacobi_together that begin
 * from vectors, if it runs. b.teams * b.members thread blocks. */
__global__ void __launch_bounds__(JACOBI_THREADS, JACOBI_RESIDENT) jacobi_sweeps(jacobi_batch b) {
    __shared__ pivot_room r;
    team_member place = join_team(b);
    for (uint32_t across = 0; across < 2; across++)
        r.games[across][threadIdx.x] = games_of(threadIdx.x, across);
    for (uint32_t matrix = place.team; matrix < b.count; matrix += b.teams) {
        if (b.fit[TOGETHER].teams && b.begins_from_vectors(matrix))
            continue;
        unsigned long long *worst = b.worst + (size_t)matrix * JACOBI_MOST_SWEEPS;
        sweep_progress now(b, matrix);
        for (; now.goes_on(); now.sweeps++)
            now.found = sweep_matrix(b, place, matrix, now.found <= NEARLY2, worst + now.sweeps, r);
        if (place.member == 0 && threadIdx.x == 0)
            now.tell(b, matrix);
    }
}

/* ---- all rotations at once ------------------------------------------------------------------- */

/*
 * If the angles are small, all pairs are turned at once. The element of K for a pair is the sine of
 * half of the angle that the pair would have alone. K^H = -K, so that P = K^H K = -K^2 and C =
 * sqrt(1 - P) are Hermitian and commute with K, and C + K is unitary. Its square is the rotation by
 * the whole angles, 1 - 2 P + 2 K C. The new residual is about the old one times the largest angle.
 * The root is approximated by the best polynomial in P for norms up to `most`, evaluated in pairs
 * of terms with one product by P^2 for each pair.
 */
struct root_polynomial {
    double most; /* largest norm of P */
    double term[14];
};
/* pairs of terms in the first polynomial; each next one has one more */
constexpr uint32_t ROOTS = 6, ROOT_PAIRS = 2;
__constant__ const root_polynomial ROOT[ROOTS] = {
    {5.4e-4, {1, -0.5000000000015389, -0.12499998575202588, -0.06254220943745303}},
    {0.012,
     {1, -0.5000000000001845, -0.12499999982070106, -0.0625000636613304, -0.03905229611668942,
      -0.028095277905430392}},
    {0.051,
     {1, -0.5000000000000545, -0.12499999997757576, -0.06250000350593388, -0.03906223142209375,
      -0.027354882710674096, -0.020253937710802195, -0.019076767594349942}},
    {0.12,
     {1, -0.5000000000000314, -0.12499999999139731, -0.06250000091304757, -0.039062450932041116,
      -0.027345258593331725, -0.020479744208709516, -0.01643326243207313, -0.010930741669338582,
      -0.018599066836422665}},
    {0.21,
     {1, -0.5000000000000282, -0.12499999999361183, -0.06250000056436847, -0.03906247432752708,
      -0.027344436180196455, -0.020496248963322732, -0.01624058019683605, -0.012168090663384546,
      -0.015252065060555186, 0.0031670024980023775, -0.02650824358042856}},
    {0.3,
     {1, -0.5000000000000218, -0.12499999999529043, -0.06250000039928265, -0.03906248239552218,
      -0.02734421310140845, -0.020499958637600804, -0.016203127431119447, -0.012381753230720379,
      -0.014818817743995386, 0.005547983308268741, -0.045434845965871884, 0.05116240850106343,
      -0.051648928417507185}}};

/* For norms of P below SMALL_P the root is 1 - P/2 to rounding; below TINY_P the rotation is 1 + 2
 * K. */
constexpr double SMALL_P = 8e-9, TINY_P = 1e-17;

/* The memory that a member uses for a matrix. */
struct team_work {
    uint32_t n;
    complex64 *x, *turned; /* columns before and after a turn */
    complex64 *k;          /* sines of half of the angles */
    complex64 *p, *p2;     /* P = -K^2, and its square */
    complex64 *root[2];    /* steps of the polynomial, then the rotation by the whole angles */
    double *d;             /* squares of the columns */
    double *sums; /* [2][jacobi_parts()][n] parts of the sums of |P| and |P^2| over rows, or of the
                     squares of columns */
};

/* How an element of a product above the diagonal follows from the one below it. */
enum class mirror { NONE, HERMITIAN, SKEW };

/* A step: product = left times right. Stores of[0] on the diagonal + of[1] first + (of[2] second +
 * of[3] product). SKEW: the terms in brackets are skew-Hermitian, the others Hermitian. */
struct team_step {
    const complex64 *left, *right;
    mirror kind;
    complex64 *to;
    double of[4];
    const complex64 *first, *second; /* NULL: none */
    double *sums; /* sums of the magnitudes in the rows of a Hermitian matrix; NULL: not wanted */
};

/* The element of K for columns of squares dx and dy and product g. */
__device__ inline complex64 half_rotation(double dx, double dy, complex64 g, double *worst) {
    const double relative = dx > 0 && dy > 0 ? square(g) * (1 / dx) * (1 / dy) : 0;
    *worst = fmax(*worst, relative);
    if (!(relative > ORTHOGONAL2))
        return {0, 0};
    const pivot_rotation r = orthogonalise(dx, dy, g);
    const double over = rsqrt(2 * (1 + r.c));
    return {r.w.re * over, r.w.im * over};
}

__device__ inline double size_of(complex64 x) {
    const double size2 = square(x);
    return size2 > 1e-290 ? size2 * near_rsqrt(size2) : 0;
}

/* Stores a tile's elements and their mirror images. The tile's warp calls. */
__device__ inline void store_tile(const team_work &work, const team_step &step,
                                  const fragment_c (&c)[4], uint32_t row, uint32_t column) {
    const uint32_t n = work.n;
    const bool whole = step.kind == mirror::NONE, skew = step.kind == mirror::SKEW;
    double along[2] = {0, 0}; /* magnitudes in the rows row + lane/4 and row + lane/4 + 8 */
#pragma unroll
    for (uint32_t j = 0; j < 4; j++) {
        complex64 first[4] = {}, second[4] = {};
        double down[2] = {0, 0}; /* magnitudes or squares in two columns */
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            const size_t at = (size_t)(column + 8 * j + c_column(e)) * n + row + c_row(e);
            if (step.first)
                first[e] = step.first[at];
            if (step.second)
                second[e] = step.second[at];
        }
#pragma unroll
        for (unsigned e = 0; e < 4; e++) {
            const uint32_t p = row + c_row(e), q = column + 8 * j + c_column(e);
            complex64 h = {(p == q ? step.of[0] : 0) + step.of[1] * first[e].re,
                           step.of[1] * first[e].im},
                      s = {fma(step.of[3], c[j].re[e], step.of[2] * second[e].re),
                           fma(step.of[3], c[j].im[e], step.of[2] * second[e].im)};
            if (p == q && skew)
                s.re = 0;
            if (p == q && !whole && !skew)
                s.im = 0;
            const complex64 x = {h.re + s.re, h.im + s.im};
            if (whole || p >= q)
                step.to[(size_t)q * n + p] = x;
            if (!whole && p > q)
                step.to[(size_t)p * n + q] = skew ? complex64{h.re - s.re, s.im - h.im} : conj(x);
            const double size = whole ? square(x) : step.sums ? size_of(x) : 0;
            along[e / 2] += p >= q ? size : 0;
            down[e % 2] += whole || p > q ? size : 0;
        }
        if (step.sums)
#pragma unroll
            for (unsigned i = 0; i < 2; i++) {
                for (unsigned offset = 4; offset < WARP; offset *= 2)
                    down[i] += __shfl_xor_sync(ALL_LANES, down[i], offset);
                if (lane() < 4)
                    step.sums[(size_t)(n / JACOBI_PIVOT + row / 16) * n + column + 8 * j +
                              c_column(i)] = down[i];
            }
    }
    if (step.sums && !whole)
#pragma unroll
        for (unsigned i = 0; i < 2; i++) {
            along[i] = sum_lanes(along[i], 4);
            if (lane() % 4 == 0)
                step.sums[(size_t)(column / JACOBI_PIVOT) * n + row + c_row(2 * i)] = along[i];
        }
}

/* Computes a member's tiles of a step, 16 x 32 for each warp. GRAM: the step makes K from the
 * columns' Gram matrix. Returns the largest square of a residual in the thread's tiles. */
template <bool GRAM>
__device__ __noinline__ double make_step(const team_work &work, const team_member &own,
                                         const team_step &step) {
    const uint32_t n = work.n, rows = n / 16, columns = n / JACOBI_PIVOT;
    const bool whole = step.kind == mirror::NONE;
    const uint32_t count = whole ? rows * columns : columns * (columns + 1);
    const complex64 *left = step.left, *right = step.right;
    double worst = 0;
    for (uint32_t tile = own.member * warps() + warp(); tile < count;
         tile += own.members * warps()) {
        uint32_t i = tile % rows, j = tile / rows;
        if (!whole)
            for (i = tile, j = 0; i >= rows - 2 * j; j++)
                i -= rows - 2 * j;
        const uint32_t column = JACOBI_PIVOT * j, row = 16 * i + (whole ? 0 : column);
        fragment_c c[4] = {};
#pragma unroll 2
        for (uint32_t k = 0; k < n; k += 8) {
            fragment_a a;
            if (GRAM)
                load_adjoint(a, left, n, row, k);
            else
                load_a(a, left, n, row, k);
#pragma unroll
            for (uint32_t t = 0; t < 4; t++) {
                fragment_b b;
                load_b(b, right, n, k, column + 8 * t);
                multiply(c[t], a, b);
            }
        }
        if (GRAM)
#pragma unroll
            for (uint32_t t = 0; t < 4; t++)
#pragma unroll
                for (unsigned e = 0; e < 4; e++) {
                    const uint32_t p = row + c_row(e), q = column + 8 * t + c_column(e);
                    const complex64 x = p > q ? half_rotation(work.d[p], work.d[q],
                                                              {c[t].re[e], c[t].im[e]}, &worst)
                                              : complex64{0, 0};
                    c[t].re[e] = x.re, c[t].im[e] = x.im;
                }
        store_tile(work, step, c, row, column);
    }
    return worst;
}

/* The largest sum of the magnitudes in a row, an upper bound of the eigenvalues. All threads
 * call. */
__device__ inline double norm_of(const team_work &work, const double *sums) {
    const uint32_t n = work.n, columns = n / JACOBI_PIVOT;
    double most = 0;
    for (uint32_t row = threadIdx.x; row < n; row += JACOBI_THREADS) {
        double sum = 0;
#pragma unroll 4
        for (uint32_t part = 0; part <= row / JACOBI_PIVOT; part++)
            sum += sums[(size_t)part * n + row];
#pragma unroll 4
        for (uint32_t part = row / 16; part < n / 16; part++)
            sum += sums[(size_t)(columns + part) * n + row];
        most = fmax(most, sum);
    }
    return block_max(most);
}

/* Computes from K the step `turn` that turns X. Returns an upper bound of P's norm, or a negative
 * number if P is too large. */
__device__ inline double make_rotation(const team_work &work, team_member &own, team_step *turn) {
    const auto take = [&](const team_step &step) {
        make_step<false>(work, own, step);
        meet(own);
    };
    const mirror hermitian = mirror::HERMITIAN, skew = mirror::SKEW;
    double *const other = work.sums + (size_t)jacobi_parts(work.n) * work.n;
    take({work.k, work.k, hermitian, work.p, {0, 0, 0, -1}, nullptr, nullptr, work.sums});
    double norm = norm_of(work, work.sums);
    uint32_t now = 0;
    *turn = {work.x, work.k, mirror::NONE, work.turned, {0, 1, 0, 2}, work.x, nullptr, other};
    if (norm <= TINY_P)
        return norm;
    team_step whole = {work.k, work.p, skew, work.root[0], {1, -2, 2, -1}, work.p, work.k, nullptr};
    if (norm > SMALL_P) {
        take({work.p, work.p, hermitian, work.p2, {0, 0, 0, 1}, nullptr, nullptr, other});
        norm = fmin(norm, sqrt(norm_of(work, other)));
        uint32_t chosen = 0;
        while (chosen < ROOTS && norm > ROOT[chosen].most)
            chosen++;
        if (chosen == ROOTS)
            return -1;
        const double *c = ROOT[chosen].term;
        const uint32_t last = 2 * (chosen + ROOT_PAIRS - 1);
        for (uint32_t i = last; i > 0; i -= 2, now = !now) {
            const bool begins = i == last;
            take({work.p2,
                  begins ? work.p : work.root[!now],
                  hermitian,
                  work.root[now],
                  {c[i - 2], c[i - 1], begins ? c[i] : 0, begins ? c[i + 1] : 1},
                  work.p,
                  begins ? work.p2 : nullptr,
                  nullptr});
        }
        whole = {work.k,        work.root[!now], skew,    work.root[now],
                 {1, -2, 0, 2}, work.p,          nullptr, nullptr};
    }
    take(whole);
    *turn = {work.x,       work.root[now], mirror::NONE, work.turned,
             {0, 0, 0, 1}, nullptr,        nullptr,      other};
    return norm;
}

/* Turns all pairs at once. False: the angles are too large. *found gets the square of the residual:
 * the one before the turn or, if only rounding remains, a bound of the one after it. */
__device__ __noinline__ bool turn_all(team_work &work, team_member &own, double limit,
                                      unsigned long long *shared_worst, double *found) {
    team_step turn = {work.x,       work.x,  mirror::SKEW, work.k,
                      {0, 0, 0, 1}, nullptr, nullptr,      nullptr};
    const double worst = block_max(make_step<true>(work, own, turn));
    if (threadIdx.x == 0)
        atomicMax(shared_worst, (unsigned long long)__double_as_longlong(worst));
    meet(own);
    *found = __longlong_as_double((long long)__ldcg(shared_worst));
    if (*found <= limit)
        return true;
    const double norm = make_rotation(work, own, &turn);
    if (norm < 0)
        return false;
    make_step<false>(work, own, turn);
    meet(own);
    const uint32_t n = work.n;
    for (uint32_t j = own.member * JACOBI_THREADS + threadIdx.x; j < n;
         j += own.members * JACOBI_THREADS) {
        double sum = 0;
        for (uint32_t part = 0; part < n / 16; part++)
            sum += turn.sums[(size_t)(n / JACOBI_PIVOT + part) * n + j];
        work.d[j] = sum;
    }
    meet(own);
    complex64 *const before = work.x;
    work.x = work.turned, work.turned = before;
    const double left = n * *found + 2 * sqrt(n * *found * norm);
    if (left * left <= ORTHOGONAL2)
        *found = left * left;
    return true;
}

/* ---- sweeps of a large matrix ---------------------------------------------------------------- */

enum class rounds_of { NEIGHBOURS, ALL };

/* A member's part of a sweep in which all blocks meet, or only adjacent ones. Returns the square of
 * the residual. */
__device__ __noinline__ double sweep_pairs(const team_work &work, team_member &own, rounds_of which,
                                           bool nearly, unsigned long long *shared_worst,
                                           pivot_room &r) {
    const uint32_t blocks = work.n / JACOBI_BLOCK;
    const bool all = which == rounds_of::ALL;
    double worst = 0;
    for (uint32_t round = 0; round < (all ? blocks - 1 : 2); round++) {
        for (uint32_t p = own.member; p < blocks / 2; p += own.members) {
            const index_pair pair =
                all ? jacobi_pair(blocks, round, p) : index_pair{2 * p + round, 2 * p + round + 1};
            if (pair.y < blocks)
                worst = fmax(worst, turn_pair(work.x, work.n, work.d, pair, nearly && round, r));
        }
        if (all && round + 2 == blocks && threadIdx.x == 0)
            atomicMax(shared_worst, (unsigned long long)__double_as_longlong(worst));
        meet(own);
    }
    return __longlong_as_double((long long)__ldcg(shared_worst));
}

/* When all pairs are turned at once. From vectors, columns are in falling order and only neighbours
 * have large angles. So all pairs are turned at once from the start. Sweeps of neighbouring blocks
 * come first if neighbours may be far from orthogonal: two at the start, unless the vectors were
 * updated, two after a sweep of all pairs, and one if the residual is above NEIGHBOURS2. After a
 * sweep of all pairs, all are turned at once again if it found no more than TOGETHER2. After
 * MOST_REFUSALS failures a matrix is swept pair by pair. */
constexpr double TOGETHER2 = 1e-2, NEIGHBOURS2 = 1e-6;
constexpr uint32_t MOST_REFUSALS = 2;

/* Makes all sweeps over a matrix. All threads of all members call. */
__device__ inline void sweep_together(team_work &work, team_member &own, jacobi_start start,
                                      unsigned long long *worst, pivot_room &r,
                                      sweep_progress &now) {
    uint32_t refusals = 0, neighbours = start == FROM_FOLLOWED ? 0 : 2;
    bool together = true;
    for (; now.goes_on(); now.sweeps++, worst++) {
        const double before = now.found;
        if (together) {
            for (; neighbours > 0; neighbours--)
                sweep_pairs(work, own, rounds_of::NEIGHBOURS, false, worst, r);
            together = turn_all(work, own, now.limit, worst, &now.found) && now.found <= before / 4;
            neighbours = now.found > NEIGHBOURS2;
            refusals += !together;
        } else {
            now.found = sweep_pairs(work, own, rounds_of::ALL, before <= NEARLY2, worst, r);
            together = now.found <= TOGETHER2 && refusals < MOST_REFUSALS;
            neighbours = 2;
        }
    }
}

/* As jacobi_sweeps, of the matrices that begin from vectors, with all pairs at once where possible.
 * Fewer blocks run at a time, with more registers. */
__global__ void __launch_bounds__(JACOBI_THREADS, JACOBI_TOGETHER) jacobi_together(jacobi_batch b) {
    __shared__ pivot_room r;
    team_member place = join_team(b);
    for (uint32_t across = 0; across < 2; across++)
        r.games[across][threadIdx.x] = games_of(threadIdx.x, across);
    const uint32_t n = b.order;
    const size_t size = (size_t)n * n;
    complex64 *own = b.squares + 4 * place.team * size;
    for (uint32_t matrix = place.team; matrix < b.count; matrix += b.teams) {
        if (!b.begins_from_vectors(matrix))
            continue;
        const size_t first = b.first(matrix);
        team_work work = {n,
                          b.x + first,
                          b.vectors + first,
                          b.a + first,
                          own,
                          own + size,
                          {own + 2 * size, own + 3 * size},
                          b.own + (size_t)matrix * n,
                          b.sums + (size_t)place.team * 2 * jacobi_parts(n) * n};
        sweep_progress now(b, matrix);
        sweep_together(work, place, b.start(matrix), b.worst + (size_t)matrix * JACOBI_MOST_SWEEPS,
                       r, now);
        for (size_t i = place.member * JACOBI_THREADS + threadIdx.x;
             now.most && work.x != b.x + first && i < size; i += place.members * JACOBI_THREADS)
            work.turned[i] = work.x[i];
        if (place.member == 0 && threadIdx.x == 0)
            now.tell(b, matrix);
    }
}

/* ---- results --------------------------------------------------------------------------------- */

__device__ inline uint32_t sum_counts(uint32_t value) {
    for (unsigned offset = WARP / 2; offset; offset /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, offset);
    return value;
}

/* Computes the squares of the columns. A warp for each column. */
__global__ void jacobi_norms(jacobi_batch b) {
    const uint32_t n = b.order, matrix = blockIdx.y, j = blockIdx.x * warps() + warp();
    if (j >= n || !b.wants(matrix))
        return;
    const complex64 *x = b.x + b.first(matrix) + (size_t)j * n;
    double sum = 0;
    for (uint32_t i = lane(); i < n; i += WARP)
        sum += square(x[i]);
    sum = sum_lanes(sum);
    if (lane() == 0)
        b.own[(size_t)matrix * n + j] = sum;
}

/* Writes the columns in falling order, equal ones in their order, as vectors of length 1. A warp
 * for each column. */
__global__ void jacobi_order(jacobi_batch b) {
    const uint32_t n = b.order, matrix = blockIdx.y, j = blockIdx.x * warps() + warp();
    if (j >= n || !b.wants(matrix))
        return;
    const complex64 *x = b.x + b.first(matrix) + (size_t)j * n;
    const double *all = b.own + (size_t)matrix * n, own = all[j];
    uint32_t place = 0;
    for (uint32_t i = lane(); i < n; i += WARP)
        place += all[i] > own || (all[i] == own && i < j);
    place = sum_counts(place);
    const double over = own > 0 ? 1 / sqrt(own) : 0;
    complex64 *to = b.vectors + b.first(matrix) + (size_t)place * n;
    for (uint32_t i = lane(); i < n; i += WARP)
        to[i] = {x[i].re * over, x[i].im * over};
    if (lane() == 0)
        b.d[(size_t)matrix * n + place] = fmax(own - b.record[matrix].shift, 0.0);
    if (j == 0 && lane() == 0)
        b.kept[matrix] = b.record[matrix].converged;
}

} // namespace mvdr

#endif
