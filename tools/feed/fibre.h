/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What interrogators of a fibre have in common: which of the channels are taken, the socket, and
 * messages that have [sample][channel] and are put into the grid in pieces. All of a fibre is one
 * unit of the grid. One thread.
 */
#ifndef FEED_FIBRE_H
#define FEED_FIBRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "instrument.h"

enum { FIBRE_RETRY_MS = 250, FIBRE_RETRY_MOST_MS = 16000 }; /* until it is dialled again */

#define FIBRE_FORM "HOST:PORT[/FIRST-LAST[:STEP]]"

/* Of samples, little-endian. */
typedef enum fibre_type {
    FIBRE_SHORT,
    FIBRE_INT,
    FIBRE_LONG,
    FIBRE_FLOAT,
    FIBRE_DOUBLE,
    FIBRE_TYPES
} fibre_type;

typedef struct fibre {
    instrument_spec spec;
    const char *name; /* spec.where; the grid borrows it */
    char endpoint[300];
    size_t first, last, step; /* channels that are taken; last SIZE_MAX: to the end */
    void *context, *socket;   /* of ZeroMQ */
    size_t taken;             /* channels that the grid has */
    size_t longest;           /* samples of a piece */
    float *sample;            /* [longest][taken] */
    bool held;                /* a message has samples that have not been put */
    size_t done;              /* its samples that have been */
    bool at_end;              /* the grid ends with the last of these: they were not late */
} fibre;

typedef struct fibre_message {
    const uint8_t *rows; /* [samples][channels], not aligned */
    size_t samples, channels;
    fibre_type type;
    double fs_hz;
    int64_t utc_ns; /* of its first sample */
    bool follows;   /* nothing is missing since the message before */
} fibre_message;

/* Bounds that a header has to keep: bytes of a message, channels, and its time, in 2096. */
extern const double fibre_bytes_most, fibre_channels_most;
extern const int64_t fibre_utc_most_ns;

const char *fibre_type_name(fibre_type type);
size_t fibre_type_width(fibre_type type);

/* Reads spec->address. fibre_close is needed in any case. SONAR_EINVAL: it is not of this `form`;
 * SONAR_ENOMEM. */
sonar_code fibre_open(fibre *fibre, const instrument_spec *spec, const char *form,
                      sonar_error *err);
/* Makes the socket, of a type of ZeroMQ, and dials. SONAR_EINVAL: the address is none;
 * SONAR_ENOMEM. */
sonar_code fibre_dial(fibre *fibre, int type, sonar_error *err);
void fibre_hang_up(fibre *fibre);
void fibre_close(fibre *fibre);
/* Begins the grid as `like` says, whose rows and time are not read. SONAR_EINVAL: there are no such
 * channels, or too many; SONAR_ENOMEM. */
sonar_code fibre_begin(fibre *fibre, grid *grid, const fibre_message *like, double dx_m,
                       sonar_error *err);
/* Has it the channels and the rate that the grid began with? If not, it is counted. */
bool fibre_matches(const fibre *fibre, const grid *grid, size_t channels, double fs_hz);
/* One piece of the message, from sample `done` on; `held` says whether more is left. A message with
 * a sample that is no finite number is left out, and counted. */
void fibre_put(fibre *fibre, grid *grid, const fibre_message *message);

#endif
