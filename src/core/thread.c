/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char thread_limits[] = "RLIMIT_AS or RLIMIT_NPROC; LimitAS=, LimitNPROC= or TasksMax= "
                                    "of systemd";

static void pin(const sonar_host *host, pthread_t thread, const char *name, int cpu) {
    cpu_set_t set;
    if (cpu < 0)
        return;
    CPU_ZERO(&set);
    if (cpu < CPU_SETSIZE)
        CPU_SET(cpu, &set);
    int failed = pthread_setaffinity_np(thread, sizeof set, &set);
    if (failed && host)
        sonar_log(host, SONAR_WARN, name, "cannot run on processor %d, runs on any: %s", cpu,
                  strerror(failed));
}

static void *wait_for_lock(void *lock) {
    pthread_mutex_lock(lock);
    pthread_mutex_unlock(lock);
    return NULL;
}

sonar_code sonar_threads_reserve(size_t count, size_t bytes, sonar_error *err) {
    enum { MOST = 128 };
    void *beside = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_t thread[MOST];
    size_t started = 0;
    int failed = beside == MAP_FAILED ? errno : 0;
    count = sonar_min_size(count, MOST);
    pthread_mutex_lock(&lock);
    while (started < count && !failed) {
        failed = pthread_create(&thread[started], NULL, wait_for_lock, &lock);
        started += !failed;
    }
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < started; i++)
        pthread_join(thread[i], NULL);
    if (beside != MAP_FAILED)
        munmap(beside, bytes);
    if (!failed)
        return SONAR_OK;
    return sonar_fail(
        err, SONAR_ESYS, "threads",
        "%zu threads and %zu MiB beside them are needed, but only %zu threads can be started:  "
        "%s (%s)",
        count, bytes >> 20, started, strerror(failed), thread_limits);
}

sonar_code sonar_thread_start(const sonar_host *host, const char *name, int cpu,
                              void *(*run)(void *), void *arg, pthread_t *thread,
                              sonar_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return sonar_fail(err, SONAR_ESYS, name, "cannot start this thread: %s (%s)",
                          strerror(failed), thread_limits);
    pthread_setname_np(*thread, name);
    pin(host, *thread, name, cpu);
    return SONAR_OK;
}

/* In steps, because pthread_timedjoin_np waits by UTC, which may be set meanwhile, and the thread
 * sanitizer does not support pthread_clockjoin_np. */
bool sonar_thread_join(pthread_t thread, int timeout_ms) {
    const struct timespec step = {.tv_nsec = 1000000};
    const int64_t until_ns = sonar_monotonic_ns() + (int64_t)timeout_ms * 1000000;
    while (pthread_tryjoin_np(thread, NULL) != 0) {
        if (sonar_monotonic_ns() >= until_ns)
            return false;
        nanosleep(&step, NULL);
    }
    return true;
}

size_t sonar_processors_online(void) {
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors > 0 ? (size_t)processors : 1;
}

size_t sonar_processors(void) {
    cpu_set_t own;
    return sched_getaffinity(0, sizeof own, &own) ? sonar_processors_online()
                                                  : (size_t)CPU_COUNT(&own);
}
