/* SPDX-License-Identifier: GPL-3.0-or-later */
/* x^H y of vectors of complex elements, eight at a time, for one instruction set: set_kernel.h
 * defines the macros. The sums over every eighth element are the same for all sets. */

typedef struct NAME(dot) {
    VECTOR rr[VECTORS], ii[VECTORS], ri[VECTORS], ir[VECTORS];
} NAME(dot);

/* Adds the v-th WIDTH of eight elements, x = ar + j ai and y = br + j bi. */
TARGET INLINE void NAME(add_to_dot)(NAME(dot) * sum, size_t v, VECTOR ar, VECTOR ai, VECTOR br,
                                    VECTOR bi) {
    sum->rr[v] += ar * br;
    sum->ii[v] += ai * bi;
    sum->ri[v] += ar * bi;
    sum->ir[v] += ai * br;
}

TARGET INLINE void NAME(end_dot)(const NAME(dot) * sum, double *re, double *im) {
    double a[MVDR_LANES], b[MVDR_LANES];
#pragma GCC unroll 4
    for (size_t v = 0; v < VECTORS; v++) {
        const VECTOR real = sum->rr[v] + sum->ii[v], imaginary = sum->ri[v] - sum->ir[v];
        STORE(a + v * WIDTH, real);
        STORE(b + v * WIDTH, imaginary);
    }
    *re = mvdr_add_eight(a);
    *im = mvdr_add_eight(b);
}
