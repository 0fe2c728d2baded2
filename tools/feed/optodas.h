/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What ASN's OptoDAS says of its messages: JSON, as the XPUB's welcome message and again whenever
 * it changes. A message then has its time, int64 in ns since 1970, and [package][channel], all
 * little-endian.
 */
#ifndef FEED_OPTODAS_H
#define FEED_OPTODAS_H

#include <stdbool.h>
#include <stddef.h>

#include "fibre.h"

enum { OPTODAS_TIME = 8 };

typedef struct optodas_header {
    size_t packages, channels, width; /* width: bytes of a sample */
    fibre_type type;
    double fs_hz, dx; /* dx: 0 if it is not said */
} optodas_header;

/* Is it JSON? Of samples, one message in 256 begins like it. */
bool optodas_is_header(const char *data, size_t bytes);
/* NULL: it was read; else what is wrong, in `text`. */
const char *optodas_read_header(const char *data, size_t bytes, optodas_header *to, char text[160]);

#endif
