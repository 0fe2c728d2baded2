/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The ingest thread: receives messages from the socket and passes them to the assembler. */
#include "ingest/ingest.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "core/count.h"
#include "net/net.h"
#include "ingest/assembler.h"

enum { TICK_MS = 100, MESSAGES_PER_POLL = 64 };

/* Payloads held until their samples are copied: with one thread one, else many, for a whole batch
 * of them is shared among the threads. */
static const size_t held_bytes_most = (size_t)64 << 20;

struct sonar_ingest {
    const sonar_host *host;
    sonar_assembler *assembler;
    void *context;
    char **endpoint;
    size_t endpoints;
    sonar_socket_kind kind;
    int high_water_mark, cpu;
    int64_t max_message_bytes;
    bool block;
    void *socket;
    pthread_t thread;
    bool running;
    sem_t opened; /* posted once open_code and open_error are set */
    sonar_code open_code;
    sonar_error open_error;
    atomic_bool stopping, alive;
    sonar_memory *memory;           /* may be NULL */
    const sonar_security *security; /* the same */
    atomic_bool cut;                /* all connections are to be ended once */
    sonar_peers *peers;
    size_t largest_bytes; /* of the messages that came */
    bool drained;         /* since the last tick no message waited once */
    int64_t closed_ns;    /* when the socket was closed to be opened anew */
    unsigned given_up; /* times it was since libzmq gave an endpoint up, one soon after another */
    sonar_peer_counters count;
    int windows_fd; /* wakes the data thread */
    int control_fd; /* wakes the ingest thread: stop, or a window was released */
    zmq_msg_t header, payload[MESSAGES_PER_POLL];
    size_t held, held_most, held_bytes; /* the first `held` payloads are in use */
    uint64_t told_offered, told_ready;  /* what the data thread has been woken for */
    pthread_mutex_t lock;               /* the two below; this thread never waits for it */
    sonar_ingest_report report;
    bool report_read;
};

/* ---- messages -------------------------------------------------------------------------------- */

/* Reads away the rest of a message that has too many parts. */
static void drain(sonar_ingest *ingest) {
    zmq_msg_t part;
    zmq_msg_init(&part);
    while (zmq_msg_recv(&part, ingest->socket, 0) >= 0 && zmq_msg_more(&part))
        continue;
    zmq_msg_close(&part);
}

/* One message, if there is one; its payload is held. Parts of a message arrive together, so only
 * the first may be absent. Returns 0, or -1 with errno. */
static int receive(sonar_ingest *ingest, bool *two_parts) {
    zmq_msg_t *payload = &ingest->payload[ingest->held];
    *two_parts = false;
    if (zmq_msg_recv(&ingest->header, ingest->socket, ZMQ_DONTWAIT) < 0)
        return -1;
    if (!zmq_msg_more(&ingest->header))
        return 0;
    if (zmq_msg_recv(payload, ingest->socket, 0) < 0)
        return -1;
    ingest->held++;
    ingest->held_bytes += zmq_msg_size(payload);
    ingest->largest_bytes = sonar_max_size(ingest->largest_bytes, zmq_msg_size(payload));
    *two_parts = !zmq_msg_more(payload);
    if (!*two_parts)
        drain(ingest);
    return 0;
}

/* Returns false if the assembler wants the frame kept until a window is released. */
static bool assemble(sonar_ingest *ingest, bool two_parts) {
    if (two_parts) {
        zmq_msg_t *payload = &ingest->payload[ingest->held - 1];
        return sonar_assembler_frame(ingest->assembler, zmq_msg_data(&ingest->header),
                                     zmq_msg_size(&ingest->header), zmq_msg_data(payload),
                                     zmq_msg_size(payload), sonar_monotonic_ns());
    }
    sonar_assembler_malformed(ingest->assembler);
    return true;
}

/* Copies the samples of all held messages and closes the messages, except the last one if its frame
 * has to wait. */
