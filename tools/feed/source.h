/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples that come by themselves: standard input ("-"), a file or FIFO, a TCP connection made
 * (tcp://HOST:PORT) or awaited (tcp-listen://ADDRESS:PORT), datagrams (udp://ADDRESS:PORT, a
 * multicast group is joined), or a sound card (alsa:DEVICE). libsndfile reads them: raw samples as
 * declared, or what has a header of its own, such as WAV. A connection that ends is renewed. One
 * thread.
 */
#ifndef FEED_SOURCE_H
#define FEED_SOURCE_H

#include <signal.h>
#include <sndfile.h>

#include "card.h"
#include "recording.h"

/* What counts datagrams, in each of them. */
typedef struct source_counter {
    size_t offset, bytes; /* bytes 0: there is none; at most 8 */
    bool big_endian;
} source_counter;

typedef struct source_spec {
    const char *tool, *where;
    sim_raw raw; /* type 0: the stream has a header */
    size_t skip; /* bytes of a datagram before its samples */
    source_counter counter;
    const volatile sig_atomic_t *stop;
} source_spec;

typedef struct source {
    source_spec spec;
    sim_recording_info info; /* channels, rate, format */
    int kind, listener, datagrams;
    int fd, writer; /* that libsndfile reads; of what comes in pieces the other end of that pipe */
    card *card;     /* NULL: it is none */
    SNDFILE *sound;
    size_t frame;            /* bytes of a sample of all channels, raw */
    uint64_t next;           /* counter of the next datagram */
    bool counted;            /* it is known */
    bool told;               /* that datagrams have another size */
    size_t in_hand;          /* samples of a datagram or of the card that are still to be read */
    int64_t here_ns;         /* UTC at which the last of them was taken; 0: unknown */
    uint64_t losses, strays; /* samples; datagrams that came late, twice or of another size */
} source;

/* What was read. */
typedef struct source_piece {
    size_t samples;  /* 0: it has ended, or was stopped */
    uint64_t lost;   /* samples that are missing before these */
    int64_t here_ns; /* UTC at which the last of them was there; 0: now */
    bool renewed;    /* another connection: the clock has to tell how many are missing */
} source_piece;

/* Is it one of the forms above? */
bool source_accepts(const char *where);
/* "2:2:be", OFFSET:BYTES:ORDER. */
bool source_counter_parse(const char *text, source_counter *counter);
/* Waits for a connection and for a header. SONAR_EINVAL, SONAR_EUNAVAILABLE; close is needed in any
 * case. */
sonar_code source_open(source *source, const source_spec *spec, sonar_error *err);
/* At most `most` samples, as to[sample][channel]; waits for all of these, or for a datagram. */
sonar_code source_read(source *source, float *to, size_t most, source_piece *piece,
                       sonar_error *err);
/* Ends a read that waits, for a handler of signals. */
void source_interrupt(const source *source);
void source_close(source *source);

#endif
