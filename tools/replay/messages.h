/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Published messages that sonard recorded, published again. */
#ifndef REPLAY_MESSAGES_H
#define REPLAY_MESSAGES_H

#include <signal.h>

#include "sonar/sonar.h"

typedef struct messages_spec {
    char *const *path; /* [files] one after the other */
    size_t files;
    const char *endpoint; /* ipc or loopback: they go out in the clear */
    double rate;          /* 0: as fast as may be */
    double start_s, duration_s;
    const volatile sig_atomic_t *stop;
} messages_spec;

/* Is it such a file, by its name? */
bool messages_is(const char *path);
/* Waits for a subscriber, then publishes each message when its time has come. Of a file that ends
 * within a message, as a daemon that was killed leaves it, that one is left out. SONAR_EINVAL,
 * SONAR_EUNAVAILABLE, SONAR_ESYS. */
sonar_code messages_play(const messages_spec *spec, sonar_error *err);

#endif
