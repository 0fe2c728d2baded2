/* SPDX-License-Identifier: GPL-3.0-or-later */
/* CURVE on TCP, rights of the file on ipc: set for one endpoint, taken back for the next one. */
#include "net/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN /* in libzmq since 4.3.0, in its header among the drafts */
#define ZMQ_ZAP_ENFORCE_DOMAIN 93
#endif

/* What CURVE adds to a message, and the largest part of its handshake with some to spare. */
enum { CURVE_BYTES = 33, HANDSHAKE_BYTES = 1024 };

bool sonar_endpoint_is_tcp(const char *endpoint) {
    return !strncmp(endpoint, "tcp://", 6);
}

bool sonar_endpoint_is_loopback(const char *endpoint) {
    char host[64];
    struct in_addr address;
    const char *colon = strrchr(endpoint, ':');
    if (!sonar_endpoint_is_tcp(endpoint) || !colon || colon < endpoint + 6)
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(colon - endpoint - 6), endpoint + 6);
    if (!strcmp(host, "localhost") || !strcmp(host, "[::1]"))
        return true;
    return inet_pton(AF_INET, host, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

const sonar_guard *sonar_guard_of(const sonar_security *security, sonar_domain domain,
                                  sonar_guard *guard) {
    if (!security)
        return NULL;
    *guard = (sonar_guard){.own = security->curve ? &security->own : NULL,
                           .domain = domain,
                           .ipc_mode = security->ipc_mode};
    return guard;
}

void sonar_security_clear(sonar_security *security) {
    sonar_certificate_clear(&security->own);
    for (int i = 0; i < SONAR_DOMAINS; i++)
        sonar_keyring_clear(&security->allowed[i]);
    free(security->server_key);
    free(security->credentials_dir);
    *security = (sonar_security){0};
}

/* ---- CURVE ----------------------------------------------------------------------------------- */

static bool set_int(void *socket, int option, int value) {
    return zmq_setsockopt(socket, option, &value, sizeof value) == 0;
}

static bool set_text(void *socket, int option, const char *text) {
    return zmq_setsockopt(socket, option, text, strlen(text)) == 0;
}

static bool set_key(void *socket, int option, const char *key) {
    return zmq_setsockopt(socket, option, key, SONAR_KEY_CHARS + 1) == 0;
}

/* Keys stay in the socket; without a mechanism they are not used. */
static bool lift_curve(void *socket) {
    return set_int(socket, ZMQ_CURVE_SERVER, 0);
}

/* libzmq asks about plain peers as well where there is a domain, and does not let one be taken away
 * again. */
static bool has_domain(void *socket) {
    char domain[256] = "";
    size_t bytes = sizeof domain;
    return zmq_getsockopt(socket, ZMQ_ZAP_DOMAIN, domain, &bytes) == 0 && *domain;
}

/* Peers without a key are asked about as well where there is a gate. Digitisers have none: where
 * libzmq asks, it refuses ZMTP 1 and 2, which small digitisers may speak. */
static bool serve_plain(const sonar_guard *guard, void *socket) {
    return guard->domain == SONAR_SENDERS ||
           set_text(socket, ZMQ_ZAP_DOMAIN, sonar_domain_name(guard->domain));
}

/* libzmq gives each listener and each connection the options that hold when it is made. */
static bool serve_curve(const sonar_guard *guard, void *socket) {
    return set_key(socket, ZMQ_CURVE_SECRETKEY, guard->own->secret_key) &&
           set_text(socket, ZMQ_ZAP_DOMAIN, sonar_domain_name(guard->domain)) &&
           set_int(socket, ZMQ_ZAP_ENFORCE_DOMAIN, 1) && set_int(socket, ZMQ_CURVE_SERVER, 1);
}

static bool want_curve(const sonar_certificate *own, const char *server_key, void *socket) {
    return set_key(socket, ZMQ_CURVE_PUBLICKEY, own->public_key) &&
           set_key(socket, ZMQ_CURVE_SECRETKEY, own->secret_key) &&
           set_key(socket, ZMQ_CURVE_SERVERKEY, server_key);
}

/* The limit is one of what is on the wire. */
static bool make_room(void *socket, int64_t bytes) {
    int64_t room = bytes < 0 ? bytes : bytes + CURVE_BYTES;
    if (room >= 0 && room < HANDSHAKE_BYTES)
        room = HANDSHAKE_BYTES;
    return zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &room, sizeof room) == 0;
}

