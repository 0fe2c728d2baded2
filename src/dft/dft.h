/* SPDX-License-Identifier: GPL-3.0-or-later */
/* DFT stage: sonar/stages.h is its contract; here is what the configuration, the backends and
 * their tests need besides. Pure functions, any thread. */
#ifndef SONAR_DFT_H
#define SONAR_DFT_H

#include "sonar/backend.h"
#include "sonar/stages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Periodic (DFT-even) taper of n points into w, in double precision (Harris 1978). */
void sonar_dft_taper(sonar_taper kind, double kaiser_beta, size_t n, double *w);

/* SONAR_EINVAL for a specification no backend can meet. */
sonar_code sonar_dft_check(const sonar_dft_spec *spec, sonar_error *err);

extern const sonar_stage_ops sonar_dft_cpu;
extern const sonar_stage_ops sonar_dft_cuda; /* in the CUDA plugin only */

#ifdef __cplusplus
}
#endif

#endif
