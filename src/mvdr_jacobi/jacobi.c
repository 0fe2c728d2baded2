/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One-sided Jacobi (Hestenes 1958): columns are turned in pairs until all are orthogonal; they are
 * then the eigenvectors of S S^H times the roots of its eigenvalues. A sweep meets every pair once,
 * in m - 1 rounds of m/2 disjoint pairs (round robin). Pairs are judged relative to their own
 * norms, which is what keeps a quiet source beside a loud one.
 */
#include "mvdr_jacobi/internal.h"

#include <float.h>
#include <math.h>

/* One round's pairs: sums in, rotation out. wr = wi = 0: leave the pair alone. */
typedef struct mvdr_round {
    double *xx, *yy, *re, *im, *c, *wr, *wi;
} mvdr_round;

MVDR_INLINE mvdr_round mvdr_round_view(double *pair, size_t m) {
    size_t stride = m / 2 + 1;
    return (mvdr_round){.xx = pair,
                        .yy = pair + stride,
                        .re = pair + 2 * stride,
                        .im = pair + 3 * stride,
                        .c = pair + 4 * stride,
                        .wr = pair + 5 * stride,
                        .wi = pair + 6 * stride};
}

/* Columns of pair p in round r by the circle method; false for the one that sits out (m odd). */
MVDR_INLINE bool mvdr_pairing(size_t players, size_t m, size_t r, size_t p, size_t *x, size_t *y) {
    size_t ring = players - 1;
    size_t a = p ? r + p : ring, b = r + ring - p;
    a -= p && a >= ring ? ring : 0;
    b -= b >= ring ? ring : 0;
    *x = a < b ? a : b;
    *y = a < b ? b : a;
    return *y < m;
}

/* The rotations that make each pair orthogonal; returns the largest squared relative inner product.
 * Columns whose squared norm is at most floor2 are rounding noise: turning them would never end. */
MVDR_INLINE double mvdr_rotations(mvdr_round *round, size_t pairs, double tolerance2,
                                  double floor2) {
    double worst = 0;
    for (size_t p = 0; p < pairs; p++) {
        double xx = round->xx[p], yy = round->yy[p];
        double g2 = round->re[p] * round->re[p] + round->im[p] * round->im[p];
        bool counts = xx > floor2 && yy > floor2;
        double relative2 = counts ? g2 / (xx * yy) : 0;
        worst = relative2 > worst ? relative2 : worst;
        bool wanted = relative2 > tolerance2;
        double g = wanted ? sqrt(g2) : 1;
        double zeta = (yy - xx) / (2 * g);
        double t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
        double c = 1 / sqrt(1 + t * t);
        double s = wanted ? c * t / g : 0;
        round->c[p] = c;
        round->wr[p] = s * round->re[p];
        round->wi[p] = s * round->im[p];
    }
    return worst;
}

#define REAL    float
#define EPSILON FLT_EPSILON
#define NAME(x) x##_f32
#include "mvdr_jacobi/jacobi_template.h"
#undef REAL
#undef EPSILON
#undef NAME

#define REAL    double
#define EPSILON DBL_EPSILON
#define NAME(x) x##_f64
#include "mvdr_jacobi/jacobi_template.h"