/* ---- endpoints ------------------------------------------------------------------------------- */

typedef sonar_code attach(void *socket, const char *endpoint, sonar_error *err);

static sonar_code refuse(const char *endpoint, sonar_error *err) {
    return sonar_fail(err, SONAR_ESYS, endpoint, "cannot set up CURVE: %s",
                      zmq_has("curve") ? zmq_strerror(zmq_errno())
                                       : "this libzmq was built without it");
}

/* With CURVE as `set` says for this endpoint, and without it afterwards. */
static sonar_code attach_with(bool set, attach *attach, void *socket, const char *endpoint,
                              sonar_error *err) {
    int64_t bytes;
    size_t size = sizeof bytes;
    if (!set || zmq_getsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, &size) || !make_room(socket, bytes))
        return refuse(endpoint, err);
    sonar_code code = attach(socket, endpoint, err);
    if (zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &bytes, sizeof bytes) || !lift_curve(socket))
        return code ? code : refuse(endpoint, err);
    return code;
}

static sonar_code set_mode(const char *endpoint, unsigned mode, sonar_error *err) {
    const char *path = endpoint + strlen("ipc://");
    if (chmod(path, mode) != 0)
        return sonar_fail(err, SONAR_ESYS, endpoint,
                          "cannot set the mode of the socket to %04o: %s", mode, strerror(errno));
    return SONAR_OK;
}

sonar_code sonar_guard_bind(const sonar_guard *guard, void *socket, const char *endpoint,
                            sonar_error *err) {
    if (!guard)
        return sonar_endpoint_bind(socket, endpoint, err);
    if (guard->own && sonar_endpoint_is_tcp(endpoint))
        return attach_with(serve_curve(guard, socket), sonar_endpoint_bind, socket, endpoint, err);
    if (guard->domain == SONAR_SENDERS && has_domain(socket))
        return sonar_fail(err, SONAR_ESTATE, endpoint,
                          "plain endpoints come before those with CURVE");
    if (!serve_plain(guard, socket))
        return sonar_fail(err, SONAR_ESYS, endpoint, "cannot set up the gate: %s",
                          zmq_strerror(zmq_errno()));
    if (!sonar_endpoint_is_tcp(endpoint) || sonar_endpoint_is_loopback(endpoint)) {
        sonar_code code = sonar_endpoint_bind(socket, endpoint, err);
        bool file = guard->ipc_mode && !strncmp(endpoint, "ipc://", 6);
        return code || !file ? code : set_mode(endpoint, guard->ipc_mode, err);
    }
    return sonar_fail(err, SONAR_EINVAL, endpoint,
                      "refused: without security.key only loopback and ipc are open");
}

sonar_code sonar_guard_connect(const sonar_guard *guard, const char *server_key, void *socket,
                               const char *endpoint, sonar_error *err) {
    if (!guard)
        return sonar_endpoint_connect(socket, endpoint, err);
    if (guard->own && sonar_endpoint_is_tcp(endpoint))
        return sonar_curve_connect(guard->own, server_key, socket, endpoint, err);
    if (sonar_endpoint_is_tcp(endpoint) && !sonar_endpoint_is_loopback(endpoint))
        return sonar_fail(err, SONAR_EINVAL, endpoint,
                          "refused: without security.key only loopback and ipc are open");
    return sonar_endpoint_connect(socket, endpoint, err);
}

sonar_code sonar_curve_connect(const sonar_certificate *own, const char *server_key, void *socket,
                               const char *endpoint, sonar_error *err) {
    return attach_with(want_curve(own, server_key, socket), sonar_endpoint_connect, socket,
                       endpoint, err);
}
