/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "normalise_oracle.h"

#include <math.h>
#include <string.h>

/* The direction that the oracle's step k beyond or inside the ends comes from, and its place. */
static double place(const sonar_normalise_spec *s, ptrdiff_t k, size_t *source) {
    const ptrdiff_t n = (ptrdiff_t)s->directions;
    if (s->turn_beams > 0) {
        const ptrdiff_t turns = k < 0 ? -1 : k >= n ? 1 : 0;
        *source = (size_t)(k - turns * n);
        return s->at_beams[*source] + (double)turns * s->turn_beams;
    }
    const ptrdiff_t i = k < 0 ? -k : k >= n ? 2 * (n - 1) - k : k;
    *source = (size_t)i;
    const double end = k < 0 ? s->at_beams[0] : s->at_beams[n - 1];
    return k == i ? s->at_beams[i] : 2 * end - s->at_beams[i];
}

/* The mean around direction i; *variance is that of the mean, with one independent power a beam. */
static double mean_around(const sonar_normalise_spec *s, const double *x, size_t i,
                          double *variance) {
    const ptrdiff_t n = (ptrdiff_t)s->directions, beyond = s->turn_beams > 0 ? n : n - 1;
    double far = s->gap_beams + s->window_beams, total = 0, weight = 0;
    double own[NORMALISE_ORACLE_MOST] = {0}, seen[NORMALISE_ORACLE_MOST] = {0};
    if (s->turn_beams > 0)
        far = fmin(far, s->turn_beams / 2);
    for (ptrdiff_t k = -beyond; k < n + beyond; k++) {
        size_t source, other;
        const double at = place(s, k, &source), off = at - s->at_beams[i];
        const bool in =
            off < 0 ? off >= -far && off < -s->gap_beams : off >= s->gap_beams && off < far;
        const ptrdiff_t low = k > -beyond ? k - 1 : k, high = k + 1 < n + beyond ? k + 1 : k;
        const double w = (place(s, high, &other) - place(s, low, &other)) / (double)(high - low);
        if (k >= 0 && k < n)
            own[source] = w;
        seen[source] += in ? w : 0;
        total += in ? w * x[source] : 0;
        weight += in ? w : 0;
    }
    *variance = 0;
    for (size_t j = 0; j < s->directions; j++)
        *variance += seen[j] * seen[j] / own[j] / (weight * weight);
    return total / weight;
}

void normalise_oracle(const sonar_normalise_spec *s, double averages, const float *power,
                      double *ratio) {
    double x[NORMALISE_ORACLE_MOST] = {0}, clipped[NORMALISE_ORACLE_MOST], variance;
    for (size_t i = 0; i < s->directions; i++)
        x[i] = (double)power[i];
    memcpy(clipped, x, sizeof x);
    for (int pass = 0; pass < 4; pass++) {
        double mean[NORMALISE_ORACLE_MOST];
        for (size_t i = 0; i < s->directions; i++)
            mean[i] = mean_around(s, clipped, i, &variance);
        for (size_t i = 0; i < s->directions; i++)
            if (clipped[i] > sonar_normalise_clip(averages) * mean[i])
                clipped[i] = mean[i];
    }
    for (size_t i = 0; i < s->directions; i++) {
        const double m = mean_around(s, clipped, i, &variance);
        ratio[i] = x[i] / m * sonar_normalise_bias(averages) / (1 + variance / averages);
    }
}
