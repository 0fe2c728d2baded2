/* SPDX-License-Identifier: GPL-3.0-or-later */
/* MVDR stage. sonar/stages.h is its contract; this header has what the configuration, the
 * parameters, the backends and their tests need in addition. Pure functions, any thread. */
#ifndef SONAR_MVDR_JACOBI_H
#define SONAR_MVDR_JACOBI_H

#include "sonar/backend.h"
#include "sonar/stages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills `tones` from a periodic window function of n points. A few hundred points describe a longer
 * window well enough. */
void sonar_mvdr_tones_make(const double *window, size_t n, sonar_mvdr_tones *tones);

/* Bytes that the CPU's stage allocates. */
double sonar_mvdr_bytes(const sonar_mvdr_spec *spec, size_t workers);

/* Bytes that the GPU's stage allocates. */
double sonar_mvdr_device_bytes(const sonar_mvdr_spec *spec);

/* The path (route.h) of a full block of which only the spectrum is wanted, as a number. `host` has
 * the choices by name; it may be NULL. */
uint32_t sonar_mvdr_path(const sonar_mvdr_spec *spec, bool on_gpu, const sonar_host *host);
/* The path of a bin with this value of SONAR_MVDR_ROUTE. */
uint32_t sonar_mvdr_path_by(const sonar_mvdr_spec *spec, uint32_t route);
/* The path as text: the matrix, the loading rule or "dmr", and the route, as in
 * "sensor/noise/median". Empty if no bin has been solved. */
enum { SONAR_MVDR_PATH_BYTES = 48, SONAR_MVDR_ROUTES_MOST = 16 };
void sonar_mvdr_path_text(uint32_t path, char text[SONAR_MVDR_PATH_BYTES]);

extern const sonar_stage_ops sonar_mvdr_jacobi_cpu;

#ifdef __cplusplus
}
#endif

#endif
