/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "random.h"

#include <math.h>

/* The finaliser of SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t sim_random_bits(uint64_t key, uint64_t index) {
    return mix(key + (index + 1) * UINT64_C(0x9e3779b97f4a7c15));
}

uint64_t sim_random_key(uint64_t seed, sim_stream family, uint64_t number) {
    return sim_random_bits(sim_random_bits(mix(seed), (uint64_t)family), number);
}

double sim_random_uniform(uint64_t key, uint64_t index) {
    return (double)(sim_random_bits(key, index) >> 11) * 0x1p-53;
}

/* Box-Muller: one hash gives the values of an even index and of its odd neighbour. */
static void normal_pair(uint64_t key, int64_t pair, float value[2]) {
    uint64_t bits = sim_random_bits(key, (uint64_t)pair);
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
