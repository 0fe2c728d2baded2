/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Which topics somebody wants, from the subscription messages an XPUB socket hands up. */
#ifndef SONAR_TOPIC_H
#define SONAR_TOPIC_H

#include "status/topic.h"

/* held[s][n]: the first n bytes of topic s are subscribed to by at least one peer. A subscription
 * that is no prefix of a topic can never match, so nothing of it is kept: memory is bounded
 * whatever peers send. */
typedef struct sonar_interest {
    bool held[SONAR_SURFACES][SONAR_TOPIC_MOST + 1];
} sonar_interest;

/* Takes one message read from the socket (first byte 1 = subscribe, 0 = gone, else ignored). With
 * ZMQ_XPUB_VERBOSE every subscribe comes up, but "gone" only when the last peer that held this
 * prefix has cancelled it or died; so held is a set, not a count. Counting (XPUB_VERBOSER) would go
 * wrong: a SUB that subscribes twice to one prefix sends two subscribes and only one cancel.
 * Returns the SONAR_WANT bits of the topics that it newly asks for, 0 for anything else. */
uint32_t sonar_interest_apply(sonar_interest *interest, const uint8_t *message, size_t bytes);
/* A non-empty prefix of its name wants a surface; the empty one only what is sent every window. */
uint32_t sonar_interest_wanted(const sonar_interest *interest);

#endif
