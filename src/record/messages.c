/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Puts published messages into pieces, each with a head in front of it as in the file. */
#include <endian.h>
#include <string.h>
#include <time.h>

#include "core/count.h"
#include "record/pieces.h"

/* offset 0 magic "SNRM", 4 version, 6 bytes of this, 8 topic, 12 header, 16 array, 24 UTC, 32 zero
 */
static const uint8_t lead[8] = {'S', 'N', 'R', 'M', 1, 0, SONAR_MESSAGE_HEAD_BYTES, 0};

void sonar_message_head_encode(const sonar_message_head *head,
                               uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES]) {
    const uint32_t topic = htole32(head->topic_bytes), header = htole32(head->header_bytes);
    const uint64_t array = htole64(head->array_bytes), utc = htole64((uint64_t)head->utc_ns);
    memset(bytes, 0, SONAR_MESSAGE_HEAD_BYTES);
    memcpy(bytes, lead, sizeof lead);
    memcpy(bytes + 8, &topic, 4);
    memcpy(bytes + 12, &header, 4);
    memcpy(bytes + 16, &array, 8);
    memcpy(bytes + 24, &utc, 8);
}

unsigned sonar_message_head_version(const uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES]) {
    return memcmp(bytes, lead, 4) ? 0 : bytes[4] | (unsigned)bytes[5] << 8;
}

bool sonar_message_head_decode(const uint8_t bytes[SONAR_MESSAGE_HEAD_BYTES],
                               sonar_message_head *head) {
    const uint64_t most = (uint64_t)1 << 40;
    const int64_t utc_most_ns =
        4000000000000000000; /* limit at which differences of two times cannot overflow */
    uint32_t topic, header;
    uint64_t array, utc;
    memcpy(&topic, bytes + 8, 4);
    memcpy(&header, bytes + 12, 4);
    memcpy(&array, bytes + 16, 8);
    memcpy(&utc, bytes + 24, 8);
    *head = (sonar_message_head){le32toh(topic), le32toh(header), le64toh(array),
                                 (int64_t)le64toh(utc)};
    return !memcmp(bytes, lead, sizeof lead) && head->topic_bytes && head->topic_bytes < 256 &&
           head->header_bytes && head->array_bytes < most && head->utc_ns >= 0 &&
           head->utc_ns < utc_most_ns;
}

/* ---- output thread --------------------------------------------------------------------------- */

/* The bytes of one message, written to pieces. */
typedef struct run {
    sonar_pieces *pieces;
    sonar_piece *piece;
} run;

static void put(run *r, const void *data, size_t bytes) {
    const uint8_t *from = data;
    while (bytes > 0) {
        if (r->piece->used == r->pieces->piece_bytes) {
            sonar_piece *next = sonar_ring_pop(r->pieces->empty);
            *next = (sonar_piece){.bytes = next->bytes, .lack = next->lack};
            sonar_pieces_hand_over(r->pieces, r->piece);
            r->piece = next;
        }
        const size_t room = r->pieces->piece_bytes - r->piece->used;
        const size_t some = sonar_min_size(bytes, room);
        memcpy(r->piece->bytes + r->piece->used, from, some);
        r->piece->used += some;
        from += some;
        bytes -= some;
    }
}

/* Only this thread takes empty pieces, so the pieces counted here stay available. */
void sonar_messages_take(sonar_pieces *p, sonar_surface surface, const char *header,
                         const void *data, size_t bytes) {
    const char *topic = sonar_topic_name(surface);
    const sonar_message_head head = {(uint32_t)strlen(topic), (uint32_t)strlen(header), bytes,
                                     sonar_utc_ns()};
    const uint64_t whole =
        SONAR_MESSAGE_HEAD_BYTES + (uint64_t)head.topic_bytes + head.header_bytes + bytes;
    if (sonar_ring_count(p->empty) * p->piece_bytes < whole) {
        sonar_count_add(&p->counters->dropped[SONAR_RECORD_SLOW], 1);
        return;
    }
    uint8_t lead_bytes[SONAR_MESSAGE_HEAD_BYTES];
    sonar_message_head_encode(&head, lead_bytes);
    run r = {p, sonar_ring_pop(p->empty)};
    *r.piece = (sonar_piece){.bytes = r.piece->bytes,
                             .lack = r.piece->lack,
                             .begins = true,
                             .surface = surface,
                             .message_bytes = whole,
                             .utc_ns = head.utc_ns};
    put(&r, lead_bytes, sizeof lead_bytes);
    put(&r, topic, head.topic_bytes);
    put(&r, header, head.header_bytes);
    put(&r, data, bytes);
    r.piece->ends = true;
    sonar_pieces_hand_over(p, r.piece);
}
