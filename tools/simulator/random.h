/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Random numbers from core/random.h. Sample i of a stream is a function of (seed, stream, i) alone,
 * so that block sizes, frame sizes and the order of calls change no sample. */
#ifndef SIM_RANDOM_H
#define SIM_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Families of streams; the number within the family is added. */
typedef enum sim_stream {
    SIM_STREAM_SOURCE = 1,
    SIM_STREAM_NOISE,
    SIM_STREAM_NOISY,
    SIM_STREAM_ISOTROPIC,
    SIM_STREAM_GAIN,
    SIM_STREAM_PHASE,
    SIM_STREAM_FAULT
} sim_stream;

/* The key of a stream. */
uint64_t sim_random_key(uint64_t seed, sim_stream family, uint64_t number);
/* Uniform in [0, 1). */
double sim_random_uniform(uint64_t key, uint64_t index);
/* Independent standard normal values at indices first .. first + count - 1. */
void sim_random_normal(uint64_t key, int64_t first, size_t count, float *to);

#endif
