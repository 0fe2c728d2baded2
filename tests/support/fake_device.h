/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The one device of the tests: the CPU plays it with its own stages, behind a space of its own if
 * wanted. It counts, fails when told to, records graphs, and one that is lazy does nothing before
 * it has to: what is enqueued waits until somebody waits for it. A buffer that is read too early,
 * or lent on too soon, then holds the wrong values every time, and not only when a GPU happens to
 * be late. */
#ifndef TEST_FAKE_DEVICE_H
#define TEST_FAKE_DEVICE_H

#include "sonar/backend.h"

/* What kind of device. */
enum {
    FAKE_GRAPHS = 1,  /* records graphs */
    FAKE_LAZY = 2,    /* else everything is done when it is enqueued */
    FAKE_ON_HOST = 4, /* has no memory of its own */
    FAKE_SHORT = 8,   /* of its graphs no MVDR can be part */
    FAKE_KINDS = 16
};

/* What all of them do from now on, and what they have done since this was last set to zeros. */
struct fake_device {
    long fail_at, fail_until; /* the first and last fallible call that fails, from 1; 0: none */
    long finish_fails;        /* the n-th wait of the calling thread comes back with an error */
    unsigned diligent;        /* queues that are not lazy: a bit each, in the order of creation */
    /* Called after a stage's execute has been done, with its name, while the data is there. */
    void (*listener)(const char *stage, const sonar_buffer *in, const sonar_buffer *out,
                     const sonar_work *work);

    long calls, finished; /* fallible calls; waits */
    long made;            /* queues, events, buffers, stages and graphs that are there */
    long graphs_run, resets;
    long copied_samples; /* copies of float samples to a device */
    long faults;         /* work that failed or could not be kept, times asked for too early */
    long microseconds; /* events carry no times: each that is asked for comes one after the last */
    unsigned queues;
};
extern struct fake_device fake;

/* Named "fake" whatever its kind, any sum of the above. */
const sonar_backend *fake_backend(unsigned kind);

#endif
