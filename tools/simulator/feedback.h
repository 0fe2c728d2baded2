/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The pace of a daemon that gives up windows when it is fed faster than it computes
 * (`ingest.overload: drop_oldest`): a sender goes ahead of it by no more windows than may wait
 * there, judged by those that it publishes. One thread owns a feedback.
 */
#ifndef SIM_FEEDBACK_H
#define SIM_FEEDBACK_H

#include <signal.h>

#include "config/config.h"

/* How many samples may be sent. All limits are sample indices of the stream. */
typedef struct sim_credit {
    uint64_t first;       /* sample of the first window */
    size_t length, hop;   /* of windows */
    size_t queue_windows; /* that may wait at the daemon, >= 1 */
    uint64_t done;        /* windows that the daemon is done with */
} sim_credit;

/* May the samples up to `end` be sent when those up to `sent` are? Yes if no more windows are then
 * under way than may wait, or if none is: what one frame completes cannot be sent in less. */
bool sim_credit_covers(const sim_credit *credit, uint64_t sent, uint64_t end);
/* The window that begins at this sample was published, and those before it are over. */
void sim_credit_note(sim_credit *credit, uint64_t first_sample);
/* Of what was sent up to `sent`, nothing is under way any more, published or not. */
void sim_credit_settle(sim_credit *credit, uint64_t sent);
/* Are no windows under way of what was sent up to `sent`? */
bool sim_credit_is_over(const sim_credit *credit, uint64_t sent);

typedef struct sim_feedback sim_feedback;

/* Listens to the daemon of this configuration, whose next stream is `epoch` from `first_index` on.
 * SONAR_EUNAVAILABLE if its topics do not tell what is needed. */
sonar_code sim_feedback_create(void *zmq_context, const sonar_config *config, const char *key,
                               uint32_t epoch, uint64_t first_index, sim_feedback **feedback,
                               sonar_error *err);
void sim_feedback_destroy(sim_feedback *feedback);
/* What is sent from now on is this stream, from this index on. */
void sim_feedback_restart(sim_feedback *feedback, uint32_t epoch, uint64_t first_index);
/* Waits for a status, so that no later message is missed; false: none came, or stopped. */
bool sim_feedback_hears(sim_feedback *feedback, int timeout_ms, const volatile sig_atomic_t *stop);
/* Waits until the samples up to `end` may be sent after those up to `sent`; false: stopped. */
bool sim_feedback_wait(sim_feedback *feedback, uint64_t sent, uint64_t end,
                       const volatile sig_atomic_t *stop);
/* Waits until nothing is under way of what was sent up to `sent`, so that the next stream finds
 * room. No longer than until stopped, or nothing was heard of the daemon for timeout_ms. */
void sim_feedback_finish(sim_feedback *feedback, uint64_t sent, int timeout_ms,
                         const volatile sig_atomic_t *stop);

#endif
