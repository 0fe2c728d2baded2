/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A disk that stands still, for a program under test (LD_PRELOAD): whatever a thread does with the
 * files of the folder STILL_DISK waits for as long as there is a file STILL_DISK.held beside it. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static bool is_of_the_disk(int fd) {
    const char *folder = getenv("STILL_DISK");
    char link[64], path[512];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, path, sizeof path - 1);
    if (!folder || n < 0)
        return false;
    path[n] = '\0';
    return strncmp(path, folder, strlen(folder)) == 0;
}

static void wait_for(int fd) {
    char held[512];
    if (!is_of_the_disk(fd))
        return;
    snprintf(held, sizeof held, "%s.held", getenv("STILL_DISK"));
    while (access(held, F_OK) == 0)
        usleep(2000);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t count) {
    wait_for(fd);
    return REAL(write)(fd, bytes, count);
}

int fsync(int fd) {
    wait_for(fd);
    return REAL(fsync)(fd);
}

int fdatasync(int fd) {
    wait_for(fd);
    return REAL(fdatasync)(fd);
}

int ftruncate(int fd, off_t bytes) {
    wait_for(fd);
    return REAL(ftruncate)(fd, bytes);
}

int fstatvfs(int fd, struct statvfs *to) {
    wait_for(fd);
    return REAL(fstatvfs)(fd, to);
}

int openat(int folder, const char *name, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    wait_for(folder);
    return REAL(openat)(folder, name, flags, mode);
}

int renameat(int from, const char *old, int to, const char *fresh) {
    wait_for(to);
    return REAL(renameat)(from, old, to, fresh);
}

int unlinkat(int folder, const char *name, int flags) {
    wait_for(folder);
    return REAL(unlinkat)(folder, name, flags);
}
