/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Letters: changes that all ranks make with the same window, or none of them. The root's control
 * thread writes a letter and its data thread sends it to all. The control thread of every other
 * rank reads it, prepares what it asks for, and answers that it is ready, or why it refuses; the
 * offers of the rounds (ranks/agree.h) tell the answers. In the first round in which all are ready
 * every rank holds the change from the next window on; in the first in which one refuses, all drop
 * it. One letter is on its way at a time.
 *
 * What stands in a letter is its writer's business. Nothing is allocated after create. Collective
 * are create and round.
 */
#ifndef SONAR_RANKS_LETTERS_H
#define SONAR_RANKS_LETTERS_H

#include <stdatomic.h>

#include "ranks/agree.h"

typedef struct sonar_letters sonar_letters;

typedef enum sonar_outcome { SONAR_NO_OUTCOME = 0, SONAR_HELD, SONAR_DROPPED } sonar_outcome;

/* One of the parts that a letter is made of, one behind the other. */
typedef struct sonar_letter_part {
    const void *data;
    size_t bytes;
} sonar_letter_part;

/* With room for as many bytes as any rank says. `hold` is called by the data thread when the change
 * holds, before the outcome is there. SONAR_ENOMEM, and the cluster's errors. Control thread. */
sonar_code sonar_letters_create(const sonar_cluster *cluster, size_t room, void (*hold)(void *ctx),
                                void *ctx, sonar_letters **letters, sonar_error *err);
/* NULL is allowed, here and where it is said. */
void sonar_letters_destroy(sonar_letters *letters);
size_t sonar_letters_room(const sonar_letters *letters);

/* Data thread: what this rank's offer says of its letter, and what follows from all offers. */
void sonar_letters_offer(const sonar_letters *letters, sonar_offer *offer);
sonar_code sonar_letters_round(sonar_letters *letters, const sonar_offer *offer, sonar_error *err);

/* Control thread, from here on. Becomes readable when there is a letter to answer or an outcome,
 * until clear; NULL: -1. */
int sonar_letters_fd(const sonar_letters *letters);
void sonar_letters_clear(sonar_letters *letters);
/* The letter in work, which is another rank's to answer if asked; until close. */
const uint8_t *sonar_letters_read(const sonar_letters *letters);
bool sonar_letters_asked(const sonar_letters *letters);
/* why NULL: this rank is ready. */
void sonar_letters_answer(sonar_letters *letters, const char *why);
sonar_outcome sonar_letters_outcome(const sonar_letters *letters);
/* Why it was dropped: the first refusal of all ranks. */
const char *sonar_letters_refusal(const sonar_letters *letters);
/* This rank is done with the letter that has an outcome: another one may come. */
void sonar_letters_close(sonar_letters *letters);

/* The root's: a letter is on its way, or has an outcome and is not closed. NULL: no. */
bool sonar_letters_busy(const sonar_letters *letters);
/* While none is. SONAR_EINVAL: it is longer than the room. */
sonar_code sonar_letters_write(sonar_letters *letters, size_t parts, const sonar_letter_part *part,
                               sonar_error *err);
void sonar_letters_send(sonar_letters *letters);
/* Waits for the outcome: for 20 s, then this rank refuses. Once the data thread has ended, which
 * `ended` says (NULL: it does not run), the letter is dropped. */
void sonar_letters_await(sonar_letters *letters, const atomic_bool *ended);

#endif
