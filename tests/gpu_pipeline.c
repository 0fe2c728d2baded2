/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The whole pipeline on the device: CUDA calls of a short run fail once, or permanently; many
 * windows without growth of memory (--windows N). gpu_published compares its messages with the
 * CPU's. */
#include "feed.h"
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOWS = 6, TINY_WINDOWS = 2, MOST_CALLS = 5000 };

static struct gpu device;
static char plugin_path[512];

struct ending {
    sonar_code start;
    uint64_t processed, failed;
    bool stuck;
    char backend[24], text[240];
};

static uint64_t life(void) {
    return device.tiny ? TINY_WINDOWS : WINDOWS;
}

static struct ending live(const char *runtime, long fail_at) {
    struct ending end = {0};
    sonar_error err = {0};
    feed feed;
    end.start = feed_open(&feed, "sample_type: s16", runtime,
                          gpu_plugin_dir(plugin_path, sizeof plugin_path), fail_at, NULL, &err);
    gpu_expect(&device, !end.start || (err.where[0] && err.text[0]), "call %ld: no sentence",
               fail_at);
    if (!end.start) {
        feed.digitiser.frame.type = SONAR_S16;
        end.stuck = !feed_windows(&feed, life());
        end.processed = feed_processed(&feed);
        end.failed = feed_failed(&feed);
        sonar_pipeline_stop(feed.pipeline, 2000);
        snprintf(end.backend, sizeof end.backend, "%s", feed.pipeline->change.backend);
        snprintf(end.text, sizeof end.text, "%s", feed.pipeline->change.text);
    }
    feed_close(&feed);
    return end;
}

static void check_undisturbed(void) {
    struct ending end = live("backend: cuda", 0);
    gpu_expect(&device, !end.start && !end.stuck && end.processed == life(),
               "undisturbed: code %d, %d windows", (int)end.start, (int)end.processed);
    gpu_expect(&device, !strcmp(end.backend, "cuda") && !end.text[0], "undisturbed: %s %s",
               end.backend, end.text);
}

/* Number of calls until the pipeline has started. */
static long calls_at_start(long step) {
    long n = 1;
    while (n < MOST_CALLS && live("backend: cuda", n).start)
        n += step;
    return n;
}

/* A failure of an early copy costs no window; any other failure costs one window. */
static void check_single_failures(long first, long step) {
    uint64_t lost = 0;
    long n = first, quiet = 0;
    for (; n < MOST_CALLS && quiet < 12; n += step) {
        struct ending end = live("backend: cuda", n);
        gpu_expect(&device, !end.stuck && end.processed + end.failed == WINDOWS && end.failed <= 1,
                   "call %ld: %d windows good, %d failed", n, (int)end.processed, (int)end.failed);
        gpu_expect(&device, !strcmp(end.backend, "cuda"), "call %ld: backend %s: %s", n,
                   end.backend, end.text);
        lost += end.failed;
        quiet = end.failed ? 0 : quiet + 1;
    }
    printf("calls %ld to %ld of the running state made to fail: %d windows lost\n", first, n,
           (int)lost);
    gpu_expect(&device, lost > 2, "only %d windows lost", (int)lost);
}

static void check_lost_device(long first, long step) {
    for (int i = 0; i < 12; i++) {
        struct ending end = live("backend: cuda", -(first + i * step));
        gpu_expect(&device, !end.stuck && end.processed + end.failed == WINDOWS && end.failed == 1,
                   "lost at %ld: %d windows good, %d failed", first + i * step, (int)end.processed,
                   (int)end.failed);
        gpu_expect(&device, !strcmp(end.backend, "cpu"), "lost at %ld: backend %s: %s",
                   first + i * step, end.backend, end.text);
    }
}

/* ---- endurance ------------------------------------------------------------------------------- */

