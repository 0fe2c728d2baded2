/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Eigenvalues of a Hermitian matrix without eigenvectors, in float64 by one thread block, in shared
 * memory if the matrix fits: Householder's reduction to a tridiagonal matrix, and bisection by
 * Sturm counts of all eigenvalues at once (Golub and Van Loan, 8.3 and 8.4). cuda/jacobi/ finds
 * eigenvectors, too.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_EIGEN_CUH
#define SONAR_MVDR_JACOBI_CUDA_EIGEN_CUH

#include <limits.h>

#include "mvdr_jacobi/cuda/block.cuh"

namespace mvdr {

/* ---- to a tridiagonal matrix ----------------------------------------------------------------- */

/* Vectors of the reduction, each as long as the matrix. A step computes the rank-two change A - v
 * w^H - w v^H of the step before together with its own product A v. */
struct reduction {
    complex64 *v[2]; /* of the step before and of this one, alternating */
    complex64 *w;    /* of the step before */
    complex64 *p;    /* A v */
};

/* The square of the length below which a column counts as rounding error and is not reduced. The
 * matrix has a trace of 1/2 to 1. Eigenvalues are wanted to 5e-17, and tau^2 must not overflow. */
constexpr double LEAST_COLUMN2 = 1e-40;

/* The square of the size below which a column's first element has no phase: subnormal squares have
 * few digits. */
constexpr double LEAST_FIRST2 = 1e-290;

/* The Householder vector of a column x: v = x + lead e_1, and H = I - tau v v^H. */
struct householder {
    complex64 lead;
    double tau; /* 0: there is nothing to eliminate */
};

__device__ inline householder reflect(complex64 first, double norm2) {
    const double size2 = square(first);
    if (!(norm2 - size2 > 0) || !(norm2 > LEAST_COLUMN2))
        return {{0, 0}, 0};
    const bool any = size2 > LEAST_FIRST2;
    const double by_size = any ? reciprocal_root(size2) : 0, norm = norm2 * reciprocal_root(norm2);
    const complex64 phase =
        any ? complex64{first.re * by_size, first.im * by_size} : complex64{1, 0};
    return {{phase.re * norm, phase.im * norm}, reciprocal(norm2 + norm * (size2 * by_size))};
}

/* The factor of v in w = tau p - (tau^2/2) (v^H p) v, from row k on. Every warp computes its own
 * copy. */
__device__ inline double half_product(const complex64 *v, const complex64 *p, double tau,
                                      uint32_t k, uint32_t m) {
    double sum = 0;
    for (uint32_t i = k + lane(); i < m && tau > 0; i += WARP)
        sum += v[i].re * p[i].re + v[i].im * p[i].im;
    return 0.5 * tau * tau * sum_lanes(sum);
}

__device__ inline complex64 w_of(complex64 v, complex64 p, double tau, double half) {
    return {tau * p.re - half * v.re, tau * p.im - half * v.im};
}

/* a - v conj(w) - w conj(v); v and w belong to a's row, vc and wc to its column. */
__device__ inline complex64 change(complex64 a, complex64 v, complex64 w, complex64 vc,
                                   complex64 wc) {
    add_product(a, {-v.re, -v.im}, conj(wc));
    add_product(a, {-w.re, -w.im}, conj(vc));
    return a;
}

/* Applies the change of the step before to the columns k + 1.. of A, and computes p = A v for this
 * step. A warp processes two columns at a time. */
__device__ inline void change_and_multiply(matrix a, uint32_t m, uint32_t k,
                                           const complex64 *before, const complex64 *w,
                                           const complex64 *v, complex64 *p) {
    for (uint32_t j = k + 1 + 2 * warp(); j < m; j += 2 * warps()) {
        const uint32_t next = min(j + 1, m - 1);
        const complex64 vj = before[j], wj = w[j], vn = before[next], wn = w[next];
        complex64 sum = {0, 0}, other = {0, 0};
        for (uint32_t i = k + 1 + lane(); i < m; i += WARP) {
            const complex64 x = change(a(i, j), before[i], w[i], vj, wj);
            const complex64 y = change(a(i, next), before[i], w[i], vn, wn);
            a(i, j) = x;
            add_product(sum, conj(x), v[i]);
            if (next != j) {
                a(i, next) = y;
                add_product(other, conj(y), v[i]);
            }
        }
        sum = sum_lanes(sum);
        other = sum_lanes(other);
        if (lane() == 0) {
            p[j] = sum;
            if (next != j)
                p[next] = other;
        }
    }
}

/* Reduces the m x m Hermitian matrix a, given by both triangles, to a tridiagonal one: `diagonal`,
 * and the squares of the elements beside it. Every warp computes the short vectors itself, so that
 * a step has two barriers. Destroys a. */
__device__ inline void tridiagonalise(matrix a, uint32_t m, reduction r, double *diagonal,
                                      double *beside2) {
    for (uint32_t i = threadIdx.x; i < m; i += blockDim.x)
        r.v[0][i] = r.v[1][i] = r.w[i] = r.p[i] = complex64{0, 0};
    __syncthreads();
    double tau = 0;
    for (uint32_t k = 0; k < m; k++) {
        const complex64 *before = r.v[k % 2];
        complex64 *v = r.v[(k + 1) % 2];
        const double half = half_product(before, r.p, tau, k, m);
        const complex64 vk = before[k], wk = w_of(vk, r.p[k], tau, half);
        double norm2 = 0;
        complex64 first = {0, 0};
        uint32_t turn = 0;
        for (uint32_t i = k + 1 + lane(); i < m; i += WARP, turn++) {
            const complex64 vi = before[i], wi = w_of(vi, r.p[i], tau, half);
            const complex64 x = change(a(i, k), vi, wi, vk, wk);
            norm2 += square(x);
            first = turn ? first : x;
            if (turn % warps() == warp())
                r.w[i] = wi, v[i] = x;
        }
        norm2 = sum_lanes(norm2);
        first.re = __shfl_sync(ALL_LANES, first.re, 0);
        first.im = __shfl_sync(ALL_LANES, first.im, 0);
        const householder h = reflect(first, norm2);
        if (threadIdx.x == 0) {
            diagonal[k] = change(a(k, k), vk, wk, vk, wk).re;
            beside2[k] = norm2;
            if (k + 1 < m)
                v[k + 1] = {first.re + h.lead.re, first.im + h.lead.im};
        }
        tau = h.tau;
        __syncthreads();
        change_and_multiply(a, m, k, before, r.w, v, r.p);
        __syncthreads();
    }
}

/* ---- the same in registers ------------------------------------------------------------------- */

/* A thread holds 8 rows of one column. The 8 threads of a column are neighbouring lanes. */
constexpr uint32_t SMALL_ROWS = 64, COLUMN_LANES = 8, OWN_ROWS = SMALL_ROWS / COLUMN_LANES,
                   SMALL_WARPS = SMALL_ROWS * COLUMN_LANES / WARP;

/* What the threads of a step exchange. */
struct small_step {
    complex64 v[2][SMALL_ROWS]; /* the Householder vector of an even and of an odd step */
    complex64 p[SMALL_ROWS];    /* tau A v */
    double tau[2];
    double form[SMALL_WARPS]; /* parts of v^H p */
};

/* The rows of a thread. */
struct small_column {
    complex64 a[OWN_ROWS];
    uint32_t column, first; /* its rows are first, first + COLUMN_LANES, ... */

