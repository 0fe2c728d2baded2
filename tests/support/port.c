/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "port.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int free_port(int type) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t bytes = sizeof name;
    const int fd = socket(AF_INET, type, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, bytes) ||
        getsockname(fd, (struct sockaddr *)&name, &bytes))
        abort();
    close(fd);
    return ntohs(name.sin_port);
}
