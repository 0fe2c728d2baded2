/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The daemon's side of shared memory. A digitiser connects, hands a memfd over and stays connected
 * for as long as it writes to it. What it hands over is not believed: only memory that cannot
 * shrink any more is mapped, since reading behind a file's end would end the process, and only of
 * tmpfs, since reading a hole of other files may.
 *
 * A segment whose digitiser has left is kept for a while, for messages that are still on their way,
 * and gives way at once to one that needs the room.
 */
#include "net/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "core/core.h"
#include "net/net.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x10
#endif

enum { VERSION = 1, PEERS_MOST = SONAR_SEGMENTS_MOST + 32, TICK_MS = 500, DESCRIPTORS_MOST = 4 };
static const int64_t offer_within_ns = 10000000000, kept_ns = 10000000000;

typedef struct segment {
    uint8_t *map; /* NULL: this place is free */
    uint64_t blocks, block_bytes, key;
    _Atomic uint64_t *done; /* [blocks], the daemon's own; the digitiser reads it */
    size_t readers;
    int64_t left_ns; /* when its digitiser left; 0: it is there */
} segment;

typedef struct peer {
    int fd;
    int64_t since_ns;
    size_t segment; /* SONAR_SEGMENTS_MOST: it has offered none yet */
} peer;

struct sonar_segments {
    sonar_segments_spec spec;
    char *path;
    const sonar_host *host;
    int listener, wake;
    bool bound, running;
    atomic_bool stopping;
    pthread_t thread;
    pthread_mutex_t lock; /* of the segments */
    segment segment[SONAR_SEGMENTS_MOST];
    _Atomic size_t bytes;
    size_t peers; /* the thread's own */
    peer peer[PEERS_MOST];
};

/* ---- segments -------------------------------------------------------------------------------- */

static size_t bytes_of(const segment *s) {
    return (size_t)(s->blocks * s->block_bytes);
}

static void unmap(const segment *s) {
    if (s->map)
        munmap(s->map, bytes_of(s));
    if (s->done)
        munmap(s->done, s->blocks * sizeof *s->done);
}

/* Under the lock. */
static segment take_out(sonar_segments *all, size_t i) {
    segment gone = all->segment[i];
    atomic_fetch_sub(&all->bytes, bytes_of(&gone));
    all->segment[i] = (segment){0};
    return gone;
}

/* Lets go of the segment that was left first, if it was before `before_ns`; false: there is none
 * that is not read. */
static bool forget_one(sonar_segments *all, int64_t before_ns) {
    size_t first = SONAR_SEGMENTS_MOST;
    segment gone = {0};
    pthread_mutex_lock(&all->lock);
    for (size_t i = 0; i < SONAR_SEGMENTS_MOST; i++) {
        const segment *s = &all->segment[i];
        if (s->map && s->left_ns && s->left_ns <= before_ns && !s->readers &&
            (first == SONAR_SEGMENTS_MOST || s->left_ns < all->segment[first].left_ns))
            first = i;
    }
    if (first < SONAR_SEGMENTS_MOST)
        gone = take_out(all, first);
    pthread_mutex_unlock(&all->lock);
    unmap(&gone);
    return first < SONAR_SEGMENTS_MOST;
}

/* A place for it, SONAR_SEGMENTS_MOST: there is none. */
static size_t place(sonar_segments *all, const segment *s) {
    size_t i = SONAR_SEGMENTS_MOST;
    do {
        pthread_mutex_lock(&all->lock);
        bool room = bytes_of(s) <= all->spec.bytes_most - atomic_load(&all->bytes);
        for (i = room ? 0 : SONAR_SEGMENTS_MOST; i < SONAR_SEGMENTS_MOST; i++)
            if (!all->segment[i].map)
                break;
        if (i < SONAR_SEGMENTS_MOST) {
            all->segment[i] = *s;
            atomic_fetch_add(&all->bytes, bytes_of(s));
        }
        pthread_mutex_unlock(&all->lock);
    } while (i == SONAR_SEGMENTS_MOST && forget_one(all, INT64_MAX));
    return i;
}

