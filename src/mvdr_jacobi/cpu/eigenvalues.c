/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Eigenvalues of a Hermitian matrix without eigenvectors: Householder's reduction to a real
 * tridiagonal matrix, then implicit QL for all eigenvalues or Sturm counts for a few of them (Golub
 * and Van Loan, Matrix Computations, 8.3 and 8.4). */
#include "mvdr_jacobi/cpu/internal.h"

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

/* Vectors have `ld` elements; rows above the present step are zero. */
typedef struct reflector {
    double *vr, *vi; /* v of I - tau v v^H */
    double *pr, *pi; /* A v, then w of A - v w^H - w v^H */
    double tau;
} reflector;

/* Updates column k alone: A - v w^H - w v^H. */
MVDR_INLINE void renew(mvdr_square h, size_t k, const reflector *r) {
    double *re = h.re + k * h.ld, *im = h.im + k * h.ld;
    const double x = r->vr[k], y = r->vi[k], s = r->pr[k], t = r->pi[k];
    for (size_t i = k; i < h.n; i++) {
        re[i] -= r->vr[i] * s + r->vi[i] * t + r->pr[i] * x + r->pi[i] * y;
        im[i] -= r->vi[i] * s - r->vr[i] * t + r->pi[i] * x - r->pr[i] * y;
    }
}

/* Makes the reflector that zeroes column k below its first subdiagonal element; returns that
 * element's magnitude. */
MVDR_INLINE double reflect(mvdr_square h, size_t k, reflector *r) {
    double *re = h.re + k * h.ld, *im = h.im + k * h.ld, rest2 = 0;
    memset(r->vr, 0, h.ld * sizeof *r->vr);
    memset(r->vi, 0, h.ld * sizeof *r->vi);
    for (size_t i = k + 2; i < h.n; i++)
        rest2 += re[i] * re[i] + im[i] * im[i];
    const double ar = re[k + 1], ai = im[k + 1], a = sqrt(ar * ar + ai * ai);
    r->tau = 0;
    if (!(rest2 > 0))
        return a;
    const double norm = sqrt(a * a + rest2), x = a > 0 ? ar / a : 1, y = a > 0 ? ai / a : 0;
    memcpy(r->vr + k + 1, re + k + 1, (h.n - k - 1) * sizeof *re);
    memcpy(r->vi + k + 1, im + k + 1, (h.n - k - 1) * sizeof *im);
    r->vr[k + 1] += x * norm;
    r->vi[k + 1] += y * norm;
    r->tau = 1 / (norm * (norm + a));
    return norm;
}

/* Columns that are processed together, which saves loads of the vectors. */
enum { ABREAST = 2 };

/* Columns of A in one pass: the previous reflector's v w^H + w v^H is subtracted, and the products
 * with the new reflector's v are accumulated. */
typedef struct passage {
    mvdr_lanes *re[ABREAST], *im[ABREAST];
    double x[ABREAST], y[ABREAST], s[ABREAST], t[ABREAST]; /* elements of the old v and w */
    double f[ABREAST], g[ABREAST];                         /* elements of the new v */
    mvdr_lanes sum_re[ABREAST], sum_im[ABREAST];           /* of A^H v */
} passage;

MVDR_INLINE passage passage_of(mvdr_square h, size_t j, size_t columns, const reflector *old,
                               const reflector *new) {
    passage p = {0};
    for (size_t c = 0; c < columns; c++, j++) {
        p.re[c] = (mvdr_lanes *)(h.re + j * h.ld), p.im[c] = (mvdr_lanes *)(h.im + j * h.ld);
        p.x[c] = old->vr[j], p.y[c] = old->vi[j], p.s[c] = old->pr[j], p.t[c] = old->pi[j];
        p.f[c] = new->vr[j], p.g[c] = new->vi[j];
    }
    return p;
}

/* Clears the lanes before `row`: elements above the diagonal, or imaginary parts on it. */
MVDR_INLINE void clear_before(size_t row, mvdr_lanes *v) {
    typedef int64_t bits __attribute__((vector_size(LANES * sizeof(int64_t))));
    static const bits lane = {0, 1, 2, 3, 4, 5, 6, 7};
    *v = (mvdr_lanes)((bits)*v & (lane >= (int64_t)row));
}

/* Processes vector i of the columns. `head`: it contains their diagonal elements, from row
 * `diagonal` of the vector on. */
