/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The connections of this process, whichever socket and thread they belong to. */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net/net.h"

bool sonar_connection_is_at(int fd, const char *endpoint, bool other_end) {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_un local;
    } name = {0};
    socklen_t bytes = sizeof name - 1;
    const char *colon = strrchr(endpoint, ':');
    if (!colon || (other_end ? getpeername : getsockname)(fd, &name.any, &bytes) != 0)
        return false;
    if (name.any.sa_family == AF_UNIX)
        return !strncmp(endpoint, "ipc://", 6) && !strcmp(name.local.sun_path, endpoint + 6);
    int port = name.any.sa_family == AF_INET    ? ntohs(name.v4.sin_port)
               : name.any.sa_family == AF_INET6 ? ntohs(name.v6.sin6_port)
                                                : -1;
    return port == atoi(colon + 1);
}

static bool has_peer(int fd) {
    struct sockaddr_storage peer;
    socklen_t bytes = sizeof peer;
    return getpeername(fd, (struct sockaddr *)&peer, &bytes) == 0;
}

size_t sonar_connections_list(int *fd, size_t most) {
    DIR *open = opendir("/proc/self/fd");
    size_t count = 0;
    for (const struct dirent *entry; open && count < most && (entry = readdir(open));)
        if (*entry->d_name != '.' && has_peer(atoi(entry->d_name)))
            fd[count++] = atoi(entry->d_name);
    if (open)
        closedir(open);
    return count;
}

int sonar_connection_copy(int fd) {
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0 || has_peer(copy))
        return copy;
    close(copy);
    return -1;
}

/* What has come and was not read goes as well: libzmq would still read it, and of a TCP connection
 * that is only shut down also what goes on coming. */
static void abort_connection(int fd) {
    const struct sockaddr none = {.sa_family = AF_UNSPEC};
    char unread[16384];
    if (connect(fd, &none, sizeof none) == 0) /* a reset; local sockets have none */
        return;
    shutdown(fd, SHUT_RDWR);
    while (recv(fd, unread, sizeof unread, MSG_DONTWAIT) > 0)
        ;
}

static bool has_unread(int fd, int least_bytes) {
    int bytes;
    return ioctl(fd, FIONREAD, &bytes) == 0 && bytes >= least_bytes;
}

size_t sonar_connections_abort_unread(const char *endpoint, int least_bytes) {
    int fd[2 * SONAR_PEERS_MOST];
    const size_t count = sonar_connections_list(fd, sizeof fd / sizeof *fd);
    size_t aborted = 0;
    for (size_t i = 0; i < count; i++) {
        const int copy = sonar_connection_copy(fd[i]);
        if (copy >= 0 && sonar_connection_is_at(copy, endpoint, false) &&
            has_unread(copy, least_bytes)) {
            abort_connection(copy);
            aborted++;
        }
        if (copy >= 0)
            close(copy);
    }
    return aborted;
}
