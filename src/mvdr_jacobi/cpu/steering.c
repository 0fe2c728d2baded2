/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Sensor space: steering vectors in float, eight directions at a time, one in each vector lane. */
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
    memset(norm, 0, MVDR_LANES * sizeof *norm);
    for (size_t i = 0; i < 2 * sensors; i++, a += MVDR_LANES)
        for (size_t lane = 0; lane < MVDR_LANES; lane++)
            norm[lane] += (double)a[lane] * (double)a[lane];
}

void mvdr_norms(const float *a, size_t sensors, double norm[MVDR_LANES]) {
    norms(a, sensors, norm);
}