    __device__ uint32_t row(uint32_t r) const { return first + r * COLUMN_LANES; }
    /* False if step k changes none of the rows r of a column's lanes. */
    __device__ static bool within(uint32_t r, uint32_t k) { return (r + 1) * COLUMN_LANES > k + 1; }

    /* Makes the vector of step k, whose column this is. The column's lanes call. */
    __device__ void reflect_column(uint32_t k, small_step &to, double *diagonal,
                                   double *beside2) const {
        const uint32_t lanes = 0xffu << lane() / COLUMN_LANES * COLUMN_LANES;
        complex64 *v = to.v[k % 2], next = {0, 0};
        double norm2 = 0;
#pragma unroll
        for (uint32_t r = 0; r < OWN_ROWS; r++) {
            const complex64 x = row(r) > k ? a[r] : complex64{0, 0};
            norm2 += square(x);
            v[row(r)] = x;
            if (row(r) == k)
                diagonal[k] = a[r].re;
            if (row(r) == k + 1)
                next = a[r];
        }
#pragma unroll
        for (uint32_t apart = COLUMN_LANES / 2; apart; apart /= 2)
            norm2 += __shfl_xor_sync(lanes, norm2, apart);
        if (first != (k + 1) % COLUMN_LANES) /* not the lane of row k + 1 */
            return;
        const householder h = reflect(next, norm2);
        if (k + 1 < SMALL_ROWS)
            v[k + 1] = {next.re + h.lead.re, next.im + h.lead.im};
        to.tau[k % 2] = h.tau;
        beside2[k] = norm2;
    }

