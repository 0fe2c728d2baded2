/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The output thread and the rings to and from it.
 *
 *   data thread --queue--> output thread --done--> data thread
 *
 * The thread sleeps in zmq_poll on the socket (subscriptions) and on the eventfd `wake` (results,
 * status, stop). It sends without waiting: libzmq drops for a subscriber whose queue is full.
 */
#include "output/output.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "core/count.h"
#include "net/net.h"
#include "output/header.h"
#include "output/topic.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays go out as they are, little-endian");

enum {
    MESSAGE_BYTES_MOST = 1024,    /* of what a peer may send: room for a CURVE handshake */
    SUBSCRIPTIONS_PER_TURN = 64,  /* so that a flood of them cannot starve the results */
    FOREIGN_BYTES_MOST = 1 << 20, /* of subscriptions to what is no topic, of all readers */
    REPEAT_INTERVAL_MS = 50,      /* between repeats of the status */
    TICK_MS = 100
};

struct sonar_output_form {
    sonar_output_spec spec;
    char *axes[SONAR_SURFACES]; /* JSON */
    /* spec.true_bearings: how each scan is read at them, NULL where there are none. The output
     * thread turns them. */
    sonar_bearings *cbf_bearings, *mvdr_bearings;
    char *true_axes[SONAR_SURFACES]; /* JSON; NULL where it is never needed */
};

struct sonar_output {
    sonar_output_spec spec;
    const sonar_host *host;
    char endpoint[256];      /* as bound */
    sonar_output_form *form; /* of results without one, and of the status */
    sonar_ring *queue, *done;
    int wake, room; /* eventfds: work for the thread; room in the queue */

    /* data thread */
    size_t outstanding, outstanding_most; /* posted and not yet reclaimed; what `done` can hold */

    /* control thread */
    pthread_t thread;
    bool started;
    sem_t opened;
    sonar_code open_code;
    sonar_error open_error;

    /* output thread */
    void *socket;
    sonar_peers *peers;
    int64_t ticked_ns, closed_ns; /* closed: to be opened anew */
    size_t largest_bytes;         /* of the messages sent */
    size_t foreign_bytes;         /* of subscriptions that no topic can match */
    sonar_interest interest;
    uint64_t seq[SONAR_SURFACES];
    sonar_status status; /* the last one sent */
    int64_t status_utc_ns, repeated_ns;
    bool status_known, repeat_wanted;

    pthread_mutex_t lock; /* status slot; never taken by the data thread */
    sonar_status posted;
    int64_t posted_utc_ns;
    bool posted_pending;
    sonar_histogram latency; /* the output thread adds, control reads */
    sonar_histogram_seen latency_seen;

    atomic_bool stopping, finished, cut; /* cut: all connections are to be ended once */
    _Atomic int64_t deadline_ns;
    _Atomic uint32_t wanted;
    sonar_output_counters count; /* results_dropped: the data thread; others: the output thread */
    _Atomic uint64_t rounds;     /* times the thread looked for work */
};

/* ---- create and destroy ---------------------------------------------------------------------- */

static sonar_bearings *bearings_of(const sonar_output_form *form, sonar_surface surface) {
    if (!sonar_header_has_directions(surface))
        return NULL;
    return sonar_topic_table[surface].maker == SONAR_MADE_BY_MVDR ? form->mvdr_bearings
                                                                  : form->cbf_bearings;
}

/* False: no memory. */
static bool make_bearings(const sonar_scan *scan, sonar_interpolation interpolation,
                          sonar_bearings **bearings) {
    if (!scan || !sonar_bearings_exist(scan))
        return true;
    *bearings = sonar_bearings_create(scan, interpolation);
    return *bearings != NULL;
}

