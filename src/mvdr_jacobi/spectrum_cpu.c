/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The MVDR spectrum: P = 1 / (sum_i |q_i^H a|^2 / (d_i + delta) + |a - Q Q^H a|^2 / delta) for
 * eight directions at a time, one per vector lane, with the steering vectors made here. Where
 * levels are corrected, P - delta/n is P/n times sum_i |q_i^H a|^2 d_i / (d_i + delta): nothing
 * cancels.
 */
#include "mvdr_jacobi/internal.h"

#include <float.h>
#include <math.h>

typedef float lanes __attribute__((vector_size(MVDR_LANES * sizeof(float))));

/* The residual as the difference |a|^2 - |Q^H a|^2 is good to 1e-6 |a|^2; below this share of
 * |a|^2 that is too coarse and it is formed as a vector, projected twice. */
#define DIFFERENCE_SHARE 0.0625f

/* sin and cos of an angle of `turn` * 2^-32 turns, |turn| <= 2^29 (an eighth): minimax-like Taylor
 * terms, good to float rounding there. */
MVDR_INLINE void eighth(int32_t turn, float *sine, float *cosine) {
    float x = (float)turn * (float)(6.283185307179586 / 4294967296.0), xx = x * x;
    *sine = x + x * xx *
                    (-1.6666666667e-1f +
                     xx * (8.3333333333e-3f + xx * (-1.9841269841e-4f + xx * 2.7557319e-6f)));
    *cosine = 1 + xx * (-0.5f +
                        xx * (4.1666666667e-2f + xx * (-1.3888888889e-3f + xx * 2.4801587302e-5f)));
}

/* a = e^{+j 2 pi (bin + offset) turns}, where overflow is the reduction to one turn. A part of a
 * bin multiplies signed turns, which are those from the middle row: |a^H v| does not know the
 * common phase. */
MVDR_INLINE void mvdr_steer(const uint64_t *turns, uint64_t bin, int64_t offset, size_t middle,
                            size_t n, float *a) {
    for (size_t row = 0; row < n; row++)
        for (size_t lane = 0; lane < MVDR_LANES; lane++) {
            uint64_t own = turns[row * MVDR_LANES + lane];
            uint32_t phase = (uint32_t)((bin * own) >> 32);
            if (offset) {
                int64_t apart = (int32_t)((own - turns[middle * MVDR_LANES + lane]) >> 32);
                phase += (uint32_t)((uint64_t)(offset * apart) >> 24);
            }
            uint32_t quadrant = (phase + 0x20000000u) >> 30;
            float s, c;
            eighth((int32_t)(phase - (quadrant << 30)), &s, &c);
            float re = quadrant & 1 ? s : c, im = quadrant & 1 ? c : s;
            a[(2 * row) * MVDR_LANES + lane] = quadrant == 1 || quadrant == 2 ? -re : re;
            a[(2 * row + 1) * MVDR_LANES + lane] = quadrant >= 2 ? -im : im;
        }
    for (size_t i = 2 * n * MVDR_LANES; i < 2 * mvdr_pad(n, MVDR_GROUP) * MVDR_LANES; i++)
        a[i] = 0;
}

SONAR_MULTIARCH static void steer(const uint64_t *turns, uint64_t bin, size_t n, float *a) {
    mvdr_steer(turns, bin, 0, 0, n, a);
}

SONAR_MULTIARCH static void steer_beside(const mvdr_view *view, const uint64_t *turns, uint64_t bin,
                                         float *a) {
    mvdr_steer(turns, bin, view->offset, view->middle, view->n, a);
}

/* out = Q^H a, k padded to whole groups. One product a statement: each becomes one fused
 * multiply-add. */
SONAR_MULTIARCH static void project(const float *q_re, const float *q_im, size_t n, size_t k,
                                    size_t ld, const float *a, float *out) {
    const lanes *x = (const lanes *)a;
    lanes *y = (lanes *)out;
    for (size_t i = 0; i < k; i += MVDR_GROUP) {
        const float *re = q_re + i * ld, *im = q_im + i * ld;
        lanes r0 = {0}, r1 = {0}, r2 = {0}, r3 = {0}, i0 = {0}, i1 = {0}, i2 = {0}, i3 = {0};
        for (size_t row = 0; row < n; row++) {
            lanes ar = x[2 * row], ai = x[2 * row + 1];
            r0 += re[row] * ar;
            r0 += im[row] * ai;
            i0 += re[row] * ai;
            i0 -= im[row] * ar;
            r1 += re[row + ld] * ar;
            r1 += im[row + ld] * ai;
            i1 += re[row + ld] * ai;
            i1 -= im[row + ld] * ar;
            r2 += re[row + 2 * ld] * ar;
            r2 += im[row + 2 * ld] * ai;
            i2 += re[row + 2 * ld] * ai;
            i2 -= im[row + 2 * ld] * ar;
            r3 += re[row + 3 * ld] * ar;
            r3 += im[row + 3 * ld] * ai;
            i3 += re[row + 3 * ld] * ai;
            i3 -= im[row + 3 * ld] * ar;
        }
        y[2 * i] = r0, y[2 * i + 1] = i0, y[2 * i + 2] = r1, y[2 * i + 3] = i1;
        y[2 * i + 4] = r2, y[2 * i + 5] = i2, y[2 * i + 6] = r3, y[2 * i + 7] = i3;
    }
}

