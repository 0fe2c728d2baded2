/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The worker pool: every task once, slots of scratch not shared, nothing after the return. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>

#include "core/core.h"

enum { TASKS_MOST = 40, WORKERS_MOST = 5 };

typedef struct job {
    atomic_int done[TASKS_MOST], inside[WORKERS_MOST];
    atomic_bool over, wrong;
} job;

static void task(void *arg, size_t index, size_t worker) {
    job *j = arg;
    if (worker >= WORKERS_MOST || atomic_fetch_add(&j->inside[worker], 1) != 0 ||
        atomic_load(&j->over))
        atomic_store(&j->wrong, true);
    atomic_fetch_add(&j->done[index], 1);
    if (worker < WORKERS_MOST)
        atomic_fetch_sub(&j->inside[worker], 1);
}

Test(pool, does_every_task_once_and_none_after_it_returned) {
    static job jobs[2]; /* a helper that is late would touch the one before */
    for (size_t workers = 1; workers <= WORKERS_MOST; workers++) {
        sonar_pool *pool;
        cr_assert_eq(sonar_pool_create(workers, NULL, &pool, NULL), SONAR_OK);
        for (int trial = 0; trial < 2000; trial++) {
            job *j = &jobs[trial % 2];
            const size_t tasks = (size_t)trial % (TASKS_MOST + 1);
            memset(j, 0, sizeof *j);
            sonar_pool_parallel(pool, tasks, task, j);
            atomic_store(&j->over, true);
            for (size_t i = 0; i < TASKS_MOST; i++)
                cr_assert_eq(atomic_load(&j->done[i]), i < tasks, "task %zu of %zu", i, tasks);
            cr_assert(!atomic_load(&jobs[0].wrong) && !atomic_load(&jobs[1].wrong));
        }
        sonar_pool_destroy(pool);
    }
}
