/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "port.h"

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int any_port(int type) {
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t bytes = sizeof name;
    const int fd = socket(AF_INET, type, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, bytes) ||
        getsockname(fd, (struct sockaddr *)&name, &bytes))
        abort();
    close(fd);
    return ntohs(name.sin_port);
}

/* The kernel may name a port again once it is closed; a test needs another one. */
int free_port(int type) {
    static unsigned char given[UINT16_MAX + 1];
    int port = any_port(type);
    while (given[port])
        port = any_port(type);
    given[port] = 1;
    return port;
}

/* 127.64.0.0 to 127.127.255.255: a process's number has 22 bits. */
const char *own_address(void) {
    static char address[sizeof "127.127.255.255"];
    const unsigned pid = (unsigned)getpid();
    snprintf(address, sizeof address, "127.%u.%u.%u", 64 + (pid >> 16) % 64, pid >> 8 & 255,
             pid & 255);
    return address;
}

/* Below the ports that the kernel gives to sockets without one: at all addresses, this one too. */
void own_endpoint(const char *transport, char endpoint[48]) {
    static int port = 20000;
    snprintf(endpoint, 48, "%s://%s:%d", transport, own_address(), port++);
}
