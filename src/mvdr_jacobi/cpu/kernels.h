/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Most of the arithmetic of a window, compiled for each instruction set with vectors of the set's
 * length. Wider ones, in functions that are compiled for several sets (SONAR_MULTIARCH), go through
 * memory. All sets sum in the same order. Any thread. */
#ifndef SONAR_MVDR_JACOBI_CPU_KERNELS_H
#define SONAR_MVDR_JACOBI_CPU_KERNELS_H

#include <math.h>

#include "mvdr_jacobi/cpu/internal.h"

enum {
    MVDR_PART = 128,  /* sensors whose steering vectors are in the first cache */
    MVDR_COLUMNS = 4, /* columns whose products are summed at the same time, in registers */
};

/* A part of a column. */
typedef struct mvdr_part {
    _Alignas(64) double re[MVDR_PART], im[MVDR_PART];
} mvdr_part;

/* Steering vectors of a part. */
typedef struct mvdr_steered {
    _Alignas(64) double re[MVDR_PART][MVDR_LANES], im[MVDR_PART][MVDR_LANES];
} mvdr_steered;

/* Products of a column with eight steering vectors, x^H a. */
typedef struct mvdr_sums {
    _Alignas(64) double re[MVDR_LANES], im[MVDR_LANES];
} mvdr_sums;

typedef struct mvdr_kernels {
    /* The products of MVDR_COLUMNS parts of `sensors` sensors, each with the steering vectors of
     * the one before times `turn`, beginning with a, which is turned likewise. turn == NULL: all
     * with a. */
    void (*project)(const mvdr_part *x, size_t sensors, const mvdr_steered *turn, mvdr_steered *a,
                    mvdr_sums *sums);
    /* x^H y of a column x and a vector y in double, both of length ld, a multiple of MVDR_LANES. */
    void (*inner)(const float *x, const double *y_re, const double *y_im, size_t ld, double *re,
                  double *im);

    /* Blocks of panels, eight columns of eight rows, [column][re, im][row]. */
    /* sum = sum over `count` columns of b_k c_k^H, for the rows of two panels. */
    void (*outer)(const double *b, const double *c, size_t count, double *sum);
    /* x <- x L^-H for the diagonal block L of a factor, which has 1/L_ii on the diagonal. */
    void (*solve)(double *x, const double *l);

    /* Reduces the Hermitian matrix in h's lower triangle to a tridiagonal one with the same
     * eigenvalues: its diagonal to d, the elements beside it to e. Destroys h. v_re, v_im and e are
     * scratch of 4 ld, 4 ld and n elements. */
    void (*reduce)(mvdr_square h, double *v_re, double *v_im, double *d, double *e);

    /* Quadratic forms of eight vectors, [row][re, im][lane], to out[lane]. */
    /* |L^-1 z|^2 over the rows from `begin`, a multiple of eight, to `padded`. Replaces z by
     * L^-1 z. */
    void (*substitute)(double *factor, size_t begin, size_t padded, double *z, double *out);
    /* z^H M z from M's lower triangle, which has square blocks on its diagonal. */
    void (*quadratic)(double *inverse, const double *z, size_t m, double *out);
    /* |F z|^2 for an F of `rows` rows in panels of `m` columns. If `each` is not NULL, it gets the
     * squared magnitude of each row, [row][lane]. */
    void (*multiplied)(const double *factor, size_t rows, const double *z, size_t m, double *each,
                       double *out);

    /* Hermitian M of `ld` rows, a multiple of MVDR_LANES, in panels whose diagonal blocks are
     * square; vectors are [re, im][ld]. */
    /* y = M x for two vectors. back: scratch, [ld][4][lane]. */
    void (*apply)(double *m, size_t ld, const double *x, double *y, double *back);
    /* M -= sum over k of over_k y_k y_k^H, for at most MVDR_MOST_MOVED vectors. Returns the sum of
     * |M_ij|^2. Diagonal blocks stay Hermitian except for rounding. */
    double (*subtract)(double *m, size_t ld, const double *y, const double *over, size_t count);
    /* p = a^H M a and q = |M a|^2 of eight vectors a, [row][re, im][lane]. y: scratch of the same
     * size. */
    void (*moments)(double *m, size_t ld, const double *vectors, double *y, double *p, double *q);
    /* y^H a of eight vectors a, [row][re, im][lane]. */
    void (*along)(const double *y, const double *vectors, size_t ld, double *re, double *im);

    /* Counts the eigenvalues of a tridiagonal T below each of eight shifts s: the negative pivots
     * of T - s I. d: T's diagonal; e2: squares of the elements beside it, none of them zero. */
    void (*below)(const double *d, const double *e2, size_t n, const double *shifts,
                  double *counts);
    /* The members of mvdr_gain_sums for eight directions, from q_i, [row][lane], lambda_i and the
     * directions' mu. */
    void (*gain_sums)(const double *energies, const double *lambda, size_t rows, const double *mu,
                      double sums[4][MVDR_LANES]);

    /* Rotates each pair of l's columns so that the two are orthogonal, unless the cosine of their
     * angle is at most `nothing`. energy: scratch, the columns' squared lengths. Returns the
     * largest cosine found; most_turned: the largest sine of a rotation. */
    double (*sweep)(mvdr_square l, double nothing, double *energy, double *most_turned);
} mvdr_kernels;

/* The rotation x <- c x - conj(w) y, y <- w x + c y of two columns. */
typedef struct mvdr_rotation {
    double c, s, wr, wi; /* s: |w| */
} mvdr_rotation;

/* Columns of a pair in a round (circle method). False: n is odd and the column has no partner. */
static inline bool mvdr_pairing(size_t n, size_t round, size_t pair, size_t *x, size_t *y) {
    const size_t ring = n + n % 2 - 1;
    size_t a = pair ? round + pair : ring, b = round + ring - pair;
    a -= pair && a >= ring ? ring : 0;
    b -= b >= ring ? ring : 0;
    *x = a < b ? a : b;
    *y = a < b ? b : a;
    return *y < n;
}

/* The rotation that makes columns with the squared lengths xx and yy and the product x^H y = re + j
 * im, not zero, orthogonal, by the smaller of the two angles (Rutishauser 1966). Returns the
 * squared length that goes from x to y. */
MVDR_INLINE double mvdr_rotate(double xx, double yy, double re, double im, mvdr_rotation *r) {
    const double g = sqrt(re * re + im * im), zeta = (yy - xx) / (2 * g);
    const double t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    r->c = 1 / sqrt(1 + t * t);
    r->s = r->c * fabs(t);
    r->wr = r->c * t / g * re;
    r->wi = r->c * t / g * im;
    return t * g;
}

/* Those for this processor, or for the set that SONAR_ISA names. */
const mvdr_kernels *mvdr_kernels_here(void);

#endif
