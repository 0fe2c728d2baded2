/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "random.h"

#include <math.h>

#include "core/random.h"

uint64_t sim_random_key(uint64_t seed, sim_stream family, uint64_t number) {
    return sonar_random_at(sonar_random_at(sonar_random_mix(seed), (uint64_t)family), number);
}

double sim_random_uniform(uint64_t key, uint64_t index) {
    return (double)(sonar_random_at(key, index) >> 11) * 0x1p-53;
}

/* Box-Muller: one hash gives the values of an even index and of its odd neighbour. */
static void normal_pair(uint64_t key, int64_t pair, float value[2]) {
    uint64_t bits = sonar_random_at(key, (uint64_t)pair);
    double radius = sqrt(-2 * log(((double)(bits >> 32) + 1) * 0x1p-32));
    double angle = 2 * M_PI * 0x1p-32 * (double)(bits & UINT32_MAX);
    value[0] = (float)(radius * cos(angle));
    value[1] = (float)(radius * sin(angle));
}

void sim_random_normal(uint64_t key, int64_t first, size_t count, float *to) {
    float value[2] = {0};
    for (size_t i = 0; i < count; i++) {
        int64_t index = first + (int64_t)i;
        bool odd = index & 1;
        if (!odd || i == 0)
            normal_pair(key, (index - odd) / 2, value);
        to[i] = value[odd];
    }
}
