/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Creates a pipeline, from the configuration to the last buffer, and destroys it. Runs on the
 * control thread; the data thread may remake the engine later (recover.c, train.c). */
#include <math.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "ranks/cluster.h"
#include "config/fits.h"
#include "net/shared.h"
#include "mvdr_jacobi/mvdr_jacobi.h"
#include "pipeline/internal.h"

/* Version 4, variant 1 (RFC 4122, section 4.4). */
static void make_uuid(char text[37]) {
    uint8_t b[16];
    randombytes_buf(b, sizeof b);
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(text, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
             b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
             b[14], b[15]);
}

/* ---- what stages call ------------------------------------------------------------------------ */

/* `parallel` gets the log's context too, because sonar_host has only one: the pipeline itself. */
static void host_parallel(void *ctx, size_t tasks, void (*task)(void *, size_t, size_t),
                          void *arg) {
    sonar_pool_parallel(((sonar_pipeline *)ctx)->pool, tasks, task, arg);
}

static void host_log(void *ctx, sonar_level level, const char *where, const char *text) {
    const sonar_pipeline *p = ctx;
    if ((int)level <= atomic_load_explicit(&p->log_level, memory_order_relaxed))
        p->log(p->log_ctx, level, where, text);
}

static const char *host_choice(void *ctx, const char *decision) {
    const sonar_pipeline *p = ctx;
    return sonar_choices_ask(p->retrained ? p->retrained : p->choices, decision);
}

/* A window waits for the device about ten times: once for the stages and once in each round of its
 * detections. Waking up takes 50 us. */
static const int64_t awake_ns = 500000;

static sonar_code make_host(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    sonar_code code = sonar_pool_create(c->threads, c->cpus ? c->cpu : NULL, &p->pool, err);
    if (code)
        return code;
    p->host.workers = c->threads;
    p->host.state_dir = c->state_dir;
    p->host.fail_at = c->fail_at;
    p->host.device = p->place.local;
    return SONAR_OK;
}

/* ---- backends and engine --------------------------------------------------------------------- */

/* The trained table or the built-in rule decides. Stages ask through host.choice for choices within
 * a backend. */
static sonar_code open_backend(sonar_pipeline *p, const struct layout *given, sonar_error *err) {
    if (given) {
        p->layout = *given;
        p->choice =
            (sonar_backend_choice){.backend = given->place[SONAR_ENGINE_DFT], .reason = "given"};
        for (int i = 0; i < SONAR_ENGINE_STAGES; i++)
            if (given->place[i]->native_space != SONAR_HOST)
                p->choice.backend = given->place[i];
        return SONAR_OK;
    }
    const sonar_train_setup setup = sonar_pipeline_setup(p->config, &p->host);
    sonar_code code = sonar_choices_create(&setup, &p->choices, err);
    if (code)
        return code;
    p->choice = p->choices->backend;
    memcpy(p->layout.place, p->choices->place, sizeof p->layout.place);
    sonar_log(&p->host, SONAR_INFO, "choices", "%s", p->choices->source);
    return SONAR_OK;
}

static uint64_t samples_ready(void *ctx) {
    return sonar_ingest_ready(((const sonar_pipeline *)ctx)->ingest);
}

static void samples_release(void *ctx, const sonar_window *window) {
    sonar_mask_release(ctx, window);
}

/* All of the daemon's device memory is allocated when the engine is created. */
static void note_device_memory(sonar_pipeline *p,
                               const sonar_backend *const place[SONAR_ENGINE_STAGES]) {
    double bytes = NAN;
    for (int s = 0; s < SONAR_ENGINE_STAGES; s++)
        if (place[s]->memory_free)
            bytes = (double)place[s]->memory_free(place[s]);
    pthread_mutex_lock(&p->change.lock);
    p->change.device_free_bytes = bytes;
    pthread_mutex_unlock(&p->change.lock);
}

