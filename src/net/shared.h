/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples in shared memory: a digitiser on the same machine writes them to a segment, a sealed
 * memfd, that the daemon maps and reads in place; only headers and descriptors go over ZeroMQ. All
 * formats are in docs/protocol.md ("Samples in shared memory").
 *
 * A segment consists of blocks of equal size. A block begins with 64 bytes, of which the first 8
 * are its counter, and its samples follow. The counter is 0 while the samples are written and a
 * number that never comes again, not 0, from then on; the descriptor repeats the number. The daemon
 * looks at it before it reads and once more after: a block that was overwritten meanwhile is
 * counted and never published.
 *
 * Each side writes to memory of its own alone. In the daemon's, a page of numbers for each segment,
 * stands for each block the last number that it has done with.
 */
#ifndef SONAR_SHARED_H
#define SONAR_SHARED_H

#include "sonar/sonar.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    SONAR_DESCRIPTOR_BYTES = 32, /* the second part of a message */
    SONAR_BLOCK_HEAD_BYTES = 64,
    SONAR_SEGMENTS_MOST = 256,
    SONAR_SEGMENT_BLOCKS_MOST = 65536
};

/* ---- the daemon's side ----------------------------------------------------------------------- */

typedef struct sonar_segments sonar_segments;

typedef struct sonar_segments_spec {
    const char *endpoint; /* ipc://PATH, where digitisers hand segments over */
    unsigned mode;        /* of the socket; 0: umask's */
    size_t bytes_most;    /* of all segments together */
} sonar_segments_spec;

/* Listens, with a thread of its own. SONAR_ESYS with the endpoint in `where`. */
sonar_code sonar_segments_create(const sonar_segments_spec *spec, const sonar_host *host,
                                 sonar_segments **segments, sonar_error *err);
void sonar_segments_destroy(sonar_segments *segments);
/* Mapped now; any thread. */
size_t sonar_segments_bytes(const sonar_segments *segments);

/* Samples of a message. */
typedef struct sonar_shared_block {
    const void *data;
    size_t bytes;                    /* that the block can hold */
    const _Atomic uint64_t *counter; /* not to be believed further than that it may change */
    uint64_t count;                  /* what it has to be */
    size_t segment, number;          /* for give_back */
} sonar_shared_block;

/* The block that a descriptor names, mapped until it is given back; false: there is none. Nothing
 * of the descriptor is believed. Any thread. */
bool sonar_segments_find(sonar_segments *segments, const void *descriptor, size_t bytes,
                         sonar_shared_block *block);
/* Once for every block that was found: tells the digitiser that it may write to it. Any thread. */
void sonar_segments_give_back(sonar_segments *segments, const sonar_shared_block *block);

/* ---- a digitiser's side ---------------------------------------------------------------------- */

typedef struct sonar_lender sonar_lender;

/* Makes a segment of `blocks` blocks for `bytes` bytes of samples each. It is handed over at once,
 * or as soon as the daemon is there. SONAR_ESYS, SONAR_ENOMEM; SONAR_EINVAL: the daemon refused, in
 * its words. One thread. */
sonar_code sonar_lender_create(const char *endpoint, size_t blocks, size_t block_bytes,
                               sonar_lender **lender, sonar_error *err);
void sonar_lender_destroy(sonar_lender *lender);
/* Whether the daemon has the segment; one that was restarted is given it again. */
bool sonar_lender_attached(sonar_lender *lender);
/* Where the samples of the next block go; NULL: the daemon has not done with it, but after
 * patience_ms (-1: never) it is taken for lost. */
void *sonar_lender_begin(sonar_lender *lender, int patience_ms);
/* The samples of one of the blocks, for who fills all of them before they are sent. */
void *sonar_lender_samples(const sonar_lender *lender, size_t block);
/* The samples of the block begun last are there: writes what the message's second part is. */
void sonar_lender_end(sonar_lender *lender, uint8_t descriptor[SONAR_DESCRIPTOR_BYTES]);
/* The daemon has done with all blocks. */
bool sonar_lender_is_done(const sonar_lender *lender);

/* ---- formats --------------------------------------------------------------------------------- */

typedef struct sonar_descriptor {
    char magic[4]; /* SNRM */
    uint32_t segment;
    uint64_t key, block, count;
} sonar_descriptor;

/* From the digitiser, with the segment's descriptor in SCM_RIGHTS. */
typedef struct sonar_segment_offer {
    char magic[4]; /* SNRM */
    uint16_t version, bytes;
    uint64_t blocks, block_bytes; /* block_bytes: with its head, a multiple of 64 */
    uint64_t zero;
} sonar_segment_offer;

/* The answer, with the page of numbers in SCM_RIGHTS where `refused` is 0. */
typedef struct sonar_segment_answer {
    char magic[4];
    uint16_t version, bytes;
    uint32_t refused, segment;
    uint64_t key;
    char text[104]; /* why it was refused */
} sonar_segment_answer;

/* Opens a socket for `endpoint` and fills its address; -1: *err is set. */
int sonar_shared_socket(const char *endpoint, struct sockaddr_un *address, sonar_error *err);

#endif
