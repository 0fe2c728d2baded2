/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The eigendecomposition of the thesis (6.5) in double: two-sided Jacobi with round-robin pairing.
 * A sweep turns every pair of rows and columns once, in n - 1 rounds of n/2 disjoint pairs, whose
 * rotations are independent. An off-diagonal element is compared with its two diagonal elements, so
 * that a quiet source beside a loud one is resolved.
 */
#include "mvdr_jacobi/cpu/internal.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* The rotations of one round: x <- c x - conj(w) y, y <- w x + c y on columns. */
typedef struct round {
    size_t *x, *y;
    double *c, *wr, *wi;
} round_of;

/* Columns of pair p in round r (circle method). False: n is odd and the column has no partner. */
MVDR_INLINE bool pairing(size_t n, size_t r, size_t p, size_t *x, size_t *y) {
    const size_t ring = n + n % 2 - 1;
    size_t a = p ? r + p : ring, b = r + ring - p;
    a -= p && a >= ring ? ring : 0;
    b -= b >= ring ? ring : 0;
    *x = a < b ? a : b;
    *y = a < b ? b : a;
    return *y < n;
}

/* The rotation for [xx g; conj(g) yy] with the smaller of the two angles (Rutishauser 1966). */
MVDR_INLINE void rotation(double xx, double yy, double re, double im, double *c, double *wr,
                          double *wi) {
    const double g2 = re * re + im * im, g = sqrt(g2);
    if (!(g > 0)) {
        *c = 1, *wr = *wi = 0;
        return;
    }
    const double zeta = (yy - xx) / (2 * g);
    const double t = copysign(1, zeta) / (fabs(zeta) + sqrt(1 + zeta * zeta));
    *c = 1 / sqrt(1 + t * t);
    *wr = *c * t / g * re;
    *wi = *c * t / g * im;
}

MVDR_INLINE void turn_columns(double *xr, double *xi, double *yr, double *yi, size_t n, double c,
                              double wr, double wi) {
#pragma GCC ivdep
    for (size_t i = 0; i < n; i++) {
        const double ar = xr[i], ai = xi[i], br = yr[i], bi = yi[i];
        xr[i] = c * ar - wr * br - wi * bi;
        xi[i] = c * ai - wr * bi + wi * br;
        yr[i] = c * br + wr * ar - wi * ai;
        yi[i] = c * bi + wr * ai + wi * ar;
    }
}

/* Applies the rotations from the left to one column, all pairs of the round: x <- c x - w y, y <-
 * conj(w) x + c y. */
MVDR_INLINE void turn_rows(double *re, double *im, const size_t *x, const size_t *y,
                           const double *c, const double *wr, const double *wi, size_t pairs) {
#pragma GCC ivdep
    for (size_t p = 0; p < pairs; p++) {
        const double ar = re[x[p]], ai = im[x[p]], br = re[y[p]], bi = im[y[p]];
        re[x[p]] = c[p] * ar - wr[p] * br + wi[p] * bi;
        im[x[p]] = c[p] * ai - wr[p] * bi - wi[p] * br;
        re[y[p]] = c[p] * br + wr[p] * ar + wi[p] * ai;
        im[y[p]] = c[p] * bi + wr[p] * ai - wi[p] * ar;
    }
}

/* Lists the pairs of a round that need a rotation; returns their number. `worst` becomes the
 * largest relative off-diagonal element found that is not rounding. */
static size_t plan(mvdr_square h, size_t r, double nothing, const round_of *round, double *worst) {
    size_t pairs = 0;
    for (size_t p = 0; p < (h.n + 1) / 2; p++) {
        size_t x, y;
        if (!pairing(h.n, r, p, &x, &y))
            continue;
        const double xx = h.re[x * h.ld + x], yy = h.re[y * h.ld + y];
        const double re = h.re[y * h.ld + x], im = h.im[y * h.ld + x];
        const double g2 = re * re + im * im;
        if (!(g2 > nothing * nothing))
            continue;
        const double relative2 = g2 / fmax(fabs(xx * yy), DBL_MIN);
        *worst = fmax(*worst, fmin(sqrt(relative2), 1e30));
        rotation(xx, yy, re, im, &round->c[pairs], &round->wr[pairs], &round->wi[pairs]);
        round->x[pairs] = x;
        round->y[pairs++] = y;
    }
    return pairs;
}

/* Sets elements that are zero or real by construction to exactly that, so that rounding errors in
 * them do not persist. */
static void set_exact(mvdr_square h, size_t x, size_t y) {
    h.re[x * h.ld + y] = h.im[x * h.ld + y] = 0;
    h.re[y * h.ld + x] = h.im[y * h.ld + x] = 0;
    h.im[x * h.ld + x] = h.im[y * h.ld + y] = 0;
}

SONAR_MULTIARCH static void apply(mvdr_square h, mvdr_square v, const round_of *round,
                                  size_t pairs) {
    for (size_t p = 0; p < pairs; p++) {
        const size_t x = round->x[p] * h.ld, y = round->y[p] * h.ld;
        turn_columns(h.re + x, h.im + x, h.re + y, h.im + y, h.n, round->c[p], round->wr[p],
                     round->wi[p]);
        turn_columns(v.re + x, v.im + x, v.re + y, v.im + y, h.n, round->c[p], round->wr[p],
                     round->wi[p]);
    }
    for (size_t j = 0; j < h.n; j++)
        turn_rows(h.re + j * h.ld, h.im + j * h.ld, round->x, round->y, round->c, round->wr,
                  round->wi, pairs);
    for (size_t p = 0; p < pairs; p++)
        set_exact(h, round->x[p], round->y[p]);
}

/* The size of off-diagonal elements that are rounding errors: eps |h|_F / n. */
static double rounding_of(mvdr_square h) {
    double sum = 0;
    for (size_t j = 0; j < h.n; j++)
        for (size_t i = 0; i < h.n; i++)
            sum +=
                h.re[j * h.ld + i] * h.re[j * h.ld + i] + h.im[j * h.ld + i] * h.im[j * h.ld + i];
    return DBL_EPSILON * sqrt(sum) / (double)h.n;
}

mvdr_sweeps mvdr_jacobi(mvdr_square h, mvdr_square v, double tolerance, size_t most, double *pair) {
    const size_t half = h.n / 2 + 1;
    const round_of round = {(size_t *)pair, (size_t *)(pair + half), pair + 2 * half,
                            pair + 3 * half, pair + 4 * half};
    const double nothing = rounding_of(h);
    mvdr_sweeps sweeps = {.converged = false};
    memset(v.re, 0, h.n * h.ld * sizeof *v.re);
    memset(v.im, 0, h.n * h.ld * sizeof *v.im);
    for (size_t i = 0; i < h.n; i++)
        v.re[i * h.ld + i] = 1;
    while (!sweeps.converged && sweeps.count < most) {
        sweeps.residual = 0;
        for (size_t r = 0; r + 1 < h.n + h.n % 2; r++)
            apply(h, v, &round, plan(h, r, nothing, &round, &sweeps.residual));
        sweeps.count++;
        sweeps.converged = sweeps.residual <= tolerance;
    }
    return sweeps;
}
