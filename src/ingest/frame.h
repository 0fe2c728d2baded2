/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The wire format of sample frames: a fixed little-endian header of 64 bytes (docs/protocol.md).
 * Shared by the daemon, which decodes, and by the simulator and the replay tool, which encode. */
#ifndef SONAR_FRAME_H
#define SONAR_FRAME_H

#include "sonar/sonar.h"

enum { SONAR_FRAME_HEADER_BYTES = 64, SONAR_FRAME_MAX_SAMPLES = 1 << 20 };
enum { SONAR_FRAME_SPIKE = 1024 };
enum { SONAR_FRAME_INTERLEAVED = 0, SONAR_FRAME_CHANNEL_MAJOR = 1 };
enum { SONAR_FRAME_DISCONTINUITY = 1, SONAR_FRAME_OVERLOAD = 2, SONAR_FRAME_UNSYNCHRONISED = 4 };
enum { SONAR_FRAME_SHARED = 8 }; /* the samples lie in shared memory (net/shared.h) */
enum {
    SONAR_FRAME_REPLAY = 16
}; /* a recording is played: its UTC and pace differ from the clock's */
/* Flags that describe the samples; the others describe how they are sent. */
enum {
    SONAR_FRAME_OF_SAMPLES =
        SONAR_FRAME_DISCONTINUITY | SONAR_FRAME_OVERLOAD | SONAR_FRAME_UNSYNCHRONISED
};

/* Times farther than this many nanoseconds from 1970 (beyond the year 2096) are clamped to it: no
 * sum or difference of times overflows then. */
#define SONAR_UTC_MOST_NS INT64_C(4000000000000000000)

typedef struct sonar_frame {
    uint32_t array_id, first_channel, channels, samples;
    uint8_t type;   /* SONAR_S16 .. SONAR_F32 */
    uint8_t layout; /* SONAR_FRAME_INTERLEAVED or _CHANNEL_MAJOR */
    uint16_t flags;
    uint32_t epoch;
    uint64_t sequence, first_sample;
    int64_t utc_ns; /* within SONAR_UTC_MOST_NS of 1970 once decoded */
    double fs_hz;
} sonar_frame;

/* Writes the header of `frame`. */
void sonar_frame_encode(const sonar_frame *frame, uint8_t header[SONAR_FRAME_HEADER_BYTES]);
/* Reads a header of `bytes` bytes and checks what can be checked without a configuration: magic,
 * version, header size, type, layout, counts, epoch, no overflow of first_sample or of the block's
 * last channel. SONAR_EPROTO. */
sonar_code sonar_frame_decode(const void *header, size_t bytes, sonar_frame *frame,
                              sonar_error *err);
/* Bytes the payload must have. */
uint64_t sonar_frame_payload_bytes(const sonar_frame *frame);

/* The largest magnitude of an f32 payload; not finite if any sample is not. 0 for integers. */
float sonar_frame_peak(const sonar_frame *frame, const void *payload);
/* True if all samples of an f32 payload are whole numbers of 32 bits, as in a recording of integer
 * frames. */
bool sonar_frame_has_counts(const sonar_frame *frame, const void *payload);
/* True if some channel of an f32 frame of at least 8 samples has one sample more than
 * SONAR_FRAME_SPIKE times as large as every other, where those are not all 0. Sound behind a
 * digitiser's filter has no such sample; a wrong bit of an exponent makes one. The first and the
 * last sample are not checked, because a bang may begin or end there. */
bool sonar_frame_has_spike(const sonar_frame *frame, const void *payload);

/* Converts `samples` samples of one channel of the block from the payload, starting at sample
 * `from`: integers keep their counts, f32 is copied. Returns false if a value is not finite. */
bool sonar_frame_unpack(const sonar_frame *frame, const void *payload, uint32_t channel,
                        uint32_t from, uint32_t samples, float *to);

/* Where the samples of several channels go: f32, or s16, to which only s16 frames can be unpacked.
 */
typedef struct sonar_rows {
    void *data;    /* of the first channel */
    size_t stride; /* samples from one channel to the next */
    bool s16;
    bool stream; /* bypasses the caches: for more data than they hold, which is not read soon */
} sonar_rows;

/* Unpacks `channels` channels of the block from `channel` on, samples [from, from + samples) of
 * each. Interleaved payloads are transposed in tiles that fit the first-level cache. Does not look
 * for values that are not finite. */
void sonar_frame_unpack_block(const sonar_frame *frame, const void *payload, uint32_t channel,
                              uint32_t channels, uint32_t from, uint32_t samples,
                              const sonar_rows *to);

#endif
