/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * One-sided Jacobi (Hestenes 1958): columns are turned in pairs until all are orthogonal; they are
 * then the eigenvectors of S S^H times the roots of its eigenvalues. A sweep rotates every pair
 * once, in m - 1 rounds of m/2 disjoint pairs (round-robin pairing). The inner product of a pair is
 * compared with the columns' own norms, so that a quiet source beside a loud one is resolved.
 */
#include "mvdr_jacobi/internal.h"
#include "mvdr_jacobi/rotation.h"

#include <float.h>
#include <string.h>

/* The rotations that make each pair orthogonal; returns the largest squared relative inner product.
 * Columns whose squared norm is at most floor2 are rounding noise: turning them would never end. */
MVDR_INLINE double mvdr_rotations(mvdr_round *round, size_t pairs, double tolerance2,
                                  double floor2) {
    double worst = 0;
    for (size_t p = 0; p < pairs; p++) {
        double xx = round->xx[p], yy = round->yy[p];
        double g2 = round->re[p] * round->re[p] + round->im[p] * round->im[p];
        double relative2 = xx > floor2 && yy > floor2 ? g2 / (xx * yy) : 0;
        worst = relative2 > worst ? relative2 : worst;
        mvdr_rotate_pair(round, p, g2, relative2 > tolerance2);
        double shift = (round->wr[p] * round->re[p] + round->wi[p] * round->im[p]) / round->c[p];
        round->xx[p] = xx > shift ? xx - shift : 0; /* what the rotation leaves of the norms */
        round->yy[p] = yy + shift > 0 ? yy + shift : 0;
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
