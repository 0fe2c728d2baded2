/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "manifold/params.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/core.h"
#include "manifold/mirror.h"

/* The delays, which take by far the most memory. */
struct tables {
    size_t
        references; /* number of `shared` that refer to it, and of functions that are making one */
    uint64_t *far_cbf, *near_cbf, *far_mvdr, *near_mvdr;
};

/* What does not depend on the mask. All versions of a spec share it. */
struct shared {
    size_t
        references; /* number of versions that refer to it, and of functions that are making one */
    struct tables *tables;
    char config_version[80];
    uint8_t *used;      /* the spec's, without any version's mask */
    float *shading;     /* of all sensors */
    double shading_sum; /* of the array that these sensors are a part of; or 0 */
    bool forward_backward;
    double *position_m, *phase_turns, *delay_s;
    uint32_t *channel;
    float *scale;
    sonar_cbf_spec cbf; /* live members */
    sonar_mvdr_spec mvdr;
};

/* One version. */
struct owned {
    sonar_params params; /* first: a sonar_params pointer is a pointer to this */
    struct shared *shared;
    uint8_t *used;
    float *shading;
};

static void release_tables(struct tables *tables) {
    if (!tables || --tables->references > 0)
        return;
    free(tables->far_cbf);
    free(tables->near_cbf);
    free(tables->far_mvdr);
    free(tables->near_mvdr);
    free(tables);
}

static sonar_arena lay_out(struct shared *shared, size_t sensors, sonar_arena_pass pass) {
    sonar_arena arena = {.pass = pass};
    SONAR_ARENA(&arena, shared->used, sensors);
    SONAR_ARENA(&arena, shared->shading, sensors);
    SONAR_ARENA(&arena, shared->position_m, 3 * sensors);
    SONAR_ARENA(&arena, shared->phase_turns, sensors);
    SONAR_ARENA(&arena, shared->delay_s, sensors);
    SONAR_ARENA(&arena, shared->channel, sensors);
    SONAR_ARENA(&arena, shared->scale, sensors);
    return arena;
}

