/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Eigenvalues of a Hermitian matrix without eigenvectors: Householder's reduction to a real
 * tridiagonal matrix, then implicit QL for all eigenvalues or Sturm counts for a few of them (Golub
 * and Van Loan, Matrix Computations, 8.3 and 8.4). */
#include "mvdr_jacobi/cpu/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { LANES = MVDR_LANES };

/* ---- order ----------------------------------------------------------------------------------- */

static void sift(const double *d, size_t *order, size_t root, size_t count) {
    for (size_t child; (child = 2 * root + 1) < count; root = child) {
        if (child + 1 < count && d[order[child + 1]] < d[order[child]])
            child++;
        if (d[order[root]] <= d[order[child]])
            return;
        size_t swap = order[root];
        order[root] = order[child], order[child] = swap;
    }
}

void mvdr_descending(const double *d, size_t count, size_t *order) {
    for (size_t i = 0; i < count; i++)
        order[i] = i;
    for (size_t i = count / 2; i-- > 0;)
        sift(d, order, i, count);
    for (size_t end = count; end-- > 1;) {
        size_t swap = order[0];
        order[0] = order[end], order[end] = swap;
        sift(d, order, 0, end);
    }
}

/* ---- implicit QL ----------------------------------------------------------------------------- */

/* The bound below which an off-diagonal element counts as zero. */
static double rounding_of(const double *d, const double *e, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(d[i]) + fabs(e[i]));
    return DBL_EPSILON * most;
}

/* Index of the first off-diagonal element from l on that counts as zero, or n - 1. */
static size_t find_split(const double *e, double nothing, size_t l, size_t n) {
    while (l + 1 < n && fabs(e[l]) > nothing)
        l++;
    return l;
}

/* One QL step on rows l to m with Wilkinson's shift. */
static void step(double *d, double *e, size_t l, size_t m) {
    double g = (d[l + 1] - d[l]) / (2 * e[l]), r = sqrt(g * g + 1);
    double s = 1, c = 1, p = 0;
    g = d[m] - d[l] + e[l] / (g + copysign(r, g));
    for (size_t i = m; i-- > l;) {
        const double f = s * e[i], b = c * e[i];
        r = sqrt(f * f + g * g);
        e[i + 1] = r;
        if (!(r > 0)) { /* the matrix splits here */
            d[i + 1] -= p;
            e[m] = 0;
            return;
        }
        const double inverse = 1 / r;
        s = f * inverse;
        c = g * inverse;
        g = d[i + 1] - p;
        r = (d[i] - g) * s + 2 * c * b;
        p = s * r;
        d[i + 1] = g + p;
        g = c * r - b;
    }
    d[l] -= p;
    e[l] = g;
    e[m] = 0;
}

static bool ql(double *d, double *e, size_t n) {
    enum { MOST = 60 };
    const double nothing = rounding_of(d, e, n);
    for (size_t l = 0; l < n; l++) {
        size_t m, tries = 0;
        while ((m = find_split(e, nothing, l, n)) != l) {
            if (tries++ == MOST)
                return false;
            step(d, e, l, m);
        }
        if (!isfinite(d[l]))
            return false;
    }
    return true;
}

/* ---- a few eigenvalues ----------------------------------------------------------------------- */

/* The eigenvalue of a rank (0: the smallest) in the interval from low to high. Each round of eight
 * counts divides the interval by nine. */
static double find_ranked(const mvdr_kernels *kernels, const double *d, const double *e2, size_t n,
                          size_t rank, double low, double high) {
    const double close = 1e-12;
    enum { MOST = 40 };
    for (size_t round = 0; round < MOST && high - low > close * fmax(fabs(high), fabs(low));
         round++) {
        const double width = (high - low) / (LANES + 1), from = low;
        double shift[LANES], below[LANES];
        for (size_t i = 0; i < LANES; i++)
            shift[i] = from + (double)(i + 1) * width;
        kernels->below(d, e2, n, shift, below);
        for (size_t i = 0; i < LANES; i++)
            if (below[i] <= (double)rank)
                low = shift[i];
        for (size_t i = LANES; i-- > 0;)
            if (below[i] > (double)rank)
                high = shift[i];
    }
    return (low + high) / 2;
}

double mvdr_ranked_mean(const mvdr_kernels *kernels, const double *d, double *e, size_t n,
                        const size_t rank[2], double most) {
    for (size_t i = 0; i < n; i++)
        e[i] = e[i] * e[i] + DBL_MIN;
    const double low = -most * DBL_EPSILON * (double)n, high = most - low;
    const double first = find_ranked(kernels, d, e, n, rank[0], low, high);
    return rank[1] == rank[0] ? first
                              : (first + find_ranked(kernels, d, e, n, rank[1], low, high)) / 2;
}

/* Uses the derivatives of the pivots q: tr (T + s I)^-1 is the derivative of the determinant's
 * logarithm. */
bool mvdr_shifted_inverse(const double *d, const double *e2, size_t n, double shift, double *first,
                          double *second) {
    double q = 1, q1 = 0, q2 = 0;
    *first = *second = 0;
    for (size_t i = 0; i < n; i++) {
        const double off = i ? e2[i - 1] / q : 0, ratio = off / q;
        q2 = ratio * (q2 - 2 * q1 * q1 / q);
        q1 = 1 + ratio * q1;
        q = d[i] + shift - off;
        if (!(q > 0))
            return false;
        *first += q1 / q;
        *second += q1 / q * (q1 / q) - q2 / q;
    }
    return true;
}

bool mvdr_eigenvalues(const mvdr_kernels *kernels, mvdr_square h, double *v_re, double *v_im,
                      double *d, double *e) {
    kernels->reduce(h, v_re, v_im, d, e);
    return ql(d, e, h.n);
}
