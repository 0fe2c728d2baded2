/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How the tools reach a daemon. */
#include "net/net.h"

#include <stdio.h>
#include <string.h>
#include <zmq.h>

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

void *sonar_client_watch(void *context, void *socket) {
    return sonar_monitor_open(context, socket,
                              ZMQ_EVENT_HANDSHAKE_FAILED_AUTH |
                                  ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                  ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL);
}

void sonar_client_forget(void *events, void *socket) {
    if (events)
        sonar_monitor_close(events, socket);
}

static const char mechanism_differs[] =
    "speaks CURVE and this side does not, or the other way round: --key FILE decides";

/* What each of the events means to somebody who connects. */
static const char *meaning(uint16_t event, int32_t value) {
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH)
        return "does not allow this key: its public certificate (NAME.key) has to be in "
               "security.allow_senders or security.allow_readers there";
    if (event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL &&
        value == ZMQ_PROTOCOL_ERROR_ZMTP_MECHANISM_MISMATCH)
        return mechanism_differs;
    return "ended the handshake: perhaps the server-key of --key FILE is not its own";
}

/* libzmq goes on trying where the other side just hangs up, as the gate of sonard does (zap.c). */
const char *sonar_client_refusal(void *events, bool key, const char **waits) {
    const char *what = NULL;
    sonar_monitor_event is;
    *waits = NULL;
    while (events && sonar_monitor_take(events, &is))
        if (is.event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL && !key &&
            sonar_greets_with_curve(is.endpoint))
            what = mechanism_differs;
        else if (is.event == ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL)
            *waits = key ? "hangs up in the handshake: this key comes too often, or the "
                           "server-key of --key FILE is not its own"
                         : "hangs up in the handshake: this user or address has too many "
                           "connections, or makes them too often";
        else if (key || is.event == ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL)
            what = meaning(is.event, is.value);
    return what;
}
