/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The complex transform of M points inside a thread block, M a power of two from 128 on: M / 16
 * threads with 16 points in registers each. Stockham's self-sorting form: passes of radix 16 and a
 * last one of the radix that is left; between two passes the threads exchange their points through
 * shared memory. Before every pass, and after the last, thread t has the points t + m * M / 16, m <
 * 16, in this order. Each function below is one thread's part of one step.
 */
#ifndef SONAR_DFT_FFT_CUDA_CUH
#define SONAR_DFT_FFT_CUDA_CUH

#include <cuda_runtime.h>
#include <stdint.h>

enum { FFT_MINE = 16 }; /* points of one thread */

#ifndef FFT_STEP /* may be redefined, to run the steps one after the other on the host */
#define FFT_STEP __device__ __forceinline__
#endif

FFT_STEP float2 fft_add(float2 a, float2 b) {
    return make_float2(a.x + b.x, a.y + b.y);
}

FFT_STEP float2 fft_subtract(float2 a, float2 b) {
    return make_float2(a.x - b.x, a.y - b.y);
}

FFT_STEP float2 fft_multiply(float2 a, float2 b) {
    return make_float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x);
}

/* ---- transforms of 2, 4, 8 and 16 points in registers ---------------------------------------- */

/* a exp(-j 2 pi m / 16) for a constant m < 10; simple factors take no full product. */
FFT_STEP float2 fft_turn(float2 a, int m) {
    const float c1 = .92387953251128674f, c2 = .70710678118654752f, c3 = .38268343236508977f;
    switch (m) {
    case 0:
        return a;
    case 1:
        return fft_multiply(a, make_float2(c1, -c3));
    case 2:
        return make_float2(c2 * (a.x + a.y), c2 * (a.y - a.x));
    case 3:
        return fft_multiply(a, make_float2(c3, -c1));
    case 4:
        return make_float2(a.y, -a.x);
    case 6:
        return make_float2(c2 * (a.y - a.x), -c2 * (a.x + a.y));
    default: /* 9 */
        return fft_multiply(a, make_float2(-c1, c3));
    }
}

FFT_STEP void fft_2(float2 &a, float2 &b) {
    float2 sum = fft_add(a, b);
    b = fft_subtract(a, b);
    a = sum;
}

FFT_STEP void fft_4(float2 &a, float2 &b, float2 &c, float2 &d) {
    fft_2(a, c);
    fft_2(b, d);
    d = fft_turn(d, 4);
    fft_2(a, b);
    fft_2(c, d);
    float2 second = c; /* these now hold X0, X2, X1, X3 */
    c = b;
    b = second;
}

/* In place and in natural order. Radix R = 4 L: L transforms of 4 points, rotations, 4 transforms
 * of L points. */
template <int R> FFT_STEP void fft_small(float2 (&v)[R]) {
    constexpr int L = R / 4;
    float2 u[R];
#pragma unroll
    for (int i = 0; i < L; i++) {
        fft_4(v[i], v[i + L], v[i + 2 * L], v[i + 3 * L]);
#pragma unroll
        for (int k = 0; k < 4; k++)
            u[k * L + i] = fft_turn(v[i + k * L], i * k * (16 / R));
    }
#pragma unroll
    for (int k = 0; k < 4; k++) {
        if (L == 4)
            fft_4(u[k * L], u[k * L + 1], u[k * L + 2], u[k * L + 3]);
        else if (L == 2)
            fft_2(u[k * L], u[k * L + 1]);
#pragma unroll
        for (int i = 0; i < L; i++)
            v[k + 4 * i] = u[k * L + i];
    }
}

template <> FFT_STEP void fft_small<2>(float2 (&v)[2]) {
    fft_2(v[0], v[1]);
}

/* ---- passes and the exchange between them ---------------------------------------------------- */

/* The radix of the pass that combines transforms of S points into longer ones. */
__host__ __device__ constexpr int fft_radix(int points, int s) {
    return points / s < 16 ? points / s : 16;
}

/* Twiddle factors of all passes: entry q s + k - 16 is exp(-j 2 pi q k / (s R)), for the pass of
 * radix R on transforms of s >= 16 points, 0 < q < R, k < s. */
