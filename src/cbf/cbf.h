/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conventional beamformer. The contract is in sonar/stages.h; this header has what the
 * configuration, the backends and their tests need besides. Pure functions, any thread. */
#ifndef SONAR_CBF_H
#define SONAR_CBF_H

#include "sonar/backend.h"
#include "sonar/stages.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum sonar_shading {
    SONAR_SHADING_UNIFORM = 0,
    SONAR_SHADING_HANN,
    SONAR_SHADING_CHEBYSHEV, /* Dolph 1946: equal side lobes at -sidelobe_db */
    SONAR_SHADING_TAYLOR     /* Taylor 1955: nbar side lobes at -sidelobe_db */
} sonar_shading;

/* Weights of n equally spaced elements into g, the largest 1. SONAR_EINVAL for a side-lobe level or
 * nbar with which the design does not exist. */
sonar_code sonar_cbf_shading(sonar_shading kind, double sidelobe_db, int nbar, size_t n, double *g,
                             sonar_error *err);

/* SONAR_EINVAL for a specification that no backend supports. */
sonar_code sonar_cbf_check(const sonar_cbf_spec *spec, sonar_error *err);

/* Sets the live members of a specification to those of the parameters. SONAR_EINVAL, and no change,
 * for a band outside the specification's bins. */
sonar_code sonar_cbf_renew(sonar_cbf_spec *spec, const sonar_params *params, bool *changed,
                           sonar_error *err);

/* True if the table has the specification's directions and sensors, and turns for its bins. */
bool sonar_cbf_takes(const sonar_cbf_spec *spec, const sonar_manifold *manifold, size_t ranges);

/* The surfaces that a call makes. */
typedef struct sonar_cbf_wanted {
    bool azimuth, nearfield, lofar;
} sonar_cbf_wanted;

sonar_cbf_wanted sonar_cbf_wanted_of(const sonar_cbf_spec *spec, const sonar_work *work);
/* SONAR_EINVAL for buffers or tables that do not match the contract. Each backend checks itself in
 * which memory the buffers are. */
sonar_code sonar_cbf_check_shapes(const sonar_cbf_spec *spec, const sonar_buffer *in,
                                  const sonar_buffer *out, const sonar_work *work,
                                  sonar_error *err);

/* The same for an evaluation after an execute that was given `in`. */
sonar_code sonar_cbf_check_points(const sonar_cbf_spec *spec, const sonar_buffer *in,
                                  const sonar_buffer *turns, const sonar_buffer *power,
                                  sonar_error *err);

/* Bytes that the CPU's stage allocates. */
double sonar_cbf_bytes(const sonar_cbf_spec *spec, size_t workers);

/* GPU memory that the stage takes, approximately: a part depends on the number of
 * multiprocessors. */
double sonar_cbf_device_bytes(const sonar_cbf_spec *spec);

extern const sonar_stage_ops sonar_cbf_cpu;
extern const sonar_stage_ops sonar_cbf_cuda; /* in the CUDA plugin only */

#ifdef __cplusplus
}
#endif

#endif