sonar_code sonar_pipeline_make_engine(sonar_pipeline *p,
                                      const sonar_backend *const place[SONAR_ENGINE_STAGES],
                                      sonar_planning planning, sonar_error *err) {
    sonar_engine_spec spec = {.specs = &p->config->specs,
                              .params = p->live->params,
                              .planning = planning,
                              .surfaces =
                                  sonar_pipeline_needed(p->config, p->config->output_topics),
                              .source = {.ring = sonar_ingest_ring(p->ingest),
                                         .ctx = p,
                                         .ready = samples_ready,
                                         .release = samples_release},
                              .times = &p->times,
                              .ranks = sonar_ranks_split(p)};
    memcpy(spec.place, place, sizeof spec.place);
    spec.source.ring.space = p->ring.space;
    const sonar_code code = sonar_engine_create(&spec, &p->host, &p->engine, err);
    note_device_memory(p, place);
    return code;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void starting(const sonar_pipeline *p, const char *step) {
    if (p->config->starting)
        p->config->starting(step);
}

static sonar_code make_version(sonar_pipeline *p, sonar_error *err) {
    const sonar_code code = sonar_live_create(p, err);
    if (!code)
        sonar_ranks_adopt(p);
    return code;
}

static sonar_code make_nav(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    sonar_nav_spec spec = {.zmq_context = p->zmq,
                           .baud = c->navigation_baud,
                           .endpoint = sonar_is_root(p) ? c->navigation_endpoint : NULL,
                           .stale_after_s = c->navigation_stale_after_ms * 1e-3,
                           .tow_reach_m = sonar_tow_reach(p->whole)};
    _Static_assert((int)SONAR_NMEA_MOST <= (int)SONAR_NAV_NMEA_MOST, "all that are configured");
    for (size_t i = 0; i < SONAR_NMEA_MOST && sonar_is_root(p); i++)
        spec.nmea[i] = c->navigation_nmea[i];
    _Static_assert((int)SONAR_COMPASSES_MOST <= (int)SONAR_NAV_COMPASSES_MOST &&
                       (int)SONAR_COMPASS_ID == (int)SONAR_NAV_ID_BYTES,
                   "all that are configured");
    if (p->whole->tow_model == SONAR_TOW_SENSORS)
        spec.compasses = p->whole->tow_compasses;
    for (size_t i = 0; i < spec.compasses; i++)
        spec.compass[i] = (sonar_nav_compass){.id = p->whole->tow_compass_id[i],
                                              .behind_m = p->whole->tow_compass_at_m[i],
                                              .offset_deg = p->whole->tow_compass_offset_deg[i]};
    const sonar_code code = sonar_nav_create(&spec, &p->host, &p->nav, err);
    return code ? code : sonar_tow_create(p, err);
}

/* Logs the path that MVDR's bins will take. */
static void log_path(const sonar_pipeline *p) {
    const sonar_backend *place = p->layout.place[SONAR_ENGINE_MVDR];
    char text[SONAR_MVDR_PATH_BYTES];
    if (!p->config->specs.mvdr_enabled || !place)
        return;
    const bool on_gpu = place->native_space == SONAR_DEVICE;
    sonar_mvdr_path_text(sonar_mvdr_path(&p->config->specs.mvdr, on_gpu, &p->host), text);
    sonar_log(&p->host, SONAR_INFO, "mvdr.path", "%s on %s", text, place->name);
}

static sonar_code make_engine(sonar_pipeline *p, sonar_error *err) {
    const sonar_planning planning = sonar_pipeline_planning(p);
    const sonar_code code = sonar_pipeline_make_engine(p, p->layout.place, planning, err);
    if (code)
        return code;
    snprintf(p->change.backend, sizeof p->change.backend, "%s", sonar_engine_name(p->engine));
    log_path(p);
    return code;
}

static sonar_code make_exporter(sonar_pipeline *p, sonar_error *err) {
    const char *listen = p->config->metrics_listen;
    if (!listen || !sonar_is_root(p))
        return SONAR_OK;
    const sonar_code code = sonar_exporter_create(listen, &p->exporter, err);
    if (code)
        return code;
    sonar_log(&p->host, SONAR_INFO, "metrics", "answering at http://%.*s:%u/metrics",
              (int)(strrchr(listen, ':') - listen), listen, sonar_exporter_port(p->exporter));
    return SONAR_OK;
}

static sonar_code check_fit(sonar_pipeline *p, const sonar_fit *fit, sonar_error *err) {
    char warning[sizeof err->text];
    const sonar_code code = sonar_config_fits(p->config, fit, warning, err);
    if (!code && *warning)
        sonar_log(&p->host, SONAR_WARN, "memory", "%s", warning);
    return code;
}

/* Missing memory is better reported now than found by the kernel during the run. Ranks on one
 * machine share its memory. */
static sonar_code check_memory(sonar_pipeline *p, sonar_error *err) {
    const sonar_room room = sonar_room_read("");
    const sonar_fit host = {.there_bytes = room.free_bytes / (double)p->place.ranks_here,
                            .of = "free memory of this machine or its control group"};
    const sonar_backend *device = p->layout.place[SONAR_ENGINE_DFT];
    sonar_code code = check_fit(p, &host, err);
    for (int i = 0; i < SONAR_ENGINE_STAGES; i++)
        if (p->layout.place[i] != device || !device->memory_free)
            return code;
    const sonar_fit gpu = {.there_bytes = (double)device->memory_free(device),
                           .of = "free memory of the GPU",
                           .device = true};
    return code ? code : check_fit(p, &gpu, err);
}

/* Each step needs the earlier ones. `starting` reports steps that may take long to the service
 * manager. */
static const struct {
    const char *starting;
    sonar_code (*make)(sonar_pipeline *p, sonar_error *err);
} steps[] = {
    {NULL, check_memory},
    {"computing delays and weights", make_version},
    {NULL, make_nav},
    {NULL, sonar_mask_create},
    {NULL, sonar_beams_create},
    {NULL, sonar_record_create},
    {"allocating the ring of samples", sonar_pipeline_make_ingest},
    {"planning the transforms", make_engine},
    {"allocating results", sonar_pipeline_make_buffers},
    {NULL, sonar_pipeline_make_output},
    {NULL, make_exporter},
};

static sonar_code make_all(sonar_pipeline *p, const struct layout *given, sonar_error *err) {
    sonar_code code = make_host(p, err);
    starting(p, "opening the backend");
    if (!code)
        code = open_backend(p, given, err);
    if (code)
        return code;
    sonar_log(&p->host, SONAR_INFO, "backend", "%s (%s): %s", p->choice.backend->name,
              p->choice.description, p->choice.reason);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && !code; i++) {
        if (steps[i].starting)
            starting(p, steps[i].starting);
        code = steps[i].make(p, err);
    }
    return code;
}

