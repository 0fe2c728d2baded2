/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "wire.h"

#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"

enum { WAIT_MS = 200, FIRST_MS = 250, DOUBLINGS = 6, WIRES_MOST = 64 };

bool wire_name(wire *l, tally *tally, const char *text, size_t length, const char *port) {
    char all[sizeof l->host + 8];
    if (!length || length >= sizeof all)
        return false;
    snprintf(all, sizeof all, "%.*s", (int)length, text);
    char *end = *all == '[' ? strchr(all, ']') : all, *colon = end ? strrchr(end, ':') : NULL;
    *l = (wire){.tally = tally, .fd = -1};
    snprintf(l->name, sizeof l->name, "%s", all);
    snprintf(l->port, sizeof l->port, "%s", port);
    if (!end || colon == all)
        return false;
    if (colon) {
        if (!colon[1] || strlen(colon + 1) > 5 || colon[1 + strspn(colon + 1, "0123456789")])
            return false;
        snprintf(l->port, sizeof l->port, "%s", colon + 1);
        *colon = '\0';
    }
    if (*all == '[')
        *end = '\0';
    snprintf(l->host, sizeof l->host, "%s", all + (*all == '['));
    return *l->host && strlen(all) < sizeof l->host;
}

/* ---- dialling -------------------------------------------------------------------------------- */

static void put_off(wire *l) {
    const unsigned doublings = l->tries < DOUBLINGS ? l->tries : DOUBLINGS;
    l->dial_ns = sonar_monotonic_ns() + ((int64_t)FIRST_MS << doublings) * 1000000;
    l->tries++;
}

void wire_end(wire *l) {
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    l->bytes = 0;
    l->dialling = l->opened = l->ended = false;
    put_off(l);
}

static void fail(wire *l, const char *why) {
    tally_note(l->tally, TALLY_ENDED, l->name, "%s; it is dialled again", why);
    wire_end(l);
}

/* A peer that is gone without a word is noticed within a minute. */
static void watch(int fd) {
    const int on = 1, idle_s = 30, every_s = 10, times = 3;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
}

/* The addresses of a name take turns. */
static void dial(wire *l) {
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL, *a;
    unsigned count = 0;
    const int failed = getaddrinfo(l->host, l->port, &hints, &list);
    if (failed) {
        fail(l, gai_strerror(failed));
        return;
    }
    for (a = list; a; a = a->ai_next)
        count++;
    a = list;
    for (unsigned turn = l->tries % count; turn; turn--)
        a = a->ai_next;
    l->fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    l->dialling = l->fd >= 0;
    if (l->fd < 0 || (connect(l->fd, a->ai_addr, a->ai_addrlen) && errno != EINPROGRESS))
        fail(l, strerror(errno));
    else
        watch(l->fd);
    freeaddrinfo(list);
}

static void finish_dialling(wire *l) {
    int error = 0;
    socklen_t bytes = sizeof error;
    getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
    l->dialling = false;
    l->opened = !error;
    if (error)
        fail(l, strerror(error));
}

/* ---- reading --------------------------------------------------------------------------------- */

static void receive(wire *l) {
    const ssize_t got = recv(l->fd, l->data + l->bytes, sizeof l->data - l->bytes, 0);
    if (got > 0) {
        l->bytes += (size_t)got;
    } else if (!got || (errno != EAGAIN && errno != EINTR)) {
        l->ended = true;
        l->why = got ? errno : 0;
    }
}

void wire_settle(wire *l) {
    char text[120];
    if (!l->ended)
        return;
    snprintf(text, sizeof text, "%s, %zu bytes into a message",
             l->why ? strerror(l->why) : "the connection has ended", l->bytes);
    fail(l, text);
}

void wire_wait(wire *wires, size_t count) {
    struct pollfd poller[WIRES_MOST];
    int64_t soonest_ms = WAIT_MS;
    count = sonar_min_size(count, WIRES_MOST);
    for (size_t i = 0; i < count; i++) {
        wire *l = &wires[i];
        const int64_t wait_ms = (l->dial_ns - sonar_monotonic_ns()) / 1000000;
        if (l->fd < 0 && wait_ms <= 0)
            dial(l);
        else if (l->fd < 0 && wait_ms < soonest_ms)
            soonest_ms = wait_ms;
        const bool full = l->bytes == sizeof l->data;
        poller[i] = (struct pollfd){.fd = l->ended ? -1 : l->fd,
                                    .events = (short)(l->dialling ? POLLOUT
                                                      : full      ? 0
                                                                  : POLLIN)};
    }
    if (poll(poller, count, (int)soonest_ms) <= 0)
        return;
    for (size_t i = 0; i < count; i++) {
        if (!poller[i].revents)
            continue;
        if (wires[i].dialling)
            finish_dialling(&wires[i]);
        else
            receive(&wires[i]);
    }
}

void wire_take(wire *l, size_t bytes) {
    l->bytes -= bytes;
    memmove(l->data, l->data + bytes, l->bytes);
}

/* The few bytes of a command fit into the socket's buffer. */
bool wire_send(wire *l, const void *data, size_t bytes) {
    if (send(l->fd, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes)
        return true;
    fail(l, strerror(errno));
    return false;
}

void wire_good(wire *l) {
    l->tries = 0;
}

const char *wire_quote(const wire *l, char text[64]) {
    size_t to = 0;
    for (size_t i = 0; i < l->bytes && i < 40 && to < 59; i++)
        to += (size_t)(isprint(l->data[i]) ? snprintf(text + to, 64 - to, "%c", l->data[i])
                                           : snprintf(text + to, 64 - to, "\\x%02x", l->data[i]));
    text[to] = '\0';
    return text;
}
