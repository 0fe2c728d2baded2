/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "normalise_oracle.h"

#include <math.h>
#include <stdlib.h>

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

/* The mean around direction i of what does not exceed `most`; *variance is that of a mean of all,
 * with one independent power a beam. `in_windows` gets the powers there, *count of them. */
static double mean_around(const sonar_normalise_spec *s, const double *x, size_t i, double most,
                          double *variance, double *in_windows, size_t *count) {
    const ptrdiff_t n = (ptrdiff_t)s->directions, beyond = s->turn_beams > 0 ? n : n - 1;
    double far = s->gap_beams + s->window_beams, total = 0, counted = 0, weight = 0;
    double own[NORMALISE_ORACLE_MOST] = {0}, seen[NORMALISE_ORACLE_MOST] = {0};
    if (s->turn_beams > 0)
        far = fmin(far, s->turn_beams / 2);
    *count = 0;
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
        weight += in ? w : 0;
        total += in && x[source] <= most ? w * x[source] : 0;
        counted += in && x[source] <= most ? w : 0;
        if (in)
            in_windows[(*count)++] = x[source];
    }
    *variance = 0;
    for (size_t j = 0; j < s->directions; j++)
        *variance += seen[j] * seen[j] / own[j] / (weight * weight);
    return total / counted;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of what exceeds the median around the direction no more than noise would. */
static double order_truncate_average(const sonar_normalise_spec *s, const double *x, size_t i,
                                     double averages, double *variance) {
    double sorted[3 * NORMALISE_ORACLE_MOST], unused[3 * NORMALISE_ORACLE_MOST];
    size_t n, again;
    mean_around(s, x, i, INFINITY, variance, sorted, &n);
    qsort(sorted, n, sizeof *sorted, by_value);
    const double median = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    const double most = sonar_normalise_clip(averages) / pow(1 - 1 / (9 * averages), 3) * median;
    return mean_around(s, x, i, most, variance, unused, &again);
}

static void clip(const sonar_normalise_spec *s, double averages, double *x) {
    double mean[NORMALISE_ORACLE_MOST], unused[3 * NORMALISE_ORACLE_MOST], variance;
    size_t count;
    for (size_t i = 0; i < s->directions; i++)
        mean[i] = mean_around(s, x, i, INFINITY, &variance, unused, &count);
    for (size_t i = 0; i < s->directions; i++)
        if (x[i] > sonar_normalise_clip(averages) * mean[i])
            x[i] = mean[i];
}

void normalise_oracle(const sonar_normalise_spec *s, double averages, const float *power,
                      double *ratio) {
    static const int means[SONAR_NORMALISERS] = {
        [SONAR_TWO_PASS] = 2, [SONAR_THREE_PASS] = 3, [SONAR_FIVE_PASS] = 5};
    double x[NORMALISE_ORACLE_MOST] = {0}, unused[3 * NORMALISE_ORACLE_MOST], variance;
    size_t count;
    for (size_t i = 0; i < s->directions; i++)
        x[i] = (double)power[i];
    for (int pass = 1; pass < means[s->method]; pass++)
        clip(s, averages, x);
    for (size_t i = 0; i < s->directions; i++) {
        const double m = s->method == SONAR_ORDER_TRUNCATE_AVERAGE
                             ? order_truncate_average(s, x, i, averages, &variance)
                             : mean_around(s, x, i, INFINITY, &variance, unused, &count);
        ratio[i] =
            (double)power[i] / m * sonar_normalise_bias(averages) / (1 + variance / averages);
    }
}
