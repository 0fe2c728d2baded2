/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How a sender ends without the loss of what its receiver has not read yet (net.h). */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"

enum { ENDPOINT_BYTES = 256, STEP_MS = 50 };

/* ---- keeping --------------------------------------------------------------------------------- */

static bool belongs_to(int fd, void *const *sockets, size_t count, bool bound) {
    for (size_t i = 0; i < count; i++) {
        char endpoint[ENDPOINT_BYTES];
        size_t bytes = sizeof endpoint;
        if (!zmq_getsockopt(sockets[i], ZMQ_LAST_ENDPOINT, endpoint, &bytes) &&
            sonar_connection_is_at(fd, endpoint, !bound))
            return true;
    }
    return false;
}

void sonar_connections_hold(sonar_held *held, void *const *sockets, size_t count, bool bound) {
    int fd[SONAR_HELD_MOST];
    const size_t connections = sonar_connections_list(fd, SONAR_HELD_MOST);
    held->count = 0;
    for (size_t i = 0; i < connections; i++) {
        const int copy = sonar_connection_copy(fd[i]);
        if (copy >= 0 && belongs_to(copy, sockets, count, bound))
            held->connection[held->count++] = (struct pollfd){.fd = copy, .events = POLLIN};
        else if (copy >= 0)
            close(copy);
    }
}

/* ---- leaving --------------------------------------------------------------------------------- */

/* What the receiver still says is of no use any more. */
static bool has_ended(int fd) {
    char said[4096];
    ssize_t bytes;
    do
        bytes = recv(fd, said, sizeof said, MSG_DONTWAIT);
    while (bytes > 0);
    return bytes == 0 || (errno != EAGAIN && errno != EINTR);
}

/* Closes those whose receiver has hung up; how many are left. */
static size_t close_ended(sonar_held *held) {
    size_t left = 0;
    for (size_t i = 0; i < held->count; i++)
        if (!has_ended(held->connection[i].fd))
            held->connection[left++] = held->connection[i];
        else
            close(held->connection[i].fd);
    return held->count = left;
}

bool sonar_connections_release(sonar_held *held, int timeout_ms,
                               const volatile sig_atomic_t *stop) {
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    for (size_t i = 0; i < held->count; i++)
        shutdown(held->connection[i].fd, SHUT_WR);
    while (close_ended(held) && !*stop && (timeout_ms < 0 || sonar_monotonic_ns() < until_ns))
        poll(held->connection, held->count, STEP_MS);
    const bool all = held->count == 0;
    for (size_t i = 0; i < held->count; i++)
        close(held->connection[i].fd);
    held->count = 0;
    return all;
}
