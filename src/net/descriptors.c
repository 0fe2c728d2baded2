/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/descriptors.h"

#include "core/core.h"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* Opens as many, each lowest first, and closes them again. */
sonar_code sonar_descriptors_reserve(size_t count, sonar_error *err) {
    enum { MOST = 256 };
    int fd[MOST];
    size_t opened = 0;
    count = sonar_min_size(count, MOST);
    while (opened < count && (fd[opened] = eventfd(0, EFD_CLOEXEC)) >= 0)
        opened++;
    for (size_t i = 0; i < opened; i++)
        close(fd[i]);
    if (opened == count)
        return SONAR_OK;
    struct rlimit limit = {0};
    getrlimit(RLIMIT_NOFILE, &limit);
    return sonar_fail(err, SONAR_ESYS, "descriptors",
                      "%zu file descriptors are needed to start and %zu are to be had "
                      "(RLIMIT_NOFILE, LimitNOFILE= of systemd: %llu)",
                      count, opened, (unsigned long long)limit.rlim_cur);
}

void sonar_descriptors_raise(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit); /* refused: the limit stays as it is */
}
