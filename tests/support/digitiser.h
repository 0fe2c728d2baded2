/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A digitiser small enough to check by reading: a plane wave of tones plus noise, in f32 frames, or
 * in s16 frames if frame.type is s16. */
#ifndef TEST_DIGITISER_H
#define TEST_DIGITISER_H

#include "ingest/frame.h"

typedef struct digitiser {
    void *context, *socket; /* PUSH */
    sonar_frame frame;      /* of the next frame; send advances sequence and first_sample */
    size_t sensors;         /* of the whole array */
    double spacing_m, c_mps;
    double az_deg;          /* from the axis */
    double level, noise;    /* rms of the wave and of each sensor's noise */
    double offset, drift;   /* constant of every channel; its growth per sample */
    double low_hz, high_hz; /* twelve tones spread over this band */
} digitiser;

/* Connects to endpoint; a line of `sensors`, block [first, first + count), frames of `samples`. */
digitiser digitiser_open(const char *endpoint, size_t sensors, uint32_t first, uint32_t count,
                         uint32_t samples);
void digitiser_close(digitiser *digitiser);
/* The payload of the next frame into to[samples * channels], sample-interleaved. */
void digitiser_fill(const digitiser *digitiser, float *to);
/* Sends `frames` frames, blocking when the receiver is slow. */
void digitiser_send(digitiser *digitiser, int frames);
/* Advances without sending. */
void digitiser_skip(digitiser *digitiser, int frames);
/* Sends raw parts, `parts` of them, lengths in bytes[]. */
void digitiser_raw(digitiser *digitiser, int parts, const void *const *data, const size_t *bytes);

#endif
