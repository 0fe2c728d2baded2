/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the senders of a live run send: white noise and a plane wave, converted before the stream
 * begins, and sent as it lies in memory.
 *
 * The noise must not come again within a window: it would be a comb of tones, at which the MVDR
 * steers, and the daemon would call every sensor stuck. A window of its own for every channel would
 * be gigabytes. Where the channels are a uniform line and a frame has channel after channel, all
 * frames of a sender share one list of rows, a frame's samples of a channel each, that is longer
 * than a frame: a frame is as many rows as there are channels, from a row that is drawn by chance.
 * From channel to channel the wave leads by the same share of a cycle, and so it does from row to
 * row: a frame begins at a row where the wave is, to a sixteenth of a cycle, where the time wants
 * it. Elsewhere, and in shared memory, where a block keeps its samples, whole frames go out in
 * turn.
 */
#ifndef LIVE_SAMPLES_H
#define LIVE_SAMPLES_H

#include "live.h"

typedef struct live_samples {
    size_t frame_bytes, row_bytes;
    uint8_t *payload; /* s16; [rows][frame_samples], or [frames] in the stream's layout */
    size_t frames;    /* sent in turn; 0: drawn */
    size_t phases, cycles;
    size_t starts;   /* rows that a frame may begin with, for each phase of the wave */
    uint32_t *start; /* [phases][starts], those that were drawn least lately first */
    uint64_t random;
} live_samples;

/* Those of channels first_channel, ... of the array. least: whole frames, so many or more; 0: drawn
 * where that can be. False: no memory, or *stop. */
bool live_samples_create(const live_stream *stream, uint32_t first_channel, uint32_t channels,
                         size_t least, const volatile sig_atomic_t *stop, live_samples *samples);
/* The samples of frame k, for reading; called for k = 0, 1, ... */
void *live_samples_frame(live_samples *samples, uint64_t k);
void live_samples_destroy(live_samples *samples);

#endif
