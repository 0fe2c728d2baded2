/* SPDX-License-Identifier: GPL-3.0-or-later */
/* What is wrong with a digitiser's messages, for whoever writes its adapter: headers by the
 * daemon's own checks (ingest/frame.h), order, gaps, clock, pace and values. Whatever a peer sends,
 * taking it is safe. One thread. */
#ifndef CHECK_INCOMING_H
#define CHECK_INCOMING_H

#include <stdio.h>

#include "config/config.h"

typedef struct incoming incoming;

/* config: what the frames have to match, borrowed until destroy; NULL: they are judged by
 * themselves. NULL is returned where there is no memory. */
incoming *incoming_create(const sonar_config *config);
void incoming_destroy(incoming *f);
/* A message of `parts` parts, of which the first two are looked at, as it came at now_ns
 * (monotonic), when it was utc_ns. */
void incoming_take(incoming *f, size_t parts, const void *const data[2], const size_t bytes[2],
                   int64_t now_ns, int64_t utc_ns);
/* What came, and what is wrong with it; an exit code of checker.h: within, beyond or nothing. */
int incoming_print(const incoming *f, FILE *to);

#endif
