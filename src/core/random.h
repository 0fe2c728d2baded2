/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The only generator of random numbers, SplitMix64 (Steele, Lea, Flood 2014), for test data and
 * simulated noise; it gives the same numbers on every machine and is not fit for secrets. A stream
 * is identified by its key; value i is a function of key and i alone. A caller that draws in
 * sequence keeps a state, which starts as the key. Any thread, each with its own state. */
#ifndef SONAR_CORE_RANDOM_H
#define SONAR_CORE_RANDOM_H

#include <math.h>
#include <stdint.h>

/* kernels on the GPU use it too */
#ifdef __CUDACC__
#define SONAR_RANDOM_BOTH __host__ __device__
#else
#define SONAR_RANDOM_BOTH
#endif

#define SONAR_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

/* The finaliser: similar inputs give unrelated outputs. */
SONAR_RANDOM_BOTH static inline uint64_t sonar_random_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 64 random bits: value `index` of the stream `key`. */
SONAR_RANDOM_BOTH static inline uint64_t sonar_random_at(uint64_t key, uint64_t index) {
    return sonar_random_mix(key + (index + 1) * SONAR_RANDOM_STEP);
}

/* The next 64 bits. */
static inline uint64_t sonar_random_bits(uint64_t *state) {
    return sonar_random_mix(*state += SONAR_RANDOM_STEP);
}

/* Uniform in (0, 1): never 0, so that its logarithm exists. */
static inline double sonar_random_uniform(uint64_t *state) {
    return ((double)(sonar_random_bits(state) >> 12) + 0.5) * 0x1p-52;
}

/* Uniform in (-1, 1). */
static inline double sonar_random_symmetric(uint64_t *state) {
    return 2 * sonar_random_uniform(state) - 1;
}

/* Mean 0, variance 1 (Box and Muller 1958). */
static inline double sonar_random_normal(uint64_t *state) {
    double radius = sqrt(-2 * log(sonar_random_uniform(state)));
    return radius * cos(M_PI * sonar_random_symmetric(state));
}

#endif
