/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Householder's reduction of a Hermitian matrix to a real tridiagonal one (Golub and Van Loan,
 * Matrix Computations, 8.3), for one instruction set: set_kernel.h defines the macros. */

/* A reflector I - tau v v^H. Vectors have `ld` elements; rows above the present step are zero. */
typedef struct NAME(reflector) {
    double *vr, *vi; /* v */
    double *pr, *pi; /* A v, then w of A - v w^H - w v^H */
    double tau;
} NAME(reflector);

/* Two columns of A, which share the loads of the vectors; elements of the old v and w, and of the
 * new v. */
typedef struct NAME(passage) {
    double *re[2], *im[2];
    double x[2], y[2], s[2], t[2], f[2], g[2];
    VECTOR sum_re[2], sum_im[2]; /* of A^H v */
} NAME(passage);

/* Clears what is above the diagonal, and its imaginary part. `diagonal`: its row in the vector. */
TARGET INLINE void NAME(clear)(int64_t diagonal, VECTOR *re, VECTOR *im) {
    typedef int64_t bits __attribute__((vector_size(sizeof(VECTOR))));
    static const int64_t lanes[MVDR_LANES] = {0, 1, 2, 3, 4, 5, 6, 7};
    bits lane;
    LOAD(lane, lanes);
    *re = (VECTOR)((bits)*re & (lane >= diagonal));
    *im = (VECTOR)((bits)*im & (lane > diagonal));
}

/* Processes WIDTH rows of the columns. */
TARGET INLINE void NAME(pass_rows)(NAME(passage) * p, size_t columns, size_t i, bool head,
                                   int64_t diagonal, const NAME(reflector) * old,
                                   const NAME(reflector) * new) {
    VECTOR vr, vi, wr, wi, nr, ni, pr, pi;
    LOAD(vr, old->vr + i);
    LOAD(vi, old->vi + i);
    LOAD(wr, old->pr + i);
    LOAD(wi, old->pi + i);
    LOAD(nr, new->vr + i);
    LOAD(ni, new->vi + i);
    LOAD(pr, new->pr + i);
    LOAD(pi, new->pi + i);
#pragma GCC unroll 2
    for (size_t c = 0; c < columns; c++) {
        VECTOR re, im;
        LOAD(re, p->re[c] + i);
        LOAD(im, p->im[c] + i);
        re -= vr * p->s[c];
        re -= vi * p->t[c];
        re -= wr * p->x[c];
        re -= wi * p->y[c];
        im -= vi * p->s[c];
        im += vr * p->t[c];
        im -= wi * p->x[c];
        im += wr * p->y[c];
        if (head)
            NAME(clear)(diagonal + (int64_t)c, &re, &im);
        STORE(p->re[c] + i, re);
        STORE(p->im[c] + i, im);
        pr += re * p->f[c];
        pr -= im * p->g[c];
        pi += re * p->g[c];
        pi += im * p->f[c];
        p->sum_re[c] += re * nr;
        p->sum_re[c] += im * ni;
        p->sum_im[c] += re * ni;
        p->sum_im[c] -= im * nr;
    }
    STORE(new->pr + i, pr);
    STORE(new->pi + i, pi);
}

/* The reflectors are copies: a store of a row might change the pointers in others. */
TARGET INLINE void NAME(pass)(mvdr_square h, size_t j, size_t columns, NAME(reflector) old,
                              NAME(reflector) new) {
    const size_t first = j / MVDR_LANES * MVDR_LANES;
    _Alignas(64) double re[2][MVDR_LANES], im[2][MVDR_LANES];
    NAME(passage) p = {0};
#pragma GCC unroll 2
    for (size_t c = 0; c < columns; c++) {
        p.re[c] = h.re + (j + c) * h.ld, p.im[c] = h.im + (j + c) * h.ld;
        p.x[c] = old.vr[j + c], p.y[c] = old.vi[j + c];
        p.s[c] = old.pr[j + c], p.t[c] = old.pi[j + c];
        p.f[c] = new.vr[j + c], p.g[c] = new.vi[j + c];
    }
    for (size_t row = 0; row < MVDR_LANES; row += WIDTH) {
        const int64_t diagonal = (int64_t)(j - first) - (int64_t)row;
#pragma GCC unroll 2
        for (size_t c = 0; c < columns; c++)
            p.sum_re[c] = p.sum_im[c] = (VECTOR){0};
        NAME(pass_rows)(&p, columns, first + row, true, diagonal, &old, &new);
        for (size_t i = first + MVDR_LANES + row; i < h.ld; i += MVDR_LANES)
            NAME(pass_rows)(&p, columns, i, false, 0, &old, &new);
#pragma GCC unroll 2
        for (size_t c = 0; c < columns; c++) {
            STORE(&re[c][row], p.sum_re[c]);
            STORE(&im[c][row], p.sum_im[c]);
        }
    }
#pragma GCC unroll 2
    for (size_t c = 0; c < columns; c++, j++) {
        const double diagonal = h.re[j * h.ld + j]; /* it was added twice */
        new.pr[j] += mvdr_add_eight(re[c]) - diagonal *p.f[c];
        new.pi[j] += mvdr_add_eight(im[c]) - diagonal *p.g[c];
    }
}

