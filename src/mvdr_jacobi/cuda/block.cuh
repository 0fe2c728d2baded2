/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Functions that the MVDR's kernels share: complex numbers, sums over lanes and thread blocks,
 * allocation of shared memory, and a warp's matrix product in float64. Every sum has a fixed order,
 * which depends only on the sizes. */
#ifndef SONAR_MVDR_JACOBI_CUDA_BLOCK_CUH
#define SONAR_MVDR_JACOBI_CUDA_BLOCK_CUH

#include <stdint.h>

namespace mvdr {

constexpr unsigned WARP = 32, MOST_WARPS = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

template <typename T> struct alignas(2 * sizeof(T)) complex { T re, im; };
using complex32 = complex<float>;
using complex64 = complex<double>;

__host__ __device__ inline complex64 wide(complex32 x) {
    return {(double)x.re, (double)x.im};
}

__host__ __device__ inline complex64 conj(complex64 x) {
    return {x.re, -x.im};
}

__host__ __device__ inline double square(complex64 x) {
    return x.re * x.re + x.im * x.im;
}

/* s += a b */
__device__ inline void add_product(complex64 &s, complex64 a, complex64 b) {
    s.re = fma(a.re, b.re, s.re), s.re = fma(-a.im, b.im, s.re);
    s.im = fma(a.re, b.im, s.im), s.im = fma(a.im, b.re, s.im);
}

__device__ inline unsigned lane() {
    return threadIdx.x % WARP;
}

__device__ inline unsigned warp() {
    return threadIdx.x / WARP;
}

__device__ inline unsigned warps() {
    return blockDim.x / WARP;
}

/* 1/x of a normal number to about two roundings. Unlike 1 / x it has no branch, so that it overlaps
 * with what does not need it: the hardware's approximation, and two steps of Newton's method. */
__device__ inline double reciprocal(double x) {
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    y = fma(y, fma(-x, y, 1.0), y);
    return fma(y, fma(-x, y, 1.0), y);
}

/* The same for 1/sqrt(x). */
__device__ inline double reciprocal_root(double x) {
    double y;
    asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(x));
    y = fma(0.5 * y, fma(-x * y, y, 1.0), y);
    return fma(0.5 * y, fma(-x * y, y, 1.0), y);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* The sum over groups of `lanes` (a power of two) neighbouring lanes; all of them get it. The whole
 * warp calls. */
__device__ inline double sum_lanes(double value, unsigned lanes = WARP) {
    for (unsigned offset = lanes / 2; offset; offset /= 2)
        value += __shfl_xor_sync(ALL_LANES, value, offset);
    return value;
}

__device__ inline complex64 sum_lanes(complex64 value) {
    return {sum_lanes(value.re), sum_lanes(value.im)};
}

/* Sums each of 2 HALF values over the warp; lane i gets the sum of value i. Each exchange halves
 * the number of values that a lane still adds. The whole warp calls. */
template <unsigned HALF = WARP / 2>
__device__ inline complex64 sum_to_lanes(complex64 (&value)[WARP]) {
    const bool upper = lane() & HALF;
#pragma unroll
    for (unsigned i = 0; i < HALF; i++) {
        const complex64 kept = upper ? value[i + HALF] : value[i];
        const complex64 given = upper ? value[i] : value[i + HALF];
        value[i] = {kept.re + __shfl_xor_sync(ALL_LANES, given.re, HALF),
                    kept.im + __shfl_xor_sync(ALL_LANES, given.im, HALF)};
    }
    if constexpr (HALF > 1)
        return sum_to_lanes<HALF / 2>(value);
    else
        return value[0];
}

/* The sum over the thread block. All threads call and get it. */
__device__ inline double block_sum(double value) {
    __shared__ double part[MOST_WARPS];
    value = sum_lanes(value);
    __syncthreads();
    if (lane() == 0)
        part[warp()] = value;
    __syncthreads();
    value = 0;
    for (unsigned i = 0; i < warps(); i++)
        value += part[i];
    return value;
}

__device__ inline double block_max(double value) {
    __shared__ double part[MOST_WARPS];
    for (unsigned offset = WARP / 2; offset; offset /= 2)
        value = fmax(value, __shfl_xor_sync(ALL_LANES, value, offset));
    __syncthreads();
    if (lane() == 0)
        part[warp()] = value;
    __syncthreads();
    for (unsigned i = 0; i < warps(); i++)
        value = fmax(value, part[i]);
    return value;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Shared memory that is allocated piece by piece. */
struct arena {
    unsigned char *at;
    size_t left;

    /* Memory for `count` elements, or `otherwise` if too little is left. */
    template <typename X> __device__ X *take(size_t count, X *otherwise) {
        size_t bytes = (count * sizeof(X) + 15) / 16 * 16;
        if (bytes > left)
            return otherwise;
        X *taken = (X *)at;
        at += bytes;
        left -= bytes;
        return taken;
    }
};

/* A square complex matrix, column by column. */
struct matrix {
    complex64 *at;
    uint32_t ld;
    __device__ complex64 *column(uint32_t j) const { return at + (size_t)j * ld; }
    __device__ complex64 &operator()(uint32_t i, uint32_t j) const { return column(j)[i]; }
};

/* An odd column length spreads columns over the banks. */
__host__ __device__ inline uint32_t odd(uint32_t rows) {
    return rows | 1;
}

/* ---- a warp's product ------------------------------------------------------------------------ */

/*
 * c (16 x 8) += a (16 x 8) b (8 x 8) in float64 by one warp, on the tensor cores where they have
 * float64 at full rate. Lane 4 g + t holds
 *
 *     a[0..3] = A(g, t), A(g + 8, t), A(g, t + 4), A(g + 8, t + 4)
 *     b[0..1] = B(t, g), B(t + 4, g)
 *     c[0..3] = C(g, 2 t), C(g, 2 t + 1), C(g + 8, 2 t), C(g + 8, 2 t + 1)
 *
 * which is the layout of mma.m16n8k8 (PTX ISA, matrix fragments for mma.m16n8k8).
 */
__device__ inline void multiply(double c[4], const double a[4], const double b[2]) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    for (int i = 0; i < 4; i++) { /* rows g or g + 8, the first or second four terms */
        double *upper = c + 2 * (i % 2);
        asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 "
                     "{%0,%1}, {%2}, {%3}, {%0,%1};"
                     : "+d"(upper[0]), "+d"(upper[1])
                     : "d"(a[i]), "d"(b[i / 2]));
    }
#else
    const unsigned g = lane() / 4, t = lane() % 4;
    for (unsigned k = 0; k < 8; k++) {
        const unsigned half = k / 4, from = k % 4;
        const double b0 = __shfl_sync(ALL_LANES, b[half], 8 * t + from);
        const double b1 = __shfl_sync(ALL_LANES, b[half], 8 * t + 4 + from);
        const double low = __shfl_sync(ALL_LANES, a[2 * half], 4 * g + from);
        const double high = __shfl_sync(ALL_LANES, a[2 * half + 1], 4 * g + from);
        c[0] = fma(low, b0, c[0]), c[1] = fma(low, b1, c[1]);
        c[2] = fma(high, b0, c[2]), c[3] = fma(high, b1, c[3]);
    }
#endif
}

