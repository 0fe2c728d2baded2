/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the publisher's files share. publisher.c has create and destroy, the output thread, and the
 * functions that other threads call. On the output thread, socket.c handles the socket and its
 * peers; messages.c makes messages from results and from the status.
 *
 *   data thread --queue--> output thread --done--> data thread
 */
#ifndef SONAR_OUTPUT_INTERNAL_H
#define SONAR_OUTPUT_INTERNAL_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <zmq.h>

#include "core/core.h"
#include "core/count.h"
#include "net/net.h"
#include "output/header.h"
#include "output/output.h"
#include "output/topic.h"

enum { SONAR_OUTPUT_TICK_MS = 100 }; /* the thread sleeps at most this long */

struct sonar_output_form {
    sonar_output_spec spec;
    char *axes[SONAR_SURFACES]; /* JSON */
    /* spec.true_bearings: for each scan, how it is resampled to true bearings; NULL: it is not. The
     * output thread sets their heading. */
    sonar_bearings *cbf_bearings, *mvdr_bearings;
    char *true_axes[SONAR_SURFACES]; /* JSON; NULL for surfaces that are never resampled */
};

struct sonar_output {
    sonar_output_spec spec;
    const sonar_host *host;
    char endpoint[256];      /* as bound; written under `lock` */
    sonar_output_form *form; /* for results without a form of their own, and for the status */
    sonar_ring *queue, *done;
    int wake, room; /* eventfds: work for the thread; room in the queue */

    /* data thread */
    size_t outstanding, outstanding_most; /* posted and not yet reclaimed; what `done` can hold */

    /* control thread */
    pthread_t thread;
    bool started;
    sem_t opened;
    sonar_code open_code;
    sonar_error open_error;

    /* output thread, socket.c */
    void *socket;
    sonar_peers *peers;
    int64_t ticked_ns;
    size_t largest_bytes; /* largest size of the messages sent */
    sonar_interest interest;

    /* output thread, messages.c */
    uint64_t seq[SONAR_SURFACES];
    sonar_status status; /* the last status sent */
    int64_t status_utc_ns, repeated_ns;
    bool status_known, repeat_wanted;

    pthread_mutex_t lock; /* status slot, endpoint; never taken by the data thread */
    sonar_status posted;
    int64_t posted_utc_ns;
    bool posted_pending;
    sonar_histogram latency; /* the output thread adds, control reads */
    sonar_histogram_seen latency_seen;

    atomic_bool stopping, finished, cut; /* cut: end all connections once */
    _Atomic int64_t deadline_ns;
    _Atomic uint32_t wanted;
    sonar_output_counters count; /* results_dropped: the data thread; others: the output thread */
    _Atomic uint64_t rounds;     /* times the thread looked for work */
};

/* ---- socket.c: output thread ----------------------------------------------------------------- */

sonar_code sonar_output_open(sonar_output *output, sonar_error *err);
/* Closes the socket, if one is open. */
void sonar_output_close(sonar_output *output);
/* Reads some of the waiting subscriptions. */
void sonar_output_read_subscriptions(sonar_output *output);
/* Updates the wanted topics from the readers' subscriptions and the tap. */
void sonar_output_update_wanted(sonar_output *output);
/* Once a tick: ends connections, counts peers, and closes and reopens the socket if the peers hold
 * too much memory. */
void sonar_output_look_after_peers(sonar_output *output);
/* Sends three parts and takes ownership of header (NULL: it could not be made) and body. A message
 * that cannot be made leaves a gap in seq. */
void sonar_output_send(sonar_output *output, sonar_surface surface, char *header, zmq_msg_t *body);
/* Counts a message that was sent, or that could not be made. */
void sonar_output_count_sent(sonar_output *output, sonar_surface surface, bool sent);

/* ---- messages.c: output thread --------------------------------------------------------------- */

/* Sends the surfaces of the result that are wanted, and sets the times in the result. */
void sonar_output_send_result(sonar_output *output, sonar_result *result);
/* Sends the posted status, if there is one. */
void sonar_output_take_status(sonar_output *output);
/* Sends the last status again if a new reader wants it. Returns how many ms the thread may
 * sleep. */
int sonar_output_repeat_status(sonar_output *output);

#endif
