/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The rules of the streaming inverse M, for all backends.
 *
 *     M = (w S + delta_0 I)^-1
 *
 * S is the sum of x x^H over the block; with forward-backward averaging it is the mean of this sum
 * and of the sum of the mirrored snapshots J x*. w and delta_0 are those of the window in which M
 * was made. M is updated for each snapshot that enters or leaves the block, a change of rank one
 * (Sherman and Morrison 1950):
 *
 *   M <- M - y y^H / s,   y = M x sqrt(w),   s = x^H y sqrt(w) + 1, or - 1 if the snapshot leaves
 *
 * A later window has another loading. With R = w' S, the loading of M is off by e = delta w/w' -
 * delta_0. With p = a^H M a and q = |M a|^2, the rate at which p falls when the loading rises,
 *
 *   a^H (R + delta I)^-1 a ~ (w/w') p^2 / (p + e q)
 *
 * is correct to first order. Divided by (w/w') p, the exact value is E[1/V] and the formula is
 * 1/E[V], where V = 1 + e/(d + delta_0) lies between 1 and 1 + e/delta_0. So the formula is never
 * too large. By Kantorovich's inequality it is too small by a share of at most e^2 / (4 delta_0
 * (delta_0 + e)).
 *
 * The rounding error E of M is measured before a spectrum is published. For a vector v, the sum of
 * +-a/sqrt(p) over all directions, and z = M v
 *
 *   z^H (w S + delta_0 I) z - v^H z = v^H E v + v^H E (w S + delta_0 I) E v
 *
 * is about the sum of the relative errors of p.
 */
#ifndef SONAR_MVDR_JACOBI_RULES_INVERSE_H
#define SONAR_MVDR_JACOBI_RULES_INVERSE_H

#include "mvdr_jacobi/common.h"
#include "mvdr_jacobi/rules/level.h"

enum {
    MVDR_MOST_MOVED = 8, /* snapshots and mirror images that enter or leave in a window */
    MVDR_OLDEST = 512,   /* windows until M is made again, since its errors add up */
    MVDR_YOUNG = 2,      /* windows: an inverse that lasted fewer cost more time than it saved */
    MVDR_REST = 16       /* windows for which such a bin makes no inverse */
};
/* The largest errors accepted: 0.0007 dB by the difference in loading, 0.0004 dB by rounding. */
#define MVDR_MOST_APART 1.5e-4
#define MVDR_MOST_WRONG 1e-4
/* The least share of the information on a direction in M that must remain when a snapshot
 * leaves. */
#define MVDR_LEAST_LEFT 1e-7

/* Whether M is worth updating when `arrived` snapshots of `each` columns enter and as many
 * leave. */
static inline bool mvdr_moves_little(size_t arrived, size_t each, size_t slots) {
    return 2 * arrived * each <= MVDR_MOST_MOVED && arrived < slots;
}

/* Whether the loading is so far above the least delta that eigenvalues cannot matter. */
MVDR_BOTH static inline bool mvdr_plainly_loaded(const sonar_mvdr_spec *spec, double delta,
                                                 double trace) {
    return delta >= MVDR_LEAST_FLOAT32 * trace && trace > 0 && isfinite(delta) &&
           (!spec->correct_level || delta * (double)spec->sensors <= MVDR_MOST_LOADING * trace);
}

/* Whether M, loaded with `own`, is accurate enough for the loading `wanted`. */
MVDR_BOTH static inline bool mvdr_loading_near(double wanted, double own) {
    const double apart = wanted - own;
    return apart * apart <= MVDR_MOST_APART * 4 * wanted * own;
}

/* The share of a source's power that P shows, from tr M and |M|^2 of n used sensors. `count`
 * snapshots, each counted `each` times. With fewer snapshots than sensors, R has eigenvalues of
 * zero. M has 1/delta_0 in their place, which does not depend on `apart`; they are subtracted. For
 * the other eigenvalues the loading is corrected to first order. */
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

/* q = |M a|^2, limited to the interval that |a|^2 and p allow. */
MVDR_BOTH static inline double mvdr_bounded_slope(double norm, double delta, double p, double q) {
    return fmin(fmax(q, p * p / norm), p / delta);
}

#endif
