/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Steering vectors, eight directions at a time, one in each vector lane, and the columns' products
 * with them. */
#include "mvdr_jacobi/cpu/internal.h"

#include <string.h>

/* sin and cos of an angle of `turn` * 2^-32 turns, |turn| <= 2^29 (an eighth turn): Taylor
 * polynomials, accurate to float rounding in this range. */
MVDR_INLINE void eighth(int32_t turn, float *sine, float *cosine) {
    float x = (float)turn * (float)(6.283185307179586 / 4294967296.0), xx = x * x;
    *sine = x + x * xx *
                    (-1.6666666667e-1f +
                     xx * (8.3333333333e-3f + xx * (-1.9841269841e-4f + xx * 2.7557319e-6f)));
    *cosine = 1 + xx * (-0.5f +
                        xx * (4.1666666667e-2f + xx * (-1.3888888889e-3f + xx * 2.4801587302e-5f)));
}

/* Two sensors at a time: their sixteen floats fill the widest vectors. */
enum { TWO = 2 * MVDR_LANES };

MVDR_INLINE float signed_by(uint32_t quadrants, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits ^= (quadrants & 2) << 30;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* e^{j 2 pi phase 2^-32} of the phases of two sensors, to a[sensor][re, im][lane]. */
MVDR_INLINE void rotate(const uint32_t phase[TWO], float *a) {
    float re[TWO], im[TWO];
    for (size_t lane = 0; lane < TWO; lane++) {
        const uint32_t quadrant = (phase[lane] + 0x20000000u) >> 30;
        float s, c;
        eighth((int32_t)(phase[lane] - (quadrant << 30)), &s, &c);
        re[lane] = signed_by(quadrant + 1, quadrant & 1 ? s : c);
        im[lane] = signed_by(quadrant, quadrant & 1 ? c : s);
    }
    for (size_t half = 0; half < 2; half++, a += TWO) {
        memcpy(a, re + half * MVDR_LANES, MVDR_LANES * sizeof *a);
        memcpy(a + MVDR_LANES, im + half * MVDR_LANES, MVDR_LANES * sizeof *a);
    }
}

/* The phases of one sensor, 2^-32 turns. Integer overflow reduces them to one turn. */
MVDR_INLINE void phases(const uint64_t *turns, const uint64_t *from, uint64_t bin, int64_t offset,
                        bool beside, uint32_t phase[MVDR_LANES]) {
    for (size_t lane = 0; lane < MVDR_LANES; lane++) {
        phase[lane] = (uint32_t)((bin * turns[lane]) >> 32);
        if (beside) {
            const uint64_t apart = (uint64_t)mvdr_turns_apart(turns[lane], from[lane]);
            phase[lane] += (uint32_t)((uint64_t)offset * apart >> 24);
        }
    }
}

/* a = e^{+j 2 pi (bin + offset) turns}, zero for sensors that are not in use. An offset is a
 * fraction of a bin and multiplies whole turns, too. These are counted from the middle sensor: P
 * does not depend on the common phase. Parts of an array need the same common phase and count from
 * the array's origin. */
MVDR_INLINE void steer(const uint8_t *used, size_t sensors, size_t middle, const uint64_t *turns,
                       uint64_t bin, int64_t offset, bool beside, float *a) {
    uint64_t from[MVDR_LANES] = {0};
    uint32_t phase[TWO] = {0};
    float last[2 * TWO];
    if (beside && middle < sensors)
        memcpy(from, turns + middle * MVDR_LANES, sizeof from);
    for (size_t i = 0; i + 1 < sensors; i += 2) {
        const uint64_t *own = turns + i * MVDR_LANES;
        phases(own, from, bin, offset, beside, phase);
        phases(own + MVDR_LANES, from, bin, offset, beside, phase + MVDR_LANES);
        rotate(phase, a + i * TWO);
    }
    if (sensors % 2) {
        phases(turns + (sensors - 1) * MVDR_LANES, from, bin, offset, beside, phase);
        rotate(phase, last);
        memcpy(a + (sensors - 1) * TWO, last, TWO * sizeof *a);
    }
    for (size_t i = 0; i < sensors; i++)
        if (!used[i])
            memset(a + i * TWO, 0, TWO * sizeof *a);
}

SONAR_MULTIARCH static void steer_at_centre(const uint8_t *used, size_t sensors,
                                            const uint64_t *turns, uint64_t bin, float *a) {
    steer(used, sensors, 0, turns, bin, 0, false, a);
}

SONAR_MULTIARCH static void steer_beside(const uint8_t *used, size_t sensors, size_t middle,
                                         const uint64_t *turns, uint64_t bin, int64_t offset,
                                         float *a) {
    steer(used, sensors, middle, turns, bin, offset, true, a);
}

void mvdr_steer(const mvdr_rows *rows, size_t sensors, const uint64_t *turns, uint64_t bin,
                int64_t offset, float *a) {
    if (offset)
        steer_beside(rows->used, sensors, rows->middle, turns, bin, offset, a);
    else
        steer_at_centre(rows->used, sensors, turns, bin, a);
}

SONAR_MULTIARCH static void norms(const float *a, size_t sensors, double *norm) {
    mvdr_lanes sum = {0};
    for (size_t i = 0; i < sensors; i++) {
        mvdr_lanes re, im;
        mvdr_widen(a + 2 * i * MVDR_LANES, &re);
        mvdr_widen(a + (2 * i + 1) * MVDR_LANES, &im);
        sum += re * re;
        sum += im * im;
    }
    memcpy(norm, &sum, sizeof sum);
}

void mvdr_norms(const float *a, size_t sensors, double norm[MVDR_LANES]) {
    norms(a, sensors, norm);
}

/* The sums of one column. Each statement has one product, so that it becomes one fused
 * multiply-add. */
typedef struct sums {
    mvdr_lanes rr, ii, ri, ir;
} sums;

MVDR_INLINE void add(sums *s, double xr, double xi, const mvdr_lanes *re, const mvdr_lanes *im) {
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

/* A part of a column, converted to double. Converting the elements one by one between the products
 * takes longer than the products. */
enum { PART = 64 };

typedef struct part {
    _Alignas(64) double re[PART], im[PART];
} part;

MVDR_INLINE void widen_part(const float *x, size_t ld, size_t first, size_t count, part *to) {
    for (size_t i = 0; i < count; i++) {
        to->re[i] = (double)x[first + i];
        to->im[i] = (double)x[ld + first + i];
    }
}

SONAR_MULTIARCH static void project_one(const float *a, size_t sensors, size_t ld, const float *x,
                                        double *to) {
    sums s = {0};
    part p;
    for (size_t first = 0; first < sensors; first += PART) {
        const size_t count = sonar_min_size(PART, sensors - first);
        widen_part(x, ld, first, count, &p);
        for (size_t i = 0; i < count; i++, a += 2 * MVDR_LANES) {
            mvdr_lanes re, im;
            mvdr_widen(a, &re);
            mvdr_widen(a + MVDR_LANES, &im);
            add(&s, p.re[i], p.im[i], &re, &im);
        }
    }
    put(&s, to);
}

SONAR_MULTIARCH static void project_two(const float *a, size_t sensors, size_t ld, const float *x,
                                        const float *y, double *to, double *also) {
    sums s = {0}, t = {0};
    part p, q;
    for (size_t first = 0; first < sensors; first += PART) {
        const size_t count = sonar_min_size(PART, sensors - first);
        widen_part(x, ld, first, count, &p);
        widen_part(y, ld, first, count, &q);
        for (size_t i = 0; i < count; i++, a += 2 * MVDR_LANES) {
            mvdr_lanes re, im;
            mvdr_widen(a, &re);
            mvdr_widen(a + MVDR_LANES, &im);
            add(&s, p.re[i], p.im[i], &re, &im);
            add(&t, q.re[i], q.im[i], &re, &im);
        }
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
