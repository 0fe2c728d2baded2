/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Backends: the tables of functions of a stage, of an opened device and of the plugin that opens
 * it. A plugin is written from the headers of this folder alone. Valid as C17 and as C++17.
 */
#ifndef SONAR_BACKEND_H
#define SONAR_BACKEND_H

#include "sonar/sonar.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An ordered queue of work on one backend. The CPU's runs everything at once. */
typedef struct sonar_queue sonar_queue;
typedef struct sonar_event sonar_event; /* a point in a queue that others can wait for */
typedef struct sonar_graph sonar_graph; /* recorded work */

/* The verbs of a stage. The shapes of spec, in and out and the errors are in stages.h. execute,
 * evaluate, join and reset are called by the data thread while the pipeline runs; never are two
 * calls of one stage at work at once. What is enqueued reads and writes the buffers and *work
 * later: they stay as they are until the queue has come past it. After an error the outputs may
 * hold anything. */
typedef struct sonar_stage_ops {
    const char *name; /* "dft", "cbf", "steer", "mvdr_jacobi" */
    /* Allocates, plans and warms up. spec is copied, host borrowed until destroy. *stage is the
     * caller's to destroy, and NULL after an error. */
    sonar_code (*create)(const void *spec, const sonar_host *host, void **stage, sonar_error *err);
    /* Never allocates, locks, logs or fails for lack of memory, and returns once the work is
     * enqueued. */
    sonar_code (*execute)(void *stage, sonar_queue *queue, const sonar_buffer *in,
                          sonar_buffer *out, const sonar_work *work, sonar_error *err);
    /* Broadband power, unit^2, at directions off the grid, for the input of the last execute: turns
     * is U64 [point][sensor], power F32 [point], both dense but for the stride of points. The terms
     * of execute. NULL where it makes no sense. */
    sonar_code (*evaluate)(void *stage, sonar_queue *queue, const sonar_buffer *turns,
                           sonar_buffer *power, const sonar_work *work, sonar_error *err);
    /* Forgets what earlier windows left behind, from the next execute or evaluate on. NULL for a
     * stage without memory. */
    void (*reset)(void *stage);
    void (*destroy)(void *stage); /* when none of its work is left; a NULL stage is allowed */
    /* Of a stage for a part of an array: goes on with what the parts' results of the last execute
     * add up to. The terms of execute. NULL where parts have nothing to tell one another. */
    sonar_code (*join)(void *stage, sonar_queue *queue, const sonar_buffer *in, sonar_buffer *out,
                       const sonar_work *work, sonar_error *err);
} sonar_stage_ops;

/* Something a stage can do in several ways whose results agree to rounding (sums may be taken in
 * another order, which each way fixes); only their speed differs, by node and configuration. */
typedef struct sonar_decision {
    const char *name;       /* "dft.batch" */
    const char *stage;      /* the stage whose create asks for it */
    const char *candidates; /* words with one space between, the first for want of training */
} sonar_decision;

/* A backend: memory, queues and stages of one device, opened. A thread calls `use` before its first
 * call of any other function here or of a stage; functions that release something may be called by
 * any thread, and with nothing (NULL, or a buffer of zeros) do nothing. A queue, an event or a
 * graph belongs to one thread at a time. What is made is the caller's to release, when no work with
 * it is left and before the backend is closed. Errors: SONAR_ENOMEM, SONAR_EUNAVAILABLE for a
 * device that cannot be used, SONAR_ESYS for what else it reports, which it may do later than
 * the work that failed. */
