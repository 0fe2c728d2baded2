/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A digitiser on the daemon's machine whose samples lie in shared memory (docs/protocol.md).
 * cc -o feed_shared feed_shared.c -lzmq; ./feed_shared ipc:///run/sonard/in /run/sonard/memory */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { CHANNELS = 128, SAMPLES = 512, BLOCKS = 32, FRAME_NS = 64000000 /* 512 at 8000 Hz */ };

struct head {
    char magic[4];
    uint16_t version, bytes;
    uint32_t array, first_channel, channels, samples;
    uint8_t type, layout;
    uint16_t flags;
    uint32_t epoch;
    uint64_t seq, first_sample;
    int64_t utc_ns;
    double fs_hz;
};
struct block {
    _Atomic uint64_t counter;
    uint64_t reserved[7];
    int16_t sample[SAMPLES * CHANNELS];
};
struct descriptor {
    char magic[4];
    uint32_t segment;
    uint64_t key, block, count;
};
struct offer {
    char magic[4];
    uint16_t version, bytes;
    uint64_t blocks, block_bytes, zero;
};
struct answer {
    char magic[4];
    uint16_t version, bytes;
    uint32_t refused, segment;
    uint64_t key;
    char text[104];
};

/* Hands the memory over; the connection stays open for as long as it is lent. */
static _Atomic uint64_t *lend(const char *path, int memory, struct answer *answer) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct offer offer = {{'S', 'N', 'R', 'M'}, 1, sizeof offer, BLOCKS, sizeof(struct block), 0};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(sizeof(int))];
    } c = {0};
    struct iovec part = {&offer, sizeof offer};
    struct msghdr m = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof c};
    int page, s = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    strncpy(at.sun_path, path, sizeof at.sun_path - 1);
    c.align = (struct cmsghdr){
        .cmsg_len = CMSG_LEN(sizeof memory), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&c.align), &memory, sizeof memory);
    if (connect(s, (struct sockaddr *)&at, sizeof at) || sendmsg(s, &m, 0) < 0)
        return NULL;
    part = (struct iovec){answer, sizeof *answer};
    if (recvmsg(s, &m, 0) != sizeof *answer || answer->refused)
        return NULL;
    memcpy(&page, CMSG_DATA(&c.align), sizeof page);
    return mmap(NULL, BLOCKS * 8, PROT_READ, MAP_SHARED, page, 0);
}

int main(int argc, char **argv) {
    struct answer answer;
    int memory = memfd_create("samples", MFD_ALLOW_SEALING);
    if (argc < 3 || ftruncate(memory, BLOCKS * sizeof(struct block)) ||
        fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK))
        return 1;
    struct block *ring =
        mmap(NULL, BLOCKS * sizeof *ring, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    _Atomic uint64_t *done = lend(argv[2], memory, &answer);
    void *push = zmq_socket(zmq_ctx_new(), ZMQ_PUSH);
    if (!done || zmq_connect(push, argv[1]))
        return 1;
    struct timespec due;
    clock_gettime(CLOCK_MONOTONIC, &due);
    struct head h = {{'S', 'N', 'R', 'F'},
                     1,
                     sizeof h,
                     1,
                     0,
                     CHANNELS,
                     SAMPLES,
                     1,
                     0,
                     8 /* in shared memory */,
                     (uint32_t)time(NULL),
                     0,
                     0,
                     0,
                     8000.0};
    uint64_t sent[BLOCKS] = {0};
    const uint64_t frames = argc > 3 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
    for (; h.seq < frames; h.seq++, h.first_sample += SAMPLES) {
        struct block *b = &ring[h.seq % BLOCKS];
        due.tv_nsec += FRAME_NS;
        if (due.tv_nsec >= 1000000000)
            due.tv_nsec -= 1000000000, due.tv_sec++;
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL);
        if (atomic_load(&done[h.seq % BLOCKS]) != sent[h.seq % BLOCKS])
            continue; /* the daemon still has it: this frame is lost */
        atomic_store(&b->counter, 0);
        for (int i = 0; i < SAMPLES * CHANNELS; i++)
            b->sample[i] = (int16_t)rand();
        atomic_store(&b->counter, sent[h.seq % BLOCKS] = h.seq + 1);
        struct descriptor d = {
            {'S', 'N', 'R', 'M'}, answer.segment, answer.key, h.seq % BLOCKS, h.seq + 1};
        zmq_send(push, &h, sizeof h, ZMQ_SNDMORE);
        zmq_send(push, &d, sizeof d, 0);
    }
    for (int i = 0; i < BLOCKS; i++)
        while (atomic_load(&done[i]) != sent[i])
            usleep(1000);
    return 0;
}
