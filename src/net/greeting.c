/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which mechanism a server names. Two libzmqs whose mechanisms differ tell their users, but the
 * server often hangs up before the client has read what it speaks. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"
#include "net/net.h"

/* ZMTP 3.0 (ZeroMQ RFC 23): signature, version, mechanism; a server sends the mechanism when it has
 * read the signature and the major version. */
enum { SIGNATURE = 10, MECHANISM_AT = 12, MECHANISM = 20, PATIENCE_MS = 1000 };

/* "tcp://HOST:PORT", of which HOST may be in brackets; -1: nothing answers there. */
static int connect_to(const char *endpoint) {
    char host[256];
    struct addrinfo *found = NULL;
    const struct addrinfo wants = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    const char *colon = strrchr(endpoint, ':');
    if (!sonar_endpoint_is_tcp(endpoint) || colon < endpoint + 7)
        return -1;
    const bool bracket = endpoint[6] == '[';
    snprintf(host, sizeof host, "%.*s", (int)(colon - endpoint) - 6 - 2 * bracket,
             endpoint + 6 + bracket);
    if (getaddrinfo(host, colon + 1, &wants, &found) || !found)
        return -1;
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) && errno != EINPROGRESS) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

static bool is_ready(int fd, short what, int64_t until_ns) {
    struct pollfd poll_fd = {.fd = fd, .events = what};
    const int64_t left_ms = (until_ns - sonar_monotonic_ns()) / 1000000;
    return left_ms > 0 && poll(&poll_fd, 1, (int)left_ms) == 1;
}

bool sonar_greets_with_curve(const char *endpoint) {
    static const unsigned char hello[SIGNATURE + 1] = {0xff, [9] = 0x7f, [SIGNATURE] = 3};
    static const char curve[MECHANISM] = "CURVE";
    char greeting[MECHANISM_AT + MECHANISM];
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)PATIENCE_MS * 1000000;
    const int fd = connect_to(endpoint);
    size_t got = 0;
    if (fd >= 0 && is_ready(fd, POLLOUT, until_ns) &&
        send(fd, hello, sizeof hello, MSG_NOSIGNAL) == sizeof hello)
        while (got < sizeof greeting && is_ready(fd, POLLIN, until_ns)) {
            const ssize_t bytes = recv(fd, greeting + got, sizeof greeting - got, 0);
            if (bytes <= 0)
                break;
            got += (size_t)bytes;
        }
    if (fd >= 0)
        close(fd);
    return got == sizeof greeting && !memcmp(greeting + MECHANISM_AT, curve, MECHANISM);
}
