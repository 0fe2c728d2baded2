/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the beamformer's paths on the CPU share. */
#ifndef SONAR_CBF_CPU_H
#define SONAR_CBF_CPU_H

#include <stddef.h>
#include <stdint.h>

/* exp(+j 2 pi bin turns[k]) of n turns into re and im, accurate to float32 rounding. Any thread. */
void sonar_cbf_steer(const uint64_t *turns, size_t n, uint64_t bin, float *re, float *im);

#endif
