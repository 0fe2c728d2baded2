/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The sums of line_cpu.c for LANES look points at a time, for one instruction set. Included once
 * for each set, with KERNEL (a name), TARGET (attributes), LANES and TILE (the number of columns
 * whose sums fit into registers).
 */
#define LINE_JOIN2(a, b) a##b
#define LINE_JOIN(a, b)  LINE_JOIN2(a, b)
#define VECTOR           LINE_JOIN(KERNEL, _vector)

typedef float VECTOR __attribute__((vector_size(LANES * sizeof(float))));

TARGET static void KERNEL(const struct pass *pass) {
    VECTOR y[4] = {{0}}, step[2], v[2], turned;
    memcpy(&step[0], pass->step_re, sizeof step[0]);
    memcpy(&step[1], pass->step_im, sizeof step[1]);
    for (size_t t = 0; t < pass->tiles; t++) {
        const float *x = pass->folded + t * pass->half * TILE * 4;
        VECTOR sum[TILE][4] = {{{0}}};
        for (size_t i = 0; i < pass->half; i++, x += TILE * 4) {
            VECTOR c, s;
            memcpy(&c, pass->cos + i * LANES, sizeof c);
            memcpy(&s, pass->sin + i * LANES, sizeof s);
#pragma GCC unroll 8
            for (int k = 0; k < TILE; k++) {
                sum[k][0] += c * x[4 * k];
                sum[k][1] += c * x[4 * k + 1];
                sum[k][2] += s * x[4 * k + 2];
                sum[k][3] += s * x[4 * k + 3];
            }
        }
        memcpy(&v[0], pass->column_re + t * LANES, sizeof v[0]);
        memcpy(&v[1], pass->column_im + t * LANES, sizeof v[1]);
#pragma GCC unroll 8
        for (int k = 0; k < TILE; k++) {
            const VECTOR point_re = sum[k][0] + sum[k][3], point_im = sum[k][1] - sum[k][2];
            const VECTOR image_re = sum[k][0] - sum[k][3], image_im = sum[k][1] + sum[k][2];
            y[0] += v[0] * point_re + v[1] * point_im;
            y[1] += v[0] * point_im - v[1] * point_re;
            y[2] += v[0] * image_re - v[1] * image_im;
            y[3] += v[0] * image_im + v[1] * image_re;
            turned = v[0] * step[0] - v[1] * step[1];
            v[1] = v[0] * step[1] + v[1] * step[0];
            v[0] = turned;
        }
    }
    memcpy(pass->y, y, sizeof y);
}

#undef LINE_JOIN2
#undef LINE_JOIN
#undef VECTOR
#undef KERNEL
#undef TARGET
#undef LANES
#undef TILE
