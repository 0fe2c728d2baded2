/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Follows the pace of a daemon that drops windows when it is fed faster than it computes
 * (`ingest.overload: drop_oldest`). The sender may be ahead by as many windows as may wait in the
 * daemon; the published windows show how far the daemon is. One thread owns a feedback.
 */
#ifndef SIM_FEEDBACK_H
#define SIM_FEEDBACK_H

#include <signal.h>

#include "config/config.h"

/* How many samples may be sent. All limits are sample indices of the stream. */
typedef struct sim_credit {
    uint64_t first;       /* first sample of the first window */
    size_t length, hop;   /* of windows */
    size_t queue_windows; /* windows that may wait in the daemon, >= 1 */
    uint64_t done;        /* windows that the daemon has finished */
} sim_credit;

/* True if the samples up to `end` may be sent after those up to `sent`: if then no more windows are
 * unfinished than may wait, or if none is unfinished now, because one frame cannot be divided. */
bool sim_credit_covers(const sim_credit *credit, uint64_t sent, uint64_t end);
/* Notes that the window that begins at this sample was published; windows before it are
 * finished. */
void sim_credit_note(sim_credit *credit, uint64_t first_sample);
/* Notes that all windows of the samples up to `sent` are finished, published or not. */
void sim_credit_settle(sim_credit *credit, uint64_t sent);
/* True if all windows of the samples up to `sent` are finished. */
bool sim_credit_is_over(const sim_credit *credit, uint64_t sent);

typedef struct sim_feedback sim_feedback;

/* Subscribes to the daemon of this configuration, whose next stream has `epoch` and begins at
 * `first_index`. SONAR_EUNAVAILABLE if its topics do not have the needed information. */
sonar_code sim_feedback_create(void *zmq_context, const sonar_config *config, const char *key,
                               uint32_t epoch, uint64_t first_index, sim_feedback **feedback,
                               sonar_error *err);
void sim_feedback_destroy(sim_feedback *feedback);
/* From now on the samples sent belong to this stream and begin at this index. */
void sim_feedback_restart(sim_feedback *feedback, uint32_t epoch, uint64_t first_index);
/* Waits for a status, so that no later message is missed. False: no status was received, or
 * stopped. */
bool sim_feedback_hears(sim_feedback *feedback, int timeout_ms, const volatile sig_atomic_t *stop);
/* Waits until the samples up to `end` may be sent after those up to `sent`; false: stopped. */
bool sim_feedback_wait(sim_feedback *feedback, uint64_t sent, uint64_t end,
                       const volatile sig_atomic_t *stop);
/* Waits until all windows of the samples up to `sent` are finished, so that there is room for the
 * next stream. Ends early if stopped, or if the daemon has sent nothing for timeout_ms. */
void sim_feedback_finish(sim_feedback *feedback, uint64_t sent, int timeout_ms,
                         const volatile sig_atomic_t *stop);

#endif
