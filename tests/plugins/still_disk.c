/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A bad disk, for a program under test (LD_PRELOAD). Files beside the folder STILL_DISK switch its
 * behaviour while the program runs. While STILL_DISK.held exists, all operations on the folder's
 * files wait. While STILL_DISK.slow exists, each write takes 50 ms. While STILL_DISK.readonly
 * exists, writes fail. */
#include <dlfcn.h>
#include <errno.h>
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

static bool is_there(const char *ending) {
    char path[512];
    snprintf(path, sizeof path, "%s.%s", getenv("STILL_DISK"), ending);
    return access(path, F_OK) == 0;
}

static void wait_for(int fd) {
    while (is_of_the_disk(fd) && is_there("held"))
        usleep(2000);
}

/* Waits, and returns whether the file may be written. */
static bool may_write(int fd) {
    enum { SLOW_US = 50000 };
    if (!is_of_the_disk(fd))
        return true;
    wait_for(fd);
    if (is_there("slow"))
        usleep(SLOW_US);
    errno = EROFS;
    return !is_there("readonly");
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t count) {
    return may_write(fd) ? REAL(write)(fd, bytes, count) : -1;
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
    return may_write(fd) ? REAL(ftruncate)(fd, bytes) : -1;
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
    if (flags & O_CREAT && !may_write(folder))
        return -1;
    return REAL(openat)(folder, name, flags, mode);
}

int renameat(int from, const char *old, int to, const char *fresh) {
    return may_write(to) ? REAL(renameat)(from, old, to, fresh) : -1;
}

int unlinkat(int folder, const char *name, int flags) {
    return may_write(folder) ? REAL(unlinkat)(folder, name, flags) : -1;
}
