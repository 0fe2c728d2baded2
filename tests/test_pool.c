/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The worker pool: every task runs once, scratch slots are not shared, no task runs after the
 * return. */
#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
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
        uint64_t all = 0;
        for (int trial = 0; trial < 2000; trial++) {
            job *j = &jobs[trial % 2];
            const size_t tasks = (size_t)trial % (TASKS_MOST + 1);
            memset(j, 0, sizeof *j);
            sonar_pool_parallel(pool, tasks, task, j);
            atomic_store(&j->over, true);
            for (size_t i = 0; i < TASKS_MOST; i++)
                cr_assert_eq(atomic_load(&j->done[i]), i < tasks, "task %zu of %zu", i, tasks);
            cr_assert(!atomic_load(&jobs[0].wrong) && !atomic_load(&jobs[1].wrong));
            all += tasks;
            cr_assert_eq(sonar_pool_tasks_done(pool), all);
        }
        sonar_pool_destroy(pool);
    }
}

/* ---- leaving early --------------------------------------------------------------------------- */

enum { ENOUGH = 10, MANY = 1000000 };

struct early {
    sonar_pool *pool;
    atomic_int done;
};

static void cancel_after_some(void *arg, size_t index, size_t worker) {
    struct early *early = arg;
    (void)index, (void)worker;
    if (atomic_fetch_add(&early->done, 1) + 1 == ENOUGH)
        sonar_pool_cancel(early->pool);
}

Test(pool, once_cancelled_no_task_begins) {
    for (size_t workers = 1; workers <= WORKERS_MOST; workers++) {
        struct early early = {0};
        cr_assert_eq(sonar_pool_create(workers, NULL, &early.pool, NULL), SONAR_OK);
        cr_expect(!sonar_pool_cancelled(early.pool));
        sonar_pool_parallel(early.pool, MANY, cancel_after_some, &early);
        int done = atomic_load(&early.done); /* tasks that had begun, one a worker, are finished */
        cr_expect(done >= ENOUGH && done < ENOUGH + (int)workers, "%d", done);
        cr_expect(sonar_pool_cancelled(early.pool));
        sonar_pool_parallel(early.pool, MANY, cancel_after_some, &early);
        cr_expect_eq(atomic_load(&early.done), done);
        sonar_pool_destroy(early.pool);
    }
}

/* ---- denormals ------------------------------------------------------------------------------- */

struct arithmetic {
    atomic_int seen[WORKERS_MOST], kept, nan_lost;
    atomic_int waiting;
    int workers;
};

/* Waits for each worker, so that all are checked. */
static void calculate(void *arg, size_t index, size_t worker) {
    struct arithmetic *a = arg;
    volatile float least = FLT_MIN, denormal = FLT_TRUE_MIN * 1000, inf = INFINITY;
    (void)index;
    atomic_fetch_add(&a->seen[worker], 1);
    atomic_fetch_add(&a->kept, least / 2 != 0 || denormal * 1e30f != 0);
    atomic_fetch_add(&a->nan_lost, !isnan(inf - inf) || !isinf(inf * 2) || isfinite(inf));
    atomic_fetch_add(&a->waiting, 1);
    while (atomic_load(&a->waiting) < a->workers)
        continue;
}

Test(pool, denormals_are_zeros_in_every_worker_and_nowhere_else) {
    volatile float least = FLT_MIN;
    for (int workers = 1; workers <= WORKERS_MOST; workers++) {
        struct arithmetic a = {.workers = workers};
        sonar_pool *pool;
        cr_assert_eq(sonar_pool_create((size_t)workers, NULL, &pool, NULL), SONAR_OK);
        sonar_pool_parallel(pool, (size_t)workers, calculate, &a);
        for (int i = 0; i < workers; i++)
            cr_expect_eq(atomic_load(&a.seen[i]), 1, "worker %d of %d", i, workers);
        cr_expect_eq(atomic_load(&a.kept), 0, "%d workers", workers);
        cr_expect_eq(atomic_load(&a.nan_lost), 0, "%d workers", workers);
        cr_expect(least / 2 != 0, "the caller's mode has changed");
        sonar_pool_destroy(pool);
    }
}
