/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Recovery from a backend that fails in the middle of the stream. Here the data thread allocates,
 * logs and takes a lock, which it does nowhere else during the stream. This costs no more than the
 * failure itself: ingest continues, and windows that queue up during recovery are treated as in any
 * other overload. */
#include <stdio.h>

#include "pipeline/internal.h"

/* A backend that fails again within this many windows after a restart is not used again. */
enum { TRIAL_WINDOWS = 100 };

static void log_change(sonar_pipeline *p, const char *what, const sonar_error *why) {
    struct change *change = &p->change;
    pthread_mutex_lock(&change->lock);
    if (p->engine)
        snprintf(change->backend, sizeof change->backend, "%s", sonar_engine_name(p->engine));
    snprintf(change->text, sizeof change->text, "%s: %.60s: %.100s", what, why->where, why->text);
    pthread_mutex_unlock(&change->lock);
    sonar_log(&p->host, SONAR_ERROR, "backend", "%s: %s: %s", what, why->where, why->text);
}

static bool on_trial(const sonar_pipeline *p, uint64_t windows) {
    return p->rebuilt && windows - p->rebuilt_at_window <= TRIAL_WINDOWS;
}

static bool give_up(sonar_pipeline *p, const char *what, const sonar_error *why) {
    log_change(p, what, why);
    atomic_store(&p->gave_up, true);
    return false;
}

/* Plans are not measured again, which may take seconds. */
static bool use_cpu(sonar_pipeline *p, const sonar_error *why) {
    sonar_error err = {0};
    const sonar_backend *cpu = sonar_backend_cpu();
    const sonar_backend *const place[SONAR_ENGINE_STAGES] = {cpu, cpu, cpu};
    if (sonar_pipeline_make_engine(p, place, SONAR_PLAN_STABLE, &err))
        return give_up(p, "failed, and the CPU cannot take over", &err);
    log_change(p, "the CPU has taken over", why);
    return true;
}

bool sonar_pipeline_renew(sonar_pipeline *p) {
    sonar_error err = {0};
    if (sonar_pipeline_make_engine(p, p->layout.place, sonar_pipeline_planning(p), &err))
        return use_cpu(p, &err);
    pthread_mutex_lock(&p->change.lock);
    snprintf(p->change.backend, sizeof p->change.backend, "%s", sonar_engine_name(p->engine));
    pthread_mutex_unlock(&p->change.lock);
    return true;
}

bool sonar_pipeline_recover(sonar_pipeline *p, const sonar_error *why) {
    if (!sonar_engine_has_device(p->engine))
        return true; /* the CPU backend cannot be replaced */
    if (p->config->on_gpu_failure == SONAR_GPU_FAILURE_EXIT)
        return give_up(p, "failed, and runtime.on_gpu_failure is exit", why);
    uint64_t windows =
        atomic_load(&p->progress.windows_processed) + atomic_load(&p->progress.windows_failed);
    sonar_error again = *why;
    bool trusted = !on_trial(p, windows);
    sonar_engine_destroy(p->engine);
    p->engine = NULL;
    if (!trusted || sonar_pipeline_make_engine(p, p->layout.place, SONAR_PLAN_STABLE, &again))
        return use_cpu(p, &again);
    p->rebuilt = true;
    p->rebuilt_at_window = windows;
    log_change(p, "set up again after a failure", why);
    return true;
}