size_t sonar_segments_bytes(const sonar_segments *all) {
    return atomic_load(&all->bytes);
}

bool sonar_segments_find(sonar_segments *all, const void *descriptor, size_t bytes,
                         sonar_shared_block *block) {
    sonar_descriptor d;
    if (bytes != sizeof d)
        return false;
    memcpy(&d, descriptor, sizeof d);
    if (memcmp(d.magic, "SNRM", 4) || d.segment >= SONAR_SEGMENTS_MOST || !d.count)
        return false;
    segment *s = &all->segment[d.segment];
    pthread_mutex_lock(&all->lock);
    bool found = s->map && s->key == d.key && d.block < s->blocks;
    if (found) {
        const uint8_t *head = s->map + d.block * s->block_bytes;
        s->readers++;
        *block = (sonar_shared_block){.data = head + SONAR_BLOCK_HEAD_BYTES,
                                      .bytes = (size_t)s->block_bytes - SONAR_BLOCK_HEAD_BYTES,
                                      .counter = (const _Atomic uint64_t *)(const void *)head,
                                      .count = d.count,
                                      .segment = d.segment,
                                      .number = (size_t)d.block};
    }
    pthread_mutex_unlock(&all->lock);
    return found;
}

void sonar_segments_give_back(sonar_segments *all, const sonar_shared_block *block) {
    segment *s = &all->segment[block->segment];
    pthread_mutex_lock(&all->lock);
    atomic_store_explicit(&s->done[block->number], block->count, memory_order_release);
    s->readers--;
    pthread_mutex_unlock(&all->lock);
}

/* ---- offers ---------------------------------------------------------------------------------- */

/* What is wrong with an offer, NULL if nothing is. */
static const char *fault_of(const sonar_segments *all, const sonar_segment_offer *offer, int fd) {
    const int access = fcntl(fd, F_GETFL), seals = fcntl(fd, F_GET_SEALS);
    struct stat about;
    struct statfs system;
    if (memcmp(offer->magic, "SNRM", 4) || offer->version != VERSION ||
        offer->bytes != sizeof *offer || offer->zero)
        return "not an offer of version 1";
    if (offer->blocks < 1 || offer->blocks > SONAR_SEGMENT_BLOCKS_MOST)
        return "the blocks are not 1 to 65536";
    if (offer->block_bytes % 64 || offer->block_bytes < 128)
        return "the bytes of a block are not a multiple of 64 from 128 on";
    if (offer->block_bytes > all->spec.bytes_most / offer->blocks)
        return "larger than ingest.shared_memory_bytes";
    if (fd < 0 || access < 0 || fstat(fd, &about) || !S_ISREG(about.st_mode) ||
        fstatfs(fd, &system) || (unsigned long)system.f_type != TMPFS_MAGIC)
        return "no memory of memfd_create, without huge pages";
    if (seals < 0 || !(seals & F_SEAL_SHRINK))
        return "the seal F_SEAL_SHRINK is missing";
    if (about.st_size < 0 || (uint64_t)about.st_size < offer->blocks * offer->block_bytes)
        return "smaller than its blocks";
    return NULL;
}

/* A page of numbers that the digitiser may read, that the daemon alone may write and that no one
 * can take away. */
