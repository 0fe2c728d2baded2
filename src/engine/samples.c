/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Copies samples to a device. Its ring is filled chunk by chunk while the digitisers still send, so
 * that only the last chunk is left to copy when a window is complete. The device's ring has the
 * same columns as the host's, and every sample is copied once, in the type in which it was
 * received. */
#include "engine/internal.h"

/* Columns [column, column + count) of a ring. */
static sonar_buffer columns(const sonar_buffer *ring, size_t column, size_t count) {
    size_t size = sonar_dtype_size(ring->dtype);
    sonar_buffer view = *ring;
    view.data = (char *)ring->data + column * size;
    view.shape[1] = count;
    view.bytes = ring->shape[0] * count * size;
    return view;
}

/* Positions [from, end), at most a whole ring. */
static sonar_code copy_positions(sonar_engine *e, uint64_t from, uint64_t end, sonar_error *err) {
    size_t capacity = e->buffers.ring.shape[1];
    sonar_code code = SONAR_OK;
    while (from < end && !code) {
        size_t column = (size_t)(from % capacity);
        size_t count = sonar_min_size((size_t)(end - from), capacity - column);
        sonar_buffer here = columns(&e->spec.source.ring, column, count);
        sonar_buffer there = columns(&e->buffers.ring, column, count);
        code = e->dft.side->backend->copy(e->copies, &here, &there, err);
        from += count;
    }
    return code;
}

/* Copies the samples that are ready. It cannot overwrite the window being processed, because ingest
 * does not reuse its columns before it is released. If ingest overtakes this thread by a whole
 * ring, a column may be read half overwritten. Every window with the old position has then been
 * dropped, and the device's column is written again before a window with the new position is read.
 * A failed copy is repeated for the window itself, which reports the failure. */
void sonar_engine_prefetch(sonar_engine *e) {
    if (!e->buffers.ring.data)
        return;
    uint64_t ready = e->spec.source.ready(e->spec.source.ctx), from = e->uploaded;
    size_t capacity = e->buffers.ring.shape[1];
    if (ready > capacity && from < ready - capacity)
        from = ready - capacity;
    if (from < ready && !copy_positions(e, from, ready, NULL))
        e->uploaded = ready;
}

/* Sends the window's column to recorded work. */
static sonar_code send_column(sonar_engine *e, const sonar_window *window, sonar_error *err) {
    struct buffers *b = &e->buffers;
    const struct side *device = e->dft.side;
    if (!b->column.data)
        return SONAR_OK;
    *(uint64_t *)b->host_column.data = window->ring_column;
    return device->backend->copy(device->queue, &b->host_column, &b->column, err);
}

/* Copies the rest of the window and of its lookback, and makes the stages' queue wait for it. */
static sonar_code upload(sonar_engine *e, const sonar_window *window, sonar_error *err) {
    const struct side *device = e->dft.side;
    uint64_t from = window->position - window->lookback,
             end = window->position + e->spec.specs->window_length;
    /* zeros are written into gaps late, perhaps after the columns around them were copied */
    if (!window->lacks && e->uploaded > from)
        from = e->uploaded;
    struct timestamps *m = &e->timestamps;
    sonar_code code =
        m->copy_begin ? device->backend->record(e->copies, m->copy_begin, err) : SONAR_OK;
    m->copy_recorded = m->copy_begin != NULL;
    if (!code && from < end)
        code = copy_positions(e, from, end, err);
    if (!code && e->uploaded < end)
        e->uploaded = end;
    if (!code)
        code = device->backend->record(e->copies, e->copied, err);
    return code ? code : device->backend->wait(device->queue, e->copied, err);
}

sonar_code sonar_samples_upload(sonar_engine *e, struct job *job, sonar_error *err) {
    const sonar_window *window = job->held;
    job->seen = *window;
    if (!e->buffers.ring.data)
        return SONAR_OK;
    job->seen.ring = e->buffers.ring;
    sonar_code code = upload(e, window, err);
    return code ? code : send_column(e, window, err);
}

void sonar_job_release(const sonar_engine *e, struct job *job) {
    if (job->held)
        e->spec.source.release(e->spec.source.ctx, job->held);
    job->held = NULL;
}
