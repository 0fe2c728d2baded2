/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Cholesky factor of a Hermitian matrix in float64 by one thread block, panel by panel; what a
 * panel takes from the rest is a product on the tensor cores. In shared or global memory. */
#ifndef SONAR_MVDR_JACOBI_CHOLESKY_CUDA_CUH
#define SONAR_MVDR_JACOBI_CHOLESKY_CUDA_CUH

#include "mvdr_jacobi/block_cuda.cuh"

namespace mvdr {

constexpr uint32_t PANEL = 16; /* columns of a panel */

/* The diagonal block of a panel; 1/L(j, j) on its diagonal once it is factored. */
struct corner {
    complex64 at[PANEL][PANEL + 1]; /* [row][column] */
};

/* One warp, right-looking. No pivot of R + delta I is under delta. */
__device__ inline void factor_corner(corner &c, uint32_t size, double least) {
    for (uint32_t j = 0; j < size; j++) {
        const double pivot = fmax(c.at[j][j].re, least), inverse = 1 / sqrt(pivot);
        __syncwarp();
        for (uint32_t i = j + lane(); i < size; i += WARP) {
            const complex64 x = c.at[i][j];
            c.at[i][j] = i == j ? complex64{inverse, 0} : complex64{x.re * inverse, x.im * inverse};
        }
        __syncwarp();
        for (uint32_t item = lane(); item < PANEL * PANEL; item += WARP) {
            const uint32_t i = item % PANEL, k = item / PANEL;
            if (k > j && i >= k && i < size) {
                const complex64 x = c.at[i][j];
                add_product(c.at[i][k], {-x.re, -x.im}, conj(c.at[k][j]));
            }
        }
        __syncwarp();
    }
}

/* Row i of the panel below its corner: x L^H = a. */
__device__ inline void solve_row(matrix a, uint32_t i, uint32_t first, const corner &c) {
    complex64 x[PANEL];
#pragma unroll
    for (uint32_t j = 0; j < PANEL; j++) {
        complex64 sum = a(i, first + j);
#pragma unroll
        for (uint32_t k = 0; k < j; k++)
            add_product(sum, {-x[k].re, -x[k].im}, conj(c.at[j][k]));
        x[j] = {sum.re * c.at[j][j].re, sum.im * c.at[j][j].re};
        a(i, first + j) = x[j];
    }
}

/* Rows first.. and columns of L as fragments of a product; those outside the matrix are 0. */
__device__ inline fragment_a rows_of(matrix a, uint32_t m, uint32_t row, uint32_t column) {
    fragment_a f;
    for (unsigned i = 0; i < 4; i++) {
        const uint32_t r = row + a_row(i);
        const complex64 x = r < m ? a(r, column + a_column(i)) : complex64{0, 0};
        f.re[i] = x.re, f.im[i] = x.im;
    }
    return f;
}

/* Minus the conjugate transpose. */
__device__ inline fragment_b minus_adjoint_of(matrix a, uint32_t m, uint32_t row, uint32_t column) {
    fragment_b f;
    for (unsigned i = 0; i < 2; i++) {
        const uint32_t r = row + b_column();
        const complex64 x = r < m ? a(r, column + b_row(i)) : complex64{0, 0};
        f.re[i] = -x.re, f.im[i] = x.im;
    }
    return f;
}

/* What the panel at `first` takes from the 16 x 16 elements at (row, column); a warp. */
__device__ inline void update_tile(matrix a, uint32_t m, uint32_t first, uint32_t row,
                                   uint32_t column) {
    fragment_c c[2];
    for (unsigned t = 0; t < 2; t++)
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t r = row + c_row(i), s = column + 8 * t + c_column(i);
            const complex64 x = r < m && s <= r ? a(r, s) : complex64{0, 0};
            c[t].re[i] = x.re, c[t].im[i] = x.im;
        }
    for (uint32_t k = 0; k < PANEL; k += 8) {
        const fragment_a left = rows_of(a, m, row, first + k);
        for (unsigned t = 0; t < 2; t++)
            multiply(c[t], left, minus_adjoint_of(a, m, column + 8 * t, first + k));
    }
    for (unsigned t = 0; t < 2; t++)
        for (unsigned i = 0; i < 4; i++) {
            const uint32_t r = row + c_row(i), s = column + 8 * t + c_column(i);
            if (r < m && s <= r)
                a(r, s) = {c[t].re[i], c[t].im[i]};
        }
}

/* The lower triangle of a becomes L with L L^H = a, but for its diagonal, which holds 1/L(j, j).
 * Pivots under `least` are rounding's. */
__device__ inline void cholesky(matrix a, uint32_t m, double least) {
    __shared__ corner c;
    for (uint32_t first = 0; first < m; first += PANEL) {
        const uint32_t size = min(PANEL, m - first), below = first + size;
        for (uint32_t i = threadIdx.x; i < size * size; i += blockDim.x)
            c.at[i % size][i / size] = a(first + i % size, first + i / size);
        __syncthreads();
        if (warp() == 0)
            factor_corner(c, size, least);
        __syncthreads();
        for (uint32_t i = threadIdx.x; i < size * size; i += blockDim.x)
            if (i % size >= i / size)
                a(first + i % size, first + i / size) = c.at[i % size][i / size];
        for (uint32_t i = below + threadIdx.x; i < m; i += blockDim.x)
            solve_row(a, i, first, c);
        __syncthreads();
        const uint32_t tiles = (m - below + PANEL - 1) / PANEL;
        uint32_t low = 0, high = warp(); /* tile `high` of tile row `low`, counted row by row */
        for (uint32_t i = warp(); i < tiles * (tiles + 1) / 2; i += warps(), high += warps()) {
            while (high > low)
                high -= ++low;
            update_tile(a, m, first, below + low * PANEL, below + high * PANEL);
        }
        __syncthreads();
    }
}

} // namespace mvdr

#endif
