/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Making, starting, watching and stopping: the control thread's side of the pipeline. */
#include "pipeline/pipeline.h"

#include <math.h>
#include <sched.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "cluster/cluster.h"
#include "net/shared.h"
#include "pipeline/internal.h"

/* ---- create ---------------------------------------------------------------------------------- */

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

/* Chunks small enough that little is left when a window is complete, and large enough to be worth a
 * copy; none for a backend that reads the samples where they are. */
static size_t chunk_samples(const sonar_pipeline *p) {
    enum { CHUNKS_A_HOP = 8, LEAST_BYTES = 1 << 16 };
    const sonar_config *c = p->config;
    if (p->layout.place[SONAR_ENGINE_DFT]->native_space == SONAR_HOST)
        return 0;
    size_t least = LEAST_BYTES / (c->channels * sonar_dtype_size(c->sample_type)) + 1;
    return sonar_min_size(sonar_max_size(least, c->specs.hop / CHUNKS_A_HOP), c->specs.hop);
}

/* The ring's memory comes from the backend: a device copies from pinned memory only without help of
 * the processor. */
static sonar_code make_ring(sonar_pipeline *p, const sonar_ingest_spec *spec, sonar_error *err) {
    size_t shape[2] = {spec->channels, sonar_ingest_capacity(spec)};
    if (!shape[1])
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for a ring of %zu channels",
                          spec->channels);
    return p->choice.backend->buffer_create(p->choice.backend, SONAR_PINNED, spec->sample_type, 2,
                                            shape, &p->ring, err);
}

/* 2^40 uPa (241 dB re 1 uPa) is ten times the pressure of the air, where no hydrophone follows and
 * the sea cavitates; without calibration, 2^40 counts, as no converter has. What lies beyond is a
 * wrong bit, and it would outweigh the rest of an exponential average for minutes. */
static float most_sample(const sonar_config *c) {
    double highest_gain_db = 0;
    for (size_t s = 0; s < c->sensors && c->calibrated; s++)
        highest_gain_db = s ? fmax(highest_gain_db, c->gain_db[s]) : c->gain_db[s];
    return (float)fmin(0x1p40 * pow(10, highest_gain_db / 20), 0x1p120);
}

static sonar_code make_ingest(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    uint8_t *channel_used = sonar_alloc(c->channels, 1);
    if (!channel_used)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory for %zu channels", c->channels);
    for (size_t s = 0; s < c->sensors; s++)
        channel_used[c->channel[s]] = c->used[s];
    sonar_ingest_spec spec = {
        .zmq_context = p->zmq,
        .memory = p->memory,
        .security = &p->config->security,
        .segments = p->segments,
        .endpoints = (const char *const *)c->ingest_endpoint,
        .endpoint_count = c->ingest_endpoints,
        .socket = c->ingest_socket,
        .high_water_mark = c->ingest_high_water_mark,
        .max_message_bytes = c->ingest_max_message_bytes,
        .array_id = c->array_id,
        .first_channel = p->ranks.cluster ? p->ranks.part->first_channel : 0,
        .channels = c->channels,
        .channel_used = channel_used,
        .fs_hz = c->fs_hz,
        .window_length = c->specs.window_length,
        .hop = c->specs.hop,
        .lookback = c->specs.mvdr_lookback,
        .queue_windows = c->ingest_queue_windows,
        .overload = c->overload,
        /* of the whole array, where there are ranks: together they decide */
        .max_missing_share = p->ranks.cluster ? 1 : c->max_missing_share,
        .max_skew_samples = (size_t)(c->max_skew_ms * 1e-3 * c->fs_hz),
        .restart_after_ms = c->restart_after_ms,
        .silent_after_ms = c->silent_after_ms,
        .cpu = c->cpu_ingest,
        .threads = c->ingest_threads,
        .sample_type = c->sample_type,
        .most_sample = most_sample(c),
        .drop_spikes = c->drop_spikes,
        .chunk_samples = chunk_samples(p),
        .sink = sonar_record_sink(p),
    };
    sonar_code code = make_ring(p, &spec, err);
    spec.ring = p->ring.data;
    if (!code)
        code = sonar_ingest_create(&spec, &p->host, &p->ingest, err);
    free(channel_used);
    return code;
}

