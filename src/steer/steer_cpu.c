/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Steering off the grid on the CPU: the delays of manifold/delays.c. A task computes a run of
 * sensors of one look, in loops that compilers vectorise. */
#include "steer/steer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/core.h"

enum { RUN = 2048 /* sensors of a task */ };

struct steer {
    sonar_steer_spec spec;
    const sonar_host *host;
    const sonar_look *look; /* of the current execute */
    const sonar_params *params;
    uint64_t *turns;
    size_t runs; /* runs of sensors in a look */
};

/* Rounds x, below 2^51 in magnitude, to an integer. Vectors have no conversion to 64-bit integers
 * before AVX-512, but the lower bits of x + 1.5 * 2^52, as a double, are that integer. */
static inline int64_t whole(double x) {
    const double shift = 6755399441055744.0, shifted = x + shift;
    int64_t bits, zero;
    memcpy(&bits, &shifted, sizeof bits);
    memcpy(&zero, &shift, sizeof zero);
    return bits - zero;
}

/* The same as sonar_turns, computed in two halves of 32 bits. */
static inline uint64_t turns_of(double tau_s, double bin_width_hz) {
    const int bits = SONAR_WHOLE_TURNS_BITS;
    const double two_32 = 4294967296.0, span = 1 << bits, turns = bin_width_hz * tau_s;
    const double rest = (turns - span * rint(turns / span)) * (two_32 / span), high = rint(rest);
    const double low = rint((rest - high) * two_32);
    const uint64_t fixed = ((uint64_t)whole(high) << 32) + (uint64_t)whole(low);
    return fixed << bits | fixed >> (64 - bits);
}

SONAR_MULTIARCH static void steer_far(const sonar_look *look, double c_mps, size_t n,
                                      const double *position_m, uint64_t *turns) {
    const double x = look->u[0], y = look->u[1], z = look->u[2], hz = look->bin_width_hz;
    for (size_t k = 0; k < n; k++) {
        const double *p = position_m + 3 * k;
        turns[k] = turns_of((p[0] * x + p[1] * y + p[2] * z) / c_mps, hz);
    }
}

/* |s| - |s - p| = (2 s.p - |p|^2) / (|s| + |s - p|): avoids the difference of two nearly equal
 * lengths. */
SONAR_MULTIARCH static void steer_near(const sonar_look *look, double c_mps, size_t n,
                                       const double *position_m, uint64_t *turns) {
    const double r = look->length_m, hz = look->bin_width_hz;
    const double x = r * look->u[0], y = r * look->u[1], z = r * look->u[2];
    for (size_t k = 0; k < n; k++) {
        const double *p = position_m + 3 * k;
        const double dx = x - p[0], dy = y - p[1], dz = z - p[2];
        const double dot =
            2 * (x * p[0] + y * p[1] + z * p[2]) - (p[0] * p[0] + p[1] * p[1] + p[2] * p[2]);
        turns[k] = turns_of(dot / (r + sqrt(dx * dx + dy * dy + dz * dz)) / c_mps, hz);
    }
}

static void steer_task(void *arg, size_t index, size_t worker) {
    (void)worker;
    const struct steer *s = arg;
    const size_t sensors = s->spec.sensors, first = index % s->runs * RUN;
    const size_t n = sonar_min_size(sensors - first, RUN);
    const sonar_look *look = s->look + index / s->runs;
    const double *position_m = s->params->position_m + 3 * first;
    uint64_t *turns = s->turns + index / s->runs * sensors + first;
    if (look->length_m < SONAR_LOOK_FAR_M)
        steer_near(look, s->params->sound_speed_mps, n, position_m, turns);
    else
        steer_far(look, s->params->sound_speed_mps, n, position_m, turns);
}

static sonar_code execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    (void)queue;
    struct steer *s = stage;
    const sonar_code code = sonar_steer_check_shapes(&s->spec, in, out, work, err);
    if (code)
        return code;
    s->look = in->data;
    s->turns = out->data;
    s->params = work->params;
    s->runs = (s->spec.sensors + RUN - 1) / RUN;
    s->host->parallel(s->host->ctx, in->shape[0] * s->runs, steer_task, s);
    return SONAR_OK;
}

static void destroy(void *stage) {
    free(stage);
}

static sonar_code create(const void *spec, const sonar_host *host, void **stage, sonar_error *err) {
    *stage = NULL;
    const sonar_code code = sonar_steer_check(spec, err);
    if (code)
        return code;
    struct steer *s = sonar_alloc(1, sizeof *s);
    if (!s)
        return sonar_fail(err, SONAR_ENOMEM, "steer", "no memory for the stage");
    s->spec = *(const sonar_steer_spec *)spec;
    s->host = host;
    *stage = s;
    return SONAR_OK;
}

const sonar_stage_ops sonar_steer_cpu = {
    .name = "steer", .create = create, .execute = execute, .destroy = destroy};
