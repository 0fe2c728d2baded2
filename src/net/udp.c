/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/udp.h"

#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* getaddrinfo takes 99999 for a port, modulo 65536. */
static bool is_port(const char *text) {
    const size_t digits = strspn(text, "0123456789");
    const long port = digits && digits <= 5 && !text[digits] ? strtol(text, NULL, 10) : 0;
    return port >= 1 && port <= 65535;
}

/* ADDRESS:PORT or [ADDRESS]:PORT at its last colon; false: one of them is not there. */
static bool split(const char *text, char host[64], const char **port) {
    const char *colon = strrchr(text, ':');
    const size_t bracket = *text == '[';
    if (!colon || (bracket && colon[-1] != ']'))
        return false;
    const size_t length = (size_t)(colon - text), most = 63 + 2 * bracket;
    if (length <= 2 * bracket || length > most)
        return false;
    memcpy(host, text + bracket, length - 2 * bracket);
    host[length - 2 * bracket] = '\0';
    *port = colon + 1;
    return true;
}

bool sonar_udp_read(const char *text, struct sockaddr_storage *address, socklen_t *bytes) {
    static const char scheme[] = "udp://";
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM,
                                   .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE};
    struct addrinfo *found = NULL;
    const char *port;
    char host[64];
    if (strncmp(text, scheme, strlen(scheme)) != 0 || !split(text + strlen(scheme), host, &port) ||
        !is_port(port) || getaddrinfo(host, port, &hints, &found) != 0)
        return false;
    memcpy(address, found->ai_addr, found->ai_addrlen);
    *bytes = found->ai_addrlen;
    freeaddrinfo(found);
    return true;
}

/* 0 for an address of no group. */
static int join(int fd, const struct sockaddr *address) {
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
        const struct ipv6_mreq group = {.ipv6mr_multiaddr = v6->sin6_addr,
                                        .ipv6mr_interface = v6->sin6_scope_id};
        return IN6_IS_ADDR_MULTICAST(&v6->sin6_addr)
                   ? setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof group)
                   : 0;
    }
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
    const struct ip_mreq group = {.imr_multiaddr = v4->sin_addr};
    return IN_MULTICAST(ntohl(v4->sin_addr.s_addr))
               ? setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &group, sizeof group)
               : 0;
}

int sonar_udp_bind(int fd, const struct sockaddr *address, socklen_t bytes) {
    const int on = 1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) || bind(fd, address, bytes))
        return -1;
    return join(fd, address);
}