static const char *loading_name(sonar_loading loading) {
    const char *const names[] = {[SONAR_LOADING_NOISE] = "noise",
                                 [SONAR_LOADING_TRACE] = "trace",
                                 [SONAR_LOADING_ABSOLUTE] = "absolute"};
    return names[loading];
}

/* NULL: nobody counts. */
static const char *source_count_name(sonar_source_count rule) {
    const char *const names[] = {[SONAR_COUNT_OFF] = NULL,
                                 [SONAR_COUNT_MDL] = "mdl",
                                 [SONAR_COUNT_AIC] = "aic",
                                 [SONAR_COUNT_RANDOM_MATRIX] = "random_matrix"};
    return names[rule];
}

/* The lowest and the highest frequency that the band's bins stand for. */
static void band_of(const sonar_band *band, double bin_hz, double hz[2]) {
    hz[0] = (double)band->first_bin * bin_hz;
    hz[1] = (double)(band->first_bin + band->bins - 1) * bin_hz;
}

sonar_output_spec sonar_pipeline_output_spec(const sonar_pipeline *p, const sonar_config *c) {
    sonar_output_spec spec = {
        .zmq_context = p->zmq,
        .tap = sonar_record_tap(p),
        .memory = p->memory,
        .security = &p->config->security,
        .endpoint = c->output_endpoint,
        .high_water_mark = c->output_high_water_mark,
        .topics = c->output_topics,
        .queue_results = c->output_queue_results,
        .block = c->overload == SONAR_BLOCK,
        .cpu = c->cpu_output,
        .array_name = c->array_name,
        .run_uuid = p->run_uuid,
        .fs_hz = c->fs_hz,
        .relative = c->specs.dft.equalise_phase,
        .loading_rule = c->specs.mvdr.dmr ? "dmr" : loading_name(c->specs.mvdr.loading),
        .loading_eps = c->specs.mvdr.dmr ? NAN : c->specs.mvdr.eps,
        .level_corrected = c->specs.mvdr.correct_level,
        .cell_maximum = c->mvdr_cell_maximum,
        .true_bearings = c->bearing_reference == SONAR_REFERENCE_TRUE,
        .cbf_scan = &c->cbf_scan,
        .mvdr_scan = c->specs.mvdr_enabled ? &c->mvdr_scan : NULL,
        .ranges = c->specs.cbf.ranges,
        .mvdr_ranges = c->specs.mvdr_enabled ? c->specs.mvdr.ranges : 0,
        .range_m = c->range_m,
        .range_reference = c->range_reference == SONAR_ABEAM ? "abeam" : "radial",
        .channels = c->channels,
        .cbf_bin_hz = c->fs_hz / (double)c->specs.cbf.length,
        .cbf_first_bin = c->lofar_band.first_bin,
        .cbf_bins = c->lofar_band.bins,
    };
    band_of(&c->cbf_band, spec.cbf_bin_hz, spec.cbf_band_hz);
    if (c->specs.mvdr_enabled) {
        spec.mvdr_bin_hz = c->fs_hz / (double)c->specs.mvdr.length;
        spec.mvdr_first_bin = c->mvdr_band.first_bin;
        spec.mvdr_bins = c->mvdr_band.bins;
        spec.mvdr_modes = sonar_mvdr_modes(&c->specs.mvdr);
        spec.white_noise_gain_db = c->specs.mvdr.white_noise_gain_db;
        spec.music = c->specs.mvdr.music;
        spec.source_count = source_count_name(c->specs.mvdr.source_count);
        band_of(&c->mvdr_band, spec.mvdr_bin_hz, spec.mvdr_band_hz);
    }
    return spec;
}

static sonar_code make_output(sonar_pipeline *p, sonar_error *err) {
    if (!sonar_is_root(p))
        return SONAR_OK;
    const sonar_output_spec spec = sonar_pipeline_output_spec(p, p->whole);
    return sonar_output_create(&spec, &p->host, &p->output, err);
}

