/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Steering off the grid on NVIDIA GPUs, in float64 from positions that stay on the device. */
#include "core/cuda_common.cuh"
#include "steer/steer.h"

#include <stdlib.h>

namespace {

const char *const where = "steer";
constexpr unsigned THREADS = 256;
constexpr size_t LOOKS_AT_ONCE = 65535; /* rows of a grid */

struct steer {
    sonar_steer_spec spec;
    double *position_m; /* [sensor][3] */
    uint64_t version;   /* version of the parameters that position_m belongs to; 0: none */
};

/* As sonar_turns. */
__device__ inline uint64_t turns_of(double tau_s, double bin_width_hz) {
    const int bits = SONAR_WHOLE_TURNS_BITS;
    const double span = 1 << bits, turns = bin_width_hz * tau_s;
    const double rest = turns - span * rint(turns / span);
    const uint64_t fixed = (uint64_t)__double2ll_rn(rest * (18446744073709551616.0 / span));
    return fixed << bits | fixed >> (64 - bits);
}

/* |s| - |s - p| = (2 s.p - |p|^2) / (|s| + |s - p|): avoids the difference of two nearly equal
 * lengths. */
__device__ inline double path_difference(const sonar_look &look, const double p[3]) {
    const double r = look.length_m;
    double distance = 0, dot = 0, square = 0;
    for (int i = 0; i < 3; i++) {
        const double s = r * look.u[i];
        distance += (s - p[i]) * (s - p[i]);
        dot += s * p[i];
        square += p[i] * p[i];
    }
    return (2 * dot - square) / (r + sqrt(distance));
}

/* Grid: sensors, looks. */
__global__ void __launch_bounds__(THREADS)
    make_turns(const sonar_look *looks, const double *position_m, uint32_t sensors, double c_mps,
               uint64_t *turns) {
    const uint32_t sensor = blockIdx.x * THREADS + threadIdx.x;
    if (sensor >= sensors)
        return;
    const sonar_look look = looks[blockIdx.y];
    const double *from = position_m + 3 * (size_t)sensor, p[3] = {from[0], from[1], from[2]};
    const double path_m = look.length_m < SONAR_LOOK_FAR_M
                              ? path_difference(look, p)
                              : p[0] * look.u[0] + p[1] * look.u[1] + p[2] * look.u[2];
    turns[(size_t)blockIdx.y * sensors + sensor] = turns_of(path_m / c_mps, look.bin_width_hz);
}

/* The copy returns only after pageable memory is read, so the source may change then. */
sonar_code upload(struct steer *s, const sonar_params *params, cudaStream_t stream,
                  sonar_error *err) {
    if (s->version == params->version)
        return SONAR_OK;
    s->version = 0;
    CUDA_TRY(where,
             cudaMemcpyAsync(s->position_m, params->position_m,
                             3 * s->spec.sensors * sizeof(double), cudaMemcpyHostToDevice, stream),
             err);
    s->version = params->version;
    return SONAR_OK;
}

sonar_code execute(void *stage, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                   const sonar_work *work, sonar_error *err) {
    sonar_nvtx_range range("steer");
    struct steer *s = (struct steer *)stage;
    const size_t looks = in->shape[0], sensors = s->spec.sensors;
    sonar_code code = sonar_steer_check_shapes(&s->spec, in, out, work, err);
    if (!code && (in->space != SONAR_DEVICE || out->space != SONAR_DEVICE))
        code = sonar_fail(err, SONAR_EINVAL, where, "a buffer is not in device memory");
    if (!code)
        code = upload(s, work->params, queue->stream, err);
    for (size_t done = 0; done < looks && !code; done += LOOKS_AT_ONCE) {
        const dim3 grid((unsigned)((sensors + THREADS - 1) / THREADS),
                        (unsigned)sonar_min_size(looks - done, LOOKS_AT_ONCE));
        make_turns<<<grid, THREADS, 0, queue->stream>>>(
            (const sonar_look *)in->data + done, s->position_m, (uint32_t)sensors,
            work->params->sound_speed_mps, (uint64_t *)out->data + done * sensors);
        code = CUDA_LAUNCHED(where, "make_turns", err);
    }
    return code;
}

void destroy(void *stage) {
    struct steer *s = (struct steer *)stage;
    if (!s)
        return;
    cudaFree(s->position_m);
    free(s);
}

sonar_code create(const void *spec, const sonar_host *host, void **stage, sonar_error *err) {
    (void)host;
    *stage = NULL;
    const sonar_steer_spec *wanted = (const sonar_steer_spec *)spec;
    sonar_code code = sonar_steer_check(wanted, err);
    if (!code && wanted->sensors > 1u << 30)
        code = sonar_fail(err, SONAR_EINVAL, where, "more than 2^30 sensors");
    if (code)
        return code;
    struct steer *s = (struct steer *)sonar_alloc(1, sizeof *s);
    if (!s)
        return sonar_fail(err, SONAR_ENOMEM, where, "no memory for the stage");
    s->spec = *wanted;
    code = sonar_cuda_alloc(where, 3 * wanted->sensors, &s->position_m, err);
    if (code)
        destroy(s);
    else
        *stage = s;
    return code;
}

} // namespace

extern "C" const sonar_stage_ops sonar_steer_cuda = {"steer", create,  execute, NULL,
                                                     NULL,    destroy, NULL};
