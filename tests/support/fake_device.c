/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "fake_device.h"

#include <stdlib.h>
#include <string.h>

#include "backend/open.h"
#include "core/core.h"
#include "dft/dft.h"
#include "sonar/stages.h"

enum { ACTS = 2048, GRAPH_ACTS = 32 };

struct fake_device fake;

struct fake_stage {
    const sonar_stage_ops *ops;
    void *self;
    size_t length;          /* of a DFT */
    size_t inputs, outputs; /* of an execute */
    bool forgotten;         /* by the next act */
};

struct act {
    enum { COPY, EXECUTE, EVALUATE, JOIN, WAIT, RECORD } kind; /* RECORD: only in a graph */
    struct fake_stage *stage;
    bool forget;
    sonar_buffer in[2], out[SONAR_MVDR_OUTPUTS]; /* no stage has more */
    sonar_work work;
    sonar_event *event;
    sonar_queue *other; /* WAIT: until it has done this many acts */
    uint64_t place;
};

struct sonar_queue {
    struct act act[ACTS]; /* a ring */
    uint64_t enqueued, done;
    bool lazy;
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

static bool fails(sonar_error *err) {
    long call = ++fake.calls;
    if (call < fake.fail_at || call > fake.fail_until)
        return false;
    sonar_fail(err, SONAR_ESYS, "fake", "call %ld fails", call);
    return true;
}

/* ---- work ------------------------------------------------------------------------------------ */

/* Converts a column of the ring to the two pieces that the CPU's DFT takes. */
static void cut_ring(sonar_buffer in[2], size_t length, sonar_work *work) {
    const sonar_buffer ring = in[SONAR_DFT_HEAD];
    size_t capacity = ring.shape[1], column = (size_t)(*work->column + work->offset) % capacity;
    size_t head = sonar_min_size(length, capacity - column);
    in[SONAR_DFT_HEAD].data = (char *)ring.data + column * sonar_dtype_size(ring.dtype);
    in[SONAR_DFT_HEAD].shape[1] = head;
    in[SONAR_DFT_TAIL] = ring;
    in[SONAR_DFT_TAIL].shape[1] = length - head;
    work->column = NULL;
}

static sonar_code advance(sonar_queue *queue, uint64_t until, sonar_error *err);

static sonar_code perform(struct act a, sonar_error *err) {
    sonar_code code;
    if (a.forget)
        a.stage->ops->reset(a.stage->self);
    if (a.work.column)
        cut_ring(a.in, a.stage->length, &a.work);
    switch (a.kind) {
    case COPY:
        return real()->copy(NULL, a.in, a.out, err);
    case EXECUTE:
        code = a.stage->ops->execute(a.stage->self, NULL, a.in, a.out, &a.work, err);
        if (fake.listener && !code)
            fake.listener(a.stage->ops->name, a.in, a.out, &a.work);
        return code;
    case EVALUATE:
        return a.stage->ops->evaluate(a.stage->self, NULL, a.in, a.out, &a.work, err);
    case JOIN:
        return a.stage->ops->join(a.stage->self, NULL, a.in, a.out, &a.work, err);
    case WAIT:
        return advance(a.other, a.place, err);
    default:
        return SONAR_OK;
    }
}

/* The code of the last act. */
static sonar_code advance(sonar_queue *queue, uint64_t until, sonar_error *err) {
    sonar_code code = SONAR_OK;
    while (queue->done < until) {
        code = perform(queue->act[queue->done++ % ACTS], err);
        fake.faults += code != SONAR_OK;
    }
    return code;
}

static sonar_code enqueue(sonar_queue *queue, const struct act *act, sonar_error *err) {
    sonar_graph *graph = queue->recording;
    if (graph) {
        fake.faults += graph->acts == GRAPH_ACTS;
        graph->act[graph->acts++ % GRAPH_ACTS] = *act;
        return SONAR_OK;
    }
    if (queue->enqueued - queue->done == ACTS) {
        fake.faults++;
        advance(queue, queue->done + 1, NULL);
    }
    queue->act[queue->enqueued++ % ACTS] = *act;
    return queue->lazy ? SONAR_OK : advance(queue, queue->enqueued, err);
}

static sonar_code copy(sonar_queue *queue, const sonar_buffer *from, sonar_buffer *to,
                       sonar_error *err) {
    fake.copied_samples += to->space == SONAR_DEVICE && to->dtype == SONAR_F32;
    if (fails(err))
        return SONAR_ESYS;
    return enqueue(queue, &(struct act){.kind = COPY, .in = {*from}, .out = {*to}}, err);
}

/* ---- memory, queues and events --------------------------------------------------------------- */

static unsigned kind_of(const sonar_backend *backend);

static sonar_code buffer_create(const sonar_backend *backend, sonar_space space, sonar_dtype dtype,
                                int rank, const size_t *shape, sonar_buffer *buffer,
                                sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    sonar_code code = real()->buffer_create(backend, space, dtype, rank, shape, buffer, err);
    buffer->space = space;
    fake.made += !code;
    return code;
}

static void buffer_destroy(sonar_buffer *buffer) {
    fake.made--;
    real()->buffer_destroy(buffer);
}

static sonar_code queue_create(const sonar_backend *backend, sonar_queue **queue,
                               sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    *queue = calloc(1, sizeof **queue); /* not sonar_alloc: it would touch the whole ring */
    (*queue)->lazy = kind_of(backend) & FAKE_LAZY && !(fake.diligent >> fake.queues % 32 & 1);
    fake.queues++;
    fake.made++;
    queues++;
    return SONAR_OK;
}

/* Kept until no device is left, since another may still have to wait for its work. */
static void queue_destroy(sonar_queue *queue) {
    static sonar_queue *destroyed;
    advance(queue, queue->enqueued, NULL);
    fake.made--;
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
    (void)backend;
    if (fails(err))
        return SONAR_ESYS;
    *event = sonar_alloc(1, sizeof **event);
    fake.made++;
    return SONAR_OK;
}

static void event_destroy(sonar_event *event) {
    fake.made--;
    free(event);
}

/* In a graph the event is recorded again at every run. */
static sonar_code note(sonar_queue *queue, sonar_event *event) {
    if (queue->recording)
        return enqueue(queue, &(struct act){.kind = RECORD, .event = event}, NULL);
    *event = (sonar_event){queue, queue->enqueued};
    return SONAR_OK;
}

static sonar_code record(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    return fails(err) ? SONAR_ESYS : note(queue, event);
}

static sonar_code wait(sonar_queue *queue, sonar_event *event, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    if (!event->queue)
        return SONAR_OK;
    return enqueue(queue, &(struct act){.kind = WAIT, .other = event->queue, .place = event->place},
                   err);
}

static sonar_code finish(sonar_event *event, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    if (++fake.finished == fake.finish_fails)
        return sonar_fail(err, SONAR_ESYS, "fake", "wait %ld fails", fake.finished);
    if (event
            ->queue) /* deferred work that fails was counted at its call, which is not known here */
        advance(event->queue, event->place, NULL);
    return SONAR_OK;
}

static bool has_happened(const sonar_event *event) {
    return event->queue && event->queue->done >= event->place;
}

/* Each act takes a microsecond. */
static sonar_code elapsed(sonar_event *from, sonar_event *to, double *us, sonar_error *err) {
    *us = (double)to->place - (double)from->place;
    if (fails(err))
        return SONAR_ESYS;
    if (has_happened(from) && has_happened(to))
        return SONAR_OK;
    fake.faults++;
    return sonar_fail(err, SONAR_ESTATE, "fake", "the event has not happened yet");
}

/* ---- graphs ---------------------------------------------------------------------------------- */

static sonar_code graph_begin(sonar_queue *queue, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    queue->recording = sonar_alloc(1, sizeof *queue->recording);
    return SONAR_OK;
}

static sonar_code graph_end(sonar_queue *queue, sonar_graph **graph, sonar_error *err) {
    sonar_graph *made = queue->recording;
    bool failed = fails(err);
    queue->recording = NULL;
    if (failed || !graph) {
        free(made);
        return failed ? SONAR_ESYS : SONAR_OK;
    }
    fake.made++;
    *graph = made;
    return SONAR_OK;
}

static sonar_code graph_run(sonar_queue *queue, sonar_graph *graph, sonar_error *err) {
    sonar_code code = fails(err) ? SONAR_ESYS : SONAR_OK;
    for (size_t i = 0; i < graph->acts && !code; i++)
        code = graph->act[i].kind == RECORD ? note(queue, graph->act[i].event)
                                            : enqueue(queue, &graph->act[i], err);
    fake.graphs_run++;
    return code;
}

static void graph_destroy(sonar_graph *graph) {
    fake.made--;
    free(graph);
}

/* ---- stages ---------------------------------------------------------------------------------- */

static void destroy(void *stage) {
    struct fake_stage *s = stage;
    if (!s)
        return;
    fake.made--;
    s->ops->destroy(s->self);
    free(s);
}

static sonar_code create(const char *name, const void *spec, const sonar_host *host, void **stage,
                         sonar_error *err) {
    *stage = NULL;
    if (fails(err))
        return SONAR_ESYS;
    struct fake_stage *made = sonar_alloc(1, sizeof *made);
    made->ops = real()->stage(name);
    if (!strcmp(name, "dft"))
        made->length = ((const sonar_dft_spec *)spec)->length;
    made->inputs = made->length ? 2 : 1;
    made->outputs = made->length ? 1 : SONAR_CBF_OUTPUTS;
    if (!strcmp(name, "steer"))
        made->outputs = 1;
    if (!strcmp(name, "mvdr_jacobi")) {
        const sonar_mvdr_parts parts = ((const sonar_mvdr_spec *)spec)->parts;
        made->inputs = parts == SONAR_MVDR_JOINED ? 2 : 1;
        made->outputs = parts == SONAR_MVDR_PART ? 1 : SONAR_MVDR_OUTPUTS;
    }
    fake.made++;
    sonar_code code = made->ops->create(spec, host, &made->self, err);
    if (code)
        destroy(made);
    else
        *stage = made;
    return code;
}

static sonar_code create_dft(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    return create("dft", spec, host, stage, err);
}

static sonar_code create_cbf(const void *spec, const sonar_host *host, void **stage,
                             sonar_error *err) {
    return create("cbf", spec, host, stage, err);
}

static sonar_code create_steer(const void *spec, const sonar_host *host, void **stage,
                               sonar_error *err) {
    return create("steer", spec, host, stage, err);
}

static sonar_code create_mvdr(const void *spec, const sonar_host *host, void **stage,
                              sonar_error *err) {
    return create("mvdr_jacobi", spec, host, stage, err);
}

static bool take_forgotten(struct fake_stage *stage) {
    bool forgotten = stage->forgotten;
    stage->forgotten = false;
    return forgotten;
}

static sonar_code execute(void *stage, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    struct act act = {
        .kind = EXECUTE, .stage = stage, .forget = take_forgotten(stage), .work = *work};
    memcpy(act.in, in, act.stage->inputs * sizeof *in);
    memcpy(act.out, out, act.stage->outputs * sizeof *out);
    return enqueue(queue, &act, err);
}

static sonar_code join(void *stage, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                       const sonar_work *work, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    struct act act = {.kind = JOIN,
                      .stage = stage,
                      .forget = take_forgotten(stage),
                      .in = {*in},
                      .out = {out[0], out[1]},
                      .work = *work};
    return enqueue(queue, &act, err);
}

static sonar_code evaluate(void *stage, sonar_queue *queue, const sonar_buffer *turns,
                           sonar_buffer *power, const sonar_work *work, sonar_error *err) {
    if (fails(err))
        return SONAR_ESYS;
    struct act act = {.kind = EVALUATE,
                      .stage = stage,
                      .forget = take_forgotten(stage),
                      .in = {*turns},
                      .out = {*power},
                      .work = *work};
    return enqueue(queue, &act, err);
}

static void reset(void *stage) {
    fake.resets++;
    ((struct fake_stage *)stage)->forgotten = true;
}

static const sonar_stage_ops *stage(const char *name) {
    static const sonar_stage_ops stages[] = {
        {"dft", create_dft, execute, NULL, NULL, destroy, NULL},
        {"cbf", create_cbf, execute, evaluate, NULL, destroy, NULL},
        {"steer", create_steer, execute, NULL, NULL, destroy, NULL},
        {"mvdr_jacobi", create_mvdr, execute, evaluate, reset, destroy, join}};
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++)
        if (!strcmp(stages[i].name, name))
            return &stages[i];
    return NULL;
}

/* ---- the device ------------------------------------------------------------------------------ */

static sonar_backend backends[FAKE_KINDS];

static unsigned kind_of(const sonar_backend *backend) {
    return (unsigned)(backend - backends);
}

const sonar_backend *fake_backend(unsigned kind) {
    const bool graphs = kind & FAKE_GRAPHS;
    backends[kind] =
        (sonar_backend){.name = "fake",
                        .native_space = kind & FAKE_ON_HOST ? SONAR_HOST : SONAR_DEVICE,
                        .buffer_create = buffer_create,
                        .buffer_destroy = buffer_destroy,
                        .queue_create = queue_create,
                        .queue_destroy = queue_destroy,
                        .copy = copy,
                        .event_create = event_create,
                        .event_destroy = event_destroy,
                        .record = record,
                        .wait = wait,
                        .finish = finish,
                        .stage = stage,
                        .elapsed = elapsed,
                        .graph_begin = graphs ? graph_begin : NULL,
                        .graph_end = graphs ? graph_end : NULL,
                        .graph_run = graphs ? graph_run : NULL,
                        .graph_destroy = graphs ? graph_destroy : NULL};
    return &backends[kind];
}
