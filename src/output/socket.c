/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The output thread's socket and its peers: subscriptions, sending, and readers that hold too much
 * memory. libzmq drops messages for a subscriber whose queue is full, so sending never waits.
 * Called by publisher.c and messages.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output/internal.h"

enum {
    MESSAGE_BYTES_MOST = 128, /* limit of a message from a peer: a handshake or a topic */
    REQUESTS_QUEUED = 16,     /* of each peer: libzmq reads while it finds one, in this thread, and
                                 a flood keeps a longer queue filled */
    SUBSCRIPTIONS_PER_TURN = 64 /* a flood of subscriptions cannot delay the results */
};

sonar_code sonar_output_open(sonar_output *output, sonar_error *err) {
    const char *endpoint = output->spec.endpoint;
    const int every_subscribe = 1; /* topic.h explains why not VERBOSER */
    const sonar_socket_spec spec = {.type = ZMQ_XPUB,
                                    .messages_out = output->spec.high_water_mark,
                                    .messages_in = REQUESTS_QUEUED,
                                    .message_bytes = MESSAGE_BYTES_MOST,
                                    .io_threads = output->spec.io_threads};
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
    char bound[sizeof output->endpoint];
    size_t bytes = sizeof bound;
    if (zmq_getsockopt(output->socket, ZMQ_LAST_ENDPOINT, bound, &bytes) != 0)
        snprintf(bound, sizeof bound, "%s", endpoint);
    pthread_mutex_lock(&output->lock);
    memcpy(output->endpoint, bound, sizeof bound);
    pthread_mutex_unlock(&output->lock);
    sonar_gate_attend(output->spec.gate, bound);
    return SONAR_OK;
}

/* Messages that libzmq still holds for slow peers get the rest of the time to stop, and a moment at
 * least. Without it a partly sent message is cut off, and libzmq 4.3.4 aborts if the peer
 * disconnects at that moment (clean_pipes in session_base.cpp expects the rest). */
void sonar_output_close(sonar_output *output) {
    enum { LEAST_MS = 50 };
    if (!output->socket)
        return;
    int64_t left_ms = (atomic_load(&output->deadline_ns) - sonar_monotonic_ns()) / 1000000;
    int linger_ms = left_ms > LEAST_MS ? (int)left_ms : LEAST_MS;
    zmq_setsockopt(output->socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
    sonar_gate_attend(output->spec.gate, NULL);
    sonar_peers_forget(output->peers, output->socket);
    zmq_close(output->socket);
    output->socket = NULL;
}

/* ---- subscriptions --------------------------------------------------------------------------- */

/* libzmq keeps every subscription as long as the connection lasts, so a peer with too many is
 * disconnected. */
static void take_subscription(sonar_output *output, zmq_msg_t *message) {
    const uint8_t *data = zmq_msg_data(message);
    size_t bytes = zmq_msg_size(message);
    uint32_t asked = sonar_interest_apply(&output->interest, data, bytes);
    if (asked & SONAR_WANT(SONAR_STATUS))
        output->repeat_wanted = true;
    if (bytes > 0 && data[0] == 0)
        return;
    const bool subscribes = bytes > 0 && data[0] == 1;
    sonar_count_add(&output->count.subscriptions, subscribes);
    sonar_peers_charge(output->peers, message, bytes, subscribes && !asked);
}

void sonar_output_read_subscriptions(sonar_output *output) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    sonar_peers_tick(output->peers,
                     sonar_monotonic_ns()); /* first updates the peers, so that the subscriptions
                                               can be assigned to them */
    int taken = 0;
    while (taken < SUBSCRIPTIONS_PER_TURN &&
           zmq_msg_recv(&message, output->socket, ZMQ_DONTWAIT) >= 0) {
        take_subscription(output, &message);
        taken++;
    }
    zmq_msg_close(&message);
    sonar_gate_round(output->spec.gate, taken < SUBSCRIPTIONS_PER_TURN);
}

