/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ZEROERS_MOST = 16 };
static const size_t shared_bytes =
    (size_t)256 << 20; /* below this size, starting a thread costs more than it saves */

struct part {
    char *begin;
    size_t bytes;
};

static void *zero_part(void *arg) {
    const struct part *part = arg;
    memset(part->begin, 0, part->bytes);
    return NULL;
}

static size_t zeroers_of(size_t bytes) {
    if (bytes < shared_bytes)
        return 1;
    const long processors = sysconf(_SC_NPROCESSORS_ONLN); /* opens a file */
    return processors > 1 ? sonar_min_size((size_t)processors, ZEROERS_MOST) : 1;
}

/* Each thread clears a part that consists of whole huge pages. The calling thread clears the last
 * part, and the parts of threads that cannot be started. */
void sonar_zero(void *memory, size_t bytes) {
    const size_t huge = (size_t)2 << 20, threads = zeroers_of(bytes);
    const size_t share = bytes / threads & ~(huge - 1);
    struct part part[ZEROERS_MOST];
    pthread_t thread[ZEROERS_MOST];
    size_t started = 0;
    for (bool good = true; good && started + 1 < threads; started += good) {
        part[started] = (struct part){(char *)memory + started * share, share};
        good = pthread_create(&thread[started], NULL, zero_part, &part[started]) == 0;
    }
    memset((char *)memory + started * share, 0, bytes - started * share);
    while (started)
        pthread_join(thread[--started], NULL);
}

/* Large blocks request huge pages: memory accessed with large strides, such as the sample ring,
 * would otherwise spend its time on page lookups. The pages are touched here, unlike by calloc, so
 * that running threads do not wait for the system to provide them. */
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
        madvise(memory, bytes, MADV_HUGEPAGE); /* only a hint: refusal is harmless */
    sonar_zero(memory, bytes);
    return memory;
}

void sonar_keep_freed_memory(void) {
#if defined(__GLIBC__)
    mallopt(M_MMAP_THRESHOLD, 32 << 20); /* the largest value that mallopt accepts */
    mallopt(M_TRIM_THRESHOLD, 256 << 20);
    struct rlimit most;
    if (!getrlimit(RLIMIT_AS, &most) && most.rlim_cur < (rlim_t)4 << 30)
        mallopt(M_ARENA_MAX, 1); /* each thread's own heap reserves 64 MiB of address space; too
                                    little would be left for stacks */
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
    case SONAR_F64:
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
