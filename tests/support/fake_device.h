/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tests' device: the CPU's stages, optionally behind a separate memory space. It counts, fails
 * on request and records graphs. A lazy device defers enqueued work until it is waited for. Then a
 * buffer that is read or reused too early always has wrong values, not only when a GPU happens to
 * be late. */
#ifndef TEST_FAKE_DEVICE_H
#define TEST_FAKE_DEVICE_H

#include "sonar/backend.h"

/* What kind of device. */
enum {
    FAKE_GRAPHS = 1,  /* records graphs */
    FAKE_LAZY = 2,    /* else work is done when it is enqueued */
    FAKE_ON_HOST = 4, /* has no memory of its own */
    FAKE_KINDS = 8
};

/* Behaviour of all fake devices from now on, and counts since this was last set to zeros. */
struct fake_device {
    long fail_at, fail_until; /* the first and last fallible call that fails, from 1; 0: none */
    long finish_fails;        /* the n-th wait of the calling thread returns an error */
    unsigned diligent;        /* queues that are not lazy: a bit each, in the order of creation */
    /* Called after a stage's execute has been done, with its name, while its data exist. */
    void (*listener)(const char *stage, const sonar_buffer *in, const sonar_buffer *out,
                     const sonar_work *work);

    long calls, finished; /* fallible calls; waits */
    long made;            /* existing queues, events, buffers, stages and graphs */
    long graphs_run, resets;
    long copied_samples; /* copies of float samples to a device */
    long faults; /* work that failed or could not be stored, times that were read too early */
    unsigned queues;
};
extern struct fake_device fake;

/* A device named "fake"; kind: any sum of the above. */
const sonar_backend *fake_backend(unsigned kind);

#endif
