/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Samples on their way to a device: its ring is filled chunk by chunk while the digitisers still
 * send, so that when a window is complete only its last chunk has to be copied. The device's ring
 * has the columns of the host's, and every sample goes over once, in the type it came in. */
#include "pipeline/internal.h"

/* Columns [column, column + count) of a ring. */
static sonar_buffer columns(const sonar_buffer *ring, size_t column, size_t count) {
    size_t size = sonar_dtype_size(ring->dtype);
    sonar_buffer view = *ring;
    view.data = (char *)ring->data + column * size;
    view.shape[1] = count;
    view.bytes = ring->shape[0] * count * size;
    return view;
}

/* Places [from, end), at most a whole ring. */
static sonar_code copy_places(sonar_pipeline *p, uint64_t from, uint64_t end, sonar_error *err) {
    struct engine *e = &p->engine;
    size_t capacity = e->buffers.ring.shape[1];
    sonar_buffer host = sonar_ingest_ring(p->ingest);
    host.space = SONAR_PINNED;
    sonar_code code = SONAR_OK;
    while (from < end && !code) {
        size_t column = (size_t)(from % capacity);
        size_t count = sonar_min_size((size_t)(end - from), capacity - column);
        sonar_buffer here = columns(&host, column, count);
        sonar_buffer there = columns(&e->buffers.ring, column, count);
        code = e->backend->copy(e->copies, &here, &there, err);
        from += count;
    }
    return code;
}

/* Should ingest overtake this thread by a whole ring meanwhile, a column may be read half
 * overwritten: but then every window with that place has been given up, and the device's column is
 * written again before a window with the new place is read. A copy that fails is left for the
 * window's own, whose failure counts. */
void sonar_pipeline_upload_early(sonar_pipeline *p) {
    struct engine *e = &p->engine;
    if (!e->buffers.ring.data)
        return;
    uint64_t ready = sonar_ingest_ready(p->ingest), from = e->uploaded;
    size_t capacity = e->buffers.ring.shape[1];
    if (ready > capacity && from < ready - capacity)
        from = ready - capacity;
    if (from < ready && !copy_places(p, from, ready, NULL))
        e->uploaded = ready;
}

sonar_code sonar_pipeline_upload(sonar_pipeline *p, const sonar_window *window, sonar_window *seen,
                                 sonar_error *err) {
    struct engine *e = &p->engine;
    *seen = *window;
    if (!e->buffers.ring.data)
        return SONAR_OK;
    uint64_t from = window->place, end = window->place + p->config->length;
    /* zeros are put into gaps late, perhaps after the columns around them went over */
    if (window->gap_first >= window->gap_end && e->uploaded > from)
        from = e->uploaded;
    struct marks *m = &e->marks;
    sonar_code code = m->copy_begin ? e->backend->record(e->copies, m->copy_begin, err) : SONAR_OK;
    m->copy_recorded = m->copy_begin != NULL;
    if (!code && from < end)
        code = copy_places(p, from, end, err);
    if (!code && e->uploaded < end)
        e->uploaded = end;
    if (!code)
        code = e->backend->record(e->copies, e->copied, err);
    if (!code)
        code = e->backend->wait(e->queue, e->copied, err);
    seen->ring = e->buffers.ring;
    return code;
}
