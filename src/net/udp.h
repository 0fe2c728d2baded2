/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SONAR_UDP_H
#define SONAR_UDP_H

#include <stdbool.h>
#include <sys/socket.h>

/* Reads "udp://0.0.0.0:10110" or "udp://[::]:10110": a numeric address to listen at and a port from
 * 1 to 65535. False if it is anything else. Asks no name server. Any thread. */
bool sonar_udp_read(const char *text, struct sockaddr_storage *address, socklen_t *bytes);

/* Binds a datagram socket to the address, which other sockets may use as well. If it is a multicast
 * group the socket joins it: on the interface of an IPv6 scope ("[ff15::5%eth1]"), otherwise on the
 * one that the group is routed to. 0, or -1 with errno. Any thread. */
int sonar_udp_bind(int fd, const struct sockaddr *address, socklen_t bytes);

#endif
