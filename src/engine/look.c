/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Power off the grid. Looks are copied to the beamformer's side, steered at and evaluated slab by
 * slab; only the powers are copied back. */
#include <string.h>

#include "engine/internal.h"

sonar_code sonar_look_send(sonar_engine *e, struct aim *aim, size_t n, sonar_error *err) {
    const struct side *side = aim->steer.side;
    const sonar_buffer from = sonar_engine_rows(&e->buffers.host_looks, 0, n);
    sonar_buffer to = sonar_engine_rows(&aim->looks, 0, n);
    return side->backend->copy(side->beside, &from, &to, err);
}

sonar_code sonar_look_steer(const struct aim *aim, size_t first, size_t n, const sonar_work *work,
                            sonar_buffer *turns, sonar_error *err) {
    const struct stage *steer = &aim->steer;
    const sonar_buffer looks = sonar_engine_rows(&aim->looks, first, n);
    *turns = sonar_engine_rows(&aim->turns, 0, n);
    return steer->ops->execute(steer->self, steer->side->beside, &looks, turns, work, err);
}

sonar_code sonar_look_evaluate(sonar_engine *e, sonar_engine_stage which, size_t n, float *power,
                               sonar_error *err) {
    const struct stage *beamformer = which == SONAR_ENGINE_MVDR ? &e->mvdr : &e->cbf;
    struct side *side = beamformer->side;
    struct aim *aim = &side->aim;
    sonar_buffer turns;
    sonar_code code = sonar_look_send(e, aim, n, err);
    for (size_t done = 0; done < n && !code; done += SLAB) {
        const size_t some = sonar_min_size(n - done, SLAB);
        sonar_buffer powers = sonar_engine_rows(&aim->powers, done, some);
        code = sonar_look_steer(aim, done, some, &e->job.work, &turns, err);
        if (!code)
            code = beamformer->ops->evaluate(beamformer->self, side->beside, &turns, &powers,
                                             &e->job.work, err);
    }
    if (code)
        return code;
    const sonar_buffer from = sonar_engine_rows(&aim->powers, 0, n);
    sonar_buffer to = sonar_engine_rows(&e->buffers.host_powers, 0, n);
    code = side->backend->copy(side->beside, &from, &to, err);
    if (!code)
        code = side->backend->record(side->beside, side->done, err);
    if (!code)
        code = side->backend->finish(side->done, err);
    if (!code)
        memcpy(power, e->buffers.host_powers.data, n * sizeof *power);
    return code;
}

sonar_code sonar_engine_evaluate(sonar_engine *e, sonar_engine_stage which, size_t n,
                                 const sonar_look *look, float *power, sonar_error *err) {
    if (n > SONAR_ENGINE_POINTS)
        return sonar_fail(err, SONAR_EINVAL, "engine", "%zu points are more than %d", n,
                          SONAR_ENGINE_POINTS);
    if (!n)
        return SONAR_OK;
    memcpy(e->buffers.host_looks.data, look, n * sizeof *look);
    return e->crossing->evaluate(e, which, n, power, err);
}