static sonar_code make_host(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    sonar_code code = sonar_pool_create(c->threads, c->cpus ? c->cpu : NULL, &p->pool, err);
    if (code)
        return code;
    p->host.workers = c->threads;
    p->host.state_dir = c->state_dir;
    p->host.fail_at = c->fail_at;
    p->host.device = p->ranks.cluster ? p->ranks.cluster->place.local : 0;
    return SONAR_OK;
}

/* `parallel` gets the log's context, since host has one: the pipeline itself. */
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

/* The trained table or the built-in rule decides; what was chosen inside the backend is asked for
 * by its stages through host.choice. */
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
    sonar_ingest_release(((sonar_pipeline *)ctx)->ingest, window);
}

/* All that a daemon takes of a device is taken when its engine is made. */
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
                              .ranks = p->ranks.cluster ? &p->ranks.engine : NULL};
    memcpy(spec.place, place, sizeof spec.place);
    spec.source.ring.space = p->ring.space;
    const sonar_code code = sonar_engine_create(&spec, &p->host, &p->engine, err);
    note_device_memory(p, place);
    return code;
}

static void starting(const sonar_pipeline *p, const char *step) {
    if (p->config->starting)
        p->config->starting(step);
}

static sonar_code make_nav(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    const sonar_nav_spec spec = {.zmq_context = p->zmq,
                                 .nmea = sonar_is_root(p) ? c->navigation_nmea : NULL,
                                 .baud = c->navigation_baud,
                                 .endpoint = sonar_is_root(p) ? c->navigation_endpoint : NULL,
                                 .stale_after_s = c->navigation_stale_after_ms * 1e-3};
    return sonar_nav_create(&spec, &p->host, &p->nav, err);
}

static sonar_code make_all(sonar_pipeline *p, const struct layout *given, sonar_error *err) {
    const sonar_config *c = p->config;
    sonar_code code = make_host(p, err);
    starting(p, "opening the backend");
    if (!code)
        code = open_backend(p, given, err);
    if (code)
        return code;
    sonar_log(&p->host, SONAR_INFO, "backend", "%s (%s): %s", p->choice.backend->name,
              p->choice.description, p->choice.reason);
    starting(p, "computing delays and weights");
    code = sonar_live_create(p, err);
    if (!code)
        sonar_ranks_describe_engine(p);
    if (!code)
        code = make_nav(p, err);
    if (!code)
        code = sonar_mask_create(p, err);
    if (!code)
        code = sonar_record_create(p, err);
    starting(p, "allocating the ring of samples");
    if (!code)
        code = make_ingest(p, err);
    starting(p, "planning the transforms");
    if (!code)
        code = sonar_pipeline_make_engine(p, p->layout.place, sonar_pipeline_planning(p), err);
    starting(p, "allocating results");
    if (!code)
        snprintf(p->change.backend, sizeof p->change.backend, "%s", sonar_engine_name(p->engine));
    if (!code)
        code = sonar_pipeline_make_buffers(p, err);
    if (!code)
        code = make_output(p, err);
    if (!code && c->metrics_listen && sonar_is_root(p))
        code = sonar_exporter_create(c->metrics_listen, &p->exporter, err);
    if (p->exporter) {
        const char *colon = strrchr(c->metrics_listen, ':');
        sonar_log(&p->host, SONAR_INFO, "metrics", "answering at http://%.*s:%u/metrics",
                  (int)(colon - c->metrics_listen), c->metrics_listen,
                  sonar_exporter_port(p->exporter));
    }
    return code;
}

const sonar_security *sonar_pipeline_security(const sonar_pipeline *p) {
    return &p->config->security;
}

/* A key that is taken away is of no use any more, even where it has been let in already. */
sonar_code sonar_pipeline_allow_side(sonar_pipeline *p, sonar_domain side,
                                     const sonar_keyring *allowed, sonar_error *err) {
    bool fewer = false;
    const sonar_code code = p->zap ? sonar_zap_allow(p->zap, side, allowed, &fewer, err) : SONAR_OK;
    if (code)
        return code;
    if (fewer && side == SONAR_SENDERS)
        sonar_ingest_cut_all(p->ingest);
    if (fewer && side == SONAR_READERS && p->output)
        sonar_output_cut_all(p->output);
    return SONAR_OK;
}