static double resident_mib(void) {
    FILE *statm = fopen("/proc/self/statm", "re");
    long pages = 0;
    if (statm) {
        if (fscanf(statm, "%*s %ld", &pages) != 1)
            pages = 0;
        fclose(statm);
    }
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static void endure(size_t windows) {
    sonar_error err = {0};
    feed feed;
    gpu_require(feed_open(&feed, "sample_type: s16", "backend: cuda",
                          gpu_plugin_dir(plugin_path, sizeof plugin_path), 0, NULL, &err),
                &err, "pipeline");
    feed.digitiser.frame.type = SONAR_S16;
    size_t settling = windows / 10 + 200; /* all lazy initialisation is done by then */
    gpu_expect(&device, feed_windows(&feed, settling), "stuck while settling");
    double host = resident_mib();
    size_t there = device.backend->memory_free(device.backend);
    int64_t began = sonar_monotonic_ns();
    gpu_expect(&device, feed_windows(&feed, windows), "stuck");
    double seconds = (double)(sonar_monotonic_ns() - began) * 1e-9;
    double host_grown = resident_mib() - host;
    double device_grown =
        ((double)there - (double)device.backend->memory_free(device.backend)) / (1 << 20);
    printf("%zu windows in %.1f s: host grew by %.2f MiB, device by %.2f MiB, %d failed\n", windows,
           seconds, host_grown, device_grown, (int)feed_failed(&feed));
    if (!device.quick) { /* for the checkers' runs: their own records grow */
        gpu_expect(&device, host_grown < 4, "host memory grew by %.2f MiB", host_grown);
        gpu_expect(&device, device_grown < 1, "device memory grew by %.2f MiB", device_grown);
    }
    gpu_expect(&device, feed_failed(&feed) == 0, "%d windows failed", (int)feed_failed(&feed));
    feed_close(&feed);
}

/* ---- figures --------------------------------------------------------------------------------- */

enum { TIMED = 2000 };

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median time of a window in the data thread with all surfaces, one window at a time. */
static double window_us(const sonar_backend *backend) {
    static double us[TIMED];
    sonar_error err = {0};
    feed feed;
    gpu_require(feed_open(&feed, "sample_type: s16", "backend: cuda",
                          gpu_plugin_dir(plugin_path, sizeof plugin_path), 0, backend, &err),
                &err, "pipeline");
    feed.digitiser.frame.type = SONAR_S16;
    gpu_expect(&device, feed_windows(&feed, 200), "stuck");
    for (int i = 0; i < TIMED; i++) {
        uint64_t before = atomic_load(&feed.pipeline->progress.busy_ns);
        gpu_expect(&device, feed_windows(&feed, 1), "stuck");
        us[i] = (double)(atomic_load(&feed.pipeline->progress.busy_ns) - before) * 1e-3;
    }
    feed_close(&feed);
    qsort(us, TIMED, sizeof *us, ascending);
    return us[TIMED / 2];
}

/* Time saved by the graph, and cost of measuring times: measured alternately, since the machine's
 * load varies; the least of each. */
static void print_times(void) {
    sonar_backend plain = *device.backend, silent = *device.backend;
    const sonar_backend *const backends[] = {device.backend, &plain, &silent};
    double us[] = {INFINITY, INFINITY, INFINITY};
    plain.graph_begin = NULL;
    silent.elapsed = NULL;
    for (int run = 0; run < 5; run++)
        for (int i = 0; i < 3; i++)
            us[i] = fmin(us[i], window_us(backends[i]));
    printf("a window of %d sensors as a graph %.1f us, stage by stage %.1f us, as a graph without "
           "times %.1f us\n",
           FEED_SENSORS, us[0], us[1], us[2]);
}

int main(int argc, char **argv) {
    int leave = gpu_open(&device, argc, argv);
    if (leave >= 0)
        return leave;
    if (device.windows) {
        endure(device.windows);
        return gpu_close(&device, "gpu_pipeline");
    }
    if (device.timed) {
        endure(2000);
        print_times();
        return gpu_close(&device, "gpu_pipeline");
    }
    check_undisturbed();
    if (device.tiny)
        return gpu_close(&device, "gpu_pipeline");
    if (device.quick) {
        endure(20);
        return gpu_close(&device, "gpu_pipeline");
    }
    long first = calls_at_start(1);
    printf("%ld calls at start\n", first - 1);
    gpu_expect(&device, first > 30 && first < MOST_CALLS, "%ld calls at start", first);
    check_single_failures(first, 3); /* every third call: minutes otherwise */
    check_lost_device(first, 9);
    endure(1000);
    return gpu_close(&device, "gpu_pipeline");
}
