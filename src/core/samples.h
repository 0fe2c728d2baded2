/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples of one channel. Any thread; no allocation. */
#ifndef SONAR_SAMPLES_H
#define SONAR_SAMPLES_H

#include "core/core.h"

/* Copies the first `count` samples of a channel as floats. in: the samples, s16 or f32,
 * [channel][sample], in two parts one after the other; a part without channels is left out. */
void sonar_samples_gather(const sonar_buffer in[2], size_t channel, size_t count, float *x);
/* The sum, in eight running sums: they use the vector unit, and their order is fixed. */
double sonar_samples_sum(const float *x, size_t count);

#endif
