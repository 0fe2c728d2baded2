/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Products of large matrices in float64 on the tensor cores. A thread block computes a square of 64
 * rows and columns. Both factors are copied to shared memory, some terms ahead of the
 * multiplication. A sum is computed in the order of its terms.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_SQUARES_CUH
#define SONAR_MVDR_JACOBI_CUDA_SQUARES_CUH

#include "mvdr_jacobi/cuda/factor.cuh"

namespace mvdr {

constexpr uint32_t SQUARE = MVDR_DEVICE_SQUARE;         /* rows and columns */
constexpr uint32_t SHARE_ROWS = 32, SHARE_COLUMNS = 32; /* a warp's share of a square */
constexpr uint32_t SQUARE_THREADS = WARP * (SQUARE / SHARE_ROWS) * (SQUARE / SHARE_COLUMNS);
static_assert(4 * SQUARE % SQUARE_THREADS == 0, "a fetch takes whole rows of fragments");
constexpr uint32_t CHUNK = 8;  /* terms of the sums that are fetched at a time: a chunk */
constexpr uint32_t CHUNKS = 4; /* chunks in shared memory at a time */

/* The factors of CHUNK terms of a square's sums, in the order of a fragment's lanes: element (4 h +
 * t, 8 r + g) of either factor is [h][r][4 g + t]. */
struct chunk {
    complex64 left[CHUNK / 4][SQUARE / 8][WARP];
    complex64 right[CHUNK / 4][SQUARE / 8][WARP];
    pivots signs; /* signs of the square of columns that contains the terms */
};

/* ---- factors --------------------------------------------------------------------------------- */

/* Copies 16 bytes to shared memory, or zeros if `any` is false. Bypasses the L1 cache, which does
 * not see other multiprocessors' writes. The copy is complete after wait_for_copies. */
__device__ inline void copy_later(void *to, const void *from, bool any) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(any ? 16 : 0)
                 : "memory");
#else
    const volatile double *const fresh = (const volatile double *)from;
    for (unsigned i = 0; i < 2; i++)
        ((double *)to)[i] = any ? fresh[i] : 0;
#endif
}

/* Ends a group of copies, which may be empty. */
__device__ inline void end_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until all of this thread's groups of copies are complete, except the last LAST. */
template <int LAST> __device__ inline void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LAST) : "memory");
#endif
}

/* 64 rows of F from `first` on, with zeros beyond its `rows` rows. */
struct rows_from {
    const complex64 *at;
    uint32_t column, any; /* elements of a column of F; elements of the 64 rows in four columns */

    __device__ rows_from(tiles f, uint32_t first, uint32_t rows)
        : at(f.at + 4 * (size_t)first), column(f.rows), any(4 * min(SQUARE, rows - first)) {}

    /* Fetches CHUNK columns from k on. All threads call. */
    __device__ void fetch(uint32_t k, complex64 to[CHUNK / 4][SQUARE / 8][WARP]) const {
        const complex64 *const from = at + (size_t)k * column;
#pragma unroll
        for (uint32_t i = 0; i < CHUNK * SQUARE; i += SQUARE_THREADS) {
            const uint32_t four = i / (4 * SQUARE), own = i % (4 * SQUARE) + threadIdx.x;
            copy_later(&to[0][0][i + threadIdx.x], from + four * 4 * column + own, own < any);
        }
    }
    /* 16 rows as the left factor. */
    __device__ static fragment_a left(const chunk &c, uint32_t row) {
        fragment_a a;
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const complex64 x = c.left[i / 2][row / 8 + i % 2][lane()];
            a.re[i] = x.re, a.im[i] = x.im;
        }
        return a;
    }
    /* The conjugate transpose as the right factor: its columns 8 tile... */
    __device__ static fragment_b right(const chunk &c, uint32_t tile, uint32_t) {
        const complex64 x = c.right[0][tile][lane()], y = c.right[1][tile][lane()];
        return {{x.re, y.re}, {-x.im, -y.im}};
    }
    __device__ void fetch_signs(uint32_t, chunk &) const {}
};

/* The same rows, with the columns multiplied by the signs of their pivots. */
struct signed_rows_from : rows_from {
    const pivots *pivot;

    __device__ signed_rows_from(tiles f, uint32_t first, uint32_t rows, const pivots *of)
        : rows_from(f, first, rows), pivot(of) {}

    __device__ static fragment_b right(const chunk &c, uint32_t tile, uint32_t k) {
        const uint32_t minus = c.signs.minus[k / WARP % 2] >> k % WARP;
        const double s = minus >> b_row(0) & 1 ? -1 : 1, t = minus >> b_row(1) & 1 ? -1 : 1;
        const complex64 x = c.right[0][tile][lane()], y = c.right[1][tile][lane()];
        return {{s * x.re, t * y.re}, {-s * x.im, -t * y.im}};
    }
    __device__ void fetch_signs(uint32_t k, chunk &to) const {
        if (threadIdx.x == 0)
            copy_later(&to.signs, pivot + k / SQUARE, true);
    }
};