sonar_code sonar_pipeline_allow(sonar_pipeline *p, const sonar_security *security,
                                sonar_error *err) {
    if (p->ranks.cluster && p->thread_started)
        return sonar_propose_keys(p, security, err);
    sonar_code code = SONAR_OK;
    for (int i = 0; i < SONAR_DOMAINS && !code; i++)
        code = sonar_pipeline_allow_side(p, (sonar_domain)i, &security->allowed[i], err);
    return code;
}

/* An I/O thread takes two descriptors, an endpoint up to four, and the rest is little. */
static sonar_code make_context(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    sonar_code code =
        sonar_descriptors_reserve(32 + 2 * c->ingest_io_threads + 4 * c->ingest_endpoints, err);
    if (code)
        return code;
    p->zmq = zmq_ctx_new();
    if (!p->zmq)
        return sonar_fail(err, SONAR_ESYS, "pipeline", "zmq_ctx_new: %s",
                          zmq_strerror(zmq_errno()));
    zmq_ctx_set(p->zmq, ZMQ_IO_THREADS, (int)c->ingest_io_threads);
    p->memory = sonar_memory_create();
    if (!p->memory)
        return sonar_fail(err, SONAR_ENOMEM, "pipeline", "no memory");
    if (c->shared_memory) {
        const sonar_segments_spec spec = {.endpoint = c->shared_memory,
                                          .mode = c->security.ipc_mode,
                                          .bytes_most = c->shared_memory_bytes};
        code = sonar_segments_create(&spec, &p->host, &p->segments, err);
    }
    if (code || !c->security.curve)
        return code;
    code = sonar_zap_create(p->zmq, &p->host, &p->zap, err);
    return code ? code : sonar_pipeline_allow(p, &c->security, err);
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
    sonar_health_init(&p->health, config);
    pthread_mutex_init(&p->change.lock, NULL);
    make_uuid(p->run_uuid);
    sonar_code code = sonar_ranks_create(p, config, err);
    if (!code)
        code = make_context(p, err);
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

void sonar_pipeline_destroy(sonar_pipeline *p) {
    if (!p)
        return;
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
    sonar_nav_destroy(p->nav);
    sonar_live_destroy(p);
    sonar_ranks_destroy(p);
    sonar_pool_destroy(p->pool);
    sonar_choices_destroy(p->retrained);
    sonar_choices_destroy(p->choices);
    sonar_zap_destroy(p->zap); /* after the sockets: none is open without it */
    if (p->zmq)
        zmq_ctx_term(p->zmq);
    sonar_memory_destroy(p->memory);
    pthread_mutex_destroy(&p->change.lock);
    free(p);
}

/* ---- start and stop -------------------------------------------------------------------------- */

static sonar_code start_data_thread(sonar_pipeline *p, sonar_error *err) {
    const sonar_config *c = p->config;
    sonar_code code = sonar_thread_start(&p->host, "sonar-data", c->cpus ? c->cpu[0] : -1,
                                         sonar_data_thread, p, &p->thread, err);
    p->thread_started = !code;
    if (!code && c->data_priority &&
        !sonar_priority_take(p->thread, c->data_priority, p->refused.priority))
        sonar_log(&p->host, SONAR_WARN, "runtime.data_priority", "%s", p->refused.priority);
    return code;
}

/* Last of all, when what the threads need is there, their stacks included: memory is locked where
 * it lies, and in huge pages where it was asked for in huge pages. */
static void lock_memory(sonar_pipeline *p) {
    if (!p->config->lock_memory)
        return;
    if (!sonar_memory_lock(p->refused.memory))
        sonar_log(&p->host, SONAR_WARN, "runtime.lock_memory", "%s", p->refused.memory);
    sonar_memory_begin(p->memory); /* pages that nobody had touched are there now */
}

sonar_code sonar_pipeline_start(sonar_pipeline *p, sonar_error *err) {
    p->started_ns = p->ticked_ns = sonar_monotonic_ns();
    sonar_memory_begin(p->memory);
    sonar_code code = sonar_record_start(p, err);
    if (!code && p->output)
        code = sonar_output_start(p->output, err);
    if (!code)
        code = start_data_thread(p, err);
    if (!code)
        code = sonar_nav_start(p->nav, err);
    if (!code)
        code = sonar_ingest_start(p->ingest, err);
    if (code)
        sonar_pipeline_stop(p, 0);
    else
        lock_memory(p);
    return code;
}

static void await_drained(const sonar_pipeline *p, int64_t until_ns) {
    while (!atomic_load(&p->drained) && sonar_monotonic_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Windows that wait are worked off until then; the one that is in work after that is given up where
 * it stands. False: the thread is deep inside one task and does not look up. */
static bool end_data_thread(sonar_pipeline *p, int64_t until_ns) {
    enum { TASK_NS = 200000000 };
    atomic_store(&p->draining, true);
    sonar_wake_signal(sonar_ingest_fd(p->ingest));
    await_drained(p, until_ns);
    atomic_store(&p->stopping, true);
    sonar_wake_signal(sonar_ingest_fd(p->ingest));
    sonar_pool_cancel(p->pool);
    await_drained(p, sonar_monotonic_ns() + TASK_NS);
    return atomic_load(&p->drained);
}

bool sonar_pipeline_stop(sonar_pipeline *p, int timeout_ms) {
    enum { RECORDER_MS = 200 }; /* at least: for the last samples */
    int64_t until = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    bool ended = true;
    sonar_health_end(&p->health, &p->host);
    if (p->ingest)
        sonar_ingest_stop(p->ingest);
    if (p->thread_started && (ended = end_data_thread(p, until))) {
        pthread_join(p->thread, NULL);
        p->thread_started = false;
    }
    if (atomic_load(&p->progress.window_given_up) || !ended)
        sonar_log(&p->host, SONAR_WARN, "pipeline",
                  "stopped in the middle of a window, which is not published");
    int64_t left_ms = (until - sonar_monotonic_ns()) / 1000000;
    if (p->output)
        sonar_output_stop(p->output, left_ms > 0 ? (int)left_ms : 0);
    left_ms = (until - sonar_monotonic_ns()) / 1000000;
    if (!sonar_recorder_stop(p->recorder, left_ms > RECORDER_MS ? (int)left_ms : RECORDER_MS)) {
        sonar_log(&p->host, SONAR_WARN, "record", "the disk does not answer; the end is not there");
        ended = false;
    }
    return ended;
}

/* ---- once a second --------------------------------------------------------------------------- */

/* Time the data thread has worked by now, the window in work included. Where it ends between the
 * two reads its time is missing once; what was told stays told. */
static uint64_t busy_until(const sonar_pipeline *p, int64_t now_ns) {
    uint64_t busy = atomic_load(&p->progress.busy_ns);
    int64_t since = atomic_load(&p->progress.busy_since_ns);
    if (since && now_ns > since)
        busy += (uint64_t)(now_ns - since);
    return busy > p->ticked_busy_ns ? busy : p->ticked_busy_ns;
}

void sonar_pipeline_read_times(sonar_pipeline *p, sonar_status *status) {
    for (int i = 0; i < SONAR_TIMED_STAGES; i++) {
        status->stage_us[i] = (double)atomic_load(&p->times.last_ns[i]) * 1e-3;
        for (int part = 0; part < SONAR_STAGE_PARTS; part++)
            sonar_histogram_read(&p->times.part[i][part], &p->times_seen[i][part],
                                 &status->stage[i][part]);
    }
}

static void collect(sonar_pipeline *p, sonar_status *status) {
    struct progress *progress = &p->progress;
    int64_t now = sonar_monotonic_ns();
    uint64_t busy = busy_until(p, now);
    sonar_ingest_read_counters(p->ingest, &status->ingest);
    sonar_ranks_read(p, status);
    if (p->output)
        sonar_output_read_counters(p->output, &status->output);
    status->output.results_dropped += atomic_load(&progress->results_dropped);
    status->windows_processed = atomic_load(&progress->windows_processed);
    status->windows_failed = atomic_load(&progress->windows_failed);
    status->mvdr_bins = atomic_load(&progress->mvdr_bins);
    status->mvdr_bins_not_converged = atomic_load(&progress->mvdr_bins_not_converged);
    status->mvdr_most_sweeps = atomic_load(&progress->mvdr_most_sweeps);
    status->uptime_s = (double)(now - p->started_ns) * 1e-9;
    if (now > p->ticked_ns)
        status->load = (double)(busy - p->ticked_busy_ns) / (double)(now - p->ticked_ns);
    p->ticked_ns = now;
    p->ticked_busy_ns = busy;
    if (p->output)
        sonar_output_read_latency(p->output, &status->latency);
    sonar_pipeline_read_times(p, status);
    if (p->recorder)
        sonar_recorder_read(p->recorder, &status->record);
    status->resident_bytes = (double)sonar_resident_bytes();
    if (p->config->lock_memory) /* address space that was locked may not all be there */
        status->locked_bytes = fmin((double)sonar_locked_bytes(), status->resident_bytes);
    status->data_priority = p->thread_started ? sonar_priority_of(p->thread) : 0;
    pthread_mutex_lock(&p->change.lock);
    memcpy(status->backend, p->change.backend, sizeof status->backend);
    memcpy(status->backend_text, p->change.text, sizeof status->backend_text);
    status->device_free_bytes = p->change.device_free_bytes;
    pthread_mutex_unlock(&p->change.lock);
}

static void judge(sonar_pipeline *p, sonar_status *status) {
    sonar_ingest_read_report(p->ingest, &p->stream);
    sonar_kernel_clock clock;
    sonar_node_clock_read(&clock);
    const sonar_health_facts facts = {.now_ns = clock.monotonic_ns,
                                      .utc_now_ns = clock.utc_ns,
                                      .clock = &clock,
                                      .busy_since_ns = atomic_load(&p->progress.busy_since_ns),
                                      .training_since_ns = atomic_load(&p->training_since_ns),
                                      .stream = &p->stream,
                                      .rights = &p->refused};
    sonar_health_judge(&p->health, &p->host, &facts, status);
}

const sonar_status *sonar_pipeline_status(const sonar_pipeline *p) {
    return &p->status;
}

sonar_code sonar_pipeline_tick(sonar_pipeline *p, sonar_error *err) {
    sonar_status status = {0};
    bool gave_up = atomic_load(&p->gave_up); /* first: its reason is in the status then */
    collect(p, &status);
    sonar_propose_attend(p);
    sonar_live_tick(p);
    sonar_mask_tick(p, &status);
    sonar_navigate_tick(p, &status);
    judge(p, &status);
    if (atomic_load_explicit(&p->progress.failed_new, memory_order_acquire)) {
        sonar_log(&p->host, SONAR_ERROR, p->progress.failure.where, "a window failed: %s",
                  p->progress.failure.text);
        atomic_store_explicit(&p->progress.failed_new, false, memory_order_release);
    }
    if (p->output)
        sonar_output_post_status(p->output, &status);
    sonar_exporter_post(p->exporter, &status, &p->stream);
    p->status = status;
    if (gave_up)
        return sonar_fail(err, p->ranks.cluster ? SONAR_ESTATE : SONAR_EUNAVAILABLE, "backend",
                          "%s", status.backend_text);
    if (sonar_pipeline_left(p))
        return SONAR_OK;
    if (!p->thread_started || atomic_load(&p->drained))
        return sonar_fail(err, SONAR_ESTATE, "pipeline", "the data thread has ended");
    if (!sonar_ingest_alive(p->ingest))
        return sonar_fail(err, SONAR_ESTATE, "ingest", "the socket for samples has failed");
    if (p->output && !sonar_output_alive(p->output))
        return sonar_fail(err, SONAR_ESTATE, "output", "the socket for results has failed");
    return SONAR_OK;
}

char *sonar_pipeline_status_text(const sonar_pipeline *p) {
    return p->output ? sonar_output_status_text(p->output, &p->status) : NULL;
}

bool sonar_pipeline_left(const sonar_pipeline *p) {
    return atomic_load(&p->ranks.left);
}

int sonar_pipeline_fd(const sonar_pipeline *p) {
    return p->ranks.cluster ? p->ranks.change.wake : -1;
}

void sonar_pipeline_attend(sonar_pipeline *p) {
    sonar_propose_attend(p);
}

const char *sonar_pipeline_run(const sonar_pipeline *p) {
    return p->run_uuid;
}

void *sonar_pipeline_context(const sonar_pipeline *p) {
    return p->zmq;
}
