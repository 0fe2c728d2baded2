/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Backends: the function tables of a stage, of an opened device, and of the plugin that opens it. A
 * plugin needs only the headers of this folder. Valid as C17 and as C++17.
 */
#ifndef SONAR_BACKEND_H
#define SONAR_BACKEND_H

#include "sonar/sonar.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An ordered queue of work on one backend. The CPU's queue runs all work immediately. */
typedef struct sonar_queue sonar_queue;
typedef struct sonar_event sonar_event; /* a point in a queue, for which others can wait */
typedef struct sonar_graph sonar_graph; /* recorded work */

/* The functions of a stage. The shapes of spec, in and out and the errors are in stages.h. The data
 * thread calls execute, evaluate, join and reset while the pipeline runs, never two of one stage at
 * once. Enqueued work reads and writes the buffers and *work later, so they must not change before
 * the queue has passed the work. After an error the outputs are undefined. */
typedef struct sonar_stage_ops {
    const char *name; /* "dft", "cbf", "steer", "mvdr_jacobi" */
    /* Allocates, plans and warms up. spec is copied; host is borrowed until destroy. The caller
     * destroys *stage, which is NULL after an error. */
    sonar_code (*create)(const void *spec, const sonar_host *host, void **stage, sonar_error *err);
    /* Never allocates, locks, logs or fails for lack of memory. Returns when the work is
     * enqueued. */
    sonar_code (*execute)(void *stage, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err);
    /* Broadband power, unit^2, at directions off the grid, for the input of the last execute. turns
     * is U64 [point][sensor], power F32 [point], both dense except for the stride of points. The
     * rules of execute apply. NULL if a stage has no such power. */
    sonar_code (*evaluate)(void *stage, sonar_queue *queue, const sonar_buffer *turns,
                           sonar_buffer *power, const sonar_work *work, sonar_error *err);
    /* Discards the state that earlier windows left, from the next execute or evaluate on. NULL for
     * a stage without such state. */
    void (*reset)(void *stage);
    void (*destroy)(
        void *stage); /* called when none of its work remains; a NULL stage is allowed */
    /* For a stage that computes a part of an array: continues with the sum of all parts' results of
     * the last execute. The rules of execute apply. NULL if parts exchange nothing. */
    sonar_code (*join)(void *stage, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                       const sonar_work *work, sonar_error *err);
} sonar_stage_ops;

/* Something that a stage can compute in several ways. Their results agree to rounding, because each
 * way has its own fixed order of sums; only their speed differs, by node and configuration. */
typedef struct sonar_decision {
    const char *name;  /* "dft.batch" */
    const char *stage; /* the stage whose create reads it */
    const char
        *candidates; /* words separated by single spaces; the first applies without training */
} sonar_decision;

/* A backend: memory, queues and stages of one opened device. A thread calls `use` before its first
 * call of any other function here or of a stage. Functions that release something may be called by
 * any thread, and do nothing with NULL or a zeroed buffer. A queue, an event or a graph belongs to
 * one thread at a time. The caller releases what it created, when no work uses it any more and
 * before the backend is closed. Errors: SONAR_ENOMEM; SONAR_EUNAVAILABLE for a device that cannot
 * be used; SONAR_ESYS for other errors of the device, which it may report later than the work that
 * failed. */
typedef struct sonar_backend sonar_backend;
struct sonar_backend {
    const char *name; /* "cpu", "cuda" */
    size_t device;    /* which of the backend's devices this is, from 0 */
    /* From now on the calling thread's work goes to this device. NULL: no call is needed. */
    sonar_code (*use)(const sonar_backend *backend, sonar_error *err);
    /* A dense zeroed buffer in `space`, or in the backend's own if it has no such space. shape has
     * `rank` entries; with an entry of 0 the buffer is empty and may have no data. */
    sonar_code (*buffer_create)(const sonar_backend *backend, sonar_space space, sonar_dtype dtype,
                                int rank, const size_t *shape, sonar_buffer *buffer,
                                sonar_error *err);
    void (*buffer_destroy)(sonar_buffer *buffer);
    sonar_space native_space; /* the space of buffers between stages */
    sonar_code (*queue_create)(const sonar_backend *backend, sonar_queue **queue, sonar_error *err);
    void (*queue_destroy)(sonar_queue *queue);
    /* Enqueues a copy between spaces. Shapes and dtypes are equal; both are dense, or of rank 2
     * with dense rows. Both must stay until the queue has passed the copy. SONAR_EINVAL: different
     * sizes. */
    sonar_code (*copy)(sonar_queue *queue, const sonar_buffer *from, sonar_buffer *to,
                       sonar_error *err);
    sonar_code (*event_create)(const sonar_backend *backend, sonar_event **event, sonar_error *err);
    void (*event_destroy)(sonar_event *event);
    /* Sets the event to the point after all work that the queue has been given so far. */
    sonar_code (*record)(sonar_queue *queue, sonar_event *event, sonar_error *err);
    sonar_code (*wait)(sonar_queue *queue, sonar_event *event,
                       sonar_error *err);                       /* the queue waits */
    sonar_code (*finish)(sonar_event *event, sonar_error *err); /* the calling thread waits */
    const sonar_stage_ops *(*stage)(
        const char *name); /* its stage of this name; NULL: it has none */
    /* Optional functions; NULL if the backend does not have them. */
    /* Time between two recorded events that have been passed. Never waits: SONAR_ESTATE if they
     * have not been passed yet. */
    sonar_code (*elapsed)(sonar_event *from, sonar_event *to, double *us, sonar_error *err);
    /* Bytes of free device memory; 0: unknown. */
    size_t (*memory_free)(const sonar_backend *backend);
    const sonar_decision *decisions; /* the last one has no name; NULL: no decisions */
    /* Work that is recorded once and run often. Between graph_begin and graph_end, enqueued work is
     * recorded instead of run; an event recorded there is recorded again whenever a run is
     * enqueued. Addresses and shapes are fixed by the recording; the content of the memory may
     * change from run to run. The work of every stage can be recorded. A backend has all four
     * functions or none. */
    sonar_code (*graph_begin)(sonar_queue *queue, sonar_error *err);
    /* Ends the recording in any case; with graph == NULL discards it. */
    sonar_code (*graph_end)(sonar_queue *queue, sonar_graph **graph, sonar_error *err);
    sonar_code (*graph_run)(sonar_queue *queue, sonar_graph *graph, sonar_error *err);
    void (*graph_destroy)(sonar_graph *graph);
};

#define SONAR_PLUGIN_INTERFACE 13u
#define SONAR_PLUGIN_SYMBOL    "sonar_plugin"

/* A kind of hardware: a shared library that links neither libsonar nor its libraries and is never
 * unloaded. */
typedef struct sonar_plugin_ops {
    uint32_t interface; /* must equal SONAR_PLUGIN_INTERFACE exactly */
    const char *name;   /* "cuda" */
    /* Opens device `index` and describes it in words in description[bytes]. host is borrowed until
     * close; the plugin owns *backend. SONAR_EUNAVAILABLE, with the reason, if there is no such
     * device or it cannot be used. Control thread. */
    sonar_code (*open)(const sonar_host *host, size_t index, const sonar_backend **backend,
                       char *description, size_t bytes, sonar_error *err);
    /* Called when all objects made with the backend are released. Control thread. */
    void (*close)(const sonar_backend *backend);
} sonar_plugin_ops;

/* The only symbol that a plugin exports. */
typedef const sonar_plugin_ops *(*sonar_plugin_entry)(void);

#ifdef __cplusplus
}
#endif
#endif
