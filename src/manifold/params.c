/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>

#include "core/core.h"
#include "pipeline/pipeline.h"

/* What does not depend on the mask; all versions of a configuration share it. */
struct shared {
    size_t versions; /* that refer to it; control thread */
    double *position_m, *phase_turns, *delay_s;
    uint32_t *channel;
    float *scale;
    uint64_t *far_cbf, *near_cbf, *far_mvdr;
};

/* One version. */
struct owned {
    sonar_params params; /* first: a sonar_params pointer is a pointer to this */
    struct shared *shared;
    uint8_t *used;
    float *shading;
};

static void release(struct shared *shared) {
    if (!shared || --shared->versions > 0)
        return;
    free(shared->position_m);
    free(shared->phase_turns);
    free(shared->delay_s);
    free(shared->channel);
    free(shared->scale);
    free(shared->far_cbf);
    free(shared->near_cbf);
    free(shared->far_mvdr);
    free(shared);
}

void sonar_params_destroy(sonar_params *params) {
    if (!params)
        return;
    struct owned *owned = (struct owned *)params;
    release(owned->shared);
    free(owned->used);
    free(owned->shading);
    free(owned);
}

/* ---- what all versions share ----------------------------------------------------------------- */

static struct shared *make_shared(const sonar_config *config) {
    struct shared *shared = sonar_alloc(1, sizeof *shared);
    size_t sensors = config->sensors;
    if (!shared)
        return NULL;
    shared->position_m = sonar_alloc(3 * sensors, sizeof *shared->position_m);
    shared->phase_turns = sonar_alloc(sensors, sizeof *shared->phase_turns);
    shared->delay_s = sonar_alloc(sensors, sizeof *shared->delay_s);
    shared->channel = sonar_alloc(sensors, sizeof *shared->channel);
    shared->scale = sonar_alloc(sensors, sizeof *shared->scale);
    if (!shared->position_m || !shared->phase_turns || !shared->delay_s || !shared->channel ||
        !shared->scale) {
        release(shared);
        return NULL;
    }
    for (size_t s = 0; s < sensors; s++) {
        for (int i = 0; i < 3; i++)
            shared->position_m[3 * s + i] = config->position_m[3 * s + i];
        shared->channel[s] = config->channel[s];
        shared->scale[s] = config->calibrated ? (float)pow(10, -config->gain_db[s] / 20) : 1;
        shared->phase_turns[s] = -config->phase_deg[s] / 360;
        shared->delay_s[s] = config->delay_us[s] * 1e-6;
    }
    return shared;
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
    struct shared *shared = owned->shared;
    double bin_hz = config->fs_hz / (double)config->cbf_length;
    sonar_code code =
        make_table(config, &config->cbf_scan, 0, bin_hz, &shared->far_cbf, &params->far_cbf, err);
    if (!code && config->ranges)
        code = make_table(config, &config->cbf_scan, config->ranges, bin_hz, &shared->near_cbf,
                          &params->near_cbf, err);
    if (!code && config->mvdr_enabled)
        code =
            make_table(config, &config->mvdr_scan, 0, config->fs_hz / (double)config->mvdr_length,
                       &shared->far_mvdr, &params->far_mvdr, err);
    return code;
}

/* ---- versions -------------------------------------------------------------------------------- */

/* A copy of `like` with room for a mask of its own, which refers to `shared`; NULL: no memory. */
static struct owned *make_version(const sonar_params *like, struct shared *shared) {
    struct owned *owned = sonar_alloc(1, sizeof *owned);
    if (!owned)
        return NULL;
    owned->params = *like;
    owned->used = sonar_alloc(like->sensors, sizeof *owned->used);
    owned->shading = sonar_alloc(like->sensors, sizeof *owned->shading);
    if (!owned->used || !owned->shading) {
        sonar_params_destroy(&owned->params);
        return NULL;
    }
    owned->shared = shared;
    shared->versions++;
    owned->params.used = owned->used;
    owned->params.shading = owned->shading;
    return owned;
}

/* Sensors that the configuration uses and `out` ([sensor], NULL: nobody) leaves in. */
static void fill_mask(struct owned *owned, const sonar_config *config, const uint8_t *out) {
    sonar_params *params = &owned->params;
    params->shading_sum = 0;
    params->sensors_used = 0;
    for (size_t s = 0; s < params->sensors; s++) {
        bool used = config->used[s] && !(out && out[s]);
        owned->used[s] = used;
        owned->shading[s] = used ? (float)config->shading_weight[s] : 0;
        params->shading_sum += (double)owned->shading[s];
        params->sensors_used += used;
    }
    params->mvdr_sensors_used = sonar_mvdr_sensors(params, config->mvdr_forward_backward);
}

static sonar_code no_memory(const sonar_config *config, sonar_error *err) {
    return sonar_fail(err, SONAR_ENOMEM, "params", "no memory for %zu sensors", config->sensors);
}

sonar_code sonar_params_create(const sonar_config *config, uint64_t version, sonar_params **params,
                               sonar_error *err) {
    *params = NULL;
    struct shared *shared = make_shared(config);
    if (!shared)
        return no_memory(config, err);
    const sonar_params plain = {.version = version,
                                .sensors = config->sensors,
                                .sound_speed_mps = config->sound_speed_mps,
                                .heading_deg = config->heading_deg,
                                .heading_known = config->heading_known,
                                .calibrated = config->calibrated,
                                .position_m = shared->position_m,
                                .channel = shared->channel,
                                .scale = shared->scale,
                                .phase_turns = shared->phase_turns,
                                .delay_s = shared->delay_s};
    struct owned *owned = make_version(&plain, shared);
    if (!owned) {
        shared->versions = 1;
        release(shared);
        return no_memory(config, err);
    }
    fill_mask(owned, config, NULL);
    sonar_code code = make_tables(owned, config, err);
    if (code)
        sonar_params_destroy(&owned->params);
    else
        *params = &owned->params;
    return code;
}

sonar_code sonar_params_mask(const sonar_params *like, const sonar_config *config,
                             const uint8_t *out, uint64_t version, sonar_params **params,
                             sonar_error *err) {
    struct owned *owned = make_version(like, ((const struct owned *)like)->shared);
    *params = NULL;
    if (!owned)
        return no_memory(config, err);
    owned->params.version = version;
    fill_mask(owned, config, out);
    *params = &owned->params;
    return SONAR_OK;
}
