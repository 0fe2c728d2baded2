/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ends the connections that keep a thread inside libzmq. libzmq (4.3.4, xpub_t::xread_activated)
 * reads requests while it finds one, so a peer that sends them faster than they are read keeps the
 * thread from ending that peer's connection. */
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/core.h"
#include "net/net.h"

/* libzmq reads 8 KiB at a time, and then no more until its thread has taken them. A newcomer's
 * greeting and first subscriptions are shorter than this, and wait where libzmq's I/O thread has no
 * processor. */
enum { UNREAD_MOST = 512, DISCARDED_MOST = 16 << 20 };

static bool floods(int fd, const char *endpoint) {
    int unread = 0;
    return sonar_connection_is_at(fd, endpoint, false) && ioctl(fd, FIONREAD, &unread) == 0 &&
           unread > UNREAD_MOST;
}

/* libzmq would still take what the kernel holds after the end, which may be megabytes. */
static void discard(int fd) {
    char unread[4096];
    ssize_t bytes;
    for (size_t i = 0; i < DISCARDED_MOST / sizeof unread; i++)
        if ((bytes = recv(fd, unread, sizeof unread, MSG_DONTWAIT)) <= 0)
            return;
}

static void end(sonar_gate *gate, int fd, char owner[SONAR_OWNER_BYTES]) {
    shutdown(fd, SHUT_RDWR);
    discard(fd);
    if (sonar_owner_of_connection(fd, owner))
        sonar_gate_pay(gate, owner, true, sonar_monotonic_ns());
}

size_t sonar_flood_end(sonar_gate *gate, const char *endpoint, char owner[SONAR_OWNER_BYTES]) {
    enum { LISTED_MOST = 4096 };
    int fd[LISTED_MOST];
    const size_t connections = sonar_connections_list(fd, LISTED_MOST);
    size_t ended = 0;
    snprintf(owner, SONAR_OWNER_BYTES, "unknown");
    for (size_t i = 0; i < connections; i++) {
        const int copy = sonar_connection_copy(fd[i]);
        if (copy >= 0 && floods(copy, endpoint)) {
            end(gate, copy, owner);
            ended++;
        }
        if (copy >= 0)
            close(copy);
    }
    sonar_gate_count_ended(gate, ended);
    return ended;
}
