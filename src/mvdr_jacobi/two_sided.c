/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Two-sided Jacobi on the covariance itself, the method of the thesis (6.5), kept for the
 * comparison with its rows (mvdr.method). It squares the data in float32, and the accuracy that
 * loud scenes ask for is not asked of it.
 */
#include "mvdr_jacobi/internal.h"
#include "mvdr_jacobi/rotation.h"

#include <string.h>

#define LEAST_TOLERANCE 1e-6 /* float32 gets no further */

typedef struct hermitian {
    float *re, *im; /* n x n */
    float *vr, *vi; /* eigenvectors so far */
    size_t n, ld;
} hermitian;

/* x <- c x - conj(w) y, y <- w x + c y over `n` contiguous elements. */
SONAR_MULTIARCH static void turn_columns(float *re, float *im, size_t n, size_t x, size_t y,
                                         float c, float wr, float wi) {
    float *xr = re + x, *xi = im + x, *yr = re + y, *yi = im + y;
#pragma GCC ivdep
    for (size_t i = 0; i < n; i++) {
        float ar = xr[i], ai = xi[i], br = yr[i], bi = yi[i];
        xr[i] = c * ar - wr * br - wi * bi;
        xi[i] = c * ai - wr * bi + wi * br;
        yr[i] = c * br + wr * ar - wi * ai;
        yi[i] = c * bi + wr * ai + wi * ar;
    }
}

/* The same from the left, rows x and y of every column: x <- c x - w y, y <- conj(w) x + c y. */
static void turn_rows(hermitian *h, size_t x, size_t y, float c, float wr, float wi) {
    for (size_t j = 0; j < h->n; j++) {
        float *re = h->re + j * h->ld, *im = h->im + j * h->ld;
        float ar = re[x], ai = im[x], br = re[y], bi = im[y];
        re[x] = c * ar - wr * br + wi * bi;
        im[x] = c * ai - wr * bi - wi * br;
        re[y] = c * br + wr * ar + wi * ai;
        im[y] = c * bi + wr * ai - wi * ar;
    }
}

static void plan_round(const hermitian *h, size_t r, mvdr_round *round) {
    size_t players = h->n + h->n % 2;
    for (size_t p = 0; p < players / 2; p++) {
        size_t x, y;
        double g2 = 0;
        if (mvdr_pairing(players, h->n, r, p, &x, &y)) {
            round->xx[p] = (double)h->re[x * h->ld + x];
            round->yy[p] = (double)h->re[y * h->ld + y];
            round->re[p] = (double)h->re[y * h->ld + x];
            round->im[p] = (double)h->im[y * h->ld + x];
            g2 = round->re[p] * round->re[p] + round->im[p] * round->im[p];
        }
        mvdr_rotate_pair(round, p, g2, g2 > 0);
    }
}

/* What is zero by construction is set so, or rounding would keep it alive. */
static void set_exact(hermitian *h, size_t x, size_t y) {
    h->re[x * h->ld + y] = h->im[x * h->ld + y] = 0;
    h->re[y * h->ld + x] = h->im[y * h->ld + x] = 0;
    h->im[x * h->ld + x] = h->im[y * h->ld + y] = 0;
}

static void apply_round(hermitian *h, size_t r, const mvdr_round *round) {
    size_t players = h->n + h->n % 2, x, y;
    for (size_t p = 0; p < players / 2; p++) {
        float c = (float)round->c[p], wr = (float)round->wr[p], wi = (float)round->wi[p];
        if (!mvdr_pairing(players, h->n, r, p, &x, &y) || (wr == 0 && wi == 0))
            continue;
        turn_columns(h->re, h->im, h->n, x * h->ld, y * h->ld, c, wr, wi);
        turn_columns(h->vr, h->vi, h->n, x * h->ld, y * h->ld, c, wr, wi);
        turn_rows(h, x, y, c, wr, wi);
        set_exact(h, x, y);
    }
}

