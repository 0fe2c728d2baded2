/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which topics have a subscriber, from the subscription messages that an XPUB socket passes on. */
#ifndef SONAR_TOPIC_H
#define SONAR_TOPIC_H

#include "status/topic.h"

/* held[s][n]: the first n bytes of topic s are subscribed to by at least one peer. A subscription
 * that is not a prefix of a topic never matches and is not stored, so memory is bounded whatever
 * peers send. */
typedef struct sonar_interest {
    bool held[SONAR_SURFACES][SONAR_TOPIC_MOST + 1];
} sonar_interest;

/* Takes one message read from the socket: first byte 1 = subscribe, 0 = cancelled, other bytes are
 * ignored. With ZMQ_XPUB_VERBOSE the socket passes on every subscribe, but a cancel only when the
 * last peer with this prefix has cancelled it or disconnected; so `held` is a set, not a count.
 * Counting with XPUB_VERBOSER would be wrong: a SUB that subscribes twice to one prefix sends two
 * subscribes and only one cancel. Returns the SONAR_WANT bits of the topics that a subscribe asks
 * for, otherwise 0. */
uint32_t sonar_interest_apply(sonar_interest *interest, const uint8_t *message, size_t bytes);
/* A subscription to a non-empty prefix of its name wants a surface. The empty subscription wants
 * only the topics that are sent for every window. */
uint32_t sonar_interest_wanted(const sonar_interest *interest);

#endif
