/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Training: sonard --train and --explain, without a running pipeline, and in the middle of a run.
 */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "pipeline/internal.h"

typedef struct session {
    const sonar_config *config; /* configuration of this process's part of the array */
    sonar_config_part *part;    /* that part; NULL: the whole array */
    void (*log)(void *ctx, sonar_level level, const char *where, const char *text);
    void *log_ctx;
    sonar_pool *pool;
    sonar_host host; /* its ctx is this session */
} session;

static void host_log(void *ctx, sonar_level level, const char *where, const char *text) {
    const session *s = ctx;
    if (level <= s->config->log_level)
        s->log(s->log_ctx, level, where, text);
}

static void host_parallel(void *ctx, size_t tasks, void (*task)(void *, size_t, size_t),
                          void *arg) {
    sonar_pool_parallel(((session *)ctx)->pool, tasks, task, arg);
}

/* Mirror images of a part's sensors may belong to another rank, so the part is timed without
 * them. */
static sonar_code take_part(const sonar_config *whole, session *s, sonar_error *err) {
    const sonar_rank_place *place = sonar_config_place(whole);
    s->config = whole;
    if (place->ranks < 2)
        return SONAR_OK;
    const sonar_code code = sonar_config_part_create(whole, place, &s->part, err);
    if (code)
        return code;
    s->part->config.specs.mvdr.forward_backward = false;
    s->config = &s->part->config;
    return SONAR_OK;
}

static sonar_code open_session(const sonar_config *whole, session *s, sonar_error *err) {
    const sonar_code code = take_part(whole, s, err);
    if (code)
        return code;
    const sonar_config *c = s->config;
    s->host = (sonar_host){.ctx = s,
                           .log = host_log,
                           .parallel = host_parallel,
                           .workers = c->threads,
                           .state_dir = c->state_dir,
                           .fail_at = c->fail_at,
                           .device = sonar_config_place(c)->local};
    return sonar_pool_create(c->threads, c->cpus ? c->cpu : NULL, &s->pool, err);
}

static void close_session(session *s) {
    sonar_pool_destroy(s->pool);
    sonar_config_part_destroy(s->part);
}

static int64_t monotonic(void *ctx) {
    (void)ctx;
    return sonar_monotonic_ns();
}

sonar_train_setup sonar_pipeline_setup(const sonar_config *c, const sonar_host *host) {
    sonar_train_setup setup = {.backend = c->backend,
                               .plugin_dir = c->plugin_dir,
                               .sample_type = c->sample_type,
                               .specs = &c->specs,
                               .host = host,
                               .place = sonar_config_place(c)};
    for (size_t s = 0; s < c->sensors; s++)
        setup.sensors_used += c->used[s] != 0;
    return setup;
}

/* Checks, before training, whether the result can be stored. */
static sonar_code check_place(const sonar_config *config, char *path, size_t size,
                              sonar_error *err) {
    if (sonar_train_path(config->state_dir, sonar_config_place(config), path, size))
        return SONAR_OK;
    return sonar_fail(err, SONAR_EINVAL, "runtime.state_dir",
                      "is not set (or too long), so the trained table cannot be stored");
}

static sonar_code train(session *s, const char *path, FILE *to, sonar_error *err) {
    sonar_train_table *table = NULL;
    const sonar_train_clock clock = {monotonic, NULL};
    sonar_params *params = NULL;
    sonar_train_setup setup = sonar_pipeline_setup(s->config, &s->host);
    const sonar_params_spec live = sonar_config_params(s->config);
    sonar_code code = sonar_params_create(&live, 1, &params, err);
    setup.params = params;
    if (!code)
        code = sonar_train_run(&setup, &clock, &table, err);
    if (!code) {
        sonar_train_print(table, to);
        code = sonar_train_save(table, path, err);
    }
    if (!code)
        fprintf(to, "written to %s\n", path);
    free(table);
    sonar_params_destroy(params);
    return code;
}

sonar_code sonar_pipeline_train(const sonar_config *config,
                                void (*log)(void *ctx, sonar_level level, const char *where,
                                            const char *text),
                                void *log_ctx, FILE *to, sonar_error *err) {
    char path[4200];
    session s = {.log = log, .log_ctx = log_ctx};
    sonar_code code = check_place(config, path, sizeof path, err);
    if (!code)
        code = open_session(config, &s, err);
    if (!code)
        code = train(&s, path, to, err);
    close_session(&s);
    return code;
}