static int make_page(segment *s) {
    const size_t bytes = s->blocks * sizeof *s->done;
    int fd = memfd_create("sonard-done", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
    void *map = MAP_FAILED;
    if (ftruncate(fd, (off_t)bytes) == 0)
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        s->done = map;
    if (map != MAP_FAILED && fcntl(fd, F_ADD_SEALS, seals) == 0)
        return fd;
    close(fd);
    return -1;
}

static const char *map_segment(const sonar_segment_offer *offer, int fd, segment *s, int *page) {
    *s = (segment){.blocks = offer->blocks, .block_bytes = offer->block_bytes};
    void *map = mmap(NULL, bytes_of(s), PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return "cannot be mapped";
    s->map = map;
    /* Wishes: without them the first look at each page takes longer. */
    madvise(map, bytes_of(s), MADV_HUGEPAGE);
    madvise(map, bytes_of(s), MADV_POPULATE_READ);
    randombytes_buf(&s->key, sizeof s->key);
    *page = make_page(s);
    return *page < 0 ? "no memory" : NULL;
}

static const char *accept_offer(sonar_segments *all, peer *p, const sonar_segment_offer *offer,
                                int fd, sonar_segment_answer *answer, int *page) {
    segment s = {0};
    const char *fault = fault_of(all, offer, fd);
    if (!fault)
        fault = map_segment(offer, fd, &s, page);
    if (!fault && (p->segment = place(all, &s)) == SONAR_SEGMENTS_MOST)
        fault = "no room: ingest.shared_memory_bytes, or 256 segments, are in use";
    if (fault) {
        unmap(&s);
        return fault;
    }
    answer->segment = (uint32_t)p->segment;
    answer->key = s.key;
    return NULL;
}

/* ---- connections ----------------------------------------------------------------------------- */

/* One message and the first descriptor with it; others are closed. The bytes, or -1. */
static ssize_t receive(int socket, void *to, size_t bytes, int *fd) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(DESCRIPTORS_MOST * sizeof(int))];
    struct iovec part = {to, bytes};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    *fd = -1;
    ssize_t got = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    for (struct cmsghdr *c = got < 0 ? NULL : CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int one;
            memcpy(&one, CMSG_DATA(c) + i * sizeof one, sizeof one);
            if (*fd < 0)
                *fd = one;
            else
                close(one);
        }
    }
    return got;
}

static bool answer_with(int socket, const sonar_segment_answer *answer, int fd) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec part = {(void *)(uintptr_t)answer, sizeof *answer};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = room;
        m.msg_controllen = sizeof room;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        *c = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    return sendmsg(socket, &m, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof *answer;
}

static void log_offer(const sonar_segments *all, const peer *p, const sonar_segment_offer *offer,
                      const char *fault) {
    struct ucred who = {0};
    socklen_t bytes = sizeof who;
    getsockopt(p->fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes);
    if (fault)
        sonar_log(all->host, SONAR_WARN, "shared memory", "process %d of user %u is refused: %s",
                  (int)who.pid, (unsigned)who.uid, fault);
    else
        sonar_log(all->host, SONAR_INFO, "shared memory",
                  "process %d of user %u lends %llu blocks of %llu bytes", (int)who.pid,
                  (unsigned)who.uid, (unsigned long long)offer->blocks,
                  (unsigned long long)offer->block_bytes);
}

/* False: the connection is over. */
static bool hear(sonar_segments *all, peer *p) {
    sonar_segment_offer offer = {0};
    sonar_segment_answer answer = {
        .magic = {'S', 'N', 'R', 'M'}, .version = VERSION, .bytes = sizeof answer};
    int fd, page = -1;
    ssize_t got = receive(p->fd, &offer, sizeof offer, &fd);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    bool first = got == (ssize_t)sizeof offer && p->segment == SONAR_SEGMENTS_MOST;
    const char *fault = first ? accept_offer(all, p, &offer, fd, &answer, &page) : NULL;
    if (fault) {
        answer.refused = 1;
        snprintf(answer.text, sizeof answer.text, "%s", fault);
    }
    if (first)
        log_offer(all, p, &offer, fault);
    bool answered = first && answer_with(p->fd, &answer, page);
    if (fd >= 0)
        close(fd);
    if (page >= 0)
        close(page);
    return answered && !fault;
}

static void leave(sonar_segments *all, size_t i) {
    const peer p = all->peer[i];
    close(p.fd);
    all->peer[i] = all->peer[--all->peers];
    if (p.segment == SONAR_SEGMENTS_MOST)
        return;
    pthread_mutex_lock(&all->lock);
    all->segment[p.segment].left_ns = sonar_monotonic_ns();
    pthread_mutex_unlock(&all->lock);
}

