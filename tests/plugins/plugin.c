/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A backend plugin for the loader's tests; like a real one it links no library. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sonar/backend.h"

#ifndef TEST_INTERFACE
#define TEST_INTERFACE SONAR_PLUGIN_INTERFACE
#endif
#ifndef TEST_PROBE
#define TEST_PROBE SONAR_OK
#endif

#ifdef TEST_STAGES
/* A device that does no work, and so is fast. Its memory is the host's. */
static sonar_code buffer_create(const sonar_backend *backend, sonar_space space, sonar_dtype dtype,
                                int rank, const size_t *shape, sonar_buffer *buffer,
                                sonar_error *err) {
    size_t size = dtype == SONAR_S16 ? 2 : dtype == SONAR_F32 ? 4 : 8, count = 1;
    (void)backend, (void)err;
    *buffer = (sonar_buffer){.space = space, .dtype = dtype, .rank = rank};
    for (int i = rank - 1; i >= 0; i--) {
        buffer->shape[i] = shape[i];
        buffer->stride[i] = (ptrdiff_t)count;
        count *= shape[i];
    }
    buffer->bytes = count * size;
    buffer->data = calloc(count, size);
    return buffer->data ? SONAR_OK : SONAR_ENOMEM;
}

static void buffer_destroy(sonar_buffer *buffer) {
    free(buffer->data);
    buffer->data = NULL;
}

static sonar_code queue_create(const sonar_backend *backend, sonar_queue **queue,
                               sonar_error *err) {
    (void)backend, (void)err;
    *queue = NULL;
    return SONAR_OK;
}

static sonar_code event_create(const sonar_backend *backend, sonar_event **event,
                               sonar_error *err) {
    (void)backend, (void)err;
    *event = NULL;
    return SONAR_OK;
}

static sonar_code copy(sonar_queue *queue, const sonar_buffer *from, sonar_buffer *to,
                       sonar_error *err) {
    (void)queue, (void)err;
    (void)from, (void)to;
    return SONAR_OK;
}

static sonar_code record(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    (void)queue, (void)event, (void)err;
    return SONAR_OK;
}

static sonar_code wait_for(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    (void)queue, (void)event, (void)err;
    return SONAR_OK;
}

static sonar_code finish(sonar_event *event, sonar_error *err) {
    (void)event, (void)err;
    return SONAR_OK;
}

/* Of the paths "slow", "broken" and "quick" the first sleeps and the second cannot be created. */
static sonar_code create(const void *spec, const sonar_host *host, void **stage, sonar_error *err) {
    const char *way = host->choice ? host->choice(host->ctx, "dft.way") : NULL;
    (void)spec;
    *stage = way && !strcmp(way, "slow") ? calloc(1, 1) : NULL;
    if (!way || strcmp(way, "broken") != 0)
        return SONAR_OK;
    strcpy(err->where, "test");
    strcpy(err->text, "this way is closed");
    err->code = SONAR_EUNAVAILABLE;
    return SONAR_EUNAVAILABLE;
}

static sonar_code execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    (void)queue, (void)in, (void)out, (void)work, (void)err;
#ifdef TEST_HANG
    /* Fails like a device whose driver has died, once the file that this names exists. */
    while (!access(getenv("SONAR_TEST_HANG"), F_OK))
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
#endif
    if (stage)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return SONAR_OK;
}

static const sonar_stage_ops *stage(const char *name) {
    static const sonar_stage_ops dft = {
        .name = "dft", .create = create, .execute = execute, .destroy = free};
    (void)name; /* one does for all */
    return &dft;
}

static const sonar_decision decisions[] = {{"dft.way", "dft", "slow broken quick"},
                                           {NULL, NULL, NULL}};
#define TEST_REST                                                                                  \
    .buffer_create = buffer_create, .buffer_destroy = buffer_destroy,                              \
    .native_space = SONAR_DEVICE, .queue_create = queue_create, .copy = copy,                      \
    .event_create = event_create, .record = record, .wait = wait_for, .finish = finish,            \
    .stage = stage, .decisions = decisions
#else
#define TEST_REST .native_space = SONAR_HOST
#endif

static sonar_code open_device(const sonar_host *host, size_t index, const sonar_backend **backend,
                              char *description, size_t bytes, sonar_error *err) {
    static const sonar_backend opened = {.name = "test", TEST_REST};
    (void)host, (void)index;
    *backend = &opened;
    strncpy(description, "a device", bytes);
    if (TEST_PROBE != SONAR_OK && err) {
        strcpy(err->where, "test");
        strcpy(err->text, "no device here");
    }
    return TEST_PROBE;
}

static void close_device(const sonar_backend *backend) {
    (void)backend;
}

const sonar_plugin_ops *sonar_plugin(void);
const sonar_plugin_ops *sonar_plugin(void) {
    static const sonar_plugin_ops plugin = {
        .interface = TEST_INTERFACE, .name = "test", .open = open_device, .close = close_device};
    return &plugin;
}
