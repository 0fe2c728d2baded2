/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A limit on the white noise gain (Cox, Zeskind and Owen, IEEE Trans. ASSP 35, 1987). Weights w
 * that pass a plane wave unchanged, w^H a = 1, multiply the noise that is independent in each
 * sensor by w^H w. Their gain against this noise is 1/(w^H w), at most |a|^2, the gain of equal
 * weights. Where the gain of MVDR is below a share of |a|^2, the direction gets additional loading
 * mu, the least that restores this share:
 *
 *     A = R + delta I,  eigenvalues lambda_i,  q_i = |u_i^H a|^2
 *     w = (A + mu I)^-1 a / s_1,   s_k(mu) = a^H (A + mu I)^-k a = sum_i q_i / (lambda_i + mu)^k
 *     gain = s_1^2 / s_2           grows with mu, from MVDR's to |a|^2
 *     P = w^H A w                  = sum_i q_i lambda_i / (lambda_i + mu)^2 / s_1^2
 *
 * P is the power that these weights pass, of R and of delta; with mu = 0 it is the P of MVDR.
 */
#ifndef SONAR_MVDR_JACOBI_RULES_WHITE_NOISE_H
#define SONAR_MVDR_JACOBI_RULES_WHITE_NOISE_H

#include <stdbool.h>

#include "mvdr_jacobi/rules/level.h"

enum { MVDR_GAIN_STEPS = 100 }; /* a search needs about ten */

/* Sums over the eigenvalues at one mu. */
typedef struct mvdr_gain_sums {
    double first, second, third; /* s_1 to s_3 */
    double through;              /* sum q_i lambda_i / (lambda_i + mu)^2 */
} mvdr_gain_sums;

/* The search for mu: Newton's method on sqrt(gain/wanted) - 1, which is nearly linear in mu. Where
 * a step leaves the interval or gains little, bisection on a logarithmic scale. */
typedef struct mvdr_gain_search {
    double mu;
    double low, high; /* the gain is too small at low, sufficient at high */
    double least;     /* least eigenvalue */
    double miss;      /* of the last step: |sqrt(gain/wanted) - 1| */
    bool found;
} mvdr_gain_search;

/* Begins a search for a gain of `share` of |a|^2, in (0, 1). By Kantorovich's inequality any a has
 * this gain if the condition number k satisfies 4 k / (1 + k)^2 = share. This gives the upper end
 * of the interval. */
MVDR_BOTH static inline mvdr_gain_search mvdr_gain_begin(double share, double least, double most) {
    const double k = (2 - share + 2 * sqrt(1 - share)) / share;
    const double enough = (most - k * least) / (k - 1);
    const mvdr_gain_search search = {0, 0, enough > least ? enough : least, least, 1e300, false};
    return search;
}

/* Checks the gain at search->mu, and chooses the next mu unless it is found. At mu = 0 any
 * sufficient gain is accepted. */
MVDR_BOTH static inline void mvdr_gain_step(mvdr_gain_search *search, mvdr_gain_sums sums,
                                            double wanted) {
    const double size = sqrt(sums.second * wanted);
    const double miss = sums.first / size - 1;
    const double slope =
        (sums.first * sums.third - sums.second * sums.second) / (sums.second * size);
    const double newton = search->mu - miss / slope;
    if (fabs(miss) <= 1e-12 || (miss > 0 && search->mu == 0)) {
        search->found = true;
        return;
    }
    if (miss < 0)
        search->low = search->mu;
    else
        search->high = search->mu;
    if (newton > search->low && newton < search->high && fabs(miss) < 0.5 * search->miss)
        search->mu = newton;
    else
        search->mu =
            sqrt((search->low + search->least) * (search->high + search->least)) - search->least;
    search->miss = fabs(miss);
}

#endif