/* Squared Frobenius norm, of the off-diagonal part alone or of all. */
static double squares(const hermitian *h, bool diagonal) {
    double sum = 0;
    for (size_t j = 0; j < h->n; j++)
        for (size_t i = 0; i < h->n; i++) {
            double re = (double)h->re[j * h->ld + i], im = (double)h->im[j * h->ld + i];
            sum += i != j || diagonal ? re * re + im * im : 0;
        }
    return sum;
}

static hermitian view_of(const mvdr_scratch *scratch, size_t n) {
    return (hermitian){.re = (float *)scratch->t_re,
                       .im = (float *)scratch->t_im,
                       .vr = (float *)scratch->u_re,
                       .vi = (float *)scratch->u_im,
                       .n = n,
                       .ld = mvdr_pad(n, MVDR_ALIGN)};
}

mvdr_solution mvdr_two_sided(mvdr_scratch *scratch, size_t n, double tolerance, size_t max_sweeps) {
    hermitian h = view_of(scratch, n);
    mvdr_round round = mvdr_round_view(scratch->pair, n);
    mvdr_solution solution = {.kept = n};
    double least = fmax(tolerance, LEAST_TOLERANCE), norm2 = squares(&h, true);
    memset(h.vr, 0, n * h.ld * sizeof *h.vr);
    memset(h.vi, 0, n * h.ld * sizeof *h.vi);
    for (size_t i = 0; i < n; i++)
        h.vr[i * h.ld + i] = 1;
    for (;;) {
        solution.residual = norm2 > 0 ? sqrt(squares(&h, false) / norm2) : 0;
        solution.converged = solution.residual <= least;
        if (solution.converged || solution.sweeps == max_sweeps)
            return solution;
        for (size_t r = 0; r + 1 < n + n % 2; r++) {
            plan_round(&h, r, &round);
            apply_round(&h, r, &round);
        }
        solution.sweeps++;
    }
}

/* R = S S^H in float32, the lower triangle and its mirror. */
static void form(const mvdr_scratch *scratch, size_t n, size_t m, hermitian *h) {
    memset(h->re, 0, n * h->ld * sizeof *h->re);
    memset(h->im, 0, n * h->ld * sizeof *h->im);
    for (size_t s = 0; s < m; s++) {
        const float *xr = scratch->s_re + s * h->ld, *xi = scratch->s_im + s * h->ld;
        for (size_t j = 0; j < n; j++)
            for (size_t i = 0; i < n; i++) {
                h->re[j * h->ld + i] += xr[i] * xr[j] + xi[i] * xi[j];
                h->im[j * h->ld + i] += xi[i] * xr[j] - xr[i] * xi[j];
            }
    }
    for (size_t i = 0; i < n; i++)
        h->im[i * h->ld + i] = 0;
}

mvdr_solution mvdr_solve_two_sided(mvdr_scratch *scratch, size_t n, size_t m, double tolerance,
                                   size_t max_sweeps, float *q_re, float *q_im, size_t ld) {
    hermitian h = view_of(scratch, n);
    form(scratch, n, m, &h);
    mvdr_solution solution = mvdr_two_sided(scratch, n, tolerance, max_sweeps);
    for (size_t i = 0; i < n; i++)
        scratch->norm2[i] = fmax(0, (double)h.re[i * h.ld + i]);
    mvdr_descending(scratch->norm2, n, 0, scratch->order);
    memset(q_re, 0, mvdr_pad(n, MVDR_GROUP) * ld * sizeof *q_re);
    memset(q_im, 0, mvdr_pad(n, MVDR_GROUP) * ld * sizeof *q_im);
    for (size_t i = 0; i < n; i++) {
        size_t from = scratch->order[i];
        scratch->d[i] = scratch->norm2[from];
        memcpy(q_re + i * ld, h.vr + from * h.ld, n * sizeof *q_re);
        memcpy(q_im + i * ld, h.vi + from * h.ld, n * sizeof *q_im);
    }
    return solution;
}