/* rest = a - Q c, the first n rows; Q's columns are padded to whole groups of rows. */
SONAR_MULTIARCH static void subtract(const float *q_re, const float *q_im, size_t n, size_t k,
                                     size_t ld, const float *c, const float *a, float *rest) {
    const lanes *x = (const lanes *)a, *p = (const lanes *)c;
    lanes *y = (lanes *)rest;
    for (size_t row = 0; row < n; row += MVDR_GROUP) {
        lanes r[MVDR_GROUP], m[MVDR_GROUP];
        for (size_t j = 0; j < MVDR_GROUP; j++)
            r[j] = x[2 * (row + j)], m[j] = x[2 * (row + j) + 1];
        for (size_t i = 0; i < k; i++) {
            const float *re = q_re + i * ld + row, *im = q_im + i * ld + row;
            lanes cr = p[2 * i], ci = p[2 * i + 1];
            for (size_t j = 0; j < MVDR_GROUP; j++) {
                r[j] -= re[j] * cr;
                r[j] += im[j] * ci;
                m[j] -= re[j] * ci;
                m[j] -= im[j] * cr;
            }
        }
        for (size_t j = 0; j < MVDR_GROUP; j++)
            y[2 * (row + j)] = r[j], y[2 * (row + j) + 1] = m[j];
    }
}

/* sum_i weight_i |c_i|^2 and sum_i |c_i|^2 per lane. */
SONAR_MULTIARCH static void energies(const float *c, const float *weight, size_t k, float *weighted,
                                     float *plain) {
    const lanes *x = (const lanes *)c;
    lanes w = {0}, p = {0};
    for (size_t i = 0; i < k; i++) {
        lanes power = x[2 * i] * x[2 * i] + x[2 * i + 1] * x[2 * i + 1];
        p += power;
        if (weight)
            w += weight[i] * power;
    }
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        weighted[lane] = w[lane];
        plain[lane] = p[lane];
    }
}

/* |a - Q Q^H a|^2 per lane, with project holding Q^H a and `inside` its squared norm. */
static void outside(const mvdr_view *view, mvdr_scratch *scratch, const float *inside,
                    float *left) {
    size_t n = view->n, k = mvdr_pad(view->k, MVDR_GROUP);
    bool coarse = false;
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        left[lane] = (float)n - inside[lane];
        coarse = coarse || left[lane] < DIFFERENCE_SHARE * (float)n;
    }
    if (!coarse)
        return;
    float unused[MVDR_LANES], exact[MVDR_LANES];
    subtract(view->q_re, view->q_im, n, k, view->ld, scratch->project, scratch->steer,
             scratch->rest);
    project(view->q_re, view->q_im, n, k, view->ld, scratch->rest, scratch->project);
    subtract(view->q_re, view->q_im, n, k, view->ld, scratch->project, scratch->rest,
             scratch->rest);
    energies(scratch->rest, NULL, n, unused, exact);
    for (size_t lane = 0; lane < MVDR_LANES; lane++)
        if (left[lane] < DIFFERENCE_SHARE * (float)n)
            left[lane] = exact[lane];
}

void mvdr_spectrum_power(const mvdr_view *view, const uint64_t *turns, uint64_t bin,
                         mvdr_scratch *scratch, float *power) {
    float weighted[MVDR_LANES] = {0}, inside[MVDR_LANES] = {0}, left[MVDR_LANES] = {0};
    float raised[MVDR_LANES] = {0};
    if (view->level > 0) {
        if (view->offset)
            steer_beside(view, turns, bin, scratch->steer);
        else
            steer(turns, bin, view->n, scratch->steer);
        project(view->q_re, view->q_im, view->n, mvdr_pad(view->k, MVDR_GROUP), view->ld,
                scratch->steer, scratch->project);
        if (view->gain)
            energies(scratch->project, view->gain, view->k, raised, inside);
        energies(scratch->project, view->weight, view->k, weighted, inside);
        if (view->k < view->n)
            outside(view, scratch, inside, left);
    }
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        double denominator = (double)weighted[lane] + (double)left[lane];
        double p = view->level > 0 && denominator > 0 ? view->level / denominator : 0;
        p *= view->gain ? (double)raised[lane] : 1;
        power[lane] = (float)fmin(p, (double)FLT_MAX);
    }
}
