/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Pieces of recorded data, passed between the filling thread and the recorder's thread, and back.
 * Inside src/record only. */
#ifndef SONAR_RECORD_PIECES_H
#define SONAR_RECORD_PIECES_H

#include <stdatomic.h>

#include "core/core.h"
#include "record/record.h"

enum { SONAR_MESSAGE_PIECE_BYTES = 1 << 16, SONAR_PIECES_LEAST = 8 };

typedef struct sonar_piece {
    uint8_t *bytes;
    /* samples: rows [channel][sonar_pieces.samples], the first `about.samples` of each */
    sonar_stretch about; /* without its ring */
    size_t lacks;
    sonar_lack *lack; /* [sonar_stretch_lacks_most] */
    /* messages: used bytes, which may be a part of a message */
    size_t used;
    bool begins, ends;
    sonar_surface surface;
    uint64_t message_bytes;
    int64_t utc_ns;
} sonar_piece;

typedef struct sonar_pieces {
    size_t count, channels, width; /* bytes of a sample */
    size_t samples;                /* samples per channel of one piece */
    size_t piece_bytes, lacks_most;
    double ns_a_sample;
    sonar_piece *piece; /* [count] */
    uint8_t *bytes;     /* [count][piece_bytes] */
    sonar_lack *lack;   /* [count][lacks_most] */
    sonar_ring *empty, *filled;
    int wake;           /* eventfd of the recorder's thread */
    atomic_bool wanted; /* the recorder wants pieces now */
    _Atomic uint64_t
        flushes; /* counted by the filling thread, each time it has handed over all that it held */
    sonar_piece *open;               /* the filling thread's piece that is not full yet */
    sonar_record_counters *counters; /* dropped[SONAR_RECORD_SLOW] is the filling thread's */
} sonar_pieces;

/* Computes the number of pieces, and samples and bytes of one, for a spec. */
void sonar_pieces_plan(const sonar_recorder_spec *spec, sonar_pieces *pieces);
/* False: no memory, or no descriptor. Call destroy in any case. */
bool sonar_pieces_create(sonar_pieces *pieces);
void sonar_pieces_destroy(sonar_pieces *pieces);

/* Filling threads: samples.c and messages.c. */
void sonar_pieces_hand_over(sonar_pieces *pieces, sonar_piece *piece);
bool sonar_samples_wanted(void *pieces);
void sonar_samples_take(void *pieces, const sonar_stretch *stretch);
void sonar_samples_flush(void *pieces);
void sonar_messages_take(sonar_pieces *pieces, sonar_surface surface, const char *header,
                         const void *data, size_t bytes);

#endif
