/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/rights.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static rlim_t limit_on(int resource) {
    struct rlimit limit = {0};
    getrlimit(resource, &limit);
    return limit.rlim_cur;
}

/* ---- priority -------------------------------------------------------------------------------- */

static void explain_priority(int priority, int refused, char why[SONAR_RIGHT_TEXT]) {
    const rlim_t limit = limit_on(RLIMIT_RTPRIO);
    if (refused == EPERM && limit < (rlim_t)priority)
        snprintf(why, SONAR_RIGHT_TEXT,
                 "the data thread has no priority %d: RLIMIT_RTPRIO is %llu; LimitRTPRIO=%d of a "
                 "unit, ulimit -r %d or --ulimit rtprio=%d of a container raises it",
                 priority, (unsigned long long)limit, priority, priority, priority);
    else
        snprintf(why, SONAR_RIGHT_TEXT,
                 "the data thread has no priority %d, which RLIMIT_RTPRIO allows: %s, by a "
                 "container's rules or cpu.rt_runtime_us of its control group",
                 priority, strerror(refused));
}

bool sonar_priority_take(pthread_t thread, int priority, char why[SONAR_RIGHT_TEXT]) {
    const struct sched_param wanted = {.sched_priority = priority};
    const int refused = pthread_setschedparam(thread, SCHED_FIFO | SCHED_RESET_ON_FORK, &wanted);
    why[0] = '\0';
    if (refused)
        explain_priority(priority, refused, why);
    return !refused;
}

int sonar_priority_of(pthread_t thread) {
    struct sched_param has = {0};
    int policy = SCHED_OTHER;
    return pthread_getschedparam(thread, &policy, &has) ? 0 : has.sched_priority;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* The value, in bytes, of a row of /proc/self/status, such as "VmLck:". */
static size_t status_bytes(const char *row) {
    char line[128];
    size_t kib = 0, length = strlen(row);
    FILE *file = fopen("/proc/self/status", "re");
    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, row, length) && sscanf(line + length, "%zu", &kib) == 1)
            break;
    if (file)
        fclose(file);
    return kib << 10;
}

size_t sonar_locked_bytes(void) {
    return status_bytes("VmLck:");
}

/* True if locking beyond the limit is refused. Tried with memory that is never touched, because in
 * a user namespace a process may have capabilities without effect. */
static bool limit_holds(rlim_t limit) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (limit == RLIM_INFINITY)
        return false;
    const size_t bytes = ((size_t)limit & ~(page - 1)) + 2 * page;
    void *more = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (more == MAP_FAILED)
        return true;
    const bool refused = mlock2(more, bytes, MLOCK_ONFAULT) != 0;
    munmap(more, bytes);
    return refused;
}

static void explain_memory(bool limited, bool locked, int refused, char why[SONAR_RIGHT_TEXT]) {
    const unsigned long long limit_mib = limit_on(RLIMIT_MEMLOCK) >> 20;
    const size_t mib = status_bytes("VmSize:") >> 20;
    if (!limited)
        snprintf(why, SONAR_RIGHT_TEXT, "memory is not locked, which RLIMIT_MEMLOCK allows: %s",
                 strerror(refused));
    else if (locked)
        snprintf(why, SONAR_RIGHT_TEXT,
                 "memory since the start is not locked: RLIMIT_MEMLOCK is %llu MiB; "
                 "LimitMEMLOCK=infinity of a unit or --ulimit memlock=-1 lifts it",
                 limit_mib);
    else
        snprintf(why, SONAR_RIGHT_TEXT,
                 "memory is not locked: RLIMIT_MEMLOCK is %llu MiB of %zu; LimitMEMLOCK=infinity "
                 "of a unit or --ulimit memlock=-1 of a container lifts it",
                 limit_mib, mib);
}

bool sonar_memory_lock(char why[SONAR_RIGHT_TEXT]) {
    const bool limited = limit_holds(limit_on(RLIMIT_MEMLOCK));
    const bool locked = !mlockall(limited ? MCL_CURRENT : MCL_CURRENT | MCL_FUTURE);
    const int refused = errno;
    why[0] = '\0';
    if (limited || !locked)
        explain_memory(limited, locked, refused, why);
    return locked && !limited;
}