void sonar_output_update_wanted(sonar_output *output) {
    const sonar_output_tap *tap = &output->spec.tap;
    uint32_t wanted = sonar_interest_wanted(&output->interest);
    if (tap->wanted)
        wanted |= tap->wanted(tap->ctx);
    atomic_store_explicit(&output->wanted, wanted & output->spec.topics, memory_order_relaxed);
    if (tap->tick)
        tap->tick(tap->ctx);
}

/* ---- sending --------------------------------------------------------------------------------- */

void sonar_output_count_sent(sonar_output *output, sonar_surface surface, bool sent) {
    sonar_output_counters *count = &output->count;
    sonar_count_add(sent ? &count->messages_sent : &count->messages_failed, 1);
    sonar_count_add(sent ? &count->topic_sent[surface] : &count->topic_failed[surface], 1);
}

void sonar_output_send(sonar_output *output, sonar_surface surface, char *header, zmq_msg_t *body) {
    const char *topic = sonar_topic_name(surface);
    int more = ZMQ_SNDMORE | ZMQ_DONTWAIT;
    output->largest_bytes =
        sonar_max_size(output->largest_bytes, zmq_msg_size(body) + (header ? strlen(header) : 0));
    if (header && output->spec.tap.take)
        output->spec.tap.take(output->spec.tap.ctx, surface, header, zmq_msg_data(body),
                              zmq_msg_size(body));
    bool sent = header && (!output->socket || /* no readers */
                           (zmq_send_const(output->socket, topic, strlen(topic), more) >= 0 &&
                            zmq_send(output->socket, header, strlen(header), more) >= 0 &&
                            zmq_msg_send(body, output->socket, ZMQ_DONTWAIT) >= 0));
    sonar_output_count_sent(output, surface, sent);
    zmq_msg_close(body);
    free(header);
}

/* ---- peers ----------------------------------------------------------------------------------- */

/* Readers reconnect by themselves; messages queued for them are lost. libzmq closes a socket
 * asynchronously, and its endpoint is in use as long as it frees what peers held: tried again until
 * it can be opened, because windows are computed and recorded meanwhile. */
static void reopen(sonar_output *output) {
    sonar_error err;
    const bool open = sonar_output_open(output, &err) == SONAR_OK;
    if (!open)
        sonar_output_close(output);
    sonar_count_set(&output->count.peers.closed, !open);
}

/* True if messages waiting for readers take more memory than allowed. */
static bool holds_too_much(sonar_output *output, size_t connected, int64_t now_ns) {
    if (!output->spec.memory)
        return false;
    sonar_memory_allow(output->spec.memory, SONAR_MEMORY_OUT, connected,
                       (size_t)output->spec.high_water_mark, output->largest_bytes);
    return sonar_memory_exceeded(output->spec.memory, SONAR_MEMORY_OUT, now_ns);
}

static void close_to_reopen(sonar_output *output) {
    sonar_count_add(&output->count.peers.reopened_memory, 1);
    sonar_output_close(output);
    output->interest = (sonar_interest){0};
    atomic_store_explicit(&output->wanted, 0, memory_order_relaxed);
}

void sonar_output_look_after_peers(sonar_output *output) {
    int64_t now_ns = sonar_monotonic_ns();
    if (!output->spec.endpoint ||
        now_ns - output->ticked_ns < (int64_t)SONAR_OUTPUT_TICK_MS * 1000000)
        return;
    output->ticked_ns = now_ns;
    sonar_peers_tick(output->peers, now_ns);
    if (atomic_exchange(&output->cut, false))
        sonar_peers_cut_all(output->peers);
    size_t connected = sonar_peers_connected(output->peers);
    sonar_count_set(&output->count.peers.connected, connected);
    sonar_peers_count(output->peers, &output->count.peers);
    if (!output->socket)
        reopen(output);
    else if (holds_too_much(output, connected, now_ns))
        close_to_reopen(output);
}