static bool make_axes(sonar_output_form *form) {
    bool good = true;
    for (int i = 0; good && i < SONAR_SURFACES; i++) {
        const sonar_bearings *bearings = bearings_of(form, (sonar_surface)i);
        form->axes[i] = sonar_header_axes(&form->spec, (sonar_surface)i, NULL);
        if (bearings)
            form->true_axes[i] = sonar_header_axes(&form->spec, (sonar_surface)i, bearings);
        good = form->axes[i] && (form->true_axes[i] || !bearings);
    }
    return good;
}

sonar_output_form *sonar_output_form_create(const sonar_output_spec *spec) {
    sonar_output_form *form = sonar_alloc(1, sizeof *form);
    if (!form)
        return NULL;
    form->spec = *spec;
    bool good = true;
    if (spec->true_bearings) /* MVDR's peaks are narrower than its scan's steps */
        good = make_bearings(spec->cbf_scan, SONAR_INTERPOLATE_CUBIC, &form->cbf_bearings) &&
               make_bearings(spec->mvdr_scan, SONAR_INTERPOLATE_NEAREST, &form->mvdr_bearings);
    if (good && make_axes(form))
        return form;
    sonar_output_form_destroy(form);
    return NULL;
}

void sonar_output_form_destroy(sonar_output_form *form) {
    if (!form)
        return;
    for (int i = 0; i < SONAR_SURFACES; i++) {
        free(form->axes[i]);
        free(form->true_axes[i]);
    }
    sonar_bearings_destroy(form->cbf_bearings);
    sonar_bearings_destroy(form->mvdr_bearings);
    free(form);
}

