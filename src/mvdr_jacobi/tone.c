/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How a window function spreads a tone over two neighbouring bins. */
#include "mvdr_jacobi/tone.h"

#include <string.h>

/* Transform of the window function about its middle, `offset` bins from the tone. */
static double transform(const double *window, size_t n, double offset) {
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += window[i] * cos(2 * M_PI * offset * ((double)i / (double)n - 0.5));
    return sum;
}

/* The angle of (W(o), W(o - 1)) turns on with o as long as the ratio names one offset only. */
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
    double square = 0, shifted = 0, before = 0;
    for (size_t i = 0; i < n; i++) {
        square += window[i] * window[i];
        shifted += window[i] * window[i] * cos(2 * M_PI * ((double)i / (double)n - 0.5));
    }
    *tones = (sonar_mvdr_tones){.correlation = shifted / square};
    for (size_t i = 0; i < SONAR_MVDR_TONE_ANGLES; i++) {
        const double offset = ((double)i + 0.5) / SONAR_MVDR_TONE_STEPS - SONAR_MVDR_TONE_REACH;
        double angle = atan2(transform(window, n, offset - 1), transform(window, n, offset));
        angle -= i ? M_PI * round((angle - before) / M_PI) : 0; /* signs do not matter */
        tones->angle[i] = (float)(before = angle);
    }
    find_reach(tones);
}
