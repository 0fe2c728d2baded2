/* SPDX-License-Identifier: GPL-3.0-or-later */
/* File descriptors for sockets: libzmq aborts where it finds none. */
#ifndef SONAR_DESCRIPTORS_H
#define SONAR_DESCRIPTORS_H

#include "sonar/sonar.h"

/* Whether `count` (256 at most) file descriptors are still free. Before libzmq makes sockets: it
 * aborts without (epoll.cpp and signaler.cpp of 4.3.4). SONAR_ESYS. */
sonar_code sonar_descriptors_reserve(size_t count, sonar_error *err);
/* For programs that take connections, at their start: raises the process's limit to the most it may
 * have. Over ipc libzmq 4.3.4 aborts where it finds no descriptor for a connection
 * (ipc_listener.cpp), so there have to be more than peers can connect before they are refused. */
void sonar_descriptors_raise(void);

#endif