static sonar_code check_spec(const sonar_output_spec *spec, sonar_error *err) {
    if (!spec->zmq_context || !spec->endpoint || !spec->cbf_scan)
        return sonar_fail(err, SONAR_EINVAL, "output", "context, endpoint and scan are needed");
    if (strlen(spec->endpoint) >= sizeof((sonar_output *)0)->endpoint)
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
    output->peers = sonar_peers_create(output->spec.zmq_context);
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
    sonar_output_stop(output, 0);
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

/* ---- the socket (output thread) -------------------------------------------------------------- */

static sonar_code open_socket(sonar_output *output, sonar_error *err) {
    const char *endpoint = output->spec.endpoint;
    const int every_subscribe = 1; /* why not VERBOSER: topic.h */
    const sonar_socket_spec spec = {.type = ZMQ_XPUB,
                                    .messages = output->spec.high_water_mark,
                                    .message_bytes = MESSAGE_BYTES_MOST};
    sonar_guard guard_;
    const sonar_guard *guard = sonar_guard_of(output->spec.security, SONAR_READERS, &guard_);
    sonar_code code =
        sonar_socket_open(output->spec.zmq_context, &spec, endpoint, &output->socket, err);
    if (!code && zmq_setsockopt(output->socket, ZMQ_XPUB_VERBOSE, &every_subscribe,
                                sizeof every_subscribe) != 0)
        code = sonar_fail(err, SONAR_ESYS, endpoint, "cannot make the socket: %s",
                          zmq_strerror(zmq_errno()));
    if (!code)
        code = sonar_peers_watch(output->peers, output->socket, err);
    if (!code)
        code = sonar_guard_bind(guard, output->socket, endpoint, err);
    if (code)
        return code;
    size_t bytes = sizeof output->endpoint;
    if (zmq_getsockopt(output->socket, ZMQ_LAST_ENDPOINT, output->endpoint, &bytes) != 0)
        snprintf(output->endpoint, sizeof output->endpoint, "%s", endpoint);
    return SONAR_OK;
}

/* What libzmq still holds for slow peers gets the rest of the time to stop, and a moment at least:
 * with none, a message half of which is on its way is cut off, and libzmq 4.3.4 aborts if the peer
 * leaves just then (clean_pipes in session_base.cpp wants the other half). */
static void close_socket(sonar_output *output) {
    enum { LEAST_MS = 50 };
    if (!output->socket)
        return;
    int64_t left_ms = (atomic_load(&output->deadline_ns) - sonar_monotonic_ns()) / 1000000;
    int linger_ms = left_ms > LEAST_MS ? (int)left_ms : LEAST_MS;
    zmq_setsockopt(output->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    sonar_peers_forget(output->peers, output->socket);
    zmq_close(output->socket);
    output->socket = NULL;
}

/* libzmq keeps every subscription for as long as the connection lasts, some 40 bytes of memory for
 * each byte of it: whoever wants too much is hung up on. Where many readers share the work, the sum
 * is limited. */
static void take_subscription(sonar_output *output, zmq_msg_t *message) {
    const uint8_t *data = zmq_msg_data(message);
    size_t bytes = zmq_msg_size(message);
    if (bytes > 0 && data[0] == 1) {
        int fd = zmq_msg_get(message, ZMQ_SRCFD);
        sonar_count_add(&output->count.subscriptions, 1);
        if (sonar_peers_charge(output->peers, fd, bytes - 1))
            sonar_peers_cut(output->peers, fd);
    }
    uint32_t asked = sonar_interest_apply(&output->interest, data, bytes);
    if (asked & SONAR_WANT(SONAR_STATUS))
        output->repeat_wanted = true;
    if (asked || bytes == 0)
        return;
    if (data[0] == 1)
        output->foreign_bytes += bytes;
    else if (data[0] == 0)
        output->foreign_bytes -= sonar_min_size(bytes, output->foreign_bytes);
}

static void read_subscriptions(sonar_output *output) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    sonar_peers_tick(output->peers, sonar_monotonic_ns()); /* whose subscriptions they are */
    for (int i = 0; i < SUBSCRIPTIONS_PER_TURN; i++) {
        if (zmq_msg_recv(&message, output->socket, ZMQ_DONTWAIT) < 0)
            break;
        take_subscription(output, &message);
    }
    zmq_msg_close(&message);
}

/* What readers have subscribed to, and what the tap takes. */
static void update_wanted(sonar_output *output) {
    const sonar_output_tap *tap = &output->spec.tap;
    uint32_t wanted = sonar_interest_wanted(&output->interest);
    if (tap->wanted)
        wanted |= tap->wanted(tap->ctx);
    atomic_store_explicit(&output->wanted, wanted & output->spec.topics, memory_order_relaxed);
    if (tap->tick)
        tap->tick(tap->ctx);
}

/* Three parts, header and body taken over; a message that cannot be made leaves a hole in seq. */
static void send_message(sonar_output *output, sonar_surface surface, char *header,
                         zmq_msg_t *body) {
    const char *topic = sonar_topic_name(surface);
    int more = ZMQ_SNDMORE | ZMQ_DONTWAIT;
    output->largest_bytes =
        sonar_max_size(output->largest_bytes, zmq_msg_size(body) + (header ? strlen(header) : 0));
    if (header && output->spec.tap.take)
        output->spec.tap.take(output->spec.tap.ctx, surface, header, zmq_msg_data(body),
                              zmq_msg_size(body));
    bool sent = header && zmq_send_const(output->socket, topic, strlen(topic), more) >= 0 &&
                zmq_send(output->socket, header, strlen(header), more) >= 0 &&
                zmq_msg_send(body, output->socket, ZMQ_DONTWAIT) >= 0;
    sonar_count_add(sent ? &output->count.messages_sent : &output->count.messages_failed, 1);
    sonar_count_add(
        sent ? &output->count.topic_sent[surface] : &output->count.topic_failed[surface], 1);
    zmq_msg_close(body);
    free(header);
}

/* ---- results (output thread) ----------------------------------------------------------------- */

static int64_t latency_ns(const sonar_result *result) {
    return sonar_monotonic_ns() - result->arrival_ns;
}

/* Is the surface what its header is going to say? */
static bool fits(const sonar_output_spec *spec, sonar_surface surface, const sonar_buffer *buffer) {
    size_t shape[2];
    int rank = sonar_header_shape(spec, surface, shape);
    if (!buffer->data || buffer->dtype != sonar_topic_table[surface].dtype ||
        buffer->space == SONAR_DEVICE || buffer->rank != rank)
        return false;
    ptrdiff_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        if (buffer->shape[i] != shape[i] || (shape[i] > 1 && buffer->stride[i] != stride))
            return false;
        stride *= (ptrdiff_t)shape[i];
    }
    return true;
}

