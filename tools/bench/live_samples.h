/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * What the senders of a live run send: white noise and a plane wave, converted before the stream
 * begins and sent without a copy.
 *
 * The noise must not repeat within a window: it would be a comb of tones, at which the MVDR steers,
 * and the daemon would report every sensor as stuck. A separate window of noise for every channel
 * would take gigabytes. If the channels are a uniform line and frames are channel-major, all frames
 * of a sender share one list of rows. A row has a frame's samples of one channel, and a frame is
 * one row per channel, from a randomly drawn row on. The wave's lead grows by the same share of a
 * cycle from channel to channel and from row to row. So a frame begins at a row where the wave has
 * the right phase for the frame's time, to a sixteenth of a cycle. For other arrays and layouts,
 * and in shared memory, where a block keeps its samples, whole frames are sent in turn.
 */
#ifndef LIVE_SAMPLES_H
#define LIVE_SAMPLES_H

#include "live.h"

typedef struct live_samples {
    size_t frame_bytes, row_bytes;
    uint8_t *payload; /* s16; [rows][frame_samples], or [frames] in the stream's layout */
    size_t frames;    /* frames sent in turn; 0: frames are drawn from rows */
    size_t phases, cycles;
    size_t starts;   /* rows that a frame may begin with, for each phase of the wave */
    uint32_t *start; /* [phases][starts], the least recently drawn first */
    uint64_t random;
} live_samples;

/* Samples of the array's channels first_channel, ... least: at least this many whole frames; 0:
 * frames from rows if possible. False: no memory, or *stop. */
bool live_samples_create(const live_stream *stream, uint32_t first_channel, uint32_t channels,
                         size_t least, const volatile sig_atomic_t *stop, live_samples *samples);
/* The samples of frame k, for reading; called for k = 0, 1, ... */
void *live_samples_frame(live_samples *samples, uint64_t k);
void live_samples_destroy(live_samples *samples);

#endif
