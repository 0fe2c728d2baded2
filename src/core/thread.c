/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>

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

sonar_code sonar_thread_start(const sonar_host *host, const char *name, int cpu,
                              void *(*run)(void *), void *arg, pthread_t *thread,
                              sonar_error *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return sonar_fail(err, SONAR_ESYS, name, "cannot start this thread: %s", strerror(failed));
    pthread_setname_np(*thread, name);
    pin(host, *thread, name, cpu);
    return SONAR_OK;
}
