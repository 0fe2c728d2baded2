/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Letters: changes that either all ranks make with the same window, or none makes. The root's
 * control thread writes a letter, and its data thread sends it to all. The control thread of every
 * other rank reads it, prepares the change, and answers that it is ready or why it refuses; the
 * offers of the rounds (ranks/agree.h) carry the answers. In the first round in which all are
 * ready, the change takes effect on every rank with the next window. In the first round in which
 * one refuses, all drop it. Only one letter exists at a time.
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

/* One of the parts of a letter. They are stored in this order, without gaps. */
typedef struct sonar_letter_part {
    const void *data;
    size_t bytes;
} sonar_letter_part;

/* The letter's size limit is the largest room that any rank passes. The data thread calls `hold`
 * when the change takes effect, before the outcome is visible. SONAR_ENOMEM, and the cluster's
 * errors. Control thread. */
sonar_code sonar_letters_create(const sonar_cluster *cluster, size_t room, void (*hold)(void *ctx),
                                void *ctx, sonar_letters **letters, sonar_error *err);
/* NULL is allowed here, and where it is stated. */
void sonar_letters_destroy(sonar_letters *letters);
size_t sonar_letters_room(const sonar_letters *letters);

/* Data thread: writes the letter's state to this rank's offer; acts on all offers. */
void sonar_letters_offer(const sonar_letters *letters, sonar_offer *offer);
sonar_code sonar_letters_round(sonar_letters *letters, const sonar_offer *offer, sonar_error *err);

/* From here on: control thread. A descriptor that becomes readable when there is a letter to answer
 * or an outcome, until clear; NULL: -1. */
int sonar_letters_fd(const sonar_letters *letters);
void sonar_letters_clear(sonar_letters *letters);
/* The current letter, valid until close. If `asked` is set, this rank has to answer it. */
const uint8_t *sonar_letters_read(const sonar_letters *letters);
bool sonar_letters_asked(const sonar_letters *letters);
/* Answers the letter. why: the reason for refusing; NULL: this rank is ready. */
void sonar_letters_answer(sonar_letters *letters, const char *why);
sonar_outcome sonar_letters_outcome(const sonar_letters *letters);
/* Why it was dropped: the first refusal of any rank. */
const char *sonar_letters_refusal(const sonar_letters *letters);
/* This rank has handled the outcome, and another letter may follow. */
void sonar_letters_close(sonar_letters *letters);

/* On the root: a letter was sent, or its outcome was not closed yet. NULL: false. */
bool sonar_letters_busy(const sonar_letters *letters);
/* Writes a letter; only while not busy. SONAR_EINVAL: it is longer than the room. */
sonar_code sonar_letters_write(sonar_letters *letters, size_t parts, const sonar_letter_part *part,
                               sonar_error *err);
void sonar_letters_send(sonar_letters *letters);
/* Waits up to 20 s for the outcome; then this rank refuses. If `ended` becomes true because the
 * data thread has ended, the letter is dropped. `ended` NULL: the data thread does not run. */
void sonar_letters_await(sonar_letters *letters, const atomic_bool *ended);

#endif
