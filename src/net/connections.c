/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The connections of this process, whichever socket and thread they belong to. */
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
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
