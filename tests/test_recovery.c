/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A backend that fails in mid-stream, played by the CPU's own stages behind a fake device space:
 * every fallible call in turn fails once, or from then on for good. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "feed.h"

enum { WINDOWS = 5, MOST_CALLS = 2000 };

static struct { long calls, fail_at, fail_until, buffers, stages, queues, events; } fake;

static bool fails(sonar_error *err) {
    long call = ++fake.calls;
    if (call < fake.fail_at || call > fake.fail_until)
        return false;
    sonar_fail(err, SONAR_ESYS, "fake", "call %ld fails", call);
    return true;
}

static const sonar_backend *real(void) {
    return sonar_backend_cpu();
}

/* ---- the backend ----------------------------------------------------------------------------- */

static sonar_code buffer_create(sonar_space space, sonar_dtype dtype, int rank, const size_t *shape,
                                sonar_buffer *buffer, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    fake.buffers++;
    sonar_code code = real()->buffer_create(space, dtype, rank, shape, buffer, err);
    buffer->space = space;
    return code;
}

static void buffer_destroy(sonar_buffer *buffer) {
    fake.buffers--;
    real()->buffer_destroy(buffer);
}

static sonar_code queue_create(const sonar_host *host, sonar_queue **queue, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    fake.queues++;
    return real()->queue_create(host, queue, err);
}

static void queue_destroy(sonar_queue *queue) {
    fake.queues--;
    real()->queue_destroy(queue);
}

static sonar_code event_create(sonar_event **event, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    fake.events++;
    return real()->event_create(event, err);
}

static void event_destroy(sonar_event *event) {
    fake.events--;
    real()->event_destroy(event);
}

static sonar_code copy(sonar_queue *queue, const sonar_buffer *from, sonar_buffer *to,
                       sonar_error *err) {
    return fails(err) ? SONAR_ESYS : real()->copy(queue, from, to, err);
}

static sonar_code record(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    return fails(err) ? SONAR_ESYS : real()->record(queue, event, err);
}

static sonar_code wait(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    return fails(err) ? SONAR_ESYS : real()->wait(queue, event, err);
}

static sonar_code finish(sonar_event *event, sonar_error *err) {
    return fails(err) ? SONAR_ESYS : real()->finish(event, err);
}

/* ---- its stages ------------------------------------------------------------------------------ */

struct fake_stage {
    const sonar_stage_ops *ops;
    void *self;
};

static sonar_code create(const char *name, const void *spec, const sonar_host *host, void **stage,
                         sonar_error *err) {
    *stage = NULL;
    if (fails(err))
        return SONAR_ESYS;
    struct fake_stage *made = calloc(1, sizeof *made);
    made->ops = real()->stage(name);
    fake.stages++;
    *stage = made;
    return made->ops->create(spec, host, &made->self, err);
}

static sonar_code create_dft(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    return create("dft", spec, host, stage, err);
}

static sonar_code create_cbf(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    return create("cbf", spec, host, stage, err);
}

static sonar_code create_mvdr(const void *spec, const sonar_host *host, void **stage,
                              sonar_error *err) {
    return create("mvdr_jacobi", spec, host, stage, err);
}

static sonar_code execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    struct fake_stage *s = stage;
    return fails(err) ? SONAR_ESYS : s->ops->execute(s->self, queue, in, out, work, err);
}

static sonar_code evaluate(void *stage, sonar_queue *queue, const sonar_buffer *turns,
                           sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    struct fake_stage *s = stage;
    return fails(err) ? SONAR_ESYS : s->ops->evaluate(s->self, queue, turns, power, work, err);
}

static void reset(void *stage) {
    struct fake_stage *s = stage;
    s->ops->reset(s->self);
}

static void destroy(void *stage) {
    struct fake_stage *s = stage;
    if (!s)
        return;
    fake.stages--;
    s->ops->destroy(s->self);
    free(s);
}

static const sonar_stage_ops *stage(const char *name) {
    static const sonar_stage_ops stages[] = {
        {"dft", create_dft, execute, NULL, NULL, destroy},
        {"cbf", create_cbf, execute, evaluate, NULL, destroy},
        {"mvdr_jacobi", create_mvdr, execute, evaluate, reset, destroy}};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (!strcmp(stages[i].name, name))
            return &stages[i];
    return NULL;
}

static const sonar_backend *fake_backend(void) {
    static sonar_backend backend;
    backend = *real();
    backend.name = "fake";
    backend.native_space = SONAR_DEVICE;
    backend.buffer_create = buffer_create;
    backend.buffer_destroy = buffer_destroy;
    backend.queue_create = queue_create;
    backend.queue_destroy = queue_destroy;
    backend.copy = copy;
    backend.event_create = event_create;
    backend.event_destroy = event_destroy;
    backend.record = record;
    backend.wait = wait;
    backend.finish = finish;
    backend.stage = stage;
    return &backend;
}

/* ---- runs ------------------------------------------------------------------------------------ */

