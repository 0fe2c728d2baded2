/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What a Febus A1 says of a block of samples: a head (int32 the number of sets of data, double the
 * time in s since 1970) and a description (of distance in m, time in ms and a third axis: double
 * spacing[3], origin[3], int32 extent[3][2], the first and the last index; int32 bytes of a
 * sample). A block is float32 [time][distance]. All is little-endian and packed.
 */
#ifndef FEED_FEBUS_H
#define FEED_FEBUS_H

#include <stddef.h>
#include <stdint.h>

enum { FEBUS_HEAD = 12, FEBUS_ABOUT = 76, FEBUS_WIDTH = 4 };

typedef struct febus_header {
    size_t samples, channels; /* of the block; samples are even */
    double fs_hz, dx_m, x_m;  /* x_m: of channel 0 along the fibre */
    int64_t utc_ns;           /* of its first sample */
} febus_header;

/* One part of an answer. */
typedef struct febus_part {
    const uint8_t *data;
    size_t bytes;
} febus_part;

/* sample_bytes: of the part with samples. NULL: it was read, and all parts fit together; else what
 * is wrong, in `text`. */
const char *febus_read_header(febus_part head, febus_part about, size_t sample_bytes,
                              febus_header *to, char text[200]);

#endif
