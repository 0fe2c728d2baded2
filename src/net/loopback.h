/* SPDX-License-Identifier: GPL-3.0-or-later */
#ifndef SONAR_LOOPBACK_H
#define SONAR_LOOPBACK_H

#include <stdbool.h>
#include <sys/socket.h>

/* Reads "127.0.0.1:9464" or "[::1]:9464", a loopback address and a port (0: the system picks one);
 * false if it is anything else. */
bool sonar_loopback_read(const char *text, struct sockaddr_storage *address);

#endif