static void welcome(sonar_segments *all) {
    int fd = accept4(all->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (all->peers == PEERS_MOST) {
        close(fd);
        return;
    }
    all->peer[all->peers++] =
        (peer){.fd = fd, .since_ns = sonar_monotonic_ns(), .segment = SONAR_SEGMENTS_MOST};
}

static void tidy_up(sonar_segments *all) {
    const int64_t now_ns = sonar_monotonic_ns();
    for (size_t i = all->peers; i-- > 0;)
        if (all->peer[i].segment == SONAR_SEGMENTS_MOST &&
            now_ns - all->peer[i].since_ns > offer_within_ns)
            leave(all, i);
    while (forget_one(all, now_ns - kept_ns))
        continue;
}

static void *segments_main(void *arg) {
    sonar_segments *all = arg;
    struct pollfd item[PEERS_MOST + 2];
    while (!atomic_load(&all->stopping)) {
        const size_t peers = all->peers;
        item[0] = (struct pollfd){.fd = all->wake, .events = POLLIN};
        item[1] = (struct pollfd){.fd = all->listener, .events = POLLIN};
        for (size_t i = 0; i < peers; i++)
            item[2 + i] = (struct pollfd){.fd = all->peer[i].fd, .events = POLLIN};
        if (poll(item, (nfds_t)(2 + peers), TICK_MS) > 0) {
            for (size_t i = peers; i-- > 0;)
                if (item[2 + i].revents && !hear(all, &all->peer[i]))
                    leave(all, i);
            if (item[1].revents)
                welcome(all);
        }
        tidy_up(all);
    }
    return NULL;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* The file is made with its mode: umask is the whole process's, but this is at the start. */
static sonar_code listen_at(sonar_segments *all, sonar_error *err) {
    const char *endpoint = all->spec.endpoint;
    struct sockaddr_un address;
    sonar_code code = sonar_endpoint_reserve(endpoint, err);
    if (code)
        return code;
    all->listener = sonar_shared_socket(endpoint, &address, err);
    if (all->listener < 0)
        return SONAR_ESYS;
    unlink(address.sun_path);
    const mode_t before = all->spec.mode ? umask(0777 & ~all->spec.mode) : 0;
    all->bound = bind(all->listener, (struct sockaddr *)&address, sizeof address) == 0;
    if (all->spec.mode)
        umask(before);
    if (!all->bound || listen(all->listener, 32) != 0)
        return sonar_fail(err, SONAR_ESYS, endpoint, "cannot listen: %s", strerror(errno));
    all->path = strdup(address.sun_path);
    return all->path ? SONAR_OK : sonar_fail(err, SONAR_ENOMEM, endpoint, "no memory");
}

sonar_code sonar_segments_create(const sonar_segments_spec *spec, const sonar_host *host,
                                 sonar_segments **out, sonar_error *err) {
    *out = NULL;
    sonar_segments *all = sonar_alloc(1, sizeof *all);
    if (!all)
        return sonar_fail(err, SONAR_ENOMEM, spec->endpoint, "no memory");
    all->spec = *spec;
    all->host = host;
    all->listener = -1;
    all->wake = sonar_wake_create();
    pthread_mutex_init(&all->lock, NULL);
    sonar_code code =
        all->wake < 0 || sodium_init() < 0
            ? sonar_fail(err, SONAR_ESYS, spec->endpoint, "no eventfd, or no randomness")
            : listen_at(all, err);
    if (!code)
        code = sonar_thread_start(host, "sonar-memory", -1, segments_main, all, &all->thread, err);
    all->running = !code;
    if (code)
        sonar_segments_destroy(all);
    else
        *out = all;
    return code;
}

void sonar_segments_destroy(sonar_segments *all) {
    if (!all)
        return;
    atomic_store(&all->stopping, true);
    if (all->running) {
        sonar_wake_signal(all->wake);
        pthread_join(all->thread, NULL);
    }
    for (size_t i = 0; i < all->peers; i++)
        close(all->peer[i].fd);
    for (size_t i = 0; i < SONAR_SEGMENTS_MOST; i++)
        unmap(&all->segment[i]);
    if (all->listener >= 0)
        close(all->listener);
    if (all->path)
        unlink(all->path);
    if (all->wake >= 0)
        close(all->wake);
    pthread_mutex_destroy(&all->lock);
    free(all->path);
    free(all);
}
