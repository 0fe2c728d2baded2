/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Starting, watching and stopping: the control thread's side of a pipeline that create.c has made.
 */
#include "pipeline/pipeline.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "mvdr_jacobi/mvdr_jacobi.h"
#include "pipeline/internal.h"

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

/* Done last, when all memory of the threads exists, including their stacks. Memory is locked where
 * it is, in huge pages if these were requested. */
static void lock_memory(sonar_pipeline *p) {
    if (!p->config->lock_memory)
        return;
    if (!sonar_memory_lock(p->refused.memory))
        sonar_log(&p->host, SONAR_WARN, "runtime.lock_memory", "%s", p->refused.memory);
    sonar_memory_begin(p->memory); /* allocates pages that were not touched before */
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

bool sonar_pipeline_feed(sonar_pipeline *p, const void *header, size_t header_bytes,
                         const void *payload, size_t payload_bytes, int timeout_ms) {
    return sonar_ingest_feed(p->ingest, header, header_bytes, payload, payload_bytes, timeout_ms);
}

bool sonar_pipeline_finish(sonar_pipeline *p, int timeout_ms) {
    return sonar_ingest_finish(p->ingest, timeout_ms);
}

bool sonar_pipeline_idle(const sonar_pipeline *p) {
    sonar_ingest_counters counters;
    sonar_ingest_read_counters(p->ingest, &counters);
    return atomic_load(&p->progress.windows_processed) + atomic_load(&p->progress.windows_failed) >=
           counters.windows_offered;
}

static void await_drained(const sonar_pipeline *p, int64_t until_ns) {
    while (!atomic_load(&p->drained) && sonar_monotonic_ns() < until_ns)
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
}

/* Processes waiting windows until the timeout, and then discards the current one. If another rank
 * hangs, it does not wait. False: the thread is inside one long task and does not react. */
static bool end_data_thread(sonar_pipeline *p, int64_t until_ns) {
    enum { TASK_NS = 200000000 };
    bool hangs[SONAR_RANKS_SHOWN];
    atomic_store(&p->draining, true);
    sonar_wake_signal(sonar_ingest_fd(p->ingest));
    if (!sonar_ranks_wait(p, hangs))
        await_drained(p, until_ns);
    atomic_store(&p->stopping, true);
    sonar_wake_signal(sonar_ingest_fd(p->ingest));
    sonar_pool_cancel(p->pool);
    await_drained(p, sonar_monotonic_ns() + TASK_NS);
    return atomic_load(&p->drained);
}

bool sonar_pipeline_stop(sonar_pipeline *p, int timeout_ms) {
    enum { RECORDER_MS = 200 }; /* the recorder gets at least this long for the last samples */
    int64_t until = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    bool ended = true;
    sonar_health_end(&p->health, &p->host);
    if (p->ingest)
        sonar_ingest_stop(p->ingest);
    if (p->thread_started && (ended = end_data_thread(p, until))) {
        pthread_join(p->thread, NULL);
        p->thread_started = false;
        sonar_tracking_save(p);
    }
    if (atomic_load(&p->progress.window_given_up) || !ended)
        sonar_log(&p->host, SONAR_WARN, "pipeline",
                  "stopped in the middle of a window, which is not published");
    int64_t left_ms = (until - sonar_monotonic_ns()) / 1000000 - RECORDER_MS;
    if (p->output && !sonar_output_stop(p->output, left_ms > 0 ? (int)left_ms : 0)) {
        sonar_log(&p->host, SONAR_WARN, "output", "readers keep the socket busy; it is not closed");
        ended = false;
    }
    left_ms = (until - sonar_monotonic_ns()) / 1000000;
    if (!sonar_recorder_stop(p->recorder, left_ms > RECORDER_MS ? (int)left_ms : RECORDER_MS)) {
        sonar_log(&p->host, SONAR_WARN, "record",
                  "the disk does not answer; the end of the recording is missing");
        ended = false;
    }
    return ended;
}

/* ---- once a second --------------------------------------------------------------------------- */

/* Time that the data thread has worked, including the current window. If that window ends between
 * the two reads, its time is missing once; the value never decreases. */
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
    for (int i = 0; i < SONAR_LATENCY_PARTS; i++)
        sonar_histogram_read(&p->latency[i], &p->latency_seen[i], &status->latency_part[i]);
}

/* The data thread's load since the last call, and its counters. */
static void collect_progress(sonar_pipeline *p, sonar_status *status) {
    const struct progress *progress = &p->progress;
    int64_t now = sonar_monotonic_ns();
    uint64_t busy = busy_until(p, now);
    status->windows_processed = atomic_load(&progress->windows_processed);
    status->windows_failed = atomic_load(&progress->windows_failed);
    status->mvdr_bins = atomic_load(&progress->mvdr_bins);
    status->mvdr_bins_not_converged = atomic_load(&progress->mvdr_bins_not_converged);
    status->mvdr_most_sweeps = atomic_load(&progress->mvdr_most_sweeps);
    sonar_mvdr_path_text(atomic_load(&progress->mvdr_path), status->mvdr_path);
    status->uptime_s = (double)(now - p->started_ns) * 1e-9;
    if (now > p->ticked_ns)
        status->load = (double)(busy - p->ticked_busy_ns) / (double)(now - p->ticked_ns);
    p->ticked_ns = now;
    p->ticked_busy_ns = busy;
    sonar_pipeline_read_times(p, status);
}

