/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* One job at a time: the caller publishes it under the lock, all threads including the caller take
 * indices from `next` without a lock, and the last helper to leave wakes the caller. A helper that
 * is scheduled only after all indices were taken finds the job closed, so the caller does not wait
 * for it. */
struct sonar_pool {
    size_t workers, started;
    pthread_t *thread;
    struct helper *helper;
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    uint64_t job; /* counts jobs; under lock */
    bool open;    /* the current job still takes helpers; under lock */
    size_t busy;  /* helpers inside the current job; under lock */
    bool stopping;
    size_t tasks;
    void (*task)(void *, size_t, size_t);
    void *arg;
    atomic_size_t next;
    _Atomic uint64_t tasks_done;
    atomic_bool cancelled;
};

struct helper {
    sonar_pool *pool;
    size_t worker;
};

static void count_task(sonar_pool *pool) {
    atomic_fetch_add_explicit(&pool->tasks_done, 1, memory_order_relaxed);
}

static void draw(sonar_pool *pool, size_t worker) {
    while (!sonar_pool_cancelled(pool)) {
        size_t index = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (index >= pool->tasks)
            return;
        pool->task(pool->arg, index, worker);
        count_task(pool);
    }
}

static void *helper_main(void *arg) {
    struct helper *helper = arg;
    sonar_pool *pool = helper->pool;
    uint64_t seen = 0;
    sonar_denormals_flush();
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (pool->job == seen && !pool->stopping)
            pthread_cond_wait(&pool->work, &pool->lock);
        if (pool->stopping)
            break;
        seen = pool->job;
        if (!pool->open)
            continue;
        pool->busy++;
        pthread_mutex_unlock(&pool->lock);
        draw(pool, helper->worker);
        pthread_mutex_lock(&pool->lock);
        if (--pool->busy == 0)
            pthread_cond_signal(&pool->done);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

sonar_code sonar_pool_create(size_t workers, const int *cpus, sonar_pool **out, sonar_error *err) {
    *out = NULL;
    if (workers < 1)
        return sonar_fail(err, SONAR_EINVAL, "pool", "a pool needs at least one worker");
    sonar_pool *pool = sonar_alloc(1, sizeof *pool);
    if (!pool)
        return sonar_fail(err, SONAR_ENOMEM, "pool", "no memory for the worker pool");
    pool->workers = workers;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->work, NULL);
    pthread_cond_init(&pool->done, NULL);
    pool->thread = sonar_alloc(workers, sizeof *pool->thread);
    pool->helper = sonar_alloc(workers, sizeof *pool->helper);
    if (!pool->thread || !pool->helper) {
        sonar_pool_destroy(pool);
        return sonar_fail(err, SONAR_ENOMEM, "pool", "no memory for %zu workers", workers);
    }
    for (size_t i = 1; i < workers; i++) {
        pool->helper[i] = (struct helper){pool, i};
        sonar_code code = sonar_thread_start(NULL, "sonar-worker", cpus ? cpus[i] : -1, helper_main,
                                             &pool->helper[i], &pool->thread[i], err);
        if (code) {
            sonar_pool_destroy(pool);
            return code;
        }
        pool->started = i;
    }
    *out = pool;
    return SONAR_OK;
}

void sonar_pool_destroy(sonar_pool *pool) {
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stopping = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    for (size_t i = 1; i <= pool->started; i++)
        pthread_join(pool->thread[i], NULL);
    pthread_cond_destroy(&pool->work);
    pthread_cond_destroy(&pool->done);
    pthread_mutex_destroy(&pool->lock);
    free(pool->thread);
    free(pool->helper);
    free(pool);
}

size_t sonar_pool_workers(const sonar_pool *pool) {
    return pool->workers;
}

void sonar_pool_cancel(sonar_pool *pool) {
    atomic_store(&pool->cancelled, true);
}

bool sonar_pool_cancelled(const sonar_pool *pool) {
    return atomic_load_explicit(&pool->cancelled, memory_order_relaxed);
}

uint64_t sonar_pool_tasks_done(const sonar_pool *pool) {
    return atomic_load_explicit(&pool->tasks_done, memory_order_relaxed);
}

static void share(sonar_pool *pool, size_t tasks, void (*task)(void *, size_t, size_t), void *arg) {
    pthread_mutex_lock(&pool->lock);
    pool->tasks = tasks;
    pool->task = task;
    pool->arg = arg;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->open = true;
    pool->job++;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->lock);
    draw(pool, 0);
    pthread_mutex_lock(&pool->lock);
    pool->open = false;
    while (pool->busy)
        pthread_cond_wait(&pool->done, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

/* Denormals are zero in every thread of a job, so that the result does not depend on which thread
 * had which index. */
void sonar_pool_parallel(void *ctx, size_t tasks, void (*task)(void *, size_t, size_t), void *arg) {
    sonar_pool *pool = ctx;
    const unsigned before = sonar_denormals_flush();
    if (pool->workers > 1 && tasks > 1)
        share(pool, tasks, task, arg);
    else
        for (size_t i = 0; i < tasks && !sonar_pool_cancelled(pool); i++, count_task(pool))
            task(arg, i, 0);
    sonar_denormals_restore(before);
}

static void serial_parallel(void *ctx, size_t tasks, void (*task)(void *, size_t, size_t),
                            void *arg) {
    (void)ctx;
    for (size_t i = 0; i < tasks; i++)
        task(arg, i, 0);
}

static void silent_log(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level, (void)where, (void)text;
}

const sonar_host *sonar_host_serial(void) {
    static const sonar_host host = {.log = silent_log, .parallel = serial_parallel, .workers = 1};
    return &host;
}
