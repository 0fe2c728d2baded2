/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The share of a source's power that MVDR shows when R is estimated from few snapshots.
 *
 * For n sensors, snapshots of weights w_l (their sum 1) and loading delta, random-matrix theory
 * (Marchenko and Pastur 1967; the deterministic equivalent of Hachem, Loubaton and Najim 2007) says
 *
 *     (R_sample + delta I)^-1  ~  share^-1 (R + delta/share I)^-1
 *     P_sample(theta)          ~  share / a^H (R + delta/share I)^-1 a
 *
 * A source of power s in noise N per sensor reads share (s + N/n) + delta/n. A direction without a
 * source reads share N/n + delta/n. The share follows from the eigenvalues d_i of R_sample: with
 * the degrees of freedom f = sum_i d_i / (d_i + delta) and the e that solves f = sum_l w_l e / (1 +
 * w_l e), share = f / e. For equal weights 1/L this is 1 - f/L. For t weights that fade by alpha it
 * is the closed form in mvdr_level_share. For finite n the steered direction keeps its own degree
 * of freedom. Without it in f, the share is exactly (L - n + 1)/L where delta is small and L >= n
 * (Capon and Goodman 1970).
 */
#ifndef SONAR_MVDR_JACOBI_RULES_LEVEL_H
#define SONAR_MVDR_JACOBI_RULES_LEVEL_H

#include <float.h>
#include <math.h>
#include <stdbool.h>

#ifdef __CUDACC__
#define MVDR_BOTH __host__ __device__
#else
#define MVDR_BOTH
#endif

/* Shares of a source's power below which `level_biased` is flagged. With correct_level the limit is
 * lower, because the level is corrected; below it the scatter of the estimate counts. */
#define MVDR_LEVEL_BIASED    0.25 /* -6 dB */
#define MVDR_LEVEL_CORRECTED 0.01 /* -20 dB */
/* The accuracy to which a level is computed. */
#define MVDR_LEVEL_CLOSE 5e-4 /* 0.002 dB */
/* With corrected levels, the largest useful loading, relative to the largest eigenvalue: more would
 * only cancel digits. */
#define MVDR_MOST_LOADING 1e8

/*
 * The least loading, from the largest eigenvalue, the median of the min(n, L_eff) largest ones, and
 * the smallest one of the matrix that is solved. There are two limits:
 *
 * - Steering vectors and samples are rounded to float32, so that a look straight at the loudest
 *   source leaves about eps32^2 of it outside of its eigenvector. Noise plus loading must hide
 *   this: their sum is at least 1.4e-12 of the largest eigenvalue (118 dB below it).
 * - The matrix must be regular in float64.
 */
#define MVDR_LEAST_FLOAT32 1.4210854715202004e-12 /* 100 eps^2 of float32 */
#define MVDR_LEAST_FLOAT64 8.8817841970012523e-16 /* 4 eps of float64 */
MVDR_BOTH static inline double mvdr_least_delta(double largest, double median, double smallest) {
    const double drown = MVDR_LEAST_FLOAT32 * largest - median;
    const double regular = MVDR_LEAST_FLOAT64 * largest - (smallest > 0 ? smallest : 0);
    const double least = drown > regular ? drown : regular;
    return least > 2.2250738585072014e-308 ? least : 2.2250738585072014e-308;
}

/* Degrees of freedom that are lost: f without the one of the steered direction. `sum` is sum_i d_i
 * / (d_i + delta) and `quiet` is sum_i of 1 - (delta / (d_i + delta))^2, both over all nonzero
 * eigenvalues. `effective` is L_eff, twice that with forward-backward averaging. The direction's
 * own part of a degree is limited to effective - sum: where that is nearly 0, rounding would make
 * the part larger. */
MVDR_BOTH static inline double mvdr_level_freedom(double sum, double quiet, double effective) {
    const double left = effective - sum;
    double own = left > 0 ? (effective - quiet) / left : 0;
    own = own < 0 ? 0 : own > 1 ? 1 : own;
    own = own > left && left > 0 ? left : own;
    return sum > own ? sum - own : 0;
}

/* The share of a source's power, in (0, 1]. `freedom` comes from mvdr_level_freedom. `snapshots`:
 * the number that R rests on, not the effective one; each counts `each` times (2 with
 * forward-backward averaging). alpha > 0: their weights fade. */
MVDR_BOTH static inline double mvdr_level_share(double freedom, double snapshots, double each,
                                                double alpha) {
    double f = freedom / each, share;
    if (!(f > 1e-9 && snapshots > 0))
        return 1;
    if (alpha > 0) {
        double left = snapshots - f > 1e-6 ? snapshots - f : 1e-6; /* exponent of alpha */
        double weight = (1 - alpha) / (1 - pow(alpha, snapshots));
        share = f * weight * (1 - pow(alpha, left)) / (pow(alpha, -f) - 1);
    } else {
        share = 1 - f / snapshots;
    }
    return share > 1e-12 ? share < 1 ? share : 1 : 1e-12;
}

/* Whether rounding hides the level, where f follows from tr (R + delta I)^-1. Each of the `zeros`
 * eigenvalues of R that are zero adds 1/delta to this trace (none if `zeros` is negative). Rounding
 * beside the largest eigenvalue, at most `trace`, changes these. `left`: share times snapshots, the
 * remaining degrees of freedom. */
MVDR_BOTH static inline bool mvdr_level_drowned(double zeros, double trace, double delta,
                                                double left) {
    return zeros > 0 && zeros * DBL_EPSILON * trace > MVDR_LEVEL_CLOSE * delta * left;
}

#endif
