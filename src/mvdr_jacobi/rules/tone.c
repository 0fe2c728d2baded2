/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How a window function spreads a tone over two neighbouring bins. */
#include "mvdr_jacobi/rules/tone.h"

#include <string.h>

enum {
    LANES = 8,
    /* offsets of the table, and the same offsets one bin lower */
    OFFSETS = SONAR_MVDR_TONE_ANGLES + SONAR_MVDR_TONE_STEPS,
    BLOCKS = (OFFSETS + LANES - 1) / LANES
};
typedef double lanes __attribute__((vector_size(LANES * sizeof(double))));

/* The window function's transform about its middle, at LANES offsets from `first` on. The cosines
 * are rotated from sample to sample: calling cos for each took most of the time of a
 * configuration's check. */
static void transform(const double *window, size_t n, size_t first, double at[LANES]) {
    lanes re, im, turn_re, turn_im, sum = {0};
    for (size_t i = 0; i < LANES; i++) {
        const double offset =
            ((double)(first + i) + 0.5) / SONAR_MVDR_TONE_STEPS - SONAR_MVDR_TONE_REACH - 1;
        re[i] = cos(M_PI * offset);
        im[i] = -sin(M_PI * offset);
        turn_re[i] = cos(2 * M_PI * offset / (double)n);
        turn_im[i] = sin(2 * M_PI * offset / (double)n);
    }
    for (size_t sample = 0; sample < n; sample++) {
        const lanes before = re;
        sum += window[sample] * before;
        re = before * turn_re - im * turn_im;
        im = before * turn_im + im * turn_re;
    }
    for (size_t i = 0; i < LANES; i++)
        at[i] = sum[i];
}

/* Finds the range of offsets around 0 where the angle of (W(o), W(o - 1)) grows with o by less than
 * half a turn. There the ratio determines the offset. */
static void find_reach(sonar_mvdr_tones *tones) {
    const float *angle = tones->angle;
    const float least = 1e-5f, half_turn = 3.14f;
    size_t low = SONAR_MVDR_TONE_ANGLES / 2, high = low;
    bool more = true;
    while (more) {
        const bool down = low > 0 && angle[low] - angle[low - 1] > least &&
                          angle[high] - angle[low - 1] < half_turn;
        low -= down;
        const bool up = high + 1 < SONAR_MVDR_TONE_ANGLES &&
                        angle[high + 1] - angle[high] > least &&
                        angle[high + 1] - angle[low] < half_turn;
        high += up;
        more = down || up;
    }
    tones->first = low;
    tones->count = high - low + 1;
}

void sonar_mvdr_tones_make(const double *window, size_t n, sonar_mvdr_tones *tones) {
    double square = 0, shifted = 0, before = 0, at[BLOCKS * LANES];
    for (size_t i = 0; i < n; i++) {
        square += window[i] * window[i];
        shifted += window[i] * window[i] * cos(2 * M_PI * ((double)i / (double)n - 0.5));
    }
    *tones = (sonar_mvdr_tones){.correlation = shifted / square};
    for (size_t block = 0; block < BLOCKS; block++)
        transform(window, n, block * LANES, at + block * LANES);
    for (size_t i = 0; i < SONAR_MVDR_TONE_ANGLES; i++) {
        double angle = atan2(at[i], at[i + SONAR_MVDR_TONE_STEPS]);
        angle -= i ? M_PI * round((angle - before) / M_PI) : 0; /* signs do not matter */
        tones->angle[i] = (float)(before = angle);
    }
    find_reach(tones);
}
