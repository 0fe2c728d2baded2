/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The output thread and the rings to and from it. The thread sleeps in zmq_poll on the socket
 * (subscriptions) and on the eventfd `wake` (results, status, stop).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output/internal.h"

/* ---- create and destroy ---------------------------------------------------------------------- */

static sonar_code check_spec(const sonar_output_spec *spec, sonar_error *err) {
    if (!spec->zmq_context || !(spec->endpoint || spec->tap.take) || !spec->cbf_scan)
        return sonar_fail(err, SONAR_EINVAL, "output", "context, endpoint and scan are needed");
    if (spec->endpoint && strlen(spec->endpoint) >= sizeof((sonar_output *)0)->endpoint)
        return sonar_fail(err, SONAR_EINVAL, "output", "the endpoint is too long");
    if (spec->high_water_mark < 1 || spec->queue_results < 1)
        return sonar_fail(err, SONAR_EINVAL, "output",
                          "high-water mark and queue must be at least 1");
    return SONAR_OK;
}

static bool allocate(sonar_output *output) {
    size_t results = output->spec.queue_results;
    output->outstanding_most = 2 * results + 2; /* queued, in hand, and sent but not reclaimed */
    output->queue = sonar_ring_create(results);
    output->done = sonar_ring_create(output->outstanding_most);
    output->peers =
        sonar_peers_create(output->spec.zmq_context, SONAR_PEERS_MOST, output->spec.gate);
    output->form = sonar_output_form_create(&output->spec);
    return output->queue && output->done && output->peers && output->form;
}

sonar_code sonar_output_create(const sonar_output_spec *spec, const sonar_host *host,
                               sonar_output **out, sonar_error *err) {
    *out = NULL;
    sonar_code code = check_spec(spec, err);
    if (code)
        return code;
    sonar_output *output = sonar_alloc(1, sizeof *output);
    if (!output)
        return sonar_fail(err, SONAR_ENOMEM, "output", "no memory for the publisher");
    output->spec = *spec;
    output->host = host;
    pthread_mutex_init(&output->lock, NULL);
    sem_init(&output->opened, 0, 0);
    output->wake = sonar_wake_create();
    output->room = sonar_wake_create();
    if (output->wake < 0 || output->room < 0)
        code = sonar_fail(err, SONAR_ESYS, "output", "eventfd: %s", strerror(errno));
    else if (!allocate(output))
        code = sonar_fail(err, SONAR_ENOMEM, "output", "no memory for the publisher");
    if (code) {
        sonar_output_destroy(output);
        return code;
    }
    *out = output;
    return SONAR_OK;
}

