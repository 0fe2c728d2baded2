/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Eigenvalues of a Hermitian matrix without eigenvectors: Householder's reduction to a real
 * tridiagonal matrix, then implicit QL or, of a few of them, counts (Golub and Van Loan, Matrix
 * Computations, 8.3 and 8.4). */
#include "mvdr_jacobi/internal.h"

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

/* ---- tridiagonal form ------------------------------------------------------------------------ */

/* Vectors are `ld` long; those of a reduction begin at the first whole vector that has a row of it,
 * rows before being zero, as they are above the diagonal. */
typedef struct reflector {
    double *vr, *vi; /* v of I - tau v v^H */
    double *pr, *pi; /* tau A v, then w of A - v w^H - w v^H */
    double tau;
} reflector;

/* Makes the reflector that leaves one element of column k below the diagonal; returns its
 * magnitude. */
MVDR_INLINE double reflect(mvdr_square h, size_t k, reflector *r) {
    double *re = h.re + k * h.ld, *im = h.im + k * h.ld, norm2 = 0, rest2 = 0;
    memset(r->vr, 0, h.ld * sizeof *r->vr);
    memset(r->vi, 0, h.ld * sizeof *r->vi);
    for (size_t i = k + 2; i < h.n; i++)
        rest2 += re[i] * re[i] + im[i] * im[i];
    const double ar = re[k + 1], ai = im[k + 1], a = sqrt(ar * ar + ai * ai);
    norm2 = a * a + rest2;
    r->tau = 0;
    if (!(rest2 > 0))
        return a;
    const double norm = sqrt(norm2), x = a > 0 ? ar / a : 1, y = a > 0 ? ai / a : 0;
    memcpy(r->vr + k + 1, re + k + 1, (h.n - k - 1) * sizeof *re);
    memcpy(r->vi + k + 1, im + k + 1, (h.n - k - 1) * sizeof *im);
    r->vr[k + 1] += x * norm;
    r->vi[k + 1] += y * norm;
    r->tau = 1 / (norm * (norm + a));
    return norm;
}

/* p = A v from the lower triangle of A's rows and columns from `first` on. */
MVDR_INLINE void multiply(mvdr_square h, size_t first, const reflector *r) {
    const size_t begin = first / LANES, end = h.ld / LANES;
    mvdr_lanes *pr = (mvdr_lanes *)r->pr, *pi = (mvdr_lanes *)r->pi;
    const mvdr_lanes *vr = (const mvdr_lanes *)r->vr, *vi = (const mvdr_lanes *)r->vi;
    memset(pr + begin, 0, (end - begin) * sizeof *pr);
    memset(pi + begin, 0, (end - begin) * sizeof *pi);
    for (size_t j = first; j < h.n; j++) {
        const mvdr_lanes *ar = (const mvdr_lanes *)(h.re + j * h.ld);
        const mvdr_lanes *ai = (const mvdr_lanes *)(h.im + j * h.ld);
        const double x = r->vr[j], y = r->vi[j], diagonal = h.re[j * h.ld + j];
        mvdr_lanes rr = {0}, ii = {0}, ri = {0}, ir = {0};
        for (size_t i = j / LANES; i < end; i++) {
            const mvdr_lanes br = ar[i], bi = ai[i];
            pr[i] += br * x;
            pr[i] -= bi * y;
            pi[i] += br * y;
            pi[i] += bi * x;
            rr += br * vr[i];
            ii += bi * vi[i];
            ri += br * vi[i];
            ir += bi * vr[i];
        }
        double re = 0, im = 0;
        rr += ii;
        ri -= ir;
        for (size_t lane = 0; lane < LANES; lane++)
            re += rr[lane], im += ri[lane];
        r->pr[j] += re - diagonal * x; /* the diagonal counted twice */
        r->pi[j] += im - diagonal * y;
    }
}

/* w = tau p - (tau^2/2) (p^H v) v, in p. */
MVDR_INLINE void combine(mvdr_square h, size_t first, const reflector *r) {
    double re = 0;
    for (size_t i = first; i < h.n; i++)
        re += r->pr[i] * r->vr[i] + r->pi[i] * r->vi[i];
    const double half = r->tau * r->tau * re / 2; /* v^H A v is real */
    for (size_t i = first / LANES * LANES; i < h.ld; i++) {
        r->pr[i] = r->tau * r->pr[i] - half * r->vr[i];
        r->pi[i] = r->tau * r->pi[i] - half * r->vi[i];
    }
}

