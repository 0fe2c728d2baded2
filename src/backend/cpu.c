/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The CPU as a backend: all work runs immediately, so queues and events are empty. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cbf/cbf.h"
#include "backend/open.h"
#include "core/core.h"
#include "core/isa.h"
#include "dft/dft.h"
#include "mvdr_jacobi/mvdr_jacobi.h"
#include "steer/steer.h"

struct sonar_queue {
    int unused;
};
struct sonar_event {
    int unused;
};

void sonar_backend_cpu_describe(const sonar_host *host, char *description, size_t bytes) {
    snprintf(description, bytes, "%zu worker%s, %s instructions", host->workers,
             host->workers == 1 ? "" : "s", sonar_isa_name(sonar_isa_choose(NULL)));
}

static sonar_code buffer_create(const sonar_backend *backend, sonar_space space, sonar_dtype dtype,
                                int rank, const size_t *shape, sonar_buffer *buffer,
                                sonar_error *err) {
    (void)backend, (void)space; /* all spaces are the same memory */
    *buffer = sonar_buffer_view(NULL, dtype, rank, shape);
    buffer->data = sonar_alloc(buffer->bytes, 1);
    if (!buffer->data)
        return sonar_fail(err, SONAR_ENOMEM, "cpu", "no memory for a buffer of %zu bytes",
                          buffer->bytes);
    return SONAR_OK;
}

static void buffer_destroy(sonar_buffer *buffer) {
    free(buffer->data);
    *buffer = (sonar_buffer){0};
}

static sonar_code queue_create(const sonar_backend *backend, sonar_queue **queue,
                               sonar_error *err) {
    (void)backend;
    *queue = sonar_alloc(1, sizeof **queue);
    return *queue ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "cpu", "no memory for a queue");
}

static void queue_destroy(sonar_queue *queue) {
    free(queue);
}

static sonar_code copy(sonar_queue *queue, const sonar_buffer *from, sonar_buffer *to,
                       sonar_error *err) {
    (void)queue;
    if (from->bytes != to->bytes)
        return sonar_fail(err, SONAR_EINVAL, "cpu", "copy of %zu bytes into %zu", from->bytes,
                          to->bytes);
    if (from->data == to->data || !from->bytes)
        return SONAR_OK;
    size_t rows = from->rank == 2 ? from->shape[0] : 1, row = from->bytes / rows;
    size_t from_step = row, to_step = row;
    if (from->rank == 2) {
        from_step = (size_t)from->stride[0] * sonar_dtype_size(from->dtype);
        to_step = (size_t)to->stride[0] * sonar_dtype_size(to->dtype);
    }
    for (size_t i = 0; i < rows; i++)
        memcpy((char *)to->data + i * to_step, (const char *)from->data + i * from_step, row);
    return SONAR_OK;
}

static sonar_code event_create(const sonar_backend *backend, sonar_event **event,
                               sonar_error *err) {
    (void)backend;
    *event = sonar_alloc(1, sizeof **event);
    return *event ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, "cpu", "no memory for an event");
}

static void event_destroy(sonar_event *event) {
    free(event);
}

static sonar_code record_or_wait(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    (void)queue, (void)event, (void)err;
    return SONAR_OK;
}

static sonar_code finish(sonar_event *event, sonar_error *err) {
    (void)event, (void)err;
    return SONAR_OK;
}

static const sonar_stage_ops *stage(const char *name) {
    const sonar_stage_ops *const stages[] = {&sonar_dft_cpu, &sonar_cbf_cpu, &sonar_steer_cpu,
                                             &sonar_mvdr_jacobi_cpu};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (!strcmp(stages[i]->name, name))
            return stages[i];
    return NULL;
}

const sonar_backend *sonar_backend_cpu(void) {
    static const sonar_backend backend = {
        .name = "cpu",
        .buffer_create = buffer_create,
        .buffer_destroy = buffer_destroy,
        .native_space = SONAR_HOST,
        .queue_create = queue_create,
        .queue_destroy = queue_destroy,
        .copy = copy,
        .event_create = event_create,
        .event_destroy = event_destroy,
        .record = record_or_wait,
        .wait = record_or_wait,
        .finish = finish,
        .stage = stage,
    };
    return &backend;
}