typedef struct sonar_backend sonar_backend;
struct sonar_backend {
    const char *name; /* "cpu", "cuda" */
    size_t device;    /* which of the backend's devices this is, from 0 */
    /* The calling thread's work goes to this device from now on. NULL: nothing has to be done. */
    sonar_code (*use)(const sonar_backend *backend, sonar_error *err);
    /* A dense zeroed buffer in `space`, or in the backend's own if it has no such space. shape has
     * `rank` entries; with an entry of 0 the buffer is empty and may have no data. */
    sonar_code (*buffer_create)(const sonar_backend *backend, sonar_space space, sonar_dtype dtype,
                                int rank, const size_t *shape, sonar_buffer *buffer,
                                sonar_error *err);
    void (*buffer_destroy)(sonar_buffer *buffer);
    sonar_space native_space; /* space of buffers between stages */
    sonar_code (*queue_create)(const sonar_backend *backend, sonar_queue **queue, sonar_error *err);
    void (*queue_destroy)(sonar_queue *queue);
    /* Enqueues a copy between spaces; shapes and dtypes are equal. Dense, or of rank 2 with rows
     * that are dense each. Both stay until the queue has come past the copy. SONAR_EINVAL: other
     * sizes. */
    sonar_code (*copy)(sonar_queue *queue, const sonar_buffer *from, sonar_buffer *to,
                       sonar_error *err);
    sonar_code (*event_create)(const sonar_backend *backend, sonar_event **event, sonar_error *err);
    void (*event_destroy)(sonar_event *event);
    /* The event is from now on the point behind all that the queue has been given. */
    sonar_code (*record)(sonar_queue *queue, sonar_event *event, sonar_error *err);
    sonar_code (*wait)(sonar_queue *queue, sonar_event *event, sonar_error *err); /* queue waits */
    sonar_code (*finish)(sonar_event *event, sonar_error *err); /* the calling thread waits */
    const sonar_stage_ops *(*stage)(const char *name);          /* its own; NULL: has none */
    /* Optional, NULL where it makes no sense. */
    /* Time between two recorded events that lie behind us; never waits: SONAR_ESTATE if they do not
     * yet. */
    sonar_code (*elapsed)(sonar_event *from, sonar_event *to, double *us, sonar_error *err);
    /* Bytes of free device memory; 0: unknown. */
    size_t (*memory_free)(const sonar_backend *backend);
    const sonar_decision *decisions; /* the last has no name; NULL: there are none */
    /* Work recorded once and run often: between graph_begin and graph_end what is enqueued is kept
     * in place of being run (an event recorded there is recorded at every run). Addresses and
     * shapes are then fixed; what lies behind the addresses may change from run to run. A stage
     * whose work cannot be recorded returns SONAR_EUNAVAILABLE there. All four or none. */
    sonar_code (*graph_begin)(sonar_queue *queue, sonar_error *err);
    /* Ends the recording in any case; with graph == NULL throws it away. */
    sonar_code (*graph_end)(sonar_queue *queue, sonar_graph **graph, sonar_error *err);
    sonar_code (*graph_run)(sonar_queue *queue, sonar_graph *graph, sonar_error *err);
    void (*graph_destroy)(sonar_graph *graph);
};

#define SONAR_PLUGIN_INTERFACE 12u
#define SONAR_PLUGIN_SYMBOL    "sonar_plugin"

/* A kind of hardware: a shared library that links neither libsonar nor its libraries and is never
 * unloaded. */
typedef struct sonar_plugin_ops {
    uint32_t interface; /* must equal SONAR_PLUGIN_INTERFACE exactly */
    const char *name;   /* "cuda" */
    /* Opens device `index` and describes it in words in description[bytes]. host is borrowed until
     * close; *backend is the plugin's. SONAR_EUNAVAILABLE, with the reason, if there is no such
     * device or it cannot be used. Control thread. */
    sonar_code (*open)(const sonar_host *host, size_t index, const sonar_backend **backend,
                       char *description, size_t bytes, sonar_error *err);
    /* After all that was made with it is gone. Control thread. */
    void (*close)(const sonar_backend *backend);
} sonar_plugin_ops;

/* The one symbol a plugin exports. */
typedef const sonar_plugin_ops *(*sonar_plugin_entry)(void);

#ifdef __cplusplus
}
#endif
#endif