    /* The column's element of A v. All elements are loaded before the first product, also those
     * that are zero in step k. The warp calls. */
    __device__ complex64 multiply_rows(uint32_t k, const complex64 *v) const {
        complex64 x[OWN_ROWS], sum = {0, 0}, rest = {0, 0};
#pragma unroll
        for (uint32_t r = 0; r < OWN_ROWS; r++)
            x[r] = v[row(r)];
#pragma unroll
        for (uint32_t r = 0; r < OWN_ROWS; r++)
            if (within(r, k)) {
                sum.re = fma(a[r].re, x[r].re, sum.re), rest.re = fma(a[r].im, x[r].im, rest.re);
                sum.im = fma(a[r].re, x[r].im, sum.im), rest.im = fma(a[r].im, x[r].re, rest.im);
            }
        return {sum_lanes(sum.re + rest.re, COLUMN_LANES),
                sum_lanes(sum.im - rest.im, COLUMN_LANES)};
    }

    /* Subtracts v u^H + p v^H; own_u and own_v are the elements at the column. */
    __device__ void change_rows(uint32_t k, const complex64 *v, const complex64 *p, complex64 own_v,
                                complex64 own_u) {
        complex64 x[OWN_ROWS], y[OWN_ROWS];
#pragma unroll
        for (uint32_t r = 0; r < OWN_ROWS; r++)
            x[r] = v[row(r)], y[r] = p[row(r)];
#pragma unroll
        for (uint32_t r = 0; r < OWN_ROWS; r++)
            if (within(r, k))
                a[r] = change(a[r], x[r], y[r], own_v, own_u);
    }
};

/* As tridiagonalise, for at most SMALL_ROWS rows, by SMALL_WARPS warps that hold the matrix in
 * registers. A step waits for two barriers, and reads only vectors from shared memory. */
__device__ inline void tridiagonalise_small(matrix a, uint32_t m, double *diagonal,
                                            double *beside2) {
    __shared__ small_step step;
    small_column own = {{}, threadIdx.x / COLUMN_LANES, threadIdx.x % COLUMN_LANES};
#pragma unroll
    for (uint32_t r = 0; r < OWN_ROWS; r++)
        if (own.column < m && own.row(r) < m)
            own.a[r] = a(own.row(r), own.column);
    for (uint32_t k = 0; k < m; k++) {
        const complex64 *v = step.v[k % 2];
        if (own.column == k)
            own.reflect_column(k, step, diagonal, beside2);
        __syncthreads();
        const double tau = step.tau[k % 2];
        if (tau == 0)
            continue;
        const bool any = (warp() + 1) * (WARP / COLUMN_LANES) > k + 1;
        const complex64 own_v = v[own.column];
        complex64 p = {0, 0};
        double form = 0;
        if (any) {
            p = own.multiply_rows(k, v);
            p = {tau * p.re, tau * p.im};
            form = own_v.re * p.re + own_v.im * p.im;
            form += __shfl_xor_sync(ALL_LANES, form, COLUMN_LANES);
            form += __shfl_xor_sync(ALL_LANES, form, 2 * COLUMN_LANES);
            if (own.first == 0)
                step.p[own.column] = p;
        }
        if (lane() == 0)
            step.form[warp()] = form;
        __syncthreads();
        if (!any)
            continue;
        double sum[4] = {};
#pragma unroll
        for (uint32_t i = 0; i < SMALL_WARPS; i++)
            sum[i % 4] += step.form[i];
        const double twice = tau * ((sum[0] + sum[1]) + (sum[2] + sum[3]));
        own.change_rows(k, v, step.p, own_v, {p.re - twice * own_v.re, p.im - twice * own_v.im});
    }
    __syncthreads();
}

/* ---- bisection ------------------------------------------------------------------------------- */

/* A row of the tridiagonal matrix: its element on the diagonal, and the square of the element
 * before it. */
struct alignas(16) tridiagonal_row {
    double diagonal, before2;
};

constexpr uint32_t STURM_ROWS = 8;   /* rows between two tests of the range */
constexpr uint32_t STURM_POINTS = 2; /* points of a thread, which share the loads of the rows */

/* Writes the rows for count_below, up to a multiple of STURM_ROWS. The rows added have no
 * eigenvalue below any x <= 1. The squares beside the diagonal are at least LEAST_COLUMN2, so that
 * two minors in sequence are never zero. */
__device__ inline void write_rows(const double *diagonal, const double *beside2, uint32_t m,
                                  tridiagonal_row *row) {
    for (uint32_t i = threadIdx.x; i < (m + STURM_ROWS - 1) / STURM_ROWS * STURM_ROWS;
         i += blockDim.x)
        row[i] = i < m ? tridiagonal_row{diagonal[i], i ? fmax(beside2[i - 1], LEAST_COLUMN2) : 0}
                       : tridiagonal_row{2, 0};
    __syncthreads();
}

/* A sequence of leading principal minors of T - x I. They are scaled by powers of two, which change
 * no sign, to stay in range: the matrix's elements are at most 1, and STURM_ROWS rows reduce the
 * larger of two neighbours by at most LEAST_COLUMN2^(STURM_ROWS / 2), about 2^-532. */
struct minors {
    double before = 0, last = 1;
    uint32_t signs = 0, changes = 0; /* the last minors' signs; changes of sign before them */