/* 64 columns of F from `first` on, with zeros beyond its `rows` columns. */
struct columns_from {
    const complex64 *at;
    uint32_t column, any;

    __device__ columns_from(tiles f, uint32_t first, uint32_t rows)
        : at(f.at + (size_t)first * f.rows), column(f.rows), any(min(SQUARE, rows - first)) {}

    /* Fetches CHUNK rows from k on. All threads call. */
    __device__ void fetch(uint32_t k, complex64 to[CHUNK / 4][SQUARE / 8][WARP]) const {
        const complex64 *const from = at + 4 * (size_t)k + 4 * warp() * column + lane();
#pragma unroll
        for (uint32_t i = 0; i < CHUNK * SQUARE; i += SQUARE_THREADS)
            copy_later(&to[0][0][i + threadIdx.x], from + i / WARP * 4 * column,
                       i / WARP * 4 + 4 * warp() < any);
    }
    /* The columns as the right factor. Eight rows of four columns lie side by side. */
    __device__ static fragment_b right(const chunk &c, uint32_t tile, uint32_t) {
        const uint32_t column = 8 * tile + b_column();
        const complex64 *four = &c.right[0][0][0] + column / 4 * WARP + column % 4;
        const complex64 x = four[4 * b_row(0)], y = four[4 * b_row(1)];
        return {{x.re, y.re}, {x.im, y.im}};
    }
    __device__ void fetch_signs(uint32_t, chunk &) const {}
};

/* ---- a square -------------------------------------------------------------------------------- */

/* A warp's share of a square. */
struct share {
    fragment_c part[SHARE_ROWS / 16][SHARE_COLUMNS / 8];

    __device__ static uint32_t row() { return warp() / (SQUARE / SHARE_COLUMNS) * SHARE_ROWS; }
    __device__ static uint32_t column() {
        return warp() % (SQUARE / SHARE_COLUMNS) * SHARE_COLUMNS;
    }

    template <typename Use> __device__ void each(const Use &use) const {
#pragma unroll
        for (uint32_t r = 0; r < SHARE_ROWS / 16; r++)
#pragma unroll
            for (uint32_t t = 0; t < SHARE_COLUMNS / 8; t++)
#pragma unroll
                for (uint32_t i = 0; i < 4; i++)
                    use(row() + 16 * r + c_row(i), column() + 8 * t + c_column(i),
                        complex64{part[r][t].re[i], part[r][t].im[i]});
    }
};

/* Adds a chunk's terms, of which k is the first. A warp calls. */
template <typename Left, typename Right>
__device__ inline void add_chunk(share &sum, const chunk &c, uint32_t k) {
    fragment_a left[SHARE_ROWS / 16];
#pragma unroll
    for (uint32_t r = 0; r < SHARE_ROWS / 16; r++)
        left[r] = Left::left(c, share::row() + 16 * r);
#pragma unroll
    for (uint32_t t = 0; t < SHARE_COLUMNS / 8; t++) {
        const fragment_b right = Right::right(c, share::column() / 8 + t, k);
        const double minus[2] = {-right.im[0], -right.im[1]};
#pragma unroll
        for (uint32_t r = 0; r < SHARE_ROWS / 16; r++) {
            multiply(sum.part[r][t].re, left[r].re, right.re);
            multiply(sum.part[r][t].im, left[r].re, right.im);
        }
#pragma unroll
        for (uint32_t r = 0; r < SHARE_ROWS / 16; r++) {
            multiply(sum.part[r][t].im, left[r].im, right.re);
            multiply(sum.part[r][t].re, left[r].im, minus);
        }
    }
}

/* Adds the products of left and right over the terms begin <= k < end. A warp skips terms from
 * own_end on, where its columns are zero. All threads call. */
template <typename Left, typename Right>
__device__ inline void add_terms(share &sum, const Left &left, const Right &right, uint32_t begin,
                                 uint32_t end, uint32_t own_end, chunk *room) {
    __syncthreads();
#pragma unroll
    for (uint32_t ahead = 0; ahead + 1 < CHUNKS; ahead++) {
        const uint32_t k = begin + ahead * CHUNK;
        if (k < end) {
            left.fetch(k, room[ahead].left);
            right.fetch(k, room[ahead].right);
            right.fetch_signs(k, room[ahead]);
        }
        end_copies();
    }
    uint32_t at = 0;
#pragma unroll 1
    for (uint32_t k = begin; k < end; k += CHUNK, at = (at + 1) % CHUNKS) {
        wait_for_copies<CHUNKS - 2>();
        __syncthreads();
        const uint32_t ahead = k + (CHUNKS - 1) * CHUNK;
        if (ahead < end) {
            chunk &next = room[(at + CHUNKS - 1) % CHUNKS];
            left.fetch(ahead, next.left);
            right.fetch(ahead, next.right);
            right.fetch_signs(ahead, next);
        }
        end_copies();
        if (k < own_end)
            add_chunk<Left, Right>(sum, room[at], k);
    }
}

} // namespace mvdr

namespace mvdr::host {

constexpr size_t CHUNK_BYTES = mvdr::CHUNKS * sizeof(mvdr::chunk);

} // namespace mvdr::host

#endif
