/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "fed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "configured.h"
#include "control/change.h"
#include "core/core.h"

enum { PATIENCE_S = 60 };

static void no_log(void *ctx, sonar_level level, const char *where, const char *line) {
    (void)ctx, (void)level, (void)where, (void)line;
}

static void check(sonar_code code, const sonar_error *err) {
    if (!code)
        return;
    fprintf(stderr, "fed: %s: %s\n", err->where, err->text);
    abort();
}

fed fed_open(const char *name, const char *text, const sonar_output_tap *tap) {
    fed fed = {.config = configured(name, text)};
    const sonar_params_spec spec = sonar_config_params(fed.config);
    sonar_error err = {0};
    fed.config->reader = tap;
    check(sonar_params_create(&spec, 1, &fed.params, &err), &err);
    check(sonar_pipeline_create(fed.config, no_log, NULL, &fed.pipeline, &err), &err);
    check(sonar_pipeline_start(fed.pipeline, &err), &err);
    return fed;
}

sea fed_sea(const fed *fed, size_t ships) {
    static const sea_source ship[] = {
        {.az_deg = 70, .rms = 1e6, .low_hz = 320, .high_hz = 1080, .tones = 40},
        {.az_deg = 118, .rms = 3e5, .low_hz = 330, .high_hz = 1070, .tones = 30}};
    return sea_open(fed->config, fed->params, ship, ships, 1e-3);
}

void fed_frame(const fed *fed, const sonar_frame *frame, const float *samples) {
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    const int64_t until_ns = sonar_monotonic_ns() + PATIENCE_S * INT64_C(1000000000);
    sonar_frame_encode(frame, header);
    while (!sonar_pipeline_feed(fed->pipeline, header, sizeof header, samples,
                                sonar_frame_payload_bytes(frame), 100))
        if (sonar_monotonic_ns() >= until_ns)
            check(SONAR_ESTATE, &(sonar_error){.where = "frame", .text = "it is not taken"});
}

static sonar_frame frame_of(const fed *fed, uint64_t first_sample, uint32_t count,
                            uint32_t channels, int64_t utc_ns) {
    return (sonar_frame){.array_id = 1,
                         .channels = channels,
                         .samples = count,
                         .type = SONAR_F32,
                         .layout = SONAR_FRAME_INTERLEAVED,
                         .epoch = 1,
                         .first_sample = first_sample,
                         .utc_ns = utc_ns,
                         .fs_hz = fed->config->fs_hz};
}

void fed_samples(const fed *fed, uint64_t first_sample, uint32_t count, uint32_t channels,
                 int64_t utc_ns, const float *samples) {
    const sonar_frame frame = frame_of(fed, first_sample, count, channels, utc_ns);
    fed_frame(fed, &frame, samples);
}

void fed_channels(const fed *fed, uint64_t first_sample, uint32_t count, uint32_t channels,
                  int64_t utc_ns, const float *samples) {
    sonar_frame frame = frame_of(fed, first_sample, count, channels, utc_ns);
    frame.layout = SONAR_FRAME_CHANNEL_MAJOR;
    fed_frame(fed, &frame, samples);
}

void fed_lossy(const fed *fed, uint32_t number, uint32_t count, uint32_t channels, float *samples) {
    const bool lacks = number % 7 == 6;
    if (number % 31 == 30)
        return;
    if (lacks)
        fed_leave_out_last(samples, count, channels);
    fed_samples(fed, (uint64_t)number * count, count, channels - lacks, 0, samples);
}

void fed_set(const fed *fed, const char *path, const char *value) {
    static sonar_config_differences differences;
    const sonar_config_value to = {path, value};
    sonar_error err = {0};
    check(sonar_control_set(fed->pipeline, 1, &to, NULL, NULL, &differences, &err), &err);
}

void fed_leave_out_last(float *samples, uint32_t count, uint32_t channels) {
    for (uint32_t i = 1; i < count; i++)
        memmove(samples + i * (channels - 1), samples + i * channels,
                (channels - 1) * sizeof *samples);
}

void fed_close(fed *fed) {
    sonar_error err = {0};
    while (!sonar_pipeline_finish(fed->pipeline, 100))
        continue;
    do
        check(sonar_pipeline_tick(fed->pipeline, &err), &err);
    while (!sonar_pipeline_idle(fed->pipeline));
    if (!sonar_pipeline_stop(fed->pipeline, 1000 * PATIENCE_S))
        check(SONAR_ESTATE, &(sonar_error){.where = "stop", .text = "it does not end"});
    sonar_pipeline_destroy(fed->pipeline);
    sonar_params_destroy(fed->params);
    sonar_config_destroy(fed->config);
}
