/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The median compared with sorting. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "core/random.h"

enum { MOST = 129 };

static int by_value(const void *a, const void *b) {
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

Test(median, is_the_middle_of_the_sorted_values) {
    uint64_t seed = 1;
    for (int trial = 0; trial < 4000; trial++) {
        float value[MOST], sorted[MOST];
        const size_t n = 1 + sonar_random_bits(&seed) % MOST;
        const uint64_t distinct =
            1 + sonar_random_bits(&seed) % 200; /* often with many equal ones */
        for (size_t i = 0; i < n; i++)
            value[i] = sorted[i] = (float)(sonar_random_bits(&seed) % distinct) - 50;
        qsort(sorted, n, sizeof *sorted, by_value);
        const float middle = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
        cr_assert_eq(sonar_median(value, n), middle, "of %zu", n);
        qsort(value, n, sizeof *value, by_value);
        cr_assert_eq(memcmp(value, sorted, n * sizeof *value), 0, "values were lost");
    }
}
