/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Arrays that are symmetric about the reference point, for forward-backward averaging. The
 * functions are in a header, so that a plugin need not compile a file of libsonar. */
#ifndef SONAR_MIRROR_H
#define SONAR_MIRROR_H

#include "sonar/sonar.h"

#include <math.h>

/* Positions count as mirrored within a millionth of the array's largest extent from the reference
 * point. */
static inline double sonar_mirror_tolerance_m(const sonar_params *params) {
    double reach = 0;
    for (size_t i = 0; i < 3 * params->sensors; i++)
        reach = fmax(reach, fabs(params->position_m[i]));
    return 1e-6 * reach + 1e-9;
}

/* The sensor at minus this one's position, if both are used; else params->sensors. */
static inline size_t sonar_mirror_of(const sonar_params *params, size_t sensor,
                                     double tolerance_m) {
    const double *p = params->position_m + 3 * sensor;
    for (size_t j = 0; params->used[sensor] && j < params->sensors; j++) {
        const double *q = params->position_m + 3 * j;
        if (hypot(hypot(p[0] + q[0], p[1] + q[1]), p[2] + q[2]) <= tolerance_m)
            return params->used[j] ? j : params->sensors;
    }
    return params->sensors;
}

#endif
