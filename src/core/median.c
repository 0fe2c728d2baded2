/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

static void swap(float *a, float *b) {
    const float kept = *a;
    *a = *b;
    *b = kept;
}

static float largest(const float *value, size_t n) {
    float most = value[0];
    for (size_t i = 1; i < n; i++)
        most = value[i] > most ? value[i] : most;
    return most;
}

/* Quickselect (Hoare 1961); qsort may allocate. Values before the index are not larger than the
 * median. */
float sonar_median(float *value, size_t n) {
    ptrdiff_t low = 0, high = (ptrdiff_t)n - 1;
    const ptrdiff_t wanted = (ptrdiff_t)n / 2;
    while (low < high) {
        const float pivot = value[low + (high - low) / 2];
        ptrdiff_t i = low, j = high;
        while (i <= j) {
            while (value[i] < pivot)
                i++;
            while (value[j] > pivot)
                j--;
            if (i <= j)
                swap(&value[i++], &value[j--]);
        }
        if (wanted <= j)
            high = j;
        else if (wanted >= i)
            low = i;
        else
            break;
    }
    const float upper = value[wanted];
    return n % 2 ? upper : (largest(value, (size_t)wanted) + upper) / 2;
}
