/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Steering at directions off the grid; the contract is in sonar/stages.h. */
#ifndef SONAR_STEER_H
#define SONAR_STEER_H

#include "sonar/backend.h"
#include "sonar/stages.h"

#ifdef __cplusplus
extern "C" {
#endif

/* SONAR_EINVAL for a specification or shapes that no backend supports. Pure, any thread. */
sonar_code sonar_steer_check(const sonar_steer_spec *spec, sonar_error *err);
sonar_code sonar_steer_check_shapes(const sonar_steer_spec *spec, const sonar_buffer *looks,
                                    const sonar_buffer *turns, const sonar_work *work,
                                    sonar_error *err);

/* GPU memory that the stage takes: the positions. */
static inline double sonar_steer_device_bytes(const sonar_steer_spec *spec) {
    return 3 * sizeof(double) * (double)spec->sensors;
}

extern const sonar_stage_ops sonar_steer_cpu;
extern const sonar_stage_ops sonar_steer_cuda; /* in the CUDA plugin only */

#ifdef __cplusplus
}
#endif

#endif
