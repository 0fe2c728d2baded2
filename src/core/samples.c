/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/samples.h"

#include <string.h>

SONAR_MULTIARCH static void widen(const int16_t *from, size_t n, float *to) {
    for (size_t i = 0; i < n; i++)
        to[i] = from[i];
}

void sonar_samples_gather(const sonar_buffer in[2], size_t channel, size_t count, float *x) {
    for (int part = 0; part < 2; part++) {
        const size_t n = in[part].shape[0] ? sonar_min_size(in[part].shape[1], count) : 0;
        const ptrdiff_t row = (ptrdiff_t)channel * in[part].stride[0];
        if (n && in[part].dtype == SONAR_S16)
            widen((const int16_t *)in[part].data + row, n, x);
        else if (n)
            memcpy(x, (const float *)in[part].data + row, n * sizeof *x);
        x += n;
        count -= n;
    }
}

SONAR_MULTIARCH static double sum_of(const float *x, size_t n) {
    double sum[8] = {0}, rest = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (size_t j = 0; j < 8; j++)
            sum[j] += (double)x[i + j];
    for (; i < n; i++)
        rest += (double)x[i];
    for (size_t j = 0; j < 8; j++)
        rest += sum[j];
    return rest;
}

double sonar_samples_sum(const float *x, size_t count) {
    return sum_of(x, count);
}