static bool copy_array(const sonar_buffer *buffer, zmq_msg_t *body) {
    if (zmq_msg_init_size(body, buffer->bytes) != 0)
        return false;
    memcpy(zmq_msg_data(body), buffer->data, buffer->bytes);
    return true;
}

/* Row by row, ranges and bins as they are. */
static bool turn_array(const sonar_bearings *bearings, const sonar_buffer *buffer,
                       zmq_msg_t *body) {
    const size_t rows = buffer->rank > 1 ? buffer->shape[0] : 1,
                 directions = buffer->shape[buffer->rank - 1],
                 count = sonar_bearings_count(bearings);
    if (zmq_msg_init_size(body, rows * count * sizeof(float)) != 0)
        return false;
    float *to = zmq_msg_data(body);
    for (size_t row = 0; row < rows; row++)
        sonar_bearings_read(bearings, (const float *)buffer->data + row * directions,
                            to + row * count);
    return true;
}

/* Turned to the heading of the result; NULL: it stays in the array's frame. */
static const sonar_bearings *turned_bearings(const sonar_output_form *form, sonar_surface surface,
                                             const sonar_result *result) {
    sonar_bearings *bearings = bearings_of(form, surface);
    const double heading_deg = sonar_header_heading(result, surface);
    if (!bearings || !isfinite(heading_deg))
        return NULL;
    sonar_bearings_turn(bearings, heading_deg);
    return bearings;
}

static void count_failed(sonar_output *output, sonar_surface surface) {
    sonar_count_add(&output->count.messages_failed, 1);
    sonar_count_add(&output->count.topic_failed[surface], 1);
}

static void send_surface(sonar_output *output, sonar_surface surface, const sonar_result *result) {
    const sonar_buffer *buffer = &result->surface[surface];
    const sonar_output_form *form = result->form ? result->form : output->form;
    const bool array = surface != SONAR_DETECTIONS;
    const uint64_t seq = output->seq[surface]++;
    const sonar_bearings *bearings = turned_bearings(form, surface, result);
    zmq_msg_t body;
    bool made = !array || fits(&form->spec, surface, buffer);
    if (made && !array)
        zmq_msg_init(&body);
    else if (made)
        made = bearings ? turn_array(bearings, buffer, &body) : copy_array(buffer, &body);
    if (!made) {
        count_failed(output, surface);
        return;
    }
    char *header = sonar_header_result(&form->spec, surface,
                                       bearings ? form->true_axes[surface] : form->axes[surface],
                                       bearings, result, seq, (double)latency_ns(result) / 1e3);
    send_message(output, surface, header, &body);
}

static void send_result(sonar_output *output, const sonar_result *result) {
    uint32_t wanted = atomic_load_explicit(&output->wanted, memory_order_relaxed);
    for (int i = 0; i < SONAR_SURFACES; i++) /* no socket: nothing is wanted */
        if (i != SONAR_STATUS && (result->present & wanted & SONAR_WANT(i)))
            send_surface(output, (sonar_surface)i, result);
    int64_t ns = latency_ns(result);
    sonar_histogram_add(&output->latency, ns > 0 ? (uint64_t)ns : 0);
}

static bool give_back_one(sonar_output *output, bool send) {
    sonar_result *result = sonar_ring_pop(output->queue);
    if (!result)
        return false;
    if (send)
        send_result(output, result);
    sonar_ring_push(output->done, result); /* has room: post bounds what is outstanding */
    sonar_wake_signal(output->room);
    return true;
}

