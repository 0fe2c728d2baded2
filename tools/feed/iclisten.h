/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Messages of Ocean Sonics' icListen over TCP. Numbers are big-endian, samples little-endian:
 *
 *   u8 type ('1' samples, '2' what they are, others), u8 0x2A, u16 bytes that follow; these are
 *   chunks of u8 type, u8 version, u16 bytes that follow:
 *     A  u32 UTC, s since 1970; u64 the sample counter at that moment
 *     E  u32 sampling rate, Hz; u16; u8 form of a sample, 0x83 is 24 bits with a sign; u8
 *     G  u32; i32 largest and smallest count; i32 the voltages that these are, uV
 *     B  u32 first sample, from the counter in A on; u8 channels; u8 form; u16 samples; samples
 */
#ifndef FEED_ICLISTEN_H
#define FEED_ICLISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ICLISTEN_HEAD = 4, ICLISTEN_SYNC = 0x2A, ICLISTEN_FORM = 0x83, ICLISTEN_WIDTH = 3 };

typedef struct iclisten_message {
    bool has_epoch, has_rate, has_scale, has_samples;
    uint32_t epoch_s, rate_hz, first;
    uint64_t epoch_count;
    uint8_t form;
    int32_t most_count, most_uv;
    size_t channels, samples;
    const uint8_t *sample; /* [samples][channels] of ICLISTEN_WIDTH bytes, in the payload */
} iclisten_message;

/* What follows a message's head. NULL: it was read; else what is wrong, in `text`. */
const char *iclisten_read(const uint8_t *payload, size_t bytes, iclisten_message *to,
                          char text[160]);

#endif
