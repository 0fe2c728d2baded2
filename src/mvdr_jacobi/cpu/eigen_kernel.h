/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sums over eigenvalues (kernels.h), for one instruction set, with eight shifts in VECTORS vectors:
 * set_kernel.h defines the macros. */

/* A pivot of zero makes the next one -inf. */
TARGET static void NAME(below)(const double *d, const double *e2, size_t n, const double *shifts,
                               double *counts) {
    typedef int64_t votes __attribute__((vector_size(sizeof(VECTOR))));
    VECTOR s[VECTORS], q[VECTORS] = {0}, sum;
    votes count[VECTORS] = {0};
#pragma GCC unroll 4
    for (size_t v = 0; v < VECTORS; v++)
        LOAD(s[v], shifts + v * WIDTH);
    for (size_t i = 0; i < n; i++)
#pragma GCC unroll 4
        for (size_t v = 0; v < VECTORS; v++) {
            q[v] = d[i] - s[v] - (i ? e2[i - 1] / q[v] : q[v]);
            count[v] -= q[v] < 0;
        }
#pragma GCC unroll 4
    for (size_t v = 0; v < VECTORS; v++) {
        sum = __builtin_convertvector(count[v], VECTOR);
        STORE(counts + v * WIDTH, sum);
    }
}

TARGET static void NAME(gain_sums)(const double *energies, const double *lambda, size_t rows,
                                   const double *mu, double sums[4][MVDR_LANES]) {
    for (size_t lane = 0; lane < MVDR_LANES; lane += WIDTH) {
        VECTOR more, q, first = {0}, second = {0}, third = {0}, through = {0};
        LOAD(more, mu + lane);
        for (size_t i = 0; i < rows; i++) {
            LOAD(q, energies + i * MVDR_LANES + lane);
            const VECTOR inverse = 1 / (lambda[i] + more), x = q * inverse, y = x * inverse;
            first += x;
            second += y;
            third += y * inverse;
            through += lambda[i] * y;
        }
        STORE(sums[0] + lane, first);
        STORE(sums[1] + lane, second);
        STORE(sums[2] + lane, third);
        STORE(sums[3] + lane, through);
    }
}