/* ---- during a run ---------------------------------------------------------------------------- */

sonar_code sonar_pipeline_ask_training(sonar_pipeline *p, sonar_error *err) {
    char path[4200];
    if (p->place.ranks > 1)
        return sonar_fail(err, SONAR_ESTATE, "train",
                          "several ranks share the array: train before they are started, with "
                          "mpirun -n %zu sonard --train",
                          p->place.ranks);
    const sonar_code code = check_place(p->config, path, sizeof path, err);
    if (code)
        return code;
    if (atomic_load(&p->training_since_ns))
        return sonar_fail(err, SONAR_ESTATE, "train", "a training is in progress already");
    atomic_store(&p->training_since_ns, sonar_monotonic_ns());
    sonar_wake_signal(sonar_ingest_fd(p->ingest));
    return SONAR_OK;
}

/* Each reading of the clock counts as progress for the watchdog. */
static int64_t progressing(void *ctx) {
    sonar_pipeline *p = ctx;
    atomic_fetch_add_explicit(&p->progress.rounds, 1, memory_order_relaxed);
    return sonar_monotonic_ns();
}

/* The backend of the start stays open as long as the pipeline, because it owns the ring and the
 * results. */
static sonar_code train_and_choose(sonar_pipeline *p, sonar_error *err) {
    char path[4200];
    sonar_train_table *table = NULL;
    sonar_choices *made = NULL;
    const sonar_train_clock clock = {progressing, p};
    sonar_train_setup setup = sonar_pipeline_setup(p->config, &p->host);
    setup.params = p->live->params;
    sonar_code code = check_place(p->config, path, sizeof path, err);
    if (!code)
        code = sonar_train_run(&setup, &clock, &table, err);
    if (!code &&
        sonar_pool_cancelled(p->pool)) /* the measurement was cut off and its times are invalid */
        code = sonar_fail(err, SONAR_ESTATE, "train", "stopped, because the daemon stops");
    if (!code)
        code = sonar_train_save(table, path, err);
    free(table);
    if (!code)
        code = sonar_choices_create(&setup, &made, err);
    if (code)
        return code;
    sonar_choices_destroy(p->retrained);
    p->retrained = made;
    memcpy(p->layout.place, made->place, sizeof p->layout.place);
    return SONAR_OK;
}

bool sonar_pipeline_retrain(sonar_pipeline *p) {
    sonar_error err = {0};
    sonar_log(&p->host, SONAR_INFO, "train", "training; no window is processed until it has ended");
    sonar_engine_destroy(p->engine); /* a device may not have memory for two engines */
    p->engine = NULL;
    if (train_and_choose(p, &err))
        sonar_log(&p->host, SONAR_ERROR, "train", "%s: %s; the previous choices stay in use",
                  err.where, err.text);
    else
        sonar_log(&p->host, SONAR_INFO, "train", "%s: %s", p->retrained->source,
                  p->retrained->backend.reason);
    /* If the daemon stops, no engine is created again, and without one the data thread has to
     * end. */
    const bool good = !sonar_pool_cancelled(p->pool) && sonar_pipeline_renew(p);
    p->versions.mvdr_restarted = p->config->specs.mvdr_enabled;
    atomic_store(&p->training_since_ns, 0);
    return good;
}

sonar_code sonar_pipeline_explain(const sonar_config *config,
                                  void (*log)(void *ctx, sonar_level level, const char *where,
                                              const char *text),
                                  void *log_ctx, FILE *to, sonar_error *err) {
    session s = {.log = log, .log_ctx = log_ctx};
    sonar_choices *choices = NULL;
    sonar_code code = open_session(config, &s, err);
    if (!code) {
        const sonar_train_setup setup = sonar_pipeline_setup(s.config, &s.host);
        code = sonar_choices_create(&setup, &choices, err);
    }
    if (!code) {
        fprintf(to, "%s\n", choices->source);
        fprintf(to, "backend: %s (%s): %s\n", choices->backend.backend->name,
                choices->backend.description, choices->backend.reason);
        sonar_train_print(&choices->table, to);
    }
    sonar_choices_destroy(choices);
    close_session(&s);
    return code;
}
