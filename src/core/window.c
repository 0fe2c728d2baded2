/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/window.h"

#include "core/core.h"

void sonar_window_span(const sonar_window *window, uint64_t first, size_t length,
                       sonar_buffer span[2]) {
    size_t channels = window->ring.shape[0], capacity = window->ring.shape[1];
    uint64_t position = window->position + (first - window->first_sample);
    size_t column = (size_t)(position % capacity);
    size_t head = sonar_min_size(length, capacity - column);
    char *data = window->ring.data;
    sonar_dtype type = window->ring.dtype;
    size_t size = sonar_dtype_size(type);
    span[0] = sonar_buffer_view(data + column * size, type, 2, (size_t[]){channels, head});
    span[1] = sonar_buffer_view(data, type, 2, (size_t[]){channels, length - head});
    span[0].stride[0] = span[1].stride[0] = window->ring.stride[0];
    span[0].space = span[1].space = window->ring.space;
    span[0].bytes = ((channels - 1) * capacity + head) * size;
    span[1].bytes = ((channels - 1) * capacity + length - head) * size;
}

/* Bit 0 of the first word stands for the last position that is a multiple of 64 and not after the
 * window's lookback. */
bool sonar_window_is_whole(const sonar_window *window, uint64_t first, size_t length) {
    uint64_t origin = (window->position - window->lookback) & ~(uint64_t)63;
    uint64_t at = window->position + (first - window->first_sample) - origin, end = at + length;
    for (uint64_t next; window->lacks && at < end; at = next) {
        next = (at | 63) + 1 < end ? (at | 63) + 1 : end;
        if (window->lacks[at / 64] & ~(uint64_t)0 >> (64 - (next - at)) << at % 64)
            return false;
    }
    return true;
}
