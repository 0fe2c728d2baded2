/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Publishes recorded messages of sonard again. */
#ifndef REPLAY_MESSAGES_H
#define REPLAY_MESSAGES_H

#include <signal.h>

#include "sonar/sonar.h"

typedef struct messages_spec {
    char *const *path; /* [files] played one after the other */
    size_t files;
    const char *endpoint; /* ipc or loopback, because messages are not encrypted */
    double rate;          /* 0: as fast as possible */
    double start_s, duration_s;
    const volatile sig_atomic_t *stop;
} messages_spec;

/* True if the file's name is that of recorded messages. */
bool messages_is(const char *path);
/* Waits for a subscriber, then publishes each message at its time. A message that is cut off at the
 * end of a file, as a killed daemon leaves it, is omitted. SONAR_EINVAL, SONAR_EUNAVAILABLE,
 * SONAR_ESYS. */
sonar_code messages_play(const messages_spec *spec, sonar_error *err);

#endif
