/* SPDX-License-Identifier: GPL-3.0-or-later */
/* sonard --train and --explain: the choices without a running pipeline. */
#include <stdlib.h>
#include <string.h>

#include "core/core.h"
#include "train/choices.h"

typedef struct workshop {
    const sonar_config *config;
    void (*log)(void *ctx, sonar_level level, const char *where, const char *text);
    void *log_ctx;
    sonar_pool *pool;
    sonar_host host; /* its ctx is this workshop */
} workshop;

static void host_log(void *ctx, sonar_level level, const char *where, const char *text) {
    const workshop *w = ctx;
    if (level <= w->config->log_level)
        w->log(w->log_ctx, level, where, text);
}

static void host_parallel(void *ctx, size_t tasks, void (*task)(void *, size_t, size_t),
                          void *arg) {
    sonar_pool_parallel(((workshop *)ctx)->pool, tasks, task, arg);
}

static sonar_code open_workshop(const sonar_config *c, workshop *w, sonar_error *err) {
    w->config = c;
    w->host = (sonar_host){.ctx = w,
                           .log = host_log,
                           .parallel = host_parallel,
                           .workers = c->threads,
                           .state_dir = c->state_dir,
                           .fail_at = c->fail_at};
    return sonar_pool_create(c->threads, c->cpus ? c->cpu : NULL, &w->pool, err);
}

static int64_t monotonic(void *ctx) {
    (void)ctx;
    return sonar_monotonic_ns();
}

/* What cannot be kept is found out before the work, not after. */
static sonar_code check_place(const sonar_config *config, char *path, size_t size,
                              sonar_error *err) {
    if (sonar_choices_path(config, path, size))
        return SONAR_OK;
    return sonar_fail(err, SONAR_EINVAL, "runtime.state_dir",
                      "is not set (or too long): there is nowhere to keep the trained table");
}

static sonar_code train(workshop *w, const char *path, FILE *to, sonar_error *err) {
    sonar_train_table *table = NULL;
    const sonar_train_clock clock = {monotonic, NULL};
    sonar_code code =
        sonar_training_run(w->config, &w->config->specs, &w->host, &clock, &table, err);
    if (!code) {
        sonar_choices_print(table, to);
        code = sonar_train_save(table, path, err);
    }
    if (!code)
        fprintf(to, "written to %s\n", path);
    free(table);
    return code;
}

sonar_code sonar_pipeline_train(const sonar_config *config,
                                void (*log)(void *ctx, sonar_level level, const char *where,
                                            const char *text),
                                void *log_ctx, FILE *to, sonar_error *err) {
    char path[4200];
    workshop w = {.log = log, .log_ctx = log_ctx};
    sonar_code code = check_place(config, path, sizeof path, err);
    if (!code)
        code = open_workshop(config, &w, err);
    if (!code)
        code = train(&w, path, to, err);
    sonar_pool_destroy(w.pool);
    return code;
}

sonar_code sonar_pipeline_explain(const sonar_config *config,
                                  void (*log)(void *ctx, sonar_level level, const char *where,
                                              const char *text),
                                  void *log_ctx, FILE *to, sonar_error *err) {
    workshop w = {.log = log, .log_ctx = log_ctx};
    sonar_choices *choices = NULL;
    sonar_code code = open_workshop(config, &w, err);
    if (!code)
        code = sonar_choices_create(config, &config->specs, &w.host, &choices, err);
    if (!code) {
        fprintf(to, "%s\n", choices->source);
        fprintf(to, "backend: %s (%s): %s\n", choices->backend.backend->name,
                choices->backend.description, choices->backend.reason);
        sonar_choices_print(&choices->table, to);
    }
    sonar_choices_destroy(choices);
    sonar_pool_destroy(w.pool);
    return code;
}
