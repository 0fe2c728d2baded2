/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The digitiser's side of shared memory. */
#include "net/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"

enum { VERSION = 1, ANSWER_MS = 10000 };
static const int64_t between_attempts_ns = 100000000;

struct sonar_lender {
    char *endpoint;
    size_t blocks, block_bytes; /* block_bytes: with the head */
    int memory, socket;         /* socket: -1 while the daemon does not have the segment */
    uint8_t *map;
    const _Atomic uint64_t *done; /* [blocks] of the daemon; NULL: nothing was handed over yet */
    uint64_t *count;              /* [block] as it was sent last, 0: never */
    uint64_t last_count;
    size_t next;
    uint32_t segment;
    uint64_t key;
    int64_t sent_ns, tried_ns; /* the last block; the last attempt to hand over */
};

int sonar_shared_socket(const char *endpoint, struct sockaddr_un *address, sonar_error *err) {
    static const char scheme[] = "ipc://";
    const char *path = endpoint + sizeof scheme - 1;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (strncmp(endpoint, scheme, sizeof scheme - 1) || *path == '@' ||
        strlen(path) >= sizeof address->sun_path) {
        sonar_fail(err, SONAR_EINVAL, endpoint, "not ipc://PATH, of at most %zu characters",
                   sizeof address->sun_path - 1);
        return -1;
    }
    memcpy(address->sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0)
        sonar_fail(err, SONAR_ESYS, endpoint, "socket: %s", strerror(errno));
    return fd;
}

/* ---- handing over ---------------------------------------------------------------------------- */

static bool offer(const sonar_lender *l) {
    const sonar_segment_offer what = {.magic = {'S', 'N', 'R', 'M'},
                                      .version = VERSION,
                                      .bytes = sizeof what,
                                      .blocks = l->blocks,
                                      .block_bytes = l->block_bytes};
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof l->memory)] = {0};
    struct iovec part = {(void *)(uintptr_t)&what, sizeof what};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof l->memory), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(c), &l->memory, sizeof l->memory);
    return sendmsg(l->socket, &m, MSG_NOSIGNAL) == (ssize_t)sizeof what;
}

static bool receive_answer(const sonar_lender *l, sonar_segment_answer *answer, int *page) {
    _Alignas(struct cmsghdr) char room[CMSG_SPACE(sizeof *page)];
    struct iovec part = {answer, sizeof *answer};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
    struct pollfd item = {.fd = l->socket, .events = POLLIN};
    *page = -1;
    if (poll(&item, 1, ANSWER_MS) != 1 ||
        recvmsg(l->socket, &m, MSG_CMSG_CLOEXEC) != sizeof *answer)
        return false;
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(page, CMSG_DATA(c), sizeof *page);
    answer->text[sizeof answer->text - 1] = '\0';
    return true;
}

static sonar_code take_page(sonar_lender *l, int page, sonar_error *err) {
    const size_t bytes = l->blocks * sizeof *l->done;
    void *map = page < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, page, 0);
    if (map == MAP_FAILED)
        return sonar_fail(err, SONAR_ESYS, l->endpoint, "the daemon's page: %s", strerror(errno));
    if (l->done)
        munmap((void *)(uintptr_t)l->done, bytes);
    l->done = map;
    memset(l->count, 0, l->blocks * sizeof *l->count); /* no window holds these blocks */
    return SONAR_OK;
}

static void drop_blocks(sonar_lender *l) {
    if (l->socket >= 0)
        close(l->socket);
    l->socket = -1;
}

/* SONAR_EUNAVAILABLE: no daemon answers. */
static sonar_code hand_over(sonar_lender *l, sonar_error *err) {
    struct sockaddr_un address;
    sonar_segment_answer answer;
    int page = -1;
    l->tried_ns = sonar_monotonic_ns();
    l->socket = sonar_shared_socket(l->endpoint, &address, err);
    if (l->socket < 0)
        return SONAR_EINVAL;
    sonar_code code = SONAR_OK;
    if (connect(l->socket, (struct sockaddr *)&address, sizeof address) != 0 || !offer(l) ||
        !receive_answer(l, &answer, &page))
        code = sonar_fail(err, SONAR_EUNAVAILABLE, l->endpoint, "%s", strerror(errno));
    else if (answer.refused)
        code = sonar_fail(err, SONAR_EINVAL, l->endpoint, "the daemon refuses the memory: %s",
                          answer.text);
    else
        code = take_page(l, page, err);
    if (page >= 0)
        close(page);
    if (code) {
        drop_blocks(l);
        return code;
    }
    l->segment = answer.segment;
    l->key = answer.key;
    return SONAR_OK;
}

