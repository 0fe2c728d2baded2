/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Counts the sources in the eigenvalues of a sample covariance. For each number K, a rule measures
 * how much the eigenvalues beyond the K largest differ from those of white noise, and adds a
 * penalty for K sources. The K with the least sum is the result.
 *
 * `mdl` (Wax and Kailath, IEEE Trans. ASSP 33, 1985) compares the geometric with the arithmetic
 * mean of p - K eigenvalues from N snapshots:
 *
 *     (beta/2) N (p - K) ln(arithmetic/geometric) + v/2 ln N,   v = K (2p - K)
 *
 * With fewer snapshots L than sensors n, sensors and snapshots change places, p = L and N = n: the
 * nonzero eigenvalues of noise are the same. `random_matrix` (Nadakuditi and Edelman, IEEE Trans.
 * SP 56, 2008) compares the second moment of the eigenvalues with its expected value for any n and
 * L,
 *
 *     t = n ((n - K) sum_{i>K} d_i^2 / (sum_{i>K} d_i)^2 - (1 + n/L)) - (2/beta - 1) n/L
 *     beta/4 (L/n)^2 t^2 + 2 (K + 1)
 *
 * L may be effective: weights w_l that fade give the second moment of L = 1/sum w_l^2 equal ones.
 * Data are complex, beta = 2. Forward-backward averages of L snapshots are equivalent to 2 L real
 * snapshots: beta = 1, v = K (2p - K + 1)/2 (Xu, Roy and Kailath, IEEE Trans. SP 42, 1994).
 */
#ifndef SONAR_MVDR_JACOBI_RULES_SOURCES_H
#define SONAR_MVDR_JACOBI_RULES_SOURCES_H

#include "mvdr_jacobi/rules/level.h"
#include "sonar/stages.h"

/* Eigenvalues d and `snapshots` L, twice L with forward-backward averaging. */
typedef struct mvdr_eigenspectrum {
    const double *d; /* the k largest, in falling order; the other n - k are zero */
    size_t k, n;
    double snapshots;
    bool real; /* forward-backward */
} mvdr_eigenspectrum;

/* Sums over the eigenvalues beyond the K largest: d, d^2, ln d. */
typedef struct mvdr_rest {
    double sum, squares, logs;
} mvdr_rest;

MVDR_BOTH static inline double mvdr_count_by_moments(const mvdr_eigenspectrum *l, size_t sources,
                                                     mvdr_rest rest) {
    const double n = (double)l->n, ratio = n / l->snapshots, beta = l->real ? 1 : 2;
    const double penalty = 2 * ((double)sources + 1);
    if (!(rest.sum > 0))
        return penalty;
    const double moment = (n - (double)sources) * rest.squares / (rest.sum * rest.sum);
    const double t = n * (moment - (1 + ratio)) - (2 / beta - 1) * ratio;
    return beta / 4 * t * t / (ratio * ratio) + penalty;
}

MVDR_BOTH static inline double mvdr_count_by_likelihood(const mvdr_eigenspectrum *l, size_t p,
                                                        size_t sources, mvdr_rest rest) {
    const double count = (double)(p - sources), k = (double)sources;
    const double snapshots = l->snapshots > (double)l->n ? l->snapshots : (double)l->n;
    const double parameters = l->real ? k * (2 * (double)p - k + 1) / 2 : k * (2 * (double)p - k);
    const double misfit = count * log(rest.sum / count) - rest.logs;
    return (l->real ? 0.5 : 1) * snapshots * misfit + parameters * 0.5 * log(snapshots);
}

/* The number of sources: less than the number of eigenvalues and of snapshots, so that some noise
 * is left. */
MVDR_BOTH static inline size_t mvdr_count_sources(sonar_source_count rule,
                                                  const mvdr_eigenspectrum *l) {
    const double snapshots = l->snapshots > 1 ? l->snapshots : 1;
    const size_t most = l->k < l->n ? l->k : l->n;
    const size_t p = snapshots < (double)most ? (size_t)(snapshots + 0.5) : most;
    const bool likelihood = rule == SONAR_COUNT_MDL;
    const double nothing = l->k ? MVDR_LEAST_FLOAT64 * l->d[0] : 0; /* rounding */
    mvdr_rest rest = {0, 0, 0};
    double least = 0;
    size_t best = 0;
    for (size_t i = likelihood ? p : most; i-- > 0;) {
        const double d = l->d[i] > nothing ? l->d[i] : likelihood ? nothing : 0;
        rest.sum += d;
        rest.squares += d * d;
        rest.logs += likelihood ? log(d) : 0;
        if (i >= p)
            continue;
        const double cost = likelihood ? mvdr_count_by_likelihood(l, p, i, rest)
                                       : mvdr_count_by_moments(l, i, rest);
        if (i + 1 == p || cost <= least)
            least = cost, best = i;
    }
    return best;
}

#endif
