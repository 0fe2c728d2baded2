/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The rules of the streaming inverse, for all backends: M = (w S + delta_0 I)^-1, S the sum of
 * x x^H over the block, with forward-backward averaging the mean of it and of the same of all J x*,
 * and w, delta_0 those of the window in which M was made, follows the snapshots that come and go
 * (Sherman and Morrison 1950), rank one each:
 *
 *   M <- M - y y^H / s,   y = M x sqrt(w),   s = x^H y sqrt(w) + 1, or - 1 for one that goes
 *
 * The spectrum wants another loading: with R = w' S that of M is off by e = delta w/w' - delta_0.
 * With p = a^H M a and q = |M a|^2, by which p falls when the loading rises,
 *
 *   a^H (R + delta I)^-1 a ~ (w/w') p^2 / (p + e q)
 *
 * is right to first order. It is E[1/V] over-estimated by nothing and under-estimated by 1/E[V] of
 * V = 1 + e/(d + delta_0), which lies between 1 and 1 + e/delta_0, so by Kantorovich's inequality
 * it is too low by no more than a share of e^2 / (4 delta_0 (delta_0 + e)).
 *
 * What rounding does to M is measured before a spectrum is published: for a vector v, the sum of
 * +-a/sqrt(p) over all directions, and z = M v
 *
 *   z^H (w S + delta_0 I) z - v^H z = v^H E v + v^H E (w S + delta_0 I) E v
 *
 * is about the sum of the relative errors of p, E being the error of M.
 */
#ifndef SONAR_MVDR_JACOBI_INVERSE_H
#define SONAR_MVDR_JACOBI_INVERSE_H

#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/level.h"

enum {
    MVDR_MOST_MOVED = 8, /* snapshots and mirror images that come and go in a window */
    MVDR_OLDEST = 512,   /* windows until M is made from a factor again, since its errors add up */
    MVDR_YOUNG = 2,      /* windows: an inverse that lasted fewer cost more than it saved */
    MVDR_REST = 16       /* windows that such a bin does without */
};
/* 0.0007 dB by another loading, 0.0004 dB by rounding. */
#define MVDR_MOST_APART 1.5e-4
#define MVDR_MOST_WRONG 1e-4
/* A snapshot's leaving must leave so much of what M knows. */
#define MVDR_LEAST_LEFT 1e-7

/* Whether M is worth updating when `arrived` snapshots of `each` columns come and as many go. */
static inline bool mvdr_moves_little(size_t arrived, size_t each, size_t slots) {
    return 2 * arrived * each <= MVDR_MOST_MOVED && arrived < slots;
}

/* Whether the loading is far from where eigenvalues would limit it. */
MVDR_BOTH static inline bool mvdr_plainly_loaded(const sonar_mvdr_spec *spec, double delta,
                                                 double trace) {
    return delta >= MVDR_LEAST_FLOAT32 * trace && trace > 0 && isfinite(delta) &&
           (!spec->correct_level || delta * (double)spec->sensors <= MVDR_MOST_LOADING * trace);
}

/* Whether M, loaded with `own`, does for a loading with `wanted`. */
MVDR_BOTH static inline bool mvdr_loading_near(double wanted, double own) {
    const double apart = wanted - own;
    return apart * apart <= MVDR_MOST_APART * 4 * wanted * own;
}

/* The share of a source's power that P shows, by tr M and |M|^2 of n used sensors; `count`
 * snapshots, each counted `each` times. Fewer snapshots than sensors leave eigenvalues of R at
 * zero, which are 1/delta_0 of M whatever the other loading is, and count for nothing; of the
 * others first order does. */
MVDR_BOTH static inline double mvdr_inverse_share(double n, double kept, double apart, double trace,
                                                  double energy, double count, double each) {
    const double rank = fmin(n, count * each), zeros = n - rank, delta = kept + apart;
    trace = fmax(trace - zeros / kept, 0.0);
    energy = fmin(fmax(energy - zeros / (kept * kept), 0.0), trace / kept);
    const double less = trace > 0 ? 1 / (1 + apart * energy / trace) : 1;
    const double sum = fmax(rank - delta * less * trace, 0.0);
    const double quiet = fmax(rank - delta * delta * less * less * energy, 0.0);
    return mvdr_level_share(mvdr_level_freedom(sum, quiet, each * count), count, each, 0);
}

/* q within the bounds that |a|^2 and p set it. */
MVDR_BOTH static inline double mvdr_bounded_slope(double norm, double delta, double p, double q) {
    return fmin(fmax(q, p * p / norm), p / delta);
}

#endif