MVDR_INLINE void pass(passage *p, size_t columns, size_t i, bool head, size_t diagonal,
                      const reflector *old, const reflector *new) {
    const mvdr_lanes vr = ((mvdr_lanes *)old->vr)[i], vi = ((mvdr_lanes *)old->vi)[i];
    const mvdr_lanes wr = ((mvdr_lanes *)old->pr)[i], wi = ((mvdr_lanes *)old->pi)[i];
    const mvdr_lanes nr = ((mvdr_lanes *)new->vr)[i], ni = ((mvdr_lanes *)new->vi)[i];
    mvdr_lanes pr = ((mvdr_lanes *)new->pr)[i], pi = ((mvdr_lanes *)new->pi)[i];
    for (size_t c = 0; c < columns; c++) {
        mvdr_lanes re = p->re[c][i], im = p->im[c][i];
        re -= vr * p->s[c];
        re -= vi * p->t[c];
        re -= wr * p->x[c];
        re -= wi * p->y[c];
        im -= vi * p->s[c];
        im += vr * p->t[c];
        im -= wi * p->x[c];
        im += wr * p->y[c];
        if (head) {
            clear_before(diagonal + c, &re);
            clear_before(diagonal + c + 1, &im);
        }
        p->re[c][i] = re, p->im[c][i] = im;
        pr += re * p->f[c];
        pr -= im * p->g[c];
        pi += re * p->g[c];
        pi += im * p->f[c];
        p->sum_re[c] += re * nr;
        p->sum_re[c] += im * ni;
        p->sum_im[c] += re * ni;
        p->sum_im[c] -= im * nr;
    }
    ((mvdr_lanes *)new->pr)[i] = pr, ((mvdr_lanes *)new->pi)[i] = pi;
}

MVDR_INLINE void pass_all(mvdr_square h, size_t j, size_t columns, const reflector *old,
                          const reflector *new) {
    passage p = passage_of(h, j, columns, old, new);
    pass(&p, columns, j / LANES, true, j % LANES, old, new);
    for (size_t i = j / LANES + 1; i < h.ld / LANES; i++)
        pass(&p, columns, i, false, 0, old, new);
    for (size_t c = 0; c < columns; c++, j++) {
        const double diagonal = h.re[j * h.ld + j]; /* it was added twice */
        new->pr[j] += mvdr_add_lanes(&p.sum_re[c]) - diagonal *p.f[c];
        new->pi[j] += mvdr_add_lanes(&p.sum_im[c]) - diagonal *p.g[c];
    }
}

/* Passes over the lower triangle of the columns from `first` on: A <- A - v w^H - w v^H of the old
 * reflector, and p = A v of the new one. */
MVDR_INLINE void pass_on(mvdr_square h, size_t first, const reflector *old, const reflector *new) {
    size_t j = first;
    memset(new->pr, 0, h.ld * sizeof *new->pr);
    memset(new->pi, 0, h.ld * sizeof *new->pi);
    for (; j < h.n && j % ABREAST; j++)
        pass_all(h, j, 1, old, new);
    for (; j + ABREAST <= h.n; j += ABREAST)
        pass_all(h, j, ABREAST, old, new);
    for (; j < h.n; j++)
        pass_all(h, j, 1, old, new);
}

/* w = tau p - (tau^2/2) (p^H v) v, in p. */
MVDR_INLINE void combine(mvdr_square h, size_t first, const reflector *r) {
    double re = 0;
    for (size_t i = first; i < h.n; i++)
        re += r->pr[i] * r->vr[i] + r->pi[i] * r->vi[i];
    const double half = r->tau * (r->tau * re) / 2; /* v^H A v is real; tau^2 may overflow */
    for (size_t i = first / LANES * LANES; i < h.ld; i++) {
        r->pr[i] = r->tau * r->pr[i] - half * r->vr[i];
        r->pi[i] = r->tau * r->pi[i] - half * r->vi[i];
    }
}

/* The update of A by a reflector is combined with the product for the next one, so that both need
 * only one pass over A. */
SONAR_MULTIARCH static void tridiagonal(mvdr_square h, double *v_re, double *v_im, double *d,
                                        double *e) {
    reflector old = {v_re, v_im, v_re + h.ld, v_im + h.ld, 0};
    reflector new = {v_re + 2 * h.ld, v_im + 2 * h.ld, v_re + 3 * h.ld, v_im + 3 * h.ld, 0};
    memset(v_re, 0, 2 * h.ld * sizeof *v_re);
    memset(v_im, 0, 2 * h.ld * sizeof *v_im);
    for (size_t k = 0; k + 1 < h.n; k++) {
        renew(h, k, &old);
        d[k] = h.re[k * h.ld + k];
        e[k] = reflect(h, k, &new);
        pass_on(h, k + 1, &old, &new);
        combine(h, k + 1, &new);
        const reflector swap = old;
        old = new, new = swap;
    }
    if (h.n) {
        renew(h, h.n - 1, &old);
        d[h.n - 1] = h.re[(h.n - 1) * h.ld + h.n - 1];
        e[h.n - 1] = 0;
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

/* Counts the eigenvalues of T below each of eight shifts s: the negative pivots of T - s I. e2 has
 * the squares of T's off-diagonal elements, none of them zero. A pivot of zero makes the next one
 * -inf. */
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

/* The eigenvalue of a rank (0: the smallest) in the interval from low to high. Each round of eight
 * counts divides the interval by nine. */
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

void mvdr_reduce(mvdr_square h, double *v_re, double *v_im, double *d, double *e) {
    tridiagonal(h, v_re, v_im, d, e);
}

bool mvdr_eigenvalues(mvdr_square h, double *v_re, double *v_im, double *d, double *e) {
    tridiagonal(h, v_re, v_im, d, e);
    return ql(d, e, h.n);
}
