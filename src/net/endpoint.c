/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/net.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

static const char *reason(int code) {
    switch (code) {
    case EADDRINUSE:
        return "in use: another program, perhaps another sonard, listens here";
    case EADDRNOTAVAIL:
    case ENODEV:
        return "this machine has no such address or network interface";
    case EACCES:
        return "no permission to use this endpoint";
    case ENOENT:
        return "the folder of this socket does not exist";
    case EINVAL:
    case EPROTONOSUPPORT:
        return "not an endpoint such as tcp://127.0.0.1:5555 or ipc:///run/sonard/in";
    default:
        return zmq_strerror(code);
    }
}

/* The path of an ipc endpoint in the file system, or NULL. */
static const char *ipc_path(const char *endpoint) {
    static const char scheme[] = "ipc://";
    const char *path = endpoint + sizeof scheme - 1;
    if (strncmp(endpoint, scheme, sizeof scheme - 1) != 0 || path[0] == '@' || path[0] == '*')
        return NULL;
    return path;
}

/* libzmq deletes whatever has the name of an ipc endpoint. What that may not be, or NULL. */
static const char *kind_of_no_socket(const char *path) {
    struct stat about;
    if (lstat(path, &about) != 0 || S_ISSOCK(about.st_mode))
        return NULL;
    return S_ISREG(about.st_mode)   ? "a regular file"
           : S_ISDIR(about.st_mode) ? "a folder"
           : S_ISLNK(about.st_mode) ? "a symbolic link"
                                    : "no socket";
}

/* libzmq takes an ipc path over from whoever listens on it, so it is asked first. */
static bool is_listened_to(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return false;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    /* EAGAIN: somebody listens, with a full backlog; EPROTOTYPE: for packets */
    bool answered = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 ||
                    errno == EAGAIN || errno == EINPROGRESS || errno == EPROTOTYPE;
    close(fd);
    return answered;
}

/* With 127.0.0.1 for localhost; into text[room]. */
static const char *numeric(const char *endpoint, char *text, size_t room) {
    static const char name[] = "tcp://localhost:";
    if (strncmp(endpoint, name, sizeof name - 1) != 0)
        return endpoint;
    snprintf(text, room, "tcp://127.0.0.1:%s", endpoint + sizeof name - 1);
    return text;
}

sonar_code sonar_endpoint_reserve(const char *endpoint, sonar_error *err) {
    const char *path = ipc_path(endpoint), *kind = path ? kind_of_no_socket(path) : NULL;
    if (kind)
        return sonar_fail(err, SONAR_ESYS, endpoint,
                          "cannot listen: %s is %s, and only a socket may be replaced", path, kind);
    if (path && is_listened_to(path))
        return sonar_fail(err, SONAR_ESYS, endpoint, "cannot listen: %s", reason(EADDRINUSE));
    return SONAR_OK;
}

sonar_code sonar_endpoint_bind(void *socket, const char *endpoint, sonar_error *err) {
    char text[32];
    sonar_code code = sonar_endpoint_reserve(endpoint, err);
    if (code)
        return code;
    if (zmq_bind(socket, numeric(endpoint, text, sizeof text)) != 0)
        return sonar_fail(err, SONAR_ESYS, endpoint, "cannot listen: %s", reason(zmq_errno()));
    return SONAR_OK;
}

/* An attempt that the other side's kernel ignores is made again after 3 s instead of up to a minute
 * later. */
sonar_code sonar_endpoint_connect(void *socket, const char *endpoint, sonar_error *err) {
    const int attempt_ms = 3000;
    char text[32];
    if (zmq_setsockopt(socket, ZMQ_CONNECT_TIMEOUT, &attempt_ms, sizeof attempt_ms) != 0 ||
        zmq_connect(socket, numeric(endpoint, text, sizeof text)) != 0)
        return sonar_fail(err, SONAR_ESYS, endpoint, "cannot connect: %s", reason(zmq_errno()));
    return SONAR_OK;
}