__host__ __device__ constexpr int fft_twiddles(int points) {
    return points - 16;
}

/* Multiplies one butterfly by its twiddle factors. `twiddle` points to its k's entry for q = 0. The
 * factors for q = 1, 2, 3 and 4, 8, 12 are read; the others are products of these, because reading
 * them costs more. */
template <int R, int S> FFT_STEP void fft_twiddle(float2 (&u)[R], const float2 *twiddle) {
    float2 low[4];
#pragma unroll
    for (int q = 1; q < 4 && q < R; q++) {
        low[q] = twiddle[q * S];
        u[q] = fft_multiply(u[q], low[q]);
    }
#pragma unroll
    for (int q = 4; q < R; q += 4) {
        float2 high = twiddle[q * S];
        u[q] = fft_multiply(u[q], high);
#pragma unroll
        for (int i = 1; i < 4; i++)
            u[q + i] = fft_multiply(u[q + i], fft_multiply(high, low[i]));
    }
}

template <int POINTS, int S>
FFT_STEP void fft_pass(float2 (&v)[FFT_MINE], int t, const float2 *twiddle) {
    constexpr int R = fft_radix(POINTS, S), EACH = FFT_MINE / R, THREADS = POINTS / FFT_MINE;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int k = (t + THREADS * i) % S;
        float2 u[R];
#pragma unroll
        for (int q = 0; q < R; q++)
            u[q] = v[i + EACH * q];
        if (S > 1)
            fft_twiddle<R, S>(u, twiddle + k - 16);
        fft_small<R>(u);
#pragma unroll
        for (int q = 0; q < R; q++)
            v[i + EACH * q] = u[q];
    }
}

/* Where point i is stored. After the first pass neighbours are 16 points apart and would all lie in
 * one bank of the shared memory; padding separates them. padded(a + b) is padded(a) + padded(b) if
 * a or b is a multiple of 16, or if the sum of their remainders is less than 16. */
__host__ __device__ constexpr int fft_padded(int i) {
    return i + i / 16;
}

/* Stores the points in Stockham's order; in the next pass each thread again reads points that are M
 * / 16 apart. */
template <int POINTS, int S>
FFT_STEP void fft_scatter(const float2 (&v)[FFT_MINE], int t, float2 *shared) {
    constexpr int R = fft_radix(POINTS, S), EACH = FFT_MINE / R, THREADS = POINTS / FFT_MINE;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        int j = t + THREADS * i, k = j % S;
        float2 *to = shared + fft_padded((j - k) * R + k);
#pragma unroll
        for (int q = 0; q < R; q++)
            to[fft_padded(q * S)] = v[i + EACH * q];
    }
}

template <int POINTS> FFT_STEP void fft_gather(float2 (&v)[FFT_MINE], int t, const float2 *shared) {
    const float2 *from = shared + fft_padded(t);
#pragma unroll
    for (int m = 0; m < FFT_MINE; m++)
        v[m] = from[fft_padded(POINTS / FFT_MINE * m)];
}

/* Stores point i of the finished transform at fft_padded(i). */
template <int POINTS> FFT_STEP void fft_place(const float2 (&v)[FFT_MINE], int t, float2 *shared) {
    float2 *to = shared + fft_padded(t);
#pragma unroll
    for (int m = 0; m < FFT_MINE; m++)
        to[fft_padded(POINTS / FFT_MINE * m)] = v[m];
}

/* ---- real input ------------------------------------------------------------------------------ */

/* The spectrum of 2 M real samples from the transform of M complex ones: bin k follows from point
 * k, point M - k (modulo M) and w = exp(-j 2 pi k / (2 M)). */
FFT_STEP float2 fft_untangle(float2 z, float2 mirror, float2 w) {
    float2 even = make_float2(.5f * (z.x + mirror.x), .5f * (z.y - mirror.y));
    float2 odd = make_float2(.5f * (z.y + mirror.y), .5f * (mirror.x - z.x));
    return fft_add(even, fft_multiply(odd, w));
}

#endif