bool sonar_lender_attached(sonar_lender *l) {
    char byte;
    sonar_error err;
    if (l->socket >= 0 && recv(l->socket, &byte, 1, MSG_DONTWAIT) == 0)
        drop_blocks(l);
    if (l->socket < 0 && sonar_monotonic_ns() - l->tried_ns > between_attempts_ns)
        hand_over(l, &err);
    return l->socket >= 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static sonar_code make_memory(sonar_lender *l, sonar_error *err) {
    const size_t bytes = l->blocks * l->block_bytes;
    l->memory = memfd_create("sonar-samples", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (l->memory < 0 || ftruncate(l->memory, (off_t)bytes) != 0 ||
        fcntl(l->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        return sonar_fail(err, SONAR_ESYS, l->endpoint, "memfd_create: %s", strerror(errno));
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, l->memory, 0);
    if (map == MAP_FAILED)
        return sonar_fail(err, SONAR_ENOMEM, l->endpoint, "no memory for %zu bytes", bytes);
    l->map = map;
    madvise(map, bytes, MADV_HUGEPAGE); /* a wish */
    return SONAR_OK;
}

sonar_code sonar_lender_create(const char *endpoint, size_t blocks, size_t block_bytes,
                               sonar_lender **out, sonar_error *err) {
    *out = NULL;
    sonar_lender *l = sonar_alloc(1, sizeof *l);
    if (!l)
        return sonar_fail(err, SONAR_ENOMEM, endpoint, "no memory");
    l->memory = l->socket = -1;
    l->blocks = blocks;
    l->block_bytes = SONAR_BLOCK_HEAD_BYTES + ((block_bytes + 63) & ~(size_t)63);
    l->endpoint = strdup(endpoint);
    l->count = sonar_alloc(blocks, sizeof *l->count);
    sonar_code code = l->endpoint && l->count
                          ? make_memory(l, err)
                          : sonar_fail(err, SONAR_ENOMEM, endpoint, "no memory");
    if (!code)
        code = hand_over(l, err);
    if (code && code != SONAR_EUNAVAILABLE) {
        sonar_lender_destroy(l);
        return code;
    }
    *out = l;
    return SONAR_OK;
}

void sonar_lender_destroy(sonar_lender *l) {
    if (!l)
        return;
    drop_blocks(l);
    if (l->done)
        munmap((void *)(uintptr_t)l->done, l->blocks * sizeof *l->done);
    if (l->map)
        munmap(l->map, l->blocks * l->block_bytes);
    if (l->memory >= 0)
        close(l->memory);
    free(l->count);
    free(l->endpoint);
    free(l);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static _Atomic uint64_t *counter_of(const sonar_lender *l, size_t block) {
    return (_Atomic uint64_t *)(void *)(l->map + block * l->block_bytes);
}

void *sonar_lender_samples(const sonar_lender *l, size_t block) {
    return l->map + block * l->block_bytes + SONAR_BLOCK_HEAD_BYTES;
}

static bool is_done(const sonar_lender *l, size_t block) {
    return !l->count[block] ||
           (l->done &&
            atomic_load_explicit(&l->done[block], memory_order_acquire) == l->count[block]);
}

void *sonar_lender_begin(sonar_lender *l, int patience_ms) {
    if (!sonar_lender_attached(l))
        return NULL;
    const bool lost =
        patience_ms >= 0 && sonar_monotonic_ns() - l->sent_ns > (int64_t)patience_ms * 1000000;
    if (!is_done(l, l->next) && !lost)
        return NULL;
    atomic_exchange(counter_of(l, l->next), 0);
#ifndef __SANITIZE_THREAD__ /* which knows no fences, and nothing of other processes */
    atomic_thread_fence(memory_order_seq_cst);
#endif
    return l->map + l->next * l->block_bytes + SONAR_BLOCK_HEAD_BYTES;
}

void sonar_lender_end(sonar_lender *l, uint8_t descriptor[SONAR_DESCRIPTOR_BYTES]) {
    const sonar_descriptor d = {.magic = {'S', 'N', 'R', 'M'},
                                .segment = l->segment,
                                .key = l->key,
                                .block = l->next,
                                .count = ++l->last_count};
    _Static_assert(sizeof d == SONAR_DESCRIPTOR_BYTES, "no padding");
    atomic_store_explicit(counter_of(l, l->next), d.count, memory_order_release);
    memcpy(descriptor, &d, sizeof d);
    l->count[l->next] = d.count;
    l->next = (l->next + 1) % l->blocks;
    l->sent_ns = sonar_monotonic_ns();
}

bool sonar_lender_is_done(const sonar_lender *l) {
    for (size_t i = 0; i < l->blocks; i++)
        if (!is_done(l, i))
            return false;
    return true;
}
