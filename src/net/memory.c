/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "net/blame.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/core.h"
#include "core/room.h"

/* Freed memory that malloc keeps, queues of threads and libraries, a message on its way. */
#ifdef __SANITIZE_ADDRESS__
static const size_t margin_bytes = (size_t)1 << 30; /* freed memory is kept aside */
#else
static const size_t margin_bytes = (size_t)256 << 20;
#endif
static const int64_t samples_wait_ns = 5000000000, others_wait_ns = 1000000000,
                     between_ns = 3000000000, given_back_after_ns = 1000000000,
                     own_after_ns = 10000000000;

struct sonar_memory {
    size_t most_allowed, margin;
    _Atomic size_t base, mapped, allowed[SONAR_MEMORY_SIDES];
    _Atomic int64_t since_ns; /* exceeded since, 0: it is not */
    pthread_mutex_t lock;     /* of blame */
    sonar_blame blame;
    int64_t acted_ns[SONAR_MEMORY_SIDES]; /* each side its own */
    int64_t trimmed_ns[SONAR_MEMORY_SIDES];
    unsigned trims[SONAR_MEMORY_SIDES]; /* times that freed memory is still to be given back */
};

size_t sonar_resident_bytes(void) {
    char text[128];
    unsigned long pages = 0;
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[bytes > 0 ? bytes : 0] = '\0';
    if (sscanf(text, "%*s %lu", &pages) != 1)
        return 0;
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

sonar_memory *sonar_memory_create(const char *root) {
    sonar_memory *memory = sonar_alloc(1, sizeof *memory);
    const size_t total = (size_t)sonar_room_read(root).total_bytes;
    if (!memory)
        return NULL;
    pthread_mutex_init(&memory->lock, NULL);
    memory->most_allowed = total / 4;
    memory->margin = sonar_min_size(margin_bytes, total / 8);
    return memory;
}

void sonar_memory_destroy(sonar_memory *memory) {
    if (memory)
        pthread_mutex_destroy(&memory->lock);
    free(memory);
}

void sonar_memory_begin(sonar_memory *memory) {
    atomic_store(&memory->base, sonar_resident_bytes());
}

void sonar_memory_allow(sonar_memory *memory, sonar_memory_side side, size_t peers, size_t messages,
                        size_t bytes) {
    double product = (double)peers * (double)messages * (double)bytes;
    size_t most = memory->most_allowed;
    atomic_store(&memory->allowed[side], product < (double)most ? (size_t)product : most);
}

void sonar_memory_map(sonar_memory *memory, size_t bytes) {
    atomic_store(&memory->mapped, bytes);
}

static size_t limit_of(const sonar_memory *memory) {
    size_t limit = atomic_load(&memory->base) + atomic_load(&memory->mapped) + memory->margin;
    for (int i = 0; i < SONAR_MEMORY_SIDES; i++)
        limit += atomic_load(&memory->allowed[i]);
    return limit;
}

/* Closing a socket frees in libzmq's threads, over some seconds where it holds many pieces. */
static void give_back(sonar_memory *memory, sonar_memory_side side, int64_t now_ns) {
    if (!memory->trims[side] || now_ns - memory->trimmed_ns[side] < given_back_after_ns)
        return;
    memory->trims[side]--;
    memory->trimmed_ns[side] = now_ns;
    malloc_trim(0);
}

static void closed(sonar_memory *memory, sonar_memory_side side, int64_t now_ns) {
    enum { TRIMS = 10 };
    memory->acted_ns[side] = memory->trimmed_ns[side] = now_ns;
    memory->trims[side] = TRIMS;
}

/* Of being over the limit, until this side acts. */
static int64_t patience_of(sonar_memory *memory, sonar_memory_side side, int64_t now_ns) {
    pthread_mutex_lock(&memory->lock);
    const sonar_memory_side blamed = sonar_blame_update(&memory->blame, now_ns);
    pthread_mutex_unlock(&memory->lock);
    return side == blamed ? 0 : side == SONAR_MEMORY_IN ? samples_wait_ns : others_wait_ns;
}

bool sonar_memory_exceeded(sonar_memory *memory, sonar_memory_side side, int64_t now_ns) {
    give_back(memory, side, now_ns);
    const int64_t patience_ns = patience_of(memory, side, now_ns);
    if (sonar_resident_bytes() <= limit_of(memory)) {
        atomic_store(&memory->since_ns, 0);
        return false;
    }
    int64_t since_ns = atomic_load(&memory->since_ns);
    if (!since_ns)
        atomic_store(&memory->since_ns, since_ns = now_ns);
    if (now_ns - since_ns > own_after_ns)
        sonar_memory_begin(memory);
    bool lately = memory->acted_ns[side] && now_ns - memory->acted_ns[side] < between_ns;
    if (now_ns - since_ns < patience_ns || lately)
        return false;
    closed(memory, side, now_ns);
    return true;
}
