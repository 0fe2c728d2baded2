/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A device that the CPU plays with its own stages, and that does nothing before it has to: what is
 * enqueued waits until somebody waits for it. A buffer that is read too early, or lent on too soon,
 * then holds the wrong values every time, and not only when a GPU happens to be late. */
#ifndef TEST_LAZY_DEVICE_H
#define TEST_LAZY_DEVICE_H

#include "sonar/backend.h"

struct lazy_device {
    unsigned diligent; /* queues that do everything at once: a bit each, in the order of creation */
    long finish_fails; /* the n-th wait of the calling thread comes back with an error, 0: none */
    long made;         /* queues, events, buffers, stages and graphs that are there */
    long graphs_run, finished;
    long faults; /* work that failed or could not be kept, times asked for too early */
    unsigned queues;
};
extern struct lazy_device lazy;

const sonar_backend *lazy_backend(void);

/* For any device that is played by the CPU: the DFT's samples by way of the column become the two
 * pieces of the ring that the CPU's stage takes. */
void lazy_cut_ring(sonar_buffer in[2], size_t length, sonar_work *work);

#endif