/* A <- A - v w^H - w v^H, the lower triangle. */
MVDR_INLINE void update(mvdr_square h, size_t first, const reflector *r) {
    const size_t end = h.ld / LANES;
    const mvdr_lanes *pr = (const mvdr_lanes *)r->pr, *pi = (const mvdr_lanes *)r->pi;
    const mvdr_lanes *vr = (const mvdr_lanes *)r->vr, *vi = (const mvdr_lanes *)r->vi;
    for (size_t j = first; j < h.n; j++) {
        mvdr_lanes *ar = (mvdr_lanes *)(h.re + j * h.ld), *ai = (mvdr_lanes *)(h.im + j * h.ld);
        const double x = r->vr[j], y = r->vi[j], s = r->pr[j], t = r->pi[j];
        for (size_t i = j / LANES; i < end; i++) {
            mvdr_lanes re = ar[i], im = ai[i];
            re -= vr[i] * s;
            re -= vi[i] * t;
            re -= pr[i] * x;
            re -= pi[i] * y;
            im -= vi[i] * s;
            im += vr[i] * t;
            im -= pi[i] * x;
            im += pr[i] * y;
            ar[i] = re, ai[i] = im;
        }
        const size_t head = j / LANES * LANES;
        memset(h.re + j * h.ld + head, 0, (j - head) * sizeof *h.re);
        memset(h.im + j * h.ld + head, 0, (j - head + 1) * sizeof *h.im);
    }
}

SONAR_MULTIARCH static void tridiagonal(mvdr_square h, double *v_re, double *v_im, double *d,
                                        double *e) {
    reflector r = {v_re, v_im, v_re + h.ld, v_im + h.ld, 0};
    for (size_t k = 0; k < h.n; k++) {
        d[k] = h.re[k * h.ld + k];
        e[k] = 0;
        if (k + 1 == h.n)
            continue;
        e[k] = reflect(h, k, &r);
        if (!(r.tau > 0))
            continue;
        multiply(h, k + 1, &r);
        combine(h, k + 1, &r);
        update(h, k + 1, &r);
    }
}

/* ---- implicit QL ----------------------------------------------------------------------------- */

/* What rounding leaves of the whole: an off-diagonal element below it is nothing. */
static double rounding_of(const double *d, const double *e, size_t n) {
    double most = 0;
    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs(d[i]) + fabs(e[i]));
    return DBL_EPSILON * most;
}

/* The first off-diagonal element from l on that is nothing, or n - 1. */
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
        if (!(r > 0)) { /* it has split */
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
    }
    return true;
}

/* ---- a few eigenvalues ----------------------------------------------------------------------- */

/* How many eigenvalues of T, e2 being the squares of its off-diagonal elements and none of them
 * zero, are below each of eight shifts: pivots of T - s I that are negative. One that is zero makes
 * the next one -inf. */
SONAR_MULTIARCH static void count_below(const double *d, const double *e2, size_t n,
                                        const double *shifts, double *counts) {
    typedef int64_t votes __attribute__((vector_size(LANES * sizeof(int64_t))));
    mvdr_lanes s, q = {0};
    votes count = {0};
    memcpy(&s, shifts, sizeof s);
    for (size_t i = 0; i < n; i++) {
        q = d[i] - s - (i ? e2[i - 1] / q : q);
        count -= q < 0;
    }
    const mvdr_lanes below = __builtin_convertvector(count, mvdr_lanes);
    memcpy(counts, &below, sizeof below);
}

/* The eigenvalue of that rank, 0 the smallest, known to be between low and high: by ninths. */
static double find_ranked(const double *d, const double *e2, size_t n, size_t rank, double low,
                          double high) {
    const double close = 1e-12;
    enum { MOST = 40 };
    for (size_t round = 0; round < MOST && high - low > close * fmax(fabs(high), fabs(low));
         round++) {
        const double width = (high - low) / (LANES + 1), from = low;
        double shift[LANES], below[LANES];
        for (size_t i = 0; i < LANES; i++)
            shift[i] = from + (double)(i + 1) * width;
        count_below(d, e2, n, shift, below);
        for (size_t i = 0; i < LANES; i++)
            if (below[i] <= (double)rank)
                low = shift[i];
        for (size_t i = LANES; i-- > 0;)
            if (below[i] > (double)rank)
                high = shift[i];
    }
    return (low + high) / 2;
}

double mvdr_ranked_mean(const double *d, double *e, size_t n, const size_t rank[2], double most) {
    for (size_t i = 0; i < n; i++)
        e[i] = e[i] * e[i] + DBL_MIN;
    const double low = -most * DBL_EPSILON * (double)n, high = most - low;
    const double first = find_ranked(d, e, n, rank[0], low, high);
    return rank[1] == rank[0] ? first : (first + find_ranked(d, e, n, rank[1], low, high)) / 2;
}

/* By the derivatives of the pivots: tr (T + s I)^-1 is that of the determinant's logarithm. */
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

/* ---- all of it ------------------------------------------------------------------------------- */

void mvdr_reduce(mvdr_square h, double *v_re, double *v_im, double *d, double *e) {
    tridiagonal(h, v_re, v_im, d, e);
}

bool mvdr_eigenvalues(mvdr_square h, double *v_re, double *v_im, double *d, double *e) {
    tridiagonal(h, v_re, v_im, d, e);
    return ql(d, e, h.n);
}
