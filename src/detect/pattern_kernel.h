/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The sums of pattern.c for WIDTH points at a time, for one instruction set: core/isa_kernels.h
 * defines NAME, TARGET and WIDTH. */
typedef double NAME(vector) __attribute__((vector_size(WIDTH * sizeof(double))));

TARGET static void NAME(add_sensors)(const sensor *sensors, size_t points, double *re, double *im) {
    NAME(vector) a[TOGETHER], b[TOGETHER], sum[2];
    double x[TOGETHER], y[TOGETHER];
    for (size_t k = 0; k < TOGETHER; k++) {
        double complex at = sensors[k].first, turn = sensors[k].step;
        for (size_t i = 0; i < WIDTH; i++, at *= sensors[k].step)
            a[k][i] = creal(at), b[k][i] = cimag(at);
        for (size_t i = 1; i < WIDTH; i *= 2)
            turn *= turn;
        x[k] = creal(turn), y[k] = cimag(turn);
    }
    for (size_t i = 0; i < points; i += WIDTH) {
        memcpy(&sum[0], re + i, sizeof sum[0]);
        memcpy(&sum[1], im + i, sizeof sum[1]);
#pragma GCC unroll 4
        for (size_t k = 0; k < TOGETHER; k++) {
            const NAME(vector) before = a[k];
            sum[0] += before;
            sum[1] += b[k];
            a[k] = before * x[k] - b[k] * y[k];
            b[k] = before * y[k] + b[k] * x[k];
        }
        memcpy(re + i, &sum[0], sizeof sum[0]);
        memcpy(im + i, &sum[1], sizeof sum[1]);
    }
}
