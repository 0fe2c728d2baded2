/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "receiver.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "core/core.h"
#include "json.h"
#include "net/net.h"
#include "output/output.h"

/* A status comes within a second, but a busy machine may need longer; a remote output.endpoint may
 * not be reachable at all. */
enum { POLL_MS = 50, LOCAL_MS = 30000, REMOTE_MS = 2000 };
static const double RATE_TOLERANCE = 1e-6; /* the same as for frames */

struct sim_receiver {
    const sonar_config *config;
    void *socket;
};

cJSON *sim_receive_head(void *socket) {
    cJSON *head = NULL;
    int more = 1;
    for (int part = 0; more; part++) {
        zmq_msg_t message;
        zmq_msg_init(&message);
        if (zmq_msg_recv(&message, socket, 0) < 0)
            break;
        if (part == 1)
            head = cJSON_ParseWithLength(zmq_msg_data(&message), zmq_msg_size(&message));
        more = zmq_msg_more(&message);
        zmq_msg_close(&message);
    }
    return head;
}

/* ---- life ------------------------------------------------------------------------------------ */

static bool can_tell(const sonar_config *c) {
    const bool curve = c->security.curve && sonar_endpoint_is_tcp(c->output_endpoint);
    const bool any_port = strstr(c->output_endpoint, ":*") != NULL;
    return !curve && !any_port && c->output_topics & SONAR_WANT(SONAR_STATUS);
}

static sonar_code listen_to(sim_receiver *r, void *zmq_context, sonar_error *err) {
    const char *status = sonar_topic_name(SONAR_STATUS);
    int zero = 0, on = 1;
    r->socket = zmq_socket(zmq_context, ZMQ_SUB);
    if (!r->socket)
        return sonar_fail(err, SONAR_ESYS, "zmq", "%s", zmq_strerror(zmq_errno()));
    zmq_setsockopt(r->socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(r->socket, ZMQ_IPV6, &on, sizeof on);
    zmq_setsockopt(r->socket, ZMQ_SUBSCRIBE, status, strlen(status));
    return sonar_client_connect(NULL, false, r->socket, r->config->output_endpoint, err);
}

sonar_code sim_receiver_create(void *zmq_context, const sonar_config *config,
                               sim_receiver **receiver, sonar_error *err) {
    *receiver = NULL;
    if (!can_tell(config))
        return SONAR_OK;
    sim_receiver *r = sonar_alloc(1, sizeof *r);
    if (!r)
        return sonar_fail(err, SONAR_ENOMEM, "receiver", "out of memory");
    r->config = config;
    const sonar_code code = listen_to(r, zmq_context, err);
    if (code)
        sim_receiver_destroy(r);
    else
        *receiver = r;
    return code;
}

void sim_receiver_destroy(sim_receiver *r) {
    if (r && r->socket)
        zmq_close(r->socket);
    free(r);
}

/* ---- identity -------------------------------------------------------------------------------- */

/* The status of the running daemon; NULL: none was received in time. */
static cJSON *await_status(const sim_receiver *r, int timeout_ms,
                           const volatile sig_atomic_t *stop) {
    const int64_t until = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    zmq_pollitem_t item = {.socket = r->socket, .events = ZMQ_POLLIN};
    cJSON *head = NULL;
    while (!head && !*stop && sonar_monotonic_ns() < until)
        if (zmq_poll(&item, 1, POLL_MS) > 0)
            head = sim_receive_head(r->socket);
    return head;
}

static sonar_code compare(const sim_receiver *r, const cJSON *head, const char *name,
                          sonar_error *err) {
    const sonar_config *c = r->config;
    const double fs_hz = json_number(head, "fs_hz");
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(head, "array");
    const bool same = cJSON_IsString(array) && !strcmp(array->valuestring, c->array_name);
    if (same && fabs(fs_hz - c->fs_hz) <= RATE_TOLERANCE * c->fs_hz)
        return SONAR_OK;
    return sonar_fail(err, SONAR_EINVAL, c->output_endpoint,
                      "the running daemon has the array '%s' at %g Hz, but the configuration has "
                      "'%s' at %g Hz: nothing is sent to it; --endpoint ADDRESS sends to any "
                      "receiver",
                      name, fs_hz, c->array_name, c->fs_hz);
}

/* True if the address can only be one of this machine. */
static bool is_local(const char *endpoint) {
    return !sonar_endpoint_is_tcp(endpoint) || sonar_endpoint_is_loopback(endpoint) ||
           !strncmp(endpoint, "tcp://*:", strlen("tcp://*:"));
}

/* A daemon of this machine would have answered. */
static sonar_code refuse_stranger(const sim_receiver *r, const char *endpoint, sonar_error *err) {
    return sonar_fail(err, SONAR_EINVAL, r->config->output_endpoint,
                      "no status within %d s: the receiver at %s is not the daemon of this "
                      "configuration, and nothing is sent to it; --endpoint ADDRESS sends to any "
                      "receiver",
                      LOCAL_MS / 1000, endpoint);
}

sonar_code sim_receiver_check(const sim_receiver *r, const char *tool, const char *endpoint,
                              const volatile sig_atomic_t *stop, sonar_error *err) {
    char name[64];
    const bool local = is_local(endpoint);
    cJSON *head = r ? await_status(r, local ? LOCAL_MS : REMOTE_MS, stop) : NULL;
    if (!head && r && local && !*stop)
        return refuse_stranger(r, endpoint, err);
    if (!head) {
        fprintf(stderr, "%s: sending to the receiver at %s%s\n", tool, endpoint,
                r ? "; no status from output.endpoint, so its array is not known" : "");
        return SONAR_OK;
    }
    const cJSON *array = cJSON_GetObjectItemCaseSensitive(head, "array");
    const char *given = cJSON_IsString(array) ? array->valuestring : "?";
    sonar_text_clean(given, strlen(given), name, sizeof name);
    const sonar_code code = compare(r, head, name, err);
    const cJSON *frames = cJSON_GetObjectItemCaseSensitive(head, "frames");
    if (!code)
        fprintf(stderr,
                "%s: sending to sonard of the array '%s' at %s, up for %.0f s, %.0f frames so "
                "far\n",
                tool, name, endpoint, json_number(head, "uptime_s"),
                json_number(frames, "received"));
    cJSON_Delete(head);
    return code;
}
