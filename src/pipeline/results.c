/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What the pipeline owns besides the engine: the results, which are lent to the output and
 * returned, and scratch. Allocated once, before the threads start, in host memory that any engine
 * can fill. */
#include <math.h>
#include <stdlib.h>

#include "status/topic.h"
#include "pipeline/internal.h"

/* True if a surface may be wanted, or needed to compute another; those sent with each window may
 * be. */
static bool may_be_asked_for(const sonar_config *c, int surface) {
    return sonar_topic_table[surface].when != SONAR_EACH_NAMED ||
           sonar_config_needed(c, c->output_topics) & SONAR_WANT(surface);
}

/* Allocates the surfaces that may be wanted, in memory to which the backend at start copies. */
static sonar_code make_result(sonar_pipeline *p, sonar_result *result, sonar_error *err) {
    const sonar_backend *owner = p->choice.backend;
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_SURFACES && !code; i++) {
        size_t shape[2];
        int rank = sonar_specs_surface(&p->whole->specs, (sonar_surface)i, shape);
        if (rank && may_be_asked_for(p->config, i))
            code = owner->buffer_create(owner, SONAR_PINNED, sonar_topic_table[i].dtype, rank,
                                        shape, &result->surface[i], err);
    }
    return code;
}

void sonar_result_put_positions(const sonar_config *c, const double *position_m,
                                sonar_buffer *position) {
    float *to = position->data;
    if (!to)
        return;
    for (size_t i = 0; i < position->bytes / sizeof *to; i++)
        to[i] = NAN;
    for (size_t s = 0; s < c->sensors; s++)
        for (size_t i = 0; i < 3; i++)
            to[3 * (size_t)c->channel[s] + i] = (float)position_m[3 * s + i];
}

static sonar_code make_results(sonar_pipeline *p, sonar_error *err) {
    if (!sonar_is_root(p))
        return SONAR_OK;
    p->results = p->config->output_queue_results + 2; /* one being filled, one being sent */
    p->result = sonar_alloc(p->results, sizeof *p->result);
    p->free_result = sonar_alloc(p->results, sizeof(sonar_result *));
    p->lent_under = sonar_alloc(p->results, sizeof *p->lent_under);
    p->trips = sonar_alloc(p->results, sizeof *p->trips);
    if (!p->result || !p->free_result || !p->lent_under || !p->trips)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for %zu results", p->results);
    for (size_t i = 0; i < p->results; i++) {
        sonar_code code = make_result(p, &p->result[i], err);
        if (code)
            return code;
        /* they stay, unless the array's shape follows a path */
        sonar_result_put_positions(p->whole, p->whole->position_m,
                                   &p->result[i].surface[SONAR_ELEMENT_POSITION]);
        p->free_result[p->free_results++] = &p->result[i];
    }
    return SONAR_OK;
}

static sonar_code make_scratch(sonar_pipeline *p, sonar_error *err) {
    size_t looks = sonar_max_size(p->config->cbf_scan.count, p->config->mvdr_scan.count);
    p->column = sonar_alloc(p->config->specs.mvdr_enabled ? p->config->specs.mvdr.bins : 1,
                            sizeof *p->column);
    p->detect_scratch = sonar_alloc(4 * looks, sizeof *p->detect_scratch);
    for (int i = 0; i < 2; i++)
        p->sides[i] = sonar_sides_create();
    if (!p->column || !p->detect_scratch || !p->sides[0] || !p->sides[1])
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for the detector");
    return SONAR_OK;
}

sonar_code sonar_pipeline_make_buffers(sonar_pipeline *p, sonar_error *err) {
    sonar_code code = make_results(p, err);
    if (!code)
        code = make_scratch(p, err);
    return code ? code : sonar_tracking_create(p, err);
}

void sonar_pipeline_free_buffers(sonar_pipeline *p) {
    for (size_t i = 0; p->result && i < p->results; i++)
        for (int surface = 0; surface < SONAR_SURFACES; surface++)
            if (p->result[i].surface[surface].data)
                p->choice.backend->buffer_destroy(&p->result[i].surface[surface]);
    free(p->result);
    free(p->free_result);
    free(p->lent_under);
    free(p->trips);
    free(p->column);
    free(p->detect_scratch);
    for (int i = 0; i < 2; i++)
        sonar_sides_destroy(p->sides[i]);
    sonar_tracks_destroy(p->tracking.tracks);
    free(p->tracking.text);
}