static void release_messages(sonar_ingest *ingest, bool stored) {
    sonar_assembler_settle(ingest->assembler);
    for (size_t i = 0; i + !stored < ingest->held; i++) {
        zmq_msg_close(&ingest->payload[i]);
        zmq_msg_init(&ingest->payload[i]);
    }
    if (stored)
        ingest->held = ingest->held_bytes = 0;
}

/* Wakes the data thread if windows or chunks have been completed since the last call. */
static void tell_data_thread(sonar_ingest *ingest) {
    uint64_t offered = sonar_assembler_offered(ingest->assembler);
    uint64_t ready = sonar_assembler_ready(ingest->assembler);
    if (offered != ingest->told_offered || ready != ingest->told_ready)
        sonar_wake_signal(ingest->windows_fd);
    ingest->told_offered = offered;
    ingest->told_ready = ready;
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void close_socket(sonar_ingest *ingest) {
    if (!ingest->socket)
        return;
    sonar_peers_forget(ingest->peers, ingest->socket);
    zmq_close(ingest->socket);
    ingest->socket = NULL;
}

/* Of the digitiser that binds endpoint i. */
static const char *server_key(const sonar_ingest *ingest, size_t i) {
    const sonar_security *security = ingest->security;
    return security && security->servers ? security->server_key[i % security->servers] : "";
}

/* Endpoint i, if it is one over TCP, or if it is not: those come first, as they may be plain. */
static sonar_code attach(sonar_ingest *ingest, size_t i, bool tcp, const sonar_guard *guard,
                         sonar_error *err) {
    const char *endpoint = ingest->endpoint[i];
    if (sonar_endpoint_is_tcp(endpoint) != tcp)
        return SONAR_OK;
    if (ingest->kind == SONAR_PULL)
        return sonar_guard_bind(guard, ingest->socket, endpoint, err);
    return sonar_guard_connect(guard, server_key(ingest, i), ingest->socket, endpoint, err);
}

static sonar_code open_socket(sonar_ingest *ingest, sonar_error *err) {
    const sonar_socket_spec spec = {.type = ingest->kind == SONAR_PULL ? ZMQ_PULL : ZMQ_SUB,
                                    .messages = ingest->high_water_mark,
                                    .message_bytes = ingest->max_message_bytes};
    sonar_guard guard_;
    const sonar_guard *guard = sonar_guard_of(ingest->security, SONAR_SENDERS, &guard_);
    sonar_code code = sonar_socket_open(ingest->context, &spec, "ingest", &ingest->socket, err);
    if (!code && ingest->kind == SONAR_SUB &&
        zmq_setsockopt(ingest->socket, ZMQ_SUBSCRIBE, "", 0) != 0)
        code = sonar_fail(err, SONAR_ESYS, "ingest", "cannot subscribe: %s",
                          zmq_strerror(zmq_errno()));
    if (!code)
        code = sonar_peers_watch(ingest->peers, ingest->socket, err);
    for (size_t i = 0; i < 2 * ingest->endpoints && !code; i++)
        code = attach(ingest, i % ingest->endpoints, i >= ingest->endpoints, guard, err);
    return code;
}

/* A digitiser that violates the protocol again and again makes the others lose their connections as
 * well: so each time the socket stays as it is for twice as long, up to a minute. */
static bool may_reopen(sonar_ingest *ingest, int64_t now_ns) {
    enum { DOUBLINGS_MOST = 6 };
    const int64_t second_ns = 1000000000;
    int64_t since_ns = now_ns - ingest->closed_ns;
    if (!ingest->closed_ns || since_ns > 120 * second_ns)
        ingest->given_up = 0;
    if (ingest->given_up && since_ns < second_ns << ingest->given_up)
        return false;
    if (ingest->given_up < DOUBLINGS_MOST)
        ingest->given_up++;
    return true;
}

/* True if the socket has to be opened anew; the reason is counted. */
static bool must_reopen(sonar_ingest *ingest, int64_t now_ns) {
    size_t connected =
        ingest->kind == SONAR_PULL ? sonar_peers_connected(ingest->peers) : ingest->endpoints;
    sonar_count_set(&ingest->count.connected, connected);
    sonar_peers_count(ingest->peers, &ingest->count);
    if (ingest->memory) {
        sonar_memory_allow(ingest->memory, SONAR_MEMORY_IN, connected,
                           (size_t)ingest->high_water_mark, ingest->largest_bytes);
        if (sonar_memory_exceeded(ingest->memory, SONAR_MEMORY_IN, now_ns)) {
            sonar_count_add(&ingest->count.reopened_memory, 1);
            return true;
        }
    }
    bool lost = ingest->kind == SONAR_SUB && sonar_peers_given_up(ingest->peers, now_ns) &&
                may_reopen(ingest, now_ns);
    if (lost)
        sonar_count_add(&ingest->count.reopened_lost, 1);
    return lost;
}

/* Once a tick. libzmq closes a socket in its own time, and until then its endpoint is in use. False
 * if the socket cannot be opened again. */
static bool look_after_peers(sonar_ingest *ingest, int64_t now_ns) {
    const int64_t patience_ns = 30000000000;
    sonar_error err;
    sonar_peers_tick(ingest->peers, now_ns);
    if (atomic_exchange(&ingest->cut, false))
        sonar_peers_cut_all(ingest->peers);
    if (ingest->socket && must_reopen(ingest, now_ns)) {
        close_socket(ingest);
        ingest->closed_ns = now_ns;
        return true;
    }
    if (ingest->socket || open_socket(ingest, &err) == SONAR_OK)
        return true;
    close_socket(ingest);
    return now_ns - ingest->closed_ns < patience_ns;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Waits for messages (unless a frame waits for room, or the socket is being opened anew), for
 * connections that come and go, or for control. -1: the context is gone. */
static int wait_for_work(sonar_ingest *ingest, bool wants_messages) {
    zmq_pollitem_t items[3] = {{.fd = ingest->control_fd, .events = ZMQ_POLLIN},
                               {.socket = sonar_peers_events(ingest->peers), .events = ZMQ_POLLIN},
                               {.socket = ingest->socket, .events = ZMQ_POLLIN}};
    int count = !ingest->socket ? 1 : wants_messages ? 3 : 2;
    int ready = zmq_poll(items, count, TICK_MS);
    if (ready < 0 && errno != EINTR)
        return -1;
    if (ready > 0 && items[0].revents)
        sonar_wake_clear(ingest->control_fd);
    if (ready > 0 && items[1].revents)
        sonar_peers_tick(ingest->peers, sonar_monotonic_ns());
    return 0;
}

/* Takes what has arrived; false: a frame has to wait. *failed: the socket is of no more use. */
static bool take_messages(sonar_ingest *ingest, bool *failed) {
    bool two_parts, stored = true;
    for (int i = 0; i < MESSAGES_PER_POLL && stored; i++) {
        if (receive(ingest, &two_parts)) {
            *failed = errno != EAGAIN && errno != EINTR;
            ingest->drained = true;
            break;
        }
        stored = assemble(ingest, two_parts);
        tell_data_thread(ingest);
        if (ingest->held >= ingest->held_most || ingest->held_bytes >= held_bytes_most)
            release_messages(ingest, stored);
    }
    release_messages(ingest, stored);
    return stored;
}

/* A report is left out where another thread is just reading the last one. */
static void publish_report(sonar_ingest *ingest) {
    if (pthread_mutex_trylock(&ingest->lock))
        return;
    sonar_assembler_report(ingest->assembler, ingest->report_read, &ingest->report);
    ingest->report_read = false;
    pthread_mutex_unlock(&ingest->lock);
}

static void receive_until_stopped(sonar_ingest *ingest) {
    bool stored = true, failed = false;
    int64_t next_tick_ns = 0;
    while (!failed && !atomic_load(&ingest->stopping)) {
        if (wait_for_work(ingest, stored))
            break;
        if (!stored) {
            stored = sonar_assembler_resume(ingest->assembler);
            release_messages(ingest, stored);
            tell_data_thread(ingest);
        }
        if (stored && ingest->socket)
            stored = take_messages(ingest, &failed);
        int64_t now_ns = sonar_monotonic_ns();
        if (now_ns >= next_tick_ns) {
            sonar_assembler_tick(ingest->assembler, now_ns);
            sonar_assembler_load(ingest->assembler, !ingest->drained);
            ingest->drained = false;
            tell_data_thread(ingest);
            publish_report(ingest);
            failed = failed || !look_after_peers(ingest, now_ns);
            next_tick_ns = now_ns + (int64_t)TICK_MS * 1000000;
        }
    }
    sonar_assembler_abandon(ingest->assembler);
    release_messages(ingest, true);
}

/* The socket lives and dies in this thread; start waits to hear whether it could be opened. */
static void *ingest_main(void *arg) {
    sonar_ingest *ingest = arg;
    ingest->open_code = open_socket(ingest, &ingest->open_error);
    bool open = ingest->open_code == SONAR_OK;
    atomic_store(&ingest->alive, open);
    sem_post(&ingest->opened);
    if (open)
        receive_until_stopped(ingest);
    close_socket(ingest);
    atomic_store(&ingest->alive, false);
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool copy_endpoints(sonar_ingest *ingest, const sonar_ingest_spec *spec) {
    ingest->endpoint = sonar_alloc(spec->endpoint_count, sizeof *ingest->endpoint);
    if (!ingest->endpoint)
        return false;
    ingest->endpoints = spec->endpoint_count;
    for (size_t i = 0; i < spec->endpoint_count; i++)
        if (!(ingest->endpoint[i] = strdup(spec->endpoints[i])))
            return false;
    return true;
}

static sonar_code set_up(sonar_ingest *ingest, const sonar_ingest_spec *spec, sonar_error *err) {
    if (!copy_endpoints(ingest, spec))
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the endpoints");
    ingest->peers = sonar_peers_create(ingest->context);
    if (!ingest->peers)
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the peers");
    ingest->windows_fd = sonar_wake_create();
    ingest->control_fd = sonar_wake_create();
    if (ingest->windows_fd < 0 || ingest->control_fd < 0)
        return sonar_fail(err, SONAR_ESYS, "ingest", "cannot make an eventfd: %s", strerror(errno));
    return sonar_assembler_create(spec, &ingest->assembler, err);
}

sonar_code sonar_ingest_create(const sonar_ingest_spec *spec, const sonar_host *host,
                               sonar_ingest **out, sonar_error *err) {
    *out = NULL;
    if (!spec->zmq_context || !spec->endpoint_count || spec->high_water_mark <= 0)
        return sonar_fail(err, SONAR_EINVAL, "ingest",
                          "a context, an endpoint and a high-water mark above 0 are needed");
    sonar_ingest *ingest = sonar_alloc(1, sizeof *ingest);
    if (!ingest)
        return sonar_fail(err, SONAR_ENOMEM, "ingest", "no memory for the receiver");
    ingest->host = host;
    ingest->context = spec->zmq_context;
    ingest->memory = spec->memory;
    ingest->security = spec->security;
    ingest->kind = spec->socket;
    ingest->high_water_mark = spec->high_water_mark;
    ingest->max_message_bytes =
        spec->max_message_bytes < INT64_MAX ? (int64_t)spec->max_message_bytes : INT64_MAX;
    ingest->block = spec->overload == SONAR_BLOCK;
    ingest->cpu = spec->cpu;
    ingest->held_most = spec->threads > 1 ? MESSAGES_PER_POLL : 1;
    ingest->windows_fd = ingest->control_fd = -1;
    sem_init(&ingest->opened, 0, 0);
    pthread_mutex_init(&ingest->lock, NULL);
    zmq_msg_init(&ingest->header);
    for (size_t i = 0; i < MESSAGES_PER_POLL; i++)
        zmq_msg_init(&ingest->payload[i]);
    sonar_code code = set_up(ingest, spec, err);
    if (code) {
        sonar_ingest_destroy(ingest);
        return code;
    }
    *out = ingest;
    return SONAR_OK;
}

sonar_code sonar_ingest_start(sonar_ingest *ingest, sonar_error *err) {
    if (ingest->running)
        return sonar_fail(err, SONAR_ESTATE, "ingest", "ingest is running already");
    atomic_store(&ingest->stopping, false);
    sonar_code code = sonar_thread_start(ingest->host, "sonar-ingest", ingest->cpu, ingest_main,
                                         ingest, &ingest->thread, err);
    if (code)
        return code;
    ingest->running = true;
    while (sem_wait(&ingest->opened) != 0 && errno == EINTR)
        continue;
    if (ingest->open_code == SONAR_OK)
        return SONAR_OK;
    sonar_ingest_stop(ingest);
    return sonar_fail(err, ingest->open_code, ingest->open_error.where, "%s",
                      ingest->open_error.text);
}

void sonar_ingest_stop(sonar_ingest *ingest) {
    if (!ingest || !ingest->running)
        return;
    atomic_store(&ingest->stopping, true);
    sonar_wake_signal(ingest->control_fd);
    pthread_join(ingest->thread, NULL);
    ingest->running = false;
}

void sonar_ingest_destroy(sonar_ingest *ingest) {
    if (!ingest)
        return;
    sonar_ingest_stop(ingest);
    sem_destroy(&ingest->opened);
    pthread_mutex_destroy(&ingest->lock);
    zmq_msg_close(&ingest->header);
    for (size_t i = 0; i < MESSAGES_PER_POLL; i++)
        zmq_msg_close(&ingest->payload[i]);
    sonar_assembler_destroy(ingest->assembler);
    sonar_peers_destroy(ingest->peers);
    if (ingest->windows_fd >= 0)
        close(ingest->windows_fd);
    if (ingest->control_fd >= 0)
        close(ingest->control_fd);
    for (size_t i = 0; i < ingest->endpoints; i++)
        free(ingest->endpoint[i]);
    free(ingest->endpoint);
    free(ingest);
}

/* ---- data thread ----------------------------------------------------------------------------- */

int sonar_ingest_fd(const sonar_ingest *ingest) {
    return ingest->windows_fd;
}

/* Cleared first and set again if more wait, so that the descriptor stays readable while a window
 * waits, however the caller mixes poll and take. */
bool sonar_ingest_take(sonar_ingest *ingest, sonar_window *window) {
    sonar_wake_clear(ingest->windows_fd);
    if (!sonar_assembler_take(ingest->assembler, window))
        return false;
    if (sonar_assembler_waiting(ingest->assembler))
        sonar_wake_signal(ingest->windows_fd);
    if (ingest->block)
        sonar_wake_signal(ingest->control_fd);
    return true;
}

void sonar_ingest_release(sonar_ingest *ingest, const sonar_window *window) {
    sonar_assembler_release(ingest->assembler, window);
    if (ingest->block)
        sonar_wake_signal(ingest->control_fd);
}

void sonar_ingest_use(sonar_ingest *ingest, const uint8_t *channel_used) {
    sonar_assembler_use(ingest->assembler, channel_used);
}

uint64_t sonar_ingest_ready(const sonar_ingest *ingest) {
    return sonar_assembler_ready(ingest->assembler);
}

sonar_buffer sonar_ingest_ring(const sonar_ingest *ingest) {
    return sonar_assembler_ring(ingest->assembler);
}

void sonar_ingest_cut_all(sonar_ingest *ingest) {
    atomic_store(&ingest->cut, true);
}

bool sonar_ingest_alive(const sonar_ingest *ingest) {
    return atomic_load(&ingest->alive);
}

void sonar_ingest_read_counters(const sonar_ingest *ingest, sonar_ingest_counters *counters) {
    sonar_assembler_read_counters(ingest->assembler, counters);
    sonar_count_copy(&counters->peers, &ingest->count, sizeof counters->peers);
}

void sonar_ingest_read_report(sonar_ingest *ingest, sonar_ingest_report *report) {
    pthread_mutex_lock(&ingest->lock);
    *report = ingest->report;
    ingest->report_read = true;
    pthread_mutex_unlock(&ingest->lock);
}