    __device__ void take(const tridiagonal_row &t, double x) {
        const double next = fma(t.diagonal - x, last, -t.before2 * before);
        before = last, last = next;
        signs = __funnelshift_l((uint32_t)__double2hiint(last), signs, 1);
    }
    /* After each STURM_ROWS rows. */
    __device__ void count() {
        constexpr int SMALL = (1023 - 300) << 20; /* the upper half of 2^-300 */
        changes += __popc((signs ^ signs >> 1) & ((1u << STURM_ROWS) - 1));
        const bool small =
            max(__double2hiint(last) & INT_MAX, __double2hiint(before) & INT_MAX) < SMALL;
        last *= small ? 0x1p540 : 1;
        before *= small ? 0x1p540 : 1;
    }
};

/* Counts the eigenvalues of the tridiagonal matrix below each x: the changes of sign in the
 * sequence of minors. A zero counts with either sign, because the minors beside it have opposite
 * ones. */
__device__ inline void count_below(const tridiagonal_row *row, uint32_t m,
                                   const double x[STURM_POINTS], uint32_t below[STURM_POINTS]) {
    minors minor[STURM_POINTS];
    for (uint32_t i = 0; i < m; i += STURM_ROWS) {
#pragma unroll
        for (uint32_t j = 0; j < STURM_ROWS; j++) {
            const tridiagonal_row t = row[i + j];
#pragma unroll
            for (uint32_t p = 0; p < STURM_POINTS; p++)
                minor[p].take(t, x[p]);
        }
#pragma unroll
        for (uint32_t p = 0; p < STURM_POINTS; p++)
            minor[p].count();
    }
#pragma unroll
    for (uint32_t p = 0; p < STURM_POINTS; p++)
        below[p] = minor[p].changes;
}

/* Finds the eigenvalues, descending, to within 2^-54 of `most`, an upper bound of them; none is
 * negative. A group of lanes searches one eigenvalue, and cuts its interval into one part more than
 * it has points. */
__device__ inline void bisect(const tridiagonal_row *row, uint32_t m, double most, double *d) {
    unsigned lanes = WARP;
    while (lanes > 1 && STURM_POINTS * lanes * m > blockDim.x)
        lanes /= 2;
    const unsigned own = threadIdx.x % lanes, group = threadIdx.x / lanes,
                   groups = blockDim.x / lanes, shift = lane() / lanes * lanes;
    const unsigned mask = (lanes == WARP ? ALL_LANES : (1u << lanes) - 1) << shift;
    const unsigned first = warp() * WARP / lanes; /* the first of the warp's groups */
    for (uint32_t base = 0; base + first < m; base += groups) {
        const uint32_t rank = min(base + group, m - 1); /* ascending */
        const uint32_t parts = STURM_POINTS * lanes + 1;
        double low = 0, step = most / parts;
        for (double width = 1; width > 0x1p-54; width /= parts) {
            double x[STURM_POINTS];
            uint32_t below[STURM_POINTS], part = 0;
#pragma unroll
            for (uint32_t p = 0; p < STURM_POINTS; p++)
                x[p] = low + step * (own * STURM_POINTS + p + 1);
            count_below(row, m, x, below);
#pragma unroll
            for (uint32_t p = 0; p < STURM_POINTS; p++)
                part += __popc(__ballot_sync(ALL_LANES, below[p] <= rank) & mask);
            low += step * part;
            step /= parts;
        }
        if (own == 0 && base + group < m)
            d[m - 1 - rank] = low + step * parts / 2;
    }
    __syncthreads();
}

} // namespace mvdr

#endif
