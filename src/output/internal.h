/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the publisher's files share. publisher.c makes it, has its thread and the other threads'
 * side; on the output thread, socket.c has the socket and who is at its other end, messages.c makes
 * messages of results and of the status.
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

enum { SONAR_OUTPUT_TICK_MS = 100 }; /* the thread sleeps no longer */

struct sonar_output_form {
    sonar_output_spec spec;
    char *axes[SONAR_SURFACES]; /* JSON */
    /* spec.true_bearings: how each scan is read at them, NULL where there are none. The output
     * thread turns them. */
    sonar_bearings *cbf_bearings, *mvdr_bearings;
    char *true_axes[SONAR_SURFACES]; /* JSON; NULL where it is never needed */
};

struct sonar_output {
    sonar_output_spec spec;
    const sonar_host *host;
    char endpoint[256];      /* as bound; written under `lock` */
    sonar_output_form *form; /* of results without one, and of the status */
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
    int64_t ticked_ns, closed_ns; /* closed: to be reopened */
    size_t largest_bytes;         /* of the messages sent */
    sonar_interest interest;

    /* output thread, messages.c */
    uint64_t seq[SONAR_SURFACES];
    sonar_status status; /* the last one sent */
    int64_t status_utc_ns, repeated_ns;
    bool status_known, repeat_wanted;

    pthread_mutex_t lock; /* status slot, endpoint; never taken by the data thread */
    sonar_status posted;
    int64_t posted_utc_ns;
    bool posted_pending;
    sonar_histogram latency; /* the output thread adds, control reads */
    sonar_histogram_seen latency_seen;

    atomic_bool stopping, finished, cut; /* cut: all connections are to be ended once */
    _Atomic int64_t deadline_ns;
    _Atomic uint32_t wanted;
    sonar_output_counters count; /* results_dropped: the data thread; others: the output thread */
    _Atomic uint64_t rounds;     /* times the thread looked for work */
};

/* ---- socket.c: output thread ----------------------------------------------------------------- */

sonar_code sonar_output_open(sonar_output *output, sonar_error *err);
/* Allowed where none is open. */
void sonar_output_close(sonar_output *output);
/* Takes some of those that wait. */
void sonar_output_read_subscriptions(sonar_output *output);
/* What readers have subscribed to, and what the tap takes, is wanted from now on. */
void sonar_output_update_wanted(sonar_output *output);
/* Once a tick: cuts peers off, counts them, closes and opens the socket where they hold too much.
 * False: it cannot be opened any more. */
bool sonar_output_look_after_peers(sonar_output *output);
/* Three parts, header (NULL: it could not be made) and body taken over; a message that cannot be
 * made leaves a hole in seq. */
void sonar_output_send(sonar_output *output, sonar_surface surface, char *header, zmq_msg_t *body);
/* A message was sent, or could not be made. */
void sonar_output_count_sent(sonar_output *output, sonar_surface surface, bool sent);

/* ---- messages.c: output thread --------------------------------------------------------------- */

/* Sends what is wanted of the result, and notes in it when. */
void sonar_output_send_result(sonar_output *output, sonar_result *result);
/* Sends the status that was posted, if one was. */
void sonar_output_take_status(sonar_output *output);
/* Sends the last status again where a new reader wants it. Returns for how many ms the thread may
 * sleep. */
int sonar_output_repeat_status(sonar_output *output);

#endif
