/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Whose peers made the process grow. The thread that reads a message is the first to touch the
 * memory that is new for it, and the kernel counts that for each thread as a minor fault. */
#include "net/blame.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The order of libzmq's I/O threads is that of the bits of SONAR_IO_*. */
static int side_of(const char *thread) {
    static const char io[] = "ZMQbg/IO/";
    if (!strcmp(thread, "sonar-output"))
        return SONAR_MEMORY_OUT;
    if (strncmp(thread, io, sizeof io - 1) != 0)
        return -1;
    const uint64_t bit = (uint64_t)1 << (atoi(thread + sizeof io - 1) & 63);
    return bit == SONAR_IO_RESULTS   ? SONAR_MEMORY_OUT
           : bit == SONAR_IO_CONTROL ? SONAR_MEMORY_CONTROL
                                     : SONAR_MEMORY_IN;
}

/* Of /proc/self/task/TID/stat: "TID (name) state ppid pgrp session tty tpgid flags minflt". */
static bool read_thread(const char *tid, char name[16], double *faults) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%.16s/stat", tid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    return sscanf(text, "%*d (%15[^)]) %*c %*d %*d %*d %*d %*d %*u %lf", name, faults) == 2;
}

static void read_faults(double faults[SONAR_MEMORY_SIDES]) {
    DIR *tasks = opendir("/proc/self/task");
    char name[16];
    double now;
    memset(faults, 0, SONAR_MEMORY_SIDES * sizeof *faults);
    for (const struct dirent *entry; tasks && (entry = readdir(tasks));) {
        const bool read = *entry->d_name != '.' && read_thread(entry->d_name, name, &now);
        const int side = read ? side_of(name) : -1;
        if (side >= 0)
            faults[side] += now;
    }
    if (tasks)
        closedir(tasks);
}

sonar_memory_side sonar_blame_update(sonar_blame *blame, int64_t now_ns) {
    const int64_t between_ns = 100000000;
    const double kept = 0.9;
    if (now_ns - blame->at_ns >= between_ns) {
        double faults[SONAR_MEMORY_SIDES];
        read_faults(faults);
        for (int i = 0; i < SONAR_MEMORY_SIDES; i++) {
            const double fresh = blame->at_ns ? faults[i] - blame->faults[i] : 0;
            blame->grown[i] = kept * blame->grown[i] + (fresh > 0 ? fresh : 0);
            blame->faults[i] = faults[i];
        }
        blame->at_ns = now_ns;
    }
    int worst = SONAR_MEMORY_IN;
    for (int i = 0; i < SONAR_MEMORY_SIDES; i++)
        worst = blame->grown[i] > blame->grown[worst] ? i : worst;
    return (sonar_memory_side)worst;
}