/* Updates column k alone: A - v w^H - w v^H. */
TARGET INLINE void NAME(renew)(mvdr_square h, size_t k, const NAME(reflector) * r) {
    double *re = h.re + k * h.ld, *im = h.im + k * h.ld;
    const double x = r->vr[k], y = r->vi[k], s = r->pr[k], t = r->pi[k];
    for (size_t i = k; i < h.n; i++) {
        re[i] -= r->vr[i] * s + r->vi[i] * t + r->pr[i] * x + r->pi[i] * y;
        im[i] -= r->vi[i] * s - r->vr[i] * t + r->pi[i] * x - r->pr[i] * y;
    }
}

/* Makes the reflector that zeroes column k below its first subdiagonal element; returns that
 * element's magnitude. */
TARGET INLINE double NAME(reflect)(mvdr_square h, size_t k, NAME(reflector) * r) {
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

/* Passes over the lower triangle of the columns from `first` on: A <- A - v w^H - w v^H of the old
 * reflector, and p = A v of the new one. */
TARGET INLINE void NAME(pass_on)(mvdr_square h, size_t first, const NAME(reflector) * old,
                                 const NAME(reflector) * new) {
    size_t j = first;
    memset(new->pr, 0, h.ld * sizeof *new->pr);
    memset(new->pi, 0, h.ld * sizeof *new->pi);
    if (j < h.n && j % 2)
        NAME(pass)(h, j++, 1, *old, *new);
    for (; j + 2 <= h.n; j += 2)
        NAME(pass)(h, j, 2, *old, *new);
    if (j < h.n)
        NAME(pass)(h, j, 1, *old, *new);
}

/* w = tau p - (tau^2/2) (p^H v) v, in p. */
TARGET INLINE void NAME(combine)(mvdr_square h, size_t first, const NAME(reflector) * r) {
    double re = 0;
    for (size_t i = first; i < h.n; i++)
        re += r->pr[i] * r->vr[i] + r->pi[i] * r->vi[i];
    const double half = r->tau * (r->tau * re) / 2; /* v^H A v is real; tau^2 may overflow */
    for (size_t i = first / MVDR_LANES * MVDR_LANES; i < h.ld; i++) {
        r->pr[i] = r->tau * r->pr[i] - half * r->vr[i];
        r->pi[i] = r->tau * r->pi[i] - half * r->vi[i];
    }
}

/* The update of A by a reflector is combined with the product for the next one, so that both
 * need only one pass over A. */
TARGET static void NAME(reduce)(mvdr_square h, double *v_re, double *v_im, double *d, double *e) {
    NAME(reflector) old = {v_re, v_im, v_re + h.ld, v_im + h.ld, 0};
    NAME(reflector) new = {v_re + 2 * h.ld, v_im + 2 * h.ld, v_re + 3 * h.ld, v_im + 3 * h.ld, 0};
    memset(v_re, 0, 2 * h.ld * sizeof *v_re);
    memset(v_im, 0, 2 * h.ld * sizeof *v_im);
    for (size_t k = 0; k + 1 < h.n; k++) {
        NAME(renew)(h, k, &old);
        d[k] = h.re[k * h.ld + k];
        e[k] = NAME(reflect)(h, k, &new);
        NAME(pass_on)(h, k + 1, &old, &new);
        NAME(combine)(h, k + 1, &new);
        const NAME(reflector) swap = old;
        old = new, new = swap;
    }
    if (h.n) {
        NAME(renew)(h, h.n - 1, &old);
        d[h.n - 1] = h.re[(h.n - 1) * h.ld + h.n - 1];
        e[h.n - 1] = 0;
    }
}
