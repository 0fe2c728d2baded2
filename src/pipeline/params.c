/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "pipeline/pipeline.h"

/* The arrays of a sonar_params, owned together with it. */
struct owned {
    sonar_params params; /* first: a sonar_params pointer is a pointer to this */
    double *position_m, *phase_turns, *delay_s;
    uint32_t *channel;
    uint8_t *used;
    float *scale, *shading;
    uint64_t *far_cbf, *near_cbf, *far_mvdr;
};

void sonar_params_destroy(sonar_params *params) {
    if (!params)
        return;
    struct owned *owned = (struct owned *)params;
    free(owned->position_m);
    free(owned->phase_turns);
    free(owned->delay_s);
    free(owned->channel);
    free(owned->used);
    free(owned->scale);
    free(owned->shading);
    free(owned->far_cbf);
    free(owned->near_cbf);
    free(owned->far_mvdr);
    free(owned);
}

static bool allocate(struct owned *owned, size_t sensors) {
    owned->position_m = sonar_alloc(3 * sensors, sizeof *owned->position_m);
    owned->phase_turns = sonar_alloc(sensors, sizeof *owned->phase_turns);
    owned->delay_s = sonar_alloc(sensors, sizeof *owned->delay_s);
    owned->channel = sonar_alloc(sensors, sizeof *owned->channel);
    owned->used = sonar_alloc(sensors, sizeof *owned->used);
    owned->scale = sonar_alloc(sensors, sizeof *owned->scale);
    owned->shading = sonar_alloc(sensors, sizeof *owned->shading);
    return owned->position_m && owned->phase_turns && owned->delay_s && owned->channel &&
           owned->used && owned->scale && owned->shading;
}

static void fill_sensors(struct owned *owned, const sonar_config *config) {
    sonar_params *params = &owned->params;
    for (size_t s = 0; s < config->sensors; s++) {
        for (int i = 0; i < 3; i++)
            owned->position_m[3 * s + i] = config->position_m[3 * s + i];
        bool used = config->used[s];
        owned->channel[s] = config->channel[s];
        owned->used[s] = used;
        owned->scale[s] = config->calibrated ? (float)pow(10, -config->gain_db[s] / 20) : 1;
        owned->phase_turns[s] = -config->phase_deg[s] / 360;
        owned->delay_s[s] = config->delay_us[s] * 1e-6;
        owned->shading[s] = used ? (float)config->shading_weight[s] : 0;
        params->shading_sum += (double)owned->shading[s];
        params->sensors_used += used;
    }
    params->position_m = owned->position_m;
    params->channel = owned->channel;
    params->used = owned->used;
    params->scale = owned->scale;
    params->phase_turns = owned->phase_turns;
    params->delay_s = owned->delay_s;
    params->shading = owned->shading;
}

static sonar_code make_table(const sonar_config *config, const sonar_scan *scan, size_t ranges,
                             double bin_width_hz, uint64_t **table, sonar_manifold *manifold,
                             sonar_error *err) {
    sonar_code code = sonar_manifold_make(config->sensors, config->position_m, scan, ranges,
                                          config->range_m, config->range_reference,
                                          config->sound_speed_mps, bin_width_hz, table, err);
    *manifold = (sonar_manifold){.ranges = ranges ? ranges : 1,
                                 .directions = scan->count,
                                 .sensors = config->sensors,
                                 .bin_width_hz = bin_width_hz,
                                 .turns = *table};
    return code;
}

static sonar_code make_tables(struct owned *owned, const sonar_config *config, sonar_error *err) {
    sonar_params *params = &owned->params;
    double bin_hz = config->fs_hz / (double)config->cbf_length;
    sonar_code code =
        make_table(config, &config->cbf_scan, 0, bin_hz, &owned->far_cbf, &params->far_cbf, err);
    if (!code && config->ranges)
        code = make_table(config, &config->cbf_scan, config->ranges, bin_hz, &owned->near_cbf,
                          &params->near_cbf, err);
    if (!code && config->mvdr_enabled)
        code =
            make_table(config, &config->mvdr_scan, 0, config->fs_hz / (double)config->mvdr_length,
                       &owned->far_mvdr, &params->far_mvdr, err);
    return code;
}

sonar_code sonar_params_create(const sonar_config *config, uint64_t version, sonar_params **params,
                               sonar_error *err) {
    *params = NULL;
    struct owned *owned = sonar_alloc(1, sizeof *owned);
    if (!owned || !allocate(owned, config->sensors)) {
        sonar_params_destroy((sonar_params *)owned);
        return sonar_fail(err, SONAR_ENOMEM, "params", "no memory for %zu sensors",
                          config->sensors);
    }
    owned->params = (sonar_params){.version = version,
                                   .sensors = config->sensors,
                                   .sound_speed_mps = config->sound_speed_mps,
                                   .heading_deg = config->heading_deg,
                                   .heading_known = config->heading_known,
                                   .calibrated = config->calibrated};
    fill_sensors(owned, config);
    sonar_code code = make_tables(owned, config, err);
    if (code)
        sonar_params_destroy(&owned->params);
    else
        *params = &owned->params;
    return code;
}
