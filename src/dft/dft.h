/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DFT stage. The contract is in sonar/stages.h; this header has what the configuration, the
 * backends and their tests need besides. Pure functions, any thread. */
#ifndef SONAR_DFT_H
#define SONAR_DFT_H

#include "sonar/backend.h"
#include "sonar/stages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Periodic (DFT-even) taper of n points into w, in double precision (Harris 1978). */
void sonar_dft_taper(sonar_taper kind, double kaiser_beta, size_t n, double *w);

/* SONAR_EINVAL for a specification that no backend supports. */
sonar_code sonar_dft_check(const sonar_dft_spec *spec, sonar_error *err);

/* Bytes that the CPU's stage allocates itself; FFTW's plan takes more. */
double sonar_dft_bytes(const sonar_dft_spec *spec, size_t workers);

/* GPU memory that the stage takes, approximately: the size of cuFFT's work area is known only to
 * cuFFT. */
double sonar_dft_device_bytes(const sonar_dft_spec *spec);

/* Lengths that the GPU's own kernel transforms: powers of two in this range. */
enum { SONAR_DFT_FUSED_LEAST = 256, SONAR_DFT_FUSED_MOST = 32768 };
/* Sensors that cuFFT transforms at a time. Batches are equal, so that one plan serves all. */
size_t sonar_dft_batch(const sonar_dft_spec *spec);

extern const sonar_stage_ops sonar_dft_cpu;
extern const sonar_stage_ops sonar_dft_cuda; /* in the CUDA plugin only */

#ifdef __cplusplus
}
#endif

#endif