static void release(struct shared *shared) {
    if (!shared || --shared->references > 0)
        return;
    release_tables(shared->tables);
    lay_out(shared, 0, SONAR_ARENA_FREE);
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

static struct shared *make_shared(const sonar_params_spec *spec) {
    struct shared *shared = sonar_alloc(1, sizeof *shared);
    if (!shared)
        return NULL;
    shared->references = 1;
    if (lay_out(shared, spec->sensors, SONAR_ARENA_ALLOCATE).failed) {
        release(shared);
        return NULL;
    }
    snprintf(shared->config_version, sizeof shared->config_version, "%s", spec->config_version);
    shared->shading_sum = spec->shading_sum;
    shared->forward_backward = spec->forward_backward;
    if (spec->cbf)
        shared->cbf = *spec->cbf;
    if (spec->mvdr)
        shared->mvdr = *spec->mvdr;
    shared->mvdr.tones = NULL; /* borrowed, and not a live member */
    memcpy(shared->position_m, spec->position_m, 3 * spec->sensors * sizeof *shared->position_m);
    memcpy(shared->channel, spec->channel, spec->sensors * sizeof *shared->channel);
    memcpy(shared->used, spec->used, spec->sensors * sizeof *shared->used);
    for (size_t s = 0; s < spec->sensors; s++) {
        shared->shading[s] = (float)spec->shading_weight[s];
        shared->scale[s] = spec->gain_db ? (float)pow(10, -spec->gain_db[s] / 20) : 1;
        shared->phase_turns[s] = -spec->phase_deg[s] / 360;
        shared->delay_s[s] = spec->delay_us[s] * 1e-6;
    }
    return shared;
}

static sonar_code no_memory(size_t sensors, sonar_error *err) {
    return sonar_fail(err, SONAR_ENOMEM, "params", "no memory for %zu sensors", sensors);
}

static sonar_manifold_spec table_spec(const sonar_params_spec *spec, const double *position_m,
                                      const sonar_scan *scan, size_t ranges, double bin_hz) {
    return (sonar_manifold_spec){.sensors = spec->sensors,
                                 .position_m = position_m,
                                 .scan = scan,
                                 .ranges = ranges,
                                 .range_m = spec->range_m,
                                 .reference = spec->range_reference,
                                 .c_mps = spec->sound_speed_mps,
                                 .bin_width_hz = bin_hz};
}

static sonar_code make_table(const sonar_params_spec *spec, const sonar_scan *scan, size_t ranges,
                             double bin_hz, uint64_t version, uint64_t **table,
                             sonar_manifold *manifold, sonar_error *err) {
    const sonar_manifold_spec of = table_spec(spec, spec->position_m, scan, ranges, bin_hz);
    const sonar_code code = sonar_manifold_make(&of, table, err);
    *manifold = (sonar_manifold){.ranges = ranges ? ranges : 1,
                                 .directions = scan->count,
                                 .sensors = spec->sensors,
                                 .bin_width_hz = bin_hz,
                                 .turns = *table,
                                 .made = version};
    return code;
}

static sonar_code make_tables(struct owned *owned, const sonar_params_spec *spec,
                              sonar_error *err) {
    sonar_params *params = &owned->params;
    struct tables *tables = sonar_alloc(1, sizeof *tables);
    owned->shared->tables = tables;
    if (!tables)
        return no_memory(spec->sensors, err);
    tables->references = 1;
    sonar_code code = SONAR_OK;
    if (spec->cbf_scan)
        code = make_table(spec, spec->cbf_scan, 0, spec->cbf_bin_hz, params->version,
                          &tables->far_cbf, &params->far_cbf, err);
    if (!code && spec->cbf_scan && spec->ranges)
        code = make_table(spec, spec->cbf_scan, spec->ranges, spec->cbf_bin_hz, params->version,
                          &tables->near_cbf, &params->near_cbf, err);
    if (!code && spec->mvdr_scan)
        code = make_table(spec, spec->mvdr_scan, 0, spec->mvdr_bin_hz, params->version,
                          &tables->far_mvdr, &params->far_mvdr, err);
    if (!code && spec->mvdr_scan && spec->mvdr_near && spec->ranges)
        code = make_table(spec, spec->mvdr_scan, spec->ranges, spec->mvdr_bin_hz, params->version,
                          &tables->near_mvdr, &params->near_mvdr, err);
    return code;
}

static void share_tables(struct owned *owned, const sonar_params *like) {
    struct tables *tables = ((const struct owned *)like)->shared->tables;
    owned->shared->tables = tables;
    tables->references++;
    owned->params.far_cbf = like->far_cbf;
    owned->params.near_cbf = like->near_cbf;
    owned->params.far_mvdr = like->far_mvdr;
    owned->params.near_mvdr = like->near_mvdr;
}

/* ---- versions -------------------------------------------------------------------------------- */

/* A copy of `like` that refers to `shared` and has room for its own mask; NULL: no memory. */
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
    shared->references++;
    owned->params.used = owned->used;
    owned->params.shading = owned->shading;
    return owned;
}

/* Fills the mask: sensors that the spec uses and that are not in `out`. */
static void fill_mask(struct owned *owned, const uint8_t *out) {
    const struct shared *shared = owned->shared;
    sonar_params *params = &owned->params;
    params->shading_sum = 0;
    params->sensors_used = 0;
    for (size_t s = 0; s < params->sensors; s++) {
        bool used = shared->used[s] && !(out && out[s]);
        owned->used[s] = used;
        owned->shading[s] = used ? shared->shading[s] : 0;
        params->shading_sum += (double)owned->shading[s];
        params->sensors_used += used;
    }
    if (shared->shading_sum > 0)
        params->shading_sum = shared->shading_sum;
    params->mvdr_sensors_used = params->sensors_used;
    if (!shared->forward_backward)
        return;
    const double tolerance_m = sonar_mirror_tolerance_m(params);
    params->mvdr_sensors_used = 0;
    for (size_t s = 0; s < params->sensors; s++)
        params->mvdr_sensors_used += sonar_mirror_of(params, s, tolerance_m) < params->sensors;
}

