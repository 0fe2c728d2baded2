/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Records of miniSEED 2 (SEED reference manual 2.4, chapter 8 and appendix B): integers of 16 and
 * 32 bits, floats, Steim 1 and 2, in either byte order. What contradicts itself is refused.
 */
#ifndef FEED_MINISEED_H
#define FEED_MINISEED_H

#include "sonar/sonar.h"

enum {
    MINISEED_BYTES = 512,
    MINISEED_SAMPLES_MOST = 7 * 15 * 7 + 1, /* Steim 2: 7 frames of 15 words of 7 samples */
    MINISEED_NAME = 16
};

typedef struct miniseed {
    char name[MINISEED_NAME]; /* NET_STA_LOC_CHAN */
    int64_t utc_ns;           /* of the first sample, corrected */
    double fs_hz;             /* 0: no samples */
    size_t samples;           /* 0: a message, such as a log */
    float sample[MINISEED_SAMPLES_MOST];
} miniseed;

/* record: MINISEED_BYTES. NULL: it was read; else what is wrong, in `text`. */
const char *miniseed_read(const uint8_t *record, miniseed *to, char text[160]);

#endif
