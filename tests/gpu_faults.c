/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Makes every fallible call of the CUDA plugin fail once: it returns an error with a place, does
 * not crash, and the objects can be destroyed. A leak checker shows that no memory is lost. */
#include "cbf/cbf.h"
#include "dft/dft.h"
#include "gpu.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SENSORS = 5,
    LONGEST = 256,
    BINS = 20,
    DIRECTIONS = 6,
    RANGES = 2,
    SNAPSHOTS = 20,
    MOST_CALLS = 1000
};

static struct gpu device;
static size_t length; /* of the windows: the DFT's paths differ */

static uint64_t turns[RANGES * DIRECTIONS * SENSORS];
static double phase_turns[SENSORS], delay_s[SENSORS];
static uint32_t channel[SENSORS] = {0, 1, 2, 3, 4};
static uint8_t used[SENSORS] = {1, 1, 0, 1, 1};
static float scale[SENSORS] = {1, 1, 1, 1, 1}, shading[SENSORS] = {1, 1, 0, 1, 1};

struct scene {
    const sonar_backend *backend;
    const sonar_stage_ops *dft, *cbf;
    sonar_queue *queue;
    sonar_event *event;
    void *dft_stage, *cbf_stage;
    sonar_buffer x, bins, out[SONAR_CBF_OUTPUTS], host;
};

static sonar_code make_buffers(struct scene *s, sonar_error *err) {
    const struct {
        sonar_buffer *buffer;
        sonar_space space;
        sonar_dtype dtype;
        int rank;
        size_t shape[2];
    } wanted[] = {
        {&s->x, SONAR_PINNED, SONAR_F32, 2, {SENSORS, length}},
        {&s->bins, SONAR_DEVICE, SONAR_C32, 2, {SNAPSHOTS * BINS, SENSORS}},
        {&s->out[SONAR_CBF_AZIMUTH], SONAR_DEVICE, SONAR_F32, 1, {DIRECTIONS, 0}},
        {&s->out[SONAR_CBF_NEARFIELD], SONAR_DEVICE, SONAR_F32, 2, {RANGES, DIRECTIONS}},
        {&s->out[SONAR_CBF_LOFAR], SONAR_DEVICE, SONAR_F32, 2, {BINS, DIRECTIONS}},
        {&s->host, SONAR_PINNED, SONAR_F32, 2, {BINS, DIRECTIONS}},
    };
    sonar_code code = SONAR_OK;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !code; i++)
        code = s->backend->buffer_create(s->backend, wanted[i].space, wanted[i].dtype,
                                         wanted[i].rank, wanted[i].shape, wanted[i].buffer, err);
    return code;
}

static sonar_code make_stages(struct scene *s, sonar_error *err) {
    sonar_dft_spec dft = {.channels = SENSORS,
                          .sensors = SENSORS,
                          .length = length,
                          .fs_hz = 8000,
                          .first_bin = 3,
                          .bins = BINS,
                          .remove_mean = true};
    sonar_cbf_spec cbf = {.sensors = SENSORS,
                          .directions = DIRECTIONS,
                          .ranges = RANGES,
                          .fs_hz = 8000,
                          .length = length,
                          .first_bin = 3,
                          .bins = BINS,
                          .cbf_first = 5,
                          .cbf_bins = 9,
                          .max_snapshots = SNAPSHOTS};
    s->dft = s->backend->stage("dft");
    s->cbf = s->backend->stage("cbf");
    sonar_code code = s->dft->create(&dft, &device.host, &s->dft_stage, err);
    return code ? code : s->cbf->create(&cbf, &device.host, &s->cbf_stage, err);
}

static sonar_code run(struct scene *s, sonar_error *err) {
    double bin_hz = 8000.0 / (double)length;
    sonar_params params = {.version = 1,
                           .sensors = SENSORS,
                           .sensors_used = SENSORS - 1,
                           .channel = channel,
                           .used = used,
                           .scale = scale,
                           .phase_turns = phase_turns,
                           .delay_s = delay_s,
                           .shading = shading,
                           .shading_sum = SENSORS - 1,
                           .far_cbf = {1, DIRECTIONS, SENSORS, bin_hz, turns},
                           .near_cbf = {RANGES, DIRECTIONS, SENSORS, bin_hz, turns}};
    sonar_work work = {.params = &params,
                       .outputs = SONAR_WANT(SONAR_CBF_AZIMUTH) | SONAR_WANT(SONAR_CBF_NEARFIELD) |
                                  SONAR_WANT(SONAR_CBF_LOFAR)};
    sonar_buffer in[SONAR_DFT_INPUTS] = {s->x};
    sonar_buffer one = sonar_buffer_view(s->bins.data, SONAR_C32, 2, (size_t[]){BINS, SENSORS});
    sonar_buffer all =
        sonar_buffer_view(s->bins.data, SONAR_C32, 3, (size_t[]){SNAPSHOTS, BINS, SENSORS});
    one.space = all.space = s->bins.space;
    sonar_code code = s->dft->execute(s->dft_stage, s->queue, in, &one, &work, err);
    if (!code)
        code = s->cbf->execute(s->cbf_stage, s->queue, &all, s->out, &work, err);
    if (!code)
        code = s->backend->copy(s->queue, &s->out[SONAR_CBF_LOFAR], &s->host, err);
    if (!code)
        code = s->backend->record(s->queue, s->event, err);
    if (!code)
        code = s->backend->wait(s->queue, s->event, err);
    return code ? code : s->backend->finish(s->event, err);
}

static void take_down(struct scene *s) {
    if (s->dft)
        s->dft->destroy(s->dft_stage);
    if (s->cbf)
        s->cbf->destroy(s->cbf_stage);
    sonar_buffer *const buffers[] = {&s->x, &s->bins, &s->out[0], &s->out[1], &s->out[2], &s->host};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        if (buffers[i]->data)
            s->backend->buffer_destroy(buffers[i]);
    s->backend->event_destroy(s->event);
    s->backend->queue_destroy(s->queue);
}

/* All of a small daemon's life. */
static sonar_code live(long fail_at, sonar_error *err) {
    struct scene s = {.backend = gpu_reopen(&device, fail_at, err)};
    if (!s.backend)
        return err->code;
    sonar_code code = s.backend->queue_create(s.backend, &s.queue, err);
    if (!code)
        code = s.backend->event_create(s.backend, &s.event, err);
    if (!code)
        code = make_buffers(&s, err);
    if (!code)
        code = make_stages(&s, err);
    if (!code)
        code = run(&s, err);
    take_down(&s);
    return code;
}

static void fail_every_call(void) {
    long n = 1;
    for (; n < MOST_CALLS; n++) {
        sonar_error err = {0};
        if (!live(n, &err))
            break;
        gpu_expect(&device, err.code && err.where[0] && err.text[0],
                   "failure %ld: code %d, where '%s', text '%s'", n, (int)err.code, err.where,
                   err.text);
    }
    gpu_expect(&device, n > 30 && n < MOST_CALLS, "%ld calls could fail", n - 1);
    printf("N %zu: %ld calls made to fail\n", length, n - 1);
    sonar_error err = {0};
    gpu_expect(&device, live(0, &err) == SONAR_OK, "afterwards: %s: %s", err.where, err.text);
}

int main(int argc, char **argv) {
    int leave = gpu_open(&device, argc, argv);
    if (leave >= 0)
        return leave;
    for (length = 64; length <= LONGEST; length *= 4)
        fail_every_call();
    return gpu_close(&device, "gpu_faults");
}
