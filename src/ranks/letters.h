/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Letters: changes that all ranks make with the same window, or none makes. The root's control
 * thread writes a letter, and its data thread sends it to all. The control thread of every other
 * rank reads it, prepares the change, and answers that it is ready or why it refuses; the offers of
 * the rounds (ranks/agree.h) carry the answers. In the first round in which all are ready, every
 * rank holds the change from the next window on; in the first in which one refuses, all drop it.
 * One letter is on its way at a time.
 *
 * The content of a letter is private to its writer. Nothing is allocated after create. create and
 * round are collective.
 */
#ifndef SONAR_RANKS_LETTERS_H
#define SONAR_RANKS_LETTERS_H

#include <stdatomic.h>

#include "ranks/agree.h"

typedef struct sonar_letters sonar_letters;

typedef enum sonar_outcome { SONAR_NO_OUTCOME = 0, SONAR_HELD, SONAR_DROPPED } sonar_outcome;

/* One of the parts of a letter, which are stored one behind the other. */
typedef struct sonar_letter_part {
    const void *data;
    size_t bytes;
} sonar_letter_part;

/* The room is the largest that any rank passes. `hold` is called by the data thread when the change
 * takes effect, before the outcome is visible. SONAR_ENOMEM, and the cluster's errors. Control
 * thread. */
sonar_code sonar_letters_create(const sonar_cluster *cluster, size_t room, void (*hold)(void *ctx),
                                void *ctx, sonar_letters **letters, sonar_error *err);
/* NULL is allowed, here and where stated. */
void sonar_letters_destroy(sonar_letters *letters);
size_t sonar_letters_room(const sonar_letters *letters);

/* Data thread: writes the letter's state to this rank's offer; acts on all offers. */
void sonar_letters_offer(const sonar_letters *letters, sonar_offer *offer);
sonar_code sonar_letters_round(sonar_letters *letters, const sonar_offer *offer, sonar_error *err);

/* Control thread, from here on. A descriptor that is readable from a letter to answer, or an
 * outcome, until clear; NULL: -1. */
int sonar_letters_fd(const sonar_letters *letters);
void sonar_letters_clear(sonar_letters *letters);
/* The letter in work, which this rank has to answer if `asked` is set; until close. */
const uint8_t *sonar_letters_read(const sonar_letters *letters);
bool sonar_letters_asked(const sonar_letters *letters);
/* why NULL: this rank is ready. */
void sonar_letters_answer(sonar_letters *letters, const char *why);
sonar_outcome sonar_letters_outcome(const sonar_letters *letters);
/* Why it was dropped: the first refusal of any rank. */
const char *sonar_letters_refusal(const sonar_letters *letters);
/* This rank has handled the outcome: another letter may come. */
void sonar_letters_close(sonar_letters *letters);

/* On the root: a letter is on its way, or has an outcome and is not closed. NULL: false. */
bool sonar_letters_busy(const sonar_letters *letters);
/* Only while not busy. SONAR_EINVAL: it is longer than the room. */
sonar_code sonar_letters_write(sonar_letters *letters, size_t parts, const sonar_letter_part *part,
                               sonar_error *err);
void sonar_letters_send(sonar_letters *letters);
/* Waits up to 20 s for the outcome, then this rank refuses. Once `ended` says that the data thread
 * has ended (NULL: it does not run), the letter is dropped. */
void sonar_letters_await(sonar_letters *letters, const atomic_bool *ended);

#endif