/* ---- status (output thread) ------------------------------------------------------------------ */

static void send_status(sonar_output *output, bool repeat) {
    uint32_t wanted = atomic_load_explicit(&output->wanted, memory_order_relaxed);
    if (!(wanted & SONAR_WANT(SONAR_STATUS)))
        return;
    sonar_header_status_extra extra = {output->seq[SONAR_STATUS]++, output->status_utc_ns, wanted,
                                       repeat};
    char *header = sonar_header_status(&output->spec, output->form->axes[SONAR_STATUS],
                                       &output->status, &extra);
    zmq_msg_t nothing;
    zmq_msg_init(&nothing);
    send_message(output, SONAR_STATUS, header, &nothing);
}

static void take_status(sonar_output *output) {
    pthread_mutex_lock(&output->lock);
    bool fresh = output->posted_pending;
    if (fresh) {
        output->status = output->posted;
        output->status_utc_ns = output->posted_utc_ns;
    }
    output->posted_pending = false;
    pthread_mutex_unlock(&output->lock);
    if (!fresh)
        return;
    output->status_known = true;
    output->repeat_wanted = false; /* whoever asked gets this one */
    send_status(output, false);
}

/* A new subscriber need not wait a second; a flood of them cannot flood the others either. Returns
 * how long the thread may sleep. */
