/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Readers that subscribe faster than libzmq takes it in. Any of its calls reads all subscriptions
 * that have come before it returns, so the output thread stays in there for as long as more come,
 * keeps them all, and neither counts nor hangs up. A thread of its own sees that, and hangs up on
 * those who have sent what libzmq has no room for.
 *
 * Behind the gate (net.h) honest readers lose nothing without it: beside six floods that came again
 * for 60 s they got 3837 of 3837 windows over TCP and 3840 of 3840 over ipc, with gaps of at most
 * 0.22 s and 23 MiB; with it all, too, 0.06 s and 26 MiB, on a machine with less other work. */
#include <string.h>

#include "output/internal.h"

enum {
    LOOK_MS = 50,
    LOOKS_LOST = 3,     /* in a row; the output thread comes round in two of them */
    UNREAD_LEAST = 1024 /* bytes; of who keeps to the limits libzmq has read everything by then */
};

static void hang_up(sonar_output *output) {
    char endpoint[sizeof output->endpoint];
    pthread_mutex_lock(&output->lock);
    memcpy(endpoint, output->endpoint, sizeof endpoint);
    pthread_mutex_unlock(&output->lock);
    atomic_fetch_add(&output->flooders, sonar_connections_abort_unread(endpoint, UNREAD_LEAST));
}

void *sonar_output_watch_floods(void *arg) {
    sonar_output *output = arg;
    uint64_t seen = 0;
    for (int lost = 0; !sonar_wake_wait(output->joined, LOOK_MS);) {
        const uint64_t rounds = sonar_output_rounds(output);
        lost = rounds == seen ? lost + 1 : 0;
        seen = rounds;
        if (lost >= LOOKS_LOST)
            hang_up(output);
    }
    return NULL;
}
