/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *program;

/* Opened in the wrong direction, so that reading 0 or writing 1 and 2 fails as if they were
 * closed. */
static void hold_descriptors(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
            return; /* without /dev nothing else can be done */
}

/* A closed pipe means that its reader has read enough, which is not an error. */
static void check_output(void) {
    errno = 0;
    bool failed = ferror(stdout);
    if ((fflush(stdout) == 0 && !failed) || errno == EPIPE)
        return;
    fprintf(stderr, "%s: cannot write to standard output%s%s\n", program, errno ? ": " : "",
            errno ? strerror(errno) : "");
    _exit(EXIT_FAILURE);
}

void program_begin(const char *name) {
    program = name;
    hold_descriptors();
    atexit(check_output);
}

static volatile sig_atomic_t *stop_flag;

static void on_signal(int number) {
    (void)number;
    *stop_flag = 1;
}

void program_stop_on(int number, volatile sig_atomic_t *stop) {
    const struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART */
    stop_flag = stop;
    sigaction(number, &action, NULL);
}

/* Removes the last component of a path. */
static void go_up(char *path) {
    if (strrchr(path, '/'))
        *strrchr(path, '/') = '\0';
}

bool program_folder(char *dir, size_t bytes) {
    const ssize_t length = readlink("/proc/self/exe", dir, bytes - 1);
    if (length <= 0)
        return false;
    dir[length] = '\0';
    go_up(dir);
    return true;
}

bool program_plugin_dir(char *dir, size_t bytes) {
    char path[PATH_MAX];
    if (!program_folder(path, sizeof path))
        return false;
    go_up(path);
    int needed = snprintf(dir, bytes, "%s/lib/sonard", path);
    if (needed < 0 || (size_t)needed >= bytes)
        return false;
    if (access(dir, X_OK))
        dir[needed - (int)strlen("/sonard")] = '\0';
    return true;
}