static int repeat_status(sonar_output *output) {
    if (!output->repeat_wanted || !output->status_known)
        return TICK_MS;
    int64_t now = sonar_monotonic_ns();
    int64_t due = output->repeated_ns + (int64_t)REPEAT_INTERVAL_MS * 1000000;
    if (output->repeated_ns && now < due)
        return (int)((due - now) / 1000000) + 1;
    output->repeat_wanted = false;
    output->repeated_ns = now;
    send_status(output, true);
    return TICK_MS;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Readers come back by themselves; what was queued for them is lost. False if the socket cannot be
 * opened again: libzmq closes it in its own time, and until then its endpoint is in use. */
static bool reopen(sonar_output *output, int64_t now_ns) {
    const int64_t patience_ns = 30000000000;
    sonar_error err;
    if (open_socket(output, &err) == SONAR_OK)
        return true;
    close_socket(output);
    return now_ns - output->closed_ns < patience_ns;
}

static bool holds_too_much(sonar_output *output, size_t connected, int64_t now_ns) {
    bool hoard = output->foreign_bytes > FOREIGN_BYTES_MOST;
    if (!output->spec.memory)
        return hoard;
    if (hoard)
        sonar_memory_closed(output->spec.memory, SONAR_MEMORY_OUT, now_ns);
    if (hoard)
        return true;
    sonar_memory_allow(output->spec.memory, SONAR_MEMORY_OUT, connected,
                       (size_t)output->spec.high_water_mark, output->largest_bytes);
    return sonar_memory_exceeded(output->spec.memory, SONAR_MEMORY_OUT, now_ns);
}

static bool look_after_peers(sonar_output *output) {
    int64_t now_ns = sonar_monotonic_ns();
    if (now_ns - output->ticked_ns < (int64_t)TICK_MS * 1000000)
        return true;
    output->ticked_ns = now_ns;
    sonar_peers_tick(output->peers, now_ns);
    if (atomic_exchange(&output->cut, false))
        sonar_peers_cut_all(output->peers);
    size_t connected = sonar_peers_connected(output->peers);
    sonar_count_set(&output->count.peers.connected, connected);
    sonar_peers_count(output->peers, &output->count.peers);
    if (!output->socket)
        return reopen(output, now_ns);
    if (!holds_too_much(output, connected, now_ns))
        return true;
    sonar_count_add(&output->count.peers.reopened_memory, 1);
    close_socket(output);
    output->closed_ns = now_ns;
    output->interest = (sonar_interest){0};
    output->foreign_bytes = 0;
    atomic_store_explicit(&output->wanted, 0, memory_order_relaxed);
    return true;
}

static void publish(sonar_output *output) {
    int sleep_ms = 0;
    while (!atomic_load(&output->stopping)) {
        zmq_pollitem_t items[3] = {
            {.fd = output->wake, .events = ZMQ_POLLIN},
            {.socket = sonar_peers_events(output->peers), .events = ZMQ_POLLIN},
            {.socket = output->socket, .events = ZMQ_POLLIN}};
        if (zmq_poll(items, output->socket ? 3 : 1, sleep_ms) < 0 && zmq_errno() != EINTR)
            return; /* ETERM: the context is being taken away */
        atomic_fetch_add_explicit(&output->rounds, 1, memory_order_relaxed);
        sonar_wake_clear(output->wake);
        if (!look_after_peers(output))
            return;
        if (output->socket)
            read_subscriptions(output);
        update_wanted(output);
        take_status(output);
        sleep_ms = repeat_status(output);
        if (give_back_one(output, true))
            sleep_ms = 0; /* perhaps more; subscriptions are read in between */
    }
}

static void drain(sonar_output *output) {
    if (output->socket)
        read_subscriptions(output);
    update_wanted(output);
    while (sonar_monotonic_ns() < atomic_load(&output->deadline_ns) && give_back_one(output, true))
        ;
    take_status(output); /* after the results: the last message says how it ended */
    while (give_back_one(output, false))
        ;
}

static void *thread_main(void *arg) {
    sonar_output *output = arg;
    output->open_code = open_socket(output, &output->open_error);
    bool open = output->open_code == SONAR_OK;
    sem_post(&output->opened);
    if (open) {
        publish(output);
        drain(output);
    }
    close_socket(output);
    atomic_store(&output->finished, true);
    sonar_wake_signal(output->room);
    return NULL;
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
    while (sem_wait(&output->opened) != 0 && errno == EINTR)
        ;
    if (output->open_code == SONAR_OK)
        return SONAR_OK;
    sonar_output_stop(output, 0);
    return sonar_fail(err, output->open_code, output->open_error.where, "%s",
                      output->open_error.text);
}

void sonar_output_stop(sonar_output *output, int timeout_ms) {
    if (!output->started)
        return;
    atomic_store(&output->deadline_ns, sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000);
    atomic_store(&output->stopping, true);
    sonar_wake_signal(output->wake);
    pthread_join(output->thread, NULL);
    output->started = false;
}

/* ---- the other threads' side ----------------------------------------------------------------- */

const char *sonar_output_endpoint(const sonar_output *output) {
    return output->endpoint;
}

uint32_t sonar_output_wanted(const sonar_output *output) {
    return atomic_load_explicit(&output->wanted, memory_order_relaxed);
}

static bool over(const sonar_output *output) {
    return atomic_load(&output->stopping) || atomic_load(&output->finished);
}

/* The ring rounds its size up; the bound asked for is kept here. */
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
    /* Posted while the thread was ending: nobody else reads the queue any more. */
    if (!result && atomic_load(&output->finished))
        result = sonar_ring_pop(output->queue);
    if (result)
        output->outstanding--;
    return result;
}

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

uint64_t sonar_output_rounds(const sonar_output *output) {
    return atomic_load_explicit(&output->rounds, memory_order_relaxed);
}

void sonar_output_cut_all(sonar_output *output) {
    atomic_store(&output->cut, true);
}

char *sonar_output_status_text(const sonar_output *output, const sonar_status *status) {
    const sonar_header_status_extra extra = {.utc_ns = sonar_utc_ns(),
                                             .wanted = sonar_output_wanted(output)};
    return sonar_header_status(&output->spec, output->form->axes[SONAR_STATUS], status, &extra);
}

bool sonar_output_alive(const sonar_output *output) {
    return !atomic_load(&output->finished);
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
