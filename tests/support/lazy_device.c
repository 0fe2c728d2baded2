/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "lazy_device.h"

#include <stdlib.h>
#include <string.h>

#include "backend/open.h"
#include "core/core.h"
#include "dft/dft.h"

enum { ACTS = 2048, GRAPH_ACTS = 32 };

struct lazy_device lazy;

struct lazy_stage {
    const sonar_stage_ops *ops;
    void *self;
    size_t length;  /* of a DFT */
    bool forgotten; /* by the next act */
};

struct act {
    enum { COPY, EXECUTE, EVALUATE, WAIT, RECORD } kind; /* RECORD: only in a graph */
    struct lazy_stage *stage;
    bool forget;
    sonar_buffer in[2], out[3];
    sonar_work work;
    sonar_event *event;
    sonar_queue *other; /* WAIT: until it has done so many acts */
    uint64_t place;
};

struct sonar_queue {
    struct act act[ACTS]; /* a ring */
    uint64_t enqueued, done;
    bool diligent;
    sonar_graph *recording;
    sonar_queue *next; /* of those destroyed */
};

struct sonar_event {
    sonar_queue *queue; /* NULL: never recorded */
    uint64_t place;
};

struct sonar_graph {
    size_t acts;
    struct act act[GRAPH_ACTS];
};

static long queues; /* not destroyed yet */

static const sonar_backend *real(void) {
    return sonar_backend_cpu();
}

/* ---- work ------------------------------------------------------------------------------------ */

void lazy_cut_ring(sonar_buffer in[2], size_t length, sonar_work *work) {
    const sonar_buffer ring = in[SONAR_DFT_HEAD];
    size_t capacity = ring.shape[1], column = (size_t)(*work->column + work->offset) % capacity;
    size_t head = sonar_min_size(length, capacity - column);
    in[SONAR_DFT_HEAD].data = (char *)ring.data + column * sonar_dtype_size(ring.dtype);
    in[SONAR_DFT_HEAD].shape[1] = head;
    in[SONAR_DFT_TAIL] = ring;
    in[SONAR_DFT_TAIL].shape[1] = length - head;
    work->column = NULL;
}

static void advance(sonar_queue *queue, uint64_t until);

static sonar_code perform(struct act a) {
    if (a.forget)
        a.stage->ops->reset(a.stage->self);
    if (a.work.column)
        lazy_cut_ring(a.in, a.stage->length, &a.work);
    switch (a.kind) {
    case COPY:
        return real()->copy(NULL, a.in, a.out, NULL);
    case EXECUTE:
        return a.stage->ops->execute(a.stage->self, NULL, a.in, a.out, &a.work, NULL);
    case EVALUATE:
        return a.stage->ops->evaluate(a.stage->self, NULL, a.in, a.out, &a.work, NULL);
    case WAIT:
        advance(a.other, a.place);
        return SONAR_OK;
    default:
        return SONAR_OK;
    }
}

static void advance(sonar_queue *queue, uint64_t until) {
    while (queue->done < until)
        lazy.faults += perform(queue->act[queue->done++ % ACTS]) != SONAR_OK;
}

static void enqueue(sonar_queue *queue, const struct act *act) {
    sonar_graph *graph = queue->recording;
    if (graph) {
        lazy.faults += graph->acts == GRAPH_ACTS;
        graph->act[graph->acts++ % GRAPH_ACTS] = *act;
        return;
    }
    if (queue->enqueued - queue->done == ACTS) {
        lazy.faults++;
        advance(queue, queue->done + 1);
    }
    queue->act[queue->enqueued++ % ACTS] = *act;
    if (queue->diligent)
        advance(queue, queue->enqueued);
}

static sonar_code copy(sonar_queue *queue, const sonar_buffer *from, sonar_buffer *to,
                       sonar_error *err) {
    (void)err;
    enqueue(queue, &(struct act){.kind = COPY, .in = {*from}, .out = {*to}});
    return SONAR_OK;
}

/* ---- memory, queues and events --------------------------------------------------------------- */

static sonar_code buffer_create(const sonar_backend *backend, sonar_space space, sonar_dtype dtype,
                                int rank, const size_t *shape, sonar_buffer *buffer,
                                sonar_error *err) {
    sonar_code code = real()->buffer_create(backend, space, dtype, rank, shape, buffer, err);
    buffer->space = space;
    lazy.made += !code;
    return code;
}

static void buffer_destroy(sonar_buffer *buffer) {
    lazy.made--;
    real()->buffer_destroy(buffer);
}

static sonar_code queue_create(const sonar_backend *backend, sonar_queue **queue,
                               sonar_error *err) {
    (void)backend, (void)err;
    *queue = sonar_alloc(1, sizeof **queue);
    (*queue)->diligent = lazy.diligent & 1u << lazy.queues++;
    lazy.made++;
    queues++;
    return SONAR_OK;
}

