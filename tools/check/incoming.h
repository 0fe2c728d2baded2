/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Finds mistakes in a digitiser's messages, for the author of its adapter: headers by the daemon's
 * own checks (ingest/frame.h), order, gaps, clock, pace and values. Any input from a peer is safe.
 * One thread. */
#ifndef CHECK_INCOMING_H
#define CHECK_INCOMING_H

#include <stdio.h>

#include "config/config.h"

typedef struct incoming incoming;

/* config: the configuration that the frames have to match, borrowed until destroy; NULL: they are
 * judged without one. Returns NULL if there is no memory. */
incoming *incoming_create(const sonar_config *config);
void incoming_destroy(incoming *f);
/* Takes a message of `parts` parts, of which it reads the first two. It was received at now_ns
 * (monotonic) and utc_ns. */
void incoming_take(incoming *f, size_t parts, const void *const data[2], const size_t bytes[2],
                   int64_t now_ns, int64_t utc_ns);
/* Prints what was received and what is wrong with it; returns an exit code of checker.h: within,
 * beyond or nothing. */
int incoming_print(const incoming *f, FILE *to);

#endif
