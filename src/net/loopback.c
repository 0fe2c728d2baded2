/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/loopback.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* Digits only, up to 65535; -1 for anything else. */
static long read_port(const char *text) {
    const size_t length = strspn(text, "0123456789");
    const long port = length && length <= 5 && !text[length] ? strtol(text, NULL, 10) : -1;
    return port <= 65535 ? port : -1;
}

bool sonar_loopback_read(const char *text, struct sockaddr_storage *address) {
    struct sockaddr_in *four = (struct sockaddr_in *)address;
    struct sockaddr_in6 *six = (struct sockaddr_in6 *)address;
    char host[INET_ADDRSTRLEN];
    const char *colon = strrchr(text, ':');
    const long port = colon ? read_port(colon + 1) : -1;
    *address = (struct sockaddr_storage){0};
    if (port < 0)
        return false;
    const size_t length = (size_t)(colon - text);
    if (length == 5 && !strncmp(text, "[::1]", 5)) {
        six->sin6_family = AF_INET6;
        six->sin6_addr = in6addr_loopback;
        six->sin6_port = htons((uint16_t)port);
        return true;
    }
    if (length >= sizeof host)
        return false;
    memcpy(host, text, length);
    host[length] = '\0';
    four->sin_family = AF_INET;
    four->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &four->sin_addr) == 1 &&
           (ntohl(four->sin_addr.s_addr) >> 24) == IN_LOOPBACKNET;
}