/* Another may still have to wait for what this one did: kept until there is none left. */
static void queue_destroy(sonar_queue *queue) {
    static sonar_queue *destroyed;
    advance(queue, queue->enqueued);
    lazy.made--;
    queue->next = destroyed;
    destroyed = queue;
    if (--queues)
        return;
    for (sonar_queue *next; destroyed; destroyed = next) {
        next = destroyed->next;
        free(destroyed);
    }
}

static sonar_code event_create(const sonar_backend *backend, sonar_event **event,
                               sonar_error *err) {
    (void)backend, (void)err;
    *event = sonar_alloc(1, sizeof **event);
    lazy.made++;
    return SONAR_OK;
}

static void event_destroy(sonar_event *event) {
    lazy.made--;
    free(event);
}

static sonar_code record(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    (void)err;
    if (queue->recording)
        enqueue(queue, &(struct act){.kind = RECORD, .event = event});
    else
        *event = (sonar_event){queue, queue->enqueued};
    return SONAR_OK;
}

static sonar_code wait(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    (void)err;
    if (event->queue)
        enqueue(queue, &(struct act){.kind = WAIT, .other = event->queue, .place = event->place});
    return SONAR_OK;
}

static sonar_code finish(sonar_event *event, sonar_error *err) {
    if (++lazy.finished == lazy.finish_fails)
        return sonar_fail(err, SONAR_ESYS, "lazy", "wait %ld fails", lazy.finished);
    if (event->queue)
        advance(event->queue, event->place);
    return SONAR_OK;
}

static bool has_happened(const sonar_event *event) {
    return event->queue && event->queue->done >= event->place;
}

static sonar_code elapsed(sonar_event *from, sonar_event *to, double *us, sonar_error *err) {
    *us = 1;
    if (has_happened(from) && has_happened(to))
        return SONAR_OK;
    lazy.faults++;
    return sonar_fail(err, SONAR_ESTATE, "lazy", "the event has not happened yet");
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static sonar_code graph_begin(sonar_queue *queue, sonar_error *err) {
    (void)err;
    queue->recording = sonar_alloc(1, sizeof *queue->recording);
    return SONAR_OK;
}

static sonar_code graph_end(sonar_queue *queue, sonar_graph **graph, sonar_error *err) {
    (void)err;
    if (graph) {
        lazy.made++;
        *graph = queue->recording;
    } else {
        free(queue->recording);
    }
    queue->recording = NULL;
    return SONAR_OK;
}

static sonar_code graph_run(sonar_queue *queue, sonar_graph *graph, sonar_error *err) {
    for (size_t i = 0; i < graph->acts; i++)
        if (graph->act[i].kind == RECORD)
            record(queue, graph->act[i].event, err);
        else
            enqueue(queue, &graph->act[i]);
    lazy.graphs_run++;
    return SONAR_OK;
}

static void graph_destroy(sonar_graph *graph) {
    lazy.made--;
    free(graph);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static sonar_code create(const char *name, const void *spec, const sonar_host *host, void **stage,
                         sonar_error *err) {
    struct lazy_stage *made = sonar_alloc(1, sizeof *made);
    made->ops = real()->stage(name);
    if (!strcmp(name, "dft"))
        made->length = ((const sonar_dft_spec *)spec)->length;
    lazy.made++;
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

static bool take_forgotten(struct lazy_stage *stage) {
    bool forgotten = stage->forgotten;
    stage->forgotten = false;
    return forgotten;
}

static sonar_code execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    struct act act = {
        .kind = EXECUTE, .stage = stage, .forget = take_forgotten(stage), .work = *work};
    bool is_dft = act.stage->length > 0;
    (void)err;
    memcpy(act.in, in, (is_dft ? 2 : 1) * sizeof *in);
    memcpy(act.out, out, (is_dft ? 1 : 3) * sizeof *out);
    enqueue(queue, &act);
    return SONAR_OK;
}

static sonar_code evaluate(void *stage, sonar_queue *queue, const sonar_buffer *turns,
                           sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    struct act act = {.kind = EVALUATE,
                      .stage = stage,
                      .forget = take_forgotten(stage),
                      .in = {*turns},
                      .out = {*power},
                      .work = *work};
    (void)err;
    enqueue(queue, &act);
    return SONAR_OK;
}

static void reset(void *stage) {
    ((struct lazy_stage *)stage)->forgotten = true;
}

static void destroy(void *stage) {
    struct lazy_stage *s = stage;
    if (!s)
        return;
    lazy.made--;
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

const sonar_backend *lazy_backend(void) {
    static sonar_backend backend;
    backend = *real();
    backend.name = "lazy";
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
    backend.elapsed = elapsed;
    backend.graph_begin = graph_begin;
    backend.graph_end = graph_end;
    backend.graph_run = graph_run;
    backend.graph_destroy = graph_destroy;
    return &backend;
}