/* The same for complex numbers, with separate real and imaginary parts. */
struct fragment_a {
    double re[4], im[4];
};
struct fragment_b {
    double re[2], im[2];
};
struct fragment_c {
    double re[4], im[4];
};

__device__ inline void multiply(fragment_c &c, const fragment_a &a, const fragment_b &b) {
    const double minus[2] = {-b.im[0], -b.im[1]};
    multiply(c.re, a.re, b.re);
    multiply(c.im, a.re, b.im);
    multiply(c.im, a.im, b.re);
    multiply(c.re, a.im, minus);
}

/* The rows and columns of a lane's elements of the fragments. */
__device__ inline unsigned a_row(unsigned i) {
    return lane() / 4 + 8 * (i % 2);
}
__device__ inline unsigned a_column(unsigned i) {
    return lane() % 4 + 4 * (i / 2);
}
__device__ inline unsigned b_row(unsigned i) {
    return lane() % 4 + 4 * i;
}
__device__ inline unsigned b_column() {
    return lane() / 4;
}
__device__ inline unsigned c_row(unsigned i) {
    return lane() / 4 + 8 * (i / 2);
}
__device__ inline unsigned c_column(unsigned i) {
    return 2 * (lane() % 4) + i % 2;
}

} // namespace mvdr

#endif
