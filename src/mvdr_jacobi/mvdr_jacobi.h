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

/* Bytes that the CPU's stage allocates. */
double sonar_mvdr_bytes(const sonar_mvdr_spec *spec, size_t workers);

/* Bytes that the GPU's stage allocates, and about what cuSOLVER takes where it is chosen. */
double sonar_mvdr_device_bytes(const sonar_mvdr_spec *spec);

/* What it takes besides, where training chose cuSOLVER for eigenvectors; 0: it needs none, or that
 * is counted already. */
double sonar_mvdr_library_bytes(const sonar_mvdr_spec *spec);

/* Which way the bins of a window go (route.h), as a number: that of a full block whose spectrum is
 * wanted and nothing else. `host`: for its choices, or NULL.
 */
uint32_t sonar_mvdr_path(const sonar_mvdr_spec *spec, bool on_gpu, const sonar_host *host);
/* By SONAR_MVDR_ROUTE of a bin. */
uint32_t sonar_mvdr_path_by(const sonar_mvdr_spec *spec, uint32_t route);
/* "sensor/noise/median": what the matrix is of, the loading rule or dmr, the route. Empty where
 * no bin has been solved. */
enum { SONAR_MVDR_PATH_BYTES = 48, SONAR_MVDR_ROUTES_MOST = 16 };
void sonar_mvdr_path_text(uint32_t path, char text[SONAR_MVDR_PATH_BYTES]);

extern const sonar_stage_ops sonar_mvdr_jacobi_cpu;

#ifdef __cplusplus
}
#endif

#endif
