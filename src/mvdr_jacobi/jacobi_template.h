/* SPDX-License-Identifier: GPL-3.0-or-later */
/* One-sided Jacobi for one precision: included by jacobi.c with REAL and NAME defined. Sums run in
 * fixed lanes, so that the result is the same for every instruction set but for contraction. */

typedef REAL NAME(vector) __attribute__((vector_size(32)));
#define VECTOR NAME(vector)
#define LANES  (32 / sizeof(REAL))

MVDR_INLINE double NAME(lanes_sum)(const VECTOR *v) {
    double sum = 0;
    for (size_t i = 0; i < LANES; i++)
        sum += (double)(*v)[i];
    return sum;
}

/* |x|^2, |y|^2 and x^H y of the columns of each pair. */
MVDR_INLINE void NAME(gram)(const REAL *re, const REAL *im, size_t n, size_t x, size_t y,
                            double sum[4]) {
    const VECTOR *xr = (const VECTOR *)(re + x), *xi = (const VECTOR *)(im + x);
    const VECTOR *yr = (const VECTOR *)(re + y), *yi = (const VECTOR *)(im + y);
    VECTOR xx0 = {0}, xx1 = {0}, yy0 = {0}, yy1 = {0}, re0 = {0}, re1 = {0}, im0 = {0}, im1 = {0};
    for (size_t i = 0; i < (n + LANES - 1) / LANES; i++) {
        xx0 += xr[i] * xr[i];
        xx1 += xi[i] * xi[i];
        yy0 += yr[i] * yr[i];
        yy1 += yi[i] * yi[i];
        re0 += xr[i] * yr[i];
        re1 += xi[i] * yi[i];
        im0 += xr[i] * yi[i];
        im1 += xi[i] * yr[i];
    }
    xx0 += xx1, yy0 += yy1, re0 += re1, im0 -= im1;
    sum[0] = NAME(lanes_sum)(&xx0);
    sum[1] = NAME(lanes_sum)(&yy0);
    sum[2] = NAME(lanes_sum)(&re0);
    sum[3] = NAME(lanes_sum)(&im0);
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

/* The largest squared column norm. */
SONAR_MULTIARCH static double NAME(largest)(const REAL *re, const REAL *im, size_t n, size_t m,
                                            size_t ld) {
    double most = 0, sum[4];
    for (size_t j = 0; j < m; j++) {
        NAME(gram)(re, im, n, j * ld, j * ld, sum);
        most = sum[0] > most ? sum[0] : most;
    }
    return most;
}

/* One sweep; returns the largest squared relative off-diagonal it met. */
SONAR_MULTIARCH static double NAME(sweep)(REAL *re, REAL *im, size_t n, size_t m, size_t ld,
                                          double tolerance2, double floor2, double *pair) {
    size_t players = m + m % 2, half = players / 2;
    mvdr_round round = mvdr_round_view(pair, m);
    double worst = 0;
    for (size_t r = 0; r + 1 < players; r++) {
        for (size_t p = 0; p < half; p++) {
            size_t x, y;
            double sum[4] = {0};
            if (mvdr_pairing(players, m, r, p, &x, &y))
                NAME(gram)(re, im, n, x * ld, y * ld, sum);
            round.xx[p] = sum[0], round.yy[p] = sum[1], round.re[p] = sum[2], round.im[p] = sum[3];
        }
        double met = mvdr_rotations(&round, half, tolerance2, floor2);
        worst = met > worst ? met : worst;
        for (size_t p = 0; p < half; p++) {
            size_t x, y;
            if ((round.wr[p] != 0 || round.wi[p] != 0) && mvdr_pairing(players, m, r, p, &x, &y))
                NAME(turn)
            (re, im, n, x * ld, y * ld, (REAL)round.c[p], (REAL)round.wr[p], (REAL)round.wi[p]);
        }
    }
    return worst;
}

mvdr_solution NAME(mvdr_jacobi)(REAL *re, REAL *im, size_t n, size_t m, size_t ld, double tolerance,
                                size_t max_sweeps, double *pair) {
    mvdr_solution solution = {.kept = m};
    double worst = 0;
    while (!solution.converged && solution.sweeps < max_sweeps) {
        double floor2 = NAME(largest)(re, im, n, m, ld) * (double)EPSILON * (double)EPSILON;
        worst = NAME(sweep)(re, im, n, m, ld, tolerance * tolerance, floor2, pair);
        solution.sweeps++;
        solution.converged = worst <= tolerance * tolerance;
    }
    solution.residual = sqrt(worst);
    return solution;
}

#undef VECTOR
#undef LANES
