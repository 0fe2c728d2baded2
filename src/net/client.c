/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How the tools reach a daemon. */
#include "net/net.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/monitor.h"

/* A daemon may bind all addresses; from the same machine it is reached on loopback. Into text. */
static const char *reachable(const char *endpoint, char *text, size_t room) {
    static const char *const all[] = {"tcp://*:", "tcp://0.0.0.0:", "tcp://[::]:"};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (!strncmp(endpoint, all[i], strlen(all[i]))) {
            snprintf(text, room, "tcp://127.0.0.1:%s", endpoint + strlen(all[i]));
            return text;
        }
    return endpoint;
}

sonar_code sonar_client_certificate(const char *key, sonar_certificate *own, sonar_error *err) {
    sonar_code code = sonar_certificate_read(key, SONAR_TO_OWN, own, err);
    if (!code && !*own->server_key)
        code = sonar_fail(err, SONAR_EINVAL, key,
                          "names no server-key: 'sonar-keys client NAME --server SERVER.key' makes "
                          "a certificate that does");
    return code;
}

sonar_code sonar_client_connect(const char *key, bool curve, void *socket, const char *endpoint,
                                sonar_error *err) {
    char text[64];
    sonar_certificate own;
    endpoint = reachable(endpoint, text, sizeof text);
    if (!sonar_endpoint_is_tcp(endpoint) || (!key && !curve))
        return sonar_endpoint_connect(socket, endpoint, err);
    if (!key)
        return sonar_fail(err, SONAR_EINVAL, endpoint,
                          "speaks CURVE: --key FILE is needed, a client's certificate "
                          "(NAME.key_secret) made by sonar-keys");
    sonar_code code = sonar_client_certificate(key, &own, err);
    if (!code)
        code = sonar_curve_connect(&own, own.server_key, socket, endpoint, err);
    sonar_certificate_clear(&own);
    return code;
}

/* ---- why nothing comes ----------------------------------------------------------------------- */

struct sonar_client {
    void *events;
    bool key;
    sonar_client_state state;
    const char *why;
};

static const char mechanism_differs[] =
    "speaks CURVE and this side does not, or vice versa: --key FILE decides";

sonar_client *sonar_client_watch(void *context, void *socket, bool key) {
    const int wanted = ZMQ_EVENT_CLOSED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                       ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    sonar_client *client = sonar_alloc(1, sizeof *client);
    if (!client)
        return NULL;
    *client = (sonar_client){.events = sonar_monitor_open(context, socket, wanted), .key = key};
    if (client->events)
        return client;
    free(client);
    return NULL;
}

void sonar_client_forget(sonar_client *client, void *socket) {
    if (client)
        sonar_monitor_close(client->events, socket);
    free(client);
}

static void set(sonar_client *client, sonar_client_state state, const char *why) {
    client->state = state;
    client->why = why;
}

/* Its mechanism is asked for, as it may have hung up before libzmq had read that. */
static void take_hang_up(sonar_client *client, const char *endpoint) {
    if (!client->key && sonar_greets_with_curve(endpoint))
        set(client, SONAR_CLIENT_REFUSED, mechanism_differs);
    else
        set(client, SONAR_CLIENT_HUNG_UP,
            client->key ? "hangs up in the handshake: this key connects too often, or the "
                          "server-key of --key FILE is not its own"
                        : "hangs up in the handshake: this user or address has too many "
                          "connections, or makes them too often");
}

static void take_violation(sonar_client *client, int32_t value) {
    set(client, SONAR_CLIENT_REFUSED,
        value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH ? mechanism_differs
        : client->key ? "ended the handshake: perhaps the server-key of --key FILE is not its own"
                      : "does not speak ZeroMQ as sonard does");
}

static const char *why_absent(const char *endpoint) {
    if (!strncmp(endpoint, "ipc://", 6) && access(endpoint + 6, R_OK | W_OK) && errno == EACCES)
        return "may not be connected to by this user (security.ipc_mode)";
    return "does not answer: nothing listens there";
}

static void take(sonar_client *client, const sonar_monitor_event *is) {
    switch (is->event) {
    case ZMQ_EVENT_CLOSED: /* what tried to connect */
        set(client, SONAR_CLIENT_ABSENT, why_absent(is->endpoint));
        break;
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        set(client, SONAR_CLIENT_JOINED, NULL);
        break;
    case ZMQ_EVENT_DISCONNECTED:
        if (client->state == SONAR_CLIENT_JOINED)
            set(client, SONAR_CLIENT_TRIES, NULL);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        take_hang_up(client, is->endpoint);
        break;
    case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        take_violation(client, is->value);
        break;
    default:
        if (client->key)
            set(client, SONAR_CLIENT_REFUSED,
                "does not allow this key: its public certificate (NAME.key) has to be in "
                "security.allow_senders or security.allow_readers there");
    }
}

sonar_client_state sonar_client_look(sonar_client *client, const char **why) {
    sonar_monitor_event is;
    *why = NULL;
    if (!client)
        return SONAR_CLIENT_TRIES;
    while (client->state != SONAR_CLIENT_REFUSED && sonar_monitor_take(client->events, &is))
        take(client, &is);
    *why = client->why;
    return client->state;
}
