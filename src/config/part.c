/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A rank's share of the array. */
#include <stdlib.h>
#include <string.h>

#include "config/options.h"
#include "core/core.h"

const sonar_rank_place *sonar_config_place(const sonar_config *c) {
    static const sonar_rank_place alone = {.ranks = 1, .ranks_here = 1};
    return c->cluster ? &c->cluster->place : &alone;
}

void sonar_config_block(const sonar_config *c, size_t rank, size_t ranks, size_t *first,
                        size_t *end) {
    *first = c->channels * rank / ranks;
    *end = c->channels * (rank + 1) / ranks;
    if (!c->cluster_ranks)
        return;
    *first = 0;
    for (size_t r = 0; r < rank; r++)
        *first += c->cluster_channels[r];
    *end = *first + c->cluster_channels[rank];
}

/* Copies sensor `from` of the whole array to the part's sensor `to`. */
static void copy_sensor(const sonar_config *whole, size_t from, sonar_config_part *part,
                        size_t to) {
    sonar_config *c = &part->config;
    memcpy(c->position_m + 3 * to, whole->position_m + 3 * from, 3 * sizeof *c->position_m);
    c->channel[to] = whole->channel[from] - (uint32_t)part->first_channel;
    c->used[to] = whole->used[from];
    c->gain_db[to] = whole->gain_db[from];
    c->phase_deg[to] = whole->phase_deg[from];
    c->delay_us[to] = whole->delay_us[from];
    c->shading_weight[to] = whole->shading_weight[from];
    part->sensor[to] = (uint32_t)from;
}

static bool fill(const sonar_config *whole, size_t sensors, size_t end, sonar_config_part *part) {
    sonar_config *c = &part->config;
    part->sensor = sonar_alloc(sensors, sizeof *part->sensor);
    if (!sonar_config_allocate_sensors(c, sensors) || !part->sensor)
        return false;
    c->channels = end - part->first_channel;
    for (size_t s = 0; s < whole->sensors; s++)
        if (whole->channel[s] >= part->first_channel && whole->channel[s] < end)
            copy_sensor(whole, s, part, c->sensors++);
    c->specs.dft.sensors = c->specs.mvdr_dft.sensors = c->sensors;
    c->specs.dft.channels = c->specs.mvdr_dft.channels = c->channels;
    c->specs.cbf.sensors = c->specs.mvdr.sensors = c->sensors;
    return true;
}

static bool fill_endpoints(const sonar_config *whole, size_t rank, sonar_config *c) {
    const sonar_value *v = &whole->settings->value[OPT_INGEST_ENDPOINTS];
    for (size_t i = 0; i < whole->ingest_endpoints; i++) {
        c->ingest_endpoint[i] = sonar_endpoint_of_rank(v->texts[i], rank);
        if (!c->ingest_endpoint[i])
            return false;
        c->ingest_endpoints = i + 1;
    }
    if (whole->shared_memory)
        c->shared_memory =
            sonar_endpoint_of_rank(whole->settings->value[OPT_SHARED_MEMORY].text, rank);
    return c->shared_memory || !whole->shared_memory;
}

/* Sets the members that a part does not share with the whole. */
static void set_apart(sonar_config *c) {
    c->position_m = NULL;
    c->channel = NULL;
    c->used = NULL;
    c->gain_db = c->phase_deg = c->delay_us = c->shading_weight = NULL;
    c->shared_memory = NULL;
    c->ingest_endpoints = c->sensors = 0;
}

static size_t count_sensors(const sonar_config *c, size_t first, size_t end, size_t *used) {
    size_t count = *used = 0;
    for (size_t s = 0; s < c->sensors; s++)
        if (c->channel[s] >= first && c->channel[s] < end) {
            count++;
            *used += c->used[s];
        }
    return count;
}

sonar_code sonar_config_part_create(const sonar_config *whole, const sonar_rank_place *place,
                                    sonar_config_part **part, sonar_error *err) {
    const size_t rank = place->rank, ranks = place->ranks;
    size_t first, end, used;
    *part = NULL;
    if (whole->cluster_ranks && whole->cluster_ranks != ranks)
        return sonar_fail(
            err, SONAR_EINVAL, "cluster.ranks",
            "mpirun has started %zu ranks, but the configuration has channels for %zu", ranks,
            whole->cluster_ranks);
    if (sonar_config_bends(whole) && ranks > 1)
        return sonar_fail(err, SONAR_EINVAL, "navigation.tow.model",
                          "several ranks cannot follow the shape of a towed array: %s needs one "
                          "process with all sensors; with rigid the heading follows",
                          sonar_options[OPT_TOW_MODEL].choices[whole->tow_model]);
    sonar_config_block(whole, rank, ranks, &first, &end);
    const size_t sensors = count_sensors(whole, first, end, &used);
    if (!used)
        return sonar_fail(err, SONAR_EINVAL, "cluster.ranks",
                          "rank %zu of %zu has channels %zu to %zu, which feed no sensor in use",
                          rank, ranks, first, end);
    sonar_config_part *made = sonar_alloc(1, sizeof *made);
    if (!made)
        return sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory");
    made->config = *whole;
    set_apart(&made->config);
    made->first_channel = first;
    *part = made;
    if (fill(whole, sensors, end, made) && fill_endpoints(whole, rank, &made->config)) {
        made->processors = sonar_processors_of_rank(place, &made->share);
        sonar_resolve_threads_of_rank(&made->config, made->processors);
        return SONAR_OK;
    }
    sonar_config_part_destroy(made);
    *part = NULL;
    return sonar_fail(err, SONAR_ENOMEM, "cluster", "no memory for %zu sensors", sensors);
}

void sonar_config_part_destroy(sonar_config_part *part) {
    if (!part)
        return;
    sonar_config *c = &part->config;
    sonar_config_free_sensors(c);
    for (size_t i = 0; i < c->ingest_endpoints; i++)
        free(c->ingest_endpoint[i]);
    free(c->shared_memory);
    free(part->sensor);
    free(part);
}
