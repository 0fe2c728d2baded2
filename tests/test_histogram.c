/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

#include "core/histogram.h"
#include "core/random.h"

static int ascending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

Test(histogram, percentiles_against_sorting) {
    static uint64_t value[5000];
    uint64_t seed = 7;
    for (int count = 1; count <= 5000; count = count * 3 + 1) {
        sonar_histogram *histogram = calloc(1, sizeof *histogram);
        sonar_histogram_seen *seen = calloc(1, sizeof *seen);
        sonar_percentiles got;
        for (int i = 0; i < count; i++) {
            value[i] = (uint64_t)exp(30 * sonar_random_uniform(&seed));
            sonar_histogram_add(histogram, value[i]);
        }
        qsort(value, (size_t)count, sizeof value[0], ascending);
        sonar_histogram_read(histogram, seen, &got);
        const double share[] = {0.5, 0.99, 1.0};
        for (int k = 0; k < 3; k++) {
            double exact_us = (double)value[(int)ceil(share[k] * count) - 1] * 1e-3;
            cr_expect(got.last_us[k] >= exact_us && got.last_us[k] <= exact_us * 1.0626 + 1e-9,
                      "%g of %d: %g us, exact %g", share[k], count, got.last_us[k], exact_us);
        }
        cr_expect_eq(got.last_us[2], (double)value[count - 1] * 1e-3);
        double sum_s = 0;
        for (int edge = 0; edge < SONAR_HISTOGRAM_EDGES; edge++) {
            uint64_t below = 0;
            for (int i = 0; i < count; i++)
                below += value[i] < (uint64_t)1 << (edge + SONAR_HISTOGRAM_FIRST_EDGE);
            cr_expect_eq(got.below[edge], below, "edge %d of %d", edge, count);
        }
        for (int i = 0; i < count; i++)
            sum_s += (double)value[i] * 1e-9;
        cr_expect_eq(got.count, (uint64_t)count);
        cr_expect_float_eq(got.sum_s, sum_s, 1e-9 * sum_s);
        free(histogram);
        free(seen);
    }
}

Test(histogram, percentiles_are_within_a_sixteenth_from_above) {
    static sonar_histogram histogram;
    static sonar_histogram_seen seen;
    sonar_percentiles time;
    sonar_histogram_read(&histogram, &seen, &time);
    cr_assert(isnan(time.all_us[0]) && isnan(time.last_us[2]));
    for (uint64_t ns = 1; ns <= 1000000; ns += 7)
        sonar_histogram_add(&histogram, ns);
    sonar_histogram_read(&histogram, &seen, &time);
    cr_expect(time.all_us[0] >= 499.9 && time.all_us[0] <= 500 * 1.07, "%g", time.all_us[0]);
    cr_expect(time.all_us[1] >= 989.9 && time.all_us[1] <= 1000, "%g", time.all_us[1]);
    cr_expect_float_eq(time.all_us[2], 999.995, 0.01);
    const uint64_t odd[] = {0, 1, 15, 16, 17, 31, 32, 33, 1023, 1024, 123456789, UINT64_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        sonar_histogram_add(&histogram, odd[i]);
        sonar_histogram_read(&histogram, &seen, &time);
        double us = (double)odd[i] * 1e-3;
        if (odd[i] < UINT64_MAX)
            cr_expect(time.last_us[0] >= us && time.last_us[0] <= us * 1.0626 + 1e-9, "%g for %g",
                      time.last_us[0], us);
        else
            cr_expect(isfinite(time.last_us[0]));
    }
}

/* The maximum of an hour ago is not that of the last second. */
Test(histogram, the_maximum_restarts_with_each_reading) {
    static sonar_histogram histogram;
    static sonar_histogram_seen seen;
    sonar_percentiles time;
    sonar_histogram_add(&histogram, 5000000);
    sonar_histogram_read(&histogram, &seen, &time);
    sonar_histogram_add(&histogram, 3000);
    sonar_histogram_read(&histogram, &seen, &time);
    cr_expect_eq(time.last_us[2], 3);
    cr_expect_eq(time.all_us[2], 5000);
    sonar_histogram_read(&histogram, &seen, &time);
    cr_expect(isnan(time.last_us[2]));
    cr_expect_eq(time.all_us[2], 5000);
}