sonar_code sonar_pipeline_create_with(const struct layout *given, const sonar_config *config,
                                      void (*log)(void *ctx, sonar_level level, const char *where,
                                                  const char *text),
                                      void *log_ctx, sonar_pipeline **pipeline, sonar_error *err) {
    *pipeline = NULL;
    sonar_pipeline *p = sonar_alloc(1, sizeof *p);
    if (!p)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory");
    if (sodium_init() < 0) {
        free(p);
        return sonar_fail(err, SONAR_ESYS, "pipeline", "libsodium cannot be initialised");
    }
    p->config = p->whole = config;
    p->log = log;
    p->log_ctx = log_ctx;
    atomic_init(&p->log_level, (int)config->log_level);
    p->host.ctx = p;
    p->host.log = host_log;
    p->host.parallel = host_parallel;
    p->host.choice = host_choice;
    p->host.awake_ns = awake_ns;
    sonar_health_init(&p->health, config);
    pthread_mutex_init(&p->change.lock, NULL);
    make_uuid(p->run_uuid);
    sonar_code code = sonar_ranks_create(p, config, err);
    if (!code)
        code = sonar_pipeline_make_context(p, err);
    if (!code)
        code = make_all(p, given, err);
    if (code)
        sonar_pipeline_destroy(p);
    else
        *pipeline = p;
    return code;
}

sonar_code sonar_pipeline_create(const sonar_config *config,
                                 void (*log)(void *ctx, sonar_level level, const char *where,
                                             const char *text),
                                 void *log_ctx, sonar_pipeline **pipeline, sonar_error *err) {
    return sonar_pipeline_create_with(NULL, config, log, log_ctx, pipeline, err);
}

bool sonar_pipeline_destroy_within(sonar_pipeline *p, int timeout_ms) {
    if (!p)
        return true;
    if (!sonar_pipeline_stop(p, 0) && p->thread_started)
        pthread_join(p->thread, NULL);
    sonar_exporter_destroy(p->exporter);
    sonar_ingest_destroy(p->ingest);
    sonar_segments_destroy(p->segments);
    sonar_output_destroy(p->output);
    sonar_recorder_destroy(p->recorder);
    sonar_engine_destroy(p->engine);
    if (p->ring.data)
        p->choice.backend->buffer_destroy(&p->ring);
    sonar_pipeline_free_buffers(p);
    sonar_mask_destroy(p);
    sonar_beam_destroy(p->beam);
    sonar_tow_destroy(p);
    sonar_nav_destroy(p->nav);
    sonar_live_destroy(p);
    sonar_ranks_destroy(p);
    sonar_pool_destroy(p->pool);
    sonar_choices_destroy(p->retrained);
    sonar_choices_destroy(p->choices);
    sonar_zap_destroy(p->zap); /* after the sockets, which all need it */
    const bool ended = sonar_pipeline_end_context(p, timeout_ms);
    sonar_gate_destroy(p->readers);
    sonar_gate_destroy(p->controllers);
    sonar_memory_destroy(p->memory);
    pthread_mutex_destroy(&p->change.lock);
    free(p);
    return ended;
}

void sonar_pipeline_destroy(sonar_pipeline *p) {
    sonar_pipeline_destroy_within(p, -1);
}
