/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One-sided Jacobi for one precision: included by jacobi.c with REAL and NAME defined. Sums run in
 * fixed lanes, so that the result is the same for every instruction set but for contraction. */

typedef REAL NAME(vector) __attribute__((vector_size(32)));
#define VECTOR NAME(vector)
#define LANES  (32 / sizeof(REAL))

/* Halves added to halves: lanes are as many partial sums. */
MVDR_INLINE double NAME(lanes_sum)(VECTOR v) {
    REAL part[LANES];
    memcpy(part, &v, sizeof part);
    for (size_t width = LANES / 2; width; width /= 2)
        for (size_t i = 0; i < width; i++)
            part[i] += part[i + width];
    return (double)part[0];
}

MVDR_INLINE double NAME(norm2)(const REAL *re, const REAL *im, size_t n) {
    const VECTOR *xr = (const VECTOR *)re, *xi = (const VECTOR *)im;
    VECTOR a = {0}, b = {0};
    for (size_t i = 0; i < (n + LANES - 1) / LANES; i++)
        a += xr[i] * xr[i], b += xi[i] * xi[i];
    return NAME(lanes_sum)(a + b);
}

/* x^H y of two columns. Two vectors at a time, so that sums do not wait for one another; columns
 * are padded to whole pairs of vectors. */
MVDR_INLINE void NAME(inner)(const REAL *re, const REAL *im, size_t n, size_t x, size_t y,
                             double *real, double *imaginary) {
    const VECTOR *xr = (const VECTOR *)(re + x), *xi = (const VECTOR *)(im + x);
    const VECTOR *yr = (const VECTOR *)(re + y), *yi = (const VECTOR *)(im + y);
    VECTOR a0 = {0}, a1 = {0}, b0 = {0}, b1 = {0}, c0 = {0}, c1 = {0}, d0 = {0}, d1 = {0};
    for (size_t i = 0; i < (n + LANES - 1) / LANES; i += 2) {
        a0 += xr[i] * yr[i], a1 += xr[i + 1] * yr[i + 1];
        b0 += xi[i] * yi[i], b1 += xi[i + 1] * yi[i + 1];
        c0 += xr[i] * yi[i], c1 += xr[i + 1] * yi[i + 1];
        d0 += xi[i] * yr[i], d1 += xi[i + 1] * yr[i + 1];
    }
    *real = NAME(lanes_sum)((a0 + a1) + (b0 + b1));
    *imaginary = NAME(lanes_sum)((c0 + c1) - (d0 + d1));
}

/* x <- c x - conj(w) y, y <- w x + c y */
MVDR_INLINE void NAME(turn)(REAL *re, REAL *im, size_t n, size_t x, size_t y, REAL c, REAL wr,
                            REAL wi) {
    VECTOR *xr = (VECTOR *)(re + x), *xi = (VECTOR *)(im + x);
    VECTOR *yr = (VECTOR *)(re + y), *yi = (VECTOR *)(im + y);
    for (size_t i = 0; i < (n + LANES - 1) / LANES; i++) {
        VECTOR ar = xr[i], ai = xi[i], br = yr[i], bi = yi[i];
        xr[i] = c * ar - wr * br - wi * bi;
        xi[i] = c * ai - wr * bi + wi * br;
        yr[i] = c * br + wr * ar - wi * ai;
        yi[i] = c * bi + wr * ai + wi * ar;
    }
}

/* Squared column norms; returns the largest. */
SONAR_MULTIARCH static double NAME(measure)(const REAL *re, const REAL *im, size_t n, size_t m,
                                            size_t ld, double *norm2) {
    double most = 0;
    for (size_t j = 0; j < m; j++) {
        norm2[j] = NAME(norm2)(re + j * ld, im + j * ld, n);
        most = norm2[j] > most ? norm2[j] : most;
    }
    return most;
}

/* One sweep; returns the largest squared relative inner product of a pair. norm2 follows the
 * rotations, and is measured afresh before every sweep: exact in the one that finds nothing left to
 * turn. */
SONAR_MULTIARCH static double NAME(sweep)(REAL *re, REAL *im, size_t n, size_t m, size_t ld,
                                          double tolerance2, double floor2, double *norm2,
                                          double *pair) {
    size_t players = m + m % 2, half = players / 2, x, y;
    mvdr_round round = mvdr_round_view(pair, m);
    double worst = 0;
    for (size_t r = 0; r + 1 < players; r++) {
        for (size_t p = 0; p < half; p++) {
            round.xx[p] = round.yy[p] = round.re[p] = round.im[p] = 0;
            if (!mvdr_pairing(players, m, r, p, &x, &y))
                continue;
            round.xx[p] = norm2[x], round.yy[p] = norm2[y];
            NAME(inner)(re, im, n, x * ld, y * ld, &round.re[p], &round.im[p]);
        }
        double met = mvdr_rotations(&round, half, tolerance2, floor2);
        worst = met > worst ? met : worst;
        for (size_t p = 0; p < half; p++) {
            if ((round.wr[p] == 0 && round.wi[p] == 0) || !mvdr_pairing(players, m, r, p, &x, &y))
                continue;
            norm2[x] = round.xx[p], norm2[y] = round.yy[p];
            NAME(turn)
            (re, im, n, x * ld, y * ld, (REAL)round.c[p], (REAL)round.wr[p], (REAL)round.wi[p]);
        }
    }
    return worst;
}

mvdr_solution NAME(mvdr_jacobi)(REAL *re, REAL *im, size_t n, size_t m, size_t ld, double tolerance,
                                size_t max_sweeps, double *norm2, double *pair) {
    mvdr_solution solution = {.kept = m};
    double worst = 0, tolerance2 = tolerance * tolerance, eps2 = (double)EPSILON * (double)EPSILON;
    while (!solution.converged && solution.sweeps < max_sweeps) {
        double floor2 = eps2 * NAME(measure)(re, im, n, m, ld, norm2);
        worst = NAME(sweep)(re, im, n, m, ld, tolerance2, floor2, norm2, pair);
        solution.sweeps++;
        solution.converged = worst <= tolerance2;
    }
    solution.residual = sqrt(worst);
    return solution;
}

#undef VECTOR
#undef LANES
