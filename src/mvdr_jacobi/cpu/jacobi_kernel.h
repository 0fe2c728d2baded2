/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A sweep of one-sided Jacobi (jacobi.c), for one instruction set: set_kernel.h defines the macros.
 */

/* x^H y */
TARGET INLINE void NAME(product)(const mvdr_square *l, size_t x, size_t y, double *re, double *im) {
    const double *xr = l->re + x * l->ld, *xi = l->im + x * l->ld;
    const double *yr = l->re + y * l->ld, *yi = l->im + y * l->ld;
    NAME(dot) sum = {0};
    for (size_t i = 0; i < l->ld; i += MVDR_LANES)
#pragma GCC unroll 4
        for (size_t v = 0; v < VECTORS; v++) {
            VECTOR ar, ai, br, bi;
            LOAD(ar, xr + i + v * WIDTH);
            LOAD(ai, xi + i + v * WIDTH);
            LOAD(br, yr + i + v * WIDTH);
            LOAD(bi, yi + i + v * WIDTH);
            NAME(add_to_dot)(&sum, v, ar, ai, br, bi);
        }
    NAME(end_dot)(&sum, re, im);
}

/* x <- c x - conj(w) y, y <- w x + c y. */
TARGET INLINE void NAME(turn)(const mvdr_square *l, size_t x, size_t y, const mvdr_rotation *r) {
    double *xr = l->re + x * l->ld, *xi = l->im + x * l->ld;
    double *yr = l->re + y * l->ld, *yi = l->im + y * l->ld;
    for (size_t i = 0; i < l->ld; i += WIDTH) {
        VECTOR ar, ai, br, bi, sum;
        LOAD(ar, xr + i);
        LOAD(ai, xi + i);
        LOAD(br, yr + i);
        LOAD(bi, yi + i);
        sum = ar * r->c - br * r->wr - bi * r->wi;
        STORE(xr + i, sum);
        sum = ai * r->c - bi * r->wr + br * r->wi;
        STORE(xi + i, sum);
        sum = br * r->c + ar * r->wr - ai * r->wi;
        STORE(yr + i, sum);
        sum = bi * r->c + ai * r->wr + ar * r->wi;
        STORE(yi + i, sum);
    }
}

TARGET static double NAME(sweep)(mvdr_square l, double nothing, double *energy,
                                 double *most_turned) {
    const size_t ring = l.n + l.n % 2 - 1;
    double worst = 0, none;
    for (size_t j = 0; j < l.n; j++)
        NAME(product)(&l, j, j, &energy[j], &none);
    *most_turned = 0;
    for (size_t round = 0; round < ring; round++)
        for (size_t pair = 0; pair < (l.n + 1) / 2; pair++) {
            mvdr_rotation r;
            double re, im;
            size_t x, y;
            if (!mvdr_pairing(l.n, round, pair, &x, &y))
                continue;
            NAME(product)(&l, x, y, &re, &im);
            const double g2 = re * re + im * im, share = g2 / (energy[x] * energy[y]);
            if (!(share > nothing * nothing))
                continue;
            worst = fmax(worst, share);
            const double moved = mvdr_rotate(energy[x], energy[y], re, im, &r);
            energy[x] -= moved;
            energy[y] += moved;
            *most_turned = fmax(*most_turned, r.s);
            NAME(turn)(&l, x, y, &r);
        }
    return sqrt(worst);
}
