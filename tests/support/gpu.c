/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/open.h"
#include "core/core.h"

enum { SKIPPED = 77, SHOWN_FAILURES = 20, ROUNDS = 7 };

static void print_log(void *ctx, sonar_level level, const char *where, const char *text) {
    (void)ctx, (void)level;
    fprintf(stderr, "%s: %s\n", where, text);
}

const char *gpu_plugin_dir(char *path, size_t bytes) {
    const char *given = getenv("SONAR_PLUGIN_DIR");
    if (given)
        return given;
    ssize_t length = readlink("/proc/self/exe", path, bytes - sizeof "/../lib");
    if (length <= 0)
        return NULL;
    path[length] = '\0';
    strcpy(strrchr(path, '/'), "/../lib");
    return path;
}

static const sonar_backend *load(gpu *gpu, char *description, size_t bytes, sonar_error *err) {
    char path[512];
    sonar_backend_close(&gpu->opened);
    sonar_code code = sonar_backend_open("cuda", gpu_plugin_dir(path, sizeof path), &gpu->host,
                                         &gpu->opened, err);
    if (description)
        snprintf(description, bytes, "%s", gpu->opened.description);
    return code ? NULL : gpu->opened.backend;
}

static bool parse(gpu *gpu, int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--quick"))
            gpu->quick = true;
        else if (!strcmp(argv[i], "--tiny"))
            gpu->quick = gpu->tiny = true;
        else if (!strcmp(argv[i], "--time"))
            gpu->timed = true;
        else if (!strcmp(argv[i], "--windows") && i + 1 < argc)
            gpu->windows = strtoul(argv[++i], NULL, 10);
        else
            return false;
    return true;
}

int gpu_open(gpu *gpu, int argc, char **argv) {
    char description[192];
    sonar_error err = {0};
    memset(gpu, 0, sizeof *gpu);
    if (!parse(gpu, argc, argv)) {
        fprintf(stderr, "usage: %s [--quick] [--tiny] [--time] [--windows N]\n", argv[0]);
        return 2;
    }
    const size_t workers = sonar_min_size(sonar_processors_online(), 16);
    gpu_require(sonar_pool_create(workers, NULL, &gpu->pool, &err), &err, "worker pool");
    gpu->host = (sonar_host){
        .ctx = gpu->pool, .log = print_log, .parallel = sonar_pool_parallel, .workers = workers};
    gpu->backend = load(gpu, description, sizeof description, &err);
    if (!gpu->backend) {
        printf("skipped: %s: %s\n", err.where, err.text);
        sonar_pool_destroy(gpu->pool);
        return SKIPPED;
    }
    printf("%s\n", description);
    gpu_require(gpu->backend->queue_create(gpu->backend, &gpu->queue, &err), &err, "queue");
    gpu_require(gpu->backend->event_create(gpu->backend, &gpu->event, &err), &err, "event");
    return -1;
}

const sonar_backend *gpu_reopen(gpu *gpu, long fail_at, sonar_error *err) {
    gpu->host.fail_at = fail_at;
    return gpu->backend = load(gpu, NULL, 0, err);
}

int gpu_close(gpu *gpu, const char *name) {
    if (gpu->backend) {
        gpu->backend->event_destroy(gpu->event);
        gpu->backend->queue_destroy(gpu->queue);
        sonar_backend_close(&gpu->opened);
        sonar_pool_destroy(gpu->pool);
    }
    if (!gpu->timed)
        printf("%s: %zu checks, %zu failed\n", name, gpu->checks, gpu->failures);
    return gpu->failures || (!gpu->timed && !gpu->checks) ? 1 : 0;
}

int gpu_close_site(gpu *gpu, site *site, const char *name) {
    gpu->checks += site->checks;
    gpu->failures += site->failures;
    site_close(site);
    return gpu_close(gpu, name);
}

bool gpu_expect(gpu *gpu, bool ok, const char *format, ...) {
    gpu->checks++;
    if (ok || gpu->failures++ >= SHOWN_FAILURES)
        return ok;
    va_list args;
    va_start(args, format);
    printf("FAILED: ");
    vprintf(format, args);
    va_end(args);
    printf("\n");
    return false;
}

void gpu_require(sonar_code code, const sonar_error *err, const char *what) {
    if (!code)
        return;
    printf("FAILED: %s: %s: %s\n", what, err->where, err->text);
    exit(1);
}

sonar_buffer gpu_buffer(gpu *gpu, sonar_space space, sonar_dtype dtype, int rank,
                        const size_t *shape) {
    sonar_buffer buffer;
    sonar_error err = {0};
    gpu_require(gpu->backend->buffer_create(gpu->backend, space, dtype, rank, shape, &buffer, &err),
                &err, "buffer");
    return buffer;
}

void gpu_free(gpu *gpu, sonar_buffer *buffer) {
    gpu->backend->buffer_destroy(buffer);
}

void gpu_copy(gpu *gpu, const sonar_buffer *from, sonar_buffer *to) {
    sonar_error err = {0};
    gpu_require(gpu->backend->copy(gpu->queue, from, to, &err), &err, "copy");
    gpu_settle(gpu);
}

void gpu_settle(gpu *gpu) {
    sonar_error err = {0};
    gpu_require(gpu->backend->record(gpu->queue, gpu->event, &err), &err, "record");
    gpu_require(gpu->backend->finish(gpu->event, &err), &err, "finish");
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double gpu_time_ms(gpu *gpu, void (*call)(void *ctx), void *ctx, size_t repeat) {
    double ms[ROUNDS];
    call(ctx);
    gpu_settle(gpu);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t began = sonar_monotonic_ns();
        for (size_t i = 0; i < repeat; i++)
            call(ctx);
        gpu_settle(gpu);
        ms[round] = (double)(sonar_monotonic_ns() - began) * 1e-6 / (double)repeat;
    }
    qsort(ms, ROUNDS, sizeof *ms, by_size);
    return ms[ROUNDS / 2];
}