/* Memory and processor time of the process. */
static void collect_process(sonar_pipeline *p, sonar_status *status) {
    status->resident_bytes = (double)sonar_resident_bytes();
    if (p->config->lock_memory) /* address space that is locked need not be resident */
        status->locked_bytes = fmin((double)sonar_locked_bytes(), status->resident_bytes);
    status->data_priority = p->thread_started ? sonar_priority_of(p->thread) : 0;
    pthread_mutex_lock(&p->change.lock);
    memcpy(status->backend, p->change.backend, sizeof status->backend);
    memcpy(status->backend_text, p->change.text, sizeof status->backend_text);
    status->device_free_bytes = p->change.device_free_bytes;
    pthread_mutex_unlock(&p->change.lock);
}

static void collect(sonar_pipeline *p, sonar_status *status) {
    sonar_ingest_read_counters(p->ingest, &status->ingest);
    sonar_ranks_read(p, status);
    if (p->output) {
        sonar_output_read_counters(p->output, &status->output);
        sonar_output_read_latency(p->output, &status->latency);
    }
    status->output.results_dropped += atomic_load(&p->progress.results_dropped);
    collect_progress(p, status);
    if (p->recorder)
        sonar_recorder_read(p->recorder, &status->record);
    collect_process(p, status);
}

static void judge(sonar_pipeline *p, sonar_status *status) {
    sonar_ingest_read_report(p->ingest, &p->stream);
    sonar_kernel_clock clock;
    sonar_node_clock_read(&clock);
    sonar_health_facts facts = {.now_ns = clock.monotonic_ns,
                                .utc_now_ns = clock.utc_ns,
                                .clock = &clock,
                                .busy_since_ns = atomic_load(&p->progress.busy_since_ns),
                                .training_since_ns = atomic_load(&p->training_since_ns),
                                .stream = &p->stream,
                                .rights = &p->refused};
    facts.ranks_wait_ns = sonar_ranks_wait(p, facts.rank_hangs);
    sonar_health_judge(&p->health, &p->host, &facts, status);
}

/* Logs the last failed window once. */
static void log_failure(sonar_pipeline *p) {
    struct progress *progress = &p->progress;
    if (!atomic_load_explicit(&progress->failed_new, memory_order_acquire))
        return;
    sonar_log(&p->host, SONAR_ERROR, progress->failure.where, "a window failed: %s",
              progress->failure.text);
    atomic_store_explicit(&progress->failed_new, false, memory_order_release);
}

/* Whether the daemon can continue. `gave_up` and its reason are read before this call. */
static sonar_code verdict(const sonar_pipeline *p, bool gave_up, sonar_error *err) {
    if (gave_up)
        return sonar_fail(err, p->place.ranks > 1 ? SONAR_ESTATE : SONAR_EUNAVAILABLE, "backend",
                          "%s", p->status.backend_text);
    if (sonar_pipeline_left(p))
        return SONAR_OK;
    if (!p->thread_started || atomic_load(&p->drained))
        return sonar_fail(err, SONAR_ESTATE, "pipeline", "the data thread has ended");
    if (!sonar_ingest_alive(p->ingest))
        return sonar_fail(err, SONAR_ESTATE, "ingest", "the socket for samples has failed");
    if (p->output && !sonar_output_alive(p->output))
        return sonar_fail(err, SONAR_ESTATE, "output", "the socket for results has failed");
    if (!sonar_zap_alive(p->zap))
        return sonar_fail(err, SONAR_ESTATE, "security", "the thread that admits peers has failed");
    return SONAR_OK;
}

sonar_code sonar_pipeline_tick(sonar_pipeline *p, sonar_error *err) {
    sonar_status status = {0};
    bool gave_up = atomic_load(&p->gave_up); /* first, so that the status contains the reason */
    collect(p, &status);
    sonar_propose_attend(p);
    sonar_live_tick(p);
    sonar_mask_tick(p, &status);
    sonar_navigate_tick(p, &status);
    sonar_accuracy_tick(p, &status);
    sonar_tracking_tick(p);
    judge(p, &status);
    log_failure(p);
    if (p->output)
        sonar_output_post_status(p->output, &status);
    sonar_exporter_post(p->exporter, &status, &p->stream);
    p->status = status;
    return verdict(p, gave_up, err);
}

/* ---- queries --------------------------------------------------------------------------------- */

const sonar_status *sonar_pipeline_status(const sonar_pipeline *p) {
    return &p->status;
}

char *sonar_pipeline_status_text(const sonar_pipeline *p) {
    return p->output ? sonar_output_status_text(p->output, &p->status) : NULL;
}

bool sonar_pipeline_left(const sonar_pipeline *p) {
    return atomic_load(&p->ranks.left);
}

int sonar_pipeline_fd(const sonar_pipeline *p) {
    return sonar_letters_fd(p->ranks.change.letters);
}

void sonar_pipeline_attend(sonar_pipeline *p) {
    sonar_propose_attend(p);
}

const char *sonar_pipeline_run(const sonar_pipeline *p) {
    return p->run_uuid;
}

struct sonar_gate *sonar_pipeline_gate(const sonar_pipeline *p, sonar_domain domain) {
    return domain == SONAR_CONTROLLERS ? p->controllers
           : domain == SONAR_READERS   ? p->readers
                                       : NULL;
}

struct sonar_memory *sonar_pipeline_memory(const sonar_pipeline *p) {
    return p->memory;
}

void *sonar_pipeline_context(const sonar_pipeline *p) {
    return p->zmq;
}