struct ending {
    sonar_code start; /* of creating and starting */
    uint64_t processed, failed;
    char backend[16], text[240];
    bool gave_up;
    sonar_code tick;
};

static struct ending run(const char *runtime, long fail_at, long fail_until) {
    struct ending end = {0};
    sonar_error err = {0};
    feed feed;
    memset(&fake, 0, sizeof fake);
    fake.fail_at = fail_at;
    fake.fail_until = fail_until;
    end.start = feed_open(&feed, runtime, NULL, 0, fake_backend(), &err);
    if (!end.start) {
        cr_assert(feed_windows(&feed, WINDOWS), "stuck with call %ld failing", fail_at);
        end.tick = sonar_pipeline_tick(feed.pipeline, &err);
        end.processed = feed_processed(&feed);
        end.failed = feed_failed(&feed);
        end.gave_up = atomic_load(&feed.pipeline->gave_up);
        /* The windows are counted before what follows from a failure is done. */
        sonar_pipeline_stop(feed.pipeline, 1000);
        snprintf(end.backend, sizeof end.backend, "%s", feed.pipeline->change.backend);
        snprintf(end.text, sizeof end.text, "%s", feed.pipeline->change.text);
    }
    feed_close(&feed);
    cr_expect_eq(fake.buffers, 0, "%ld buffers left, call %ld failing", fake.buffers, fail_at);
    cr_expect_eq(fake.stages, 0, "%ld stages left, call %ld failing", fake.stages, fail_at);
    cr_expect_eq(fake.queues, 0);
    cr_expect_eq(fake.events, 0);
    return end;
}

Test(recovery, without_a_failure_nothing_changes) {
    struct ending end = run("backend: cpu", 0, 0);
    cr_assert_eq(end.start, SONAR_OK);
    cr_assert_eq(end.processed, WINDOWS);
    cr_assert_str_eq(end.backend, "fake");
    cr_assert_str_eq(end.text, "");
}

/* From call `first` on every call of the running state in turn; returns how many there were. */
static long first_running_call(void) {
    long n = 1;
    while (run("backend: cpu", n, n).start)
        n++;
    return n;
}

Test(recovery, any_call_may_fail_once, .timeout = 120) {
    long first = first_running_call(), n = first;
    cr_assert_gt(first, 20, "only %ld calls at start", first - 1);
    for (; n < MOST_CALLS; n += n < first + 60 ? 1 : 7) {
        struct ending end = run("backend: cpu", n, n);
        cr_assert_eq(end.processed + end.failed, WINDOWS);
        if (!end.failed)
            break;
        cr_expect_eq(end.failed, 1, "%d windows lost, call %ld failing", (int)end.failed, n);
        cr_expect_str_eq(end.backend, "fake");
        cr_expect(strstr(end.text, "set up again"), "call %ld: '%s'", n, end.text);
        cr_expect_eq(end.tick, SONAR_OK);
    }
    cr_assert_gt(n, first + 60);
}

Test(recovery, a_lost_device_leaves_the_work_to_the_cpu, .timeout = 120) {
    for (long first = first_running_call(), n = first; n < first + 60; n += 3) {
        struct ending end = run("backend: cpu", n, MOST_CALLS * 10);
        cr_expect_eq(end.processed + end.failed, WINDOWS);
        cr_expect_eq(end.failed, 1);
        cr_expect_str_eq(end.backend, "cpu");
        cr_expect(strstr(end.text, "CPU has taken over"), "call %ld: '%s'", n, end.text);
    }
}

Test(recovery, failing_again_soon_is_one_time_too_many) {
    long first = first_running_call();
    /* fails, is set up again with as many calls as at start at most, fails in the next window */
    memset(&fake, 0, sizeof fake);
    sonar_error err = {0};
    feed feed;
    cr_assert_eq(feed_open(&feed, "backend: cpu", NULL, 0, fake_backend(), &err), SONAR_OK);
    cr_assert(feed_windows(&feed, 1));
    for (int failure = 0; failure < 2; failure++) {
        fake.fail_at = fake.fail_until = fake.calls + 1;
        cr_assert(feed_windows(&feed, 1));
        cr_assert(feed_windows(&feed, 1));
    }
    cr_expect_eq(feed_failed(&feed), 2);
    cr_expect_eq(feed_processed(&feed), 3);
    cr_expect_str_eq(feed.pipeline->change.backend, "cpu");
    cr_assert_gt(first, 1);
    feed_close(&feed);
}

Test(recovery, exit_means_exit) {
    long first = first_running_call();
    struct ending end = run("backend: cpu, on_gpu_failure: exit", first + 3, first + 3);
    cr_assert_eq(end.failed, 1);
    cr_assert_eq(end.processed, 0);
    cr_assert(end.gave_up);
    cr_assert_eq(end.tick, SONAR_EUNAVAILABLE);
    cr_assert(strstr(end.text, "on_gpu_failure is exit"), "'%s'", end.text);
}
