/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Large blocks ask for huge pages: what is written in long strides, as the sample ring is, would
 * else spend its time on looking pages up. They are written here, not left to calloc, which would
 * have the threads in the running state wait for the system to find each page. */
void *sonar_alloc(size_t count, size_t size) {
    const size_t huge = (size_t)2 << 20;
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - huge)
        return NULL;
    size_t alignment = bytes >= 8 * huge ? huge : 64;
    bytes = (sonar_max_size(bytes, 1) + alignment - 1) & ~(alignment - 1);
    void *memory = aligned_alloc(alignment, bytes);
    if (!memory)
        return NULL;
    if (alignment == huge)
        madvise(memory, bytes, MADV_HUGEPAGE); /* a wish: refused, nothing is lost */
    memset(memory, 0, bytes);
    return memory;
}

void sonar_keep_freed_memory(void) {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the most there is */
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
#endif
}

size_t sonar_dtype_size(sonar_dtype dtype) {
    switch (dtype) {
    case SONAR_S16:
        return 2;
    case SONAR_S24:
        return 3;
    case SONAR_S32:
        return 4;
    case SONAR_F32:
        return 4;
    case SONAR_C32:
        return 8;
    case SONAR_U64:
        return 8;
    }
    return 0;
}

size_t sonar_buffer_count(const sonar_buffer *buffer) {
    size_t count = 1;
    for (int i = 0; i < buffer->rank; i++)
        count *= buffer->shape[i];
    return count;
}

sonar_buffer sonar_buffer_view(void *data, sonar_dtype dtype, int rank, const size_t *shape) {
    sonar_buffer view = {.data = data, .space = SONAR_HOST, .dtype = dtype, .rank = rank};
    size_t stride = 1;
    view.bytes = sonar_dtype_size(dtype);
    for (int i = rank - 1; i >= 0; i--) {
        view.shape[i] = shape[i];
        view.stride[i] = (ptrdiff_t)stride;
        stride *= shape[i];
        if (__builtin_mul_overflow(view.bytes, shape[i], &view.bytes))
            view.bytes = SIZE_MAX;
    }
    return view;
}

sonar_buffer sonar_buffer_part(const sonar_buffer *all, size_t index) {
    sonar_buffer part = sonar_buffer_view(NULL, all->dtype, all->rank - 1, all->shape + 1);
    part.data = (char *)all->data + index * part.bytes;
    part.space = all->space;
    return part;
}
