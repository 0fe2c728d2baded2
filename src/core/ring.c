/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/core.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* Indices only increase. head and tail have cache lines of their own, so that the two threads do
 * not share one. */
struct sonar_ring {
    size_t mask;
    void **items;
    _Alignas(64) atomic_size_t head; /* next to pop, written by the consumer */
    _Alignas(64) atomic_size_t tail; /* next to push, written by the producer */
};

sonar_ring *sonar_ring_create(size_t capacity) {
    size_t size = 1;
    while (size < capacity)
        size *= 2;
    sonar_ring *ring = sonar_alloc(1, sizeof *ring);
    if (!ring)
        return NULL;
    ring->items = sonar_alloc(size, sizeof *ring->items);
    ring->mask = size - 1;
    if (!ring->items) {
        free(ring);
        return NULL;
    }
    return ring;
}

void sonar_ring_destroy(sonar_ring *ring) {
    if (!ring)
        return;
    free(ring->items);
    free(ring);
}

bool sonar_ring_push(sonar_ring *ring, void *item) {
    size_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - atomic_load_explicit(&ring->head, memory_order_acquire) > ring->mask)
        return false;
    ring->items[tail & ring->mask] = item;
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

void *sonar_ring_pop(sonar_ring *ring) {
    size_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == atomic_load_explicit(&ring->tail, memory_order_acquire))
        return NULL;
    void *item = ring->items[head & ring->mask];
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return item;
}

size_t sonar_ring_count(const sonar_ring *ring) {
    size_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return atomic_load_explicit(&ring->tail, memory_order_acquire) - head;
}

int sonar_wake_create(void) {
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

void sonar_wake_signal(int fd) {
    uint64_t one = 1;
    /* EAGAIN means that the counter is full, so the reader is awake already. */
    ssize_t written = write(fd, &one, sizeof one);
    (void)written;
}

void sonar_wake_clear(int fd) {
    uint64_t count;
    ssize_t got = read(fd, &count, sizeof count);
    (void)got;
}

bool sonar_wake_wait(int fd, int timeout_ms) {
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    int ready = poll(&poller, 1, timeout_ms);
    if (ready <= 0)
        return false;
    sonar_wake_clear(fd);
    return true;
}
