/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The DFT and the beamformer under the thread sanitizer: stages created on several threads at once
 * (FFTW's planner is not thread-safe) and executed on a pool of three workers. */
#include "cbf/cbf.h"
#include "core/core.h"
#include "dft/dft.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { SENSORS = 61, LENGTH = 128, BINS = 65, DIRECTIONS = 70, CREATORS = 3 };

struct creator {
    pthread_t thread;
    size_t length;
    sonar_code code;
    void *stage;
};

static sonar_dft_spec dft_spec(size_t length, sonar_planning planning) {
    return (sonar_dft_spec){.channels = SENSORS,
                            .sensors = SENSORS,
                            .length = length,
                            .fs_hz = 1000,
                            .bins = length / 2 + 1,
                            .remove_mean = true,
                            .planning = planning};
}

static void *create(void *arg) {
    struct creator *creator = arg;
    sonar_dft_spec spec = dft_spec(creator->length, SONAR_PLAN_MEASURE);
    creator->code = sonar_dft_cpu.create(&spec, sonar_host_serial(), &creator->stage, NULL);
    sonar_dft_cpu.destroy(creator->stage);
    return NULL;
}

static bool create_at_once(void) {
    struct creator creator[CREATORS];
    bool good = true;
    for (size_t i = 0; i < CREATORS; i++) {
        creator[i] = (struct creator){.length = 60 + i};
        pthread_create(&creator[i].thread, NULL, create, &creator[i]);
    }
    for (size_t i = 0; i < CREATORS; i++) {
        pthread_join(creator[i].thread, NULL);
        good &= creator[i].code == SONAR_OK;
    }
    return good;
}

static float samples[SENSORS][LENGTH], azimuth[DIRECTIONS], lofar[BINS][DIRECTIONS];
static sonar_c32 spectrum[BINS][SENSORS];
static uint64_t turns[DIRECTIONS][SENSORS];
static uint32_t channel[SENSORS];
static uint8_t used[SENSORS];
static float ones[SENSORS];
static double zeros[SENSORS];

static sonar_params make_params(void) {
    for (size_t k = 0; k < SENSORS; k++) {
        channel[k] = (uint32_t)k;
        used[k] = 1;
        ones[k] = 1;
        for (size_t t = 0; t < LENGTH; t++)
            samples[k][t] = sinf((float)(t * t % 97)); /* every sensor receives the same */
        for (size_t d = 0; d < DIRECTIONS; d++)
            turns[d][k] = (d * k) << 54;
    }
    return (sonar_params){.version = 1,
                          .sensors = SENSORS,
                          .sensors_used = SENSORS,
                          .channel = channel,
                          .used = used,
                          .scale = ones,
                          .phase_turns = zeros,
                          .delay_s = zeros,
                          .shading = ones,
                          .shading_sum = SENSORS,
                          .far_cbf = {1, DIRECTIONS, SENSORS, 1000.0 / LENGTH, turns[0]}};
}

static sonar_code run_stages(void *dft, void *cbf, const sonar_params *params, sonar_error *err) {
    const size_t in_shape[2] = {SENSORS, LENGTH}, none[2] = {SENSORS, 0}, far[1] = {DIRECTIONS};
    const size_t snapshot_shape[3] = {1, BINS, SENSORS};
    const size_t x_shape[2] = {BINS, SENSORS}, lofar_shape[2] = {BINS, DIRECTIONS};
    sonar_buffer in[2] = {sonar_buffer_view(samples, SONAR_F32, 2, in_shape),
                          sonar_buffer_view(NULL, SONAR_F32, 2, none)};
    sonar_buffer x = sonar_buffer_view(spectrum, SONAR_C32, 2, x_shape);
    sonar_buffer snapshot = sonar_buffer_view(spectrum, SONAR_C32, 3, snapshot_shape);
    sonar_buffer out[SONAR_CBF_OUTPUTS] = {
        [SONAR_CBF_AZIMUTH] = sonar_buffer_view(azimuth, SONAR_F32, 1, far),
        [SONAR_CBF_LOFAR] = sonar_buffer_view(lofar, SONAR_F32, 2, lofar_shape)};
    sonar_work work = {.params = params,
                       .outputs = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_LOFAR)};
    sonar_code code = sonar_dft_cpu.execute(dft, NULL, in, &x, &work, err);
    return code ? code : sonar_cbf_cpu.execute(cbf, NULL, &snapshot, out, &work, err);
}

int main(void) {
    sonar_pool *pool;
    sonar_error err = {0};
    if (!create_at_once() || sonar_pool_create(3, NULL, &pool, &err))
        return 1;
    sonar_host host = *sonar_host_serial();
    host.ctx = pool;
    host.parallel = sonar_pool_parallel;
    host.workers = 3;
    sonar_dft_spec spec = dft_spec(LENGTH, SONAR_PLAN_STABLE);
    sonar_cbf_spec beams = {SENSORS, DIRECTIONS, 0, 1000, LENGTH, 0, BINS, 7, 41, 1, false};
    sonar_params params = make_params();
    void *dft = NULL, *cbf = NULL;
    sonar_code code = sonar_dft_cpu.create(&spec, &host, &dft, &err);
    if (!code)
        code = sonar_cbf_cpu.create(&beams, &host, &cbf, &err);
    for (int window = 0; window < 20 && !code; window++)
        code = run_stages(dft, cbf, &params, &err);
    sonar_cbf_cpu.destroy(cbf);
    sonar_dft_cpu.destroy(dft);
    sonar_pool_destroy(pool);
    bool peak = true; /* direction 0 has no delays: the sensors add up there and nowhere else */
    for (size_t d = 1; d < DIRECTIONS; d++)
        peak &= azimuth[d] < azimuth[0];
    if (code || !peak || !(azimuth[0] > 0))
        fprintf(stderr, "code %d (%s), peak %d, level %g\n", (int)code, err.text, peak,
                (double)azimuth[0]);
    return code || !peak || !(azimuth[0] > 0);
}
