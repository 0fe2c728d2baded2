/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A pair of blocks of columns: its Gram matrix, the rotations that make it diagonal, and the turn
 * of the columns by their product. */
#ifndef SONAR_MVDR_JACOBI_CUDA_JACOBI_PIVOT_CUH
#define SONAR_MVDR_JACOBI_CUDA_JACOBI_PIVOT_CUH

#include "mvdr_jacobi/cuda/jacobi/batch.cuh"

namespace mvdr {

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

} // namespace mvdr

#endif
