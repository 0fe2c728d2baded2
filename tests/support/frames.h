/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Frames whose every sample is known from its channel and index, for tests of ingest. */
#ifndef SONAR_TEST_FRAMES_H
#define SONAR_TEST_FRAMES_H

#include "ingest/frame.h"
#include "ingest/ingest.h"

typedef struct test_frame {
    uint8_t header[SONAR_FRAME_HEADER_BYTES];
    uint8_t *payload;
    size_t payload_bytes;
} test_frame;

/* The value of a sample: exact in every sample type, never 0. */
float test_sample(uint32_t epoch, size_t channel, uint64_t index);
/* Encodes the frame's header and its samples; free it with test_frame_free. */
test_frame test_frame_make(const sonar_frame *frame);
void test_frame_free(test_frame *frame);
/* The sample of a window as the data thread reads it. */
float test_window_sample(const sonar_window *window, size_t channel, uint64_t index);
/* Samples of [first, first + length) that differ from test_sample, all channels. */
size_t test_window_errors(const sonar_window *window, uint64_t first, size_t length);

#endif
