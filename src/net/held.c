/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How a sender ends without the loss of what its receiver has not read yet (net.h). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zmq.h>

#include "core/core.h"
#include "net/net.h"

enum { ENDPOINT_BYTES = 256, STEP_MS = 50 };

/* ---- keeping --------------------------------------------------------------------------------- */

static bool has_peer(int fd) {
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0;
}

/* The descriptors of all connections of this process, into fd[most]. */
static size_t list_connections(int *fd, size_t most) {
    DIR *open = opendir("/proc/self/fd");
    size_t count = 0;
    for (const struct dirent *entry; open && count < most && (entry = readdir(open));)
        if (*entry->d_name != '.' && has_peer(atoi(entry->d_name)))
            fd[count++] = atoi(entry->d_name);
    if (open)
        closedir(open);
    return count;
}

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

/* libzmq's I/O thread may close a descriptor at any time: a copy is looked at, not what was listed.
 */
void sonar_connections_hold(sonar_held *held, void *const *sockets, size_t count, bool bound) {
    int fd[SONAR_HELD_MOST];
    const size_t connections = list_connections(fd, SONAR_HELD_MOST);
    held->count = 0;
    for (size_t i = 0; i < connections; i++) {
        const int copy = fcntl(fd[i], F_DUPFD_CLOEXEC, 0);
        if (copy >= 0 && has_peer(copy) && belongs_to(copy, sockets, count, bound))
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
