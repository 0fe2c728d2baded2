/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files in the state directory. They affect what the daemon does, and other users may be able to
 * write there, so a file is refused unless it clearly belongs to this user or to root. */
#include "core/core.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The reason not to read the open file; NULL: it can be read. */
static const char *distrust(const struct stat *file, size_t most) {
    if (!S_ISREG(file->st_mode))
        return "it is no regular file";
    if (file->st_uid != geteuid() && file->st_uid != 0)
        return "it belongs to another user";
    return (uintmax_t)file->st_size > most ? "it is too long" : NULL;
}

/* Reads a file of `size` bytes, and tries to read one byte more to detect that it has grown. */
static sonar_code read_all(int fd, const char *path, size_t size, char **text, size_t *bytes,
                           sonar_error *err) {
    size_t count = 0;
    ssize_t got = 1;
    char *all = malloc(size + 1);
    if (!all)
        return sonar_fail(err, SONAR_ENOMEM, path, "no memory to read it");
    while (got > 0 && count <= size) {
        got = read(fd, all + count, size + 1 - count);
        count += got > 0 ? (size_t)got : 0;
    }
    if (got < 0 || count > size) {
        free(all);
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot be read: %s",
                          got < 0 ? strerror(errno) : "it is being written");
    }
    all[count] = 0;
    *text = all;
    *bytes = count;
    return SONAR_OK;
}

sonar_code sonar_state_read(const char *path, size_t most, char **text, size_t *bytes,
                            sonar_error *err) {
    struct stat file;
    *text = NULL;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
    if (fd < 0 && errno == ELOOP)
        return sonar_fail(err, SONAR_EINVAL, path, "is not read: it is a link");
    if (fd < 0)
        return sonar_fail(err, SONAR_EUNAVAILABLE, path, "cannot be read: %s", strerror(errno));
    const char *why = fstat(fd, &file) ? strerror(errno) : distrust(&file, most);
    sonar_code code = why ? sonar_fail(err, SONAR_EINVAL, path, "is not read: %s", why)
                          : read_all(fd, path, (size_t)file.st_size, text, bytes, err);
    close(fd);
    return code;
}

static bool write_all(int fd, const char *text, size_t bytes) {
    while (bytes > 0) {
        ssize_t put = write(fd, text, bytes);
        if (put < 0 && errno != EINTR)
            return false;
        text += put > 0 ? put : 0;
        bytes -= put > 0 ? (size_t)put : 0;
    }
    return true;
}

static sonar_code replace(const char *path, const char *text, size_t bytes, bool wait,
                          sonar_error *err) {
    char fresh[PATH_MAX];
    int length = snprintf(fresh, sizeof fresh, "%s.XXXXXX", path);
    if (length < 0 || (size_t)length >= sizeof fresh)
        return sonar_fail(err, SONAR_ESYS, "state_dir", "the path of a file in it is too long");
    int fd = mkstemp(fresh);
    if (fd < 0)
        return sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s", strerror(errno));
    /* 0644: the service's user must be able to read what root trained */
    bool good = write_all(fd, text, bytes) && !fchmod(fd, 0644) && (!wait || !fsync(fd));
    int why = good ? 0 : errno;
    if (close(fd) && good)
        why = errno;
    if (!why && rename(fresh, path))
        why = errno;
    if (!why)
        return SONAR_OK;
    unlink(fresh);
    return sonar_fail(err, SONAR_ESYS, path, "cannot be written: %s", strerror(why));
}

sonar_code sonar_state_write(const char *path, const char *text, size_t bytes, sonar_error *err) {
    return replace(path, text, bytes, true, err);
}

sonar_code sonar_state_write_soon(const char *path, const char *text, size_t bytes,
                                  sonar_error *err) {
    return replace(path, text, bytes, false, err);
}
