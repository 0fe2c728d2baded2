/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Products of snapshots with steering vectors and with one another (kernels.h), for one instruction
 * set: set_kernel.h defines the macros. */

/* WIDTH of the eight directions. */
TARGET INLINE void NAME(project_some)(const mvdr_part *x, size_t sensors, const mvdr_steered *turn,
                                      mvdr_steered *a, size_t lane, mvdr_sums *sums) {
    VECTOR re[MVDR_COLUMNS] = {0}, im[MVDR_COLUMNS] = {0};
    for (size_t i = 0; i < sensors; i++) {
        VECTOR ar, ai, rr, ri;
        LOAD(ar, &a->re[i][lane]);
        LOAD(ai, &a->im[i][lane]);
        if (turn) {
            LOAD(rr, &turn->re[i][lane]);
            LOAD(ri, &turn->im[i][lane]);
        }
#pragma GCC unroll 4
        for (size_t k = 0; k < MVDR_COLUMNS; k++) {
            re[k] += x[k].re[i] * ar;
            im[k] += x[k].re[i] * ai;
            re[k] += x[k].im[i] * ai;
            im[k] -= x[k].im[i] * ar;
            if (turn) {
                const VECTOR last = ar;
                ar = ar * rr - ai * ri;
                ai = last * ri + ai * rr;
            }
        }
        if (turn) {
            STORE(&a->re[i][lane], ar);
            STORE(&a->im[i][lane], ai);
        }
    }
#pragma GCC unroll 4
    for (size_t k = 0; k < MVDR_COLUMNS; k++) {
        STORE(&sums[k].re[lane], re[k]);
        STORE(&sums[k].im[lane], im[k]);
    }
}

TARGET static void NAME(project)(const mvdr_part *x, size_t sensors, const mvdr_steered *turn,
                                 mvdr_steered *a, mvdr_sums *sums) {
    for (size_t lane = 0; lane < MVDR_LANES; lane += WIDTH)
        if (turn)
            NAME(project_some)(x, sensors, turn, a, lane, sums);
        else
            NAME(project_some)(x, sensors, NULL, a, lane, sums);
}

TARGET static void NAME(inner)(const float *x, const double *y_re, const double *y_im, size_t ld,
                               double *re, double *im) {
    NAME(dot) sum = {0};
    for (size_t i = 0; i < ld; i += MVDR_LANES)
#pragma GCC unroll 4
        for (size_t v = 0; v < VECTORS; v++) {
            VECTOR ar, ai, br, bi;
            double wide[2][WIDTH];
#pragma GCC unroll 8
            for (size_t k = 0; k < WIDTH; k++) {
                wide[0][k] = (double)x[i + v * WIDTH + k];
                wide[1][k] = (double)x[ld + i + v * WIDTH + k];
            }
            LOAD(ar, wide[0]);
            LOAD(ai, wide[1]);
            LOAD(br, y_re + i + v * WIDTH);
            LOAD(bi, y_im + i + v * WIDTH);
            NAME(add_to_dot)(&sum, v, ar, ai, br, bi);
        }
    NAME(end_dot)(&sum, re, im);
}
