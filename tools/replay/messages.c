/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "messages.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"
#include "spectra.h"

enum { POLL_MS = 50, LINGER_MS = 10000, HIGH_WATER_MARK = 1000 };
static const int64_t pause_most_ns = 10000000000; /* in the recording's own time */

typedef struct player {
    const messages_spec *spec;
    void *zmq, *socket;
    int64_t utc_ns;     /* of the previous message, 0: none */
    int64_t own_ns;     /* the recording's own time since its first message */
    int64_t paced_ns;   /* the same since the first message that was played, with bounded pauses */
    int64_t started_ns; /* monotonic time when that message was sent; 0: not yet */
    bool over;
} player;

bool messages_is(const char *path) {
    static const char ending[] = ".sonar-spectra";
    const size_t length = strlen(path), n = sizeof ending - 1;
    return length > n && !strcmp(path + length - n, ending);
}

/* ---- the socket ------------------------------------------------------------------------------ */

static bool is_local(const char *endpoint) {
    static const char *const local[] = {"ipc://", "tcp://127.", "tcp://[::1]:", "tcp://localhost:"};
    for (size_t i = 0; i < sizeof local / sizeof *local; i++)
        if (!strncmp(endpoint, local[i], strlen(local[i])))
            return true;
    return false;
}

static sonar_code open_socket(player *p, sonar_error *err) {
    const char *endpoint = p->spec->endpoint;
    const int mark = HIGH_WATER_MARK, on = 1;
    if (!is_local(endpoint))
        return sonar_fail(err, SONAR_EINVAL, endpoint,
                          "messages are not encrypted: ipc://PATH or a loopback address is "
                          "accepted");
    p->zmq = zmq_ctx_new();
    p->socket = p->zmq ? zmq_socket(p->zmq, ZMQ_XPUB) : NULL;
    if (!p->socket)
        return sonar_fail(err, SONAR_ESYS, endpoint, "zmq_socket: %s", zmq_strerror(zmq_errno()));
    zmq_setsockopt(p->socket, ZMQ_SNDHWM, &mark, sizeof mark);
    /* with rate max no message is lost; otherwise a slow reader loses messages, as it would live */
    if (p->spec->rate == 0)
        zmq_setsockopt(p->socket, ZMQ_XPUB_NODROP, &on, sizeof on);
    return sonar_endpoint_bind(p->socket, endpoint, err);
}

static bool await_subscriber(const player *p) {
    fprintf(stderr, "sonar-replay: waiting for a subscriber at %s\n", p->spec->endpoint);
    zmq_pollitem_t item = {.socket = p->socket, .events = ZMQ_POLLIN};
    while (!*p->spec->stop)
        if (zmq_poll(&item, 1, POLL_MS) > 0)
            return true;
    return false;
}

static void drain_subscriptions(const player *p) {
    uint8_t event[64];
    while (zmq_recv(p->socket, event, sizeof event, ZMQ_DONTWAIT) >= 0)
        continue;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Sleeps until the message's time has come. False: stopped. */
static bool await_time(const player *p, int64_t since_ns) {
    const int64_t step_ns = (int64_t)POLL_MS * 1000000;
    while (!*p->spec->stop && p->spec->rate > 0) {
        const int64_t due = p->started_ns + (int64_t)((double)since_ns / p->spec->rate);
        const int64_t left = due - sonar_monotonic_ns();
        if (left <= 0)
            break;
        nanosleep(&(struct timespec){.tv_nsec = left < step_ns ? left : step_ns}, NULL);
    }
    return !*p->spec->stop;
}

static bool send_part(const player *p, const void *data, size_t bytes, int flags) {
    while (zmq_send(p->socket, data, bytes, flags | ZMQ_DONTWAIT) < 0) {
        if ((errno != EAGAIN && errno != EINTR) || *p->spec->stop)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        drain_subscriptions(p);
    }
    return true;
}

/* The recorded clock may have been set, and recording may have paused. Such steps are not waited
 * for. */
static void take_step(player *p, int64_t utc_ns) {
    const int64_t step_ns = p->utc_ns && utc_ns > p->utc_ns ? utc_ns - p->utc_ns : 0;
    p->utc_ns = utc_ns;
    p->own_ns += step_ns < INT64_MAX - p->own_ns
                     ? step_ns
                     : 0; /* the clock may have been set back and forth */
    p->paced_ns += step_ns < pause_most_ns ? step_ns : pause_most_ns;
    if (step_ns > pause_most_ns && p->started_ns && p->spec->rate > 0)
        fprintf(stderr,
                "sonar-replay: for %.1f s no message was recorded, or the clock was set: %g s are "
                "waited\n",
                (double)step_ns * 1e-9, (double)pause_most_ns * 1e-9 / p->spec->rate);
}

static sonar_code send_message(player *p, const spectra *file, sonar_error *err) {
    const sonar_message_head *head = &file->head;
    take_step(p, head->utc_ns);
    const int64_t since_ns = p->own_ns;
    const int64_t start_ns = (int64_t)(p->spec->start_s * 1e9);
    const uint8_t *header = file->bytes + head->topic_bytes, *array = header + head->header_bytes;
    if (since_ns < start_ns)
        return SONAR_OK;
    p->over = (double)(since_ns - start_ns) >= p->spec->duration_s * 1e9;
    if (!p->started_ns) {
        p->started_ns = sonar_monotonic_ns();
        p->paced_ns = 0;
    }
    if (p->over || !await_time(p, p->paced_ns))
        return SONAR_OK;
    drain_subscriptions(p);
    if (!send_part(p, file->bytes, head->topic_bytes, ZMQ_SNDMORE) ||
        !send_part(p, header, head->header_bytes, ZMQ_SNDMORE) ||
        !send_part(p, array, head->array_bytes, 0))
        return *p->spec->stop ? SONAR_OK
                              : sonar_fail(err, SONAR_ESYS, p->spec->endpoint, "zmq_send: %s",
                                           zmq_strerror(zmq_errno()));
    return SONAR_OK;
}

/* Checks whether the file contains messages, before waiting for a subscriber. */
static sonar_code look_at(const char *path, sonar_error *err) {
    spectra file;
    const sonar_code code = spectra_open(path, &file, err);
    spectra_close(&file);
    return code;
}

static sonar_code play_file(player *p, const char *path, sonar_error *err) {
    spectra file;
    bool found = true;
    sonar_code code = spectra_open(path, &file, err);
    while (!code && found && !p->over && !*p->spec->stop) {
        code = spectra_next(&file, &found, err);
        if (code || !found)
            break;
        code = send_message(p, &file, err);
    }
    spectra_close(&file);
    return code;
}

sonar_code messages_play(const messages_spec *spec, sonar_error *err) {
    player p = {.spec = spec};
    sonar_code code = open_socket(&p, err);
    for (size_t i = 0; i < spec->files && !code; i++)
        code = look_at(spec->path[i], err);
    if (!code && await_subscriber(&p))
        for (size_t i = 0; i < spec->files && !code && !p.over; i++)
            code = play_file(&p, spec->path[i], err);
    const int linger_ms = *spec->stop ? 0 : LINGER_MS;
    sonar_held held = {0};
    if (p.socket) {
        sonar_connections_hold(&held, &p.socket, 1, true);
        zmq_setsockopt(p.socket, ZMQ_LINGER, &linger_ms, sizeof linger_ms);
        zmq_close(p.socket);
    }
    if (p.zmq)
        zmq_ctx_term(p.zmq);
    sonar_connections_release(&held, linger_ms, spec->stop);
    return code;
}
