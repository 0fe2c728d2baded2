/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Eigenvalues of a Hermitian matrix without eigenvectors, in float64 by one thread block, in shared
 * memory if the matrix fits: Householder's reduction to a tridiagonal matrix, and bisection by
 * Sturm counts of all eigenvalues at once (Golub and Van Loan, 8.3 and 8.4). cuda/jacobi.cuh finds
 * eigenvectors, too.
 */
#ifndef SONAR_MVDR_JACOBI_CUDA_EIGEN_CUH
#define SONAR_MVDR_JACOBI_CUDA_EIGEN_CUH

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

/* The Householder vector of a column x: v = x + lead e_1, and H = I - tau v v^H. */
struct householder {
    complex64 lead;
    double tau; /* 0: there is nothing to eliminate */
};

__device__ inline householder reflect(complex64 first, double norm2) {
    const double size2 = square(first);
    if (!(norm2 - size2 > 0) || !(norm2 > LEAST_COLUMN2))
        return {{0, 0}, 0};
    const double norm = sqrt(norm2), size = sqrt(size2);
    const complex64 phase =
        size > 0 ? complex64{first.re / size, first.im / size} : complex64{1, 0};
    return {{phase.re * norm, phase.im * norm}, 1 / (norm * (norm + size))};
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

/* ---- bisection ------------------------------------------------------------------------------- */

/* Counts the eigenvalues of the tridiagonal matrix below x: the sign changes in the sequence of
 * leading principal minors of T - x I. The minors are scaled by powers of two, which change no
 * sign, to stay in range. The matrix's elements are at most 1. */
__device__ inline uint32_t count_below(const double *diagonal, const double *beside2, uint32_t m,
                                       double x) {
    constexpr double SMALL = 0x1p-400, TINY = 0x1p-60;
    double before = 1, minor = diagonal[0] - x;
    uint32_t count = 0;
    for (uint32_t i = 0;; i++) {
        if (minor == 0) /* as if an element of T were slightly smaller */
            minor = -TINY * before;
        count += (minor < 0) != (before < 0);
        if (i + 1 == m)
            return count;
        if (i % 4 == 3 && fabs(minor) < SMALL && fabs(before) < SMALL) {
            minor *= 0x1p400;
            before *= 0x1p400;
        }
        const double next = fma(diagonal[i + 1] - x, minor, -beside2[i] * before);
        before = minor, minor = next;
    }
}

/* Finds the eigenvalues, descending, to within 2^-54 of `most`, an upper bound of them; none is
 * negative. A group of lanes searches one eigenvalue, and cuts its interval into one part more than
 * it has lanes. */
__device__ inline void bisect(const double *diagonal, const double *beside2, uint32_t m,
                              double most, double *d) {
    unsigned lanes = WARP;
    while (lanes > 1 && lanes * m > blockDim.x)
        lanes /= 2;
    const unsigned own = threadIdx.x % lanes, group = threadIdx.x / lanes,
                   groups = blockDim.x / lanes, shift = lane() / lanes * lanes;
    const unsigned group_mask = lanes == WARP ? ALL_LANES : (1u << lanes) - 1;
    for (uint32_t base = 0; base < m; base += groups) {
        const uint32_t rank = min(base + group, m - 1); /* ascending */
        double low = 0, high = most;
        for (double width = 1; width > 0x1p-54; width /= lanes + 1) {
            const double step = (high - low) / (lanes + 1), x = low + step * (own + 1);
            const bool above = count_below(diagonal, beside2, m, x) > rank;
            const unsigned votes = __ballot_sync(ALL_LANES, above) >> shift & group_mask;
            const unsigned part = votes ? __ffs(votes) - 1 : lanes;
            high = part < lanes ? low + step * (part + 1) : high;
            low += step * part;
        }
        if (own == 0 && base + group < m)
            d[m - 1 - rank] = (low + high) / 2;
    }
    __syncthreads();
}

} // namespace mvdr

#endif
