/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Round-robin pairing of columns, and the complex Jacobi rotation of a pair,
 * x <- c x - conj(w) y, y <- w x + c y. The one-sided and the two-sided method share both. */
#ifndef SONAR_MVDR_JACOBI_ROTATION_H
#define SONAR_MVDR_JACOBI_ROTATION_H

#include "mvdr_jacobi/internal.h"

#include <math.h>

/* The pairs of one round: inner products in, rotations out. wr = wi = 0: no rotation. */
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

/* Columns of pair p in round r of the round-robin pairing (circle method); false: p is the column
 * that is left without a partner, for m odd. */
MVDR_INLINE bool mvdr_pairing(size_t players, size_t m, size_t r, size_t p, size_t *x, size_t *y) {
    size_t ring = players - 1;
    size_t a = p ? r + p : ring, b = r + ring - p;
    a -= p && a >= ring ? ring : 0;
    b -= b >= ring ? ring : 0;
    *x = a < b ? a : b;
    *y = a < b ? b : a;
    return *y < m;
}

/* The rotation of pair p for the Gram matrix [xx g; conj(g) yy], with the smaller of
 * the two angles (Rutishauser 1966); the identity if none is wanted. */
MVDR_INLINE void mvdr_rotate_pair(mvdr_round *round, size_t p, double g2, bool wanted) {
    double g = wanted ? sqrt(g2) : 1;
    double zeta = (round->yy[p] - round->xx[p]) / (2 * g);
    double t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    double c = wanted ? 1 / sqrt(1 + t * t) : 1;
    double s = wanted ? c * t / g : 0;
    round->c[p] = c;
    round->wr[p] = s * round->re[p];
    round->wi[p] = s * round->im[p];
}

#endif
