/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Times by the host's clock: batches of executions finished by one event, and single ones. */
#include "bench.h"

#include <stdlib.h>
#include <time.h>

enum { MOST = 100000, BATCH_MOST = 64, SINGLES_MOST = 200 };
static const double batch_ns = 2e6; /* long compared with the cost of waiting for an event */

static int by_time(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static sonar_code run_batch(void *ctx, bench_step step, bench_step settle, size_t batch,
                            int64_t *each_ns, sonar_error *err) {
    sonar_code code = SONAR_OK;
    const int64_t start_ns = sonar_monotonic_ns();
    for (size_t i = 0; i < batch && code == SONAR_OK; i++)
        code = step(ctx, err);
    if (code == SONAR_OK && settle)
        code = settle(ctx, err);
    *each_ns = (sonar_monotonic_ns() - start_ns) / (int64_t)batch;
    return code;
}

/* Processor time of all threads of the process. */
static int64_t processor_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static bool too_long(const bench_effort *effort, double spent_s) {
    return effort->max_time_s > 0 && spent_s >= effort->max_time_s;
}

static bool enough(const bench_effort *effort, size_t n, double spent_s) {
    if (n >= 3 && too_long(effort, spent_s))
        return true;
    return n >= effort->repetitions && spent_s >= effort->min_time_s;
}

/* Fills time_ns, sorted; *count on return. */
static sonar_code collect(void *ctx, bench_step step, bench_step settle, size_t batch,
                          const bench_effort *effort, size_t most, int64_t *time_ns, size_t *count,
                          sonar_error *err) {
    sonar_code code = SONAR_OK;
    double spent_s = 0;
    size_t n = 0;
    while (code == SONAR_OK && n < most && !enough(effort, n, spent_s)) {
        code = run_batch(ctx, step, settle, batch, &time_ns[n], err);
        spent_s += (double)(time_ns[n++] * (int64_t)batch) * 1e-9;
    }
    qsort(time_ns, n, sizeof *time_ns, by_time);
    *count = n;
    return code;
}

static int64_t percentile99(const int64_t *sorted_ns, size_t n) {
    return sorted_ns[(99 * n + 99) / 100 - 1];
}

/* Two executions to touch memory, load code and raise clocks; returns the times of the second. */
static sonar_code warm_up(void *ctx, bench_step step, bench_step settle, int64_t *warm_ns,
                          int64_t *warm_processor_ns, sonar_error *err) {
    sonar_code code = SONAR_OK;
    for (int i = 0; i < 2 && code == SONAR_OK; i++) {
        *warm_processor_ns = -processor_ns();
        code = run_batch(ctx, step, settle, 1, warm_ns, err);
        *warm_processor_ns += processor_ns();
    }
    return code;
}

/* Times of n batches, sorted. */
static void summarise(const int64_t *sorted_ns, size_t n, int64_t processor_ns,
                      bench_times *times) {
    times->processor_ns = processor_ns / (int64_t)(n * times->batch);
    times->repetitions = n;
    times->min_ns = sorted_ns[0];
    times->median_ns = times->single_median_ns = sorted_ns[n / 2];
    times->p99_ns = times->single_p99_ns = percentile99(sorted_ns, n);
}

static sonar_code measure_into(void *ctx, bench_step step, bench_step settle,
                               const bench_effort *effort, bench_times *times, int64_t *time_ns,
                               sonar_error *err) {
    size_t n;
    int64_t warm_ns, warm_processor_ns;
    sonar_code code = warm_up(ctx, step, settle, &warm_ns, &warm_processor_ns, err);
    times->batch = 1;
    if (code)
        return code;
    if (too_long(effort, (double)warm_ns * 1e-9)) { /* the second execution is the measurement */
        summarise(&warm_ns, 1, warm_processor_ns, times);
        return SONAR_OK;
    }
    if (settle && warm_ns > 0)
        times->batch =
            sonar_min_size(sonar_max_size((size_t)(batch_ns / (double)warm_ns), 1), BATCH_MOST);
    const int64_t began_ns = processor_ns();
    code = collect(ctx, step, settle, times->batch, effort, MOST, time_ns, &n, err);
    if (code)
        return code;
    summarise(time_ns, n, processor_ns() - began_ns, times);
    if (times->batch == 1)
        return SONAR_OK;
    code = collect(ctx, step, settle, 1, effort, SINGLES_MOST, time_ns, &n, err);
    times->single_median_ns = time_ns[n / 2];
    times->single_p99_ns = percentile99(time_ns, n);
    return code;
}

sonar_code bench_measure(void *ctx, bench_step step, bench_step settle, const bench_effort *effort,
                         bench_times *times, sonar_error *err) {
    int64_t *time_ns = sonar_alloc(MOST, sizeof *time_ns);
    if (!time_ns)
        return sonar_fail(err, SONAR_ENOMEM, "bench", "no memory for the times");
    sonar_code code = measure_into(ctx, step, settle, effort, times, time_ns, err);
    free(time_ns);
    return code;
}
