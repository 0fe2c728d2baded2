/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Conventional beamformer: sonar/stages.h is its contract; here is what the configuration, the
 * backends and their tests need besides. Pure functions, any thread. */
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

/* Weights of n equally spaced elements, largest 1, into g. SONAR_EINVAL for a side-lobe level or
 * nbar the design cannot have. */
sonar_code sonar_cbf_shading(sonar_shading kind, double sidelobe_db, int nbar, size_t n, double *g,
                             sonar_error *err);

/* SONAR_EINVAL for a specification no backend can meet. */
sonar_code sonar_cbf_check(const sonar_cbf_spec *spec, sonar_error *err);

/* The live members of a specification take those of the parameters. SONAR_EINVAL for a band that
 * its bins do not have; it is then as it was. */
sonar_code sonar_cbf_renew(sonar_cbf_spec *spec, const sonar_params *params, bool *changed,
                           sonar_error *err);

/* Does the table have the specification's directions and sensors, and turns for its bins? */
bool sonar_cbf_takes(const sonar_cbf_spec *spec, const sonar_manifold *manifold, size_t ranges);

/* The surfaces that a call makes. */
typedef struct sonar_cbf_wanted {
    bool azimuth, nearfield, lofar;
} sonar_cbf_wanted;

sonar_cbf_wanted sonar_cbf_wanted_of(const sonar_cbf_spec *spec, const sonar_work *work);
/* SONAR_EINVAL for buffers or tables that are not those of the contract. In which memory the
 * buffers are is the backend's to check. */
sonar_code sonar_cbf_check_shapes(const sonar_cbf_spec *spec, const sonar_buffer *in,
                                  const sonar_buffer *out, const sonar_work *work,
                                  sonar_error *err);

/* The same of an evaluation after an execute that was given `in`. */
sonar_code sonar_cbf_check_points(const sonar_cbf_spec *spec, const sonar_buffer *in,
                                  const sonar_buffer *turns, const sonar_buffer *power,
                                  sonar_error *err);

/* Memory that the stage takes of a GPU, about: a part goes by its multiprocessors. */
double sonar_cbf_device_bytes(const sonar_cbf_spec *spec);

extern const sonar_stage_ops sonar_cbf_cpu;
extern const sonar_stage_ops sonar_cbf_cuda; /* in the CUDA plugin only */

#ifdef __cplusplus
}
#endif

#endif
