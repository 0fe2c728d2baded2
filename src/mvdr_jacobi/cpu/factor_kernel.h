/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Blocks of a triangle in panels (internal.h), eight columns of eight rows, for one instruction
 * set, WIDTH rows at a time: set_kernel.h defines the macros. */

/* Four columns of the sum, from `first` on. */
TARGET INLINE void NAME(outer_four)(const double *b, const double *c, size_t count, size_t first,
                                    double *sum) {
    VECTOR re[4] = {0}, im[4] = {0};
    for (size_t k = 0; k < count; k++, b += STEP, c += STEP) {
        VECTOR br, bi;
        LOAD(br, b);
        LOAD(bi, b + MVDR_LANES);
#pragma GCC unroll 4
        for (size_t q = 0; q < 4; q++) {
            const double cr = c[first + q], ci = c[MVDR_LANES + first + q];
            re[q] += br * cr;
            re[q] += bi * ci;
            im[q] += bi * cr;
            im[q] -= br * ci;
        }
    }
#pragma GCC unroll 4
    for (size_t q = 0; q < 4; q++) {
        STORE(sum + (first + q) * STEP, re[q]);
        STORE(sum + (first + q) * STEP + MVDR_LANES, im[q]);
    }
}

TARGET static void NAME(outer)(const double *b, const double *c, size_t count, double *sum) {
    for (size_t row = 0; row < MVDR_LANES; row += WIDTH)
        for (size_t first = 0; first < MVDR_LANES; first += 4)
            NAME(outer_four)(b + row, c, count, first, sum + row);
}

/* Unrolled, so that the rows stay in registers. */
TARGET static void NAME(solve)(double *x, const double *l) {
    for (size_t row = 0; row < MVDR_LANES; row += WIDTH) {
        VECTOR re[MVDR_LANES], im[MVDR_LANES];
#pragma GCC unroll 8
        for (size_t j = 0; j < MVDR_LANES; j++) {
            LOAD(re[j], x + j * STEP + row);
            LOAD(im[j], x + j * STEP + row + MVDR_LANES);
#pragma GCC unroll 8
            for (size_t t = 0; t < j; t++) {
                const double lr = l[t * STEP + j], li = l[t * STEP + MVDR_LANES + j];
                re[j] -= re[t] * lr;
                re[j] -= im[t] * li;
                im[j] -= im[t] * lr;
                im[j] += re[t] * li;
            }
            re[j] *= l[j * STEP + j];
            im[j] *= l[j * STEP + j];
            STORE(x + j * STEP + row, re[j]);
            STORE(x + j * STEP + row + MVDR_LANES, im[j]);
        }
    }
}
