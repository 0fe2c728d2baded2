/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "frames.h"

#include <stdlib.h>
#include <string.h>

float test_sample(uint32_t epoch, size_t channel, uint64_t index) {
    uint64_t mixed = (index * 31 + channel * 7919 + epoch * 101) % 32749;
    return (float)mixed - 16000.0f == 0 ? 1.0f : (float)mixed - 16000.0f;
}

static void put_sample(uint8_t *to, int type, float value) {
    int32_t integer = (int32_t)value;
    if (type == SONAR_F32)
        memcpy(to, &value, 4);
    else
        memcpy(to, &integer, sonar_dtype_size((sonar_dtype)type)); /* little-endian hosts only */
}

test_frame test_frame_make(const sonar_frame *frame) {
    test_frame made = {.payload_bytes = (size_t)sonar_frame_payload_bytes(frame)};
    size_t size = sonar_dtype_size((sonar_dtype)frame->type);
    sonar_frame_encode(frame, made.header);
    made.payload = malloc(made.payload_bytes);
    if (!made.payload)
        abort();
    for (size_t k = 0; k < frame->channels; k++)
        for (size_t s = 0; s < frame->samples; s++) {
            size_t at = frame->layout == SONAR_FRAME_INTERLEAVED ? s * frame->channels + k
                                                                 : k * frame->samples + s;
            put_sample(
                made.payload + at * size, frame->type,
                test_sample(frame->epoch, frame->first_channel + k, frame->first_sample + s));
        }
    return made;
}

void test_frame_free(test_frame *frame) {
    free(frame->payload);
    frame->payload = NULL;
}

float test_window_sample(const sonar_window *window, size_t channel, uint64_t index) {
    sonar_buffer span[2];
    sonar_window_span(window, index, 1, span);
    const float *row = span[0].data;
    return row[(ptrdiff_t)channel * span[0].stride[0]];
}

size_t test_window_errors(const sonar_window *window, uint64_t first, size_t length) {
    sonar_buffer span[2];
    size_t errors = 0;
    sonar_window_span(window, first, length, span);
    for (size_t k = 0; k < window->ring.shape[0]; k++)
        for (size_t part = 0, at = 0; part < 2; at += span[part].shape[1], part++) {
            const float *row = (const float *)span[part].data + (ptrdiff_t)k * span[part].stride[0];
            for (size_t s = 0; s < span[part].shape[1]; s++)
                errors += row[s] != test_sample(window->epoch, k, first + at + s);
        }
    return errors;
}
