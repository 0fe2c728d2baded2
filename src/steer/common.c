/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Checks of the steering's specification and shapes, for all backends. */
#include "steer/steer.h"

sonar_code sonar_steer_check(const sonar_steer_spec *spec, sonar_error *err) {
    return spec->sensors ? SONAR_OK : sonar_fail(err, SONAR_EINVAL, "steer", "no sensors");
}

sonar_code sonar_steer_check_shapes(const sonar_steer_spec *spec, const sonar_buffer *looks,
                                    const sonar_buffer *turns, const sonar_work *work,
                                    sonar_error *err) {
    const size_t sensors = spec->sensors;
    if (looks->dtype != SONAR_F64 || looks->rank != 2 || looks->shape[1] != SONAR_LOOK_FIELDS ||
        looks->stride[0] != SONAR_LOOK_FIELDS || looks->stride[1] != 1)
        return sonar_fail(err, SONAR_EINVAL, "steer", "looks are not f64 [look][%d], dense",
                          (int)SONAR_LOOK_FIELDS);
    if (turns->dtype != SONAR_U64 || turns->rank != 2 || turns->shape[0] != looks->shape[0] ||
        turns->shape[1] != sensors || turns->stride[0] != (ptrdiff_t)sensors ||
        turns->stride[1] != 1)
        return sonar_fail(err, SONAR_EINVAL, "steer", "turns are not u64 [%zu][%zu], dense",
                          looks->shape[0], sensors);
    if (work->params->sensors != sensors)
        return sonar_fail(err, SONAR_EINVAL, "steer", "the parameters have %zu sensors, not %zu",
                          work->params->sensors, sensors);
    return SONAR_OK;
}
