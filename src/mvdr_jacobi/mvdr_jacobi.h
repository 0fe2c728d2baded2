/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MVDR stage: sonar/stages.h is its contract; here is what the configuration, the parameters, the
 * backends and their tests need besides. Pure functions, any thread. */
#ifndef SONAR_MVDR_JACOBI_H
#define SONAR_MVDR_JACOBI_H

#include "sonar/backend.h"
#include "sonar/stages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* From a periodic window of n points; a few hundred are enough for a longer one. */
void sonar_mvdr_tones_make(const double *window, size_t n, sonar_mvdr_tones *tones);

/* Memory that the CPU's stage takes, about. */
double sonar_mvdr_bytes(const sonar_mvdr_spec *spec, size_t workers);

/* Memory that the GPU's stage takes of it, about. */
double sonar_mvdr_device_bytes(const sonar_mvdr_spec *spec);

/* What it takes besides, where training chose cuSOLVER for eigenvectors; 0: it needs none, or that
 * is counted already. */
double sonar_mvdr_library_bytes(const sonar_mvdr_spec *spec);

extern const sonar_stage_ops sonar_mvdr_jacobi_cpu;

#ifdef __cplusplus
}
#endif

#endif
