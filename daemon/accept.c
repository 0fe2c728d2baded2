/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * accept4 of this program, which replaces the C library's for libzmq. libzmq's listener on ipc
 * endpoints (4.3.4 and 4.3.5, ipc_listener.cpp) treats EMFILE as a programming error and aborts, so
 * any peer that may connect could end the daemon by opening connections. It tolerates ECONNABORTED.
 *
 * Descriptors are assigned lowest first, so one near the limit shows that nearly all are in use. It
 * is closed before libzmq has allocated anything for the connection, and the last descriptors
 * remain for the daemon's own files.
 */
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { OWN_DESCRIPTORS = 32 };

static int refuse(void) {
    errno = ECONNABORTED;
    return -1;
}

int accept4(int listener, struct sockaddr *address, socklen_t *bytes, int flags) {
    struct rlimit limit;
    const int fd = (int)syscall(SYS_accept4, listener, address, bytes, flags);
    if (fd < 0)
        return errno == EMFILE ? refuse() : fd;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || (rlim_t)fd + OWN_DESCRIPTORS < limit.rlim_cur)
        return fd;
    close(fd);
    return refuse();
}
