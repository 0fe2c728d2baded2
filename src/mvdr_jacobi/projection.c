/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Steering vectors, eight directions at a time and one per vector lane, and the columns' products
 * with them. */
#include "mvdr_jacobi/internal.h"

#include <string.h>

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
 * bin multiplies signed turns, which are those from the middle sensor: P does not know the common
 * phase. Parts of an array, which must have it in common, count from the array's origin. */
MVDR_INLINE void steer(const uint8_t *used, size_t sensors, size_t middle, const uint64_t *turns,
                       uint64_t bin, int64_t offset, float *a) {
    for (size_t i = 0; i < sensors; i++) {
        float *re = a + 2 * i * MVDR_LANES, *im = re + MVDR_LANES;
        if (!used[i]) {
            memset(re, 0, 2 * MVDR_LANES * sizeof *re);
            continue;
        }
        for (size_t lane = 0; lane < MVDR_LANES; lane++) {
            uint64_t own = turns[i * MVDR_LANES + lane];
            uint32_t phase = (uint32_t)((bin * own) >> 32);
            if (offset) {
                uint64_t from = middle < sensors ? turns[middle * MVDR_LANES + lane] : 0;
                int64_t apart = (int32_t)((own - from) >> 32);
                phase += (uint32_t)((uint64_t)(offset * apart) >> 24);
            }
            uint32_t quadrant = (phase + 0x20000000u) >> 30;
            float s, c;
            eighth((int32_t)(phase - (quadrant << 30)), &s, &c);
            float x = quadrant & 1 ? s : c, y = quadrant & 1 ? c : s;
            re[lane] = quadrant == 1 || quadrant == 2 ? -x : x;
            im[lane] = quadrant >= 2 ? -y : y;
        }
    }
}

SONAR_MULTIARCH static void steer_at_centre(const uint8_t *used, size_t sensors,
                                            const uint64_t *turns, uint64_t bin, float *a) {
    steer(used, sensors, 0, turns, bin, 0, a);
}

SONAR_MULTIARCH static void steer_beside(const uint8_t *used, size_t sensors, size_t middle,
                                         const uint64_t *turns, uint64_t bin, int64_t offset,
                                         float *a) {
    steer(used, sensors, middle, turns, bin, offset, a);
}

void mvdr_steer(const mvdr_rows *rows, size_t sensors, const uint64_t *turns, uint64_t bin,
                int64_t offset, float *a) {
    if (offset)
        steer_beside(rows->used, sensors, rows->middle, turns, bin, offset, a);
    else
        steer_at_centre(rows->used, sensors, turns, bin, a);
}

MVDR_INLINE void widen(const float *from, mvdr_lanes *to) {
    mvdr_floats x;
    memcpy(&x, from, sizeof x);
    *to = __builtin_convertvector(x, mvdr_lanes);
}

SONAR_MULTIARCH static void norms(const float *a, size_t sensors, double *norm) {
    mvdr_lanes sum = {0};
    for (size_t i = 0; i < sensors; i++) {
        mvdr_lanes re, im;
        widen(a + 2 * i * MVDR_LANES, &re);
        widen(a + (2 * i + 1) * MVDR_LANES, &im);
        sum += re * re;
        sum += im * im;
    }
    memcpy(norm, &sum, sizeof sum);
}

void mvdr_norms(const float *a, size_t sensors, double norm[MVDR_LANES]) {
    norms(a, sensors, norm);
}

/* The sums of one column; one product a statement: each becomes one fused multiply-add. */
typedef struct sums {
    mvdr_lanes rr, ii, ri, ir;
} sums;

MVDR_INLINE void add(sums *s, const float *x, size_t i, size_t ld, const mvdr_lanes *re,
                     const mvdr_lanes *im) {
    const double xr = (double)x[i], xi = (double)x[ld + i];
    s->rr += xr * *re;
    s->ii += xi * *im;
    s->ri += xr * *im;
    s->ir += xi * *re;
}

MVDR_INLINE void put(const sums *s, double *to) {
    const mvdr_lanes re = s->rr + s->ii, im = s->ri - s->ir;
    memcpy(to, &re, sizeof re);
    memcpy(to + MVDR_LANES, &im, sizeof im);
}

SONAR_MULTIARCH static void project_one(const float *a, size_t sensors, size_t ld, const float *x,
                                        double *to) {
    sums s = {0};
    for (size_t i = 0; i < sensors; i++) {
        mvdr_lanes re, im;
        widen(a + 2 * i * MVDR_LANES, &re);
        widen(a + (2 * i + 1) * MVDR_LANES, &im);
        add(&s, x, i, ld, &re, &im);
    }
    put(&s, to);
}

SONAR_MULTIARCH static void project_two(const float *a, size_t sensors, size_t ld, const float *x,
                                        const float *y, double *to, double *also) {
    sums s = {0}, t = {0};
    for (size_t i = 0; i < sensors; i++) {
        mvdr_lanes re, im;
        widen(a + 2 * i * MVDR_LANES, &re);
        widen(a + (2 * i + 1) * MVDR_LANES, &im);
        add(&s, x, i, ld, &re, &im);
        add(&t, y, i, ld, &re, &im);
    }
    put(&s, to);
    put(&t, also);
}

void mvdr_project(const float *a, size_t sensors, size_t ld, const float *x, const float *y,
                  double *to, double *also) {
    if (x == y)
        project_one(a, sensors, ld, x, to);
    else
        project_two(a, sensors, ld, x, y, to, also);
}
