/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "zmtp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

enum { GREETING_BYTES = 64, PATIENCE_MS = 1000 };

int zmtp_connect(const char *endpoint) {
    return zmtp_connect_from(endpoint, NULL);
}

static bool bind_to(int fd, const char *address) {
    struct sockaddr_in own = {.sin_family = AF_INET};
    return inet_pton(AF_INET, address, &own.sin_addr) == 1 &&
           bind(fd, (struct sockaddr *)&own, sizeof own) == 0;
}

int zmtp_connect_from(const char *endpoint, const char *from) {
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    char address[INET_ADDRSTRLEN];
    unsigned short port;
    bool ipc = !strncmp(endpoint, "ipc://", 6);
    if (ipc)
        snprintf(local.sun_path, sizeof local.sun_path, "%s", endpoint + 6);
    else if (sscanf(endpoint, "tcp://%15[0-9.]:%hu", address, &port) != 2 ||
             inet_pton(AF_INET, address, &v4.sin_addr) != 1)
        return -1;
    else
        v4.sin_port = htons(port);
    int fd = socket(ipc ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 1}; /* a full backlog must not block the test */
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    int failed = fd < 0 || (!ipc && from && !bind_to(fd, from)) ||
                 (ipc ? connect(fd, (struct sockaddr *)&local, sizeof local)
                      : connect(fd, (struct sockaddr *)&v4, sizeof v4));
    if (!failed && fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool zmtp_bytes(int fd, const void *data, size_t bytes, int timeout_ms) {
    const uint8_t *at = data;
    while (bytes) {
        ssize_t sent = send(fd, at, bytes, MSG_NOSIGNAL);
        if (sent > 0) {
            at += sent;
            bytes -= (size_t)sent;
            continue;
        }
        struct pollfd wait = {.fd = fd, .events = POLLOUT};
        if (errno != EAGAIN || poll(&wait, 1, timeout_ms) != 1)
            return false;
    }
    return true;
}

static bool read_bytes(int fd, uint8_t *to, size_t bytes) {
    while (bytes) {
        ssize_t got = recv(fd, to, bytes, 0);
        if (got > 0) {
            to += got;
            bytes -= (size_t)got;
            continue;
        }
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (got == 0 || errno != EAGAIN || poll(&wait, 1, PATIENCE_MS) != 1)
            return false;
    }
    return true;
}

bool zmtp_introduce(int fd, const char *type) {
    uint8_t text[GREETING_BYTES + 64] = {0xff, [8] = 1, [9] = 0x7f, [10] = 3};
    size_t length = strlen(type), used = GREETING_BYTES;
    memcpy(text + 12, "NULL", 4);
    text[used++] = 4; /* a short command */
    text[used++] = (uint8_t)(6 + 1 + 11 + 4 + length);
    used += (size_t)sprintf((char *)text + used, "%cREADY%cSocket-Type", 5, 11);
    memcpy(text + used, (uint8_t[]){0, 0, 0, (uint8_t)length}, 4);
    memcpy(text + used + 4, type, length);
    return zmtp_bytes(fd, text, used + 4 + length, PATIENCE_MS);
}

bool zmtp_handshake(int fd, const char *type) {
    uint8_t answer[256];
    return zmtp_introduce(fd, type) && read_bytes(fd, answer, GREETING_BYTES) &&
           read_bytes(fd, answer, 2) && answer[0] == 4 && read_bytes(fd, answer + 2, answer[1]);
}

bool zmtp_greet(int fd, const char *mechanism) {
    uint8_t greeting[GREETING_BYTES] = {0xff, [8] = 1, [9] = 0x7f, [10] = 3};
    memcpy(greeting + 12, mechanism, strlen(mechanism));
    return zmtp_bytes(fd, greeting, sizeof greeting, PATIENCE_MS) &&
           read_bytes(fd, greeting, GREETING_BYTES);
}

/* rfc.zeromq.org/spec/26: a signature box of 64 zeros from the client's short-term key. */
bool zmtp_curve_hello(int fd, const char *server_key) {
    enum { HELLO_BYTES = 200, WELCOME_BYTES = 168 };
    static const uint8_t zeros[64];
    uint8_t server[32], secret[32], nonce[24], welcome[2 + WELCOME_BYTES];
    uint8_t hello[2 + HELLO_BYTES] = {4, HELLO_BYTES, 5, 'H', 'E', 'L', 'L', 'O', 1, 0};
    zmq_z85_decode(server, server_key);
    crypto_box_keypair(hello + 2 + 80, secret);
    memcpy(nonce, "CurveZMQHELLO---", 16);
    memset(nonce + 16, 0, 8);
    return !crypto_box_easy(hello + 2 + 120, zeros, sizeof zeros, nonce, server, secret) &&
           zmtp_bytes(fd, hello, sizeof hello, PATIENCE_MS) &&
           read_bytes(fd, welcome, sizeof welcome) && !memcmp(welcome + 2, "\7WELCOME", 8);
}

bool zmtp_part(int fd, int byte, size_t bytes, bool more, int timeout_ms) {
    uint8_t head[9] = {(uint8_t)(2 | more)};
    static uint8_t body[1 << 16];
    memset(body, byte, bytes < sizeof body ? bytes : sizeof body);
    for (int i = 0; i < 8; i++)
        head[1 + i] = (uint8_t)((uint64_t)bytes >> (56 - 8 * i));
    bool good = zmtp_bytes(fd, head, sizeof head, timeout_ms);
    while (good && bytes) {
        size_t now = bytes < sizeof body ? bytes : sizeof body;
        good = zmtp_bytes(fd, body, now, timeout_ms);
        bytes -= now;
    }
    return good;
}

bool zmtp_is_over(int fd) {
    uint8_t bin[4096];
    for (;;) {
        ssize_t got = recv(fd, bin, sizeof bin, MSG_DONTWAIT);
        if (got <= 0)
            return got == 0 || (errno != EAGAIN && errno != EINTR);
    }
}

void zmtp_reset(int fd) {
    struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}