void sonar_output_destroy(sonar_output *output) {
    if (!output)
        return;
    while (!sonar_output_stop(output, 0))
        ;
    if (output->wake >= 0)
        close(output->wake);
    if (output->room >= 0)
        close(output->room);
    sonar_output_form_destroy(output->form);
    sonar_ring_destroy(output->queue);
    sonar_ring_destroy(output->done);
    sonar_peers_destroy(output->peers);
    sem_destroy(&output->opened);
    pthread_mutex_destroy(&output->lock);
    free(output);
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Takes the oldest result, and sends it or not. False: the queue is empty. */
static bool give_back_one(sonar_output *output, bool send) {
    sonar_result *result = sonar_ring_pop(output->queue);
    if (!result)
        return false;
    if (send)
        sonar_output_send_result(output, result);
    sonar_ring_push(
        output->done,
        result); /* `done` has room, because post bounds the number of outstanding results */
    sonar_wake_signal(output->room);
    return true;
}

/* Sends what has waited, but no more than the queue holds, so that subscriptions are read in
 * between. While many peers come and go, a turn takes longer than a result. */
static bool send_waiting(sonar_output *output) {
    size_t sent = 0;
    while (sent < output->spec.queue_results && give_back_one(output, true))
        sent++;
    return sent > 0;
}

static void publish(sonar_output *output) {
    int sleep_ms = 0;
    while (!atomic_load(&output->stopping)) {
        zmq_pollitem_t items[3] = {
            {.fd = output->wake, .events = ZMQ_POLLIN},
            {.socket = sonar_peers_events(output->peers), .events = ZMQ_POLLIN},
            {.socket = output->socket, .events = ZMQ_POLLIN}};
        if (zmq_poll(items, output->socket ? 3 : 1, sleep_ms) < 0 && zmq_errno() != EINTR)
            return; /* ETERM: the context is being terminated */
        atomic_fetch_add_explicit(&output->rounds, 1, memory_order_relaxed);
        sonar_wake_clear(output->wake);
        const bool sent = send_waiting(output); /* first: readers wait for them */
        sonar_output_look_after_peers(output);
        if (output->socket)
            sonar_output_read_subscriptions(output);
        sonar_output_update_wanted(output);
        sonar_output_take_status(output);
        sleep_ms = sonar_output_repeat_status(output);
        if (sent)
            sleep_ms = 0; /* more may wait; subscriptions are read in between */
    }
}

/* At the end: queued results are sent as long as there is time, and handed back in any case. */
static void drain(sonar_output *output) {
    if (output->socket)
        sonar_output_read_subscriptions(output);
    sonar_output_update_wanted(output);
    while (sonar_monotonic_ns() < atomic_load(&output->deadline_ns) && give_back_one(output, true))
        ;
    sonar_output_take_status(
        output); /* after the results, so that the last message shows the final state */
    while (give_back_one(output, false))
        ;
}

static void *thread_main(void *arg) {
    sonar_output *output = arg;
    if (output->spec.endpoint)
        output->open_code = sonar_output_open(output, &output->open_error);
    bool open = output->open_code == SONAR_OK;
    sonar_output_update_wanted(output); /* the tap wants the first window, too */
    sem_post(&output->opened);
    if (open) {
        publish(output);
        drain(output);
    }
    sonar_output_close(output);
    atomic_store(&output->finished, true);
    sonar_wake_signal(output->room);
    return NULL;
}

static sonar_code wait_until_open(sonar_output *output, sonar_error *err) {
    while (sem_wait(&output->opened) != 0 && errno == EINTR)
        ;
    if (output->open_code == SONAR_OK)
        return SONAR_OK;
    return sonar_fail(err, output->open_code, output->open_error.where, "%s",
                      output->open_error.text);
}

sonar_code sonar_output_start(sonar_output *output, sonar_error *err) {
    if (!output)
        return SONAR_OK;
    if (output->started || atomic_load(&output->finished))
        return sonar_fail(err, SONAR_ESTATE, "output", "the publisher starts once");
    sonar_code code = sonar_thread_start(output->host, "sonar-output", output->spec.cpu,
                                         thread_main, output, &output->thread, err);
    if (code)
        return code;
    output->started = true;
    code = wait_until_open(output, err);
    if (code)
        sonar_output_stop(output, 0);
    return code;
}

bool sonar_output_stop(sonar_output *output, int timeout_ms) {
    enum { LOOKS_UP_MS = 100 };
    if (!output->started)
        return true;
    atomic_store(&output->deadline_ns, sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000);
    atomic_store(&output->stopping, true);
    sonar_wake_signal(output->wake);
    if (!sonar_thread_join(output->thread, timeout_ms + LOOKS_UP_MS))
        return false;
    output->started = false;
    return true;
}

/* ---- the data thread's side ------------------------------------------------------------------ */

static bool over(const sonar_output *output) {
    return atomic_load(&output->stopping) || atomic_load(&output->finished);
}

/* The ring rounds its size up; this enforces the bound that was asked for. */
static bool offer(sonar_output *output, sonar_result *result) {
    return sonar_ring_count(output->queue) < output->spec.queue_results &&
           sonar_ring_push(output->queue, result);
}

bool sonar_output_post(sonar_output *output, sonar_result *result) {
    bool may = output->outstanding < output->outstanding_most && !over(output);
    bool posted = may && offer(output, result);
    while (may && !posted && output->spec.block && !over(output)) {
        sonar_wake_wait(output->room, 100);
        posted = offer(output, result);
    }
    if (!posted) {
        sonar_count_add(&output->count.results_dropped, 1);
        return false;
    }
    output->outstanding++;
    sonar_wake_signal(output->wake);
    return true;
}

sonar_result *sonar_output_reclaim(sonar_output *output) {
    sonar_result *result = sonar_ring_pop(output->done);
    /* the thread ended while this was being posted, and no other thread reads the queue now */
    if (!result && atomic_load(&output->finished))
        result = sonar_ring_pop(output->queue);
    if (result)
        output->outstanding--;
    return result;
}

/* ---- functions for other threads ------------------------------------------------------------- */

void sonar_output_post_status(sonar_output *output, const sonar_status *status) {
    pthread_mutex_lock(&output->lock);
    output->posted = *status;
    output->posted.health[sizeof status->health - 1] = '\0';
    output->posted.text[sizeof status->text - 1] = '\0';
    output->posted_utc_ns = sonar_utc_ns();
    output->posted_pending = true;
    pthread_mutex_unlock(&output->lock);
    sonar_wake_signal(output->wake);
}

char *sonar_output_status_text(const sonar_output *output, const sonar_status *status) {
    const sonar_header_status_extra extra = {.utc_ns = sonar_utc_ns(),
                                             .wanted = sonar_output_wanted(output)};
    return sonar_header_status(&output->spec, output->form->axes[SONAR_STATUS], status, &extra);
}

const char *sonar_output_endpoint(const sonar_output *output) {
    return output->endpoint;
}

uint32_t sonar_output_wanted(const sonar_output *output) {
    return atomic_load_explicit(&output->wanted, memory_order_relaxed);
}

void sonar_output_cut_all(sonar_output *output) {
    atomic_store(&output->cut, true);
}

bool sonar_output_alive(const sonar_output *output) {
    return !atomic_load(&output->finished);
}

uint64_t sonar_output_rounds(const sonar_output *output) {
    return atomic_load_explicit(&output->rounds, memory_order_relaxed);
}

void sonar_output_read_counters(const sonar_output *output, sonar_output_counters *counters) {
    sonar_count_copy(counters, &output->count, sizeof *counters);
    counters->results_waiting = sonar_ring_count(output->queue);
    const uint32_t wanted = sonar_output_wanted(output);
    for (int i = 0; i < SONAR_SURFACES; i++)
        counters->topic_wanted[i] = wanted >> i & 1;
}

void sonar_output_read_latency(sonar_output *output, sonar_percentiles *latency) {
    sonar_histogram_read(&output->latency, &output->latency_seen, latency);
}
