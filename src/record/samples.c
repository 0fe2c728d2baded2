/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Puts stretches of samples into pieces. Ingest thread: nothing here waits or allocates. */
#include <stdlib.h>
#include <string.h>

#include "core/count.h"
#include "record/pieces.h"

bool sonar_samples_wanted(void *pieces) {
    return atomic_load_explicit(&((sonar_pieces *)pieces)->wanted, memory_order_acquire);
}

static void hand_over_open(sonar_pieces *p) {
    if (p->open)
        sonar_pieces_hand_over(p, p->open);
    p->open = NULL;
}

void sonar_samples_flush(void *pieces) {
    sonar_pieces *p = pieces;
    hand_over_open(p);
    atomic_fetch_add_explicit(&p->flushes, 1, memory_order_release);
}

/* True if sample `from` of the stretch continues the piece. Its UTC always does, because pieces are
 * short. */
static bool follows(const sonar_piece *piece, const sonar_stretch *s, size_t from) {
    const sonar_stretch *have = &piece->about;
    return have->timeline == s->timeline && have->flags == s->flags &&
           have->first_sample + have->samples == s->first_sample + from;
}

/* Adds the gaps of [from, from + samples) of the stretch, relative to the piece's first sample.
 * False if they do not all fit. */
static bool add_lacks(const sonar_pieces *p, sonar_piece *piece, const sonar_stretch *s,
                      size_t from, size_t samples) {
    const size_t before = piece->lacks, at = piece->about.samples;
    for (size_t i = 0; i < s->lacks; i++) {
        const size_t begin = sonar_max_size(s->lack[i].begin, from);
        const size_t end = sonar_min_size(s->lack[i].end, from + samples);
        if (begin >= end)
            continue;
        if (piece->lacks == p->lacks_most) {
            piece->lacks = before;
            return false;
        }
        piece->lack[piece->lacks++] =
            (sonar_lack){s->lack[i].first_channel, s->lack[i].channels,
                         (uint32_t)(begin - from + at), (uint32_t)(end - from + at)};
    }
    return true;
}

static void copy_rows(const sonar_pieces *p, sonar_piece *piece, const sonar_stretch *s,
                      size_t from, size_t samples) {
    const size_t capacity = s->ring.shape[1], column = (s->column + from) % capacity;
    const size_t first = sonar_min_size(samples, capacity - column), width = p->width;
    const uint8_t *row = s->ring.data;
    uint8_t *to = piece->bytes + piece->about.samples * width;
    for (size_t k = 0; k < p->channels; k++) {
        memcpy(to, row + column * width, first * width);
        memcpy(to + first * width, row, (samples - first) * width);
        row += capacity * width;
        to += p->samples * width;
    }
}

/* Writes zeros for missing samples. */
static void clear_lacks(const sonar_pieces *p, sonar_piece *piece, size_t from_lack) {
    for (size_t i = from_lack; i < piece->lacks; i++) {
        const sonar_lack *l = &piece->lack[i];
        for (size_t k = l->first_channel; k < (size_t)l->first_channel + l->channels; k++)
            memset(piece->bytes + (k * p->samples + l->begin) * p->width, 0,
                   (l->end - l->begin) * p->width);
    }
}

/* The piece that continues at sample `from` of the stretch; NULL: no piece is empty. */
static sonar_piece *piece_for(sonar_pieces *p, const sonar_stretch *s, size_t from) {
    if (p->open && !follows(p->open, s, from))
        hand_over_open(p);
    if (p->open)
        return p->open;
    p->open = sonar_ring_pop(p->empty);
    if (!p->open)
        return NULL;
    p->open->about = *s;
    p->open->about.first_sample += from;
    p->open->about.samples = 0;
    if (s->utc_ns)
        p->open->about.utc_ns += (int64_t)((double)from * p->ns_a_sample + 0.5);
    p->open->lacks = 0;
    return p->open;
}

void sonar_samples_take(void *pieces, const sonar_stretch *s) {
    sonar_pieces *p = pieces;
    for (size_t from = 0; from < s->samples;) {
        sonar_piece *piece = piece_for(p, s, from);
        if (!piece) {
            sonar_count_add(&p->counters->dropped[SONAR_RECORD_SLOW], s->samples - from);
            return;
        }
        const size_t samples = sonar_min_size(s->samples - from, p->samples - piece->about.samples);
        const size_t lacks = piece->lacks;
        if (!add_lacks(p, piece, s, from, samples)) {
            hand_over_open(p); /* an empty piece has room for the gaps of a whole stretch */
            continue;
        }
        copy_rows(p, piece, s, from, samples);
        clear_lacks(p, piece, lacks);
        piece->about.samples += samples;
        from += samples;
        if (piece->about.samples == p->samples)
            hand_over_open(p);
    }
}
