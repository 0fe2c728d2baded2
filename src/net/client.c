/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How the tools reach a daemon. */
#include "net/net.h"

#include <stdio.h>
#include <string.h>
#include <zmq.h>

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

void *sonar_client_watch(void *context, void *socket) {
    static _Atomic unsigned monitors;
    const int events = ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                       ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL;
    const int none = 0;
    char name[64];
    snprintf(name, sizeof name, "inproc://sonar-client-%u", monitors++);
    void *pair = zmq_socket(context, ZMQ_PAIR);
    if (pair && !zmq_setsockopt(pair, ZMQ_LINGER, &none, sizeof none) &&
        !zmq_socket_monitor(socket, name, events) && !zmq_connect(pair, name))
        return pair;
    if (pair)
        zmq_close(pair);
    return NULL;
}

void sonar_client_forget(void *events, void *socket) {
    if (!events)
        return;
    zmq_socket_monitor(socket, NULL, 0);
    zmq_close(events);
}

/* What each of the events means to somebody who connects. */
static const char *meaning(uint16_t event, int32_t value) {
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return "does not allow this key: its public certificate (NAME.key) has to be in "
               "security.allow_senders or security.allow_readers there";
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
        value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
        return "speaks CURVE and this side does not, or the other way round: --key FILE decides";
    return "ended the handshake: perhaps the server-key of --key FILE is not its own";
}

const char *sonar_client_refusal(void *events, bool key) {
    const char *what = NULL;
    uint8_t head[6];
    while (events && zmq_recv(events, head, sizeof head, ZMQ_DONTWAIT) == sizeof head) {
        char bin[256];
        uint16_t event;
        int32_t value;
        memcpy(&event, head, sizeof event);
        memcpy(&value, head + 2, sizeof value);
        if (zmq_recv(events, bin, sizeof bin, 0) < 0)
            break;
        if (key || event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
            what = meaning(event, value);
    }
    return what;
}