/* like: the version whose tables are shared, or NULL. */
static sonar_code create(const sonar_params_spec *spec, const sonar_params *like, uint64_t version,
                         sonar_params **params, sonar_error *err) {
    *params = NULL;
    struct shared *shared = make_shared(spec);
    if (!shared)
        return no_memory(spec->sensors, err);
    const sonar_params plain = {.version = version,
                                .sensors = spec->sensors,
                                .config_version = shared->config_version,
                                .sound_speed_mps = spec->sound_speed_mps,
                                .heading_deg = spec->heading_deg,
                                .heading_known = spec->heading_known,
                                .calibrated = spec->gain_db != NULL,
                                .position_m = shared->position_m,
                                .channel = shared->channel,
                                .scale = shared->scale,
                                .phase_turns = shared->phase_turns,
                                .delay_s = shared->delay_s,
                                .cbf = spec->cbf ? &shared->cbf : NULL,
                                .mvdr = spec->mvdr ? &shared->mvdr : NULL};
    struct owned *owned = make_version(&plain, shared);
    release(shared);
    if (!owned)
        return no_memory(spec->sensors, err);
    fill_mask(owned, NULL);
    sonar_code code = SONAR_OK;
    if (like)
        share_tables(owned, like);
    else
        code = make_tables(owned, spec, err);
    if (code)
        sonar_params_destroy(&owned->params);
    else
        *params = &owned->params;
    return code;
}

sonar_code sonar_params_create(const sonar_params_spec *spec, uint64_t version,
                               sonar_params **params, sonar_error *err) {
    return create(spec, NULL, version, params, err);
}

sonar_code sonar_params_renew(const sonar_params *like, const sonar_params_spec *spec,
                              bool same_delays, uint64_t version, sonar_params **params,
                              sonar_error *err) {
    return create(spec, same_delays ? like : NULL, version, params, err);
}

sonar_code sonar_params_mask(const sonar_params *like, const uint8_t *out, uint64_t version,
                             sonar_params **params, sonar_error *err) {
    struct owned *owned = make_version(like, ((const struct owned *)like)->shared);
    *params = NULL;
    if (!owned)
        return no_memory(like->sensors, err);
    owned->params.version = version;
    fill_mask(owned, out);
    *params = &owned->params;
    return SONAR_OK;
}

/* ---- another shape --------------------------------------------------------------------------- */

static void copy_sensors(struct owned *owned, const sonar_params *like, const double *position_m) {
    struct shared *shared = owned->shared;
    const size_t n = like->sensors;
    memcpy(owned->used, like->used, n * sizeof *owned->used);
    memcpy(owned->shading, like->shading, n * sizeof *owned->shading);
    memcpy(shared->channel, like->channel, n * sizeof *shared->channel);
    memcpy(shared->scale, like->scale, n * sizeof *shared->scale);
    memcpy(shared->phase_turns, like->phase_turns, n * sizeof *shared->phase_turns);
    memcpy(shared->delay_s, like->delay_s, n * sizeof *shared->delay_s);
    memmove(shared->position_m, position_m, 3 * n * sizeof *position_m); /* may be the same */
    memcpy(shared->config_version, ((const struct owned *)like)->shared->config_version,
           sizeof shared->config_version);
    if (like->cbf)
        shared->cbf = *like->cbf;
    if (like->mvdr)
        shared->mvdr = *like->mvdr;
}

void sonar_params_bend(sonar_params *bent, const sonar_params *like, const sonar_params_spec *spec,
                       const double *position_m, uint64_t version, const sonar_host *host,
                       double *tau_s) {
    struct owned *owned = (struct owned *)bent;
    const struct shared *shared = owned->shared;
    const struct tables *t = shared->tables;
    const struct {
        sonar_manifold *manifold;
        uint64_t *turns;
        const sonar_scan *scan;
        size_t ranges;
    } table[] = {{&bent->far_cbf, t->far_cbf, spec->cbf_scan, 0},
                 {&bent->near_cbf, t->near_cbf, spec->cbf_scan, spec->ranges},
                 {&bent->far_mvdr, t->far_mvdr, spec->mvdr_scan, 0},
                 {&bent->near_mvdr, t->near_mvdr, spec->mvdr_scan, spec->ranges}};
    copy_sensors(owned, like, position_m);
    bent->version = version;
    bent->sensors_used = like->sensors_used;
    bent->mvdr_sensors_used = like->mvdr_sensors_used;
    bent->shading_sum = like->shading_sum;
    bent->sound_speed_mps = like->sound_speed_mps;
    bent->heading_deg = like->heading_deg;
    bent->heading_known = like->heading_known;
    bent->calibrated = like->calibrated;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!table[i].turns)
            continue;
        table[i].manifold->made = version;
        const sonar_manifold_spec of = table_spec(spec, position_m, table[i].scan, table[i].ranges,
                                                  table[i].manifold->bin_width_hz);
        sonar_manifold_fill(&of, host, tau_s, table[i].turns);
    }
}
